"""The fit of strengths and shared style coefficients, among candidates that are all ranked."""

import math
from dataclasses import dataclass

import numpy as np

from ranking.stats.columns import Floats, Ints
from ranking.stats.concave import Flattened, climb, covariance
from ranking.stats.identified import NoStyle, identify
from ranking.stats.intervals import small_sample
from ranking.stats.styled_votes import StyledVotes


@dataclass(eq=False)
class StyledFit:
    """What R candidates' votes tell of their strengths and of F coefficients; NaN where nothing.

    Attributes
    ----------
    x : (R + F,) strengths of mean 0, then coefficients per standard deviation
    covariance : (R + F, R + F), cluster-robust
    status : F of `NoStyle` or None, why a coefficient is not known
    reason : `NoStyle` where there are no scores, or None
    log_likelihood, n_iter : float in nats, and the Newton steps taken
    """

    x: Floats
    covariance: Floats
    status: list[NoStyle | None]
    reason: NoStyle | None = None
    log_likelihood: float = math.nan
    n_iter: int = 0

    @classmethod
    def nothing(cls, n_candidates: int, n_features: int) -> "StyledFit":
        """Where nobody is ranked."""
        size = n_candidates + n_features
        return cls(np.full(size, np.nan), np.full((size, size), np.nan), [None] * n_features)


def fit_style(votes: StyledVotes, varies: list[int], theta: Floats, robust: bool) -> StyledFit:
    """Fit standardised votes from the plain strengths (R,).

    ``varies`` : the features that are not constant; ``robust`` : whether errors can be measured.
    Raises NotConverged.
    """
    size = len(theta)
    fit = StyledFit.nothing(size, len(votes.features))
    fit.status = [None if j in varies else NoStyle.CONSTANT for j in range(len(votes.features))]
    start = np.concatenate([theta, np.zeros(len(varies))])
    gradient, information = votes.choose(varies).derivatives(start)
    found = identify(information, size)
    for place, reason in zip(varies, found.status, strict=True):
        fit.status[place] = reason
    keep = np.array([*range(size), *(size + j for j in found.fitted)])
    chosen = votes.choose([varies[j] for j in found.fitted])
    at_start = gradient[keep], information[np.ix_(keep, keep)]
    try:
        x, information, fit.n_iter = climb(chosen.derivatives, start[keep], at_start, size)
    except Flattened:
        fit.reason = NoStyle.SEPARATED
        return fit
    fit.log_likelihood = chosen.log_likelihood(x)
    fit.reason = None if found.strengths else NoStyle.OF_CANDIDATES
    places = np.array([*range(size), *(size + varies[j] for j in found.fitted)])
    fit.x[places] = x
    if robust:
        fit.covariance[np.ix_(places, places)] = _sandwich(chosen, x, information)
    _hide(fit, size)
    return fit


def _sandwich(votes: StyledVotes, x: Floats, information: Floats) -> Floats:
    bread = covariance(information, votes.n_candidates)
    spread: Floats = bread @ votes.meat(x) @ bread * small_sample(votes.n_clusters) ** 2
    return spread


def _hide(fit: StyledFit, size: int) -> None:
    """Leave nothing where a fitted number is one of many that fit as well."""
    unknown: Ints = np.array(
        [fit.reason is not None] * size + [reason is not None for reason in fit.status]
    ).nonzero()[0]
    fit.x[unknown] = np.nan
    fit.covariance[unknown] = np.nan
    fit.covariance[:, unknown] = np.nan
