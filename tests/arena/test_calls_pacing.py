"""The pace of an endpoint: what the operator allows per minute, shared by all workers."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arena.calls import paces
from arena.calls.models import Call, EndpointPace, Price
from arena.calls.paces import give_back, hold, take_turn
from arena.calls.providers.base import RetryableError
from arena.endpoints import Endpoint
from tests.arena.ledger import Model, execute, hand_out, says
from tests.factories import MODEL, NOW, make_call, make_run

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def endpoint(
    requests: int | None = None, tokens: int | None = None, name: str = "paced"
) -> Endpoint:
    limits = {"requests_per_minute": requests, "tokens_per_minute": tokens}
    return Endpoint(name, "openai", "http://127.0.0.1:9", **limits)  # type: ignore[arg-type]


def admitted(one: Endpoint, minutes: float, step: float, tokens: int = 1) -> list[datetime]:
    """When requests are allowed if one is made every `step` seconds."""
    times = [NOW + timedelta(seconds=step * i) for i in range(int(minutes * 60 / step))]
    return [at for at in times if take_turn(endpoint=one, tokens=tokens, now=at) is None]


def most_in_a_minute(times: list[datetime]) -> int:
    return max(sum(start <= at < start + MINUTE for at in times) for start in times)


def test_an_endpoint_without_limits_costs_no_query() -> None:
    with CaptureQueriesContext(connection) as asked:
        assert take_turn(endpoint=endpoint(), tokens=10**9, now=NOW) is None
        hold(endpoint=endpoint(), until=NOW + MINUTE)
        give_back(endpoint=endpoint(), tokens=5)
    assert len(asked) == 0


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(limit=st.integers(1, 60), step=st.floats(0.2, 3.0))
def test_no_minute_sees_more_requests_than_allowed(db: Any, limit: int, step: float) -> None:
    EndpointPace.objects.all().delete()
    times = admitted(endpoint(limit), 2.5, step)
    assert most_in_a_minute(times) <= limit


def test_the_limit_is_used_up() -> None:
    times = admitted(endpoint(120), 3, 0.1)
    assert len(times) > 0.93 * 3 * 120


def test_a_few_may_come_at_once_and_then_one_after_the_other() -> None:
    one = endpoint(40)
    turns = [take_turn(endpoint=one, tokens=1, now=NOW) for _ in range(5)]
    assert turns[:3] == [None] * 3
    later = turns[3]
    assert later is not None
    assert take_turn(endpoint=one, tokens=1, now=later) is None


def test_a_denied_turn_does_not_count() -> None:
    one = endpoint(1)
    assert take_turn(endpoint=one, tokens=1, now=NOW) is None
    for _ in range(5):
        assert take_turn(endpoint=one, tokens=1, now=NOW) is not None
    assert take_turn(endpoint=one, tokens=1, now=NOW + MINUTE) is None


def test_those_that_are_denied_do_not_all_come_back_at_once() -> None:
    one = endpoint(1)
    turns = {take_turn(endpoint=one, tokens=1, now=NOW) for _ in range(6)}
    assert len(turns) == 6


def test_tokens_are_limited_too() -> None:
    one = endpoint(tokens=6000)
    times = admitted(one, 5, 0.5, tokens=500)
    assert 5 * 12 * 0.9 < len(times) <= 5 * 12
    assert most_in_a_minute(times) <= 12


def test_a_request_above_the_limit_waits_for_all_before() -> None:
    one = endpoint(tokens=600)
    assert take_turn(endpoint=one, tokens=6000, now=NOW) is None
    assert take_turn(endpoint=one, tokens=1, now=NOW + 9 * MINUTE) is not None
    assert take_turn(endpoint=one, tokens=1, now=NOW + 11 * MINUTE) is None


def test_tokens_that_were_not_used_are_given_back() -> None:
    one = endpoint(tokens=600)
    take_turn(endpoint=one, tokens=6000, now=NOW)
    give_back(endpoint=one, tokens=5990)
    assert take_turn(endpoint=one, tokens=1, now=NOW + timedelta(seconds=2)) is None


@pytest.mark.parametrize("limits", [(60, None), (None, 6000), (60, 6000)])
def test_a_server_that_names_a_time_is_left_alone_until_then(limits: Any) -> None:
    one = endpoint(*limits)
    hold(endpoint=one, until=NOW + MINUTE)
    assert take_turn(endpoint=one, tokens=1, now=NOW + 0.99 * MINUTE) is not None
    assert take_turn(endpoint=one, tokens=1, now=NOW + 1.01 * MINUTE) is None


def test_a_hold_never_shortens_a_longer_one() -> None:
    one = endpoint(60)
    hold(endpoint=one, until=NOW + 2 * MINUTE)
    hold(endpoint=one, until=NOW + MINUTE)
    assert take_turn(endpoint=one, tokens=1, now=NOW + 1.5 * MINUTE) is not None


@pytest.fixture
def paced(model: Model, settings: Any) -> Model:
    """The model, at an endpoint that takes two requests a minute."""
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"paced": endpoint(2)}
    Price.objects.create(endpoint="paced", model=MODEL, input_per_million=0, output_per_million=0)
    return model


def test_an_early_call_is_put_off_and_counts_no_request(paced: Model) -> None:
    run = make_run()
    first, second = (execute(make_call(run, endpoint="paced")) for _ in range(2))
    assert (first.state, second.state, second.requests) == ("done", "waiting", 0)
    assert second.due_at > NOW + timedelta(seconds=20)
    assert len(paced.requests) == 1
    assert hand_out(second.due_at) == [second.pk]


def test_retry_after_stops_the_other_calls_too(paced: Model) -> None:
    run = make_run()
    paced.outcomes = [RetryableError("HTTP 429", retry_after=300)]
    execute(make_call(run, endpoint="paced"))
    other = execute(make_call(run, endpoint="paced"))
    assert (other.state, other.requests) == ("waiting", 0)
    assert other.due_at > NOW + timedelta(seconds=290)


def test_a_short_answer_gives_its_tokens_back(paced: Model, settings: Any) -> None:
    one = endpoint(tokens=3000)
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"paced": one}
    paced.otherwise = says("A", 10, 10)
    run = make_run()
    assert execute(make_call(run, endpoint="paced")).state == "done"
    assert execute(make_call(run, endpoint="paced")).state == "done"


def test_as_many_calls_are_handed_out_as_can_soon_be_made(paced: Model, settings: Any) -> None:
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"paced": endpoint(30)}
    run = make_run()
    slow = {make_call(run, endpoint="paced").pk for _ in range(9)}
    quick = {make_call(run).pk for _ in range(4)}
    rung = hand_out()
    assert (len(slow & set(rung)), quick <= set(rung)) == (5, True)
    assert hand_out() == []
    Call.objects.filter(pk=min(slow)).update(state="done")
    assert len(hand_out()) == 1


def test_the_jitter_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    one = endpoint(600)
    while (later := take_turn(endpoint=one, tokens=1, now=NOW)) is None:
        pass
    assert later - NOW < timedelta(seconds=2 * paces.LEAST_JITTER + 0.1)
