"""Two sets of verdicts on the same labelled pairs: which one is nearer to people."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from judges.core.calibration.against_people import decided, settled
from judges.core.calibration.items import PairItem, check_keys, decisive, majority
from judges.core.calibration.plain import Plain
from judges.core.calibration.sampling import DifferenceRow, Sampling
from ranking.stats import Estimate, mcnemar

NONE_DECIDED = "There is no label where both judges and a person choose a side."
NO_VERDICT = "There is no label on an item that both judges have a verdict on."
Both = Sequence[tuple[PairItem, PairItem]]


@dataclass(frozen=True)
class PairedDifference(Plain):
    """The first set of verdicts minus the second.

    ``n_items``: in both sets; ``left_out``: in one of them only
    ``decisive``: difference of agreement on the labels where both verdicts and the label choose a
        side; ``three_way``: where both have a verdict
    ``only_first_decides``, ``only_second_decides``: items on which but one chooses a side
    ``only_first_right``, ``only_second_right``: items, both verdicts and the majority of the
        labels choosing a side, on which but one agrees with that majority
    ``p``: McNemar's of these two counts; it takes items as independent, which the intervals,
        by prompt, do not
    """

    n_items: int
    left_out: int
    decisive: Estimate
    three_way: Estimate
    only_first_decides: int
    only_second_decides: int
    only_first_right: int
    only_second_right: int
    p: float


def paired_difference(
    first: Iterable[PairItem],
    second: Iterable[PairItem],
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> PairedDifference:
    """Compare two sets of verdicts on the items whose key is in both.

    Raises ValueError where a set has a key twice, or where an item's labels or prompt differ.
    """
    one, other = tuple(first), tuple(second)
    both = _matched(one, other)
    sampling = Sampling(level, n_resamples, seed)
    right = [_right(*pair) for pair in both]
    wins, losses = right.count((True, False)), right.count((False, True))
    chosen = [_chosen(*pair) for pair in both]
    return PairedDifference(
        n_items=len(both),
        left_out=len(one) + len(other) - 2 * len(both),
        decisive=sampling.difference(_decisive_rows(both), NONE_DECIDED),
        three_way=sampling.difference(_three_way_rows(both), NO_VERDICT),
        only_first_decides=chosen.count((True, False)),
        only_second_decides=chosen.count((False, True)),
        only_first_right=wins,
        only_second_right=losses,
        p=mcnemar(wins, losses),
    )


def _matched(first: Sequence[PairItem], second: Sequence[PairItem]) -> Both:
    check_keys(item.key for item in first)
    check_keys(item.key for item in second)
    known = {item.key: item for item in second}
    both = [(item, known[item.key]) for item in first if item.key in known]
    for one, other in both:
        if (sorted(one.labels), one.cluster) != (sorted(other.labels), other.cluster):
            raise ValueError(f"Item {one.key}: its labels or its prompt differ between the sets.")
    return both


def _chosen(one: PairItem, other: PairItem) -> tuple[bool, bool]:
    return bool(decisive([one.verdict])), bool(decisive([other.verdict]))


def _right(one: PairItem, other: PairItem) -> tuple[bool, bool] | None:
    """Whether each agrees with the majority; None unless all three choose a side."""
    sides = decisive([one.verdict, other.verdict, *majority(one.people)])
    return (sides[0] == sides[2], sides[1] == sides[2]) if len(sides) == 3 else None


def _decisive_rows(both: Both) -> Iterable[DifferenceRow]:
    for one, other in both:
        if len(sides := decisive([one.verdict, other.verdict])) == 2:
            cluster, hits, n = decided(one.cluster, sides[0], one.people)
            yield cluster, hits, decided(cluster, sides[1], one.people)[1], n


def _three_way_rows(both: Both) -> Iterable[DifferenceRow]:
    for one, other in both:
        if one.verdict and other.verdict:
            cluster, hits, n = settled(one.cluster, one.verdict, one.people)
            yield cluster, hits, settled(cluster, other.verdict, one.people)[1], n
