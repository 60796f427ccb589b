"""What a candidate's findings say, from plain values."""

from typing import Any

import pytest

from ranking.board_data import Findings
from ranking.candidate_words import best_value, categories, named_for, place, price, votes_won
from ranking.costs import PricedScore
from ranking.models import Snapshot, Standing
from ranking.reasons import NamedReason


def standing(pk: int, rank: int, low: int | None, high: int | None, **more: Any) -> Standing:
    return Standing(
        candidate_id=pk, rank=rank, sure_rank_low=low, sure_rank_high=high, score=1000, **more
    )


@pytest.mark.parametrize(
    ("own", "others", "found", "says"),
    [
        ((1, 1, 1, 1), [(2, 2, 2, 2)], Findings(leader=1), "The clear leader."),
        ((1, 1, 1, 1), [(2, 2, 2, 2)], Findings(ahead=1), "Ahead for now: at this count"),
        ((1, 1, 1, 2), [(2, 2, 1, 2)], Findings(), "not alone: any of 2 could be first."),
        ((1, 1, 1, 2), [(2, 2, 2, 2)], Findings(), "Ahead on points, not conclusively."),
        ((1, 1, 1, 2), [(2, 1, 1, 2)], Findings(), "It shares first place; any of 2"),
        ((2, 2, 1, 2), [(1, 1, 1, 2)], Findings(), "Rank 2 of 2 on points, and one of 2"),
        (
            (4, 4, 3, 4),
            [(1, 1, 1, 2)],
            Findings(),
            "Between rank 3 and rank 4 of 2: clearly behind 2",
        ),
        ((2, 2, 2, 2), [(1, 1, 1, 1)], Findings(), "Rank 2 of 2, conclusively."),
        ((2, 2, None, None), [(1, 1, None, None)], Findings(), "not known yet"),
    ],
)
def test_its_place(own: Any, others: Any, found: Findings, says: str) -> None:
    this = standing(*own)
    assert says in place(this, [this, *(standing(*row) for row in others)], found)


def test_its_votes() -> None:
    assert votes_won(standing(1, 1, 1, 1, win_rate=0.742, votes=1_563)) == (
        "It won 74% of its 1,563 votes, a tie counting half."
    )
    assert not votes_won(standing(1, 1, 1, 1))


def reason(tag: str, is_strength: bool, q: float = 0.01, **more: Any) -> NamedReason:
    values: dict[str, Any] = {"category": "", "named": 49, "explained": 100, "elsewhere": 0.05}
    values |= {"odds": 9.0} | more
    return NamedReason(candidate=1, tag=tag, is_strength=is_strength, q=q, **values)


def test_only_reasons_that_stand_out_are_named() -> None:
    assert named_for(
        [reason("correct", True), reason("clear", True), reason("too long", False)]
    ) == [
        "It stands out for “correct”: named in 49% of its explained wins and ties,"
        " 5% of the others’.",
        "The fault that stands out is “too long”: named in 49% of its explained losses and ties,"
        " 5% of the others’.",
    ]
    (alone,) = named_for([reason("correct", True, elsewhere=None)])
    assert alone.endswith("49% of its explained wins and ties.")
    assert not named_for([reason("correct", True, q=0.5), reason("wrong", False, named=2)])
    assert not named_for([reason("correct", True, category="writing")])


def scored(name: str, value: float, low: float | None, high: float | None) -> PricedScore:
    middle = 1000.0 if low is None or high is None else (low + high) / 2
    return PricedScore(ord(name), name, value, middle, low, high)


CHEAP, MIDDLE, DEAR = (
    scored("a", 1, 900, 1000),
    scored("b", 2.5, 1080, 1180),
    scored("c", 15, 1100, 1200),
)


@pytest.mark.parametrize(
    ("own", "says"),
    [
        (CHEAP, "At $1.00 for 1,000 answers it is the cheapest of 3."),
        (MIDDLE, "1,000 answers cost $2.50. No cheaper candidate could be as good."),
        (
            DEAR,
            "At $15.00 for 1,000 answers it is the most expensive of 3. A cheaper one, b, could be"
            " as good: this one costs 6 times as much.",
        ),
    ],
)
def test_its_price_beside_the_cheapest_that_could_be_as_good(own: PricedScore, says: str) -> None:
    assert price(own.candidate, [CHEAP, MIDDLE, DEAR]) == says


def test_one_that_is_better_and_cheaper_is_named() -> None:
    points = [CHEAP, MIDDLE, scored("z", 20, 800, 900)]
    assert price(ord("z"), points).endswith("A cheaper one, b, is clearly better.")


def test_without_other_prices_or_intervals_nothing_is_claimed() -> None:
    assert not price(CHEAP.candidate, [CHEAP])
    assert not price(1, [CHEAP, DEAR])
    unknown = scored("d", 20, None, None)
    assert price(unknown.candidate, [CHEAP, unknown]).endswith("it is the most expensive of 2.")
    assert not best_value([unknown, scored("e", 2, None, None)], "price")
    assert not best_value([], "price")


@pytest.mark.parametrize(
    ("points", "by", "says"),
    [
        ([CHEAP, MIDDLE, DEAR], "price", "b could be as good as c, which costs 6 times as much."),
        ([CHEAP, DEAR], "seconds", "No faster candidate could be as good as c."),
        ([CHEAP, scored("z", 9, 0, 9)], "price", "a has the highest score and is the cheapest."),
        (
            [scored("a", 1, 900, 1200), DEAR],
            "seconds",
            "a could be as good as c, which takes 15 times",
        ),
        ([scored("a", 10, 900, 1200), DEAR], "price", "which costs 50% more."),
        ([scored("a", 0, 900, 1200), DEAR], "price", "which costs $15.00 instead of nothing."),
    ],
)
def test_the_best_beside_its_cheapest_rival(points: Any, by: str, says: str) -> None:
    assert says in best_value(points, by)


def test_a_category_differs_only_if_the_intervals_lie_apart() -> None:
    def row(low: float | None, high: float | None) -> Standing:
        return Standing(low=low, high=high, snapshot=Snapshot(settings={}, findings={}))

    own = row(1000, 1100)
    assert categories(own, {"x": row(990, 1050), "y": row(1090, 1300)}) == (
        "No category differs clearly."
    )
    assert categories(own, {"x": row(1101, 1200), "y": row(800, 999)}) == (
        "Clearly better than usual in “x”. Clearly worse than usual in “y”."
    )
    assert not categories(own, {"x": row(1101, 1200)})
    assert not categories(row(None, None), {"x": row(1, 2), "y": row(1, 2)})
