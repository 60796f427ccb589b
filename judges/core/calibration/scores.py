"""The report on a judge that scores responses one at a time."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from judges.core.calibration.items import (
    SCORE_STATES,
    Alpha,
    JsonDataclass,
    LiftRow,
    PairItem,
    Sampling,
    ScoreItem,
    ScoreRow,
    alpha,
    by_category,
    check_keys,
    count_labels,
    count_states,
)
from ranking.stats.agreement import AnnotatorTest, annotator_test
from ranking.stats.bootstrap import Correlations, Estimate

NO_OTHERS = "No item has labels by two people."
Row = tuple[str, str, float, float]  # cluster, person, closeness of the judge and of the person


@dataclass(frozen=True)
class LeaveOneOut:
    """The judge in place of each person, on all items that this person and others labelled.

    ``people``: how well a person who is left out agrees with the others; ``judge``: how well the
        judge does with the same others; ``difference``: the judge's minus people's. For pairs, the
        share of equal labels of left, right and tie, where a missing verdict agrees with nobody;
        for scores, Pearson with the others' mean
    ``annotators``: the alternative annotator test
    """

    people: Estimate
    judge: Estimate
    difference: Estimate
    annotators: AnnotatorTest


def leave_one_out_of_pairs(items: Sequence[PairItem], sampling: Sampling) -> LeaveOneOut:
    rows = list(_rows_of_pairs(items))
    return LeaveOneOut(
        sampling.share(((cluster, own, 1) for cluster, _, _, own in rows), NO_OTHERS),
        sampling.share(((cluster, judge, 1) for cluster, _, judge, _ in rows), NO_OTHERS),
        sampling.difference(
            ((cluster, judge, own, 1) for cluster, _, judge, own in rows), NO_OTHERS
        ),
        _test(rows),
    )


def _rows_of_pairs(items: Sequence[PairItem]) -> Iterator[Row]:
    for item in items:
        people = item.people
        for place, (person, _) in enumerate(item.labels):
            others = people[:place] + people[place + 1 :]
            if others:
                judge = others.count(item.verdict) if item.verdict else 0
                own = others.count(people[place])
                yield item.cluster, person, judge / len(others), own / len(others)


def leave_one_out_of_scores(items: Sequence[ScoreItem], sampling: Sampling) -> LeaveOneOut:
    rows, close = [], []
    for item in items:
        people = item.people
        if item.score is None or len(people) < 2:
            continue
        for place, (person, score) in enumerate(item.labels):
            others = people[:place] + people[place + 1 :]
            rows.append((item.cluster, item.score, score, sum(others) / len(others)))
            close.append((item.cluster, person, _near(item.score, others), _near(score, others)))
    return LeaveOneOut(
        sampling.correlations(((row[0], row[2], row[3]) for row in rows), NO_OTHERS).pearson,
        sampling.correlations(((row[0], row[1], row[3]) for row in rows), NO_OTHERS).pearson,
        sampling.lift(rows, NO_OTHERS),
        _test(close),
    )


def _near(score: float, others: Sequence[float]) -> float:
    """The negative root mean square distance from the others' scores."""
    squares = [(score - other) ** 2 for other in others]
    return -math.sqrt(sum(squares) / len(squares))


def _test(rows: Sequence[Row]) -> AnnotatorTest:
    codes: dict[str, int] = {}
    people = [codes.setdefault(person, len(codes)) for _, person, _, _ in rows]
    return annotator_test(people, [row[2] for row in rows], [row[3] for row in rows])


def rescale(
    items: Iterable[ScoreItem], own: tuple[float, float], people: tuple[float, float]
) -> list[ScoreItem]:
    """Convert the judge's scores from its own scale to people's: (low, high) to (low, high)."""
    slope = (people[1] - people[0]) / (own[1] - own[0])

    def convert(score: float | None) -> float | None:
        return None if score is None else people[0] + (score - own[0]) * slope

    return [
        replace(item, score=convert(item.score), repeats=tuple(map(convert, item.repeats)))
        for item in items
    ]


NO_SCORE = "No labelled item has a score from the judge."
NO_TWO_PEOPLE = "No item that the judge has scored has scores by two people."
NO_COMMON = "No item that the judge has scored has two people who all gave the same score."
NO_ITEMS = "There are no items."


@dataclass(frozen=True)
class PeopleScores:
    """People's agreement with one another, on the items that the judge has scored.

    ``pearson``: over all pairs of scores of two people on one item, each pair taken both ways
        round, because neither of the two is the first; ``n`` counts the pairs once
    ``mean_absolute_difference``: of those pairs; None without any
    ``alpha``: Krippendorff's, interval
    """

    pearson: Estimate
    mean_absolute_difference: float | None
    alpha: Alpha


@dataclass(frozen=True)
class LengthBaseline:
    """Length as a score: its Pearson with people's scores, and the judge's lift over it.

    The lift is on the same labels; if all lengths are equal, their Pearson counts as 0.
    """

    pearson: Estimate
    lift: Estimate


@dataclass(frozen=True)
class ScoreRepeats:
    """Krippendorff's alpha over runs of the same judge, by three measures of difference."""

    nominal: Alpha
    ordinal: Alpha
    interval: Alpha


@dataclass(frozen=True)
class CategoryScores:
    """One category of prompts: its items, its labels, and the judge against each label."""

    category: str
    n_items: int
    n_labels: int
    against_all: Correlations


@dataclass(frozen=True)
class ScoreReport(JsonDataclass):
    """A judge's scores compared with people's, with intervals of confidence ``level``.

    ``states``: items by how the judge's scoring ended
    ``missing``: share of the items without a score
    ``people``: people's agreement with one another, by which a judge is measured
    ``left_out``: people's ceiling: each person left out in turn, beside the judge
    ``against_all``: every label counts; ``against_average``: each item's mean;
        ``where_all_agree``: items of at least two labels that are all the same. The last flatters
        a judge, because such items are easy: read all three
    ``length``: what length alone reaches
    ``repeats``: agreement of the judge with itself
    ``categories``: by name
    """

    level: float
    n_items: int
    n_labels: int
    states: Mapping[str, int]
    missing: Estimate
    people: PeopleScores
    left_out: LeaveOneOut
    against_all: Correlations
    against_average: Correlations
    where_all_agree: Correlations
    length: LengthBaseline
    repeats: ScoreRepeats
    categories: tuple[CategoryScores, ...]


def calibrate_scores(
    items: Iterable[ScoreItem], *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> ScoreReport:
    """Measure a judge on scored responses. Raises ValueError if two items share a key."""
    known = tuple(items)
    check_keys(item.key for item in known)
    sampling = Sampling(level, n_resamples, seed)
    return ScoreReport(
        level=level,
        n_items=len(known),
        n_labels=count_labels(known),
        states=count_states(known, SCORE_STATES),
        missing=sampling.share(
            ((item.cluster, float(item.score is None), 1) for item in known), NO_ITEMS
        ),
        people=_people(known, sampling),
        left_out=leave_one_out_of_scores(known, sampling),
        against_all=sampling.correlations(_all(known), NO_SCORE),
        against_average=sampling.correlations(_average(known), NO_SCORE),
        where_all_agree=sampling.correlations(_agreed(known), NO_COMMON),
        length=_length(known, sampling),
        repeats=_repeats(known),
        categories=tuple(
            _category(name, inside, sampling) for name, inside in by_category(known).items()
        ),
    )


def _all(items: Iterable[ScoreItem]) -> Iterator[ScoreRow]:
    for item in items:
        if item.score is not None:
            yield from ((item.cluster, item.score, score) for score in item.people)


def _average(items: Iterable[ScoreItem]) -> Iterator[ScoreRow]:
    for item in items:
        if item.score is not None and item.labels:
            yield item.cluster, item.score, sum(item.people) / len(item.people)


def _agreed(items: Iterable[ScoreItem]) -> Iterator[ScoreRow]:
    for item in items:
        if item.score is not None and len(item.people) > 1 and len(set(item.people)) == 1:
            yield item.cluster, item.score, item.people[0]


def _people(items: Sequence[ScoreItem], sampling: Sampling) -> PeopleScores:
    scored = [item for item in items if item.score is not None]
    both_ways = (
        (item.cluster, first, second)
        for item in scored
        for first, second in permutations(item.people, 2)
    )
    correlations = sampling.correlations(both_ways, NO_TWO_PEOPLE)
    pearson = replace(correlations.pearson, n=correlations.n // 2)
    runs = [item.people for item in scored]
    return PeopleScores(pearson, correlations.mean_absolute_error, alpha(runs, "interval"))


def _length(items: Sequence[ScoreItem], sampling: Sampling) -> LengthBaseline:
    rows = list(_lengths(items))
    alone = ((cluster, length, score) for cluster, _, length, score in rows)
    return LengthBaseline(
        sampling.correlations(alone, NO_SCORE).pearson, sampling.lift(rows, NO_SCORE)
    )


def _lengths(items: Iterable[ScoreItem]) -> Iterator[LiftRow]:
    for item in items:
        if item.score is not None:
            yield from ((item.cluster, item.score, item.length, score) for score in item.people)


def _repeats(items: Sequence[ScoreItem]) -> ScoreRepeats:
    runs = [(item.score, *item.repeats) for item in items]
    return ScoreRepeats(*(alpha(runs, level) for level in ("nominal", "ordinal", "interval")))


def _category(name: str, items: Sequence[ScoreItem], sampling: Sampling) -> CategoryScores:
    correlations = sampling.correlations(_all(items), NO_SCORE)
    return CategoryScores(name, len(items), count_labels(items), correlations)
