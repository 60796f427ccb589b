"""Two candidates compared: difference, interval, probability, record, and the evidence."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from arena.models import Arena, Candidate, Rater
from ranking.board_data import BoardQuery, find_arena
from ranking.comparison import (
    DifferenceBoard,
    PublishedPairs,
    read_difference_boards,
    read_pairs,
    read_published,
)
from ranking.models import Snapshot, SnapshotMatrices
from ranking.stats.bradley_terry import BradleyTerry
from tests.factories import make_arena, make_vote, make_votes
from tests.ranking.helpers import cast, fill, get_page, publish, words

pytestmark = pytest.mark.django_db


def compare_page(client: Client, a: object = "", b: object = "", more: str = "") -> str:
    return words(get_page(client, f"/a/support/compare/?a={a}&b={b}{more}"))


def ids(arena: Arena) -> list[int]:
    return [candidate.pk for candidate in arena.candidates.order_by("pk")]


def pairs_of(category: str = "") -> tuple[PublishedPairs, Snapshot]:
    board = read_published(find_arena("support"), BoardQuery("people", category))
    pairs = read_pairs(board)
    assert pairs is not None
    assert board.snapshot is not None
    return pairs, board.snapshot


def differences() -> DifferenceBoard:
    board = read_difference_boards(find_arena("support"), BoardQuery("people")).chosen
    assert board is not None
    return board


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


def test_two_that_are_separated(client: Client, spread_arena: Arena) -> None:
    snapshot = publish(spread_arena)
    a, b, _ = ids(spread_arena)
    difference = differences().difference(a, b, once=True)
    score = {s.candidate_id: s.score for s in snapshot.standings.all()}
    assert difference.elo == pytest.approx(score[a] - score[b])
    page = compare_page(client, a, b)
    assert "candidate-0 clearly beats candidate-1." in page
    assert f"+{difference.elo:.0f} Elo for candidate-0" in page
    assert f"95 % interval +{difference.low:.0f} to +{difference.high:.0f}" in page
    assert f"{100 * difference.wins:.0f} % 95 % interval" in page
    assert "50 won, 10 lost, 0 tied, 0 both bad from candidate-0’s side" in page
    assert f"83 % of 60 votes {100 * difference.wins:.0f} % predicted by the scores" in page
    assert "more votes between the two" not in page


def test_the_other_way_round_all_is_mirrored(client: Client, spread_arena: Arena) -> None:
    publish(spread_arena)
    a, b, _ = ids(spread_arena)
    board = differences()
    one, other = board.difference(a, b), board.difference(b, a)
    assert one.elo is not None
    assert one.low is not None
    assert other.elo == pytest.approx(-one.elo)
    assert other.high == pytest.approx(-one.low)
    assert board.evidence_share(b, a) == pytest.approx(board.evidence_share(a, b))
    page = compare_page(client, b, a)
    assert "candidate-0 clearly beats candidate-1" in page
    assert f"−{one.elo:.0f} Elo for candidate-1" in page
    assert "10 won, 50 lost" in page


def test_two_that_are_not_separated_need_more_votes(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    a, b, c = ids(arena)
    published.findings = {
        "neighbours": [
            {
                "upper": c,
                "lower": a,
                "separated": False,
                "votes": 118,
                "words": "about 120 more votes",
            }
        ]
    }
    published.save()
    page = compare_page(client, a, c)
    assert "Too close to call" in page
    assert "about 120 more votes between the two would separate them" in page
    assert "about 120" not in compare_page(client, b, c)


def test_votes_to_go_of_any_two_follow_the_rule_for_neighbours(arena: Arena) -> None:
    from ranking.stats.differences import neighbours

    snapshot = publish(arena)
    pairs, _ = pairs_of()
    model = BradleyTerry().fit(pairs.battles)
    n_clusters = snapshot.settings["n_clusters"]
    order = neighbours(pairs.theta, pairs.covariance, model.covariance_, 0.95, n_clusters)
    for two in order:
        upper, lower = pairs.candidates[[two.upper, two.lower]].tolist()
        snapshot.findings = {}
        standings = {row.candidate_id: row for row in snapshot.standings.all()}
        board = DifferenceBoard(snapshot, standings, pairs)
        assert board.votes_to_separate(upper, lower) == (two.words if two.votes else "")


def test_weight_of_direct_votes_is_what_is_lost_without_them(spread_arena: Arena) -> None:
    publish(spread_arena)
    a, b, _ = ids(spread_arena)
    board = differences()
    elo = board.difference(a, b).elo
    assert elo is not None
    pairs, _ = pairs_of()
    i, j = pairs.index(a), pairs.index(b)
    assert i is not None
    assert j is not None
    model = BradleyTerry().fit(pairs.battles)
    information = model._pairs.information(model.theta_)
    p = 1 / (1 + 10 ** (-elo / 400))
    own = 60 * p * (1 - p)
    for x, y, sign in ((i, i, -1), (j, j, -1), (i, j, 1), (j, i, 1)):
        information[x, y] += sign * own  # as if the two had never met
    import numpy as np

    inverse = np.linalg.pinv(information)
    alone = 1 / (inverse[i, i] + inverse[j, j] - 2 * inverse[i, j])
    assert board.evidence_share(a, b) == pytest.approx(own / (own + alone))


def test_the_page_says_where_its_evidence_comes_from(client: Client) -> None:
    arena = make_arena(4, 1, slug="support")
    a, b, c, d = arena.candidates.order_by("pk")
    for left, right in ((a, b), (b, a), (b, c), (c, b), (c, a), (a, c)):
        for _ in range(20):
            make_vote(arena, left, right, "left")
    make_vote(arena, a, d, "tie")
    publish(arena)
    assert "Their 40 direct votes provide about 67 % of the evidence" in compare_page(
        client, a.pk, b.pk
    )
    assert "All evidence comes from their 1 direct vote." in compare_page(client, a.pk, d.pk)
    assert "No direct votes: all evidence comes" in compare_page(client, b.pk, d.pk)
    for _ in range(60):
        make_vote(arena, b, c, "tie")
        make_vote(arena, c, a, "tie")
    publish(arena)
    assert "comparisons with other candidates: their 40 direct votes provide about" in (
        compare_page(client, a.pk, b.pk)
    )


def test_without_a_score_the_reason_is_given(client: Client, arena: Arena) -> None:
    new = Candidate.objects.create(arena=arena, name="newcomer")
    publish(arena)
    a = ids(arena)[0]
    page = compare_page(client, a, new.pk)
    assert "Not comparable by score yet. newcomer: It has no votes yet." in page
    assert "Direct comparisons None yet." in page
    assert "Elo for" not in page
    assert "clearly beats" not in page
    make_vote(arena, new, arena.candidates.get(pk=a), "left", arena.prompts.first())
    publish(arena)
    page = compare_page(client, new.pk, a)
    assert "newcomer: It has never lost or tied" in page
    assert "1 won, 0 lost, 0 tied" in page
    assert "100 % of 1 vote" in page
    assert "predicted" not in page


def test_a_candidate_that_came_after_the_snapshot_is_named(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    new = Candidate.objects.create(arena=arena, name="newcomer")
    page = compare_page(client, new.pk, ids(arena)[0])
    assert "newcomer: It is not on this leaderboard yet." in page
    assert "No direct comparisons yet." in page


def test_too_few_groups_of_votes_give_no_interval(client: Client) -> None:
    arena = make_arena(2, 1, slug="support")
    a, b = arena.candidates.order_by("pk")
    for outcome in ("left", "left", "right"):
        make_vote(arena, a, b, outcome, arena.prompts.first())
    publish(arena)
    page = compare_page(client, a.pk, b.pk)
    assert "No verdict yet. Fewer than 5 independent groups" in page
    assert "+120 Elo for candidate-0 no interval" in page
    assert "nan" not in page.lower()
    assert "No intervals on this leaderboard yet" in page


def test_an_interval_that_has_not_seen_all_votes_says_so(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    published.measured_votes = 20
    published.save()
    assert "The interval includes 20 of the 24 votes" in compare_page(client, *ids(arena)[:2])


def test_soft_verdicts_count_what_they_say(client: Client, arena: Arena, judge: Rater) -> None:
    a, b, _ = arena.candidates.order_by("pk")
    for preference in (0.75, 0.75):
        make_vote(arena, b, a, "left", arena.prompts.first(), judge, preference=preference)
    publish(arena)
    page = compare_page(client, a.pk, b.pk, "&raters=judges")
    assert "0 won, 2 lost, 0 tied, 0 both bad" in page
    assert "25 % of 2 votes" in page
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
    assert "of 4 votes" in page
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
    assert "direct votes" not in page
    matrix = client.get("/a/support/compare/?raters=combined").content.decode()
    assert "Only human votes are shown" in matrix
    assert f"?raters=people&amp;opponent={b}#" in matrix


def test_pages_of_missing_boards(client: Client, arena: Arena) -> None:
    assert "The first leaderboard is being computed" in compare_page(client, *ids(arena)[:2])
    publish(arena)
    assert "No LLM-judge votes here yet." in compare_page(client, "", "", "&raters=judges")
    assert "needs votes by both people and" in compare_page(client, "", "", "&raters=combined")
    assert client.get("/a/support/compare/?category=no-such").status_code == 404
    SnapshotMatrices.objects.all().delete()
    assert "still being counted" in compare_page(client, *ids(arena)[:2])


def test_it_takes_at_most_eight_queries(
    client: Client,
    arena: Arena,
    published: Snapshot,
    django_assert_max_num_queries: Callable[..., Any],
) -> None:
    a, b, _ = ids(arena)
    new = Candidate.objects.create(arena=arena, name="newcomer")
    for other in (b, new.pk):
        with django_assert_max_num_queries(8):
            first = client.get(f"/a/support/compare/?a={a}&b={other}")
    again = client.get(
        f"/a/support/compare/?a={a}&b={new.pk}", headers={"If-None-Match": first["ETag"]}
    )
    assert again.status_code == 304
