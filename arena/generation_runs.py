"""Runs that generate a candidate's answers: quote, order, resume, report.

A run opens once all of its calls are written, by whoever holds the lock on the candidate's orders;
an open run in which no call waits would be closed.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Avg, Count, Min, Q, QuerySet, Sum

from arena.actors import Actor
from arena.calls import money
from arena.calls.models import Call, RunAsker
from arena.calls.money import cap_in_words
from arena.calls.pricing import Rate, price_of
from arena.calls.providers.base import Request
from arena.calls.runs import cancel_run, create_calls, reopen_run, resume_run, why_not
from arena.calls.scheduling import calls_under_way, given_up_on_failure
from arena.endpoints import UnknownEndpointError, endpoint_named
from arena.generation import (
    GenerationError,
    NothingToAskError,
    request_for,
    save_abandoned_responses,
    without_answer,
)
from arena.models import Candidate, Prompt, Response, Run, Team
from arena.models.arenas import prompt_of, subject_of
from arena.prompting.templates import TemplateError
from arena.services import audit
from arena.services.candidate_checks import check_is_open
from arena.services.locks import exclusive_lock, retry_on_deadlock
from arena.services.runs import (
    RunError,
    reopen_with,
    reserve_budget,
    resume_with,
)
from arena.services.runs import cancel as cancel
from arena.services.runs import pause as pause

TYPICAL_ANSWER_TOKENS = 300
# The same request would end the same way again.
NOT_AGAIN = [Call.State.REFUSED, Call.State.TOO_LONG, Call.State.UNREADABLE]


@dataclass(frozen=True)
class AnswerQuote:
    """Calls, tokens, and expected and highest cost in nano-dollars (None without a price)."""

    calls: int
    tokens_in: int
    tokens_out: int
    expected: int | None
    worst: int | None

    @property
    def is_free(self) -> bool:
        return self.worst == 0


@dataclass(frozen=True)
class AnswerOrder:
    """The prompts to be answered, and sentences about those left out."""

    candidate: Candidate
    prompts: Sequence[Prompt]
    quote: AnswerQuote
    left_out: list[str] = field(default_factory=list)


def prepare_order(*, candidate: Candidate, prompts: Sequence[Prompt] | None = None) -> AnswerOrder:
    """Plan the answers to all active prompts, or to `prompts`; nothing is written.

    Raises GenerationError, or NothingToAskError if no answer is missing.
    """
    _check(candidate)
    open_prompts = unanswered_prompts(candidate)
    if prompts is not None:
        named = {prompt.pk for prompt in prompts}
        open_prompts = [prompt for prompt in open_prompts if prompt.pk in named]
    if not open_prompts:
        raise NothingToAskError(_nothing_to_ask(candidate))
    left_out: list[str] = []
    asked = _without_text(_without_ended(candidate, open_prompts, left_out), left_out)
    requests = _requests(candidate, asked, left_out)
    if not requests:
        # Templates that cannot be filled can be fixed; all other prompts were asked before.
        error_class = GenerationError if asked else NothingToAskError
        raise error_class(" ".join(["No prompts are left to answer.", *left_out]))
    chosen = [prompt for prompt in asked if prompt.pk in requests]
    return AnswerOrder(candidate, chosen, _quote(candidate, list(requests.values())), left_out)


def unanswered_prompts(candidate: Candidate) -> list[Prompt]:
    """Return the arena's active prompts to which the candidate has no answer."""
    active = Prompt.objects.active().filter(arena=candidate.arena_id)
    return list(active.filter(~Q(responses__candidate=candidate)).order_by("pk"))


def _check(candidate: Candidate) -> None:
    if candidate.retired_at is not None:
        raise GenerationError("This candidate is archived, so no answers can be generated for it.")
    if not candidate.endpoint:
        raise GenerationError("This candidate has no endpoint; upload its answers instead.")
    try:
        endpoint_named(candidate.endpoint)
    except UnknownEndpointError as error:
        raise GenerationError(str(error)) from None


def _nothing_to_ask(candidate: Candidate) -> str:
    if not Prompt.objects.active().filter(arena=candidate.arena_id).exists():
        return "This arena has no prompts yet. Add prompts first."
    return "This candidate has answered every prompt."


# -- Prompts that are left out ---------------------------------------------------------------------


def _without_ended(
    candidate: Candidate, prompts: Sequence[Prompt], left_out: list[str]
) -> list[Prompt]:
    """Leave out prompts that the model refused or could not finish, and would again."""
    ended = Call.objects.filter(asker=candidate.asker, sample=0, state__in=NOT_AGAIN)
    closed = {prompt_of(subject) for subject in ended.values_list("subject", flat=True)}
    left = [prompt for prompt in prompts if prompt.pk not in closed]
    if n := len(prompts) - len(left):
        left_out.append(
            f"{_prompts(n)} left out because the model refused or its answer exceeded the limit. "
            "A new version of the candidate asks again."
        )
    return left


def _without_text(prompts: Sequence[Prompt], left_out: list[str]) -> list[Prompt]:
    left = [prompt for prompt in prompts if prompt.text.strip() or prompt.variables]
    if n := len(prompts) - len(left):
        left_out.append(f"{_prompts(n)} left out because the text was not imported.")
    return left


def _requests(
    candidate: Candidate, prompts: Sequence[Prompt], left_out: list[str]
) -> dict[int, Request]:
    """Map prompts to their requests, leaving out those that the templates do not fit."""
    requests, problems = {}, []
    for prompt in prompts:
        try:
            requests[prompt.pk] = money.limited(request_for(candidate, prompt))
        except TemplateError as error:
            problems.append(str(error))
    if problems:
        left_out.append(
            f"{_prompts(len(problems))} left out because the templates cannot be filled. First "
            f"problem: {problems[0]}"
        )
    return requests


def _prompts(n: int) -> str:
    return "1 prompt is" if n == 1 else f"{n:,} prompts are"


# -- The quote -------------------------------------------------------------------------------------


def _quote(candidate: Candidate, requests: Sequence[Request]) -> AnswerQuote:
    """Expected: four characters per token, and answers of this model's mean length so far.

    Worst: one token per byte, and answers of the highest length. Retries come on top, within the
    cap.
    """
    rate = price_of(candidate.endpoint, candidate.model)
    typical = min(_typical_answer_tokens(candidate), max(map(money.most_out, requests)))
    return AnswerQuote(
        calls=len(requests),
        tokens_in=sum(map(money.expected_tokens_in, requests)),
        tokens_out=typical * len(requests),
        expected=_total(
            rate, lambda rate, request: money.expected_cost(rate, request, typical), requests
        ),
        worst=_total(rate, money.worst_cost, requests),
    )


def _total(
    rate: Rate | None, cost: Callable[[Rate, Request], int], requests: Sequence[Request]
) -> int | None:
    return None if rate is None else sum(cost(rate, request) for request in requests)


def _typical_answer_tokens(candidate: Candidate) -> int:
    """Return the mean length of this model's answers so far."""
    done = Call.objects.filter(
        run__kind="answers",
        endpoint=candidate.endpoint,
        model=candidate.model,
        state=Call.State.DONE,
        tokens_out__gt=0,
    )
    return round(done.aggregate(mean=Avg("tokens_out"))["mean"] or TYPICAL_ANSWER_TOKENS)


# -- Ordering --------------------------------------------------------------------------------------

BATCH = 500
BUSY = "A run for this candidate is being started. Wait a moment, then try again."
UNDER_WAY = (
    "Run {run} of this candidate is unfinished. Resume or cancel it before starting another."
)
NO_CAP = "Enter a spending cap in dollars."
CHANGED = (
    "The candidate changed while the run was being started, so nothing was started. Review it, "
    "then try again."
)
SENT = ("endpoint", "model", "system_prompt", "user_template", "parameters", "retired_at")


class UnderWayError(GenerationError):
    """The candidate's answers are already being generated, by `run`."""

    def __init__(self, run: Run) -> None:
        super().__init__(UNDER_WAY.format(run=run.pk))
        self.run = run


def order_answers(
    *,
    candidate: Candidate,
    by: Actor,
    cap: int | None,
    now: datetime,
    prompts: Sequence[Prompt] | None = None,
) -> Run:
    """Create and open a run with one call per prompt that the candidate has not answered.

    It never spends more than `cap` nano-dollars; a free run needs no cap. It is written in small
    transactions, so that voters never wait for it, and cancelled if one fails. Raises
    GenerationError, UnderWayError, BudgetError, and CandidateError in an arena that is closed to
    the candidate's team.
    """
    with one_order_at_a_time(candidate=candidate):
        _check_no_other(candidate, now)
        save_abandoned_responses(candidate=candidate)
        order = prepare_order(candidate=candidate, prompts=prompts)
        check_cap(candidate, order.quote, cap)
        run = _begin(order, by, None if order.quote.is_free else cap, now)
        with given_up_on_failure(run=run, now=now):
            for start in range(BATCH, len(order.prompts), BATCH):
                _write(run, candidate, order.prompts[start : start + BATCH], now)
            open_run(run=run)
    return run


def quote_answers(*, candidate: Candidate, by: Actor) -> AnswerOrder:
    """Return what an order would contain now, whatever the cap; nothing is written.

    Raises what `order_answers` raises, except BudgetError.
    """
    if run := unfinished_run(candidate):
        raise UnderWayError(run)
    with transaction.atomic():
        check_is_open(candidate, by=by)
    order = prepare_order(candidate=candidate)
    check_cap(candidate, order.quote, order.quote.worst)
    return order


def one_order_at_a_time(*, candidate: Candidate) -> AbstractContextManager[None]:
    """Hold the lock on the candidate's orders. Raises GenerationError if it is taken."""
    return exclusive_lock(f"answers-{candidate.pk}", busy=GenerationError(BUSY))


def unfinished_run(candidate: Candidate) -> Run | None:
    """Return the candidate's run that is ordered, open or paused."""
    states = [Run.State.ORDERED, Run.State.OPEN, Run.State.PAUSED]
    return Run.objects.of_answers().filter(candidate=candidate, state__in=states).first()


def check_cap(candidate: Candidate, quote: AnswerQuote, cap: int | None) -> None:
    """Raise GenerationError if the price is unknown, or the cap is missing or zero."""
    if quote.worst is None:
        raise GenerationError(
            f"{candidate.model} at {candidate.endpoint} has no price. An administrator can set one "
            f"in dollars per million tokens (0 is a price): manage.py price "
            f"{candidate.endpoint} {candidate.model} --input 0 --output 0"
        )
    if quote.is_free:
        return
    if cap is None:
        raise GenerationError(NO_CAP, field="cap")
    if cap <= 0:
        raise GenerationError("This model costs money; enter a cap above $0.", field="cap")


def payer_of(candidate: Candidate) -> Team | None:
    """Return the team whose budget pays for the candidate's answers, or None."""
    return candidate.team or candidate.arena.team


def _check_no_other(candidate: Candidate, now: datetime) -> None:
    """Raise UnderWayError if the candidate has another run; cancel one that was never opened."""
    run = unfinished_run(candidate)
    if run is None:
        return
    if run.state != Run.State.ORDERED:
        raise UnderWayError(run)
    # Nobody is writing it, because this order holds the lock.
    cancel_run(run_id=run.pk, now=now)


@retry_on_deadlock
@transaction.atomic
def _begin(order: AnswerOrder, by: Actor, cap: int | None, now: datetime) -> Run:
    """Write the run and its first calls, which make the candidate immutable."""
    candidate, quote = order.candidate, order.quote
    check_is_open(candidate, by=by)
    _lock_unchanged(candidate)
    # On SQLite the lock on orders ends before a transaction around them does.
    if run := unfinished_run(candidate):
        raise UnderWayError(run)
    team = payer_of(candidate)
    reserve_budget(team=team, cap=cap)
    run = Run.objects.create(
        arena=candidate.arena,
        kind=Run.Kind.ANSWERS,
        candidate=candidate,
        team=team,
        max_calls=quote.calls,
        votes_wanted=quote.calls,
        cap=cap,
        expected_cost=quote.expected,
        worst_cost=quote.worst,
        created_by=by.user,
    )
    RunAsker.objects.create(
        run=run, asker=candidate.asker, endpoint=candidate.endpoint, model=candidate.model
    )
    audit.record(
        team=team,
        by=by,
        action="ordered answers",
        subject=candidate.own_name,
        run=run.pk,
        answers=quote.calls,
        cap=cap_in_words(cap),
    )
    _write(run, candidate, order.prompts[:BATCH], now)
    return run


def _lock_unchanged(candidate: Candidate) -> None:
    """Lock the candidate's row. Raises GenerationError if it differs from what was quoted."""
    locked = Candidate.objects.select_for_update(of=("self",), no_key=True).get(pk=candidate.pk)
    if any(getattr(locked, name) != getattr(candidate, name) for name in SENT):
        raise GenerationError(CHANGED)


@retry_on_deadlock
@transaction.atomic
def _write(run: Run, candidate: Candidate, prompts: Sequence[Prompt], now: datetime) -> None:
    """Write some of a run's calls, unless it was cancelled."""
    locked = Run.objects.select_for_update(of=("self",), no_key=True)
    if locked.get(pk=run.pk).state != Run.State.ORDERED:
        return
    drafts = [
        Call(
            run=run,
            asker=candidate.asker,
            subject=subject_of(prompt.pk),
            endpoint=candidate.endpoint,
            model=candidate.model,
            due_at=now,
            ring_after=now,
        )
        for prompt in prompts
    ]
    create_calls(drafts=drafts, now=now)


def open_run(*, run: Run) -> None:
    """Open a run whose calls are all written; callers hold the lock on the candidate's orders."""
    n_calls = run.calls.count()
    ordered = Run.objects.filter(pk=run.pk, state=Run.State.ORDERED)
    ordered.update(state=Run.State.OPEN, votes_wanted=n_calls)
    run.refresh_from_db()


def cancel_stale_orders(*, now: datetime) -> None:
    """Cancel runs that were never opened, and whose lock nobody holds."""
    stale = Run.objects.of_answers().filter(state=Run.State.ORDERED)
    for candidate in Candidate.objects.filter(pk__in=stale.values("candidate")):
        with suppress(GenerationError), one_order_at_a_time(candidate=candidate):
            for run_id in stale.filter(candidate=candidate).values_list("pk", flat=True):
                cancel_run(run_id=run_id, now=now)


# -- Resuming and retrying -------------------------------------------------------------------------

RETIRED = "The candidate is archived, so no more answers are generated for it."


@transaction.atomic
def resume(*, run: Run, by: Actor, now: datetime, cap: int | None = None) -> None:
    """Resume a run and retry its failed calls, with a new cap in nano-dollars if one is given.

    Raises RunError, BudgetError, and GenerationError while the run is still being written.
    """
    _check_not_archived(run)
    resume_with(partial(_resume, run, now), run=run, by=by, cap=cap)


@transaction.atomic
def retry_failed(*, run: Run, by: Actor, now: datetime) -> None:
    """Retry the failed calls of a finished run. Raises RunError and BudgetError."""
    _check_not_archived(run)
    reopen = partial(_reopen, run, now)
    reopen_with(reopen, run=run, by=by, has_failed=_has_failures, failures="answers")


def _check_not_archived(run: Run) -> None:
    """Raise RunError for an archived candidate, whose run would hold money for nothing.

    Archiving waits for this transaction, and then finds a run to cancel.
    """
    candidates = Candidate.objects.select_for_update(no_key=True)
    if candidates.get(pk=run.candidate_id).retired_at is not None:
        raise RunError(RETIRED)


def _resume(run: Run, now: datetime) -> None:
    if run.state == Run.State.ORDERED:
        resumed = _finish_ordering(run)
    else:
        resumed = resume_run(run_id=run.pk, now=now)
    if not resumed:
        raise RunError(why_not(run, "resumed"))


def _finish_ordering(run: Run) -> bool:
    """Open a run that was never opened. Raises GenerationError while somebody writes it."""
    assert run.candidate is not None, "a database constraint"
    with one_order_at_a_time(candidate=run.candidate):
        open_run(run=run)
    return run.state == Run.State.OPEN


def _reopen(run: Run, now: datetime) -> None:
    if not reopen_run(run_id=run.pk, now=now):
        raise RunError(why_not(run, "reopened"))


def _has_failures(run: Run) -> bool:
    return run.calls.filter(state=Call.State.FAILED).exists()


# -- Reports ---------------------------------------------------------------------------------------

State = Call.State
ENDINGS = {
    State.DONE: "Answered",
    State.REFUSED: "Refused",
    State.TOO_LONG: "Too long",
    State.UNREADABLE: "Unreadable",
    State.FAILED: "Failed",
}


@dataclass(frozen=True)
class AnswerReport:
    """A run's calls by state and its money in nano-dollars; `seconds` is the mean of an answer.

    `waiting_for` counts the calls, of any run, that its endpoints are answering, by name.
    """

    run: Run
    states: dict[str, int]
    requests: int
    under_way: int
    tokens_in: int
    tokens_out: int
    seconds: float | None
    next_due_at: datetime | None
    waiting_for: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.states.values())

    @property
    def settled(self) -> int:
        unsettled = (*Call.GOING_ON, State.CANCELLED)
        return self.total - sum(self.states[state] for state in unsettled)

    @property
    def state_rows(self) -> list[tuple[str, str, int]]:
        """(state, label, count) of the calls that ended."""
        return [(state.value, label, self.states[state]) for state, label in ENDINGS.items()]

    @property
    def failures(self) -> int:
        return self.states[State.FAILED]

    @property
    def spent(self) -> int:
        """What was billed, plus the most that cut-off requests may have cost."""
        return self.run.settled + self.run.uncertain

    @property
    def is_over(self) -> bool:
        return self.run.state in (Run.State.DONE, Run.State.CANCELLED)

    @property
    def goes_on(self) -> bool:
        """Whether more answers will come without anybody's action."""
        return self.run.state in (Run.State.ORDERED, Run.State.OPEN)

    def per_minute(self, now: datetime) -> float | None:
        """Answers per minute from the order until now, or until the run closed."""
        spent = ((self.run.closed_at or now) - self.run.created_at).total_seconds()
        return 60 * self.settled / spent if spent > 0 and self.settled else None

    def seconds_left(self, now: datetime) -> float | None:
        rate = self.per_minute(now)
        return 60 * (self.total - self.settled) / rate if self.goes_on and rate else None


def report_on(run_id: int, now: datetime) -> AnswerReport:
    """Count a run in at most four queries."""
    run = Run.objects.select_related("arena", "candidate__team", "team").get(pk=run_id)
    rows = Call.objects.filter(run=run).order_by().values_list("state").annotate(Count("pk"))
    return AnswerReport(
        run,
        dict.fromkeys(State.values, 0) | dict(rows),
        **_sums(run, now),
        waiting_for=calls_under_way(run=run, now=now),
    )


def _sums(run: Run, now: datetime) -> dict[str, Any]:
    held = Q(state=State.RUNNING, lease_expires_at__gt=now)
    return Call.objects.filter(run=run).aggregate(
        requests=Sum("requests", default=0),
        under_way=Count("pk", filter=held),
        tokens_in=Sum("tokens_in", default=0),
        tokens_out=Sum("tokens_out", default=0),
        seconds=Avg("seconds", filter=Q(state=State.DONE)),
        next_due_at=Min("due_at", filter=Q(state=State.WAITING)),
    )


@dataclass(frozen=True)
class Failure:
    """A prompt that was not answered, and why."""

    prompt: Prompt | None
    label: str
    reason: str


def failures_of(run: Run) -> "QuerySet[Call]":
    """Calls that ended without an answer, failed ones first, annotated `prompt_id`.

    Prompts with an answer uploaded since are left out.
    """
    ended = run.calls.exclude(state__in=[*Call.GOING_ON, State.DONE, State.CANCELLED])
    return without_answer(ended).order_by("state", "pk")


def with_prompts(calls: list[Any]) -> list[Failure]:
    """Attach the prompts of failures, in one query."""
    prompts = Prompt.objects.in_bulk([call.prompt_id for call in calls])
    return [
        Failure(prompts.get(call.prompt_id), ENDINGS[State(call.state)], call.error)
        for call in calls
    ]


def answers_of(run: Run) -> "QuerySet[Response]":
    """The answers that a run has generated, newest first."""
    return Response.objects.filter(call__run=run).select_related("prompt", "call").order_by("-pk")
