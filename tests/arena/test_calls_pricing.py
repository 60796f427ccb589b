"""Prices: set by an operator, or from the settings; unknown is not free."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.template import Context, Template
from django.test.utils import CaptureQueriesContext

from arena.calls.models import Capability, Price
from arena.calls.prices import Rate, price_of
from arena.endpoints import Endpoint
from arena.services.runs import resume_run
from tests.arena.ledger import Model, add_requesters, execute
from tests.factories import DOLLAR, MODEL, NOW, make_call, make_run

pytestmark = pytest.mark.django_db


def run_command(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def test_scripted_costs_nothing_and_unpriced_is_unknown(model: Model) -> None:
    assert price_of("scripted", "anything") == Rate(0, 0)
    assert price_of("paid", "another") is None
    assert price_of("gone", MODEL) is None


def test_an_operators_entry_goes_before_the_settings(model: Model) -> None:
    assert price_of("paid", MODEL) == Rate(DOLLAR, 2 * DOLLAR)
    run_command("price", "paid", MODEL, "--input", "0.15", "--output", "0.6")
    assert price_of("paid", MODEL) == Rate(150_000_000, 600_000_000)
    run_command("price", "paid", MODEL, "--input", "0", "--output", "0")
    assert price_of("paid", MODEL) == Rate(0, 0)
    assert Price.objects.count() == 1


def test_without_a_price_the_run_pauses_and_names_the_command(model: Model) -> None:
    run = make_run(cap=DOLLAR)
    add_requesters(run, "judge")
    call = execute(make_call(run, endpoint="paid", model="new-model"))
    run.refresh_from_db()
    assert (call.state, call.requests, run.state) == ("waiting", 0, "paused")
    assert "`manage.py price paid new-model --input USD --output USD`" in run.pause_reason
    assert len(run.pause_reason) < 300
    run_command("price", "paid", "new-model", "--input", "1", "--output", "1")
    resume_run(run_id=run.pk, now=NOW)
    assert execute(call).state == "done"


@pytest.mark.parametrize("bad", ["-1", "x", "NaN", "Infinity", "1e9", "0.0000000001", ""])
def test_an_invalid_price_is_refused_with_a_reason(model: Model, bad: str) -> None:
    with pytest.raises(CommandError, match=r"dollars|digits|decimals|Usage"):
        run_command("price", "paid", MODEL, "--input", bad, "--output", "1")
    assert not Price.objects.exists()


def test_half_a_price_and_an_unknown_endpoint_are_refused(model: Model) -> None:
    with pytest.raises(CommandError, match="Usage"):
        run_command("price", "paid", MODEL, "--input", "1")
    with pytest.raises(CommandError, match="no model endpoint called 'gone'"):
        run_command("price", "gone", MODEL, "--input", "1", "--output", "1")


def test_prices_are_listed(model: Model) -> None:
    run_command("price", "paid", "other", "--input", "0.15", "--output", "0.6")
    listed = run_command("price")
    assert "paid:m-1  $1.00 in, $2.00 out per million tokens (settings)" in listed
    assert "paid:other  $0.15 in, $0.60 out per million tokens (entered)" in listed


def test_an_empty_list_says_so() -> None:
    assert "No prices have been set" in run_command("price")


def test_endpoints_are_listed_and_no_key_is_shown(
    model: Model, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")
    names = {"open": "", "keyed": "SOME_KEY", "keyless": "NO_SUCH_KEY"}
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {
        name: Endpoint(name, "openai", "http://127.0.0.1:9", key_env=key, requests_per_minute=600)
        for name, key in names.items()
    }
    Capability.objects.create(endpoint="open", model="m", seed=False, dropped=["top_k"])
    listed = run_command("endpoints")
    assert "sk-very" not in listed
    assert "keyed (openai, http://127.0.0.1:9)\n  key: set\n  limits: 600 requests per" in listed
    assert "keyless (openai, http://127.0.0.1:9)\n  key: MISSING. The key of" in listed
    assert "price of m-1: $1.00 in, $2.00 out" in listed
    assert "m: json_schema not tried, temperature not tried, seed no" in listed
    assert "not accepted: top_k" in listed


def test_a_probe_that_finds_nobody_is_a_sentence(settings: Any) -> None:
    dead = Endpoint("dead", "openai", "http://127.0.0.1:9/v1", timeout=1)
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"dead": dead}
    with pytest.raises(CommandError, match=r"dead:m: .*connection"):
        run_command("endpoints", "--probe", "dead:m")
    with pytest.raises(CommandError, match="no model endpoint called 'gone'"):
        run_command("endpoints", "--probe", "gone:m")
    with pytest.raises(CommandError, match="takes NAME:MODEL"):
        run_command("endpoints", "--probe", "dead")


def test_a_probe_is_listed() -> None:
    listed = run_command("endpoints", "--probe", "scripted:scripted-1")
    assert "scripted-1: json_schema" in listed
    assert Capability.objects.get().probed_at is not None


@pytest.mark.django_db(transaction=True)
def test_a_cached_price_needs_no_query_per_call(model: Model) -> None:
    price_of("paid", MODEL)
    with CaptureQueriesContext(connection) as asked:
        assert price_of("paid", MODEL) == Rate(DOLLAR, 2 * DOLLAR)
    assert len(asked) == 0
    run_command("price", "paid", MODEL, "--input", "0", "--output", "0")
    assert price_of("paid", MODEL) == Rate(0, 0)


def test_pages_write_amounts_with_a_filter() -> None:
    page = Template("{% load arena_tags %}{{ amount|dollars }}")
    assert page.render(Context({"amount": 1_500_000_000})) == "$1.50"
