"""Parameters that a server rejects: dropped, remembered, and the call retried at once."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from arena.calls import capabilities
from arena.calls.capabilities import Probed, capability_of, fitted, probe_endpoint
from arena.calls.models import Capability
from arena.calls.providers.base import (
    EndpointStoppedError,
    Message,
    Request,
    UnsupportedParameterError,
)
from tests.arena.ledger import Model, Question, execute, paid_call
from tests.factories import MODEL, NOW

pytestmark = pytest.mark.django_db
PLAIN = (Message("user", "Hi"),)


def test_a_parameter_that_is_rejected_is_left_out_at_once(model: Model) -> None:
    model.outcomes = [UnsupportedParameterError("HTTP 400: seed", "seed")]
    call = execute(paid_call(), Question(seed=1, max_tokens=9))
    assert (call.state, call.dropped, call.requests) == ("done", ["seed"], 2)
    assert [dict(r.parameters) for r in model.requests] == [
        {"seed": 1, "max_tokens": 9},
        {"max_tokens": 9},
    ]
    assert Capability.objects.get().seed is False


def test_the_next_call_does_not_send_it_and_says_so(model: Model) -> None:
    model.outcomes = [UnsupportedParameterError("HTTP 400: top_k", "top_k")]
    execute(paid_call(), Question(top_k=1))
    call = execute(paid_call(), Question(top_k=1))
    assert (call.dropped, call.requests, len(model.requests)) == (["top_k"], 1, 3)
    assert Capability.objects.get().dropped == ["top_k"]


def test_it_costs_no_try_and_no_money(model: Model) -> None:
    model.outcomes = [UnsupportedParameterError("HTTP 400", name) for name in "abcdefg"]
    call = execute(paid_call(), Question(**dict.fromkeys("abcdefg", 1)))
    assert (call.state, call.requests, call.cost, call.reserved) == ("done", 8, 20_000, 0)


def test_what_the_provider_knows_beforehand_is_no_request(model: Model) -> None:
    model.outcomes = [UnsupportedParameterError("Not here.", "seed", sent=False)]
    call = execute(paid_call(), Question(seed=1))
    assert (call.state, call.requests) == ("done", 1)


def test_a_limit_is_sent_under_the_name_that_the_server_wants(model: Model) -> None:
    model.outcomes = [UnsupportedParameterError("HTTP 400", "max_tokens", "max_completion_tokens")]
    call = execute(paid_call(), Question(max_tokens=9))
    assert dict(model.requests[1].parameters) == {"max_completion_tokens": 9}
    assert call.dropped == ["max_tokens -> max_completion_tokens"]


def test_a_server_that_turns_down_the_same_again_ends_the_call(model: Model) -> None:
    model.otherwise = UnsupportedParameterError("HTTP 400: seed", "seed")
    call = execute(paid_call(), Question(seed=1))
    assert (call.state, call.error, call.requests) == ("failed", "HTTP 400: seed", 2)


def test_a_server_that_wants_two_names_by_turns_ends_the_call(model: Model) -> None:
    names = ["max_tokens", "max_completion_tokens"]
    model.outcomes = [
        UnsupportedParameterError("HTTP 400", *pair) for pair in (names, names[::-1], names)
    ]
    assert execute(paid_call(), Question(max_tokens=9)).state == "failed"


@pytest.mark.parametrize("name", ["json_schema", "logprobs", "temperature", "seed"])
def test_an_ability_that_is_missing_is_not_asked_for(name: str) -> None:
    request = Request(MODEL, PLAIN, {"temperature": 0, "seed": 1}, {"type": "object"}, True)
    less, dropped = fitted(request, Capability(endpoint="paid", model=MODEL, **{name: False}))
    assert dropped == [name]
    assert less == request.without(name)
    assert fitted(request, Capability(endpoint="paid", model=MODEL)) == (request, [])
    assert fitted(request, None) == (request, [])


def test_a_probe_is_stored_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    Capability.objects.create(endpoint="paid", model=MODEL, dropped=["top_k"])
    answer(monkeypatch, json_schema=True, seed=False)
    probed = probe_endpoint("paid", MODEL, NOW)
    assert capability_of("paid", MODEL) == probed
    assert (probed.json_schema, probed.seed, probed.probed_at) == (True, False, NOW)
    assert probed.dropped == []


def test_a_server_that_is_dead_is_a_sentence(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, ok=False, problem="No connection.")
    with pytest.raises(EndpointStoppedError, match="No connection"):
        probe_endpoint("paid", MODEL, NOW)
    assert not Capability.objects.exists()


def answer(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    values = {
        "ok": True,
        "problem": "",
        "json_schema": False,
        "temperature": True,
        "seed": True,
        "logprobs": False,
        "requests": 4,
        "tokens_in": 40,
        "tokens_out": 20,
    }
    monkeypatch.setattr(capabilities, "probe", lambda provider, model: Probed(**values | fields))


@pytest.mark.django_db(transaction=True)
def test_asking_what_a_model_can_do_costs_no_query_per_call(model: Model) -> None:
    assert capability_of("paid", MODEL) is None
    with CaptureQueriesContext(connection) as asked:
        assert capability_of("paid", MODEL) is None
    assert len(asked) == 0
    Capability.objects.create(endpoint="paid", model=MODEL, seed=False)
    assert capability_of("paid", MODEL) is not None
