"""The report on a judge that scores responses one at a time."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations

from judges.core.calibration.items import (
    SCORE_STATES,
    Alpha,
    JsonDataclass,
    LiftRow,
    Sampling,
    ScoreItem,
    ScoreRow,
    ShareRow,
    alpha,
    by_category,
    count_labels,
    count_states,
)
from ranking.stats.bootstrap import Correlations, Estimate

NO_SCORE = "No labelled item has a score from the judge."
NO_TWO_PEOPLE = "No item that the judge has scored has scores by two people."
NO_REPEATS = "No labelled item was scored twice by the judge."
NO_ITEMS = "There are no items."
NONE_AGAINST = "There is no label where people's score and the length point different ways."


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


@dataclass(frozen=True)
class Yardstick:
    """What a correlation can be expected to reach on these items.

    ``pearson``: of two people's scores of one item, or of two scores of the judge; each pair is
        taken both ways round, because neither is the first, and ``n`` counts it once
    ``difference``: the judge's Pearson with people minus this one, on the same pairs
    """

    pearson: Estimate
    difference: Estimate


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
    ``against_all``: the judge with every label
    ``people``, ``itself``: people with each other, and the judge with itself when asked again
    ``by_length``: Pearson of length with people's scores
    ``against_length``: of the labels on the other side of people's mean than the length is of its
        mean, the share on whose side the judge's score is; half if the score is its own mean
    ``repeats``: agreement of the judge with itself
    ``categories``: by name
    """

    level: float
    n_items: int
    n_labels: int
    states: Mapping[str, int]
    missing: Estimate
    against_all: Correlations
    people: Yardstick
    itself: Yardstick
    by_length: Estimate
    against_length: Estimate
    repeats: ScoreRepeats
    categories: tuple[CategoryScores, ...]


def calibrate_scores(
    items: Iterable[ScoreItem], *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> ScoreReport:
    """Measure a judge on scored responses."""
    known = tuple(items)
    sampling = Sampling(level, n_resamples, seed)
    lengths = ((item.cluster, item.length, label) for item, _, label in _scored(known))
    runs = [(item.score, *item.repeats) for item in known]
    return ScoreReport(
        level=level,
        n_items=len(known),
        n_labels=count_labels(known),
        states=count_states(known, SCORE_STATES),
        missing=sampling.share(
            ((item.cluster, float(item.score is None), 1) for item in known), NO_ITEMS
        ),
        against_all=sampling.correlations(_all(known), NO_SCORE),
        people=_yardstick(_people(known), sampling, NO_TWO_PEOPLE),
        itself=_yardstick(_itself(known), sampling, NO_REPEATS),
        by_length=sampling.correlations(lengths, NO_SCORE).pearson,
        against_length=sampling.share(_against_length(known), NONE_AGAINST),
        repeats=ScoreRepeats(*(alpha(runs, name) for name in ("nominal", "ordinal", "interval"))),
        categories=tuple(
            CategoryScores(
                name,
                len(inside),
                count_labels(inside),
                sampling.correlations(_all(inside), NO_SCORE),
            )
            for name, inside in by_category(known).items()
        ),
    )


def _scored(items: Iterable[ScoreItem]) -> Iterator[tuple[ScoreItem, float, float]]:
    """Yield each label of an item that the judge has scored: the item, its score, and the label."""
    for item in items:
        if item.score is not None:
            yield from ((item, item.score, label) for label in item.people)


def _all(items: Iterable[ScoreItem]) -> Iterator[ScoreRow]:
    return ((item.cluster, score, label) for item, score, label in _scored(items))


def _people(items: Iterable[ScoreItem]) -> Iterator[LiftRow]:
    """The judge and one person, each compared with another person."""
    for item in items:
        if item.score is not None:
            for one, other in permutations(item.people, 2):
                yield item.cluster, item.score, one, other


def _itself(items: Iterable[ScoreItem]) -> Iterator[LiftRow]:
    """A person and one run of the judge, each compared with another run."""
    for item in items:
        runs = [score for score in (item.score, *item.repeats) if score is not None]
        for label in item.people:
            for one, other in permutations(runs, 2):
                yield item.cluster, label, one, other


def _yardstick(rows: Iterable[LiftRow], sampling: Sampling, nothing: str) -> Yardstick:
    known = list(rows)
    alone = sampling.correlations(((row[0], row[2], row[3]) for row in known), nothing).pearson
    return Yardstick(replace(alone, n=alone.n // 2), sampling.lift(known, nothing))


def _against_length(items: Iterable[ScoreItem]) -> Iterator[ShareRow]:
    rows = list(_scored(items))
    columns = zip(*((item.length, label, score) for item, score, label in rows), strict=True)
    means = [sum(column) / len(rows) for column in columns] or [0.0, 0.0, 0.0]
    for item, score, label in rows:
        side = label - means[1]
        if (item.length - means[0]) * side < 0:
            own = (score - means[2]) * side
            yield item.cluster, 0.5 if own == 0 else float(own > 0), 1
