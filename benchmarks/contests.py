"""The measured scripts of raters and readers."""

import re
from collections.abc import Iterator

from benchmarks.load import Answer, Script, request
from benchmarks.sample import SLUG, Person

PAIRS_EACH = 60
NEXT_KEY = re.compile(rb'class="pair" data-key="([0-9a-f-]{36})"')
OUTCOMES = ("left", "right", "tie", "both_bad")


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


def reading(path: str, words: bytes) -> Script:
    """Read a page like a browser that accepts compression."""
    asked = request("GET", path, Accept_Encoding="gzip")
    while True:
        answer = yield asked
        _expect(answer, words)


def vote(person: Person, path: str, number: int, **more: str) -> bytes:
    """The request that posts the voting form, as htmx sends it."""
    form = {"outcome": OUTCOMES[number % 4], "csrfmiddlewaretoken": person.token}
    return request("POST", path, cookies=person.cookies, form=form | more, HX_Request="true")


def _expect(answer: Answer, words: bytes) -> None:
    if answer.status != 200 or words not in answer.body:
        raise RuntimeError(f"An unexpected answer: {answer.status}\n{answer.body[:2000]!r}")
