"""Judges and juries, their judgements, human labels, calibrations and decisions."""

from judges.models.calibrations import Calibration, DriftCheck, DriftCheckSet
from judges.models.decisions import Baseline, Decision
from judges.models.experiments import Experiment
from judges.models.judgements import Judgement, JuryVerdict, Mark, RunJudge
from judges.models.judges import Epoch, Judge, MergedModel, requester_of
from judges.models.labels import Label, LabelItem, LabelSet
from judges.models.rubrics import RubricVersion, TeamRubric
from judges.models.trials import RubricTrial
