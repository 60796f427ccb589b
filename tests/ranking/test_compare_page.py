"""Two candidates compared: the claim, where and why each wins, and the votes between the two."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from arena.models import Arena, Candidate, Rater, Response
from ranking.models import Snapshot
from ranking.reasons import NamedReason
from ranking.services import leases
from ranking.views import compare
from tests.factories import NOW, make_arena, make_member, make_team, make_vote, make_votes
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


def test_what_is_quoted_is_about_the_pair_that_is_shown(
    client: Client, spread_arena: Arena
) -> None:
    publish(spread_arena)
    page = get_page(client, "/a/support/compare/")
    shown = re.findall(r'<option value="(\d+)"[^>]* selected', page)
    link = re.search(r'id="share-link" value="([^"]+)"', page)
    assert link is not None
    assert len(shown) == 2
    assert link[1].endswith(f"/compare/?raters=people&amp;a={shown[0]}&amp;b={shown[1]}")
    assert f'{link[1]}"' in page[page.index('id="share-citation"') :]
    assert "share-embed" not in page
    a, b, _ = ids(spread_arena)
    chosen = get_page(client, f"/a/support/compare/?a={b}&b={a}")
    assert f"compare/?raters=people&amp;a={b}&amp;b={a}#matrix" in chosen


def test_the_page_says_the_claim_and_the_facts(client: Client, spread_arena: Arena) -> None:
    publish(spread_arena)
    a, b, _ = ids(spread_arena)
    raw = get_page(client, f"/a/support/compare/?a={a}&b={b}")
    page = words(raw)
    assert (
        "candidate-0 is better than candidate-1 for this one rater and prompts like these" in page
    )
    assert "it wins 83% of the time (66 to 95)." in page
    assert "One rater says nothing about others." in page
    assert "60 votes on these two, 60 prompts. In the win rate, ties count half and all" in page
    assert "83% for candidate-0 · 66% to 95%" in page
    assert "category-0 20 · 0 · 10 category-1 30 · 0 · 0" in page
    assert "candidate-0 is clearly better on category-1." in page
    assert "wins at least" not in page  # it is decided
    # The left candidate's wins are drawn on the left.
    interval = re.search(r'class="interval" x="([0-9.]+)%" y="12" width="([0-9.]+)%"', raw)
    assert interval is not None
    assert float(interval[1]) < 10
    assert 16 < float(interval[1]) + float(interval[2]) < 50


def test_the_other_way_round_all_is_mirrored(client: Client, spread_arena: Arena) -> None:
    publish(spread_arena)
    a, b, _ = ids(spread_arena)
    page = compare_page(client, b, a)
    assert "candidate-1 is worse than candidate-0 for this one rater" in page
    assert "it wins 17% of the time (5 to 34)" in page
    assert "category-0 10 · 0 · 20 category-1 0 · 0 · 30" in page


def test_what_is_not_decided_says_what_is_missing(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    a, _, c = ids(arena)
    page = compare_page(client, a, c)
    assert "for this one rater and prompts like these." in page
    assert re.search(r"candidate-0 wins at least \d+% of the time, candidate-2 at least \d+%", page)
    assert "No category differs clearly." in page
    assert "too close" not in page
    assert "clearly better" not in page


def test_without_a_score_the_reason_is_given(client: Client, arena: Arena) -> None:
    new = Candidate.objects.create(arena=arena, name="newcomer")
    publish(arena)
    a = ids(arena)[0]
    page = compare_page(client, a, new.pk)
    assert "No votes yet: nobody has compared candidate-0 with newcomer." in page
    assert "newcomer: It has no votes yet." in page
    assert "No direct comparisons yet." in page
    assert "Where each wins" not in page
    make_vote(arena, new, arena.candidates.get(pk=a), "left", arena.prompts.first())
    publish(arena)
    page = compare_page(client, new.pk, a)
    assert "newcomer: It has never lost or tied" in page
    assert "category-0 1 · 0 · 0" in page
    assert "100% for newcomer" in page


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
    assert "category-0 0 · 0 · 2" in page
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
    both_bad = compare_page(client, a.pk, c.pk)
    assert "Both bad Prompt unknown" in both_bad
    assert "Both bad: 1." in both_bad
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
    assert "Votes that can be read" not in page


def test_without_a_choice_the_first_two_are_compared(client: Client, published: Snapshot) -> None:
    first, second = published.standings.order_by("rank")[:2]
    raw = client.get("/a/support/compare/").content.decode()
    assert re.findall(r'<option value="(\d+)" selected', raw) == [
        str(first.candidate_id),
        str(second.candidate_id),
    ]
    assert f"{first.candidate} wins at least" in words(raw)
    assert "Every pair as a table 3 × 3 win rates Row’s win rate against column" in words(raw)
    half = client.get(f"/a/support/compare/?a={second.candidate_id}").content.decode()
    assert re.findall(r'<option value="(\d+)" selected', half) == [
        str(second.candidate_id),
        str(first.candidate_id),
    ]
    chosen = f"/a/support/compare/?raters=people&amp;a={second.candidate_id}"
    assert f'class="fold" href="{chosen}#matrix"' in half


def test_archived_candidates_are_not_offered_first(client: Client, published: Snapshot) -> None:
    first, second, third = (row.candidate for row in published.standings.order_by("rank"))
    Candidate.objects.filter(pk=first.pk).update(retired_at=NOW)
    leases.drop_pages(arena_id=first.arena_id)
    raw = client.get("/a/support/compare/").content.decode()
    assert f"<title>{second} vs. {third} " in raw
    assert "archived" in compare_page(client, first.pk, second.pk)


def test_what_can_be_said_without_a_decision_begins_with_the_price(
    client: Client, arena: Arena
) -> None:
    a, _, c = ids(arena)
    Response.objects.filter(candidate=a).update(cost=1_500_000, seconds=2.5)
    Response.objects.filter(candidate=c).update(cost=100_000, seconds=1)
    publish(arena)
    page = compare_page(client, a, c)
    assert "candidate-2 costs 7% as much and wins at least" in page
    assert "$1.50 for 1,000 answers 2.5 s rank" in page
    assert "$0.10 for 1,000 answers 1.0 s rank" in page


def test_all_ties_are_told_and_drawn(client: Client) -> None:
    arena = make_arena(2, 12, slug="support")
    a, b = arena.candidates.order_by("pk")
    make_votes(arena, [(a, b, "tie", prompt) for prompt in arena.prompts.all()])
    publish(arena)
    page = compare_page(client, a.pk, b.pk)
    assert "category-0 0 · 6 · 0 category-1 0 · 6 · 0" in page
    assert "50% for candidate-0" in page


def test_only_reasons_that_stand_out_are_drawn_with_both_shares(
    client: Client, arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = ids(arena)

    def reason(candidate: int, tag: str, is_strength: bool, named: int, q: float) -> NamedReason:
        return NamedReason(candidate, "", tag, is_strength, named, 20, 0.1, 2.0, q)

    reasons = [
        reason(b, "too long", False, 9, 0.001),
        reason(a, "correct", True, 8, 0.01),
        reason(b, "correct", True, 2, 0.9),
        reason(a, "friendly", True, 1, 0.9),
    ]
    monkeypatch.setattr(compare, "count_reasons", lambda arena: reasons)
    publish(arena)
    page = compare_page(client, a, b)
    assert "Why in all its explained votes candidate-0 candidate-1" in page
    assert "correct 40% 10% too long (fault) 0% 45%" in page
    assert "friendly" not in page


def test_style_controlled_difference_is_told_from_the_one_ahead(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    a, b, _ = ids(arena)
    scores = {
        str(a): {"score": 1000.0, "low": 990.0, "high": 1010.0},
        str(b): {"score": 1014.0, "low": 960.0, "high": 1070.0},
    }
    published.findings |= {"style": {"scores": scores}}
    published.save()
    page = compare_page(client, a, b)
    assert "With style controlled for candidate-1 +14 Elo (−50 to +80) · not decided yet" in page


def test_votes_are_listed_only_where_their_answers_can_be_read(client: Client) -> None:
    arena = make_arena(2, 8, slug="support", open_answers=False)
    fill(arena, rounds=1)
    arena.prompts.filter(external_id="p0").update(retired_at=NOW)
    publish(arena)
    a, b = ids(arena)
    page = compare_page(client, a, b)
    assert "Votes that can be read 1 vote 1–1 of 1, newest first" in page
    assert "Question 0?" in page
    assert "Question 1?" not in page
    arena.prompts.update(retired_at=None)
    leases.drop_pages(arena_id=arena.pk)
    page = compare_page(client, a, b)
    assert "Votes that can be read none yet Answers stay hidden while people still vote" in page


def test_a_private_arena_lists_votes_for_its_team_and_stores_nothing(client: Client) -> None:
    team = make_team()
    arena = make_arena(
        2, 8, slug="support", open_answers=False, team=team, visibility=Arena.Visibility.PRIVATE
    )
    fill(arena, rounds=1)
    publish(arena)
    a, b = ids(arena)
    address = f"/a/support/compare/?a={a}&b={b}"
    assert client.get(address).status_code == 404
    client.force_login(make_member(team).user)
    answer = client.get(address)
    assert "1–8 of 8" in words(answer.text)
    assert answer.headers["Cache-Control"] == "private, no-store"
    assert client.get("/a/support/compare/").status_code == 200
    assert not arena.board_pages.exists()


def test_what_other_voters_say_is_below(client: Client, arena: Arena, judge: Rater) -> None:
    a, b, _ = arena.candidates.order_by("pk")
    publish(arena)
    assert "By LLM judges" not in compare_page(client, a.pk, b.pk)
    fill(arena, rounds=1, rater=judge)
    publish(arena)
    page = compare_page(client, a.pk, b.pk)
    assert "By LLM judges 8 · 0 · 0 of 8 votes" in page
    assert "for this judge and prompts like these" in page
    assert "Rank agreement with this leaderboard, over 3 candidates: Kendall’s tau-b 1.00" in page
    raw = get_page(client, f"/a/support/compare/?a={a.pk}&b={b.pk}&raters=judges")
    assert "By people 8 · 0 · 0 of 8 votes" in words(raw)
    assert f"/a/support/compare/?raters=people&amp;a={a.pk}&amp;b={b.pk}" in raw


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
    assert "Only human votes are shown" in page
    assert "1–8 of 8" in page
    assert "for this one rater and prompts like these" in page


def test_pages_of_missing_boards(client: Client, arena: Arena) -> None:
    assert "The first leaderboard is being computed" in compare_page(client, *ids(arena)[:2])
    publish(arena)
    assert "No LLM-judge votes here yet." in compare_page(client, "", "", "&raters=judges")
    assert "needs votes by both people and" in compare_page(client, "", "", "&raters=combined")
    assert client.get("/a/support/compare/?category=no-such").status_code == 404


def test_a_stored_pair_takes_one_query_and_a_new_one_up_to_twenty(
    client: Client,
    arena: Arena,
    published: Snapshot,
    django_assert_num_queries: Callable[..., Any],
    django_assert_max_num_queries: Callable[..., Any],
) -> None:
    a, b, _ = ids(arena)
    address = f"/a/support/compare/?a={a}&b={b}"
    with django_assert_max_num_queries(20):
        first = client.get(address)
    with django_assert_num_queries(1):
        again = client.get(address, headers={"If-None-Match": first["ETag"]})
    assert again.status_code == 304
    cast(arena)
    publish(arena)
    assert client.get(address, headers={"If-None-Match": first["ETag"]}).status_code == 200


def test_strangers_cannot_fill_the_store_with_pairs(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    a, b, c = ids(arena)
    new = Candidate.objects.create(arena=arena, name="newcomer")
    for query in (
        *(f"a={a}&b={b}&{more}" for more in ("page=2", "raters=people", "category=category-0")),
        *(f"a={a}", f"b={b}", f"a={new.pk}&b={b}", f"a={a}&b=999999", f"a={a}&b={b}&rows=all"),
    ):
        client.get(f"/a/support/compare/?{query}")
    assert not arena.board_pages.exists()
    for i in range(3):
        client.get(f"/a/support/compare/?a={a}&b={b}&utm={i}&control=style&sort=-name")
    assert arena.board_pages.count() == 1
    client.get(f"/a/support/compare/?a={b}&b={c}")
    assert arena.board_pages.count() == 2


def test_old_addresses_lead_here_with_their_query(client: Client, published: Snapshot) -> None:
    for old, anchor in (("matrix", "matrix"), ("side-by-side", "others")):
        answer = client.get(f"/a/support/{old}/?raters=people&category=a%26b&page=2")
        assert answer.status_code == 301
        query = "?raters=people&category=a%26b&page=2"
        assert answer.headers["Location"] == f"/a/support/compare/{query}#{anchor}"
        assert client.get(f"/a/nowhere/{old}/").status_code == 404


def test_it_is_in_the_readers_language(client: Client, published: Snapshot) -> None:
    english = get_page(client, "/a/support/compare/")
    answer = client.get("/a/support/compare/", headers={"Accept-Language": "fr"})
    assert "Où chacun gagne" in answer.text
    assert "Where each wins" not in answer.text
    assert "Where each wins" in english
    assert "Accept-Language" in answer.headers["Vary"]
