"""The leaderboard of judges, and the page of one judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.template.defaultfilters import floatformat
from django.views.decorators.http import require_safe

from arena.actors import actor_of
from arena.permissions import listed_arenas
from judges.judge_reports import EpochReport, JudgeStanding, list_standings, report_on_judge
from judges.models import Calibration, Judge, Judgement, LabelSet
from judges.permissions import listed_judges
from judges.services.registry import JudgeSource, read_source
from judges.views.jury_weights import jury_weights_of
from judges.wording import HONEYPOTS

OUTCOMES = {"left": "Left", "right": "Right", "tie": "Tie"}
VERDICTS = OUTCOMES | {"none": "None"}
AGREEMENTS = {
    "against_all": "Judge and all labels, where it has a verdict",
    "against_majority": "Judge and the majority of people",
    "where_all_agree": "Judge and people, where all people agree",
    "people": "People with each other, on the items the judge decided",
    "people_everywhere": "People with each other, on all items",
}
BENCHMARKS = {
    "single": "Single readings, both orders averaged",
    "both": "Right in both orders",
    "verdict": "Its settled verdict",
}
CORRELATIONS = {
    "against_all": "Judge and all scores",
    "against_average": "Judge and people’s average",
    "where_all_agree": "Judge and people, where all people agree",
}
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
    def agreements(self) -> list[tuple[str, Any]]:
        return [(name, self.report[key]) for key, name in AGREEMENTS.items()]

    @property
    def benchmarks(self) -> list[tuple[str, Any]]:
        return [(name, self.report["benchmarks"][key]) for key, name in BENCHMARKS.items()]

    @property
    def correlations(self) -> list[tuple[str, Any]]:
        return [(name, self.report[key]) for key, name in CORRELATIONS.items()]

    @property
    def verdicts(self) -> list[str]:
        return list(VERDICTS.values())

    @property
    def confusion(self) -> list[tuple[str, list[int]]]:
        """For each human label, how often the judge gave each verdict."""
        counts = self.report["confusion"]
        return [
            (name, [counts[label][verdict] for verdict in VERDICTS])
            for label, name in OUTCOMES.items()
        ]

    @property
    def categories(self) -> list[Any]:
        """Empty if there is only one."""
        categories: list[Any] = self.report["categories"]
        return categories if len(categories) > 1 else []

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
        "has_checks": any(epoch.checks for epoch in report.epochs),
        "source": (source := read_source(report.judge)),
        "configuration": [] if report.judge.is_jury else configuration_rows(report.judge, source),
        "is_operator": actor.is_operator,
        "jury_weights": jury_weights_of(report.judge, actor),
    }
    return render(request, "judges/judge.html", context)
