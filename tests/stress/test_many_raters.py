"""Issuing to many raters at once, each with two tabs that race."""

import re
from collections import Counter

import pytest

from arena.db.sql import MOST_UNEVEN
from arena.models import Arena, Comparison, Pair
from benchmarks.contests import NEXT_KEY, vote
from benchmarks.load import Answer, Script, play, request
from benchmarks.sample import Person, browser_of
from benchmarks.serving import Web
from tests.factories import make_arena, make_person

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
RATERS, TABS, VOTES_PER_TAB = 32, 2, 5
ON_SCREEN = re.compile(rb'data-key="([0-9a-f-]{36})"')


def tab(arena: Arena, person: Person) -> Script:
    """Open the page; then prefetch a pair, vote, and get the next pair in the response."""
    page = yield request("GET", f"/a/{arena.slug}/vote/", cookies=person.cookies)
    key = ON_SCREEN.search(page.body)[1].decode()
    for _ in range(VOTES_PER_TAB):
        ahead = f"/a/{arena.slug}/vote/next/?besides={key}"
        yield request("GET", ahead, cookies=person.cookies)
        answer = yield vote(person, f"/a/{arena.slug}/vote/{key}/", 0, with_next="1")
        key = NEXT_KEY.search(answer.body)[1].decode()


@pytest.fixture
def arena(web: Web) -> Arena:
    """An arena on which everybody has voted for a while."""
    arena = make_arena(4, 12)
    raters = [browser_of(make_person()) for _ in range(RATERS)]
    codes: Counter[int] = Counter()

    def count(answer: Answer) -> None:
        codes[answer.status] += 1

    scripts = [tab(arena, person) for person in raters for _ in range(TABS)]
    play(web.address, scripts, seconds=300, on_answer=count)
    assert codes == {200: RATERS * TABS * (1 + 2 * VOTES_PER_TAB)}
    return arena


def test_sides_stay_even_and_no_rater_gets_two_responses_twice(arena: Arena) -> None:
    given: Counter[tuple[int, frozenset[int]]] = Counter()
    left: Counter[tuple[int, int]] = Counter()
    for one in Comparison.objects.filter(arena=arena):
        given[one.rater_id, frozenset([one.left_response_id, one.right_response_id])] += 1
        left[one.left_id, one.right_id] += 1
    assert set(given.values()) == {1}
    for pair in Pair.objects.filter(arena=arena):
        shown = left[pair.low_id, pair.high_id], left[pair.high_id, pair.low_id]
        assert shown == (pair.low_left, pair.high_left)
        assert abs(shown[0] - shown[1]) <= MOST_UNEVEN


def test_racing_tabs_get_the_one_pair_that_is_left(web: Web) -> None:
    arena = make_arena(2, 2)
    raters = [browser_of(make_person()) for _ in range(RATERS)]
    keys: dict[str, str] = {}

    def open_page(person: Person) -> Script:
        page = yield request("GET", f"/a/{arena.slug}/vote/", cookies=person.cookies)
        keys[person.token] = ON_SCREEN.search(page.body)[1].decode()

    def fetch_ahead(person: Person) -> Script:
        url = f"/a/{arena.slug}/vote/next/?besides={keys[person.token]}"
        answer = yield request("GET", url, cookies=person.cookies)
        assert b'class="choices"' in answer.body

    play(web.address, map(open_page, raters))
    play(web.address, [fetch_ahead(person) for person in raters for _ in range(6)])
    prompts = Counter(Comparison.objects.values_list("rater", "prompt"))
    assert prompts.total() == RATERS * 2
    assert set(prompts.values()) == {1}
