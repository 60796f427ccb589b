"""Read-only admin pages for judges, their judgements, labels, calibrations and decisions."""

from django.contrib import admin

from arena.admin.base import ReadOnly
from judges.models import (
    Baseline,
    Calibration,
    Decision,
    DriftCheck,
    DriftCheckSet,
    Epoch,
    Judge,
    Judgement,
    JuryVerdict,
    Label,
    LabelItem,
    LabelSet,
    Mark,
    MergedModel,
    RunJudge,
)


@admin.register(Judge)
class JudgeAdmin(ReadOnly):
    list_display = ["name", "endpoint", "model", "family", "rubric", "registered_at"]
    list_filter = ["protocol", "endpoint", "family", "rubric"]
    search_fields = ["name", "model", "digest"]


@admin.register(MergedModel)
class MergedModelAdmin(ReadOnly):
    list_display = ["name", "family", "merged_at"]
    search_fields = ["name", "family"]


@admin.register(Epoch)
class EpochAdmin(ReadOnly):
    list_display = ["judge", "number", "model_returned", "started_at", "ended_at", "reason"]
    list_select_related = ["judge"]
    search_fields = ["judge__name", "reason"]


@admin.register(RunJudge)
class RunJudgeAdmin(ReadOnly):
    list_display = ["run", "epoch", "own_family"]
    list_select_related = ["run", "epoch__judge"]
    search_fields = ["epoch__judge__name"]


@admin.register(Judgement)
class JudgementAdmin(ReadOnly):
    list_display = ["epoch", "run", "responses", "sample", "state", "flagged", "settled_at"]
    list_filter = ["state", "flagged"]
    list_select_related = ["epoch__judge", "run"]
    search_fields = ["responses"]
    raw_id_fields = ["comparison", "item", "forward", "reverse", "run"]


@admin.register(JuryVerdict)
class JuryVerdictAdmin(ReadOnly):
    list_display = ["epoch", "run", "responses", "state", "settled_at"]
    list_filter = ["state"]
    list_select_related = ["epoch__judge", "run"]
    search_fields = ["responses"]
    raw_id_fields = ["comparison", "judgements"]


@admin.register(Mark)
class MarkAdmin(ReadOnly):
    list_display = ["judgement", "user", "kind", "holds", "made_at"]
    list_filter = ["kind", "holds"]
    list_select_related = ["judgement", "user"]
    search_fields = ["user__username"]


@admin.register(LabelSet)
class LabelSetAdmin(ReadOnly):
    list_display = ["name", "kind", "created_at"]
    list_filter = ["kind"]
    search_fields = ["name", "digest"]


@admin.register(LabelItem)
class LabelItemAdmin(ReadOnly):
    list_display = ["key", "labels_in", "category", "trap"]
    list_filter = ["trap"]
    list_select_related = ["labels_in"]
    search_fields = ["key", "category"]


@admin.register(Label)
class LabelAdmin(ReadOnly):
    list_display = ["item", "rater", "outcome", "score"]
    list_filter = ["outcome"]
    list_select_related = ["item"]
    search_fields = ["rater"]
    raw_id_fields = ["item"]


@admin.register(Calibration)
class CalibrationAdmin(ReadOnly):
    list_display = ["epoch", "kind", "label_set", "arena", "trusted", "made_at"]
    list_filter = ["kind", "trusted"]
    list_select_related = ["epoch__judge", "label_set", "arena"]
    search_fields = ["epoch__judge__name"]


@admin.register(DriftCheckSet)
class DriftCheckSetAdmin(ReadOnly):
    list_display = ["judge", "label_set", "cap", "set_at", "stopped_at"]
    list_select_related = ["judge", "label_set"]
    search_fields = ["judge__name"]


@admin.register(DriftCheck)
class DriftCheckAdmin(ReadOnly):
    list_display = ["canary", "why", "n", "changed", "p", "alarm", "begun_at", "evaluated_at"]
    list_filter = ["why", "alarm"]
    list_select_related = ["canary"]
    search_fields = ["canary__judge__name"]


@admin.register(Baseline)
class BaselineAdmin(ReadOnly):
    list_display = ["team", "arena", "candidate", "chosen_by", "chosen_at"]
    list_select_related = ["team", "arena", "candidate", "chosen_by"]
    search_fields = ["team__name", "arena__name"]


@admin.register(Decision)
class DecisionAdmin(ReadOnly):
    list_display = ["sentence", "team", "lead", "known_at"]
    list_filter = ["lead"]
    list_select_related = ["team"]
    search_fields = ["sentence", "team__name"]
