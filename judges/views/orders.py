"""The order page of judge runs, with its quote and a preview of requests; and honeypot tests."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from arena.actors import actor_of
from arena.calls.execution import CannotAskError
from arena.calls.providers.base import Request
from arena.endpoints import all_endpoints
from arena.errors import ServiceError
from arena.models import Arena
from arena.services import runs
from arena.services.arenas import ArenaError, update_arena
from arena.services.budgets import budget_left
from arena.tasks import enqueue_on_commit
from judges.core.spec import JudgeSpec
from judges.forms import PAIRS, CriteriaForm, HoneypotForm, OrderForm
from judges.models import Judge
from judges.models.judges import SCRIPTED
from judges.services.calls import request_for
from judges.services.honeypots import order_honeypots, quote_honeypots
from judges.services.orders import JudgeOrder, Member, calls_for, prepare_order
from judges.services.planning import MOST_PER_PAIR, OrderOptions
from judges.services.quotes import Quote, prepare_measured, probe_judges, quote_for
from judges.services.registry import JudgeError, spec_named
from judges.services.subjects import read_subject
from judges.views.access import for_judging, operators_only
from judges.views.addresses import run_url

WHY_NO_PAIRS = {
    "neighbours": "Neighbours come from the judges’ leaderboard: it is empty until judges have "
    "voted here, and neighbours that they have decided are not judged again.",
    "new": "New candidates are those with few or no LLM-judge votes.",
    "voted": "No pair with human votes is left to judge.",
}
ALL, AGAIN = "“All pairs”", "“Include decided pairs”"
ALTERNATIVES: list[tuple[dict[str, Any], str]] = [
    ({"again": True}, f"Tick {AGAIN} to have them judged again."),
    ({"pairs": "all"}, f"Choose {ALL} instead."),
    ({"pairs": "all", "again": True}, f"Choose {ALL} instead, and tick {AGAIN}."),
]
REQUEST_TITLES = {
    "note": "First, for its grading note",
    "pairwise": "One order of the two answers (a second request swaps them)",
    "direct": "Score of one answer (the other answer gets the same request)",
    "listwise": "One order of the list (a second request reverses it)",
}
ORDER_CHANGED = (
    "The options have changed since the quote, so no run was started. Check the new quote, then "
    "start the run."
)
# A real nonce is drawn for every run; this one only shows its place.
NONCE = "0123456789abcdef"
NOTE = "(The judge’s own grading note goes here.)"


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def honeypot_test(request: HttpRequest, pk: int) -> HttpResponse:
    """The price of testing a judge with honeypots from an arena's answers; a POST starts it."""
    judge = get_object_or_404(Judge.objects.exclude(protocol=Judge.Protocol.JURY), pk=pk)
    form, quote = HoneypotForm(request.POST or request.GET or None, actor=actor_of(request)), None
    if form.is_valid():
        arena = form.cleaned_data["arena"]
        try:
            spec = spec_named(judge.name, by=actor_of(request))
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


@dataclass(frozen=True)
class PreviewedRequest:
    """One request to a judge, or `problem`, the reason why there is none."""

    title: str
    request: Request | None = None
    problem: str = ""

    @property
    def schema(self) -> str:
        """The JSON schema of the reply, where the model is held to one."""
        schema = self.request.schema if self.request else None
        return json.dumps(schema, indent=2, ensure_ascii=False) if schema else ""


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
            (member.spec.label, preview_requests(member, responses))
            for member in self.order.members
        ]
        return OrderPreview(number, len(self.order.picks), judges)


def make_offer(form: OrderForm) -> Offer:
    """Prepare and quote the order of a form that can be quoted; no order is written.

    Raises JudgeError, which also suggests another choice if one would work.
    """

    def prepare(options: OrderOptions) -> JudgeOrder:
        return prepare_order(
            arena=form.arena,
            specs=[spec_named(name, switches, form.actor) for name, switches in form.judges()],
            options=options,
            own_family=form.cleaned_data["own_family"],
            quorum=form.cleaned_data["quorum"],
            weigh=form.cleaned_data["weigh"],
        )

    options = form.options()
    try:
        order = prepare_measured(
            partial(prepare, options), cap=form.cleaned_data.get("cap"), now=timezone.now()
        )
    except JudgeError as error:
        raise JudgeError(f"{error} {_suggest_alternative(prepare, options)}".rstrip()) from error
    return Offer(order, quote_for(order))


def _suggest_alternative(
    prepare: Callable[[OrderOptions], JudgeOrder], options: OrderOptions
) -> str:
    """Name another choice of pairs that could be ordered; '' if there is none."""
    if options.like_run is not None:
        return ""
    for change, advice in ALTERNATIVES:
        alternative = replace(options, **change)
        if alternative == options:
            continue
        try:
            prepare(alternative)
        except JudgeError:
            continue
        return f"{WHY_NO_PAIRS.get(options.pairs, '')} {advice}".strip()
    return ""


def preview_requests(member: Member, responses: str) -> list[PreviewedRequest]:
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
    title = REQUEST_TITLES["note" if subject.is_note else spec.protocol]
    try:
        return PreviewedRequest(title, request_for(spec, subject, nonce=NONCE, note=NOTE))
    except CannotAskError as error:
        return PreviewedRequest(title, problem=str(error))


@require_http_methods(["GET", "HEAD", "POST"])
@for_judging
def order_run(request: HttpRequest, arena: Arena) -> HttpResponse:
    """The order form: its first button shows a quote on the same page, its second one orders."""
    actor = actor_of(request)
    if request.method != "POST":
        form = OrderForm(arena=arena, actor=actor, initial=_options_in_address(request, arena))
        return _render_order_page(request, form)
    form, offer = OrderForm(request.POST, arena=arena, actor=actor), None
    try:
        offer = make_offer(form) if form.can_be_quoted() else None
        if offer and form.is_valid() and _is_confirmed(request, form):
            return _order_run(request, form, offer)
    except ServiceError as error:
        form.add_error(None, str(error))
    return _render_order_page(request, form, offer)


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
        return _render_order_page(request, order_form, criteria_form=form)
    messages.success(request, "Criteria saved. They apply to the next run.")
    return redirect(f"{reverse('order_run', args=[arena.slug])}#main")


def _options_in_address(request: HttpRequest, arena: Arena) -> dict[str, Any]:
    """What a link may fill in: a run to repeat with another judge, or judges, models, candidates,
    which pairs, comparisons per pair, whether to judge pairs again, and to weigh the judges."""
    run_id = request.GET.get("like_run", "")
    run = arena.runs.filter(pk=run_id).first() if run_id.isdecimal() else None
    if run is not None:
        undecided = bool(request.GET.get("undecided"))
        return {"like_run": run.pk, "per_pair": run.per_pair, "undecided": undecided}
    initial: dict[str, Any] = {
        "candidates": request.GET.getlist("candidate"),
        "registered": request.GET.getlist("judge"),
        "models": request.GET.getlist("model"),
        "scripted": request.GET.getlist("scripted"),
    }
    initial |= {name: True for name in ("again", "weigh") if request.GET.get(name)}
    if (per_pair := request.GET.get("per_pair", "")).isdecimal() and len(per_pair) < 5:
        initial["per_pair"] = int(per_pair)
    if (pairs := request.GET.get("pairs")) in dict(PAIRS):
        initial["pairs"] = pairs
        if pairs == "voted":  # all of them
            initial.setdefault("per_pair", min(arena.prompts.count(), MOST_PER_PAIR))
    return initial


def _is_confirmed(request: HttpRequest, form: OrderForm) -> bool:
    """Whether the second button was pressed below a quote for exactly this order."""
    if request.POST.get("do") != "order":
        return False
    if request.POST.get("quoted") == form.fingerprint():
        return True
    messages.warning(request, ORDER_CHANGED)
    return False


def _order_run(request: HttpRequest, form: OrderForm, offer: Offer) -> HttpResponse:
    cap, now = form.cleaned_data["cap"], timezone.now()
    # Before the probe, which costs a few tokens.
    runs.rehearse_payment(team=form.arena.team, quote=offer.quote, cap=cap)
    probe_judges(specs=[member.spec for member in offer.order.members], now=now)
    run = runs.order_run(order=offer.order, cap=cap, now=now, by=actor_of(request))
    enqueue_on_commit()
    return redirect(f"{run_url(run)}#main")


def _render_order_page(
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
        "only_scripted": all_endpoints().keys() <= {SCRIPTED},
        "like_run": _repeated_run(form),
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


def _repeated_run(form: OrderForm) -> int | None:
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
