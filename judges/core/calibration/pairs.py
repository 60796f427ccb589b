"""The report on a judge of pairs: its agreement with people, and where length alone is wrong."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from judges.core.calibration.items import (
    PAIR_STATES,
    SIDES,
    Alpha,
    DifferenceRow,
    JsonDataclass,
    PairItem,
    Preference,
    Sampling,
    ShareRow,
    by_category,
    count_flips,
    count_labels,
    count_states,
    decisive,
    first_position,
    majority,
    own_family,
    picks_longer,
    self_agreement,
)
from ranking.stats.agreement import mcnemar
from ranking.stats.bootstrap import Estimate

NONE_DECIDED = "There is no label where both the judge and a person choose a side."
NO_VERDICT = "No labelled item has a verdict from the judge."
NO_TWO_PEOPLE = "No item that counts here has labels by two people."
NO_TWO_SIDES = "No item that counts here has two people who choose a side."
NO_SIDES = "There is no label that chooses a side."
NO_ITEMS = "There are no items."
NO_LENGTHS = "There is no label where a person chooses a side and the lengths differ."
NONE_SHORTER = "There is no label that prefers the shorter answer."
NO_LABELS = "There are no labels."


@dataclass(frozen=True)
class Agreement:
    """A judge's agreement with labels; each figure's ``n`` is the number of labels it counts.

    ``decisive``: share of agreement where the judge and the label both choose a side
    ``three_way``: the same of left, right and tie, wherever the judge has a verdict
    ``kappa``: Cohen's, of left, right and tie, whichever answer stands left
    """

    decisive: Estimate
    three_way: Estimate
    kappa: Estimate


@dataclass(frozen=True)
class PeopleAgreement:
    """People's agreement with one another: the share of equal pairs of labels on an item.

    ``decisive``: where both choose a side; ``three_way``: of left, right and tie. ``n`` counts
    pairs of labels.
    """

    decisive: Estimate
    three_way: Estimate


@dataclass(frozen=True)
class Accuracy:
    """Share of labels that the verdict matches, over all items; a missing verdict is wrong.

    ``with_ties``: of left, right and tie; ``without_ties``: of the labels that choose a side
    """

    with_ties: Estimate
    without_ties: Estimate


def measure_agreement(items: Sequence[PairItem], sampling: Sampling) -> Agreement:
    """Measure the agreement of verdicts with every label."""
    judged = [(item.cluster, item.verdict, item.people) for item in items if item.verdict]
    return Agreement(
        sampling.share((decided(*row) for row in judged), NONE_DECIDED),
        sampling.share(
            ((cluster, labels.count(verdict), len(labels)) for cluster, verdict, labels in judged),
            NO_VERDICT,
        ),
        sampling.kappa(
            ((cluster, verdict, label) for cluster, verdict, labels in judged for label in labels),
            NO_VERDICT,
        ),
    )


def decided(cluster: str, verdict: str, labels: Iterable[str]) -> ShareRow:
    """Labels equal to the verdict among those that choose a side, if the verdict does."""
    sides = decisive(labels) if decisive([verdict]) else []
    return cluster, sides.count(verdict), len(sides)


def measure_people(items: Sequence[PairItem], sampling: Sampling) -> PeopleAgreement:
    return PeopleAgreement(
        sampling.share(
            (_pairs(item.cluster, decisive(item.people)) for item in items), NO_TWO_SIDES
        ),
        sampling.share((_pairs(item.cluster, item.people) for item in items), NO_TWO_PEOPLE),
    )


def _pairs(cluster: str, labels: Sequence[str]) -> ShareRow:
    """Count equal pairs of labels, and all pairs."""
    same = sum(times * (times - 1) // 2 for times in Counter(labels).values())
    return cluster, same, len(labels) * (len(labels) - 1) // 2


def measure_accuracy(items: Sequence[PairItem], sampling: Sampling) -> Accuracy:
    def rows(counted: Callable[[Sequence[str]], Sequence[str]]) -> Iterator[ShareRow]:
        for item in items:
            labels = counted(item.people)
            yield item.cluster, sum(item.verdict == label for label in labels), len(labels)

    return Accuracy(
        sampling.share(rows(tuple), NO_LABELS), sampling.share(rows(decisive), NO_SIDES)
    )


def _against_length(item: PairItem) -> ShareRow:
    """Labels for the shorter answer, equal to the verdict; half of them if it chooses no side."""
    shorter = [side for side in decisive(item.people) if item.longer not in (side, "tie")]
    hits = shorter.count(item.verdict) if item.verdict in SIDES else len(shorter) / 2
    return item.cluster, hits, len(shorter)


@dataclass(frozen=True)
class PairedDifference(JsonDataclass):
    """Two sets of verdicts on the same ``n_items``.

    ``first``, ``second``: the accuracy of each, where a tie or no verdict is wrong. With scores
        first and pairs second, those without ties are Direct2Pair and Pair2Pair (Kim et al. 2024,
        Prometheus 2, table 13)
    ``difference``: of those without ties, the first minus the second
    ``p``: McNemar's, of the items on which the majority of the labels chooses a side, and only one
        verdict agrees with it; it treats items as independent, unlike the intervals
    """

    n_items: int
    first: Accuracy
    second: Accuracy
    difference: Estimate
    p: float


def paired_difference(
    first: Iterable[PairItem],
    second: Iterable[PairItem],
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> PairedDifference:
    """Compare two sets of verdicts on the items with the same keys."""
    known = {item.key: item for item in second}
    both = [(item, known[item.key]) for item in first if item.key in known]
    sampling = Sampling(level, n_resamples, seed)
    right = [
        (before.verdict == side, after.verdict == side)
        for before, after in both
        for side in decisive(majority(before.people))
    ]
    return PairedDifference(
        n_items=len(both),
        first=measure_accuracy([item for item, _ in both], sampling),
        second=measure_accuracy([item for _, item in both], sampling),
        difference=sampling.difference(_strict_rows(both), NO_SIDES),
        p=mcnemar(right.count((True, False)), right.count((False, True))),
    )


def _strict_rows(both: Iterable[tuple[PairItem, PairItem]]) -> Iterator[DifferenceRow]:
    for first, second in both:
        sides = decisive(first.people)
        hits = [sides.count(item.verdict) if item.verdict else 0 for item in (first, second)]
        yield first.cluster, hits[0], hits[1], len(sides)


@dataclass(frozen=True)
class CategoryAgreement:
    """One category of prompts: its items, its labels, and agreement with each label."""

    category: str
    n_items: int
    n_labels: int
    decisive: Estimate
    three_way: Estimate


@dataclass(frozen=True)
class PairReport(JsonDataclass):
    """A judge compared with people. Shares are 0..1, with intervals of confidence ``level``.

    ``states``: items by how the judge's verdict ended
    ``on_all``: correct share of all labels that choose a side, on all items: where the judge has no
        verdict or a tie, half; ``undecided`` is the number of those labels
    ``coverage``: share of items on which it has a verdict
    ``against_all``: agreement with every label
    ``people``: people's agreement among themselves
    ``benchmarks``: "verdict", the accuracy that benchmarks publish
    ``by_length``: share of labels for the longer answer, of those that choose a side
    ``against_length``: the judge's agreement with the labels for the shorter answer, as ``on_all``
    ``flips``: share of items with a verdict in both orders on which the two differ
    ``first_position``: share of calls' decisive outcomes for the response shown first; 0.5 is fair
    ``picks_longer``, ``own_family``: how often judge and people preferred the longer response, or
        the response of the judge's own family, where both decide
    ``repeats``: nominal alpha over runs of the same judge
    ``categories``: by name
    """

    level: float
    n_items: int
    n_labels: int
    states: Mapping[str, int]
    on_all: Estimate
    undecided: int
    coverage: Estimate
    against_all: Agreement
    people: PeopleAgreement
    benchmarks: Mapping[str, Accuracy]
    by_length: Estimate
    against_length: Estimate
    flips: Estimate
    first_position: Estimate
    picks_longer: Preference
    own_family: Preference
    repeats: Alpha
    categories: tuple[CategoryAgreement, ...]


def calibrate_pairs(
    items: Iterable[PairItem], *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> PairReport:
    """Measure a judge on labelled pairs."""
    known = tuple(items)
    sampling = Sampling(level, n_resamples, seed)
    return PairReport(
        level=level,
        n_items=len(known),
        n_labels=count_labels(known),
        states=count_states(known, PAIR_STATES),
        on_all=sampling.share(map(_on_all, known), NO_SIDES),
        undecided=sum(len(decisive(item.people)) for item in known if item.verdict not in SIDES),
        coverage=sampling.share(
            ((item.cluster, float(item.verdict is not None), 1) for item in known), NO_ITEMS
        ),
        against_all=measure_agreement(known, sampling),
        people=measure_people(known, sampling),
        benchmarks={"verdict": measure_accuracy(known, sampling)},
        by_length=sampling.share(
            (decided(item.cluster, item.longer, item.people) for item in known), NO_LENGTHS
        ),
        against_length=sampling.share(map(_against_length, known), NONE_SHORTER),
        flips=count_flips(known, sampling),
        first_position=first_position(known, sampling),
        picks_longer=picks_longer(known, sampling),
        own_family=own_family(known, sampling),
        repeats=self_agreement(known),
        categories=tuple(
            _category(name, inside, sampling) for name, inside in by_category(known).items()
        ),
    )


def _on_all(item: PairItem) -> ShareRow:
    """Labels that choose a side, equal to the verdict; half of them if it chooses none."""
    sides = decisive(item.people)
    hits = sides.count(item.verdict) if item.verdict in SIDES else len(sides) / 2
    return item.cluster, hits, len(sides)


def _category(name: str, items: Sequence[PairItem], sampling: Sampling) -> CategoryAgreement:
    agreement = measure_agreement(items, sampling)
    return CategoryAgreement(
        name, len(items), count_labels(items), agreement.decisive, agreement.three_way
    )
