"""Live questions of many raters at once, whose pages close and whose web server is killed."""

import asyncio
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings as django_settings
from django.db.models import Sum
from django.utils import timezone

from arena.actors import CLI
from arena.calls.models import Call
from arena.endpoints import Endpoint, ModelPrice
from arena.models import Arena, LiveConversation, Run
from arena.services import live
from benchmarks.contests import vote
from benchmarks.load import request
from benchmarks.sample import Person, browser_of, people
from benchmarks.serving import free_port
from tests.environment import REPOSITORY
from tests.factories import make_arena, make_candidate, make_paying_team, make_person
from tests.ops.running import Up, children, eventually, up
from tests.stress.installation import Installation

pytestmark = [pytest.mark.slow, pytest.mark.services]
State = LiveConversation.State
FIRST = {"quick": 0.5, "slow": 1.0}  # seconds until each model's first token
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = resource.getpagesize()


@dataclass
class Site:
    """A Ringside with an arena of live questions, and the processes of its two models."""

    running: Up
    address: tuple[str, int]
    live: str
    models: list[int]
    processes: list[int]  # of the models

    def web(self) -> list[int]:
        """The processes of the web server: granian, and the one that answers."""
        parent = self.running.child("serve")
        return [parent, *children(parent)] if parent else []

    def seconds_used(self) -> list[float]:
        """The processor time of the web server and of the models so far."""
        return [seconds_used(self.web()), seconds_used(self.processes)]

    def memory(self) -> float:
        """Megabytes of the process that answers."""
        pages = Path(f"/proc/{self.web()[-1]}/statm").read_text().split()[1]
        return int(pages) * PAGE / 1e6

    def seen(self) -> list[dict[str, Any]]:
        """What both models were asked."""
        rows: list[dict[str, Any]] = []
        for port in self.models:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/seen") as told:
                rows += json.load(told)
        return rows


def seconds_used(pids: Iterable[int]) -> float:
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2] for pid in pids]
    return sum(int(n) for stat in stats for n in stat.split()[11:13]) / TICKS


@pytest.fixture
def site(installation: Installation, settings: Any, tmp_path: Path) -> Iterator[Any]:
    """Start it: `with site(tokens=300) as running`. What is asked costs money.

    The models write `rate` tokens a second, or 0: all at once.
    """

    @contextmanager
    def start(tokens: int, rate: int = 30) -> Iterator[Site]:
        ports = {name: free_port() for name in FIRST}
        rows = {
            name: {
                "provider": "openai",
                "base_url": f"http://127.0.0.1:{port}/v1",
                "timeout": 60,
                "prices": {name: {"input": 2, "output": 5}},
            }
            for name, port in ports.items()
        }
        price = ModelPrice(2 * 10**9, 5 * 10**9)
        settings.MODEL_ENDPOINTS = {
            name: Endpoint(name, "openai", row["base_url"], timeout=60, prices={name: price})
            for name, row in rows.items()
        }
        with ExitStack() as stack:
            processes = [
                stack.enter_context(model(port, FIRST[name] if rate else 0, rate, tokens))
                for name, port in ports.items()
            ]
            slug, port = open_ring(), free_port()
            home = tmp_path / "up"
            home.mkdir()
            environment = installation.environment | {
                "MODEL_ENDPOINTS": json.dumps(rows),
                "SECRET_KEY": django_settings.SECRET_KEY,
                "NEW_RATERS_PER_HOUR": "1000000",
                "RINGSIDE_HOME": str(home),
                "PORT": str(port),
            }
            running = stack.enter_context(up(home, **environment))
            address, models = ("127.0.0.1", port), list(ports.values())
            yield Site(running, address, f"/a/{slug}/live/", models, processes)

    return start


@contextmanager
def model(port: int, first: float, rate: float, tokens: int) -> Iterator[int]:
    """Start it and yield its process id."""
    given = [str(number) for number in (port, first, rate, tokens)]
    command = [sys.executable, "-m", "tests.stress.model_server", *given]
    process = subprocess.Popen(command, cwd=REPOSITORY)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def open_ring() -> str:
    """Open an arena's live questions to both models, with more money than they can spend."""
    arena = make_arena(0, 1, team=make_paying_team(10**15))
    for name in FIRST:
        make_candidate(arena, name, endpoint=name, model=name)
    live.set_up_live(
        arena=arena,
        by=CLI,
        now=timezone.now(),
        limit=100_000,
        voters=Arena.Voters.ANYONE,
        refused_words="",
        candidates=list(arena.candidates.all()),
    )
    return arena.slug


@dataclass
class Browser:
    """A rater's browser, which asks one question. All times are of the monotonic clock."""

    site: Site
    person: Person
    key: str = field(default_factory=lambda: str(uuid4()))
    opened: float = 0.0
    parts: list[float] = field(default_factory=list)
    ended: bool = False
    closed: float = 0.0

    @property
    def question(self) -> str:
        return f"Which parcel leaves first, and when? {self.key}"

    async def ask(self) -> None:
        form = {"question": self.question, "key": self.key}
        assert await self._post(self.site.live, form) == 302

    async def vote(self, outcome: str = "left") -> None:
        assert await self._post(f"{self.site.live}{self.key}/vote/", {"outcome": outcome}) == 302

    async def _post(self, path: str, form: dict[str, str]) -> int:
        form |= {"csrfmiddlewaretoken": self.person.token}
        return await exchange(self.site, self._request("POST", path, form=form))

    def _request(self, method: str, path: str, **fields: Any) -> bytes:
        return request(method, path, cookies=self.person.cookies, Connection="close", **fields)

    async def watch(self, until: Callable[["Browser"], bool] = lambda _: False) -> bytes:
        """Read the answers as they are written, until they end or the page is closed.

        Returns the first line of the response: with 204 there is nothing to come back for.
        """
        reader, writer = await asyncio.open_connection(*self.site.address)
        self.opened = time.monotonic()
        try:
            writer.write(self._request("GET", f"{self.site.live}{self.key}/stream/"))
            told = await reader.readline()
            while not until(self) and (line := await reader.readline()):
                if line == b"event: part\n":
                    self.parts.append(time.monotonic())
                self.ended |= line == b"event: end\n"
        finally:
            self.closed = time.monotonic()
            writer.transport.abort()
        return told

    @property
    def longest_gap(self) -> float:
        return max(after - before for before, after in pairwise(self.parts))


async def exchange(site: Site, asked: bytes) -> int:
    """Send one request; return the status of the response, once all of it is here."""
    reader, writer = await asyncio.open_connection(*site.address)
    try:
        writer.write(asked)
        answer = await reader.read()
    finally:
        writer.transport.abort()
    if not answer:
        raise ConnectionResetError
    return int(answer[9:12])


def browsers(site: Site, number: int) -> list[Browser]:
    return [Browser(site, browser_of(make_person())) for _ in range(number)]


async def all_at_once(doing: Iterable[Coroutine[Any, Any, Any]], within: float = 0.0) -> None:
    """Begin all of it evenly over so many seconds, and wait for its end."""
    todo = list(doing)
    async with asyncio.TaskGroup() as tasks:
        for one in todo:
            tasks.create_task(one)
            await asyncio.sleep(within / len(todo))


async def converse(asking: list[Browser]) -> None:
    await all_at_once(one.ask() for one in asking)
    await all_at_once(one.watch() for one in asking)


def states() -> Counter[str]:
    return Counter(LiveConversation.objects.values_list("state", flat=True))


def percentile(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100)[share - 1]


def check_money() -> None:
    """Nothing is under way, and what the calls cost is what the run has paid."""
    assert not Call.objects.filter(state__in=Call.GOING_ON).exists()
    run = Run.objects.get()
    sums = Call.objects.aggregate(cost=Sum("cost"), uncertain=Sum("uncertain"))
    assert (run.reserved, run.settled, run.uncertain) == (0, sums["cost"], sums["uncertain"])


# How quick


class Ballots:
    """Votes on an ordinary arena, so many a second; and how long each took."""

    def __init__(self, site: Site, voters: list[Person], slug: str) -> None:
        self.site = site
        self.asked = (
            vote(person, f"/a/{slug}/vote/{key}/", number).replace(
                b"Host:", b"Connection: close\r\nHost:"
            )
            for person in voters
            for number, key in enumerate(person.keys)
        )

    async def cast(self, seconds: float, a_second: int = 10) -> list[float]:
        took: list[float] = []

        async def one(asked: bytes) -> None:
            began = time.monotonic()
            assert await exchange(self.site, asked) == 200
            took.append(time.monotonic() - began)

        until = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            while time.monotonic() < until:
                tasks.create_task(one(next(self.asked)))
                await asyncio.sleep(1 / a_second)
        return took


def ask_fifty(running: Site, within: float) -> None:
    """Open fifty pages over so many seconds, while others vote in an ordinary arena."""
    arena = make_arena(5, 40)
    ballots = Ballots(running, people(arena, 20, pairs_each=40), arena.slug)
    warm_up, asking = browsers(running, 2), browsers(running, 50)

    async def play() -> tuple[list[float], list[float]]:
        await asyncio.gather(converse(warm_up), ballots.cast(3))
        quiet = await ballots.cast(15)
        await all_at_once(one.ask() for one in asking)
        async with asyncio.TaskGroup() as tasks:
            beside = tasks.create_task(ballots.cast(15))
            await all_at_once((one.watch() for one in asking), within)
        return quiet, beside.result()

    quiet, beside = asyncio.run(play())
    first = sorted(one.parts[0] - one.opened for one in asking)
    gap = max(one.longest_gap for one in asking)
    votes = [percentile(took, 95) for took in (quiet, beside)]
    print(
        f"first part after {first[25]:.2f} s, {first[-1]:.2f} s at most; longest gap {gap:.2f} s; "
        f"votes' p95 {votes[0] * 1000:.1f} ms quietly, {votes[1] * 1000:.1f} ms beside"
    )
    assert states() == {State.ANSWERED: 52}
    # The first part came after 1.4 s at most on one machine and after 4.9 s on a slower one, no gap
    # was longer than 0.4 s, and votes took 35 and 240 ms.
    assert gap <= 2.0
    assert first[-1] <= 10.0
    assert votes[1] <= 1.0


@pytest.mark.alone
def test_fifty_conversations_go_on_evenly_and_votes_beside_them(site: Any) -> None:
    with site(tokens=300) as running:
        ask_fifty(running, within=5.0)


@pytest.mark.alone
def test_a_conversation_takes_little_of_the_processor(site: Any) -> None:
    with site(tokens=300) as running:
        asyncio.run(converse(browsers(running, 5)))
        asking = browsers(running, 50)

        async def play() -> list[list[float]]:
            used = [running.seconds_used()]
            await all_at_once(one.ask() for one in asking)
            used.append(running.seconds_used())
            await all_at_once(one.watch() for one in asking)
            return [*used, running.seconds_used()]

        start, asked, answered = asyncio.run(play())
        to_ask = 1000 * (asked[0] - start[0]) / 50
        to_answer, to_write = (1000 * (answered[i] - asked[i]) / 50 for i in (0, 1))
        print(f"{to_ask:.0f} ms to ask, {to_answer:.0f} to answer; models took {to_write:.0f} ms")
        assert all(one.ended for one in asking)
        assert to_answer <= 12 * to_write  # 7.2 times as much


def test_memory_does_not_grow_with_conversations(site: Any) -> None:
    with site(tokens=2, rate=0) as running:
        asking = iter(browsers(running, 1_000))

        async def one_after_the_other() -> None:
            for one in asking:
                await one.ask()
                await one.watch()
                await one.vote()
                measured.append(running.memory())

        measured: list[float] = []
        asyncio.run(all_at_once(one_after_the_other() for _ in range(20)))
        before, after = measured[100], measured[-1]
        print(f"{before:.1f} MB after 100 conversations, {after:.1f} MB after 1,000")
        assert states() == {State.ANSWERED: 1_000}
        assert after - before < max(20, before / 10)


# What is lost


@pytest.mark.alone
def test_closed_pages_end_both_requests(site: Any) -> None:
    with site(tokens=300) as running:
        asking, die = browsers(running, 100), random.Random(1)

        async def leave_in_between(one: Browser) -> None:
            enough = die.randint(1, 40)
            await one.watch(until=lambda one: len(one.parts) >= enough)

        async def play() -> None:
            await all_at_once(one.ask() for one in asking)
            await all_at_once(leave_in_between(one) for one in asking)

        asyncio.run(play())
        eventually(lambda: all(row["ended"] for row in running.seen()))
        closed = {one.question: one.closed for one in asking}
        rows = running.seen()
        late = sorted(row["ended"] - closed[row["question"]] for row in rows)
        print(f"requests ended {late[len(late) // 2]:.2f} s later, {late[-1]:.2f} s at most")
        asked = Counter((row["question"], row["model"]) for row in rows)
        assert asked == {(question, name): 1 for question in closed for name in FIRST}
        assert all(row["left"] for row in rows)
        assert late[-1] < 5  # 1.4 at most
        eventually(lambda: states() == {State.STOPPED: 100}, patience=5)
        check_money()


class Persistent:
    """Raters who ask one question after the other, whatever becomes of the web server."""

    def __init__(self, asking: list[Browser]) -> None:
        self.asking = iter(asking)
        self.begun = 0
        self.broken = 0

    async def play(self) -> None:
        for one in self.asking:
            await insist(one.ask)
            self.begun += 1
            while not one.ended:
                told = await insist(one.watch)
                if b" 204 " in told:
                    break
                self.broken += not one.ended


async def insist(do: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Try again until the web server is there."""
    while True:
        with suppress(ConnectionError):
            return await do()
        await asyncio.sleep(0.1)


async def kill_again_and_again(site: Site, raters: Persistent, kills: int, every: int) -> None:
    """Kill the process that answers, or granian with it, each time some more have asked."""
    die = random.Random(2)
    for number in range(1, kills + 1):
        while raters.begun < number * every:
            await asyncio.sleep(0.01)
        await asyncio.sleep(die.uniform(0, 1.5))
        victims = await asyncio.to_thread(site.web)
        for pid in victims if number % 2 else victims[1:]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_kills_leave_nothing_reserved_and_ask_nobody_twice(site: Any) -> None:
    with site(tokens=45, rate=60) as running:
        raters = Persistent(browsers(running, 200))

        async def play() -> None:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(10):
                    tasks.create_task(raters.play())
                tasks.create_task(kill_again_and_again(running, raters, kills=20, every=9))

        began = time.monotonic()
        asyncio.run(play())
        took = time.monotonic() - began
        unfinished = LiveConversation.objects.filter(state__in=[State.WAITING, State.WRITING])
        eventually(lambda: not unfinished.exists(), patience=150)
        eventually(lambda: not Call.objects.filter(state__in=Call.GOING_ON).exists())
        print(f"{took:.0f} s; {raters.broken} broken off; {dict(states())}")
        assert raters.broken >= 20
        assert states().total() == 200
        asked = Counter((row["question"], row["model"]) for row in running.seen())
        assert set(asked.values()) == {1}
        check_money()
