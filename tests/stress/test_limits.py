"""Limits that guard votes count every request, however many come at once to two processes."""

from collections import Counter
from typing import Any

import pytest

from arena.models import Rater
from benchmarks.load import Answer, Script, play, request
from benchmarks.sample import browser_of
from tests.factories import make_arena, make_person

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
LIMIT, AT_ONCE = 40, 300


def once(asked: bytes) -> Script:
    yield asked


def codes_of(web: Any, asked: bytes) -> Counter[int]:
    """Ask `AT_ONCE` times at the same time; count what comes back."""
    answers: list[Answer] = []
    play(web.address, [once(asked) for _ in range(AT_ONCE)], on_answer=answers.append)
    return Counter(answer.status for answer in answers)


def test_exactly_as_many_pages_as_a_minute_allows(serve: Any) -> None:
    arena = make_arena(2, 1)
    cookies = browser_of(make_person()).cookies
    with serve(VOTES_PER_MINUTE=str(LIMIT)) as web:
        codes = codes_of(web, request("GET", f"/a/{arena.slug}/vote/", cookies=cookies))
    assert codes == {200: LIMIT, 429: AT_ONCE - LIMIT}


def test_exactly_as_many_new_raters_as_an_hour_allows(serve: Any) -> None:
    arena = make_arena(2, 1)
    with serve(NEW_RATERS_PER_HOUR=str(LIMIT)) as web:
        codes = codes_of(web, request("GET", f"/a/{arena.slug}/vote/"))
    assert codes == {200: LIMIT, 429: AT_ONCE - LIMIT}
    assert Rater.objects.count() == LIMIT
