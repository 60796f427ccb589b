"""The admin shows judges and what they said; nothing here is edited by hand."""

from django.contrib import admin

from arena.admin import ReadOnly
from judges.models import Judge, Judgement, RunJudge


@admin.register(Judge)
class JudgeAdmin(ReadOnly):
    list_display = ["name", "endpoint", "model", "family", "rubric", "registered_at"]
    list_filter = ["endpoint", "family", "rubric"]
    search_fields = ["name", "model", "digest"]


@admin.register(RunJudge)
class RunJudgeAdmin(ReadOnly):
    list_display = ["run", "judge"]
    list_select_related = ["run", "judge"]


@admin.register(Judgement)
class JudgementAdmin(ReadOnly):
    list_display = ["judge", "run", "responses", "state", "settled_at"]
    list_filter = ["state", "judge"]
    list_select_related = ["judge", "run"]
    search_fields = ["responses"]
    raw_id_fields = ["comparison", "forward", "reverse", "run"]
