"""A reply that would arrive for longer than the lease, and than the broker waits for a message."""

import json
import time
from typing import Any

import pytest

from arena.calls.models import Call
from arena.models import Run, Vote
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, Sent, prefers
from tests.judges.helpers import order
from tests.ops.running import eventually
from tests.stress.installation import BILLED, Installation

pytestmark = [pytest.mark.slow, pytest.mark.services]
# The broker hands a message out again after two seconds, to whoever asks.
SETTINGS = "tests.stress.short_leases"
# With a timeout of 1 s for the whole request, a lease lasts so long:
LEASE = 7.0
DRIPS, EVERY = 40, 0.5  # longer than the lease and the sweep that follows it
LONG = "x-drips"
PROMPTS = 5


class Dripping:
    """The first request is answered one blank at a time, so that no single read takes long."""

    def __init__(self, server: FakeServer) -> None:
        self.began_at = self.given_up_at = 0.0
        self._answers = prefers("-0 of", seconds=0.1)
        self._first = True
        server.otherwise = self
        server._http.RequestHandlerClass = self._handler(server._http.RequestHandlerClass)

    def __call__(self, body: dict[str, Any]) -> Sent:
        sent = self._answers(body)
        if self._first:
            self.began_at = time.time()
            sent.headers[LONG] = "yes"
        self._first = False
        return sent

    def _handler(self, normal: Any) -> Any:
        drip = self._drip

        class Handler(normal):
            def _send(self, sent: Sent) -> None:
                if LONG in sent.headers:
                    drip(self, sent)
                else:
                    super()._send(sent)

        return Handler

    def _drip(self, connection: Any, sent: Sent) -> None:
        connection.close_connection = True
        connection.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        try:
            for _ in range(DRIPS):
                connection.wfile.write(b" ")
                connection.wfile.flush()
                time.sleep(EVERY)
            connection.wfile.write(json.dumps(sent.body).encode())
        except OSError:
            self.given_up_at = time.time()


def test_a_reply_without_an_end_is_given_up_within_its_lease_and_has_one_result(
    installation: Installation,
) -> None:
    dripping = Dripping(installation.server)
    run = order(make_arena(3, PROMPTS), per_pair=PROMPTS, cap=10**12)
    installation.beat()
    installation.worker(calls=4, DJANGO_SETTINGS_MODULE=SETTINGS)
    eventually(lambda: Run.objects.get().state == "done", patience=300)
    long = Call.objects.get(attempts__gt=1)
    others = Call.objects.exclude(pk=long.pk)
    assert set(others.values_list("state", "attempts", "requests")) == {("done", 1, 1)}
    assert dripping.began_at < dripping.given_up_at < dripping.began_at + LEASE
    assert (long.state, long.requests, long.cut_off_requests) == ("done", 2, 1)
    check_once_more(run, long)


def check_once_more(run: Run, long: Call) -> None:
    """What arrives later changes neither the call nor the money."""
    time.sleep(1)
    run.refresh_from_db()
    again = Call.objects.get(pk=long.pk)
    assert (again.reply, again.cost, again.finished_at) == (
        long.reply,
        BILLED,
        long.finished_at,
    )
    assert (run.settled, run.uncertain) == (6 * PROMPTS * BILLED, long.uncertain)
    assert Vote.objects.count() == 3 * PROMPTS
