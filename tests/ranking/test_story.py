"""The sentences above a leaderboard: each from what is known, none that is not."""

from dataclasses import replace
from typing import Any

import pytest

from arena.models import Candidate
from arena.validation import NANO
from ranking.board_data import BoardStanding, Findings
from ranking.costs import CostAndSpeed
from ranking.models import Standing
from ranking.reasons import NamedReason
from ranking.wording import count_words, lead, story, style_story

CROWD: dict[str, Any] = {"these_raters": 0}


def row(pk: int, low: int, high: int, dollars: float | None = None) -> BoardStanding:
    candidate = Candidate(pk=pk, name=f"c{pk}")
    standing = Standing(
        candidate=candidate,
        rank=pk,
        score=1200.0 - 10 * pk,
        sure_rank_low=low,
        sure_rank_high=high,
    )
    value = CostAndSpeed()
    if dollars is not None:
        value = CostAndSpeed(price=round(dollars * NANO), n_priced=9)
    return BoardStanding(standing, candidate.name, value=value)


def reason(tag: str, share: int, elsewhere: float | None, q: float = 0.01) -> NamedReason:
    return NamedReason(
        candidate=1,
        category="",
        tag=tag,
        is_strength=True,
        named=share,
        explained=100,
        elsewhere=elsewhere,
        odds=2.0,
        q=q,
    )


def told(rows: list[BoardStanding], reasons: Any = (), styled: Any = (), **settings: Any) -> Any:
    found = lead(rows, Findings(), "people", CROWD | settings)
    assert found is not None
    return story(found, rows, reasons, styled)


def test_several_that_could_be_first_share_the_lead() -> None:
    rows = [row(1, 1, 3), row(2, 1, 3), row(3, 1, 3), row(4, 4, 4)]
    found = told(rows)
    assert found.headline == "Three candidates share the lead."
    assert found.sentences == ["c1 is ahead on points."]
    assert found.about_style == ""


def test_few_raters_share_nothing() -> None:
    found = told([row(1, 1, 2), row(2, 1, 2)], these_raters=4)
    assert found.headline == "No clear leader yet."
    assert found.sentences == [
        "c1 is ahead, but 4 raters are too few to say what others would prefer."
    ]


def test_the_reason_that_stands_out_most_is_named_with_its_scope() -> None:
    rows = [row(1, 1, 2), row(2, 1, 2)]
    correct = reason("correct", 49, 0.05)
    praise = "Raters name “correct” in 49% of its explained wins and ties, 5% of the others’."
    assert praise in told(rows, [correct, reason("clear", 30, 0.1)]).sentences
    assert praise not in told(rows, [replace(correct, q=0.5)]).sentences  # may be chance
    assert praise not in told(rows, [replace(correct, candidate=2)]).sentences
    alone = told(rows, [reason("correct", 49, None)]).sentences
    assert "Raters name “correct” in 49% of its explained wins and ties." in alone
    rarer = reason("correct", 49, 0.6)
    assert len(told(rows, [rarer]).sentences) == 1  # others are praised for it more often


@pytest.mark.parametrize(
    ("prices", "says"),
    [
        ((15.0, 1.0), "It costs 15 times as much as c2."),
        ((1.5, 1.0), "It costs 1.5 times as much as c2."),
        ((1.1, 1.0), None),
        ((1.0, 1.0), None),
        ((1.0, 3.0), "Of those that could be first, it costs least."),
        ((None, 3.0), None),
        ((3.0, None), None),
    ],
)
def test_its_price_is_compared_with_the_cheapest_that_could_be_first(
    prices: Any, says: str | None
) -> None:
    # The third is cheaper than both, but could not be first.
    rows = [row(1, 1, 2, prices[0]), row(2, 1, 2, prices[1]), row(3, 3, 3, 0.01)]
    assert told(rows).sentences[1:] == ([says] if says else [])


def test_another_that_leads_at_equal_style_is_named_without_its_score() -> None:
    rows = [row(1, 1, 2), row(2, 1, 2)]
    first, second = row(2, 1, 2), row(1, 1, 2)
    first.standing.rank, second.standing.rank = 1, 2
    says = "Between answers of equal style, c2 scores highest."
    assert told(rows, styled=[first, second]).about_style == says
    first.standing.sure_rank_high = 1
    assert told(rows, styled=[first, second]).about_style == says.replace("scores highest", "leads")
    assert told(rows, styled=rows).about_style == ""


def test_the_view_of_equal_style_has_a_headline_of_its_own() -> None:
    rows = [row(1, 1, 2), row(2, 1, 2), row(3, 3, 3)]
    found = style_story(rows, rows)
    assert found.headline == "Between answers of equal style, two candidates share the lead."
    assert found.sentences == ["c1 is ahead on points."]
    rows[2].standing.score = None
    alone = style_story(rows, [row(1, 1, 1), row(2, 2, 3), rows[2]])
    assert alone.headline == "Between answers of equal style, c1 scores highest."
    assert alone.sentences == ["1 candidate has no style-controlled score."]


def test_small_counts_are_words() -> None:
    assert [count_words(n) for n in (2, 10, 11, 1200)] == ["two", "ten", "11", "1,200"]
