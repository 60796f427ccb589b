"""Judge runs of an arena: the list, the order page with its quote, and the page of one run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers
from kombu.exceptions import OperationalError

from arena.actors import Actor, TeamPermission, actor_of
from arena.calls.execution import CannotAskError
from arena.errors import ServiceError
from arena.models import Arena, Run
from arena.permissions import can_read_spending
from arena.services import runs
from arena.services.arenas import ArenaError, update_arena
from arena.services.budgets import budget_left
from arena.tasks import enqueue_on_commit
from arena.views.runs import progress_of, steer
from judges.core.prompts import MaterialError, render_note, render_prompt
from judges.core.spec import JudgeSpec
from judges.forms import PAIRS, CriteriaForm, HoneypotForm, OrderForm
from judges.models import Judge, Judgement
from judges.models.judges import SCRIPTED
from judges.reports import RunReport, report_on
from judges.services.honeypots import order_honeypots, quote_honeypots
from judges.services.labels import judged_where_people_voted
from judges.services.planning import (
    JudgeOrder,
    Member,
    OrderOptions,
    calls_for,
    prepare_order,
    runs_in,
)
from judges.services.quotes import Quote, probe_judges, quote_for
from judges.services.registry import JudgeError, spec_named
from judges.services.runs import can_steer
from judges.services.subjects import material_for, read_subject
from judges.tasks import measure_judge
from judges.views.judges import (
    check_steering,
    compare_rankings,
    find_any_run,
    find_run,
    find_trial,
    for_judging,
    judges_in,
    measured_judges,
    operators_only,
    run_url,
    verdict_url,
)
from judges.views.verdicts import VerdictFilter, with_excerpts
from judges.wording import HOW_MANY, REASON_HIDDEN
from ranking import board_data
from ranking.models import Raters, Snapshot

PER_PAGE = 25
BEING_MEASURED = "The judges are being measured. Reload this page in a minute."
NOTHING_TO_MEASURE = "No judge has judged a pair here that people voted on, so none was measured."
BROKER_DOWN = "The judges could not be measured: the site’s queue cannot be reached."
KEPT, RETRIED = "Verdicts so far are kept.", "Failed calls are being retried."


@dataclass(frozen=True)
class FilterLink:
    url: str
    label: str
    chosen: bool


def judging_of(run: Run, now: datetime) -> dict[str, Any]:
    report = report_on(run.pk, now)
    return progress_of(report, now) | {
        "arena": run.arena,
        "run_url": run_url(run),
        "jury_size": len(report.judges),
        "jury_rows": [(label, count) for _, label, count in report.jury_rows if count],
    }


def verdicts_of(report: RunReport, chosen: VerdictFilter, page: str | None) -> dict[str, Any]:
    """The lower part: the filters, and a page of the verdicts that pass them."""
    run = report.run
    verdicts = Paginator(with_excerpts(chosen.verdicts_of(run)), PER_PAGE).get_page(page)
    return {
        "page": verdicts,
        "verdicts": [
            (verdict, verdict_url(run, verdict.pk, chosen.query())) for verdict in verdicts
        ],
        "filter_query": chosen.query(),
        "state_links": _state_links(report, chosen),
        "judge_links": _judge_links(report, chosen),
        "flagged_links": _flagged_links(run, chosen),
    }


def _link(chosen: VerdictFilter, label: str, is_chosen: bool, **changes: object) -> FilterLink:
    return FilterLink(f"?{chosen.query(**changes)}#verdicts", label, is_chosen)


def _state_links(report: RunReport, chosen: VerdictFilter) -> list[FilterLink]:
    label = f"All {report.settled}{' so far' if report.goes_on else ''}"
    return [_link(chosen, label, not chosen.state, state="")] + [
        _link(chosen, f"{label} {count}", chosen.state == state, state=state)
        for state, label, count in report.state_rows
        if count and state not in Judgement.UNSETTLED
    ]


def _judge_links(report: RunReport, chosen: VerdictFilter) -> list[FilterLink]:
    """By judge, if there are several."""
    if len(report.judges) < 2:
        return []
    return [_link(chosen, "All judges", chosen.judge is None, judge=None)] + [
        _link(chosen, str(judge.epoch), chosen.judge == judge.epoch.pk, judge=judge.epoch.pk)
        for judge in report.judges
    ]


def _flagged_links(run: Run, chosen: VerdictFilter) -> list[FilterLink]:
    """Pairs with a possible prompt injection, if there are any."""
    flagged = Judgement.objects.settled().filter(run=run, flagged=True).count()
    if not (flagged or chosen.flagged):
        return []
    return [
        _link(chosen, "All", not chosen.flagged, flagged=0),
        _link(chosen, f"Possible prompt injection {flagged}", chosen.flagged, flagged=1),
    ]


@require_safe
def judge_runs(request: HttpRequest, slug: str) -> HttpResponse:
    """An arena's judge runs, newest first."""
    actor = actor_of(request)
    arena = board_data.find_arena(slug, actor)
    page = Paginator(runs_in(arena), PER_PAGE).get_page(request.GET.get("page"))
    snapshots = list(Snapshot.objects.current().of_arena(arena))
    by_models = [s for s in snapshots if s.board.raters in (Raters.JUDGES, Raters.JURIES)]
    context = {
        "arena": arena,
        "page_links": board_data.page_links(slug, board_data.BoardQuery(), snapshots, "judge_runs"),
        "is_judged": any(s.n_votes for s in by_models),
        "page": page,
        "can_steer": can_steer(actor, arena),
        "is_operator": actor.is_operator,
        "how_many": HOW_MANY,
        **measured_judges(arena, actor),
        **_spending_context(actor, arena),
    }
    return render(request, "judges/runs.html", context)


@require_POST
@for_judging
def measure_judges(request: HttpRequest, arena: Arena) -> HttpResponse:
    """Have each judge of an arena measured by its verdicts on pairs that people voted on."""
    epochs = list(judged_where_people_voted(judges_in(arena), arena))
    try:
        for epoch in epochs:
            measure_judge.delay(epoch.pk, arena.pk)
    except OperationalError:
        messages.error(request, BROKER_DOWN)
    else:
        if epochs:
            messages.success(request, BEING_MEASURED)
        else:
            messages.error(request, NOTHING_TO_MEASURE)
    return redirect(f"{reverse('judge_runs', args=[arena.slug])}#main")


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def honeypot_test(request: HttpRequest, pk: int) -> HttpResponse:
    """The price of testing a judge with honeypots from an arena's answers; a POST starts it."""
    judge = get_object_or_404(Judge.objects.exclude(protocol=Judge.Protocol.JURY), pk=pk)
    form, quote = HoneypotForm(request.POST or request.GET or None, actor=actor_of(request)), None
    if form.is_valid():
        arena = form.cleaned_data["arena"]
        try:
            spec = spec_named(judge.name)
            quote = quote_honeypots(spec=spec, arena=arena)
            if request.method == "POST":
                cap, now = form.cleaned_data["cap"], timezone.now()
                run = order_honeypots(spec=spec, arena=arena, cap=cap, now=now)
                enqueue_on_commit()
                return redirect(run_url(run) if run else judge)
        except ServiceError as error:
            form.add_error(None, str(error))
    context = {"judge": judge, "form": form, "quote": quote}
    return render(request, "judges/honeypots.html", context)


@require_safe
@operators_only
def trial_runs(request: HttpRequest) -> HttpResponse:
    """Runs on labelled items: calibrations and drift checks."""
    page = Paginator(runs_in(None), PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "can_steer": True, **_spending_context(actor_of(request), None)}
    return render(request, "judges/runs.html", context)


def _spending_context(actor: Actor, arena: Arena | None) -> dict[str, Any]:
    return {"sees_money": can_read_spending(actor, arena), "reason_hidden": REASON_HIDDEN}


@require_safe
@vary_on_headers("HX-Request")
def judge_run(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    return _run_page(request, find_run(request, slug, pk))


@require_safe
@vary_on_headers("HX-Request")
@operators_only
def trial_run(request: HttpRequest, pk: int) -> HttpResponse:
    return _run_page(request, find_trial(pk))


def _run_page(request: HttpRequest, run: Run) -> HttpResponse:
    """The whole page, from which htmx takes the list of verdicts every few seconds during the run;
    or, if the request says which state the page shows, only its upper part, which is polled too.
    """
    actor = actor_of(request)
    context = judging_of(run, timezone.now()) | _spending_context(actor, run.arena)
    context["can_steer"] = can_steer(actor, run.arena)
    context["decision_url"] = _decision_url(actor, run)
    if request.headers.get("HX-Request") and "seen" in request.GET:
        context["state_changed"] = request.GET["seen"] != context["run"].state
        return render(request, "judges/_progress.html", context)
    chosen = VerdictFilter.of(request.GET.dict())
    context |= verdicts_of(context["report"], chosen, request.GET.get("page"))
    context["rankings"] = compare_rankings(context["report"], request.GET.get("beside", ""))
    return render(request, "judges/run.html", context)


def _decision_url(actor: Actor, run: Run) -> str:
    """The decision page for this run's votes, for members of the arena's team; else ''."""
    team = run.arena.team if run.arena else None
    if run.arena is None or team is None or not actor.may(TeamPermission.READ, team):
        return ""
    raters = Raters.JURIES if run.jury_verdicts.exists() else Raters.JUDGES
    path = [team.slug, run.arena.slug]
    return reverse("decision", args=path, query={"raters": raters.value})


@require_POST
def steer_run(request: HttpRequest, pk: int) -> HttpResponse:
    """Pause, resume or cancel a run, or retry its failures."""
    run = find_any_run(request, pk)
    check_steering(request, run.arena)
    steer(request, run, kept=KEPT, retrying=RETRIED)
    return redirect(run_url(run))


WHY_NO_PAIRS = {
    "neighbours": "Neighbours come from the judges’ leaderboard: it is empty until judges have "
    "voted here, and neighbours with a clear lead are not judged again.",
    "new": "New candidates are those with few or no LLM-judge votes.",
    "voted": "No pair with human votes is left to judge.",
}
ALL, AGAIN = "“All pairs”", "“Include pairs with a clear lead”"
ALTERNATIVES: list[tuple[dict[str, Any], str]] = [
    ({"again": True}, f"Tick {AGAIN} to have them judged again."),
    ({"pairs": "all"}, f"Choose {ALL} instead."),
    ({"pairs": "all", "again": True}, f"Choose {ALL} instead, and tick {AGAIN}."),
]
ORDER_CHANGED = (
    "The options have changed since the quote, so no run was started. Check the new quote, then "
    "start the run."
)
# A real nonce is drawn for every run; this one only shows its place.
NONCE = "0123456789abcdef"
NOTE = "(The judge’s own grading note goes here.)"


@dataclass(frozen=True)
class PreviewedRequest:
    """One request to a judge: its messages, or `problem`, the reason why there are none."""

    title: str
    messages: Sequence[tuple[str, str]] = ()
    problem: str = ""


@dataclass(frozen=True)
class OrderPreview:
    """The requests about comparison `number` of `count`, with the label of each judge."""

    number: int
    count: int
    judges: list[tuple[str, list[PreviewedRequest]]]

    @property
    def before(self) -> int | None:
        return self.number - 1 if self.number > 1 else None

    @property
    def after(self) -> int | None:
        return self.number + 1 if self.number < self.count else None


@dataclass(frozen=True)
class Offer:
    order: JudgeOrder
    quote: Quote

    def preview(self, number: int) -> OrderPreview:
        """Render comparison `number`, counted from 1; out of range means the nearest."""
        number = max(1, min(number, len(self.order.picks)))
        responses = self.order.picks[number - 1].responses
        judges = [
            (member.spec.label, _preview_requests(member, responses))
            for member in self.order.members
        ]
        return OrderPreview(number, len(self.order.picks), judges)


def make_offer(form: OrderForm) -> Offer:
    """Prepare and quote the order of a form that can be quoted; nothing is written.

    Raises JudgeError, which also suggests another choice if one would work.
    """
    prepare = partial(
        prepare_order,
        arena=form.arena,
        specs=[spec_named(name, switches) for name, switches in form.judges()],
        own_family=form.cleaned_data["own_family"],
        quorum=form.cleaned_data["quorum"],
        weigh=form.cleaned_data["weigh"],
    )
    options = form.options()
    try:
        order = prepare(options=options)
    except JudgeError as error:
        raise JudgeError(f"{error} {_suggest_alternative(prepare, options)}".rstrip()) from error
    return Offer(order, quote_for(order))


def _suggest_alternative(prepare: Callable[..., JudgeOrder], options: OrderOptions) -> str:
    """Name another choice of pairs that could be ordered; '' if there is none."""
    if options.like_run is not None:
        return ""
    for change, advice in ALTERNATIVES:
        alternative = replace(options, **change)
        if alternative != options and _can_be_ordered(prepare, alternative):
            return f"{WHY_NO_PAIRS.get(options.pairs, '')} {advice}".strip()
    return ""


def _can_be_ordered(prepare: Callable[..., JudgeOrder], options: OrderOptions) -> bool:
    try:
        prepare(options=options)
    except JudgeError:
        return False
    return True


def _preview_requests(member: Member, responses: str) -> list[PreviewedRequest]:
    pick = next((pick for pick in member.picks if pick.responses == responses), None)
    if pick is None:
        problem = "This judge skips the pair: one answer is by its own model family."
        return [PreviewedRequest("No request", problem=problem)]
    calls = calls_for(member.spec, [pick])
    notes = [subject for subject, note in calls.items() if note is None and len(calls) > 2]
    first = next(subject for subject in calls if subject not in notes)
    return [_preview_request(member.spec, subject) for subject in (*notes, first)]


def _preview_request(spec: JudgeSpec, name: str) -> PreviewedRequest:
    subject = read_subject(name)
    title = "First, for its grading note" if subject.is_note else _request_title(spec)
    try:
        material = material_for(subject, note=NOTE if spec.rubric.note else "")
        if subject.is_note:
            return PreviewedRequest(title, render_note(spec, material, nonce=NONCE))
        return PreviewedRequest(title, render_prompt(spec, material, nonce=NONCE, structured=False))
    except (CannotAskError, MaterialError) as error:
        return PreviewedRequest(title, problem=str(error))


def _request_title(spec: JudgeSpec) -> str:
    if spec.protocol == "direct":
        return "Score of one answer (the other answer gets the same request)"
    if spec.protocol == "listwise":
        return "One order of the list (a second request reverses it)"
    return "One order of the two answers (a second request swaps them)"


@require_http_methods(["GET", "HEAD", "POST"])
@for_judging
def order_run(request: HttpRequest, arena: Arena) -> HttpResponse:
    """The order form: its first button shows a quote on the same page, its second one orders."""
    actor = actor_of(request)
    if request.method != "POST":
        form = OrderForm(arena=arena, actor=actor, initial=_initial(request, arena))
        return _render_page(request, form)
    form, offer = OrderForm(request.POST, arena=arena, actor=actor), None
    try:
        offer = make_offer(form) if form.can_be_quoted() else None
        if offer and form.is_valid() and _is_confirmed(request, form):
            return _order(request, form, offer)
    except ServiceError as error:
        form.add_error(None, str(error))
    return _render_page(request, form, offer)


@require_POST
@for_judging
def set_arena_criteria(request: HttpRequest, arena: Arena) -> HttpResponse:
    actor, form = actor_of(request), CriteriaForm(request.POST)
    if form.is_valid():
        try:
            update_arena(arena=arena, by=actor, criteria=form.cleaned_data["criteria"])
        except ArenaError as error:
            form.add_error("criteria", str(error))
    if form.errors:
        order_form = OrderForm(arena=arena, actor=actor)
        return _render_page(request, order_form, criteria_form=form)
    messages.success(request, "Criteria saved. They apply to the next run.")
    return redirect(f"{reverse('order_run', args=[arena.slug])}#main")


def _initial(request: HttpRequest, arena: Arena) -> dict[str, Any]:
    """What a link may fill in: a run to repeat with another judge, or judges, candidates, which
    pairs, comparisons per pair, whether to judge pairs again, and whether to weigh the judges."""
    run_id = request.GET.get("like_run", "")
    run = arena.runs.filter(pk=run_id).first() if run_id.isdecimal() else None
    if run is not None:
        undecided = bool(request.GET.get("undecided"))
        return {"like_run": run.pk, "per_pair": run.per_pair, "undecided": undecided}
    initial: dict[str, Any] = {
        "candidates": request.GET.getlist("candidate"),
        "registered": request.GET.getlist("judge"),
    }
    initial |= {name: True for name in ("again", "weigh") if request.GET.get(name)}
    if (per_pair := request.GET.get("per_pair", "")).isdecimal() and len(per_pair) < 5:
        initial["per_pair"] = int(per_pair)
    if (pairs := request.GET.get("pairs")) in dict(PAIRS):
        initial["pairs"] = pairs
        if pairs == "voted":  # all of them
            initial.setdefault("per_pair", min(arena.prompts.count(), 10_000))
    return initial


def _is_confirmed(request: HttpRequest, form: OrderForm) -> bool:
    """Whether the second button was pressed below a quote for exactly this order."""
    if request.POST.get("do") != "order":
        return False
    if request.POST.get("quoted") == form.fingerprint():
        return True
    messages.warning(request, ORDER_CHANGED)
    return False


def _order(request: HttpRequest, form: OrderForm, offer: Offer) -> HttpResponse:
    cap, now = form.cleaned_data["cap"], timezone.now()
    # Before the probe, which costs a few tokens.
    runs.rehearse_payment(team=form.arena.team, quote=offer.quote, cap=cap)
    probe_judges(specs=[member.spec for member in offer.order.members], now=now)
    run = runs.order_run(order=offer.order, cap=cap, now=now, by=actor_of(request))
    enqueue_on_commit()
    return redirect(f"{run_url(run)}#main")


def _render_page(
    request: HttpRequest,
    form: OrderForm,
    offer: Offer | None = None,
    criteria_form: CriteriaForm | None = None,
) -> HttpResponse:
    arena = form.arena
    context = {
        "arena": arena,
        "form": form,
        "criteria_form": criteria_form or CriteriaForm(initial={"criteria": arena.criteria}),
        "only_scripted": settings.MODEL_ENDPOINTS.keys() <= {SCRIPTED},
        "like_run": _like_run(form),
        "budget_left": budget_left(arena.team) if arena.team else None,
    }
    if offer is not None:
        number = request.POST.get("preview", "")
        context |= {
            "quote": offer.quote,
            "quoted": form.fingerprint(),
            "preview": offer.preview(int(number) if number.isdecimal() and len(number) < 9 else 1),
            "cap_problem": "" if form.errors else _cap_problem(offer, form.cleaned_data["cap"]),
        }
    return render(request, "judges/order.html", context)


def _like_run(form: OrderForm) -> int | None:
    """The run that is repeated with another judge."""
    if not form.is_bound:
        run_id: int | None = form.initial.get("like_run")
        return run_id
    run = getattr(form, "cleaned_data", {}).get("like_run")
    return run.pk if run else None


def _cap_problem(offer: Offer, cap: int | None) -> str:
    """Why an order's cap would be refused; '' if it would not."""
    try:
        runs.check_cap(offer.quote, cap)
    except ServiceError as error:
        return str(error)
    return ""
