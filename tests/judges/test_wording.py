"""A decision in one sentence: every state has words, each names its scope, none claims too much."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.wording import headline
from ranking.claim_words import (
    claim_sentence,
    missing_words,
    parts_sentence,
    rounded_up,
    share_words,
    state_words,
)
from ranking.comparison import CandidateDifference
from ranking.stats.claim import Claim, Look, Missing, Scope, Unit, Verdict

PEOPLE = {"scope": Scope.THESE_RATERS, "n_raters": 6, "n_votes": 90, "n_prompts": 60}


def found(
    verdict: Verdict, wins: float | None, low: float | None, high: float | None, **fields: object
) -> Claim:
    return Claim(
        **PEOPLE | {"verdict": verdict, "win_rate": wins, "low": low, "high": high} | fields
    )  # type: ignore[arg-type]


BETTER = found(Verdict.BETTER, 0.75, 0.58, 0.88)
OPEN = found(Verdict.OPEN, 0.65, 0.49, 0.79, missing=Missing(Unit.PROMPTS, 18))


def wider(unit: Unit, number: int | None, **fields: object) -> Claim:
    missing = {"scope": Scope.RATERS, "missing": Missing(unit, number)}
    return found(Verdict.OPEN, 0.7, 0.4, 0.9, **missing | fields)


TABLE = [
    (
        found(Verdict.BETTER, 0.75, 0.58, 0.88, scope=Scope.RATERS),
        "B is better than A for raters and prompts like these: it wins 75% of the time (58 to 88).",
    ),
    (
        found(Verdict.WORSE, 0.25, 0.12, 0.42, scope=Scope.JUDGE, n_raters=1),
        "B is worse than A for this judge and prompts like these: it wins 25% of the time (12 to"
        " 42).",
    ),
    (
        found(Verdict.BETTER, 0.75, 0.58, 0.88, is_kept=True),
        "B is better than A for these 6 raters and prompts like these: it wins 75% of the time (58"
        " to 88). Newer votes no longer support it.",
    ),
    (
        found(Verdict.OPEN, 0.59, 0.42, 0.75, scope=Scope.JUDGE, n_raters=1, look=Look(2, 5, 100)),
        "Not decided yet: against A, B wins 59% of the time (42 to 75), for this judge and prompts"
        " like these. This is look 2 of 5, after 40 of 100 prompts.",
    ),
    (
        found(Verdict.OPEN, None, None, None, scope=Scope.JUDGE, look=Look(0, 5, 100)),
        "Not decided yet: the first look at B against A comes after 20 of 100 prompts.",
    ),
    (
        found(
            Verdict.CANNOT_TELL, 0.52, 0.4, 0.6, scope=Scope.JUDGE, n_raters=1, look=Look(5, 5, 100)
        ),
        "Can’t be decided this way: against A, B wins 52% of the time (40 to 60), for this judge"
        " and prompts like these. The difference is too small for 100 prompts.",
    ),
    (
        found(Verdict.BETTER, 0.75, 0.58, 0.88, wider=wider(Unit.RATERS, 3)),
        "B is better than A for these 6 raters and prompts like these: it wins 75% of the time (58"
        " to 88). For raters like these it’s not decided yet: it takes about 3 more raters.",
    ),
    (
        found(
            Verdict.BETTER,
            *(0.75, 0.58, 0.88),
            wider=wider(Unit.RATERS, 3, no_votes_settle=True),
        ),
        "B is better than A for these 6 raters and prompts like these: it wins 75% of the time (58"
        " to 88). For raters like these, no number of votes by these raters will settle it; about 3"
        " more raters could.",
    ),
    (
        found(
            Verdict.BETTER,
            *(0.75, 0.58, 0.88),
            wider=wider(Unit.RATERS, None, no_votes_settle=True),
        ),
        "B is better than A for these 6 raters and prompts like these: it wins 75% of the time (58"
        " to 88). For raters like these, no number of votes by these raters will settle it.",
    ),
    (
        found(Verdict.BETTER, 0.75, 0.58, 0.88, n_raters=2, wider=wider(Unit.RATERS, 9)),
        "B is better than A for these 2 raters and prompts like these: it wins 75% of the time (58"
        " to 88). 2 raters say nothing about others.",
    ),
    (
        OPEN,
        "Not decided yet: against A, B wins 65% of the time (49 to 79), for these 6 raters and"
        " prompts like these. If the difference stays the same, about 18 more prompts, judged by"
        " these raters, would settle it.",
    ),
    (
        found(Verdict.OPEN, 0.51, 0.4, 0.6, missing=Missing(Unit.PROMPTS, 17_000)),
        "Not decided yet: against A, B wins 51% of the time (40 to 60), for these 6 raters and"
        " prompts like these. The difference is too small to find with 10,000 more prompts.",
    ),
    (
        found(Verdict.OPEN, 0.5, 0.4, 0.6, missing=Missing(Unit.PROMPTS, None)),
        "Not decided yet: against A, B wins 50% of the time (40 to 60), for these 6 raters and"
        " prompts like these. The difference is too small to find with 10,000 more prompts.",
    ),
    (
        found(
            Verdict.OPEN,
            *(0.7, 0.4, 0.9),
            n_documents=6,
            missing=Missing(Unit.DOCUMENTS, 3),
        ),
        "Not decided yet: against A, B wins 70% of the time (40 to 90), for these 6 raters and"
        " prompts like these. 6 documents are too few: about 3 more documents would settle it.",
    ),
    (
        found(Verdict.NO_WORSE, 0.52, 0.46, 0.58, missing=Missing(Unit.PROMPTS, 300)),
        "B is no worse than A by more than the margin for these 6 raters and prompts like these:"
        " it wins 52% of the time (46 to 58). If the difference stays the same, about 300 more"
        " prompts, judged by these raters, would settle it.",
    ),
    (Claim(Verdict.OPEN, Scope.JUDGE), "No votes yet: nobody has compared B with A."),
]


@pytest.mark.parametrize(("claim", "sentence"), TABLE)
def test_every_state_has_its_words(claim: Claim, sentence: str) -> None:
    assert claim_sentence(claim, "B", "A") == sentence
    assert headline("B", "A", CandidateDifference(claim)) == sentence


def test_both_bad_alone_decide_nothing() -> None:
    nothing = Claim(Verdict.OPEN, Scope.THESE_RATERS)
    for n, votes in ((1, "the only vote"), (20, "all 20 votes")):
        says = headline("B", "A", CandidateDifference(nothing, both_bad=n))
        assert says == f"Not decided yet: {votes} on B and A rated both answers bad."


def test_votes_and_category_are_named_where_they_differ() -> None:
    better = CandidateDifference(BETTER)
    says = headline("B", "A", better, raters="juries", category="code")
    assert says.startswith("By jury votes on “code” prompts, B is better than A for these 6 raters")
    assert headline("B", "A", better, category="code").startswith("On “code” prompts, B is ")
    says = headline("B", "A", CandidateDifference(OPEN), raters="combined")
    assert says.startswith("By human votes, not decided yet: ")
    assert headline("B", "A", better, raters="judges").startswith("B is better")


def test_several_judges_are_those() -> None:
    several = found(Verdict.BETTER, 0.7, 0.6, 0.8, scope=Scope.JUDGE, n_raters=3)
    assert "for these 3 judges and" in claim_sentence(several, "B", "A", raters="judges")
    assert "for these 3 juries and" in claim_sentence(several, "B", "A", raters="juries")


def test_archived_candidates_get_no_more_votes() -> None:
    says = headline("B", "A", CandidateDifference(OPEN), retired="A")
    assert says.endswith("No more votes will come, because A is archived.")
    assert "more prompts" not in says


def test_a_family_says_what_does_not_hold_together() -> None:
    alone = headline("B", "A", CandidateDifference(BETTER, family=3, holds_together=True))
    assert "together" not in alone
    says = headline("B", "A", CandidateDifference(BETTER, family=3))
    assert says.endswith(
        "Taken together with the other 2 candidates compared with A, it’s not certain enough yet."
    )


@given(
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from([Verdict.BETTER, Verdict.WORSE, Verdict.OPEN]),
)
def test_an_end_is_50_only_if_it_is(one: float, two: float, three: float, verdict: Verdict) -> None:
    low, wins, high = sorted((one, two, three))
    says, interval = share_words(found(verdict, wins, low, high))
    for shown, value in zip([says, *interval.split(" to ")], (wins, low, high), strict=True):
        if abs(value - 0.5) > 1e-5:
            assert shown != "50%"
    assert re.fullmatch(r"[\d.]+%", says)


def test_a_table_says_it_in_a_few_words() -> None:
    assert state_words(BETTER) == "better"
    assert state_words(OPEN) == "about 18 more prompts"
    assert state_words(Claim(Verdict.OPEN, Scope.JUDGE)) == "no votes yet"
    assert state_words(found(Verdict.OPEN, 0.5, 0.4, 0.6, missing=None)) == "not decided"
    large = Missing(Unit.PROMPTS, 20_000)
    assert state_words(found(Verdict.OPEN, 0.5, 0.4, 0.6, missing=large)) == "too small to find"
    assert state_words(found(Verdict.BETTER, 0.7, 0.6, 0.8, is_kept=True)) == "better, kept"


def test_no_more_digits_than_there_are() -> None:
    assert [rounded_up(n) for n in (1, 99, 101, 1234)] == [1, 99, 110, 1300]
    assert missing_words(Missing(Unit.VOTES, 1)) == "about 1 more vote"
    more = Missing(Unit.RATERS, 31, on_new_prompts=True)
    assert missing_words(more) == "about 31 more raters on new prompts"
    assert missing_words(Missing(Unit.RATERS, None)) == "no number that can be estimated"


def test_where_the_uncertainty_comes_from() -> None:
    parts = {"votes": 0.5, "prompts": 0.2, "raters": 0.3}
    says = parts_sentence(found(Verdict.OPEN, 0.6, 0.4, 0.8, parts=parts))
    assert says == "20% of the uncertainty is between prompts and 30% between raters."
    assert parts_sentence(Claim(Verdict.OPEN, Scope.JUDGE)) == ""
