"""Generating answers survives workers that are killed, a broker that forgets and a database that
crashes: every prompt has one answer, and what was settled is what was billed."""

import random
import time
from collections import defaultdict
from typing import Any

import pytest
from django.utils import timezone

from arena.actors import Actor
from arena.calls.models import Call
from arena.generation_runs import order_answers
from arena.models import Candidate, Pair, Response, Run
from tests.factories import make_arena
from tests.judges.fake_server import MODEL, Sent, says
from tests.ops.running import eventually
from tests.stress.helpers import Kills, check_money, kill_again_and_again
from tests.stress.installation import BILLED, Installation

pytestmark = [pytest.mark.slow, pytest.mark.services]
PLAN = Kills(8, flush_after=3, crash_after=5)
PROMPTS = 150
ANSWERS = 2 * PROMPTS
SECONDS = 0.2


class Log:
    """When each answer, identified by its messages, was requested."""

    def __init__(self) -> None:
        self.times: dict[tuple[str, str], list[float]] = defaultdict(list)

    def __call__(self, body: dict[str, Any]) -> Sent:
        system, user = (message["content"] for message in body["messages"])
        self.times[system, user].append(time.time())
        sent = says(f"{system} answers {user}")(body)
        sent.seconds = SECONDS
        return sent


def order_two() -> list[Run]:
    """Two candidates of one arena that answer the same prompts."""
    arena = make_arena(0, PROMPTS)
    made = [
        Candidate.objects.create(
            arena=arena, name=name, endpoint="local", model=MODEL, system_prompt=name
        )
        for name in ("first", "second")
    ]
    return [
        order_answers(candidate=one, by=Actor(), cap=10**12, now=timezone.now()) for one in made
    ]


def test_kills_flush_and_crash_lose_no_answer_and_pay_once(installation: Installation) -> None:
    server = installation.server
    log = server.otherwise = Log()
    runs = order_two()
    installation.beat()
    at_work = kill_again_and_again(installation, PLAN, random.Random(3))
    assert at_work > PLAN.number // 2, "most kills hit a worker that had nothing to do"
    installation.worker(calls=16)
    done = Run.objects.filter(state="done", votes_done=PROMPTS)
    eventually(lambda: done.count() == 2, patience=300)
    check_answers(log)
    check_money(server, runs, ANSWERS)
    assert Pair.objects.get().shared_prompts == PROMPTS


def check_answers(log: Log) -> None:
    """One answer to each prompt, from the call that brought it, asked for no more after that."""
    answers = list(Response.objects.select_related("call", "candidate", "prompt"))
    assert len(answers) == len({(one.candidate_id, one.prompt_id) for one in answers}) == ANSWERS
    assert Call.objects.count() == ANSWERS
    for one in answers:
        call = one.call
        assert call is not None
        assert (call.state, one.cost, one.tokens_out) == ("done", BILLED, 20)
        assert one.text == call.reply == f"{one.candidate.name} answers {one.prompt.text}"
        asked = log.times[one.candidate.name, one.prompt.text]
        assert 1 <= len(asked) <= call.requests
        assert call.finished_at is not None
        assert max(asked) < call.finished_at.timestamp()
        assert call.cut_off_requests == call.requests - 1
