"""Judges, what they were asked, what people said of the same, and who may be trusted."""

from judges.models.decisions import Baseline, Decision
from judges.models.judgements import Judgement, JuryVerdict, Mark, RunJudge
from judges.models.judges import Epoch, Judge, asker_of
from judges.models.labels import Label, LabelItem, LabelSet
from judges.models.trust import Calibration, Canary, CanaryCheck

__all__ = [
    "Baseline",
    "Calibration",
    "Canary",
    "CanaryCheck",
    "Decision",
    "Epoch",
    "Judge",
    "Judgement",
    "JuryVerdict",
    "Label",
    "LabelItem",
    "LabelSet",
    "Mark",
    "RunJudge",
    "asker_of",
]
