"""What a judge of pairs does whatever the answers say: flips, first places, length, its family."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from judges.core.calibration.items import OUTCOMES, SIDES, PairItem, decisive
from judges.core.calibration.sampling import Alpha, Sampling, alpha
from ranking.stats import Estimate

NOT_BOTH = "No item was read in both orders."
NO_SIDE = "No reading chooses a side."
NO_LENGTHS = "There is no label where the judge and a person choose a side and the lengths differ."
NO_FAMILY = "There is no label where the judge and a person choose a side about its own family."


@dataclass(frozen=True)
class Preference:
    """How often one kind of response is preferred, on labels where judge and person choose a side.

    ``judge``, ``people``: their shares; ``difference``: the judge's minus people's
    """

    judge: Estimate
    people: Estimate
    difference: Estimate


def count_flips(items: Sequence[PairItem], sampling: Sampling) -> Estimate:
    """Share of the items with two readings in which the other order gave another outcome."""
    rows = (
        (item.cluster, float(item.forward != item.reverse), 1)
        for item in items
        if item.forward and item.reverse
    )
    return sampling.share(rows, NOT_BOTH)


def first_position(items: Sequence[PairItem], sampling: Sampling) -> Estimate:
    """Share of the decisive readings that prefer the response shown first: left, then right."""
    rows = (
        (item.cluster, float(reading == first), 1)
        for item in items
        for reading, first in zip((item.forward, item.reverse), SIDES, strict=True)
        if reading in SIDES
    )
    return sampling.share(rows, NO_SIDE)


def picks_longer(items: Sequence[PairItem], sampling: Sampling) -> Preference:
    """How often the longer response is preferred, where the lengths differ."""
    return _preference(items, [item.longer for item in items], sampling, NO_LENGTHS)


def own_family(items: Sequence[PairItem], sampling: Sampling) -> Preference:
    """How often the response of the judge's own family is preferred, where one side is."""
    return _preference(items, [item.own_family for item in items], sampling, NO_FAMILY)


def _preference(
    items: Sequence[PairItem], marked: Sequence[str | None], sampling: Sampling, nothing: str
) -> Preference:
    """Judge beside people, each label once for either, where a side of the item is marked."""
    rows = list(_preferred(items, marked))
    return Preference(
        sampling.share(((cluster, judge, n) for cluster, judge, _, n in rows), nothing),
        sampling.share(((cluster, people, n) for cluster, _, people, n in rows), nothing),
        sampling.difference(rows, nothing),
    )


def _preferred(
    items: Sequence[PairItem], marked: Sequence[str | None]
) -> Iterator[tuple[str, int, int, int]]:
    for item, side in zip(items, marked, strict=True):
        if side in SIDES and item.verdict in SIDES:
            said = decisive(item.people)
            yield item.cluster, len(said) * (item.verdict == side), said.count(side), len(said)


def repeated(items: Sequence[PairItem]) -> Alpha:
    """Nominal alpha of the verdict and those of further runs."""
    runs = ((item.verdict, *item.repeats) for item in items)
    codes = {outcome: float(code) for code, outcome in enumerate(OUTCOMES)}
    return alpha([[codes[said] for said in run if said] for run in runs], "nominal")
