"""A run survives workers that are killed, a broker that forgets and a database that crashes."""

import random
import time
from collections import defaultdict

import pytest

from arena.calls.models import Call
from arena.models import Run, Vote
from judges.models import Judgement
from tests.factories import make_arena
from tests.judges.fake_server import Answer, nonce_of, prefers
from tests.judges.helpers import order
from tests.ops.running import eventually
from tests.stress.helpers import Kills, check_money, kill_again_and_again
from tests.stress.installation import Installation

pytestmark = [pytest.mark.slow, pytest.mark.services]
PLAN = Kills(20, flush_after=7, crash_after=13)
PROMPTS = 130
COMPARISONS = 3 * PROMPTS
SECONDS = 0.2


class Log:
    """When each call, which its nonce tells, was asked for."""

    def __init__(self, answer: Answer) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self._answer = answer

    def __call__(self, body):
        self.times[nonce_of(body)].append(time.time())
        return self._answer(body)


def test_20_kills_flush_and_crash_lose_nothing_and_pay_once(installation: Installation) -> None:
    server = installation.server
    log = server.otherwise = Log(prefers("-0 of", seconds=SECONDS))
    run = order(make_arena(3, PROMPTS), per_pair=PROMPTS, cap=10**12)
    installation.beat()
    at_work = kill_again_and_again(installation, PLAN, random.Random(9))
    assert at_work > PLAN.number // 2, "most kills hit a worker that had nothing to do"
    installation.worker(threads=16)
    eventually(lambda: Run.objects.get().state == "done", patience=180)
    check_calls(log)
    check_votes(run)
    check_money(server, [run], 2 * COMPARISONS)


def check_calls(log: Log) -> None:
    """One final row per call, and no request for a call that had been finished."""
    calls = list(Call.objects.all())
    assert len(calls) == 2 * COMPARISONS
    assert {call.state for call in calls} == {"done"}
    for call in calls:
        asked = log.times[call.nonce]
        assert 1 <= len(asked) <= call.requests
        assert call.finished_at is not None
        assert max(asked) < call.finished_at.timestamp()
        assert call.cut_off_requests == call.requests - 1


def check_votes(run: Run) -> None:
    judgements = Judgement.objects.filter(run=run)
    assert set(judgements.values_list("state", flat=True)) == {"voted"}
    voted = list(Vote.objects.values_list("comparison", flat=True))
    assert len(voted) == len(set(voted)) == COMPARISONS
    assert set(voted) == set(judgements.values_list("comparison", flat=True))
