"""From rows about items to figures with intervals: how the report asks `ranking.stats`."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from judges.core.calibration.items import OUTCOMES
from ranking import stats  # names in it are loaded when used: correlations take SciPy a second
from ranking.stats import Correlations, Estimate

ShareRow = tuple[str, float, int]  # cluster, successes, trials
DifferenceRow = tuple[str, float, float, int]  # cluster, successes of the one and the other, trials
OutcomeRow = tuple[str, str, str]  # cluster, and what the one and the other said
ScoreRow = tuple[str, float, float]  # cluster, and the score of the one and of the other
LiftRow = tuple[str, float, float, float]  # cluster, the judge's, the baseline's and people's score
NEVER_TWICE = "Nothing was said twice about one item."
ONE_VALUE = "Everything said is the same, so chance cannot be told from agreement."


@dataclass(frozen=True)
class Alpha:
    """Krippendorff's alpha of ``n_values`` about ``n_items`` that have at least two each; None
    with the reason where it cannot be told."""

    value: float | None
    n_items: int
    n_values: int
    reason: str = ""


@dataclass(frozen=True)
class Sampling:
    """The confidence of all intervals of a report, and how they are drawn."""

    level: float
    n_resamples: int
    seed: int

    def share(self, rows: Iterable[ShareRow], nothing: str) -> Estimate:
        """Successes per trial; ``nothing`` is the reason where there are no trials."""
        columns = _columns(rows, 3)
        found = stats.clustered_share(columns[1], columns[2], columns[0], *self._how)
        return _explained(found, nothing)

    def difference(self, rows: Iterable[DifferenceRow], nothing: str) -> Estimate:
        """The share of the one minus the share of the other, on the same trials."""
        columns = _columns(rows, 4)
        found = stats.share_difference(columns[1], columns[2], columns[3], columns[0], *self._how)
        return _explained(found, nothing)

    def kappa(self, rows: Iterable[OutcomeRow], nothing: str) -> Estimate:
        """Cohen's kappa of two that choose between left, right and tie."""
        columns = _columns(rows, 3)
        one, other = ([OUTCOMES.index(said) for said in column] for column in columns[1:])
        return _explained(stats.clustered_kappa(one, other, columns[0], *self._how), nothing)

    def correlations(self, rows: Iterable[ScoreRow], nothing: str) -> Correlations:
        """How far the one's scores follow the other's."""
        columns = _columns(rows, 3)
        found = stats.score_correlations(columns[1], columns[2], columns[0], *self._how)
        return replace(found, pearson=_explained(found.pearson, nothing))

    def lift(self, rows: Iterable[LiftRow], nothing: str) -> Estimate:
        """The judge's Pearson with people minus the baseline's."""
        columns = _columns(rows, 4)
        found = stats.correlation_lift(columns[1], columns[2], columns[3], columns[0], *self._how)
        return _explained(found, nothing)

    @property
    def _how(self) -> tuple[float, int, int]:
        return self.level, self.n_resamples, self.seed


def alpha(runs: Iterable[Sequence[float | None]], level: str) -> Alpha:
    """Krippendorff's alpha over the values of each item; None is missing."""
    known = [[value for value in values if value is not None] for values in runs]
    known = [values for values in known if len(values) > 1]
    unit = [i for i, values in enumerate(known) for _ in values]
    found = stats.krippendorff_alpha(
        unit, None, [value for values in known for value in values], level
    )
    if not known:
        return Alpha(None, 0, 0, NEVER_TWICE)
    if math.isnan(found):
        return Alpha(None, len(known), len(unit), ONE_VALUE)
    return Alpha(found, len(known), len(unit))


def _columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """The rows' columns, the first with an integer for each cluster."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
    codes: dict[str, int] = {}
    return [[codes.setdefault(name, len(codes)) for name in columns[0]], *columns[1:]]


def _explained(found: Estimate, nothing: str) -> Estimate:
    return found if found.n else replace(found, reason=nothing)
