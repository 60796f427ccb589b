"""What the leaderboard of judges and the page of one judge say."""

from collections.abc import Sequence
from dataclasses import dataclass

from judges.core.rubric import Rubric, RubricError, load_rubric
from judges.core.spec import JudgeSpec
from judges.models import Judge
from judges.reports_trust import BoardRow
from judges.services.registering import spec_of
from judges.services.trusting import NEVER_MEASURED, led_astray


@dataclass(frozen=True)
class Row:
    """A row of the leaderboard, with what keeps the judge from being trusted, in sentences."""

    row: BoardRow
    problems: list[str]

    @property
    def is_score(self) -> bool:
        """Is its agreement a correlation of scores, and not a share?"""
        return self.row.calibration is not None and self.row.calibration.kind == "scores"


@dataclass(frozen=True)
class WhatItIs:
    """The files that a judge is made of, and whether they are still those it was registered with;
    `problem` says why there are none."""

    rubric: Rubric | None = None
    spec: JudgeSpec | None = None
    changed: bool = False
    problem: str = ""


def leaderboard_rows(board: Sequence[BoardRow]) -> list[Row]:
    return [Row(row, [] if row.is_trusted else _problems(row)) for row in board]


def _problems(row: BoardRow) -> list[str]:
    """What `trust_problems` says, from what the row holds already: no query for each judge."""
    if row.calibration is None:
        return [NEVER_MEASURED]
    reasons = [] if row.calibration.trusted else list(row.calibration.report["trust"]["reasons"])
    return reasons + (led_astray(row.traps.report) if row.traps else [])


def what_it_is(judge: Judge) -> WhatItIs:
    """Read a judge's rubric as its files are today. A jury has none."""
    if judge.is_jury:
        return WhatItIs()
    try:
        spec = spec_of(judge)
        return WhatItIs(load_rubric(judge.rubric), spec, spec.digest != judge.digest)
    except (RubricError, ValueError) as error:
        return WhatItIs(problem=str(error))
