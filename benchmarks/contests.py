"""The measured scripts of raters and readers, played in turns, round by round."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import quantiles

from benchmarks.load import Answer, Script, play, request
from benchmarks.sample import SLUG, Person

RATERS = 32
ROUNDS = 7
SECONDS = 3.0
WARM_UP = 1.5
PAIRS_EACH = 60
NEXT_KEY = re.compile(rb'class="pair" data-key="([0-9a-f-]{36})"')
OUTCOMES = ("left", "right", "tie", "both_bad")


@dataclass(frozen=True)
class Measure:
    rate: float
    p50: float
    p95: float


Measures = dict[str, list[Measure]]


def voting(people: Iterator[Person]) -> Script:
    """Vote on all issued pairs, then continue as the next rater."""
    for person in people:
        for number, key in enumerate(person.keys):
            answer = yield vote(person, f"/a/{SLUG}/vote/{key}/", number)
            _expect(answer, b"data-after")


def voting_on(people: Iterator[Person]) -> Script:
    """Vote, get the next pair in the response, vote on that one, and so on."""
    for person in people:
        key = str(person.keys[0])
        for number in range(PAIRS_EACH):
            answer = yield vote(person, f"/a/{SLUG}/vote/{key}/", number, with_next="1")
            _expect(answer, b"data-after")
            match = NEXT_KEY.search(answer.body)
            if not match:
                raise RuntimeError("There was no next pair.")
            key = match[1].decode()


def inserting(people: Iterator[Person]) -> Script:
    """Post the same form, with the same cookies, to the bare view."""
    for person in people:
        number = 0
        while True:
            answer = yield vote(person, "/bare/insert/", number)
            _expect(answer, b"is there")
            number += 1


def reading(path: str, words: bytes) -> Script:
    """Read a page like a browser that accepts compression."""
    asked = request("GET", path, Accept_Encoding="gzip")
    while True:
        answer = yield asked
        _expect(answer, words)


def compete(
    address: tuple[str, int], contestants: dict[str, Callable[[], Script]], rounds: int = ROUNDS
) -> Measures:
    """Give each contestant a turn in every round, in an order that is reversed each time."""
    for script in contestants.values():
        _play(address, script, WARM_UP)
    measures: Measures = defaultdict(list)
    names = list(contestants)
    for number in range(rounds):
        for name in names if number % 2 else reversed(names):
            measures[name].append(_turn(address, contestants[name], SECONDS))
    return measures


def _turn(address: tuple[str, int], script: Callable[[], Script], seconds: float) -> Measure:
    times = _play(address, script, seconds)
    cuts = quantiles(times, n=20)
    return Measure(len(times) / seconds, 1000 * cuts[9], 1000 * cuts[18])


def _play(address: tuple[str, int], script: Callable[[], Script], seconds: float) -> list[float]:
    """Return the seconds that each response took."""
    times: list[float] = []
    scripts = [script() for _ in range(RATERS)]
    play(address, scripts, seconds=seconds, on_answer=lambda answer: times.append(answer.seconds))
    return times


def vote(person: Person, path: str, number: int, **more: str) -> bytes:
    """The request that posts the voting form, as htmx sends it."""
    form = {"outcome": OUTCOMES[number % 4], "csrfmiddlewaretoken": person.token}
    return request("POST", path, cookies=person.cookies, form=form | more, HX_Request="true")


def _expect(answer: Answer, words: bytes) -> None:
    if answer.status != 200 or words not in answer.body:
        raise RuntimeError(f"An unexpected answer: {answer.status}\n{answer.body[:2000]!r}")
