"""Models that think before they reply, and spend their limit on it: they get room, are quoted with
it, and a run in which they have too little of it pauses."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from arena.calls.models import Call, Capability
from arena.endpoints import Endpoint, ModelPrice
from arena.models import Arena, Run
from arena.services.runs import order_run
from judges.models import Judge
from judges.services.orders import JudgeOrder, prepare_order
from judges.services.planning import OrderOptions
from judges.services.quotes import prepare_measured, quote_for
from judges.services.registry import (
    DEFAULT_SWITCHES,
    Switches,
    register_judge,
    spec_named,
    spec_of,
)
from tests.arena.conftest import forget
from tests.arena.rest import token_of
from tests.factories import DOLLAR, make_arena, make_paying_team
from tests.judges.fake_server import (
    MODEL,
    Answer,
    FakeServer,
    Said,
    Sent,
    completion,
    half_a_body,
    is_probe,
    nonce_of,
)
from tests.judges.helpers import (
    LOCAL,
    order,
    order_on_page,
    pair_row,
    run_command,
    work_off,
    write_labels,
)

pytestmark = pytest.mark.django_db
VERDICT = 60  # tokens of the reply itself


def thinks(tokens: int) -> Answer:
    """A model that thinks so many tokens first, which count towards its limit and are billed."""

    def answer(body: dict[str, Any]) -> Sent:
        size = sum(len(message["content"]) for message in body["messages"]) // 4
        room, wanted = body["max_tokens"], 5 if is_probe(body) else tokens + VERDICT
        if wanted > room:
            return Sent(Said("", finish="length", tokens_in=size, tokens_out=room))
        text = "Hello." if is_probe(body) else f"It is better.\n\nVERDICT-{nonce_of(body)}: TIE"
        return completion(text, tokens_in=size, tokens_out=wanted)

    return answer


@pytest.fixture
def priced(server: FakeServer, settings: Any) -> FakeServer:
    """The server, at $1 per million tokens in and $8 out."""
    prices = {MODEL: ModelPrice(DOLLAR, 8 * DOLLAR)}
    local = Endpoint("local", "openai", server.base_url, timeout=5.0, prices=prices)
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": local}
    forget()
    return server


def prepared(
    arena: Arena, switches: Switches = DEFAULT_SWITCHES, cap: int | None = None
) -> JudgeOrder:
    """An order of all pairs as a page prepares it, with the model measured if it is new."""

    def prepare() -> JudgeOrder:
        options = OrderOptions(arena.prompts.count(), "all")
        return prepare_order(arena=arena, specs=[spec_named(LOCAL, switches)], options=options)

    return prepare_measured(prepare, cap=cap, now=timezone.now())


def judge(prompts: int = 50) -> tuple[Run, int]:
    """Quote and run an order; return the run and the quote's expected cost."""
    order = prepared(make_arena(3, prompts))
    expected = quote_for(order).expected
    assert expected is not None
    return work_off(order_run(order=order, cap=100 * DOLLAR, now=timezone.now())), expected


@pytest.mark.parametrize("tokens", [400, 1500, 6000])
def test_a_model_that_thinks_gives_its_verdicts_at_its_quote(
    priced: FakeServer, tokens: int
) -> None:
    priced.otherwise = thinks(tokens)
    run, expected = judge()
    states = list(run.judgements.values_list("state", flat=True))
    assert states.count("voted") >= 0.99 * len(states)
    assert run.settled <= 1.1 * expected


def test_what_was_learned_is_the_limit_of_the_next_judge_only(priced: FakeServer) -> None:
    before = register_judge(spec=spec_named(LOCAL)).judge
    priced.otherwise = thinks(1500)
    prepared(make_arena(2, 8), Switches(swap_policy="tie"))
    assert Capability.objects.get().replies == {"": {"mean": 1560.0, "longest": 1560}}
    assert spec_named(before.name).parameters["max_tokens"] == 1024
    after = spec_named(LOCAL)
    assert (after.output_limit, after.label) == (4096, f"{LOCAL}@pairwise+limit4096")
    assert spec_of(register_judge(spec=after).judge) == after
    assert spec_named(LOCAL, Switches(output_limit=2000)).output_limit == 2000


def test_a_model_that_does_not_think_keeps_the_rubrics_limit(priced: FakeServer) -> None:
    priced.otherwise = thinks(0)
    judge(prompts=2)
    assert Judge.objects.get().output_limit is None


def test_a_model_is_measured_once_by_three_requests_that_the_site_pays(priced: FakeServer) -> None:
    priced.otherwise = thinks(1500)
    arena = make_arena(2, 8, team=make_paying_team(DOLLAR))
    for _ in range(2):
        prepared(arena)
    measured = [body for body in priced.requests if not is_probe(body)]
    assert len(measured) == 3
    assert all(body["max_tokens"] == 16_384 for body in measured)
    booked = Run.objects.get()
    spent = sum(read + 8 * written for read, written in priced.billed[-3:]) * 1000
    assert (booked.settled, booked.uncertain, booked.team, booked.state) == (spent, 0, None, "done")


def test_each_effort_is_measured_on_its_own(priced: FakeServer) -> None:
    priced.otherwise = lambda body: thinks(6000 if body.get("reasoning_effort") == "high" else 400)(
        body
    )
    arena = make_arena(2, 8)
    high = Switches(effort="high")
    assert prepared(arena).members[0].spec.output_limit is None
    assert prepared(arena, high).members[0].spec.output_limit == 16_384
    assert priced.requests[-1]["reasoning_effort"] == "high"
    assert sorted(Capability.objects.get().replies) == ["", "high"]


def test_an_effort_has_room_before_anything_is_known(priced: FakeServer) -> None:
    assert spec_named(LOCAL, Switches(effort="low")).output_limit == 4096
    assert spec_named(LOCAL, Switches(effort="high")).output_limit == 32_768


def test_nothing_is_measured_for_a_team_that_could_not_pay(priced: FakeServer) -> None:
    arena = make_arena(2, 8, team=make_paying_team(DOLLAR))
    prepared(arena, cap=2 * DOLLAR)
    assert (priced.requests, Run.objects.count()) == ([], 0)


def test_a_measurement_without_an_answer_leaves_the_quote_and_counts_as_uncertain(
    priced: FakeServer,
) -> None:
    priced.otherwise = lambda body: thinks(0)(body) if is_probe(body) else half_a_body(body)
    order = prepared(make_arena(2, 8))
    assert quote_for(order).expected
    booked = Run.objects.get()
    assert (booked.settled, booked.uncertain > 0) == (0, True)
    assert booked.uncertain <= (booked.cap or 0)


def test_six_replies_in_a_row_that_are_cut_off_pause_the_run_and_say_what_to_do(
    priced: FakeServer,
) -> None:
    priced.otherwise = thinks(6000)
    run = work_off(order(make_arena(2, 14), per_pair=14, cap=DOLLAR))
    assert run.state == "paused"
    assert "6 replies in a row were cut off" in run.pause_reason
    assert "at 4,096 tokens." in run.pause_reason
    assert "start one with a larger output limit" in run.pause_reason
    ended = Call.objects.filter(run=run).exclude(state="waiting")
    assert set(ended.values_list("state", "requests")) == {("unreadable", 2)}
    assert len(priced.requests) == 12


def test_a_reply_that_was_read_between_cut_offs_keeps_the_run_open(priced: FakeServer) -> None:
    priced.script.extend([*[thinks(6000)] * 10, thinks(10), *[thinks(6000)] * 10, thinks(10)])
    run = order(make_arena(2, 6), per_pair=6, cap=DOLLAR)
    assert work_off(run).state != "paused"


def test_a_new_model_is_measured_before_it_is_calibrated_too(
    priced: FakeServer, tmp_path: Path, worker: None
) -> None:
    priced.otherwise = thinks(1500)
    labels = write_labels(tmp_path, [pair_row(number) for number in range(12)])
    run_command("calibrate", LOCAL, "--labels", labels, "--cap=1")
    assert Judge.objects.get().output_limit == 4096
    assert set(Call.objects.values_list("state", "requests")) == {("done", 1)}


@pytest.mark.parametrize("how", ["page", "api", "command"])
def test_limit_and_effort_are_chosen_on_every_way(
    priced: FakeServer, staff: Client, worker: None, how: str
) -> None:
    priced.otherwise = thinks(400)
    arena = make_arena(2, 1, team=make_paying_team(3 * DOLLAR))
    if how == "page":
        given = {"typed": LOCAL, "scripted": [], "cap": "1"}
        order_on_page(staff, arena, **given, output_limit="2048", effort="low")
    elif how == "api":
        body = {"judges": [LOCAL], "per_pair": 1, "cap": 1.0}
        path = f"arenas/{arena.slug}/judge-runs/"
        token_of(arena.team).post(path, body | {"output_limit": 2048, "effort": "low"})
    else:
        chosen = ["--output-limit=2048", "--effort=low"]
        run_command("judge", arena.slug, f"--judge={LOCAL}", "--per-pair=1", "--cap=1", *chosen)
    registered = Judge.objects.get()
    assert (registered.output_limit, registered.effort) == (2048, "low")
    assert registered.name == f"{LOCAL}@pairwise+limit2048+effort-low"
