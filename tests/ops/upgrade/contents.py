"""What a dumped database holds: every kind of vote, run and measurement that an upgrade meets."""

from contextlib import suppress
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from django.core.management import call_command
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, Rater, Run, Vote
from arena.outcomes import Uncounted
from arena.services import comparisons, holds, orders, voting
from judges.models import Judgement, RunJudge
from judges.services.calibration import measure_arena
from judges.services.decisions import choose_baseline, write_decisions
from ranking.log import links
from tests.factories import make_arena, make_person, make_team, make_user, make_votes, void_vote
from tests.judges.helpers import order, vote_by_strength, work_off
from tests.ranking.helpers import cast, claim, hidden_import, reveal, set_trusted

JURY = ("scripted:scripted-1", "scripted:scripted-2", "scripted:scripted-3")


def fill() -> None:
    call_command("migrate", verbosity=0)
    call_command("load_sample", quiet=True)
    team = make_team(owner=make_user("olga"), name="Support")
    arena = make_arena(3, 48, slug="private", team=team, visibility=Arena.Visibility.PRIVATE)
    arena.candidates.update(team=team)
    vote_by_strength(arena, (0.0, 2.0, 0.3), each=120)
    _vote_and_hide(arena)
    _judge(arena)
    for vote in Vote.objects.order_by("pk")[:3]:
        void_vote(vote)
    call_command("refresh_boards")
    baseline = arena.candidates.order_by("pk")[0]
    now = timezone.now()
    choose_baseline(team=team, arena=arena, candidate=baseline, by=CLI, now=now)
    assert write_decisions(now=now, seen={}) > 0
    _log_half_of_an_import()


def _vote_and_hide(arena: Arena) -> None:
    """Held and uncounted votes, an order whose raters see no names yet, with one of its votes."""
    suspect, now = make_person(), timezone.now()
    a, b, _ = arena.candidates.order_by("pk")
    held = make_votes(arena, [(a, b, "left", prompt) for prompt in arena.prompts.all()], suspect)
    holds.hold(
        arena=arena,
        rater=suspect,
        network="",
        test="side",
        evidence={"left": 48, "votes": 48},
        votes=[vote.pk for vote in held],
        now=now,
    )
    for reason in (Uncounted.RUSHED, Uncounted.CHANNEL, Uncounted.NAMED, Uncounted.TIER):
        cast(arena, uncounted=reason)
    raters = [make_person(), make_person()]
    run = orders.order_people_run(arena=arena, per_pair=2, by=CLI, raters=raters, hides_names=True)
    orders.reconcile_people_run(run=run, now=now)
    issued = comparisons.next_comparison(arena=arena, rater=raters[0], now=now)
    assert issued.run == run
    voting.cast_vote(comparison=issued, rater=raters[0], outcome="right", now=now, seconds=9.0)


def _judge(arena: Arena) -> None:
    """A calibrated judge, a jury, soft votes of a trusted judge, and a run that is under way."""
    done = work_off(order(arena, JURY[0], per_pair=48))
    measure_arena(epoch=RunJudge.objects.get(run=done).epoch, arena=arena, now=timezone.now())
    work_off(order(arena, *JURY, per_pair=6))
    judge = Rater.objects.create(kind=Rater.Kind.JUDGE, name="Probabilities of a reward model")
    a, b, _ = arena.candidates.order_by("pk")
    for number, prompt in enumerate(arena.prompts.all()):
        make_votes(arena, [(a, b, "right", prompt)], judge, preference=number / 96)
    set_trusted(judge)
    waiting = order(arena, JURY[1], per_pair=24)
    waiting.refresh_from_db()
    assert waiting.state == Run.State.OPEN
    assert Judgement.objects.filter(run=waiting).exists()


def _log_half_of_an_import() -> None:
    """An import that was interrupted after four of its nine votes were in the log."""
    arena = make_arena(slug="interrupted")
    source = hidden_import(arena, n_votes=9)
    reveal(source, ago=timedelta(minutes=1).total_seconds())
    token = claim(arena)
    links.open_log(arena_id=arena.pk, token=token)
    writers = iter([links.append])

    def append_once(**fields: Any) -> None:
        next(writers)(**fields)

    with (
        patch.object(links, "BATCH", 4),
        patch.object(links, "append", append_once),
        suppress(StopIteration),
    ):
        links.update(arena_id=arena.pk, token=token)
    assert arena.votes.filter(logged=True).count() == 4
