"""The report on a judge of pairs: its agreement with people, compared with length alone."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from judges.core.calibration.items import (
    OUTCOMES,
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
    check_keys,
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
from judges.core.calibration.scores import LeaveOneOut, leave_one_out_of_pairs
from ranking.stats.agreement import mcnemar
from ranking.stats.bootstrap import Estimate

NONE_DECIDED = "There is no label where both the judge and a person choose a side."
NO_VERDICT = "No labelled item has a verdict from the judge."
NO_TWO_PEOPLE = "No item that counts here has labels by two people."
NO_TWO_SIDES = "No item that counts here has two people who choose a side."
NO_SIDES = "There is no label that chooses a side."
NO_ITEMS = "There are no items."
NO_LENGTHS = "There is no label where a person chooses a side and the lengths differ."
NO_LABELS = "There are no labels."
NO_LIFT = "There is no label where the judge and a person choose a side and the lengths differ."
NO_COMMON_DECISION = "There is no label where both judges and a person choose a side."
NO_COMMON_VERDICT = "No labelled item has a verdict from both judges."
Both = Sequence[tuple[PairItem, PairItem]]


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
class LengthHeuristic:
    """ "The longer answer wins", on all labels whatever the judge did; equal lengths predict a tie.

    ``lift_decisive``: the judge's agreement minus the baseline's, on labels where the judge, the
    person and the lengths all choose a side; ``lift_three_way``: where the judge has a verdict;
    ``lift_on_all``: on all labels that choose a side, where a tie or no verdict counts half
    """

    decisive: Estimate
    three_way: Estimate
    lift_decisive: Estimate
    lift_three_way: Estimate
    lift_on_all: Estimate


def measure_agreement(
    items: Sequence[PairItem], references: Sequence[Sequence[str]], sampling: Sampling
) -> Agreement:
    """Measure the agreement of verdicts with references: some labels for each item."""
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
    """Labels equal to the verdict among those that choose a side, if the verdict does."""
    sides = decisive(labels) if decisive([verdict]) else []
    return cluster, sides.count(verdict), len(sides)


def settled(cluster: str, verdict: str, labels: Sequence[str]) -> ShareRow:
    """Labels equal to the verdict among all."""
    return cluster, labels.count(verdict), len(labels)


def measure_people(
    items: Sequence[PairItem], sampling: Sampling, *, settled_only: bool
) -> PeopleAgreement:
    """Measure people's agreement; with ``settled_only``, on the items that the judge settled."""
    counted = [item for item in items if item.verdict or not settled_only]
    sided = [item for item in counted if decisive([item.verdict]) or not settled_only]
    return PeopleAgreement(
        sampling.share(
            (_pairs(item.cluster, decisive(item.people)) for item in sided), NO_TWO_SIDES
        ),
        sampling.share((_pairs(item.cluster, item.people) for item in counted), NO_TWO_PEOPLE),
    )


def _pairs(cluster: str, labels: Sequence[str]) -> ShareRow:
    """Count equal pairs of labels, and all pairs."""
    same = sum(times * (times - 1) // 2 for times in Counter(labels).values())
    return cluster, same, len(labels) * (len(labels) - 1) // 2


def measure_length_heuristic(items: Sequence[PairItem], sampling: Sampling) -> LengthHeuristic:
    """Measure "the longer answer wins", and the judge's lift over it on the same labels."""
    by_length = [(item.cluster, item.longer, item.people) for item in items]
    return LengthHeuristic(
        sampling.share((decided(*row) for row in by_length), NO_LENGTHS),
        sampling.share((settled(*row) for row in by_length), NO_LABELS),
        sampling.difference(_decisive_lift(items), NO_LIFT),
        sampling.difference(_three_way_lift(items), NO_VERDICT),
        sampling.difference(_lift_on_all(items), NO_SIDES),
    )


def _decisive_lift(items: Iterable[PairItem]) -> Iterator[DifferenceRow]:
    for item in items:
        sides = decisive(item.people)
        if len(decisive([item.verdict, item.longer])) == 2:
            yield item.cluster, sides.count(str(item.verdict)), sides.count(item.longer), len(sides)


def _lift_on_all(items: Iterable[PairItem]) -> Iterator[DifferenceRow]:
    for item in items:
        sides = decisive(item.people)
        judge, longer = (
            sides.count(verdict) if verdict in SIDES else len(sides) / 2
            for verdict in (item.verdict, item.longer)
        )
        yield item.cluster, judge, longer, len(sides)


def _three_way_lift(items: Iterable[PairItem]) -> Iterator[DifferenceRow]:
    for item in items:
        if item.verdict:
            people = item.people
            yield item.cluster, people.count(item.verdict), people.count(item.longer), len(people)


@dataclass(frozen=True)
class Accuracy:
    """Share of labels matched, over all items; a missing or different verdict is wrong.

    ``with_ties``: of left, right and tie; ``without_ties``: of the labels that choose a side
    """

    with_ties: Estimate
    without_ties: Estimate


@dataclass(frozen=True)
class BenchmarkFigures:
    """The judge as published benchmarks would report it.

    ``single``: the readings in each order, averaged
    ``both``: an item counts as right only if both orders are
    ``verdict``: by the judge's settled verdict
    """

    single: Accuracy
    both: Accuracy
    verdict: Accuracy


def measure_benchmarks(items: Sequence[PairItem], sampling: Sampling) -> BenchmarkFigures:
    """Measure the figures of benchmarks. For a judge that is asked once, that is the only
    reading.
    """
    return BenchmarkFigures(
        _accuracy(items, _single_hit, sampling),
        _accuracy(items, _hit_in_both, sampling),
        _accuracy(items, lambda item, label: float(item.verdict == label), sampling),
    )


def _accuracy(
    items: Sequence[PairItem], hit: Callable[[PairItem, str], float], sampling: Sampling
) -> Accuracy:
    def rows(counted: Callable[[Sequence[str]], Sequence[str]]) -> Iterator[ShareRow]:
        for item in items:
            labels = counted(item.people)
            yield item.cluster, sum(hit(item, label) for label in labels), len(labels)

    return Accuracy(
        sampling.share(rows(tuple), NO_LABELS), sampling.share(rows(decisive), NO_SIDES)
    )


def _single_hit(item: PairItem, label: str) -> float:
    readings = _readings(item)
    return sum(reading == label for reading in readings) / len(readings)


def _hit_in_both(item: PairItem, label: str) -> float:
    return float(all(reading == label for reading in _readings(item)))


def _readings(item: PairItem) -> tuple[str | None, ...]:
    asked_twice = item.forward or item.reverse or not item.verdict
    return (item.forward, item.reverse) if asked_twice else (item.verdict,)


def confusion_matrix(items: Sequence[PairItem]) -> dict[str, dict[str, int]]:
    """Count labels by outcome and by the judge's verdict; "none" if it has no verdict."""
    counts = Counter((label, item.verdict or "none") for item in items for label in item.people)
    return {
        label: {verdict: counts[label, verdict] for verdict in (*OUTCOMES, "none")}
        for label in OUTCOMES
    }


@dataclass(frozen=True)
class PairedDifference(JsonDataclass):
    """The first set of verdicts minus the second.

    ``n_items``: in both sets; ``left_out``: in one of them only
    ``decisive``: difference of agreement on the labels where both verdicts and the label choose a
        side; ``three_way``: where both have a verdict; ``strict``: on all labels that choose a
        side, where a tie or no verdict is wrong: ``strict_first`` minus ``strict_second``. With
        scores first and pairs second, these are Direct2Pair, Pair2Pair and their difference
        (Kim et al. 2024, Prometheus 2, table 13)
    ``p``: McNemar's, of the items on which both verdicts and the majority of the labels choose a
        side, and only one verdict agrees with that majority; it treats items as independent, unlike
        the intervals
    """

    n_items: int
    left_out: int
    decisive: Estimate
    three_way: Estimate
    strict: Estimate
    strict_first: Estimate
    strict_second: Estimate
    p: float


def paired_difference(
    first: Iterable[PairItem],
    second: Iterable[PairItem],
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> PairedDifference:
    """Compare two sets of verdicts on the items with the same keys.

    Raises ValueError if a set has a key twice, or if an item's labels or prompt differ.
    """
    first_items, second_items = tuple(first), tuple(second)
    both = _matched(first_items, second_items)
    sampling = Sampling(level, n_resamples, seed)
    right = [_agree_with_majority(*pair) for pair in both]
    strict = list(_strict_rows(both))
    return PairedDifference(
        n_items=len(both),
        left_out=len(first_items) + len(second_items) - 2 * len(both),
        decisive=sampling.difference(_decisive_rows(both), NO_COMMON_DECISION),
        three_way=sampling.difference(_three_way_rows(both), NO_COMMON_VERDICT),
        strict=sampling.difference(strict, NO_SIDES),
        strict_first=sampling.share(((row[0], row[1], row[3]) for row in strict), NO_SIDES),
        strict_second=sampling.share(((row[0], row[2], row[3]) for row in strict), NO_SIDES),
        p=mcnemar(right.count((True, False)), right.count((False, True))),
    )


def _matched(first: Sequence[PairItem], second: Sequence[PairItem]) -> Both:
    check_keys(item.key for item in first)
    check_keys(item.key for item in second)
    known = {item.key: item for item in second}
    both = [(item, known[item.key]) for item in first if item.key in known]
    for before, after in both:
        if (sorted(before.labels), before.cluster) != (sorted(after.labels), after.cluster):
            raise ValueError(
                f"Item {before.key}: its labels or its prompt differ between the sets."
            )
    return both


def _agree_with_majority(first: PairItem, second: PairItem) -> tuple[bool, bool] | None:
    """Does each verdict agree with the majority? None unless all three choose a side."""
    sides = decisive([first.verdict, second.verdict, *majority(first.people)])
    return (sides[0] == sides[2], sides[1] == sides[2]) if len(sides) == 3 else None


def _decisive_rows(both: Both) -> Iterable[DifferenceRow]:
    for first, second in both:
        if len(sides := decisive([first.verdict, second.verdict])) == 2:
            cluster, hits, n = decided(first.cluster, sides[0], first.people)
            yield cluster, hits, decided(cluster, sides[1], first.people)[1], n


def _strict_rows(both: Both) -> Iterable[DifferenceRow]:
    for first, second in both:
        sides = decisive(first.people)
        hits = [sides.count(item.verdict) if item.verdict else 0 for item in (first, second)]
        yield first.cluster, hits[0], hits[1], len(sides)


def _three_way_rows(both: Both) -> Iterable[DifferenceRow]:
    for first, second in both:
        if first.verdict and second.verdict:
            cluster, hits, n = settled(first.cluster, first.verdict, first.people)
            yield cluster, hits, settled(cluster, second.verdict, first.people)[1], n


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
        verdict or a tie, half; ``coverage``: share of items on which it has a verdict
    ``against_all``: every label counts; ``against_majority``: one label per item, the outcome that
        more people chose than any other (items where none leads alone are left out);
        ``where_all_agree``: items of at least two labels that are all the same. The last flatters
        a judge, because such items are easy: read all three
    ``people``: people's agreement among themselves on the items that the judge settled;
        ``people_everywhere``: on all items, including those it left out
    ``left_out``: people's ceiling: each person left out in turn, beside the judge
    ``benchmarks``: the figures as published benchmarks define them
    ``longer``: what "the longer answer wins" reaches, and how far the judge is above it
    ``confusion``: labels by people's outcome, then by the judge's; "none" is no verdict
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
    coverage: Estimate
    against_all: Agreement
    against_majority: Agreement
    where_all_agree: Agreement
    people: PeopleAgreement
    people_everywhere: PeopleAgreement
    left_out: LeaveOneOut
    benchmarks: BenchmarkFigures
    longer: LengthHeuristic
    confusion: Mapping[str, Mapping[str, int]]
    flips: Estimate
    first_position: Estimate
    picks_longer: Preference
    own_family: Preference
    repeats: Alpha
    categories: tuple[CategoryAgreement, ...]


def calibrate_pairs(
    items: Iterable[PairItem], *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> PairReport:
    """Measure a judge on labelled pairs. Raises ValueError if two items share a key."""
    known = tuple(items)
    check_keys(item.key for item in known)
    sampling = Sampling(level, n_resamples, seed)
    return PairReport(
        level=level,
        n_items=len(known),
        n_labels=count_labels(known),
        states=count_states(known, PAIR_STATES),
        on_all=sampling.share(map(_on_all, known), NO_SIDES),
        coverage=sampling.share(
            ((item.cluster, float(item.verdict is not None), 1) for item in known), NO_ITEMS
        ),
        against_all=measure_agreement(known, [item.people for item in known], sampling),
        against_majority=measure_agreement(
            known, [majority(item.people) for item in known], sampling
        ),
        where_all_agree=measure_agreement(
            known, [_common(item.people) for item in known], sampling
        ),
        people=measure_people(known, sampling, settled_only=True),
        people_everywhere=measure_people(known, sampling, settled_only=False),
        left_out=leave_one_out_of_pairs(known, sampling),
        benchmarks=measure_benchmarks(known, sampling),
        longer=measure_length_heuristic(known, sampling),
        confusion=confusion_matrix(known),
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


def _common(outcomes: Sequence[str]) -> tuple[str, ...]:
    """The outcome that all of at least two people chose."""
    return (outcomes[0],) if len(outcomes) > 1 and len(set(outcomes)) == 1 else ()


def _category(name: str, items: Sequence[PairItem], sampling: Sampling) -> CategoryAgreement:
    agreement = measure_agreement(items, [item.people for item in items], sampling)
    return CategoryAgreement(
        name, len(items), count_labels(items), agreement.decisive, agreement.three_way
    )
