"""Ordering a run of judges: what it would cost, what the judge is sent, then the order itself."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from arena.access import actor_of
from arena.models import Arena
from arena.services.arenas import ArenaRefused, update_arena
from arena.services.budgets import budget_left
from judges.forms import CriteriaForm, OrderForm, has_other_endpoints
from judges.pages.addresses import run_url
from judges.pages.offers import Offer, make_offer
from judges.services import ordering
from judges.services.probing import probe_judges
from judges.services.registering import JudgeRefused
from judges.views.access import for_judging
from judges.views.bells import ring_on_commit

CHANGED = (
    "The order was changed since it was quoted, so nothing was ordered. "
    "Look at the new figures, then order."
)
NO_CAP = "Fill in what the run may cost at most, in dollars. It cannot be ordered without."


@require_http_methods(["GET", "HEAD", "POST"])
@for_judging
def order_run(request: HttpRequest, arena: Arena) -> HttpResponse:
    """The form. Its first button quotes on the same page, its second one orders."""
    actor = actor_of(request)
    if request.method != "POST":
        form = OrderForm(arena=arena, actor=actor, initial=_preset(request, arena))
        return _page(request, arena, form)
    form, offer = OrderForm(request.POST, arena=arena, actor=actor), None
    try:
        offer = _offer(form) if form.can_be_quoted() else None
        if offer and form.is_valid() and _is_ordered(request, form):
            return _order(request, form, offer)
    except JudgeRefused as refusal:
        form.add_error(None, str(refusal))
    return _page(request, arena, form, offer)


@require_POST
@for_judging
def set_arena_criteria(request: HttpRequest, arena: Arena) -> HttpResponse:
    """Say what makes an answer better in this arena."""
    actor, form = actor_of(request), CriteriaForm(request.POST)
    unordered = OrderForm(arena=arena, actor=actor)
    if not form.is_valid():
        return _page(request, arena, unordered, criteria_form=form)
    try:
        update_arena(arena=arena, by=actor, criteria=form.cleaned_data["criteria"])
    except ArenaRefused as refusal:
        form.add_error("criteria", str(refusal))
        return _page(request, arena, unordered, criteria_form=form)
    messages.success(request, "The criteria are saved. The next run is judged by them.")
    return redirect(f"{reverse('order_run', args=[arena.slug])}#main")


def _preset(request: HttpRequest, arena: Arena) -> dict[str, Any]:
    """What a link may fill in: the run whose comparisons another judge is to answer too, or which
    candidates are compared, how often, and whether again."""
    wanted = request.GET.get("like_run", "")
    run = arena.runs.filter(pk=wanted).first() if wanted.isdecimal() else None
    if run is not None:
        return {"like_run": run.pk, "per_pair": run.per_pair}
    filled: dict[str, Any] = {"candidates": request.GET.getlist("candidate")}
    if request.GET.get("again"):
        filled["again"] = True
    if (per_pair := request.GET.get("per_pair", "")).isdecimal() and len(per_pair) < 5:
        filled["per_pair"] = int(per_pair)
    return filled


def _offer(form: OrderForm) -> Offer:
    chosen = form.cleaned_data
    return make_offer(
        arena=form.arena,
        judges=form.names(),
        wanted=form.wanted(),
        own_family=chosen["own_family"],
        quorum=chosen["quorum"],
    )


def _is_ordered(request: HttpRequest, form: OrderForm) -> bool:
    """Was the second button pressed, and has the quote above it been for just this order?"""
    if request.POST.get("do") != "order":
        return False
    if request.POST.get("quoted") == form.fingerprint():
        return True
    messages.warning(request, CHANGED)
    return False


def _order(request: HttpRequest, form: OrderForm, offer: Offer) -> HttpResponse:
    _check_cap(offer, form.cleaned_data["cap"])
    cap, now = form.cleaned_data["cap"], timezone.now()
    # First: looking at a model costs a few tokens.
    ordering.check_budget(team=form.arena.team, quote=offer.quote, cap=cap)
    probe_judges(specs=[member.spec for member in offer.order.members], now=now)
    run = ordering.order_run(order=offer.order, cap=cap, now=now, by=actor_of(request))
    ring_on_commit()
    return redirect(f"{run_url(run)}#main")


def _page(
    request: HttpRequest,
    arena: Arena,
    form: OrderForm,
    offer: Offer | None = None,
    criteria_form: CriteriaForm | None = None,
) -> HttpResponse:
    context = {
        "arena": arena,
        "form": form,
        "criteria_form": criteria_form or CriteriaForm(initial={"criteria": arena.criteria}),
        "only_scripted": not has_other_endpoints(),
        "like_run": _like_run(form),
        "budget_left": budget_left(arena.team) if arena.team else None,
    }
    if offer is not None:
        context |= {"quote": offer.quote, "quoted": form.fingerprint()}
        context["preview"] = offer.preview(_number(request))
        context["refused"] = "" if form.errors else _why_not(offer, form.cleaned_data["cap"])
    return render(request, "judges/order.html", context)


def _like_run(form: OrderForm) -> int | None:
    """The run whose comparisons are asked of another judge."""
    if not form.is_bound:
        found: int | None = form.initial.get("like_run")
        return found
    run = getattr(form, "cleaned_data", {}).get("like_run")
    return run.pk if run else None


def _number(request: HttpRequest) -> int:
    asked = request.POST.get("preview", "")
    return int(asked) if asked.isdecimal() and len(asked) < 9 else 1


def _why_not(offer: Offer, cap: int | None) -> str:
    """Why an order by this quote would be turned down; '' where it would not."""
    try:
        _check_cap(offer, cap)
    except JudgeRefused as refusal:
        return str(refusal)
    return ""


def _check_cap(offer: Offer, cap: int | None) -> None:
    """As `ordering.check_cap`, but a cap that is missing is asked for by its name on the page."""
    if cap is None and offer.quote.worst:
        raise JudgeRefused(NO_CAP)
    ordering.check_cap(offer.quote, cap)
