"""Judges and juries, their judgements, human labels, calibrations and decisions."""

from judges.models.judgements import Judgement, JuryVerdict, Mark, RunJudge
from judges.models.judges import (
    Calibration,
    DriftCheck,
    DriftCheckSet,
    Epoch,
    Judge,
    MergedModel,
    requester_of,
)
from judges.models.labels import Baseline, Decision, Label, LabelItem, LabelSet

__all__ = [
    "Baseline",
    "Calibration",
    "Decision",
    "DriftCheck",
    "DriftCheckSet",
    "Epoch",
    "Judge",
    "Judgement",
    "JuryVerdict",
    "Label",
    "LabelItem",
    "LabelSet",
    "Mark",
    "MergedModel",
    "RunJudge",
    "requester_of",
]
