"""Two candidates compared: the claim, the record, and the votes between the two."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from arena.models import Arena, Candidate, Rater
from ranking.models import Snapshot
from tests.factories import make_arena, make_vote, make_votes
from tests.ranking.helpers import cast, fill, get_page, publish, words

pytestmark = pytest.mark.django_db


def compare_page(client: Client, a: object = "", b: object = "", more: str = "") -> str:
    return words(get_page(client, f"/a/support/compare/?a={a}&b={b}{more}"))


def ids(arena: Arena) -> list[int]:
    return [candidate.pk for candidate in arena.candidates.order_by("pk")]


@pytest.fixture
def spread_arena() -> Arena:
    """Over 60 prompts a beats b five times in six; c trades wins with both."""
    arena = make_arena(3, 60, slug="support", name="Support answers")
    a, b, c = arena.candidates.order_by("pk")
    rows = []
    for i, prompt in enumerate(arena.prompts.order_by("pk")):
        rows.append((a, b, "right" if i % 6 == 0 else "left", prompt))
        rows.append((b, c, "left" if i % 2 else "right", prompt))
        rows.append((c, a, "left" if i % 3 == 0 else "right", prompt))
    make_votes(arena, rows)
    return arena


def test_the_page_says_the_claim_and_the_facts(client: Client, spread_arena: Arena) -> None:
    snapshot = publish(spread_arena)
    a, b, _ = ids(spread_arena)
    score = {s.candidate_id: s.score for s in snapshot.standings.all()}
    page = compare_page(client, a, b)
    assert (
        "candidate-0 is better than candidate-1 for this one rater and prompts like these" in page
    )
    assert "it wins 83% of the time (66 to 95). One rater says nothing about others." in page
    assert "83% 66% to 95% at every look; ties count half" in page
    assert f"+{score[a] - score[b]:.0f} Elo for candidate-0" in page
    assert "50 won, 10 lost, 0 tied, 0 both bad from candidate-0’s side" in page


def test_the_other_way_round_all_is_mirrored(client: Client, spread_arena: Arena) -> None:
    publish(spread_arena)
    a, b, _ = ids(spread_arena)
    page = compare_page(client, b, a)
    assert "candidate-1 is worse than candidate-0 for this one rater" in page
    assert "it wins 17% of the time (5 to 34)" in page
    assert "10 won, 50 lost" in page


def test_what_is_not_decided_says_what_is_missing(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    a, _, c = ids(arena)
    page = compare_page(client, a, c)
    assert "for this one rater and prompts like these." in page
    assert "too close" not in page
    assert "clearly" not in page


def test_without_a_score_the_reason_is_given(client: Client, arena: Arena) -> None:
    new = Candidate.objects.create(arena=arena, name="newcomer")
    publish(arena)
    a = ids(arena)[0]
    page = compare_page(client, a, new.pk)
    assert "No votes yet: nobody has compared candidate-0 with newcomer." in page
    assert "newcomer: It has no votes yet." in page
    assert "Direct votes None yet." in page
    assert "Elo for" not in page
    make_vote(arena, new, arena.candidates.get(pk=a), "left", arena.prompts.first())
    publish(arena)
    page = compare_page(client, new.pk, a)
    assert "newcomer: It has never lost or tied" in page
    assert "1 won, 0 lost, 0 tied" in page
    assert "100%" in page


def test_a_candidate_that_came_after_the_snapshot_is_named(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    new = Candidate.objects.create(arena=arena, name="newcomer")
    page = compare_page(client, new.pk, ids(arena)[0])
    assert "newcomer: It is not on this leaderboard yet." in page
    assert "No direct comparisons yet." in page


def test_soft_verdicts_count_what_they_say(client: Client, arena: Arena, judge: Rater) -> None:
    a, b, _ = arena.candidates.order_by("pk")
    for preference in (0.75, 0.75):
        make_vote(arena, b, a, "left", arena.prompts.first(), judge, preference=preference)
    publish(arena)
    page = compare_page(client, a.pk, b.pk, "&raters=judges")
    assert "0 won, 2 lost, 0 tied, 0 both bad" in page
    assert "for this judge and prompts like these" in page
    assert "wins 25% of the time" in page
    assert "Judge A strict judge" in page


def test_the_comparisons_they_share_are_listed(client: Client, arena: Arena) -> None:
    a, b, c = arena.candidates.order_by("pk")
    for _ in range(20):
        cast(arena)
    make_vote(arena, b, a, "left", None)
    make_vote(arena, a, c, "both_bad", None)
    publish(arena)
    page = compare_page(client, a.pk, b.pk)
    assert "1–25 of 29, newest first" in page
    assert "candidate-1 preferred Prompt unknown Person" in page
    assert "candidate-0 preferred Question 0?" in page
    second = compare_page(client, a.pk, b.pk, "&page=2")
    assert "26–29 of 29" in second
    assert "Newer" in second
    assert "Both bad Prompt unknown" in compare_page(client, a.pk, c.pk)
    assert "Tie Question 2?" in compare_page(client, b.pk, c.pk)
    address = f"/a/support/compare/?raters=people&amp;a={a.pk}&amp;b={b.pk}&amp;page=2#comparisons"
    raw = client.get(f"/a/support/compare/?a={a.pk}&b={b.pk}").content.decode()
    assert address in raw


def test_a_category_has_its_own_difference_and_list(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    a, b, _ = ids(arena)
    page = compare_page(client, a, b, "&category=category-0")
    assert "1–4 of 4" in page
    raw = client.get(f"/a/support/compare/?a={a}&b={b}&category=category-0").content.decode()
    assert f"category=category-1&amp;a={a}&amp;b={b}" in raw.replace("raters=people&amp;", "")


@pytest.mark.parametrize("value", ["999999", "x", "-1", "²", "9" * 19, "9" * 400, "1.0"])
def test_unknown_candidates_are_not_found(
    client: Client, arena: Arena, published: Snapshot, value: str
) -> None:
    known = ids(arena)[0]
    for query in (f"a={value}&b={known}", f"a={known}&b={value}", f"a={value}"):
        assert client.get(f"/a/support/compare/?{query}").status_code == 404


def test_a_candidate_of_another_arena_is_not_found(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    other = ids(make_arena())[0]
    known = ids(arena)[0]
    assert client.get(f"/a/support/compare/?a={known}&b={other}").status_code == 404


def test_the_same_candidate_twice_is_reported(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    a = ids(arena)[0]
    page = compare_page(client, a, a)
    assert "You chose the same candidate twice." in page
    assert "Votes between the two" not in page


def test_without_a_choice_the_first_two_are_offered(client: Client, published: Snapshot) -> None:
    first, second = published.standings.order_by("rank")[:2]
    raw = client.get("/a/support/compare/").content.decode()
    assert re.findall(r'<option value="(\d+)" selected', raw) == [
        str(first.candidate_id),
        str(second.candidate_id),
    ]
    assert "Row’s win rate against column" in raw
    half = client.get(f"/a/support/compare/?a={second.candidate_id}").content.decode()
    assert re.findall(r'<option value="(\d+)" selected', half) == [
        str(second.candidate_id),
        str(first.candidate_id),
    ]


def test_names_are_escaped(client: Client, arena: Arena) -> None:
    Candidate.objects.filter(pk=ids(arena)[0]).update(name="<script>&amp;</script>")
    publish(arena)
    a, b, _ = ids(arena)
    raw = client.get(f"/a/support/compare/?a={a}&b={b}").content.decode()
    assert "<script>" not in raw
    assert "&lt;script&gt;&amp;amp;&lt;/script&gt; preferred" in raw


def test_on_the_combined_board_people_decide(client: Client, arena: Arena, judge: Rater) -> None:
    fill(arena, rounds=1, rater=judge)
    publish(arena)
    a, b, _ = ids(arena)
    page = compare_page(client, a, b, "&raters=combined")
    assert "human votes, from candidate-0’s side" in page
    assert "1–8 of 8" in page
    assert "for this one rater and prompts like these" in page
    matrix = client.get("/a/support/compare/?raters=combined").content.decode()
    assert "Only human votes are shown" in matrix
    assert f"?raters=people&amp;opponent={b}#" in matrix


def test_pages_of_missing_boards(client: Client, arena: Arena) -> None:
    assert "The first leaderboard is being computed" in compare_page(client, *ids(arena)[:2])
    publish(arena)
    assert "No LLM-judge votes here yet." in compare_page(client, "", "", "&raters=judges")
    assert "needs votes by both people and" in compare_page(client, "", "", "&raters=combined")
    assert client.get("/a/support/compare/?category=no-such").status_code == 404


def test_it_takes_at_most_fourteen_queries(
    client: Client,
    arena: Arena,
    published: Snapshot,
    django_assert_max_num_queries: Callable[..., Any],
) -> None:
    a, b, _ = ids(arena)
    new = Candidate.objects.create(arena=arena, name="newcomer")
    for other in (b, new.pk):
        with django_assert_max_num_queries(14):
            first = client.get(f"/a/support/compare/?a={a}&b={other}")
    again = client.get(
        f"/a/support/compare/?a={a}&b={new.pk}", headers={"If-None-Match": first["ETag"]}
    )
    assert again.status_code == 304
