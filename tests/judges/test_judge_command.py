"""`manage.py judge`, with a thread as a stand-in for the worker."""

import re
from typing import Any

import pytest
from django.core.management import CommandError
from django.utils import timezone
from kombu.exceptions import OperationalError

from arena.calls.models import Call
from arena.models import Arena, Capability, Run, Vote
from judges.management.commands import judge as command
from judges.models import Judge
from judges.services import planning
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, better_is, fails
from tests.judges.helpers import hide_arena, judge_call, run_command

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick")]


def judge(arena: Arena | str, *extra: str, name: str = "scripted") -> str:
    slug = arena if isinstance(arena, str) else arena.slug
    return run_command("judge", slug, f"--judge={name}", "--per-pair=2", "--max-calls=100", *extra)


@pytest.mark.usefixtures("worker")
def test_a_run_is_ordered_watched_and_summed_up() -> None:
    said = judge(make_arena(3, 4))
    assert Run.objects.get(arena__isnull=False).state == "done"
    assert f"done {Vote.objects.count()}" in said
    assert "12 requests for 12 calls" in said
    assert re.search(r"Inconsistent when swapped: \d+%", said)
    assert "not a real model" in said
    assert f"/runs/{Run.objects.get(arena__isnull=False).pk}/" in said


@pytest.mark.usefixtures("no_worker")
def test_a_dry_run_quotes_and_writes_nothing() -> None:
    said = judge(make_arena(3, 4), "--dry-run", "--max-calls=8")
    assert "3 pairs, 4 comparisons, 8 calls" in said
    assert "Cost: $0.00 expected, $0.00 at most." in said
    assert not Run.objects.exists()
    assert not Judge.objects.exists()
    assert not Call.objects.exists()


@pytest.mark.usefixtures("no_worker")
def test_no_wait_orders_and_returns() -> None:
    said = judge(make_arena(3, 4), "--no-wait")
    assert Run.objects.get(arena__isnull=False).state == "open"
    assert "Progress: /a/" in said


@pytest.mark.usefixtures("no_worker")
def test_without_a_worker_it_says_so_and_the_run_is_kept() -> None:
    with pytest.raises(CommandError, match="No worker is answering"):
        judge(make_arena(3, 4))
    assert Run.objects.get(arena__isnull=False).state == "open"


@pytest.mark.usefixtures("no_worker")
def test_ctrl_c_leaves_the_run_running(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(run: Run) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "follow_run", interrupted)
    assert "continues in the background" in judge(make_arena(3, 4))
    assert Run.objects.get(arena__isnull=False).state == "open"


@pytest.mark.usefixtures("worker")
def test_the_same_command_again_continues_with_new_items() -> None:
    arena = make_arena(3, 4)
    judge(arena)
    judge(arena)
    assert Run.objects.filter(state="done").count() == 2
    assert Call.objects.count() == sum(Call.objects.values_list("requests", flat=True)) == 24
    with pytest.raises(CommandError, match="already judged every prompt"):
        judge(arena)


@pytest.mark.usefixtures("worker")
def test_paused_run_is_explained_and_continued(local: FakeServer) -> None:
    arena = make_arena(3, 4)
    probed = {"endpoint": "local", "model": "judge-7b-2024-07-01", "probed_at": timezone.now()}
    Capability.objects.create(**probed)
    local.otherwise = fails(401, "who are you")
    with pytest.raises(CommandError, match=r"HTTP 401: .*who are you"):
        judge(arena, name="local:judge-7b-2024-07-01")
    local.otherwise = better_is("TIE")
    said = judge(arena, name="local:judge-7b-2024-07-01")
    assert "Resuming unfinished run" in said
    assert Run.objects.get(arena__isnull=False).state == "done"
    assert Vote.objects.count() == 6


PAID = "local:judge-7b-2024-07-01"
DOLLAR = 10**9


@pytest.fixture
def at_its_cap(paid: FakeServer, worker: None) -> Arena:
    """An arena with a run whose cap is too small for its first request."""
    arena = make_arena(2, 2)
    with pytest.raises(CommandError, match=r"The cap of \$0\.0010 is reached") as paused:
        judge(arena, "--cap=0.001", name=PAID)
    assert "add a --cap above $0.0010" in str(paused.value)
    paid.requests.clear()  # those that measured the model
    return arena


def test_a_run_at_its_cap_resumes_with_a_higher_one(at_its_cap: Arena) -> None:
    said = judge(at_its_cap, "--cap=1", name=PAID)
    assert "The cap of $0.0010 is reached" in said
    assert "Its cap was $0.0010; the cap is now $1.00." in said
    run = Run.objects.get(arena__isnull=False)
    assert (run.state, run.votes_done, run.cap) == ("done", 2, DOLLAR)


@pytest.mark.parametrize("cap", [[], ["--cap=0.001"], ["--cap=0.0005"]])
def test_cap_is_neither_raised_on_its_own_nor_lowered(
    at_its_cap: Arena, paid: FakeServer, cap: list[str]
) -> None:
    with pytest.raises(CommandError, match=r"The cap of \$0\.0010 is reached"):
        judge(at_its_cap, *cap, name=PAID)
    assert Run.objects.get(arena__isnull=False).cap == DOLLAR // 1000
    assert not paid.requests


def test_cap_below_spending_is_refused_and_run_stays_paused(at_its_cap: Arena) -> None:
    Run.objects.update(settled=DOLLAR)
    with pytest.raises(CommandError, match=r"spent or reserved \$1\.00.*cannot be \$0\.50"):
        judge(at_its_cap, "--cap=0.50", name=PAID)
    assert Run.objects.get(arena__isnull=False).state == "paused"


def test_a_run_that_had_no_cap_is_given_one(at_its_cap: Arena) -> None:
    Run.objects.update(cap=None)
    assert "It had no cap; the cap is now $1.00." in judge(at_its_cap, "--cap=1", name=PAID)
    assert Run.objects.get(arena__isnull=False).state == "done"


def test_a_broker_out_of_reach_is_reported_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreachable(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("Connection refused")

    monkeypatch.setattr("arena.tasks.make_calls.delay", unreachable)
    said = judge(make_arena(3, 4), "--no-wait")
    assert "The broker cannot be reached" in said
    for call_id in Call.objects.values_list("pk", flat=True):
        judge_call(call_id=call_id)
    assert Run.objects.get(arena__isnull=False).state == "done"


@pytest.mark.parametrize(
    ("options", "name", "says"),
    [
        (["--per-pair=0"], "scripted", r"^--per-pair must be at least 1\.$"),
        (["--max-calls=-1"], "scripted", "^--max-calls must not be negative"),
        (["--max-calls=0"], "scripted", "at least 2"),
        ([], "nobody", "no judge called 'nobody'"),
        ([], "scripted:latest", "alias"),
    ],
)
def test_bad_orders_end_with_a_sentence(options: list[str], name: str, says: str) -> None:
    with pytest.raises(CommandError, match=says):
        judge(make_arena(2, 2), *options, name=name)
    assert not Run.objects.exists()


@pytest.mark.usefixtures("no_worker")
def test_default_is_five_comparisons_a_pair() -> None:
    said = run_command("judge", make_arena(2, 9).slug, "--judge=scripted", "--dry-run")
    assert "1 pairs, 5 comparisons, 10 calls" in said


def test_decided_pairs_are_named_with_the_option_again(monkeypatch: pytest.MonkeyPatch) -> None:
    arena = make_arena(3, 4)
    decided = frozenset(arena.pairs.values_list("low_id", "high_id"))
    monkeypatch.setattr(planning, "_decided_pairs", lambda *asked: decided)
    with pytest.raises(CommandError, match=r"already decided.*; --again includes them\.$"):
        judge(arena)
    assert "already decided" not in judge(arena, "--again", "--dry-run")


@pytest.mark.usefixtures("worker")
def test_position_habit_needs_a_decisive_verdict(local: FakeServer) -> None:
    local.otherwise = better_is("TIE")
    said = judge(make_arena(2, 4), name="local:judge-7b-2024-07-01")
    assert "Chose the answer shown first: not available." in said
    assert "not available of" not in said


def test_an_unknown_or_hidden_arena_is_named() -> None:
    with pytest.raises(CommandError, match="no arena 'nowhere'"):
        judge("nowhere")
    arena = make_arena(2, 2)
    hide_arena(arena)
    with pytest.raises(CommandError, match="no arena"):
        judge(arena)
