"""What a judge of pairs says beside what people say, and beside what length alone would say."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from judges.core.calibration.items import OUTCOMES, PairItem, decisive
from judges.core.calibration.sampling import DifferenceRow, Sampling, ShareRow
from ranking.stats import Estimate

NONE_DECIDED = "There is no label where both the judge and a person choose a side."
NO_VERDICT = "There is no label on an item that the judge has a verdict on."
NO_TWO_PEOPLE = "No item that counts here has labels of two people."
NO_TWO_SIDES = "No item that counts here has two people who choose a side."
NO_LENGTHS = "There is no label where a person chooses a side and the lengths differ."
NO_LABELS = "There are no labels."
NO_LIFT = "There is no label where the judge and a person choose a side and the lengths differ."


@dataclass(frozen=True)
class Agreement:
    """Of a judge with labels; each figure's ``n`` is how many labels it is about.

    ``decisive``: share of agreement where the judge and the label both choose a side
    ``three_way``: the same of left, right and tie, wherever the judge has a verdict
    ``kappa``: Cohen's, of left, right and tie
    """

    decisive: Estimate
    three_way: Estimate
    kappa: Estimate


@dataclass(frozen=True)
class PeopleAgreement:
    """Of people with one another: share of the pairs of labels on one item that are the same,
    both choosing a side (``decisive``), or three ways. ``n`` counts pairs of labels."""

    decisive: Estimate
    three_way: Estimate


@dataclass(frozen=True)
class Baseline:
    """ "The longer answer wins", on all labels whatever the judge did; equal lengths predict a tie.

    ``lift_decisive``: the judge's agreement minus the baseline's, on labels where the judge, the
    person and the lengths all choose a side; ``lift_three_way``: where the judge has a verdict
    """

    decisive: Estimate
    three_way: Estimate
    lift_decisive: Estimate
    lift_three_way: Estimate


def measure_agreement(
    items: Sequence[PairItem], references: Sequence[Sequence[str]], sampling: Sampling
) -> Agreement:
    """Agreement of verdicts with the references, some labels for each item."""
    judged = [
        (item.cluster, item.verdict, labels)
        for item, labels in zip(items, references, strict=True)
        if item.verdict
    ]
    return Agreement(
        sampling.share((decided(*row) for row in judged), NONE_DECIDED),
        sampling.share((settled(*row) for row in judged), NO_VERDICT),
        sampling.kappa(
            ((cluster, verdict, label) for cluster, verdict, labels in judged for label in labels),
            NO_VERDICT,
        ),
    )


def decided(cluster: str, verdict: str, labels: Iterable[str]) -> ShareRow:
    """Labels equal to the verdict among those that choose a side, where the verdict does."""
    sides = decisive(labels) if decisive([verdict]) else []
    return cluster, sides.count(verdict), len(sides)


def settled(cluster: str, verdict: str, labels: Sequence[str]) -> ShareRow:
    """Labels equal to the verdict among all."""
    return cluster, labels.count(verdict), len(labels)


def measure_people(
    items: Sequence[PairItem], sampling: Sampling, *, settled_only: bool
) -> PeopleAgreement:
    """People among themselves; ``settled_only`` on the items that count for the judge too."""
    read = [item for item in items if item.verdict or not settled_only]
    sided = [item for item in read if decisive([item.verdict]) or not settled_only]
    return PeopleAgreement(
        sampling.share(
            (_pairs(item.cluster, decisive(item.people)) for item in sided), NO_TWO_SIDES
        ),
        sampling.share((_pairs(item.cluster, item.people) for item in read), NO_TWO_PEOPLE),
    )


def _pairs(cluster: str, labels: Sequence[str]) -> ShareRow:
    """Pairs of labels that are the same, and all pairs."""
    same = sum(times * (times - 1) // 2 for times in Counter(labels).values())
    return cluster, same, len(labels) * (len(labels) - 1) // 2


def longer_wins(items: Sequence[PairItem], sampling: Sampling) -> Baseline:
    """The baseline, and the judge's lift over it on the same labels."""
    told = [(item.cluster, item.longer, item.people) for item in items]
    return Baseline(
        sampling.share((decided(*row) for row in told), NO_LENGTHS),
        sampling.share((settled(*row) for row in told), NO_LABELS),
        sampling.difference(_decisive_lift(items), NO_LIFT),
        sampling.difference(_three_way_lift(items), NO_VERDICT),
    )


def _decisive_lift(items: Iterable[PairItem]) -> Iterator[DifferenceRow]:
    for item in items:
        sides = decisive(item.people)
        if len(decisive([item.verdict, item.longer])) == 2:
            yield item.cluster, sides.count(str(item.verdict)), sides.count(item.longer), len(sides)


def _three_way_lift(items: Iterable[PairItem]) -> Iterator[DifferenceRow]:
    for item in items:
        if item.verdict:
            said = item.people
            yield item.cluster, said.count(item.verdict), said.count(item.longer), len(said)


def confuse(items: Sequence[PairItem]) -> dict[str, dict[str, int]]:
    """How many labels of each outcome met each verdict; "none" where there is no verdict."""
    met = Counter((label, item.verdict or "none") for item in items for label in item.people)
    return {
        label: {verdict: met[label, verdict] for verdict in (*OUTCOMES, "none")}
        for label in OUTCOMES
    }
