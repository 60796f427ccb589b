"""A decision in one sentence: every state has words, and none claims too much."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.wording import Share, chance_words, headline, more_votes, share_words
from ranking.comparison import CandidateDifference, UnscoredSide
from ranking.stats.differences import Lead


def gap(lead: Lead, wins: float, low: float, high: float, **fields: object) -> CandidateDifference:
    numbers = {"wins": wins, "wins_low": low, "wins_high": high, "votes": 90}
    return CandidateDifference(lead, **numbers | fields)  # type: ignore[arg-type]


def shut_out(lead: Lead, wins: float, between: int, **fields: object) -> CandidateDifference:
    numbers = {"wins": wins, "votes": between, "between": between, "is_shut_out": True}
    return CandidateDifference(lead, **numbers | fields)  # type: ignore[arg-type]


TABLE = [
    (
        gap(Lead.AHEAD, 0.58, 0.54, 0.62, is_decided=True),
        "B beats A: it wins 58 % of the time (54 to 62). This result is conclusive.",
    ),
    (
        gap(Lead.BEHIND, 0.42, 0.38, 0.46, is_decided=True),
        "B loses to A: it wins 42 % of the time (38 to 46). This result is conclusive.",
    ),
    (
        gap(Lead.AHEAD, 0.57, 0.51, 0.63, votes_to_go=57),
        "Not conclusive yet: B is probably better than A, preferred 57 % of the time (51 to 63);"
        " it takes about 57 more votes.",
    ),
    (
        gap(Lead.BEHIND, 0.43, 0.37, 0.49, votes_to_go=1),
        "Not conclusive yet: B is probably worse than A, preferred 43 % of the time (37 to 49);"
        " it takes about 1 more vote.",
    ),
    (
        gap(Lead.OPEN, 0.53, 0.47, 0.59, votes_to_go=1234),
        "Not conclusive yet: B is preferred to A 53 % of the time (47 to 59); it takes"
        " about 1,300 more votes.",
    ),
    (
        gap(Lead.OPEN, 0.31, 0.1, 0.6, votes_to_go=40),
        "Not conclusive yet: B is behind A, preferred 31 % of the time (10 to 60); it takes"
        " about 40 more votes.",
    ),
    (
        gap(Lead.AHEAD, 0.79, 0.7, 0.9, votes_to_go=40, groups_to_go=3),
        "Not conclusive yet: B is probably better than A, preferred 79 % of the time (70 to 90); it"
        " takes about 40 more votes, on at least 3 new prompts.",
    ),
    (
        gap(Lead.OPEN, 0.51, 0.4, 0.6, votes_to_go=17_000),
        "Not conclusive yet: B is preferred to A 51 % of the time (40 to 60); the difference is too"
        " small to detect with 10,000 more votes.",
    ),
    (
        gap(Lead.OPEN, 0.5, 0.4, 0.6),
        "Not conclusive yet: B is preferred to A 50 % of the time (40 to 60); how many more votes"
        " it takes is unknown.",
    ),
    (
        CandidateDifference(Lead.FEW_CLUSTERS, wins=0.6, votes=9, reason=Lead.FEW_CLUSTERS.reason),
        "Not conclusive yet: B is preferred to A 60 % of the time so far. No interval yet:"
        " fewer than 5 independent groups of votes so far.",
    ),
    (
        CandidateDifference(
            Lead.NOT_COMPARABLE,
            votes=9,
            reason="It has no votes yet.",
            blamed=UnscoredSide.BASELINE,
        ),
        "B and A cannot be compared yet. A has no votes yet.",
    ),
    (
        CandidateDifference(
            Lead.NOT_COMPARABLE, votes=9, reason="It lost.", blamed=UnscoredSide.CANDIDATE
        ),
        "B and A cannot be compared yet. B lost.",
    ),
    (
        CandidateDifference(
            Lead.NOT_COMPARABLE, votes=9, reason="No chain.", blamed=UnscoredSide.CANDIDATE
        ),
        "B and A cannot be compared yet. B: No chain.",
    ),
    (CandidateDifference(Lead.NOT_COMPARABLE), "No votes yet: nobody has compared B with A."),
    (
        CandidateDifference(Lead.NOT_COMPARABLE, both_bad=20),
        "Not conclusive yet: all 20 votes on B and A rated both answers bad.",
    ),
    (
        CandidateDifference(Lead.NOT_COMPARABLE, both_bad=1),
        "Not conclusive yet: the only vote on B and A rated both answers bad.",
    ),
    (
        shut_out(Lead.BEHIND, 0, 50, is_decided=True),
        "B loses to A every time: it wins 0 of 50. This result is conclusive.",
    ),
    (
        shut_out(Lead.AHEAD, 1, 50, is_decided=True),
        "B beats A every time, 50 of 50. This result is conclusive.",
    ),
    (
        shut_out(Lead.BEHIND, 0, 7, votes_to_go=1, groups_to_go=1),
        "Not conclusive yet: B has lost all 7 votes against A so far; it takes about 1 more vote,"
        " on a new prompt.",
    ),
    (
        shut_out(Lead.OPEN, 1, 1, votes_to_go=7, groups_to_go=7),
        "Not conclusive yet: B has won the only vote against A so far; it takes about 7 more votes,"
        " each on a new prompt.",
    ),
]


@pytest.mark.parametrize(("found", "sentence"), TABLE)
def test_each_state_has_its_sentence(found: CandidateDifference, sentence: str) -> None:
    assert headline("B", "A", found) == sentence


def test_whose_votes_and_which_prompts_come_first() -> None:
    known = gap(Lead.AHEAD, 0.58, 0.54, 0.62, is_decided=True)
    said = headline("B", "A", known, raters="judges")
    assert said.startswith("By LLM-judge votes, B beats A: it wins 58 %")
    assert headline("B", "A", known, category="code").startswith("On “code” prompts, B beats")
    none = headline(
        "B", "A", CandidateDifference(Lead.NOT_COMPARABLE), raters="juries", category="code"
    )
    assert none == "By jury votes on “code” prompts, no votes yet: nobody has compared B with A."
    assert headline("B", "A", known, raters="people").startswith("B beats A")


def test_combined_board_without_trusted_judges_is_people_s() -> None:
    known = gap(Lead.AHEAD, 0.58, 0.54, 0.62, is_decided=True)
    both = headline("B", "A", known, raters="combined")
    assert both.startswith("By human and LLM-judge votes combined, B beats A")
    alone = headline("B", "A", known, raters="combined", category="code", is_fallback=True)
    assert alone.startswith(
        "By human votes alone (no judge is trusted yet) on “code” prompts, B beats A"
    )


def test_an_end_near_a_half_is_not_written_as_one() -> None:
    close = gap(Lead.AHEAD, 0.52, 0.5012, 0.54, is_decided=True)
    assert "52.0 % of the time (50.1 to 54.0)" in headline("B", "A", close)


shares = st.lists(st.floats(0.001, 0.999), min_size=3, max_size=3).map(sorted)


@given(ends=shares, known=st.booleans(), to_go=st.none() | st.integers(1, 100_000))
def test_headline_is_never_sure_across_a_half(
    ends: list[float], known: bool, to_go: int | None
) -> None:
    low, wins, high = ends
    lead = Lead.AHEAD if low > 0.5 else Lead.BEHIND if high < 0.5 else Lead.OPEN
    said = headline("B", "A", gap(lead, wins, low, high, is_decided=known, votes_to_go=to_go))
    if low <= 0.5 <= high:
        assert "is conclusive" not in said
        assert "probably" not in said
        assert "beats" not in said
    assert ("This result is conclusive." in said) == (known and lead is not Lead.OPEN)
    share = re.search(r"([\d.]+) % of the time \(([\d.]+) to ([\d.]+)\)", said)
    assert share is not None
    for written, given_ in zip(share.groups(), (wins, low, high), strict=True):
        assert float(written) == pytest.approx(100 * given_, abs=0.5)


def test_a_chance_is_never_written_as_certain() -> None:
    written = [chance_words(p) for p in (0.0, 0.0004, 0.004, 0.632, 0.994, 0.9999, 1.0, None)]
    assert written == [
        *["under 0.1\N{NO-BREAK SPACE}%"] * 2,
        *[f"{n}\N{NO-BREAK SPACE}%" for n in ("0.4", "63", "99.4")],
        *["over 99.9\N{NO-BREAK SPACE}%"] * 2,
        "–",
    ]


def test_votes_are_rounded_up() -> None:
    assert more_votes(CandidateDifference(Lead.OPEN, votes_to_go=141)) == "about 150 more votes"


def test_of_the_retired_no_more_votes_are_asked() -> None:
    said = headline("B", "A", gap(Lead.OPEN, 0.53, 0.47, 0.59, votes_to_go=90), retired="A")
    assert said.endswith("(47 to 59); no more votes will come, because A is archived.")


def test_figures_of_a_page_have_the_digits_of_the_sentence() -> None:
    close = gap(Lead.AHEAD, 0.52, 0.501, 0.54)
    assert share_words(close) == Share(
        "52.0\N{NO-BREAK SPACE}%", "50.1\N{NO-BREAK SPACE}% to 54.0\N{NO-BREAK SPACE}%"
    )
    assert share_words(CandidateDifference(Lead.NOT_COMPARABLE)) == Share()
