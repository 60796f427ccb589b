"""People's own ceiling: each person left out in turn, beside the judge on the same labels."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from judges.core.calibration.items import PairItem, Sampling, ScoreItem
from ranking.stats.annotators import AnnotatorTest, annotator_test
from ranking.stats.bootstrap import Estimate

NO_OTHERS = "No item has labels of two people."
Row = tuple[str, str, float, float]  # cluster, person, closeness of the judge and of the person


@dataclass(frozen=True)
class LeaveOneOut:
    """The judge in the place of each person, on all items that this person and others labelled.

    ``people``: how well a person who is left out agrees with the others; ``judge``: how well the
        judge does with the same others; ``difference``: the judge's minus people's. For pairs, the
        share of equal labels of left, right and tie, where no verdict agrees with nobody; for
        scores, Pearson with the others' mean
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
