"""Redis is killed while people vote: nobody notices, and leaderboards follow once it is back."""

import threading
import time
from datetime import timedelta

import pytest
from django.db.models import F

from arena.models import Comparison, Vote
from arena.outcomes import BOTH_BAD
from benchmarks.contests import vote
from benchmarks.load import Answer, Script, play
from benchmarks.sample import Person, people
from ranking.models import Snapshot
from tests.factories import make_arena
from tests.ops.running import eventually
from tests.stress.installation import Installation

pytestmark = [pytest.mark.slow, pytest.mark.services]
VOTERS, VOTES_EACH = 4, 60
AWAY = 10.0  # seconds
FRESH = 180.0  # after it is back: Celery looks for it after 2, 4, 6 ... and then every 30 seconds


def test_votes_are_stored_and_leaderboards_follow(installation: Installation) -> None:
    arena = make_arena(3, 40)
    voters = people(arena, VOTERS, pairs_each=VOTES_EACH)
    Comparison.objects.update(issued_at=F("issued_at") - timedelta(minutes=1))  # nobody is rushed
    answers: list[Answer] = []

    def cast(person: Person) -> Script:
        for number, key in enumerate(person.keys):
            answers.append((yield vote(person, f"/a/{arena.slug}/vote/{key}/", number)))
            time.sleep(AWAY / VOTERS / VOTES_EACH)

    installation.beat()
    installation.worker(queues="fits,sweeps")
    with installation.web() as web:
        playing = threading.Thread(target=play, args=[web.address, map(cast, voters)])
        playing.start()
        eventually(lambda: len(answers) > VOTERS * VOTES_EACH // 4)
        installation.redis.kill()
        playing.join()
        assert [answer.status for answer in answers] == [200] * VOTERS * VOTES_EACH
        assert Vote.objects.count() == VOTERS * VOTES_EACH
        counted = Vote.objects.live().exclude(outcome=BOTH_BAD).count()
        current = Snapshot.objects.current().filter(board__raters="people", board__category="")
        assert not current.filter(n_votes=counted).exists(), "Redis was not needed"
        installation.redis.start()
        eventually(lambda: current.filter(n_votes=counted).exists(), patience=FRESH)
