"""A run survives workers that are killed, a broker that forgets and a database that crashes."""

import random
import time
from collections import defaultdict
from typing import Any

import pytest
from django.db.models import Sum
from django.utils import timezone

from arena.calls.models import Call
from arena.models import Response, Run, Vote
from arena.services.runs import cancel_run, pause_run, resume_run
from judges.services.subjects import read_subject
from tests.factories import make_arena
from tests.judges.fake_server import Answer, FakeServer, answers_in, nonce_of, prefers
from tests.judges.helpers import LOCAL, order
from tests.ops.running import eventually
from tests.stress.helpers import Kills, kill_again_and_again
from tests.stress.installation import BILLED, Installation

pytestmark = [pytest.mark.slow, pytest.mark.services]
PLAN = Kills(20, flush_after=7, crash_after=13)
PROMPTS = 130
COMPARISONS = 3 * PROMPTS
SECONDS = 0.2


class Log:
    """When each call, identified by its run's nonce and its answers, was made."""

    def __init__(self, answer: Answer) -> None:
        self.times: dict[tuple[str, ...], list[float]] = defaultdict(list)
        self._answer = answer

    def __call__(self, body):
        self.times[nonce_of(body), *answers_in(body)].append(time.time())
        return self._answer(body)


def test_20_kills_flush_and_crash_lose_nothing_and_pay_once(installation: Installation) -> None:
    """Three runs share the calls of one judge; one of them is paused, cancelled and deleted."""
    server = installation.server
    log = server.otherwise = Log(prefers("-0 of", seconds=SECONDS))
    arena, jury = make_arena(3, PROMPTS), (LOCAL, "scripted:scripted-1")
    facts: dict[str, Any] = {"per_pair": PROMPTS, "cap": 10**12}
    runs = [order(arena, LOCAL, **facts), order(arena, *jury, **facts)]
    doomed = order(arena, *jury, **facts, quorum=1)
    installation.beat()
    acts = {
        5: lambda: pause_run(run_id=doomed.pk, reason="Paused by me."),
        8: lambda: resume_run(run_id=doomed.pk, now=timezone.now()),
        10: lambda: cancel_run(run_id=doomed.pk, now=timezone.now()),
        15: lambda: Run.objects.filter(pk=doomed.pk).delete(),
    }
    at_work = kill_again_and_again(installation, PLAN, random.Random(9), acts)
    assert at_work > PLAN.number // 2, "most kills hit a worker that had nothing to do"
    installation.worker(calls=16)
    eventually(lambda: set(Run.objects.values_list("state", flat=True)) == {"done"}, patience=300)
    for run in runs:
        check_calls(log, run)
    check_votes(*runs)
    check_shared_money(server, runs)


def check_calls(log: Log, run: Run) -> None:
    """One final row per call, and no request for a call that had been finished."""
    calls = list(run.calls.filter(endpoint="local"))
    assert len(calls) == 2 * COMPARISONS
    assert {call.state for call in calls} == {"done"}
    texts = dict(Response.objects.values_list("pk", "text"))
    for call in calls:
        shown = (texts[pk] for pk in read_subject(call.subject).shown)
        asked = log.times[call.nonce, *shown]
        assert call.finished_at is not None
        assert asked
        assert max(asked) < call.finished_at.timestamp()
        if not call.copied:
            assert call.cut_off_requests == call.requests - 1


def check_votes(alone: Run, jury: Run) -> None:
    """Each judgement is there in both runs, and voted in one."""
    member = alone.run_judges.get().epoch
    judgements = member.judgements.filter(run__in=[alone, jury])
    assert set(judgements.values_list("state", flat=True)) == {"voted"}
    assert judgements.count() == 2 * COMPARISONS
    sides = ("comparison__left_response", "comparison__right_response")
    voted = [frozenset(row) for row in Vote.objects.filter(rater=member.rater).values_list(*sides)]
    assert len(voted) == len(set(voted)) == COMPARISONS
    # What the deleted run settled before these has a vote, too.
    casts = [frozenset(row) for row in judgements.filter(casts_vote=True).values_list(*sides)]
    assert len(casts) == len(set(casts)) <= COMPARISONS
    assert not jury.jury_verdicts.filter(state="waiting").exists()


def check_shared_money(server: FakeServer, runs: list[Run]) -> None:
    """Each run's sums are those of its calls; what two runs share is settled in one of them."""
    for run in runs:
        run.refresh_from_db()
        sums = run.calls.aggregate(cost=Sum("cost"), uncertain=Sum("uncertain"))
        assert (run.settled, run.reserved, run.uncertain) == (sums["cost"], 0, sums["uncertain"])
    originals = Call.objects.filter(endpoint="local", copied=False)
    assert originals.count() == len(set(originals.values_list("requester", "subject")))
    assert sum(run.settled for run in runs) == originals.count() * BILLED
    cut_off = Call.objects.aggregate(n=Sum("cut_off_requests"))["n"]
    # All that was billed was asked once for each call, or cut off by a kill; the deleted run's own
    # requests are no longer here.
    asked = Call.objects.filter(endpoint="local").aggregate(n=Sum("requests"))["n"]
    assert len(server.billed) >= 2 * COMPARISONS
    assert originals.count() <= asked <= originals.count() + cut_off
