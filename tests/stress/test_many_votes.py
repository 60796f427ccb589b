"""Votes under load: none lost, none doubled, none refused because the database was busy."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from arena.models import Rater, Vote
from arena.services.previews import preview_comparison
from benchmarks.contests import vote
from benchmarks.load import Answer, Script, play, request
from benchmarks.sample import Person, browser_of, people
from benchmarks.serving import Web
from tests.factories import make_arena, make_person
from tests.stress.helpers import count_codes

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def target(arena: Any, key: Any) -> str:
    return f"/a/{arena.slug}/vote/{key}/"


def test_500_submissions_of_one_comparison_are_one_vote(web: Web) -> None:
    arena = make_arena(2, 1)
    (person,) = people(arena, 1, pairs_each=1)
    requests = [vote(person, target(arena, person.keys[0]), number) for number in range(500)]
    codes = count_codes(web, requests)
    assert codes.total() == 500
    # 200: this is the vote that stands; 204 leads to the page that says the first one counts; 503:
    # more than 200 wait already for a thread of the process.
    assert {200, 204} <= set(codes) <= {200, 204, 503}
    assert Vote.objects.count() == 1


def vote_on_all(arena: Any, person: Person) -> Script:
    for number, key in enumerate(person.keys):
        yield vote(person, target(arena, key), number)


@pytest.mark.parametrize(("processes", "threads", "each"), [(1, 8, 100), (2, 4, 300)])
def test_8_writers_are_never_refused(serve: Any, processes: int, threads: int, each: int) -> None:
    arena = make_arena(5, 30)
    voters = people(arena, 8, pairs_each=each)
    codes: Counter[int] = Counter()

    def count(answer: Answer) -> None:
        codes[answer.status] += 1

    with serve(processes=processes, threads=threads) as web:
        scripts: Iterator[Script] = (vote_on_all(arena, person) for person in voters)
        play(web.address, scripts, on_answer=count)
    assert codes == {200: 8 * each}
    assert Vote.objects.filter(voided_at=None).count() == 8 * each


LIMIT, AT_ONCE = 40, 120


def test_exactly_as_many_pages_and_new_raters_as_allowed(serve: Any) -> None:
    arena = make_arena(2, 1)
    person = browser_of(make_person())
    page = f"/a/{arena.slug}/vote/"
    unknown = replace(person, cookies={"csrftoken": person.cookies["csrftoken"]})
    first_votes = []
    for _ in range(AT_ONCE):
        shown, sealed = preview_comparison(arena=arena, now=timezone.now())
        assert shown is not None
        first_votes.append(vote(unknown, target(arena, shown.key), 0, sealed=sealed))
    with serve(VOTES_PER_MINUTE=str(LIMIT), NEW_RATERS_PER_HOUR=str(LIMIT)) as web:
        of_a_rater = count_codes(web, [request("GET", page, cookies=person.cookies)] * AT_ONCE)
        of_new_ones = count_codes(web, first_votes)
    assert of_a_rater == {200: LIMIT, 429: AT_ONCE - LIMIT}
    assert of_new_ones == {200: LIMIT, 204: AT_ONCE - LIMIT}  # which leads to the reason
    assert Rater.objects.count() == 1 + LIMIT
