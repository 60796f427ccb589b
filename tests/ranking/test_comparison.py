"""Two candidates of a board, compared: one claim, and the facts beside it."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from django.utils import timezone

from arena.models import Arena, Candidate, Rater
from ranking.board_data import BoardQuery
from ranking.comparison import ChosenPair, DifferenceBoard, read_difference_boards, read_published
from ranking.models import KeptClaim, Snapshot
from ranking.services.claims import keep_decided
from ranking.stats.claim import Scope, Unit, Verdict
from ranking.views.compare import compare_context
from tests.factories import make_arena, make_person, make_vote, make_votes, void_vote
from tests.ranking.helpers import cast, publish

pytestmark = pytest.mark.django_db


def read(arena: Arena, **asked: str) -> DifferenceBoard:
    among = list(arena.candidates.values_list("pk", flat=True))
    board = read_difference_boards(arena, BoardQuery(**asked), among).chosen
    assert board is not None
    return board


def two(arena: Arena) -> tuple[int, int]:
    a, b = arena.candidates.order_by("pk").values_list("pk", flat=True)[:2]
    return a, b


def arena_of(wins: int, n: int, n_raters: int = 12, **fields: Any) -> Arena:
    """The first candidate wins so many of n votes, one a prompt, by raters in turn."""
    arena = make_arena(2, n, **fields)
    add_votes(arena, wins, n, n_raters)
    return arena


def add_votes(arena: Arena, wins: int, n: int, n_raters: int = 12) -> None:
    a, b = arena.candidates.order_by("pk")
    raters = [make_person() for _ in range(n_raters)]
    has_won = np.random.default_rng(0).permutation(n) < wins
    prompts = list(arena.prompts.order_by("pk"))
    for turn in range(n):
        outcome = "left" if has_won[turn] else "right"
        make_vote(arena, a, b, outcome, prompts[turn % len(prompts)], raters[turn % n_raters])


def test_it_says_what_the_comparison_of_two_says(arena: Arena, published: Snapshot) -> None:
    a, b = two(arena)
    difference = read(arena).difference(a, b)
    board = read_published(arena, BoardQuery())
    shown = compare_context(board, ChosenPair(a, b), "1")["difference"]
    assert difference == shown
    assert (difference.between, difference.votes) == (8, 16)
    scores = {row.candidate_id: row.score for row in published.standings.all()}
    assert difference.score == pytest.approx(scores[a] - scores[b])


@pytest.mark.parametrize(("wins", "n"), [(60, 80), (8, 9), (20, 40)])
def test_the_interval_excludes_a_half_exactly_when_decided(wins: int, n: int) -> None:
    arena = arena_of(wins, n)
    publish(arena)
    found = read(arena).difference(*two(arena))
    assert found.is_decided == read(arena).is_decided(*two(arena)) == (wins == 60)
    assert (found.claim.low > 0.5) == (found.low > 0) == found.is_decided  # type: ignore[operator]
    assert found.lead == ("ahead" if found.is_decided else "open")


def test_seen_from_the_other_side_it_is_the_same(arena: Arena) -> None:
    cast(arena)
    publish(arena)
    a, b = two(arena)
    one, other = read(arena).difference(a, b), read(arena).difference(b, a)
    assert one.claim.win_rate == pytest.approx(1 - other.claim.win_rate)  # type: ignore[operator]
    assert one.chance == pytest.approx(1 - other.chance)  # type: ignore[operator]
    assert one.claim.missing == other.claim.missing


def test_style_interval_takes_both_at_their_worst(arena: Arena, published: Snapshot) -> None:
    a, b = two(arena)
    scores: dict[str, dict[str, float | None]] = {
        str(a): {"score": 1010.0, "low": 990.0, "high": 1030.0},
        str(b): {"score": 1000.0, "low": 985.0, "high": 1020.0},
    }
    findings = published.findings | {"style": {"scores": scores}}
    Snapshot.objects.filter(pk=published.pk).update(findings=findings)
    style = read(arena).difference(a, b).style
    assert style is not None
    assert (style.elo, style.low, style.high) == (10.0, -30.0, 45.0)
    scores[str(b)]["low"] = None
    Snapshot.objects.filter(pk=published.pk).update(findings=findings)
    style = read(arena).difference(a, b).style
    assert style is not None
    assert (style.elo, style.low) == (10.0, None)


def test_candidates_that_have_never_met_are_not_compared(arena: Arena, published: Snapshot) -> None:
    a, _ = two(arena)
    late = Candidate.objects.create(arena=arena, name="late").pk
    found = read(arena).difference(late, a)
    assert (found.lead, found.elo, found.score, found.chance) == (
        "not_comparable",
        None,
        None,
        None,
    )
    assert not found.is_decided


def test_categories_are_listed_and_unknown_means_all_prompts(
    arena: Arena, published: Snapshot
) -> None:
    found = read_difference_boards(arena, BoardQuery(category="category-1"), two(arena))
    assert found.query == BoardQuery("people", "category-1")
    assert [board.category for board in found.boards] == ["", "category-0", "category-1"]
    assert read(arena, category="none").category == ""


def test_before_the_first_snapshot_there_is_no_board(arena: Arena) -> None:
    found = read_difference_boards(arena, BoardQuery(), two(arena))
    assert (found.chosen, found.boards) == (None, [])


def test_votes_after_the_snapshot_wait_for_the_next(arena: Arena, published: Snapshot) -> None:
    a, b = two(arena)
    cast(arena)
    assert read(arena).difference(a, b).between == 8
    publish(arena)
    assert read(arena).difference(a, b).between == 9


def test_votes_of_others_are_not_read(
    arena: Arena, published: Snapshot, django_assert_max_num_queries: Any
) -> None:
    a, b = two(arena)
    with django_assert_max_num_queries(9):
        board = read_difference_boards(arena, BoardQuery(), (a, b)).chosen
        assert board is not None
        board.difference(a, b)
    assert set(board.evidence.table.left.tolist() + board.evidence.table.right.tolist()) == {a, b}


def test_a_candidate_that_wins_on_every_prompt_is_better() -> None:
    arena = arena_of(12, 12, n_raters=1)
    publish(arena)
    first, second = two(arena)
    ahead, behind = read(arena).difference(first, second), read(arena).difference(second, first)
    assert (ahead.lead, ahead.claim.win_rate, ahead.elo) == ("ahead", 1.0, None)
    assert (behind.lead, behind.claim.win_rate) == ("behind", 0.0)
    assert ahead.these_raters == 1
    assert ahead.claim.wider is not None
    assert ahead.claim.wider.verdict is Verdict.CANNOT_TELL


def test_each_category_counts_its_own_prompts() -> None:
    arena = make_arena(2, 9)
    first, second = arena.candidates.order_by("pk")
    for prompt in arena.prompts.all():
        make_vote(arena, first, second, "left", prompt)
        make_vote(arena, second, first, "right", prompt)
    n_prompts = arena.prompts.filter(category="category-0").count()
    publish(arena)
    assert read(arena).difference(first.pk, second.pk).is_decided
    found = read(arena, category="category-0").difference(first.pk, second.pk)
    assert (found.is_decided, found.between) == (False, 2 * n_prompts)
    assert found.groups_to_go == 8 - n_prompts


def test_few_raters_decide_for_themselves_and_say_what_is_missing_for_others() -> None:
    """Six raters, of whom one disagrees: no number of their votes says what others prefer."""
    arena = make_arena(2, 40)
    a, b = arena.candidates.order_by("pk")
    raters = [make_person() for _ in range(6)]
    rows = [
        (a, b, "left" if (place + turn) % 10 < (9 if place else 1) else "right", prompt, rater)
        for turn, prompt in enumerate(arena.prompts.order_by("pk"))
        for place, rater in enumerate(raters)
    ]
    for row in rows:
        make_vote(arena, *row)
    publish(arena)
    found = read(arena).difference(a.pk, b.pk).claim
    assert (found.verdict, found.scope, found.n_raters) == (Verdict.BETTER, Scope.THESE_RATERS, 6)
    assert found.wider is not None
    assert found.wider.no_votes_settle
    assert found.wider.missing is not None
    assert found.wider.missing.unit is Unit.RATERS


def test_judges_are_no_sample_of_others(judge: Rater) -> None:
    arena = make_arena(2, 20)
    a, b = arena.candidates.order_by("pk")
    for turn, prompt in enumerate(arena.prompts.order_by("pk")):
        make_vote(arena, a, b, "left" if turn else "right", prompt, judge)
    publish(arena)
    found = read(arena, raters="judges").difference(a.pk, b.pk).claim
    assert (found.verdict, found.scope, found.wider) == (Verdict.BETTER, Scope.JUDGE, None)


def test_the_claim_as_votes_came_in_ends_with_that_of_today(arena: Arena) -> None:
    arena = arena_of(60, 80)
    publish(arena)
    a, b = two(arena)
    board = read(arena)
    over_time = board.claims_over_time(a, b)
    assert [votes for votes, _ in over_time] == list(range(4, 81, 4))
    assert over_time[-1][1].win_rate == board.claim(a, b).win_rate
    decided = [found.is_decided for _, found in over_time]
    assert decided == sorted(decided)
    for (_, before), (_, after) in pairwise(over_time):
        assert after.is_decided or not before.is_decided


# What is decided about a named pair is kept.


def keep(arena: Arena) -> None:
    snapshot = publish(arena)
    keep_decided(
        board=snapshot.board,
        evidence=read(arena).evidence,
        pairs=[two(arena)],
        now=timezone.now(),
    )


def test_a_decision_is_kept_against_newer_votes() -> None:
    arena = arena_of(19, 20)
    keep(arena)
    a, b = two(arena)
    add_votes(arena, 0, 12)
    keep(arena)
    found = read(arena).claim(a, b)
    assert (found.verdict, found.is_kept) == (Verdict.BETTER, True)
    assert read(arena).claim(b, a).verdict is Verdict.WORSE
    assert read(arena).is_decided(b, a)
    KeptClaim.objects.all().delete()
    assert read(arena).claim(a, b).verdict is Verdict.OPEN
    assert not read(arena).is_decided(b, a)


def test_a_decision_is_not_kept_against_removed_votes() -> None:
    arena = arena_of(19, 20)
    keep(arena)
    a, b = two(arena)
    add_votes(arena, 0, 12)
    assert KeptClaim.objects.count() == 1
    votes = list(arena.votes.order_by("pk"))
    void_vote(votes[-1])  # a newer one
    publish(arena)
    assert read(arena).claim(a, b).is_kept
    void_vote(votes[0])
    publish(arena)
    assert read(arena).claim(a, b).verdict is Verdict.OPEN
    keep(arena)
    assert not KeptClaim.objects.exists()


def test_a_decision_is_not_kept_once_its_raters_are_one() -> None:
    arena = arena_of(19, 20)
    keep(arena)
    add_votes(arena, 0, 12)
    votes = arena.votes.order_by("pk")
    arena.votes.filter(pk=votes[1].pk).update(rater=votes[0].rater)
    publish(arena)
    assert not read(arena).claim(*two(arena)).is_kept


def test_the_first_votes_that_decided_are_those_it_stands_on() -> None:
    arena = arena_of(19, 20)
    keep(arena)
    first = KeptClaim.objects.get()
    add_votes(arena, 20, 20)
    keep(arena)
    assert KeptClaim.objects.get().last_vote == first.last_vote
    assert not read(arena).claim(*two(arena)).is_kept


def test_a_reversal_replaces_what_was_kept() -> None:
    arena = arena_of(12, 12)
    keep(arena)
    add_votes(arena, 0, 200)
    keep(arena)
    kept = KeptClaim.objects.get()
    a, _ = two(arena)
    verdict = read(arena).claim(*two(arena)).verdict
    assert verdict is Verdict.WORSE
    assert kept.claim["verdict"] == ("worse" if kept.second_id == a else "better")
    assert kept.decided_at <= timezone.now() + timedelta(seconds=1)


def test_the_same_decision_about_more_raters_replaces_it() -> None:
    arena = arena_of(12, 12)
    keep(arena)
    assert KeptClaim.objects.get().claim["scope"] == "these_raters"
    add_votes(arena, 120, 120, n_raters=30)
    keep(arena)
    assert KeptClaim.objects.get().claim["scope"] == "raters"


def test_a_record_and_a_both_bad_rate_are_of_direct_votes(arena: Arena) -> None:
    a, b, _ = arena.candidates.order_by("pk")
    make_votes(arena, [(b, a, "both_bad", arena.prompts.first())])
    publish(arena)
    found = read(arena).difference(a.pk, b.pk)
    assert (found.between, found.both_bad) == (8, 1)
    assert replace(read(arena).record(a.pk, b.pk), both_bad=0) != read(arena).record(a.pk, b.pk)
