"""Generating a candidate's answers: the quote on its page, and the run's page and controls."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from arena import generation_runs
from arena.actors import Actor, actor_of
from arena.calls.money import dollars
from arena.errors import ServiceError
from arena.forms.base import CapForm, SteerForm, errors_as_messages
from arena.generation_runs import (
    NO_PROMPTS,
    NOTHING_QUOTED,
    UNANSWERED,
    AnswerOrder,
    AnswerQuote,
    answers_of,
    failures_of,
    payer_of,
    prepare_order,
    quote_draft,
    report_on,
    unfinished_run,
    with_prompts,
)
from arena.models import Candidate, Prompt, Run, Team
from arena.models.runs import RunProgress
from arena.permissions import can_change, can_read_money
from arena.services import runs as run_service
from arena.services.budgets import budget_left
from arena.services.runs import check_cap
from arena.tasks import enqueue_on_commit
from arena.validation import in_dollars
from arena.views.arena_context import ArenaContext, require_permission

LISTED_RUNS = 10
ROWS_PER_PAGE = 20


def steer(request: HttpRequest, run: Run, *, kept: str, retrying: str) -> None:
    """Carry out a posted SteerForm, and leave a message about it or about why it cannot be done.

    `kept` is the message about what a cancelled run leaves behind, `retrying` the one about
    failures that are tried again.
    """
    form = SteerForm(request.POST)
    if not form.is_valid():
        _show_form_errors(request, form)
        return
    with errors_as_messages(request):
        by = actor_of(request)
        message = _steer_run(run, by, **form.cleaned_data, kept=kept, retrying=retrying)
        messages.success(request, message)
        enqueue_on_commit()


def _steer_run(
    run: Run, by: Actor, action: str, cap: int | None, *, kept: str, retrying: str
) -> str:
    now = timezone.now()
    if action == "pause":
        run_service.pause(run=run, by=by)
        return "Run paused. Calls in progress will finish."
    if action == "resume":
        run_service.resume(run=run, by=by, now=now, cap=cap)
        return "Run resumed."
    if action == "cancel":
        run_service.cancel(run=run, by=by, now=now)
        return f"Run cancelled. {kept}"
    run_service.retry_failed(run=run, by=by, now=now)
    return retrying


def progress_of(report: RunProgress, now: datetime) -> dict[str, Any]:
    """The context of the upper part of a run's page, which is polled during the run."""
    return {
        "report": report,
        "run": report.run,
        "failed": report.errors.failed,
        "total": report.total,
        "results": report.results,
        "per_minute": report.per_minute(now),
        "seconds_left": report.seconds_left(now),
        "cap_in_dollars": in_dollars(report.run.cap),
        "can_retry": report.can_retry,
    }


def _show_form_errors(request: HttpRequest, form: Form) -> None:
    for errors in form.errors.values():
        messages.error(request, " ".join(map(str, errors)))


@dataclass(frozen=True)
class Generation:
    """The next run of a candidate with its quote, or the reason why it cannot start.

    `budget_left` is what the paying team has left, in nano-dollars; None if no team pays.
    """

    order: AnswerOrder | None
    refusal: str
    unfinished: Run | None
    runs: list[Run]
    budget_left: int | None

    @property
    def suggested_cap(self) -> str:
        """The highest possible cost, in dollars for the form."""
        return in_dollars(self.order.quote.worst) if self.order else ""


def generation_of(candidate: Candidate) -> Generation | None:
    """Return the context of `manage/_generate.html`; None if the answers are uploaded."""
    if not candidate.endpoint:
        return None
    unfinished = unfinished_run(candidate)
    order, refusal = (None, "") if unfinished else _try_to_order(candidate)
    unanswered = Count("calls", filter=Q(calls__state__in=UNANSWERED))
    runs = Run.objects.of_answers().filter(candidate=candidate).annotate(failed_count=unanswered)
    runs = runs.order_by("-pk")[:LISTED_RUNS]
    left = left_for(payer_of(candidate))
    return Generation(order, refusal, unfinished, list(runs), left)


def _try_to_order(candidate: Candidate) -> tuple[AnswerOrder | None, str]:
    try:
        order = prepare_order(candidate=candidate)
        check_cap(order.quote, order.quote.worst)
    except ServiceError as error:
        return None, error.message
    return order, ""


NOTHING_LEFT = (
    "The answers may cost up to {}, and the team has no budget left for models. Add the candidates"
    " now, and ask an administrator for a budget to generate the answers later."
)


@dataclass(frozen=True)
class AnswerOffer:
    """What the answers of candidates that are not registered yet will cost, or why they cannot be
    generated. `left` is what the paying team has left; None if no team pays."""

    orders: Sequence[AnswerOrder]
    refusal: str
    left: int | None

    @property
    def quote(self) -> AnswerQuote:
        return sum((order.quote for order in self.orders), NOTHING_QUOTED)

    @property
    def suggested_cap(self) -> str:
        """The highest possible cost, or what is left, in dollars for the form."""
        worst = self.quote.worst
        return in_dollars(worst if worst is None or self.left is None else min(worst, self.left))

    @property
    def left_out(self) -> list[str]:
        return [
            f"{order.candidate.name}: {sentence}"
            for order in self.orders
            for sentence in order.left_out
        ]


def offer_for(
    drafts: Sequence[Candidate], prompts: Sequence[Prompt], *, left: int | None
) -> AnswerOffer | None:
    """Return the offer for unsaved candidates; None if their answers are uploaded."""
    if not all(draft.endpoint for draft in drafts):
        return None
    orders = [quote_draft(draft=draft, prompts=prompts) for draft in drafts]
    offer = AnswerOffer(orders, "" if prompts else NO_PROMPTS, left)
    if offer.refusal:
        return offer
    try:
        check_cap(offer.quote, offer.quote.worst)
    except ServiceError as error:
        return replace(offer, refusal=error.message)
    if offer.quote.worst and left == 0:
        return replace(offer, refusal=NOTHING_LEFT.format(dollars(offer.quote.worst)))
    return offer


def left_for(team: Team | None) -> int | None:
    return None if team is None else max(0, budget_left(team))


def cap_for(offer: AnswerOffer, cap: int | None) -> int | None:
    """Return the cap of an accepted offer; a free one needs none. Raises RunError."""
    cap = None if offer.quote.is_free else cap
    check_cap(offer.quote, cap)
    return cap


def generate_for_all(
    request: HttpRequest, made: Sequence[Candidate], cap: int | None
) -> HttpResponse:
    """Order the answers of new candidates, and lead to where their progress is shown."""
    arena = made[0].arena
    with errors_as_messages(request):
        runs = generation_runs.order_answers_of_all(
            candidates=made, by=actor_of(request), cap=cap, now=timezone.now()
        )
        enqueue_on_commit()
        if len(runs) == 1:
            return _to_run(runs[0])
    return redirect("manage_arena", arena.slug)


@require_permission("can_visit")
@require_POST
def order_answers(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Start a run that generates the missing answers."""
    candidate = context.find_candidate_to_change(pk)
    form = CapForm(request.POST)
    if not form.is_valid():
        _show_form_errors(request, form)
        return _to_candidate(candidate)
    try:
        run = generation_runs.order_answers(
            candidate=candidate,
            by=context.actor,
            cap=form.cleaned_data["cap"],
            now=timezone.now(),
        )
    except generation_runs.UnderWayError as error:
        messages.warning(request, error.message)
        return _to_run(error.run)
    except ServiceError as error:
        messages.error(request, error.message)
        return _to_candidate(candidate)
    enqueue_on_commit()
    return _to_run(run)


def _to_run(run: Run) -> HttpResponse:
    return redirect("answer_run", run.in_arena.slug, run.pk)


def _to_candidate(candidate: Candidate) -> HttpResponse:
    response = redirect("manage_candidate", candidate.arena.slug, candidate.pk)
    response["Location"] += "#generate"
    return response


@require_permission("can_visit")
@require_safe
@vary_on_headers("HX-Request")
def answer_run(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Show a run's progress, its failures and its answers.

    While the run is active, only the upper part of the page refreshes, so as not to disturb people
    who read the answers below.
    """
    run, candidate = _find_run(context, pk)
    now = timezone.now()
    progress = progress_of(report_on(run.pk, now), now) | {
        "candidate": candidate,
        "can_steer": can_change(context.actor, candidate),
        "can_read_money": can_read_money(context.actor, candidate),
    }
    if request.headers.get("HX-Request"):
        progress["state_changed"] = request.GET.get("seen") != progress["run"].state
        progress["arena"] = context.arena
        return render(request, "manage/_answers_progress.html", progress)
    failures = Paginator(failures_of(run), ROWS_PER_PAGE).get_page(request.GET.get("failures"))
    answers = Paginator(answers_of(run), ROWS_PER_PAGE).get_page(request.GET.get("page"))
    return context.render(
        "manage/answers.html",
        tab="candidates",
        failures_page=failures,
        failures=with_prompts(list(failures)),
        answers=answers,
        **progress,
    )


@require_permission("can_visit")
@require_POST
def steer_answers(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Pause, resume or cancel a run, or retry its failures."""
    run, candidate = _find_run(context, pk)
    context.find_candidate_to_change(candidate.pk)
    kept, retrying = "Answers received so far are kept.", "Retrying the failed prompts."
    steer(request, run, kept=kept, retrying=retrying)
    return _to_run(run)


def _find_run(context: ArenaContext, pk: int) -> tuple[Run, Candidate]:
    """Return a run of this arena and its candidate, whose texts the reader may see; else 404."""
    runs = Run.objects.of_answers().select_related("team", "candidate")
    run = get_object_or_404(runs, pk=pk, arena=context.arena)
    assert run.candidate_id is not None, "a database constraint"
    return run, context.find_candidate(run.candidate_id)
