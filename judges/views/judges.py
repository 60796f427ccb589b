"""The leaderboard of judges, and the page of one judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.template.defaultfilters import floatformat
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.actors import Actor, TeamPermission, actor_of
from arena.models import Arena, Candidate
from arena.permissions import listed_arenas
from judges.judge_reports import (
    EpochReport,
    JudgeStanding,
    count_replies,
    list_standings,
    report_on_judge,
)
from judges.models import Calibration, Judge, Judgement, LabelSet, RunJudge
from judges.permissions import can_read_rubric, listed_judges
from judges.services.registry import JudgeSource, read_source
from judges.views.jury_weights import jury_weights_of
from judges.views.setups import setup_rows
from judges.wording import HONEYPOTS

HEADINGS = {
    LabelSet.Kind.PAIRS: "Agreement with people, pairs",
    LabelSet.Kind.SCORES: "Agreement with people, scores",
    LabelSet.Kind.HONEYPOTS: "Honeypots",
}


@dataclass(frozen=True)
class LeaderboardRow:
    """A judge's standing, with what keeps the judge from being trusted, in sentences."""

    standing: JudgeStanding
    problems: list[str]

    @property
    def is_score(self) -> bool:
        """Whether its agreement is a correlation of scores, not a share."""
        calibration = self.standing.calibration
        return calibration is not None and calibration.kind == "scores"


def leaderboard_rows(standings: Sequence[JudgeStanding]) -> list[LeaderboardRow]:
    return [
        LeaderboardRow(standing, [] if standing.is_trusted else standing.problems)
        for standing in standings
    ]


@require_safe
def leaderboard(request: HttpRequest) -> HttpResponse:
    """Every judge, with how reliable it is; juries are listed below, because they are not
    measured."""
    actor = actor_of(request)
    juries = listed_judges(actor).filter(protocol=Judge.Protocol.JURY)
    arenas = listed_arenas(actor).order_by("name")
    own = arenas if actor.is_operator else arenas.filter(team__in=actor.teams_with("judge"))
    context = {
        "rows": leaderboard_rows(list_standings(actor)),
        "juries": juries.order_by("name"),
        "is_operator": actor.is_operator,
        "arenas_to_judge": own,
    }
    return render(request, "judges/judges.html", context)


@dataclass(frozen=True)
class CalibrationTables:
    """The tables of a calibration in the order of the page: a database may shuffle keys."""

    calibration: Calibration

    @property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = self.calibration.report
        return report

    @property
    def heading(self) -> str:
        return HEADINGS[LabelSet.Kind(self.calibration.kind)]

    @property
    def states(self) -> list[tuple[str, int]]:
        counts = self.report["states"]
        return [(str(state.label), counts[state]) for state in Judgement.State if counts.get(state)]

    @property
    def categories(self) -> list[Any]:
        """Empty if there is only one."""
        categories: list[Any] = self.report["categories"]
        return categories if len(categories) > 1 else []

    @property
    def to_label(self) -> list[tuple[list[Candidate], int]]:
        """The pairs of candidates on which people's votes would say most, and on how many pairs of
        their answers."""
        rows = self.report.get("to_label", [])
        known = Candidate.objects.in_bulk({pk for *pair, _ in rows for pk in pair})
        return [([known[pk] for pk in pair], n) for *pair, n in rows if known.keys() >= {*pair}]

    @property
    def honeypots(self) -> list[tuple[str, Any]]:
        return [(HONEYPOTS[kind["trap"]], kind) for kind in self.report["traps"]]


def newest_of_each_kind(epoch: EpochReport) -> list[CalibrationTables]:
    """The newest calibration on pairs, on scores and on honeypots, in that order."""
    newest = {}
    for calibration in reversed(epoch.calibrations):
        newest[calibration.kind] = CalibrationTables(calibration)
    return [newest[kind] for kind in HEADINGS if kind in newest]


@dataclass(frozen=True)
class ConfigurationRow:
    """A line of a judge's configuration: a text, or a list of items."""

    title: str
    text: str
    items: Sequence[str] = ()


def configuration_rows(judge: Judge, source: JudgeSource) -> list[ConfigurationRow]:
    """What makes a judge, from its row and its rubric's files; a jury has members instead."""
    rubric = source.rubric
    name = rubric.title if rubric else f"{judge.get_protocol_display()} · {judge.rubric}"
    alias = " (an alias that may point to a different model later)" if judge.unpinned else ""
    votes = "Probabilities where the endpoint returns them" if judge.soft else "One outcome each"
    rows = [
        ConfigurationRow("Model", f"{judge.model} at endpoint {judge.endpoint}{alias}"),
        ConfigurationRow("Family", judge.family),
        ConfigurationRow("Rubric", f"{name} ({judge.rubric})" if rubric else name),
    ]
    if rubric and rubric.items:
        items = [f"{item.text} ({floatformat(item.weight)})" for item in rubric.items]
        rows.append(ConfigurationRow("Items", "", items))
    if rubric and rubric.scale:
        rows.append(ConfigurationRow("Scale", rubric.scale.describe()))
    if judge.protocol != Judge.Protocol.DIRECT:
        policy = str(judge.get_order_policy_display())
        rows.append(ConfigurationRow("If inconsistent when swapped", policy))
    if source.spec:
        told = {True: "Told not to reward length", False: "Not mentioned"}
        rows.append(ConfigurationRow("Length", told[source.spec.is_length_neutral]))
    samples = f", of {judge.readings} samples" if judge.readings > 1 else ""
    parameters = ", ".join(f"{name} {value}" for name, value in judge.parameters.items())
    return [
        *rows,
        ConfigurationRow("Votes", f"{votes}{samples}"),
        ConfigurationRow("Parameters", parameters or "none"),
        ConfigurationRow("Examples", str(len(judge.examples) or "none")),
    ]


def _arenas_of_disagreements(judge: Judge, actor: Actor) -> QuerySet[Arena]:
    """The arenas of the reader's teams in which the judge has voted; none for a jury."""
    own = (
        Arena.objects.revealed()
        if actor.is_operator
        else listed_arenas(actor).filter(team__in=actor.teams_with(TeamPermission.READ))
    )
    asked = RunJudge.objects.filter(epoch__judge=judge, epoch__ended_at=None)
    arenas = own.filter(pk__in=asked.values("run__arena"))
    return arenas.none() if judge.is_jury else arenas.order_by("name")


def _places_to_change(judge: Judge, actor: Actor) -> list[tuple[str, str]]:
    """Where the reader can try a change of the judge's rubric: labels and addresses."""
    version = judge.rubric_version
    if version is not None:
        is_of_team = version.rubric.team_id and can_read_rubric(actor, judge)
        return [("Try a change", version.rubric.get_absolute_url())] if is_of_team else []
    teams = actor.teams_with(TeamPermission.MANAGE).order_by("name")
    return [
        (f"Write a rubric from it for {team}", f"{reverse('new_rubric', args=[team.slug])}?{query}")
        for query in [urlencode({"template": judge.rubric})]
        for team in teams
    ]


def _readable_source(judge: Judge, actor: Actor) -> JudgeSource:
    if can_read_rubric(actor, judge):
        return read_source(judge)
    return JudgeSource(problem="Only the team that wrote this rubric can read it.")


@require_safe
def judge(request: HttpRequest, pk: int) -> HttpResponse:
    """A judge's configuration, and all its measurements."""
    actor = actor_of(request)
    listed = listed_judges(actor).prefetch_related("members")
    report = report_on_judge(get_object_or_404(listed, pk=pk), actor)
    context = {
        "judge": report.judge,
        "report": report,
        "current_epoch": report.epochs[0],
        "calibrations": (calibrations := newest_of_each_kind(report.epochs[0])),
        "is_tested": any(each.calibration.kind == LabelSet.Kind.HONEYPOTS for each in calibrations),
        "is_rated": any(mark.n for mark in report.marks),
        "has_setups": bool(setup_rows(report.judge, actor)),
        "has_checks": any(epoch.checks for epoch in report.epochs),
        "source": (source := _readable_source(report.judge, actor)),
        "configuration": [] if report.judge.is_jury else configuration_rows(report.judge, source),
        "is_operator": actor.is_operator,
        "replies": count_replies(report.epochs[0].epoch, actor),
        "jury_weights": jury_weights_of(report.judge, actor),
        "changes": _places_to_change(report.judge, actor),
        "disagreed_in": _arenas_of_disagreements(report.judge, actor),
    }
    return render(request, "judges/judge.html", context)
