"""Redis is down for half a minute in the middle of a run; people keep voting."""

import time

import pytest

from arena.calls.models import Call
from arena.models import Run, Vote
from benchmarks.contests import vote
from benchmarks.load import Answer, Script, play
from benchmarks.sample import Person, people
from judges.models import Judgement
from tests.factories import make_arena
from tests.judges.fake_server import prefers
from tests.judges.helpers import order
from tests.ops.running import eventually
from tests.stress.installation import Installation

pytestmark = [pytest.mark.slow, pytest.mark.services]
AWAY = 30.0
PROMPTS = 60
VOTERS, VOTES_EACH = 4, 60
LONGEST = 2.0  # seconds for one vote; nearly all, as a busy machine may hold one up


class Votes:
    """Votes spread over the time that the broker is down."""

    def __init__(self, slug: str) -> None:
        self.slug = slug
        self.answers: list[Answer] = []

    def cast(self, person: Person) -> Script:
        for number, key in enumerate(person.keys):
            self.answers.append((yield vote(person, f"/a/{self.slug}/vote/{key}/", number)))
            time.sleep(AWAY / VOTERS / VOTES_EACH)


def test_absent_broker_loses_no_judgement_and_delays_no_vote(installation: Installation) -> None:
    installation.server.otherwise = prefers("-0 of", seconds=0.2)
    arena = make_arena(3, PROMPTS)
    voters = people(arena, VOTERS, pairs_each=VOTES_EACH)
    run = order(arena, per_pair=PROMPTS, cap=10**12)
    installation.beat()
    installation.worker(calls=4)
    votes = Votes(arena.slug)
    with installation.web() as web:
        eventually(lambda: Call.objects.filter(state="done").count() > 20)
        installation.redis.stop()
        stopped = time.monotonic()
        assert Call.objects.exclude(state="done").exists(), "nothing was left to be lost"
        play(web.address, map(votes.cast, voters), seconds=10 * AWAY)
        time.sleep(max(0.0, stopped + AWAY - time.monotonic()))
        installation.redis.start()
    check_voters(votes.answers)
    eventually(lambda: Run.objects.get().state == "done", patience=300)
    judged = Judgement.objects.filter(run=run)
    assert set(judged.values_list("state", flat=True)) == {"voted"}
    assert set(Call.objects.values_list("state", "requests")) == {("done", 1)}
    assert Vote.objects.filter(rater__kind="judge").count() == 3 * PROMPTS


def check_voters(answers: list[Answer]) -> None:
    assert [answer.status for answer in answers] == [200] * VOTERS * VOTES_EACH
    assert sorted(answer.seconds for answer in answers)[-len(answers) // 20] < LONGEST
    assert Vote.objects.filter(rater__kind="person").count() == VOTERS * VOTES_EACH
