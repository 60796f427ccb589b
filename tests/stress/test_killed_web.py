"""The web process is killed again and again while people vote."""

import signal
import threading
import time

import pytest
from django.db import connection
from django.db.models import Count

from arena.models import Comparison
from benchmarks.contests import vote
from benchmarks.load import Script, play
from benchmarks.sample import Person, people
from benchmarks.serving import free_port, start_web
from tests.factories import make_arena

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
# PostgreSQL keeps what it has committed in processes of its own, which nobody kills here.
KILLS = {"sqlite": 20, "postgresql": 5}
VOTES_BETWEEN = 25


class Ballots:
    """Raters who vote, and vote again if there was no response, until they are stopped."""

    def __init__(self, slug: str) -> None:
        self.slug = slug
        self.acknowledged: list[str] = []
        self.broken = 0
        self.stop = threading.Event()

    def play(self, person: Person) -> Script:
        for number, key in enumerate(person.keys):
            while True:
                answer = yield vote(person, f"/a/{self.slug}/vote/{key}/", number)
                if self.stop.is_set():
                    return
                if answer.status:
                    assert answer.status == 200, answer.body
                    self.acknowledged.append(str(key))
                    break
                self.broken += 1

    def await_votes(self, more: int) -> None:
        enough = len(self.acknowledged) + more
        deadline = time.monotonic() + 120
        while len(self.acknowledged) < enough and time.monotonic() < deadline:
            time.sleep(0.005)


def kill_and_restart(port: int, environment: dict[str, str], ballots: Ballots, kills: int) -> None:
    """Kill the web server each time some more votes have been acknowledged, and see it go on."""
    web = start_web(port, environment, processes=1, threads=8)
    try:
        for _ in range(kills):
            ballots.await_votes(VOTES_BETWEEN)
            web.end(signal.SIGKILL)
            web = start_web(port, environment, processes=1, threads=8)
        ballots.await_votes(VOTES_BETWEEN)
    finally:
        ballots.stop.set()
        web.end()


def test_every_acknowledged_vote_survives_kills(server_environment: dict[str, str]) -> None:
    kills = KILLS[connection.vendor]
    arena = make_arena(5, 40)
    voters = people(arena, 8, pairs_each=400)
    ballots = Ballots(arena.slug)
    port = free_port()
    killer = threading.Thread(
        target=kill_and_restart, args=[port, server_environment, ballots, kills]
    )
    killer.start()
    play(("127.0.0.1", port), map(ballots.play, voters), seconds=1800)
    killer.join()
    assert ballots.broken, "no request was under way when the server was killed"
    assert len(ballots.acknowledged) >= (kills + 1) * VOTES_BETWEEN
    votes = votes_by_key()
    assert not set(ballots.acknowledged) - set(votes)
    assert set(votes.values()) == {1}


def votes_by_key() -> dict[str, int]:
    """How many votes each comparison has, where it has any."""
    voted = Comparison.objects.annotate(n=Count("votes")).filter(n__gt=0)
    return {str(key): n for key, n in voted.values_list("key", "n")}
