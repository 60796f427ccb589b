"""A model server that fails in three of ten requests: the run ends, and the cap holds."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.utils import timezone

from arena.calls.models import Call
from arena.calls.money import raise_cap
from arena.models import Run, Vote
from arena.services.runs import resume_run
from judges.models import Judgement
from tests.factories import make_arena
from tests.judges.fake_server import (
    completion,
    fails,
    half_a_body,
    nonce_of,
    prefers,
    slow,
    with_faults,
    wrong_json,
)
from tests.judges.helpers import order
from tests.ops.running import eventually
from tests.stress.installation import BILLED, Installation

pytestmark = [pytest.mark.slow, pytest.mark.services]
PROMPTS = 25
CAP = 10**12
CALLS = 2 * 3 * PROMPTS
OTHER_MODEL = "judge-7b-2025-01-01"
COMMITTED = "SELECT cap, settled + reserved + uncertain FROM arena_run"


def other_model(body):
    return completion(f"Reasons.\nVERDICT-{nonce_of(body)}: TIE", model=OTHER_MODEL)


FAULTS = [
    fails(429, "slow down", retry_after="0.2"),
    fails(500, "oh"),
    slow(1.5),
    half_a_body,
    wrong_json,
    other_model,
]


@contextmanager
def watching(url: str) -> Iterator[list[tuple[int, int]]]:
    """Note cap and committed money of the run a hundred times a second."""
    seen: list[tuple[int, int]] = []
    stop = threading.Event()

    def look() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not stop.wait(0.01):
                seen.extend(connection.execute(COMMITTED).fetchall())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def test_run_on_a_failing_server_ends_within_its_cap(installation: Installation) -> None:
    server = installation.server
    server.otherwise = with_faults(FAULTS, 0.3, prefers("-0 of", seconds=0.05))
    run = order(make_arena(3, PROMPTS), per_pair=PROMPTS, cap=CAP)
    # What replies that were lost may have cost counts in full, so this is reached half-way.
    assert run.worst_cost is not None
    raise_cap(run_id=run.pk, cap=run.worst_cost // 25)
    installation.beat()
    with watching(installation.environment["DATABASE_URL"]) as seen:
        installation.worker(calls=16)
        eventually(lambda: Run.objects.get().state == "paused", patience=300)
        assert "The cap of" in Run.objects.get().pause_reason
        raise_cap(run_id=run.pk, cap=CAP)
        resume_run(run_id=run.pk, now=timezone.now())
        eventually(lambda: Run.objects.get().state == "done", patience=300)
    assert len({committed for _, committed in seen}) > 50, "the money was hardly looked at"
    assert [pair for pair in seen if pair[1] > pair[0]] == []
    check_states()
    check_money(server.billed)


def check_states() -> None:
    """Calls are done, or failed after their six requests; judgements say the same."""
    calls = list(Call.objects.all())
    assert len(calls) == CALLS
    assert {call.state for call in calls} <= {"done", "failed"}
    assert all(call.requests == call.requests_allowed for call in calls if call.state == "failed")
    assert {call.model_returned for call in calls if call.state == "done"} >= {OTHER_MODEL}
    for one in Judgement.objects.select_related("forward", "reverse"):
        ended = {one.forward.state, one.reverse.state}
        assert one.state in ({"failed"} if "failed" in ended else {"voted", "abstained"})
    assert Vote.objects.live().count() == Judgement.objects.filter(state="voted").count() > 0


def check_money(billed: list[tuple[int, int]]) -> None:
    """What was settled is what arrived; what was billed and lost is covered by `uncertain`."""
    run = Run.objects.get()
    done = Call.objects.filter(state="done").count()
    assert (run.settled, run.reserved) == (done * BILLED, 0)
    assert run.uncertain == sum(Call.objects.values_list("uncertain", flat=True))
    assert run.settled < len(billed) * BILLED <= run.settled + run.uncertain
