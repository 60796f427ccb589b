"""Judges and juries, their judgements, human labels, calibrations and decisions."""

from judges.models.judgements import Judgement, JuryVerdict, Mark, RunJudge
from judges.models.judges import (
    Baseline,
    Calibration,
    Decision,
    DriftCheck,
    DriftCheckSet,
    Epoch,
    Judge,
    Label,
    LabelItem,
    LabelSet,
    MergedModel,
    requester_of,
)
