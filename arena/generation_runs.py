"""Runs that generate a candidate's answers: quote, order, report.

The engine (`arena.services.runs`) opens, pauses, resumes and cancels them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Avg, Count, Min, Q, QuerySet, Sum

from arena.actors import Actor
from arena.calls import money
from arena.calls.models import Call, RunRequester
from arena.calls.prices import Rate, price_of
from arena.calls.providers.base import Request
from arena.calls.scheduling import calls_under_way
from arena.endpoints import UnknownEndpointError, endpoint_named
from arena.errors import BusyError
from arena.generation import (
    RETIRED,
    AnswerHandler,
    GenerationError,
    NothingToAskError,
    reconcile_runs,
    request_for,
    save_abandoned_responses,
    without_answer,
)
from arena.models import Candidate, Prompt, Response, Run, Team
from arena.models.prompts import prompt_of, subject_of
from arena.models.runs import RunErrors, RunProgress, count_errors
from arena.prompting.templates import TemplateError
from arena.services import runs
from arena.services.candidate_checks import SENT, check_is_open
from arena.services.locks import exclusive_lock, lock_revealed, retry_on_deadlock

NO_PROMPTS = "This arena has no prompts yet. Add prompts first."
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
    unpriced: tuple[str, str] | None = None

    @property
    def is_free(self) -> bool:
        return self.worst == 0

    def __add__(self, other: "AnswerQuote") -> "AnswerQuote":
        return AnswerQuote(
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
            expected=_sum_of(self.expected, other.expected),
            worst=_sum_of(self.worst, other.worst),
            unpriced=self.unpriced or other.unpriced,
        )


NOTHING_QUOTED = AnswerQuote(calls=0, tokens_in=0, tokens_out=0, expected=0, worst=0)


def _sum_of(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True)
class AnswerRequest:
    """What to order once the lock on orders is held: answers to `prompts`, or to all."""

    kind = Run.Kind.ANSWERS
    candidate: Candidate
    prompts: Sequence[Prompt] | None = None


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
    if candidate.retired_at is not None:
        raise GenerationError("This candidate is archived, so no answers can be generated for it.")
    if not candidate.endpoint:
        raise GenerationError("This candidate has no endpoint; upload its answers instead.")
    try:
        endpoint_named(candidate.endpoint)
    except UnknownEndpointError as error:
        raise GenerationError(str(error)) from None
    open_prompts = unanswered_prompts(candidate)
    if prompts is not None:
        named = {prompt.pk for prompt in prompts}
        open_prompts = [prompt for prompt in open_prompts if prompt.pk in named]
    if not open_prompts:
        raise NothingToAskError(_nothing_to_ask(candidate))
    left_out: list[str] = []
    asked = _without_text(_without_ended(candidate, open_prompts, left_out), left_out)
    order = _order_of(candidate, asked, left_out)
    if not order.prompts:
        # Templates that cannot be filled can be fixed; all other prompts were asked before.
        error_class = GenerationError if asked else NothingToAskError
        raise error_class(" ".join(["No prompts are left to answer.", *left_out]))
    return order


def quote_draft(*, draft: Candidate, prompts: Sequence[Prompt]) -> AnswerOrder:
    """Plan the answers to `prompts` of a candidate that is not saved; neither need the prompts be.

    The quote is the one that the saved candidate gets. Nothing is written.
    """
    left_out: list[str] = []
    return _order_of(draft, _without_text(prompts, left_out), left_out)


def _order_of(candidate: Candidate, prompts: Sequence[Prompt], left_out: list[str]) -> AnswerOrder:
    requests = _requests_for_prompts(candidate, prompts, left_out)
    quote = _quote_of(candidate, [request for _, request in requests])
    return AnswerOrder(candidate, [prompt for prompt, _ in requests], quote, left_out)


def unanswered_prompts(candidate: Candidate) -> list[Prompt]:
    """Return the arena's active prompts to which the candidate has no answer."""
    active = Prompt.objects.active().filter(arena=candidate.arena_id)
    return list(active.filter(~Q(responses__candidate=candidate)).order_by("pk"))


def _nothing_to_ask(candidate: Candidate) -> str:
    if not Prompt.objects.active().filter(arena=candidate.arena_id).exists():
        return NO_PROMPTS
    return "This candidate has answered every prompt."


def _without_ended(
    candidate: Candidate, prompts: Sequence[Prompt], left_out: list[str]
) -> list[Prompt]:
    """Leave out prompts that the model refused or could not finish, as it would do so again."""
    ended = Call.objects.filter(requester=candidate.requester, sample=0, state__in=NOT_AGAIN)
    closed = {prompt_of(subject) for subject in ended.values_list("subject", flat=True)}
    left = [prompt for prompt in prompts if prompt.pk not in closed]
    if n := len(prompts) - len(left):
        left_out.append(
            f"{_n_prompts(n)} left out because the model refused or its answer exceeded "
            "the limit. A new version of the candidate will ask again."
        )
    return left


def _without_text(prompts: Sequence[Prompt], left_out: list[str]) -> list[Prompt]:
    left = [prompt for prompt in prompts if prompt.text.strip() or prompt.variables]
    if n := len(prompts) - len(left):
        left_out.append(f"{_n_prompts(n)} left out because the text was not imported.")
    return left


def _requests_for_prompts(
    candidate: Candidate, prompts: Sequence[Prompt], left_out: list[str]
) -> list[tuple[Prompt, Request]]:
    """Return prompts with their requests, leaving out those that the templates do not fit."""
    requests, problems = [], []
    for prompt in prompts:
        try:
            requests.append((prompt, money.limited(request_for(candidate, prompt))))
        except TemplateError as error:
            problems.append(str(error))
    if problems:
        left_out.append(
            f"{_n_prompts(len(problems))} left out because the templates cannot be filled. "
            f"First problem: {problems[0]}"
        )
    return requests


def _n_prompts(n: int) -> str:
    return "1 prompt is" if n == 1 else f"{n:,} prompts are"


def _quote_of(candidate: Candidate, requests: Sequence[Request]) -> AnswerQuote:
    """Expected: four characters per token, and answers of this model's mean length so far.

    Worst: one token per byte, and answers of the maximum length. Retries come on top, within the
    cap.
    """
    rate = price_of(candidate.endpoint, candidate.model)
    longest = max(map(money.most_out, requests), default=0)
    typical = min(_typical_answer_tokens(candidate), longest)
    return AnswerQuote(
        calls=len(requests),
        tokens_in=sum(map(money.expected_tokens_in, requests)),
        tokens_out=typical * len(requests),
        expected=_total_cost(
            rate, lambda rate, request: money.expected_cost(rate, request, typical), requests
        ),
        worst=_total_cost(rate, money.worst_cost, requests),
        unpriced=(candidate.endpoint, candidate.model) if rate is None else None,
    )


def _total_cost(
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


BATCH = 500
BUSY = "A run for this candidate is being started. Wait a moment, then try again."
UNDER_WAY = (
    "Run {run} of this candidate is unfinished. Resume or cancel it before starting another."
)
CHANGED = (
    "The candidate changed while the run was being started, so nothing was started. Review it, "
    "then try again."
)


class AnswersBusyError(GenerationError, BusyError):
    """The candidate's answers are being ordered at this moment."""


class UnderWayError(GenerationError):
    """The candidate's answers are already being generated, by `run`."""

    def __init__(self, run: Run) -> None:
        super().__init__(UNDER_WAY.format(run=run.pk))
        self.run = run


class AnswerRunHandler(runs.RunHandler):
    """Runs that generate answers; one at a time for each candidate."""

    calls = AnswerHandler()
    ordered = "ordered answers"
    failures = "answers"

    def lock(self, about: AnswerRequest | Run) -> AbstractContextManager[None]:
        assert about.candidate is not None, "a database constraint"
        return one_order_at_a_time(candidate=about.candidate)

    def prepare(self, order: AnswerRequest, now: datetime) -> AnswerOrder:
        candidate = order.candidate
        _check_no_other(candidate, now)
        save_abandoned_responses(candidate=candidate)
        return prepare_order(candidate=candidate, prompts=order.prompts)

    def draft(self, order: AnswerOrder, by: Actor) -> Run:
        candidate = order.candidate
        lock_revealed(candidate.arena_id)
        check_is_open(candidate, by=by)
        # Lock the candidate's row. Raises GenerationError if it differs from what was quoted.
        locked = Candidate.objects.select_for_update(of=("self",), no_key=True).get(pk=candidate.pk)
        if any(getattr(locked, name) != getattr(candidate, name) for name in (*SENT, "retired_at")):
            raise GenerationError(CHANGED)
        # On SQLite the lock on orders ends before a transaction around them does.
        if run := unfinished_run(candidate):
            raise UnderWayError(run)
        return Run(
            arena=candidate.arena,
            kind=Run.Kind.ANSWERS,
            candidate=candidate,
            team=payer_of(candidate),
            votes_wanted=order.quote.calls,
        )

    def begin(self, order: AnswerOrder, run: Run, now: datetime) -> "AnswerRunWriter":
        """Write the first calls too, which make the candidate immutable."""
        candidate = order.candidate
        RunRequester.objects.create(
            run=run,
            requester=candidate.requester,
            endpoint=candidate.endpoint,
            model=candidate.model,
        )
        _write_calls(run, candidate, order.prompts[:BATCH], now)
        return AnswerRunWriter(order, run, now)

    def details(self, order: AnswerOrder) -> Mapping[str, object]:
        return {"answers": order.quote.calls}

    def check_active(self, run: Run) -> None:
        """Raise RunError for an archived candidate, whose run would hold money for nothing.

        Archiving waits for this transaction, and then finds a run to cancel.
        """
        candidates = Candidate.objects.select_for_update(no_key=True)
        if candidates.get(pk=run.candidate_id).retired_at is not None:
            raise runs.RunError(RETIRED)

    def reconcile(self, now: datetime) -> None:
        reconcile_runs(now=now)


@dataclass(frozen=True)
class AnswerRunWriter:
    """Writes the calls of a run after its first ones."""

    order: AnswerOrder
    run: Run
    now: datetime

    def write(self) -> None:
        prompts = self.order.prompts
        for start in range(BATCH, len(prompts), BATCH):
            _write_calls(self.run, self.order.candidate, prompts[start : start + BATCH], self.now)


def order_answers(
    *,
    candidate: Candidate,
    by: Actor,
    cap: int | None,
    now: datetime,
    prompts: Sequence[Prompt] | None = None,
) -> Run:
    """Create and open a run with one call per prompt that the candidate has not answered.

    It never spends more than `cap` nano-dollars; a free run needs no cap. Raises GenerationError,
    UnderWayError, RunError, BudgetError, and CandidateError in an arena that is closed to the
    candidate's team.
    """
    request = AnswerRequest(candidate, prompts)
    return runs.order_run(order=request, cap=cap, now=now, by=by)


def order_answers_of_all(
    *, candidates: Sequence[Candidate], by: Actor, cap: int | None, now: datetime
) -> list[Run]:
    """Order the answers of each candidate; together, the runs never spend more than `cap`.

    Each run gets its share of the cap, by its highest possible cost. Raises what `order_answers`
    raises; the runs ordered until then go on.
    """
    worst = [prepare_order(candidate=candidate).quote.worst or 0 for candidate in candidates]
    shares = [None if cap is None else cap * share // sum(worst) if share else 0 for share in worst]
    return [
        order_answers(candidate=candidate, by=by, cap=share, now=now)
        for candidate, share in zip(candidates, shares, strict=True)
    ]


def quote_answers(*, candidate: Candidate, by: Actor) -> AnswerOrder:
    """Return what an order would contain now, whatever the cap; nothing is written.

    Raises what `order_answers` raises, except BudgetError.
    """
    if run := unfinished_run(candidate):
        raise UnderWayError(run)
    with transaction.atomic():
        check_is_open(candidate, by=by)
    order = prepare_order(candidate=candidate)
    runs.check_cap(order.quote, order.quote.worst)
    return order


def one_order_at_a_time(*, candidate: Candidate) -> AbstractContextManager[None]:
    """Hold the lock on the candidate's orders. Raises GenerationError if it is taken."""
    return exclusive_lock(f"answers-{candidate.pk}", busy=AnswersBusyError(BUSY))


def unfinished_run(candidate: Candidate) -> Run | None:
    """Return the candidate's run that is ordered, open or paused."""
    unfinished = Run.objects.of_answers().filter(state__in=runs.UNFINISHED)
    return unfinished.filter(candidate=candidate).first()


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
    runs.cancel_unopened(Run.objects.filter(pk=run.pk), now)


@retry_on_deadlock
@transaction.atomic
def _write_calls(run: Run, candidate: Candidate, prompts: Sequence[Prompt], now: datetime) -> None:
    """Write some of a run's calls, unless it was cancelled."""
    if not runs.is_being_written(run):
        return
    drafts = [
        Call(
            run=run,
            requester=candidate.requester,
            subject=subject_of(prompt.pk),
            endpoint=candidate.endpoint,
            model=candidate.model,
            due_at=now,
            enqueue_after=now,
        )
        for prompt in prompts
    ]
    runs.create_calls(drafts=drafts, now=now)


State = Call.State
ENDINGS = {
    State.DONE: "Answered",
    State.REFUSED: "Refused",
    State.TOO_LONG: "Too long",
    State.UNREADABLE: "Unreadable",
    State.FAILED: "Failed",
}


# States of calls that ended without an answer.
UNANSWERED = [state for state in ENDINGS if state != State.DONE]


@dataclass(frozen=True)
class AnswerReport(RunProgress):
    """A run's calls by state and its money in nano-dollars; `seconds` is the mean of an answer.

    `waiting_for` counts the calls, of any run, that its endpoints are answering, by name.
    """

    run: Run
    states: dict[str, int]
    requests: int
    tokens_in: int
    tokens_out: int
    seconds: float | None
    next_due_at: datetime | None
    waiting_for: dict[str, int]
    errors: RunErrors

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
    def results(self) -> int:
        return self.states[State.DONE]

    @property
    def failures(self) -> int:
        return self.states[State.FAILED]


def errors_in(run_ids: Collection[int]) -> dict[int, RunErrors]:
    """Return why prompts got no answer, by run, in one query."""
    calls = Call.objects.filter(run__in=run_ids, state__in=UNANSWERED).order_by()
    rows = calls.values_list("run", "state", "error").annotate(Count("pk"))
    return count_errors(
        (run_id, error or ENDINGS[State(state)], n) for run_id, state, error, n in rows
    )


def report_on(run_id: int, now: datetime) -> AnswerReport:
    """Count a run in at most five queries."""
    run = Run.objects.select_related("arena", "candidate__team", "team").get(pk=run_id)
    rows = Call.objects.filter(run=run).order_by().values_list("state").annotate(Count("pk"))
    states = dict.fromkeys(State.values, 0) | dict(rows)
    has_failed = any(states[state] for state in UNANSWERED)
    return AnswerReport(
        run,
        states,
        **Call.objects.filter(run=run).aggregate(
            requests=Sum("requests", default=0),
            tokens_in=Sum("tokens_in", default=0),
            tokens_out=Sum("tokens_out", default=0),
            seconds=Avg("seconds", filter=Q(state=State.DONE)),
            next_due_at=Min("due_at", filter=Q(state=State.WAITING)),
        ),
        waiting_for=calls_under_way(run=run, now=now),
        errors=errors_in([run.pk]).get(run.pk, RunErrors()) if has_failed else RunErrors(),
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
