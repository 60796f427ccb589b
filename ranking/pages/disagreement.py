"""Where the boards of two kinds of raters disagree about a candidate, in plain words. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from ranking.models import Standing

Other = tuple[str, Standing | None, float]  # raters, their standing, how much higher their scale is


@dataclass(frozen=True)
class Remark:
    """What one other board says: `difference` in Elo, None where it cannot be told; `is_apart`:
    whether the intervals do not overlap."""

    difference: float | None
    is_apart: bool
    sentence: str


@dataclass(frozen=True)
class Disagreement:
    """About one candidate, one remark for each other board."""

    remarks: list[Remark]

    @property
    def size(self) -> float | None:
        """The largest difference in Elo, None where there is none to tell."""
        known = [abs(one.difference) for one in self.remarks if one.difference is not None]
        return max(known, default=None)

    @property
    def is_apart(self) -> bool:
        """Whether the intervals of some board do not overlap."""
        return any(one.is_apart for one in self.remarks)


def between(reference: str, own: Standing | None, others: Iterable[Other]) -> Disagreement:
    """Compare a candidate's standing on the board `reference` with its standings on others."""
    return Disagreement([_compared(reference, own, *other) for other in others])


def _compared(
    reference: str, own: Standing | None, raters: str, theirs: Standing | None, shift: float
) -> Remark:
    if own is None or own.score is None:
        return Remark(None, False, f"No score by {reference} to compare that of {raters} with.")
    if theirs is None or theirs.score is None:
        return Remark(None, False, f"No score by {raters} yet.")
    difference = theirs.score - shift - own.score
    told = _told(raters, difference)
    if own.low is None or own.high is None or theirs.low is None or theirs.high is None:
        return Remark(difference, False, f"{told}; without intervals it may be chance.")
    if theirs.low - shift <= own.high and own.low <= theirs.high - shift:
        return Remark(difference, False, f"{told}: within chance.")
    ranks = _ranks(reference, own, raters, theirs)
    return Remark(difference, True, f"{told}: the intervals do not overlap{ranks}.")


def _told(raters: str, difference: float) -> str:
    points = round(abs(difference))
    if not points:
        return f"{raters.capitalize()} give the same score"
    side = "higher" if difference > 0 else "lower"
    return f"{raters.capitalize()} put it {points} Elo {side}"


def _ranks(reference: str, own: Standing, raters: str, theirs: Standing) -> str:
    """The ranges of ranks, where these do not overlap either."""
    if own.rank_low is None or own.rank_high is None:
        return ""
    if theirs.rank_low is None or theirs.rank_high is None:
        return ""
    if theirs.rank_low <= own.rank_high and own.rank_low <= theirs.rank_high:
        return ""
    ours, others = _range(own), _range(theirs)
    return f", nor do the ranks ({ours} by {reference}, {others} by {raters})"


def _range(standing: Standing) -> str:
    low, high = standing.rank_low, standing.rank_high
    return f"{low}" if low == high else f"{low}–{high}"
