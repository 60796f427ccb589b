"""May a judge take a person's place? The alternative annotator test (Calderon et al. 2025).

Each annotator is left out in turn, and the judge is compared with the annotator by how close either
comes to the others on the same items.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr

from ranking.stats.arrays import Floats

FEWEST_ITEMS = 30
DISCOUNT = (
    0.1  # the paper's for crowd workers: a judge is cheaper, so it may win a little less often
)
FALSE_DISCOVERIES = 0.05


@dataclass(frozen=True)
class AnnotatorTest:
    """The result over the ``n_people`` with at least 30 items; None without any.

    ``advantage``: the mean over people of the share of items on which the judge is at least as
        close to the others as this person
    ``winning_rate``: the share of people over whom the judge wins significantly; the paper asks for
        at least 0.5 to use the judge in their place
    """

    n_people: int
    advantage: float | None
    winning_rate: float | None
    reason: str = ""


TOO_FEW = f"Nobody labelled at least {FEWEST_ITEMS} items that others labelled too."


def annotator_test(
    person: ArrayLike, judge_close: ArrayLike, person_close: ArrayLike
) -> AnnotatorTest:
    """Test a judge against each person.

    Parameters
    ----------
    person : (n,) integers, who is left out in each row
    judge_close, person_close : (n,) how close the judge and the person come to the others; more is
        closer

    For each person the null hypothesis is that the judge is at least as close as the person in a
    share of items that is lower by ``DISCOUNT`` or more; it is tested by a one-sided t test, and
    Benjamini and Yekutieli's procedure bounds the false discoveries over people.
    """
    people = np.asarray(person, np.int64)
    judge, own = np.asarray(judge_close, np.float64), np.asarray(person_close, np.float64)
    if not people.shape == judge.shape == own.shape or people.ndim != 1:
        raise ValueError("person, judge_close and person_close must be of one length")
    ids, counts = np.unique(people, return_counts=True)
    tested = ids[counts >= FEWEST_ITEMS]
    if not len(tested):
        return AnnotatorTest(0, None, None, TOO_FEW)
    wins = (judge >= own).astype(np.float64)
    losses = (own >= judge).astype(np.float64)
    p_values = np.array([_p_value((losses - wins)[people == one]) for one in tested])
    advantage = np.mean([wins[people == one].mean() for one in tested])
    return AnnotatorTest(len(tested), float(advantage), _discoveries(p_values) / len(tested))


def _p_value(excess: Floats) -> float:
    """The p-value of "the person is closer more often by at least the discount"."""
    if np.ptp(excess) == 0:
        return 0.0 if excess[0] < DISCOUNT else 1.0
    error = excess.std(ddof=1) / math.sqrt(len(excess))
    return float(stdtr(len(excess) - 1, (excess.mean() - DISCOUNT) / error))


def _discoveries(p_values: Floats) -> int:
    """How many are significant by Benjamini and Yekutieli 2001, for tests that may be dependent."""
    ranks = np.arange(1, len(p_values) + 1)
    bounds = FALSE_DISCOVERIES * ranks / (len(ranks) * (1 / ranks).sum())
    met = ranks[np.sort(p_values) <= bounds]
    return int(met.max(initial=0))
