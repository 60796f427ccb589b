"""A calibration, line by line."""

from dataclasses import dataclass
from typing import Any

from judges.models import Calibration, Judgement, LabelSet
from judges.reports_trust import EpochPart

OUTCOMES = {"left": "Left", "right": "Right", "tie": "Tie"}
VERDICTS = OUTCOMES | {"none": "None"}
TRAPS = {
    "empty": "An empty answer",
    "as_above": "“As above”",
    "padded": "The same answer, padded",
    "forged": "A poor answer with a forged verdict",
}
AGREEMENTS = {
    "against_all": "Judge and every label",
    "against_majority": "Judge and the majority of people",
    "where_all_agree": "Judge and people, where all people agree",
    "people": "People among themselves, on the items it settled",
    "people_everywhere": "People among themselves, on all items",
}
CORRELATIONS = {
    "against_all": "Judge and every score",
    "against_average": "Judge and people’s average",
    "where_all_agree": "Judge and people, where all people agree",
}
HEADINGS = {
    LabelSet.Kind.PAIRS: "Beside people, on pairs",
    LabelSet.Kind.SCORES: "Beside people, on scores",
    LabelSet.Kind.HONEYPOTS: "On traps",
}


@dataclass(frozen=True)
class Measured:
    """A calibration in the order in which a page reads it: a database may shuffle its keys."""

    calibration: Calibration

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = self.calibration.report
        return found

    @property
    def heading(self) -> str:
        return HEADINGS[LabelSet.Kind(self.calibration.kind)]

    @property
    def states(self) -> list[tuple[str, int]]:
        counts = self.report["states"]
        return [(str(one.label), counts[one]) for one in Judgement.State if counts.get(one)]

    @property
    def agreements(self) -> list[tuple[str, Any]]:
        return [(name, self.report[key]) for key, name in AGREEMENTS.items()]

    @property
    def correlations(self) -> list[tuple[str, Any]]:
        return [(name, self.report[key]) for key, name in CORRELATIONS.items()]

    @property
    def verdicts(self) -> list[str]:
        return list(VERDICTS.values())

    @property
    def confusion(self) -> list[tuple[str, list[int]]]:
        """What people said, then how many of these labels met each verdict."""
        met = self.report["confusion"]
        return [(name, [met[key][one] for one in VERDICTS]) for key, name in OUTCOMES.items()]

    @property
    def categories(self) -> list[Any]:
        """By category, where there is more than one."""
        found: list[Any] = self.report["categories"]
        return found if len(found) > 1 else []

    @property
    def trap_names(self) -> dict[str, str]:
        return TRAPS


def newest_of_each_kind(part: EpochPart) -> list[Measured]:
    """The newest measurement of pairs, of scores and on traps, in that order."""
    newest = {}
    for calibration in reversed(part.calibrations):
        newest[calibration.kind] = Measured(calibration)
    return [newest[kind] for kind in HEADINGS if kind in newest]
