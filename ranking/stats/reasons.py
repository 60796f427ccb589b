"""Which reasons are named for one group of votes more often than for the others."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PRIOR = 10.0  # votes that the prior is worth


@dataclass(frozen=True, eq=False)
class OverNamed:
    """How much more often reasons are named in N groups of votes than elsewhere.

    Attributes
    ----------
    log_odds : (N,) log-odds of naming the reason in the group, less those elsewhere; shrunk
    standard_error : (N,) of `log_odds`
    q : (N,) the smallest false discovery rate at which the reason is found to be named more often
    """

    log_odds: Floats
    standard_error: Floats
    q: Floats


def over_named(
    named: Ints, explained: Ints, named_elsewhere: Ints, explained_elsewhere: Ints
) -> OverNamed:
    """Compare how often reasons are named in groups of votes, and in the votes elsewhere.

    Log-odds ratios with an informative Dirichlet prior: Monroe, Colaresi and Quinn (2008),
    "Fightin' Words", equations 15 to 22. A reason is named or not, so the prior has two parts; it
    is worth PRIOR votes, at the rate of both sides together. The variance has the terms of both
    parts. One-sided p-values are adjusted over all N by Benjamini and Hochberg (1995).

    Parameters
    ----------
    named, explained : (N,) votes of each group that name the reason, and that name any
    named_elsewhere, explained_elsewhere : (N,) the same of the votes it is compared with
    """
    from scipy.stats import false_discovery_control  # noqa: PLC0415  (half a second to load)

    if not len(named):
        return OverNamed(np.empty(0), np.empty(0), np.empty(0))
    everywhere = np.maximum(explained + explained_elsewhere, 1)
    rate = (named + named_elsewhere + 0.5) / (everywhere + 1.0)
    yes, no = named + PRIOR * rate, explained - named + PRIOR * (1 - rate)
    yes_elsewhere = named_elsewhere + PRIOR * rate
    no_elsewhere = explained_elsewhere - named_elsewhere + PRIOR * (1 - rate)
    log_odds = np.log(yes / no) - np.log(yes_elsewhere / no_elsewhere)
    error = np.sqrt(1 / yes + 1 / no + 1 / yes_elsewhere + 1 / no_elsewhere)
    return OverNamed(log_odds, error, false_discovery_control(ndtr(-log_odds / error)))
