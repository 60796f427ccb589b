"""Pages of judges, what all pages of judge runs share, and the decision page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, wraps
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from arena.actors import Actor, TeamPermission, actor_of
from arena.models import Arena, Candidate, Rater, Run, Team, Vote
from arena.permissions import known_arenas, listed_arenas, visible_arenas
from arena.views.teams import find_team, for_team
from judges.core.rubric import Rubric, RubricError, load_rubric
from judges.core.spec import JudgeSpec
from judges.decision_report import DecisionQuery, choose_next_step, decision_context
from judges.forms import BaselineForm
from judges.models import Calibration, Epoch, Judge, Judgement, LabelSet
from judges.reports import EpochReport, JudgeStanding, RunReport, list_standings, report_on_judge
from judges.services.decisions import choose_baseline, compare_family, name_for
from judges.services.planning import runs_of_judges
from judges.services.registry import spec_of
from judges.services.runs import can_steer
from judges.services.trust import problems_of, trust_profile
from judges.wording import HONEYPOTS
from ranking.comparison import load_difference_boards
from ranking.models import Raters, Snapshot
from ranking.rank_correlation import RankCorrelation, rank_correlation, scores_of_raters
from ranking.reasons import NamedReason, count_reasons
from ranking.replay import replay
from ranking.stats.bradley_terry import NotConvergedError
from ranking.views.sequence_chart import ShareAt, sequence_chart

View = Callable[..., HttpResponse]
MOST_FAULTS = 6  # of a candidate, on the decision page
MEMBERS_ONLY = gettext_lazy(
    "Judge runs cost money, so only members of the arena’s team and the site’s administrators can "
    "start and control them here."
)


def run_url(run: Run) -> str:
    if run.arena is None:
        return reverse("trial_run", args=[run.pk])
    return reverse("judge_run", args=[run.arena.slug, run.pk])


def verdict_url(run: Run, judgement: int, query: str = "") -> str:
    """`query` is the filter of the list that the reader came from."""
    if run.arena is None:
        path = reverse("trial_verdict", args=[run.pk, judgement])
    else:
        path = reverse("judge_verdict", args=[run.arena.slug, run.pk, judgement])
    return f"{path}?{query}" if query else path


def marks_url(run: Run, judgement: int) -> str:
    if run.arena is None:
        return reverse("mark_trial", args=[run.pk, judgement])
    return reverse("mark_verdict", args=[run.arena.slug, run.pk, judgement])


def operators_only(view: View) -> View:
    """Admit operators; ask readers who are not signed in to sign in, and refuse all others."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return _require_steering(request, None) or view(request, *args, **kwargs)

    return guarded


def for_judging(view: View) -> View:
    """Hand a view its arena instead of the slug, if the request may start judge runs there."""

    @wraps(view)
    def guarded(request: HttpRequest, slug: str) -> HttpResponse:
        arena = find_arena(request, slug)
        return _require_steering(request, arena) or view(request, arena)

    return guarded


def check_steering(request: HttpRequest, arena: Arena | None) -> None:
    """Raise PermissionDenied unless the request may control judge runs there."""
    if not can_steer(actor_of(request), arena):
        raise PermissionDenied(MEMBERS_ONLY if arena and arena.team_id else "")


def _require_steering(request: HttpRequest, arena: Arena | None) -> HttpResponse | None:
    if request.method in ("GET", "HEAD") and not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    check_steering(request, arena)
    return None


def find_arena(request: HttpRequest, slug: str) -> Arena:
    return get_object_or_404(visible_arenas(actor_of(request)), slug=slug)


def find_run(request: HttpRequest, slug: str, pk: int) -> Run:
    """A judge run of an arena that the request may see."""
    arena = find_arena(request, slug)
    return get_object_or_404(_runs_with_owners(), pk=pk, arena=arena)


def find_trial(pk: int) -> Run:
    """A run on labelled items, which belongs to no arena."""
    return get_object_or_404(runs_of_judges(), pk=pk, arena=None)


def find_any_run(request: HttpRequest, pk: int) -> Run:
    """A trial, or a judge run of an arena that the request may reach by the run's number."""
    known = known_arenas(actor_of(request))
    runs_in_reach = _runs_with_owners().filter(Q(arena=None) | Q(arena__in=known))
    return get_object_or_404(runs_in_reach, pk=pk)


def _runs_with_owners() -> "QuerySet[Run]":
    return runs_of_judges().select_related("arena", "team")


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
        LeaderboardRow(standing, [] if standing.is_trusted else _trust_problems(standing))
        for standing in standings
    ]


def _trust_problems(standing: JudgeStanding) -> list[str]:
    """From what was read already: no query for each judge."""
    newest = [
        calibration
        for calibration in (standing.calibration, standing.honeypots)
        if calibration is not None
    ]
    return problems_of(trust_profile(standing.epoch, newest))


@require_safe
def leaderboard(request: HttpRequest) -> HttpResponse:
    """Every judge, with how reliable it is; juries are listed below, because they are not
    measured."""
    actor = actor_of(request)
    juries = Judge.objects.listed_for(actor).filter(protocol=Judge.Protocol.JURY)
    arenas = listed_arenas(actor).order_by("name")
    own = arenas if actor.is_operator else arenas.filter(team__in=actor.teams_with("judge"))
    context = {
        "rows": leaderboard_rows(list_standings(actor)),
        "juries": juries.order_by("name"),
        "is_operator": actor.is_operator,
        "arenas_to_judge": own,
    }
    return render(request, "judges/judges.html", context)


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
class JudgeSource:
    """The rubric files of a judge, and whether they have changed since it was registered.

    `problem` says why there are none.
    """

    rubric: Rubric | None = None
    spec: JudgeSpec | None = None
    changed: bool = False
    problem: str = ""


def read_source(judge: Judge) -> JudgeSource:
    """Read a judge's rubric from its files as they are today. A jury has none."""
    if judge.is_jury:
        return JudgeSource()
    try:
        spec = spec_of(judge)
        return JudgeSource(load_rubric(judge.rubric), spec, spec.digest != judge.digest)
    except (RubricError, ValueError) as error:
        return JudgeSource(problem=str(error))


@require_safe
def judge(request: HttpRequest, pk: int) -> HttpResponse:
    """A judge's configuration, and all its measurements."""
    actor = actor_of(request)
    listed = Judge.objects.listed_for(actor).prefetch_related("members")
    report = report_on_judge(get_object_or_404(listed, pk=pk), actor)
    context = {
        "judge": report.judge,
        "report": report,
        "current_epoch": report.epochs[0],
        "calibrations": (calibrations := newest_of_each_kind(report.epochs[0])),
        "is_tested": any(each.calibration.kind == LabelSet.Kind.HONEYPOTS for each in calibrations),
        "is_rated": any(mark.n for mark in report.marks),
        "has_checks": any(epoch.checks for epoch in report.epochs),
        "source": read_source(report.judge),
        "is_operator": actor.is_operator,
        "jury_weights": jury_weights_of(report.judge, actor),
    }
    return render(request, "judges/judge.html", context)


@dataclass(frozen=True)
class MemberWeight:
    """A jury member's weights in log odds, over all and by category, and the measured accuracy of
    the member by itself.
    """

    judge: Judge
    general: float
    categories: list[float | None]
    agreement: dict[str, Any]


@dataclass(frozen=True)
class JuryWeights:
    """The weights of a jury's members, as they were measured on `n_items` pairs of an arena."""

    arena: Arena
    n_items: int
    categories: list[str]
    members: list[MemberWeight]


def jury_weights_of(jury: Judge, actor: Actor) -> JuryWeights | None:
    """Return the weights; None without any, or if the reader may not see the measurement."""
    if not jury.weights:
        return None
    general, by_category = jury.weights["general"], jury.weights["categories"]
    epochs = (
        Epoch.objects.filter(requester__in=general).select_related("judge").order_by("judge__name")
    )
    judges = {epoch.pk: epoch for epoch in epochs}
    measured = Calibration.objects.listed_for(actor).filter(arena=jury.weights["arena"])
    for calibration in measured.filter(epoch__in=judges).select_related("arena").order_by("-pk"):
        panel = calibration.report.get("panel")
        if not panel or panel["fitted_until"] != jury.weights["fitted_until"]:
            continue
        if calibration.arena is None or set(panel["judges"]) != set(judges):
            continue
        alone = {
            panel["judges"][option["members"][0]]: option["agreement"]
            for option in panel["options"]
            if option["kind"] == "judge"
        }
        members = [
            MemberWeight(
                epoch.judge,
                general[epoch.requester],
                [own.get(epoch.requester) for own in by_category.values()],
                alone[pk],
            )
            for pk, epoch in judges.items()
        ]
        return JuryWeights(calibration.arena, panel["n_items"], list(by_category), members)
    return None


@dataclass(frozen=True)
class PanelRow:
    """One way to ask judges, in words; `order` is the query that fills in the order form."""

    name: str
    option: dict[str, Any]
    over: str
    order: str


def judges_in(arena: Arena) -> "QuerySet[Epoch]":
    """The judges used in an arena, in their present epochs."""
    asked = Epoch.objects.open().filter(run_judges__run__arena=arena).distinct()
    return asked.select_related("judge", "rater").order_by("pk")


def measured_judges(arena: Arena, actor: Actor) -> dict[str, Any]:
    """What is known about the judges used in an arena: where each is trusted, which were not
    measured here, and how well several do together."""
    epochs = {epoch.pk: epoch for epoch in judges_in(arena)}
    seen: dict[int, list[Calibration]] = {pk: [] for pk in epochs}
    known = Calibration.objects.listed_for(actor) | Calibration.objects.filter(arena=arena)
    newest_first = known.filter(epoch__in=epochs).select_related("arena", "label_set", "epoch")
    for calibration in newest_first.order_by("-made_at", "-pk"):
        seen[calibration.epoch_id].append(calibration)
    places, unmeasured = [], []
    for pk, epoch in epochs.items():
        profile = trust_profile(epoch, seen[pk]) if seen[pk] else []
        here = [measured for measured in profile if measured.arena == arena]
        places += here
        unmeasured += [] if here or epoch.judge.is_jury else [epoch]
    places.sort(key=lambda place: (not place.is_trusted, str(place.calibration)))
    panels = [measured for own in seen.values() for measured in own if measured.report.get("panel")]
    newest = max(
        (measured for measured in panels if measured.arena == arena),
        key=lambda measured: measured.pk,
        default=None,
    )
    panel = newest.report["panel"] if newest else None
    return {
        "places": places,
        "unmeasured": unmeasured,
        "panel": panel,
        "panel_rows": _panel_rows(panel) if panel else [],
    }


def _panel_rows(panel: dict[str, Any]) -> list[PanelRow]:
    """The ways that are offered, the cheapest first, then the others."""
    names = [_panel_name(option, panel["names"]) for option in panel["options"]]
    ways = list(zip(names, panel["options"], strict=True))
    ways.sort(key=lambda way: (not way[1]["offered"], way[1]["cost"]))
    rows = []
    for name, option in ways:
        over = "" if option["over"] is None else names[option["over"]]
        first = option["members"][:1] if option["kind"] == "cascade" else option["members"]
        query = [("judge", panel["names"][member]) for member in first]
        query += [("weigh", "1")] if option["kind"] == "weighted" else []
        rows.append(PanelRow(name, option, over, urlencode(query)))
    return rows


def _panel_name(option: dict[str, Any], judges: Sequence[str]) -> str:
    everybody = "both" if len(judges) == 2 else f"all {len(judges)}"
    if option["kind"] == "majority":
        return f"Jury of {everybody}, by majority"
    if option["kind"] == "weighted":
        return f"Jury of {everybody}, weighed by accuracy"
    first, *second = (judges[member] for member in option["members"])
    return f"{first}, then {second[0]} where it has no verdict" if second else first


@dataclass(frozen=True)
class RankingComparison:
    """The ranking by a run's judge or jury, and another one's.

    `agreement` is None before another judge is chosen, and if one of them has no scores.
    """

    own: Epoch
    others: list[Epoch]
    chosen: Epoch | None = None
    agreement: RankCorrelation | None = None


def compare_rankings(report: RunReport, chosen: str) -> RankingComparison | None:
    """Compare the ranking by this run's judge with that by the epoch whose id is `chosen`.

    None if there is nothing to compare: several judges, no arena, no votes by other judges.
    """
    own = report.jury or (report.judges[0].epoch if len(report.judges) == 1 else None)
    arena = report.run.arena
    if own is None or arena is None:
        return None
    others = _other_voters(arena, own)
    if not others:
        return None
    other = next((epoch for epoch in others if str(epoch.pk) == chosen), None)
    agreement = _rank_agreement(arena, own, other) if other else None
    return RankingComparison(own, others, other, agreement)


def _other_voters(arena: Arena, own: Epoch) -> list[Epoch]:
    kinds = [Rater.Kind.JUDGE, Rater.Kind.JURY]
    votes = Vote.objects.live().filter(arena=arena, rater__kind__in=kinds)
    raters = set(votes.values_list("rater", flat=True).distinct())
    others = Epoch.objects.filter(rater__in=raters).exclude(pk=own.pk)
    return list(others.select_related("judge").order_by("judge__name", "number"))


def _rank_agreement(arena: Arena, own: Epoch, other: Epoch) -> RankCorrelation | None:
    try:
        scores = [
            scores_of_raters(arena=arena, rater_ids=[epoch.rater_id]) for epoch in (own, other)
        ]
    except NotConvergedError:
        return None
    return rank_correlation(*scores)


@for_team()
@require_http_methods(["GET", "HEAD", "POST"])
def decision(request: HttpRequest, team: Team, arena: str) -> HttpResponse:
    """Show the team's candidates in an arena compared with its baseline; a POST changes that."""
    actor = actor_of(request)
    submits = Exists(actor.teams_with(TeamPermission.SUBMIT).filter(pk=team.pk))
    arenas = visible_arenas(actor).annotate(team_submits=submits)
    in_arena = get_object_or_404(arenas, slug=arena)
    if request.method == "POST":
        return _choose_baseline(request, team, in_arena)
    context = decision_context(team, in_arena, DecisionQuery.of(request.GET.dict()))
    context |= _page_context(context)
    can_submit = actor.is_operator or bool(vars(in_arena)["team_submits"])
    # Members may start judge runs in their own arenas only, wherever they may submit.
    is_own = can_submit and in_arena.team_id == team.pk
    context |= {"can_submit": can_submit, "can_order": is_own}
    if context.get("focus"):
        context["next_step"] = choose_next_step(context, can_submit, is_own)
    return render(request, "judges/decision.html", context)


def _choose_baseline(request: HttpRequest, team: Team, arena: Arena) -> HttpResponse:
    find_team(request, team.slug, TeamPermission.SUBMIT)
    form = BaselineForm(request.POST)
    if form.is_valid():
        candidates = Candidate.objects.revealed().filter(arena=arena)
        candidate = get_object_or_404(candidates, pk=form.cleaned_data["candidate"])
        choose_baseline(
            team=team, arena=arena, candidate=candidate, by=actor_of(request), now=timezone.now()
        )
        messages.success(request, f"Baseline changed to {name_for(team, arena, candidate)}.")
    else:
        messages.error(request, "Choose a candidate as the baseline.")
    return redirect("decision", team.slug, arena.slug)


@lru_cache(maxsize=256)
def _read_checks_and_faults(
    snapshot: int, published_at: datetime, family: tuple[int, ...], focus: int, baseline: int
) -> tuple[tuple[ShareAt, ...], tuple[NamedReason, ...]]:
    """How the difference stood at every check so far that had an interval, and the faults named.

    Cached, because a snapshot never changes; `published_at` distinguishes snapshots of different
    databases. Both are empty once the snapshot has been replaced.
    """
    snapshots = Snapshot.objects.select_related("board__arena").filter(pk=snapshot)
    board = next(iter(load_difference_boards(snapshots).values()), None)
    if board is None:
        return (), ()
    checks = []
    for then in replay(board, focus, baseline):
        difference = compare_family(then, family, baseline, forecast=False)[focus]
        wins, low, high = difference.wins, difference.wins_low, difference.wins_high
        if wins is not None and low is not None and high is not None:
            checks.append(ShareAt(difference.between, wins, low, high, difference.is_decided))
    published = board.snapshot.board
    judged = published.raters in (Raters.JUDGES, Raters.JURIES)
    reasons = [] if judged else count_reasons(published.arena)
    faults = [
        reason
        for reason in reasons
        if (reason.candidate, reason.category) == (focus, published.category)
        and not reason.is_strength
    ]
    return tuple(checks), tuple(sorted(faults, key=lambda fault: -fault.named)[:MOST_FAULTS])


def _page_context(context: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows in addition to `decision_context`: the checks so far, and the raters'
    reasons.
    """
    board, focus, baseline = context["board"], context.get("focus"), context.get("baseline")
    if board is None or focus is None or baseline is None:
        return {}
    family = tuple(context["candidates"].family())
    snapshot = board.snapshot
    checks, faults = _read_checks_and_faults(
        snapshot.pk, snapshot.published_at, family, focus.pk, baseline.pk
    )
    return {"sequence": sequence_chart(checks), "faults": faults}
