"""Exact tests of counts: whether two runs over the same items differ by more than chance."""

from scipy.special import bdtr, bdtrc


def mcnemar(b: int, c: int) -> float:
    """The exact two-sided p-value of McNemar's test.

    ``b`` items went right only in the one run and ``c`` only in the other; if the runs are
    equally good, each of these was a coin toss. Without any such item p is 1.

    Raises ValueError for a negative count. Reference: McNemar 1947, the binomial taken exactly.
    """
    if b < 0 or c < 0:
        raise ValueError(f"b and c must be 0 or more, not {b} and {c}")
    return min(1.0, 2 * float(bdtr(min(b, c), b + c, 0.5)))


def binomial_excess(successes: int, trials: int, share: float) -> float:
    """The chance of so many successes or more if each trial succeeds with chance ``share``.

    Raises ValueError where successes are not from 0 to trials, or share is not from 0 to 1.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"successes must be from 0 to {trials}, not {successes}")
    if not 0 <= share <= 1:
        raise ValueError(f"share must be from 0 to 1, not {share}")
    return float(bdtrc(successes - 1, trials, share)) if successes else 1.0
