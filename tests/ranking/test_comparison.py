"""Two candidates of a board, compared for a decision: what is conclusive, and why not."""

from dataclasses import replace
from typing import Any

import pytest

from arena.models import Arena, Candidate
from ranking.board_data import BoardQuery
from ranking.comparison import (
    NOT_ON_BOARD,
    STILL_COUNTING,
    ChosenPair,
    DifferenceBoard,
    UnscoredSide,
    read_difference_boards,
    read_published,
)
from ranking.models import Snapshot, SnapshotMatrices
from ranking.stats.differences import Lead
from ranking.views.compare import compare_context
from tests.factories import make_arena, make_person, make_vote
from tests.ranking.helpers import CYCLE, cast, publish

pytestmark = pytest.mark.django_db


def read(arena: Arena, **asked: str) -> DifferenceBoard:
    board = read_difference_boards(arena, BoardQuery(**asked)).chosen
    assert board is not None
    return board


def two(arena: Arena) -> tuple[int, int]:
    a, b = arena.candidates.order_by("pk").values_list("pk", flat=True)[:2]
    return a, b


def test_it_says_what_the_comparison_of_two_says(arena: Arena, published: Snapshot) -> None:
    a, b = two(arena)
    gap = read(arena).difference(a, b, once=True)
    board = read_published(arena, BoardQuery())
    shown = compare_context(board, ChosenPair(a, b), "1")["difference"]
    assert replace(gap, votes_to_go=None) == shown
    assert (gap.between, gap.votes) == (8, 16)


@pytest.mark.parametrize(("won", "is_decided"), [(60, False), (74, False), (90, True)])
def test_the_interval_excludes_a_half_exactly_when_decided(
    db: None, won: int, is_decided: bool
) -> None:
    """Of 120 votes on 120 prompts, 74 exclude it for a single check, which is not enough."""
    arena = make_arena(n_candidates=2, n_prompts=120)
    a, b = arena.candidates.order_by("pk")
    for turn, prompt in enumerate(arena.prompts.order_by("pk")):
        make_vote(arena, a, b, "left" if turn < won else "right", prompt, make_person())
    publish(arena)
    found = read(arena).difference(a.pk, b.pk)
    once = read(arena).difference(a.pk, b.pk, once=True)
    assert found.is_decided == is_decided
    assert (found.wins_low > 0.5) == (found.low > 0) == is_decided
    assert (once.wins_low > 0.5) == (won > 60)
    assert found.wins_low < once.wins_low < found.wins < once.wins_high < found.wins_high


def test_seen_from_the_other_side_it_is_the_same(arena: Arena) -> None:
    cast(arena)
    publish(arena)
    a, b = two(arena)
    one, other = read(arena).difference(a, b), read(arena).difference(b, a)
    assert one.elo == pytest.approx(-other.elo)  # type: ignore[operator]
    assert one.chance == pytest.approx(1 - other.chance)  # type: ignore[operator]
    assert one.votes_to_go == other.votes_to_go
    assert read(arena).difference(a, b, forecast=False).votes_to_go is None


def test_style_interval_takes_both_at_their_worst(arena: Arena, published: Snapshot) -> None:
    a, b = two(arena)
    scores = {
        str(a): {"score": 1010.0, "low": 990.0, "high": 1030.0},
        str(b): {"score": 1000.0, "low": 985.0, "high": 1020.0},
    }
    findings = published.findings | {"style": {"scores": scores}}
    Snapshot.objects.filter(pk=published.pk).update(findings=findings)
    style = read(arena).difference(a, b, once=True).style
    assert style is not None
    assert (style.elo, style.low, style.high) == (10.0, -30.0, 45.0)
    style = read(arena).difference(a, b).style  # at every check
    assert style is not None
    assert style.low is not None
    assert style.high is not None
    assert style.low < -30.0
    assert style.high > 45.0
    for low in (None, -1e5):  # so wide that at every check it would have no end
        scores[str(b)]["low"] = low  # type: ignore[assignment]
        Snapshot.objects.filter(pk=published.pk).update(findings=findings)
        style = read(arena).difference(a, b).style
        assert style is not None
        assert (style.elo, style.low) == (10.0, None)


def test_a_candidate_that_is_not_on_the_board_is_named(arena: Arena, published: Snapshot) -> None:
    a, b = two(arena)
    late = Candidate.objects.create(arena=arena, name="late").pk
    for gap, blamed in (
        (read(arena).difference(late, a), UnscoredSide.CANDIDATE),
        (read(arena).difference(b, late), UnscoredSide.BASELINE),
    ):
        assert (gap.lead, gap.blamed, gap.reason) == (Lead.NOT_COMPARABLE, blamed, NOT_ON_BOARD)
        assert not gap.is_decided


def test_without_matrices_it_waits(arena: Arena, published: Snapshot) -> None:
    SnapshotMatrices.objects.all().delete()
    gap = read(arena).difference(*two(arena))
    assert (gap.lead, gap.reason, gap.elo) == (Lead.NOT_COMPARABLE, STILL_COUNTING, None)


def test_categories_are_listed_and_unknown_means_all_prompts(
    arena: Arena, published: Snapshot
) -> None:
    found = read_difference_boards(arena, BoardQuery(category="category-1"))
    assert found.query == BoardQuery("people", "category-1")
    assert [board.category for board in found.boards] == ["", "category-0", "category-1"]
    assert read(arena, category="none").category == ""


def test_before_the_first_snapshot_there_is_no_board(arena: Arena) -> None:
    found = read_difference_boards(arena, BoardQuery())
    assert (found.chosen, found.boards) == (None, [])


def test_it_is_read_in_three_queries(
    arena: Arena, published: Snapshot, django_assert_num_queries: Any
) -> None:
    a, b = two(arena)
    with django_assert_num_queries(3):
        read(arena).difference(a, b)


def test_a_candidate_that_wins_on_every_prompt_is_ahead_without_a_score() -> None:
    arena = make_arena(3, 12)
    first, second, third = arena.candidates.order_by("pk")
    person = make_person()
    for turn, prompt in enumerate(arena.prompts.order_by("pk")):
        make_vote(arena, first, second, "left", prompt, person)
        make_vote(arena, second, third, CYCLE[turn % 6], prompt, person)
    publish(arena)
    board = read(arena)
    ahead, behind = board.difference(first.pk, second.pk), board.difference(second.pk, first.pk)
    assert (ahead.lead, ahead.is_decided, ahead.wins, ahead.elo) == (Lead.AHEAD, True, 1.0, None)
    assert (behind.lead, behind.is_decided, behind.wins) == (Lead.BEHIND, True, 0.0)
    assert (ahead.between, ahead.votes_to_go, ahead.is_shut_out) == (12, 0, True)
    assert ahead.chance == 1 - 0.5**13
    assert board.difference(first.pk, third.pk).lead is Lead.NOT_COMPARABLE  # they have never met


def test_each_category_counts_its_own_prompts() -> None:
    arena = make_arena(2, 9)
    first, second = arena.candidates.order_by("pk")
    for prompt in arena.prompts.all():
        make_vote(arena, first, second, "left", prompt)
        make_vote(arena, second, first, "right", prompt)
    arena_prompts = arena.prompts.filter(category="category-0").count()
    publish(arena)
    everywhere, there = read(arena), read(arena, category="category-0")
    assert everywhere.difference(first.pk, second.pk).is_decided
    found = there.difference(first.pk, second.pk)
    assert (found.is_decided, found.between) == (False, 2 * arena_prompts)
    assert found.votes_to_go == 8 - arena_prompts


def test_one_tie_between_them_and_both_have_scores() -> None:
    arena = make_arena(2, 9)
    first, second = arena.candidates.order_by("pk")
    for turn, prompt in enumerate(arena.prompts.all()):
        make_vote(arena, first, second, "left" if turn else "tie", prompt)
    publish(arena)
    assert not read(arena).difference(first.pk, second.pk).is_shut_out


def test_unranked_pair_with_a_tie_is_no_shut_out() -> None:
    arena = make_arena(5, 9)
    *ranked, fourth, fifth = arena.candidates.order_by("pk")
    for turn, prompt in enumerate(arena.prompts.all()):
        for i, j in ((0, 1), (1, 2), (0, 2)):
            make_vote(arena, ranked[i], ranked[j], CYCLE[turn % 6], prompt)
        make_vote(arena, fourth, fifth, "left" if turn else "tie", prompt)
    publish(arena)
    found = read(arena).difference(fourth.pk, fifth.pk)
    assert (found.lead, found.is_shut_out) == (Lead.NOT_COMPARABLE, False)


def test_a_candidate_that_has_few_votes_borrows_no_certainty_from_others() -> None:
    """One tie with a strong third says what is expected exactly, and leaves no residual."""
    arena = make_arena(3, 50)
    baseline, strong, new = arena.candidates.order_by("pk")
    people, prompts = [make_person() for _ in range(21)], list(arena.prompts.order_by("pk"))
    for place, prompt in enumerate(prompts * 2):
        outcome = "left" if place % 4 else "right"
        make_vote(arena, strong, baseline, outcome, prompt, people[place % 21])
    make_vote(arena, new, strong, "tie", prompts[0], people[0])
    snapshot = publish(arena)

    gap = read(arena).difference(new.pk, baseline.pk)
    assert (gap.lead, gap.is_decided, gap.chance) == (Lead.FEW_CLUSTERS, False, None)
    row = snapshot.standings.get(candidate=new)
    assert row.score is not None
    assert (row.low, row.rank_low, row.sure_rank_low) == (None, None, None)
    assert snapshot.findings["leader"] is None  # its score equals that of the strong one
    style = snapshot.findings["style"]["scores"]
    assert (style[str(new.pk)]["low"], style[str(strong.pk)]["low"] is None) == (None, False)
    assert read(arena).difference(strong.pk, baseline.pk).is_decided
    assert snapshot.standings.get(candidate=strong).low is not None


def test_nothing_is_known_from_seven_prompts_however_clear(db: None) -> None:
    arena = make_arena(2, 7)
    a, b = arena.candidates.order_by("pk")
    for prompt in arena.prompts.all():
        for outcome in ("left",) * 5 + ("right",):
            make_vote(arena, a, b, outcome, prompt)
    publish(arena)
    gap = read(arena).difference(a.pk, b.pk)
    assert (gap.lead, gap.is_decided, gap.groups_to_go) == (Lead.AHEAD, False, 1)
    assert gap.votes_to_go
    assert gap.n_groups == 7
