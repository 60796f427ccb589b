"""How far a judge agrees with people, and whether it is trusted. Pure: labels in, a report out.

Every share says what it counted, comes with an interval that takes the items of one prompt as
dependent, and is None with the reason where it cannot be told. A judge's missing verdict is a
state of its own and enters no agreement.
"""

from judges.core.calibration.canary import Canary, Drift, canary_alarm, verdict_drift
from judges.core.calibration.comparing import PairedDifference, paired_difference
from judges.core.calibration.items import PAIR_STATES, SCORE_STATES, PairItem, ScoreItem
from judges.core.calibration.pairs import PairReport, calibrate_pairs
from judges.core.calibration.scores import ScoreReport, calibrate_scores
from judges.core.calibration.trust import Trust, is_trusted

__all__ = [
    "PAIR_STATES",
    "SCORE_STATES",
    "Canary",
    "Drift",
    "PairItem",
    "PairReport",
    "PairedDifference",
    "ScoreItem",
    "ScoreReport",
    "Trust",
    "calibrate_pairs",
    "calibrate_scores",
    "canary_alarm",
    "is_trusted",
    "paired_difference",
    "verdict_drift",
]
