"""The run engine: runs of model calls are ordered, opened, paused, resumed, cancelled and retried.

What differs between judge runs, label runs and generated answers is in a RunHandler for each kind.
A run is written in small transactions, so that voters never wait for it, under the lock on such
orders, and opens once all of it is written: an open run with nothing waiting is closed, and
anything added later would wait forever.

A team's budget covers the caps of its unfinished runs, which they may still spend, and the actual
cost of its finished ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from django.core.exceptions import ValidationError
from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import Exists, F, OuterRef, Q

from arena.actors import CLI, Actor
from arena.calls import leases
from arena.calls.models import MAX_REQUESTS, Call, CallQuerySet, RunRequester
from arena.calls.money import cap_in_words, committed, dollars, raise_cap
from arena.errors import ServiceError
from arena.models import Arena, Run, Team
from arena.models.runs import RunQuerySet
from arena.services import audit
from arena.services.budgets import reserve_budget, reserve_new_cap
from arena.services.locks import retry_on_deadlock
from arena.signals import announce, run_cancelled, votes_changed
from arena.validation import shortened

State = Run.State
UNFINISHED = [State.ORDERED, State.OPEN, State.PAUSED]
BATCH = 500
IN_A_ROW = 10
CUT_OFFS = 6
CUT_OFF = "The reply was cut off at {:,} tokens."
NEEDS_ROOM = (
    "{} replies in a row were cut off. The last one: {} A model that thinks before it replies needs"
    " more room: cancel this run, and start one with a larger output limit."
)
LONGEST_REASON = 300
# A run's page is public, so the reason names no account.
BY_AN_OPERATOR, BY_THE_TEAM = "Paused by an administrator.", "Paused by the team."
NO_PRICE = (
    "{model} at {endpoint} has no price. An administrator can set one in dollars per million "
    "tokens (0 is allowed) at /operators/models/, or by manage.py price {endpoint} {model} "
    "--input 0 --output 0"
)
CUT_SHORT = "Its ordering was interrupted, so it never opened."
NO_CAP = "Enter a spending cap in dollars: this run costs money."
CAP_TOO_LOW = "This model costs money; enter a cap above $0."


class RunError(ServiceError):
    """An action that the run's state or cap does not allow."""


class RunQuote(Protocol):
    """What an order will cost, in nano-dollars; `unpriced` is an (endpoint, model) without a price.

    If a price is missing, `expected` and `worst` are None.
    """

    @property
    def calls(self) -> int: ...
    @property
    def expected(self) -> int | None: ...
    @property
    def worst(self) -> int | None: ...
    @property
    def unpriced(self) -> tuple[str, str] | None: ...


class RunWriter(Protocol):
    """Writes the calls of one run, and their results, in small transactions."""

    def write(self) -> None: ...


class RunHandler:
    """One kind of run. An `order` is whatever this kind plans; it names its kind as `kind`.

    `calls` makes the calls of such runs (a CallHandler); `ordered` and `failures` are what the
    audit log calls an order, and what is retried in a finished run.
    """

    calls: Any = None
    ordered = ""
    failures = ""

    def lock(self, about: Any) -> AbstractContextManager[None]:
        """Hold the lock under which an order, or a run, is written; raise if it is taken."""
        raise NotImplementedError

    def prepare(self, order: Any, now: datetime) -> Any:
        """Under the order's lock, cancel what is in its way, and return it as planned now."""
        return order

    def quote(self, order: Any) -> RunQuote:
        quote: RunQuote = order.quote
        return quote

    def draft(self, order: Any, by: Actor) -> Run:
        """Return the run, unsaved, of an order that may still be written."""
        raise NotImplementedError

    def begin(self, order: Any, run: Run, now: datetime) -> RunWriter:
        """Write a new run's judges or candidate in its transaction; return a function that writes
        the rest."""
        raise NotImplementedError

    def details(self, order: Any) -> Mapping[str, object]:
        """Further details of an order for the audit log, which always has its cap."""
        return {}

    def opened(self, run: Run, now: datetime) -> None:
        """Do at once what a newly opened run allows."""

    def votes_wanted(self, run: Run) -> int:
        """Count the results expected of a fully written run."""
        return run.calls.count()

    def check_active(self, run: Run) -> None:
        """Raise RunError if a run has nothing left to do."""

    def has_failures(self, run: Run) -> bool:
        return run.calls.filter(state=Call.State.FAILED).exists()

    def reset_failures(self, run: Run, now: datetime) -> None:
        """Make whatever depends on failed calls wait for them again."""

    def stays_paused(self, run: Run) -> Sequence[str]:
        """Name the requesters that go on only if nobody else can."""
        return ()

    def before_calls(self, now: datetime) -> None:
        """Before every round of calls, stop those that must not be made."""

    def reconcile(self, now: datetime) -> None:
        """Finish the work of killed workers in open runs, and close runs that are done."""


# By kind of run. The apps add theirs when they start; a handler is imported when it is needed.
HANDLERS: dict[str, Callable[[], RunHandler]] = {}
LABELS = "labels"


def handler_of(run: Run) -> RunHandler:
    """A judge run outside any arena asks about labelled items."""
    is_of_labels = run.kind == Run.Kind.JUDGE and run.arena_id is None
    return HANDLERS[LABELS if is_of_labels else run.kind]()


def order_run(*, order: Any, cap: int | None, now: datetime, by: Actor = CLI) -> Run:
    """Write a run with all its calls, and open it; it never spends more than `cap`.

    `cap` is in nano-dollars, and comes out of the budget of the team that pays, if one does.
    Nothing is called before the run opens; if writing it fails, it is cancelled. Raises RunError if
    a price is unknown or the cap buys nothing, BudgetError, and the handler's errors if its lock is
    taken or the order cannot be carried out.
    """
    handler = HANDLERS[order.kind]()
    with handler.lock(order):
        order = handler.prepare(order, now)
        quote = handler.quote(order)
        check_cap(quote, cap)
        run, writer = _begin_run(handler, order, quote, cap, now, by)
        with given_up_on_failure(run=run, now=now):
            writer.write()
            open_run(run=run)
    handler.opened(run, now)
    return run


@retry_on_deadlock
@transaction.atomic
def _begin_run(
    handler: RunHandler,
    order: Any,
    quote: RunQuote,
    cap: int | None,
    now: datetime,
    by: Actor,
) -> tuple[Run, RunWriter]:
    run = handler.draft(order, by)
    # The cap of a free run would still take up the team's budget.
    run.cap = cap if quote.worst or run.team is None else None
    reserve_budget(team=run.team, cap=run.cap)
    run.max_calls = quote.calls
    run.expected_cost, run.worst_cost = quote.expected, quote.worst
    run.created_by = by.user
    run.save()
    writer = handler.begin(order, run, now)
    _record_action(run, by, handler.ordered, **handler.details(order), cap=cap_in_words(run.cap))
    return run, writer


def check_cap(quote: RunQuote, cap: int | None) -> None:
    """Raise RunError for an order without the cap that it needs, or whose cost is unknown."""
    if quote.unpriced:
        endpoint, model = quote.unpriced
        raise RunError(NO_PRICE.format(endpoint=endpoint, model=model))
    if not quote.worst:
        return
    if cap is None:
        raise RunError(NO_CAP, field="cap")
    if cap <= 0:
        raise RunError(CAP_TOO_LOW, field="cap")


def rehearse_payment(*, team: Team | None, quote: RunQuote, cap: int | None) -> None:
    """Raise the error that an order with this cap would raise; nothing is reserved."""
    check_cap(quote, cap)
    with transaction.atomic():
        reserve_budget(team=team, cap=cap if quote.worst else None)
        transaction.set_rollback(True)


@transaction.atomic
def create_calls(*, drafts: Sequence[Call], now: datetime) -> dict[str, Call]:
    """Insert a run's `drafts`, all of one requester and sample; return its calls by subject.

    Calls that the run already has stay. Replies to the same calls of other runs are copied at once.
    """
    if not drafts:
        return {}
    run, requester, sample = drafts[0].run, drafts[0].requester, drafts[0].sample
    subjects = [draft.subject for draft in drafts]
    same = Call.objects.filter(requester=requester, sample=sample, subject__in=subjects)
    answered = same.filter(state__in=Call.ANSWERED).exclude(run=run).order_by("-copied", "-pk")
    sources = {call.subject: call for call in answered}
    for draft in drafts:
        if source := sources.get(draft.subject):
            leases.assign(draft, leases.copy_of(source, now))
    Call.objects.bulk_create(drafts, batch_size=BATCH, ignore_conflicts=True)
    return {call.subject: call for call in same.filter(run=run)}


def is_being_written(run: Run) -> bool:
    """Lock a run that is written in parts; False if it was cancelled meanwhile."""
    locked = Run.objects.select_for_update(of=("self",), no_key=True)
    return locked.get(pk=run.pk).state == State.ORDERED


def open_run(*, run: Run) -> None:
    """Open a fully written run; the caller holds the lock under which it was written."""
    votes = handler_of(run).votes_wanted(run)
    Run.objects.filter(pk=run.pk, state=State.ORDERED).update(state=State.OPEN, votes_wanted=votes)
    run.refresh_from_db()


@contextmanager
def given_up_on_failure(*, run: Run, now: datetime) -> Iterator[None]:
    """Cancel `run` if the block fails in any way, so that a half-written run holds no money.

    If even that cannot be written, the sweep cancels it later.
    """
    try:
        yield
    except BaseException:  # Ctrl-C gives up, too
        with suppress(DatabaseError, InterfaceError):
            cancel_run(run_id=run.pk, now=now, reason=CUT_SHORT)
        raise


def cancel_stale_orders(*, now: datetime) -> None:
    """Cancel the runs whose ordering was cut short: nobody holds the lock on such orders.

    Their reserved money is released. Label runs are opened instead, when they are next needed.
    """
    ordered = Run.objects.of_calls().filter(state=State.ORDERED)
    for run in ordered.exclude(arena=None).select_related("arena", "candidate").order_by("pk"):
        with suppress(ServiceError), handler_of(run).lock(run):
            cancel_unopened(ordered.filter(pk=run.pk), now)


def cancel_unopened(runs: RunQuerySet, now: datetime) -> None:
    """Cancel those of `runs` that never opened. The caller holds the lock: nobody writes them."""
    for run_id in runs.filter(state=State.ORDERED).values_list("pk", flat=True):
        cancel_run(run_id=run_id, now=now, reason=CUT_SHORT)


# A run may have changed since it was read, so the database has the last word: an update that no
# longer applies raises an error, and the transaction is rolled back.


@transaction.atomic
def pause(*, run: Run, by: Actor) -> None:
    """Pause a run; calls under way finish. Raises RunError."""
    reason = BY_AN_OPERATOR if by.is_operator else BY_THE_TEAM
    if not pause_run(run_id=run.pk, reason=reason):
        raise RunError(_why_impossible(run, "paused"))
    _record_action(run, by, f"paused {_kind_name(run)}")


@transaction.atomic
def cancel(*, run: Run, by: Actor, now: datetime) -> None:
    """Cancel a run; its results so far stay. Raises RunError."""
    if not cancel_run(run_id=run.pk, now=now):
        raise RunError(_why_impossible(run, "cancelled"))
    _record_action(run, by, f"cancelled {_kind_name(run)}")


def pause_run(*, run_id: int, reason: str) -> bool:
    """Stop claiming calls of an open run; calls under way finish."""
    run = Run.objects.filter(pk=run_id, state=State.OPEN)
    return bool(run.update(state=State.PAUSED, pause_reason=shortened(reason, LONGEST_REASON)))


@transaction.atomic
def cancel_run(*, run_id: int, now: datetime, reason: str = "") -> bool:
    """Cancel an unfinished run, and the calls waiting in it. Calls under way finish and are
    booked. `reason`: why, if nobody has asked for it."""
    run = Run.objects.filter(pk=run_id, state__in=UNFINISHED)
    if not run.exists():
        return False
    # Calls first and the run last, in the order in which workers lock them.
    cancel_calls(Call.objects.filter(run=run_id), now)
    run_cancelled.send(sender=Run, run_id=run_id, now=now)
    why = {"pause_reason": reason} if reason else {}
    is_cancelled = bool(run.update(state=State.CANCELLED, closed_at=now, **why))
    if not is_cancelled:
        transaction.set_rollback(True)
    for arena in Arena.objects.filter(runs__pk=run_id, runs__hides_names=True):
        announce(votes_changed, arena_id=arena.pk, reason="order")
    return is_cancelled


def cancel_calls(calls: CallQuerySet, now: datetime) -> int:
    """End the waiting ones of `calls`; return how many there were."""
    waiting = calls.filter(state=Call.State.WAITING)
    return waiting.update(state=Call.State.CANCELLED, finished_at=now)


@transaction.atomic
def pause_requester(*, run_id: int, requester: str, reason: str, now: datetime) -> None:
    """Pause one requester of a run; pause the run too if no other requester can continue."""
    requesters = RunRequester.objects.filter(run=run_id)
    requesters.filter(requester=requester, paused_at=None).update(
        paused_at=now, pause_reason=shortened(reason, LONGEST_REASON)
    )
    if not requesters.filter(requester=requester).exists():
        pause_run(run_id=run_id, reason=reason)  # a run older than the table of requesters
    elif not requesters.filter(paused_at=None).exists() or _stuck_runs().filter(pk=run_id).exists():
        pause_run(run_id=run_id, reason=_reasons_of_pause(run_id))


def pause_if_failing(*, run_id: int, requester: str, now: datetime) -> bool:
    """Pause a requester whose last ten calls in a run all failed.

    Calls that failed only because another one did are not counted.
    """
    asked = Call.objects.filter(
        run=run_id, requester=requester, finished_at__isnull=False, requests__gt=0
    )
    last = list(asked.order_by("-finished_at").values_list("state", "error")[:IN_A_ROW])
    if len(last) < IN_A_ROW or any(state != Call.State.FAILED for state, _ in last):
        return False
    reason = f"{IN_A_ROW} calls in a row failed. The last one: {last[0][1]}"
    pause_requester(run_id=run_id, requester=requester, reason=reason, now=now)
    return True


def pause_if_cut_off(*, run_id: int, requester: str, now: datetime) -> bool:
    """Pause a requester whose last six replies in a run were all cut off, with all their room."""
    asked = Call.objects.filter(
        run=run_id, requester=requester, finished_at__isnull=False, requests__gt=0
    )
    last = list(asked.order_by("-finished_at").values_list("error", flat=True)[:CUT_OFFS])
    sign = CUT_OFF.partition("{")[0]
    if len(last) < CUT_OFFS or not all(error.startswith(sign) for error in last):
        return False
    reason = NEEDS_ROOM.format(CUT_OFFS, last[0])
    pause_requester(run_id=run_id, requester=requester, reason=reason, now=now)
    return True


def pause_stuck_runs() -> int:
    """Pause open runs in which only paused requesters have calls left; return their number."""
    ids = list(_stuck_runs().values_list("pk", flat=True))
    return sum(pause_run(run_id=run_id, reason=_reasons_of_pause(run_id)) for run_id in ids)


def _stuck_runs() -> RunQuerySet:
    calls = Call.objects.filter(run=OuterRef("pk"))
    # Of calls that need one another, the first unfinished one decides.
    can_continue = calls.in_progress().filter(Q(needs=None) | Q(needs__state=Call.State.DONE))
    return Run.objects.filter(
        Exists(RunRequester.objects.filter(run=OuterRef("pk"), paused_at__isnull=False)),
        Exists(calls.filter(state__in=Call.GOING_ON)),
        ~Exists(can_continue),
        state=State.OPEN,
    )


def _reasons_of_pause(run_id: int) -> str:
    paused = RunRequester.objects.filter(run=run_id, paused_at__isnull=False).order_by("paused_at")
    reasons = [f"{row.endpoint}:{row.model}: {row.pause_reason.rstrip('.')}" for row in paused]
    return "; ".join(reasons) + "."


@transaction.atomic
def resume(*, run: Run, by: Actor, now: datetime, cap: int | None = None) -> None:
    """Resume a run and retry what failed, under a new cap in nano-dollars if one is given.

    Raises RunError, BudgetError if the team's budget does not cover the new cap, and what the
    handler's lock raises while the run is still being written.
    """
    handler_of(run).check_active(run)
    if not run.can_be_resumed:
        raise RunError(_why_impossible(run, "resumed"))
    if cap is not None:
        reserve_new_cap(run, cap)
    resume_unfinished(run=run, now=now)
    if cap is not None:
        _raise_cap(run, cap)  # once the calls are woken: a worker locks them before their run
    details = {} if cap is None else {"cap": dollars(cap)}
    _record_action(run, by, f"resumed {_kind_name(run)}", **details)


@transaction.atomic
def retry_failed(*, run: Run, by: Actor, now: datetime) -> None:
    """Retry what failed in a finished run. Raises RunError and BudgetError."""
    handler = handler_of(run)
    handler.check_active(run)
    run.refresh_from_db(fields=["state", "cap", "settled", "reserved", "uncertain"])
    if run.state != State.DONE:
        raise RunError("You can retry failures once the run is finished.")
    if not handler.has_failures(run):
        raise RunError("This run has no failures to retry.")
    # While it was over, only what it had cost counted against the budget.
    reserve_budget(team=run.team, cap=max(0, (run.cap or 0) - committed(run)))
    resume_unfinished(run=run, now=now)
    _record_action(run, by, f"asked failed {handler.failures} again")


def resume_unfinished(*, run: Run, now: datetime) -> Run:
    """Continue a run that paused, whose ordering was cut short, or that is done with failures.

    Failed calls are retried; answered ones are not made again. Raises RunError if the run was
    cancelled or closed since it was read, and what the handler's lock raises.
    """
    handler = handler_of(run)
    if run.state == State.ORDERED:
        with handler.lock(run):
            open_run(run=run)
        if run.state != State.OPEN:
            raise RunError(_why_impossible(run, "resumed"))
    elif run.state == State.PAUSED:
        _wake_run(handler, run, now, partial(resume_run, kept=handler.stays_paused(run)), "resumed")
    elif run.state == State.DONE and handler.has_failures(run):
        _wake_run(handler, run, now, reopen_run, "reopened")
    run.refresh_from_db()
    return run


@transaction.atomic
def _wake_run(
    handler: RunHandler, run: Run, now: datetime, wake: Callable[..., bool], woken: str
) -> None:
    handler.reset_failures(run, now)
    if not wake(run_id=run.pk, now=now):
        raise RunError(_why_impossible(run, woken))


@transaction.atomic
def resume_run(*, run_id: int, now: datetime, kept: Sequence[str] = ()) -> bool:
    """Resume a run and its requesters except `kept`: waiting calls are due, failed ones tried anew.

    Returns False if the run is neither paused nor open.
    """
    # Calls first and the run last, in the order in which workers lock them.
    calls = Call.objects.filter(run=run_id, run__state__in=[State.OPEN, State.PAUSED])
    _wake_failed(calls, now)
    calls.filter(state=Call.State.WAITING).update(due_at=now, enqueue_after=now)
    requesters = RunRequester.objects.filter(run=run_id).exclude(requester__in=kept)
    requesters.update(paused_at=None, pause_reason="")
    return _reopen_run(run_id, [State.OPEN, State.PAUSED])


@transaction.atomic
def reopen_run(*, run_id: int, now: datetime) -> bool:
    """Reopen a finished run for its failed calls only. Returns False if it is not finished."""
    _wake_failed(Call.objects.filter(run=run_id, run__state=State.DONE), now)
    return _reopen_run(run_id, [State.DONE])


def _wake_failed(calls: CallQuerySet, now: datetime) -> None:
    """Queue failed calls again, due at once, with as many requests allowed as before."""
    again = {"state": Call.State.WAITING, "finished_at": None, "due_at": now, "enqueue_after": now}
    failed = calls.filter(state=Call.State.FAILED)
    failed.update(requests_allowed=F("requests") + MAX_REQUESTS, **again)


def _reopen_run(run_id: int, states: list[Run.State]) -> bool:
    run = Run.objects.filter(pk=run_id, state__in=states)
    return bool(run.update(state=State.OPEN, pause_reason="", closed_at=None, counted_at=None))


@transaction.atomic
def settle(*, run: Run, billed: int, by: Actor) -> int:
    """Book what servers billed of a run's uncertain money, and release the rest.

    `billed` is in nano-dollars, from the server's own account of these requests. It is booked to
    the calls in order; returns what was released. Raises RunError.
    """
    calls = Call.objects.filter(run=run)
    doubtful = list(
        calls.filter(uncertain__gt=0).select_for_update(of=("self",), no_key=True).order_by("pk")
    )
    run = Run.objects.select_for_update(of=("self",), no_key=True).get(pk=run.pk)
    if run.goes_on or calls.filter(state=Call.State.RUNNING).exists():
        raise RunError("Pause this run first, and let its requests end.")
    # A run that measured a model has no calls.
    uncertain = sum(call.uncertain for call in doubtful) if doubtful else run.uncertain
    if not uncertain:
        raise RunError("Nothing is uncertain about what this run was billed.")
    if not 0 <= billed <= uncertain:
        raise RunError(
            f"At most {dollars(uncertain)} may have been billed, so {dollars(billed)} cannot be"
            " right.",
            field="billed",
        )
    left = billed
    for call in doubtful:
        share = min(call.uncertain, left)
        left -= share
        # The next attempt fences a worker that has read the call before.
        call.cost, call.uncertain, call.attempts = call.cost + share, 0, call.attempts + 1
    Call.objects.bulk_update(doubtful, ["cost", "uncertain", "attempts"], batch_size=BATCH)
    run.settled, run.uncertain = run.settled + billed, run.uncertain - uncertain
    run.save(update_fields=["settled", "uncertain"])
    released = uncertain - billed
    _record_action(
        run, by, "settled uncertain costs", billed=dollars(billed), released=dollars(released)
    )
    return released


@transaction.atomic
def set_cap(*, run: Run, cap: int) -> None:
    """Change the cap of a run. Raises RunError, or BudgetError if the team's budget is too low."""
    reserve_new_cap(run, cap)
    _raise_cap(run, cap)


def _raise_cap(run: Run, cap: int) -> None:
    try:
        raise_cap(run_id=run.pk, cap=cap)
    except ValidationError as error:
        raise RunError(" ".join(error.messages), field="cap") from None


def _why_impossible(run: Run, done: str) -> str:
    """Explain why an action (`done`, such as "paused") is impossible in the run's current state."""
    run.refresh_from_db(fields=["state"])
    return f"This run is {run.get_state_display().lower()}: it cannot be {done}."


def _kind_name(run: Run) -> str:
    return f"a run of {run.get_kind_display().lower()}"


def _record_action(run: Run, by: Actor, action: str, **details: object) -> None:
    subject = run.candidate.own_name if run.candidate else run.arena or ""
    # No team pays for human votes; the arena's team reads about them anyway.
    team = run.team or (run.arena.team if run.arena else None)
    audit.record(team=team, by=by, action=action, subject=subject, run=run.pk, **details)
