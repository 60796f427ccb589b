"""Judge runs: what they write in addition to calls, and how their failures are retried.

The engine (`arena.services.runs`) orders, opens, pauses, resumes and cancels them.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Prefetch, Q, QuerySet

from arena.actors import Actor
from arena.calls.models import Call, RunRequester
from arena.errors import BusyError
from arena.models import Arena, Comparison, PairDemand, Rater, Response, Run
from arena.services import runs
from arena.services.locks import exclusive_lock, lock_arena, lock_revealed, retry_on_deadlock
from arena.services.pairs import take_side
from arena.shown_text import as_read
from judges.core.injection import find_suspicious
from judges.models import Epoch, Judgement, JuryVerdict, LabelSet, RunJudge
from judges.services import subjects
from judges.services.calls import JudgeCallHandler
from judges.services.orders import JudgeOrder, Member, answer_orders, calls_for
from judges.services.planning import PlannedComparison
from judges.services.quotes import quote_for
from judges.services.registry import JudgeError, register_judge, register_jury
from judges.services.settlement import settle_ready

State = Run.State
BATCH = 100
new_nonce = partial(secrets.token_hex, 8)
BUSY = "Another judge run is being started in this arena. Try again in a moment."
BLOCKED = "An administrator has blocked {epoch}; its votes would not count."


class JudgesBusyError(JudgeError, BusyError):
    """Judges are being ordered in the arena at this moment."""


class JudgementRunHandler(runs.RunHandler):
    """What judge runs and label runs share: their calls result in judgements."""

    calls = JudgeCallHandler()
    failures = "verdicts"

    def votes_wanted(self, run: Run) -> int:
        return (run.jury_verdicts if run.jury_verdicts.exists() else run.judgements).count()

    def has_failures(self, run: Run) -> bool:
        return _failed_judgements(run).exists()

    def reset_failures(self, run: Run, now: datetime) -> None:
        """Set failed judgements, and the jury verdicts they left undecided, back to waiting."""
        failed = _failed_judgements(run)
        undecided = JuryVerdict.objects.filter(judgements__in=failed)
        undecided.exclude(state=JuryVerdict.State.VOTED).update(
            state=JuryVerdict.State.WAITING, settled_at=None, counts={}, casts_vote=False
        )
        failed.update(state=Judgement.State.WAITING, settled_at=None)

    def stays_paused(self, run: Run) -> list[str]:
        """Hopeless judges: whoever raises the cap wants the other judges to go on."""
        paused = RunRequester.objects.filter(run=run, paused_at__isnull=False)
        unfinished = Call.objects.filter(run=run, state__in=Call.GOING_ON)
        if not unfinished.exclude(requester__in=paused.values("requester")).exists():
            return []
        hopeless = run.run_judges.exclude(hopeless_at=None).values("epoch__requester")
        return list(paused.filter(requester__in=hopeless).values_list("requester", flat=True))


class JudgeRunHandler(JudgementRunHandler):
    """Judge runs in arenas; only one at a time is ordered in each."""

    ordered = "ordered a run of judges"

    def lock(self, about: JudgeOrder | Run) -> AbstractContextManager[None]:
        assert about.arena is not None, "judges of labels have a handler of their own"
        return one_order_at_a_time(arena=about.arena)

    def prepare(self, order: JudgeOrder, now: datetime) -> JudgeOrder:
        runs.cancel_unopened(Run.objects.filter(arena=order.arena, kind=Run.Kind.JUDGE), now)
        return order

    quote = staticmethod(quote_for)

    def draft(self, order: JudgeOrder, by: Actor) -> Run:
        arena = lock_revealed(order.arena.pk)
        return Run(
            arena=order.arena,
            kind=Run.Kind.JUDGE,
            per_pair=order.options.per_pair,
            votes_wanted=len(order.picks),
            team=order.arena.team,
            criteria=arena.criteria,
        )

    def begin(self, order: JudgeOrder, run: Run, now: datetime) -> "JudgeRunWriter":
        members = [
            (member, _check_not_blocked(register_judge(spec=member.spec)))
            for member in order.members
        ]
        jury = None
        if order.is_jury:
            epochs = [epoch for _, epoch in members]
            jury = _check_not_blocked(
                register_jury(members=epochs, quorum=order.quorum, weights=order.weights)
            )
        for member, epoch in members:
            add_judge(run=run, epoch=epoch, own_family=member.own_family)
        if jury is not None:
            RunJudge.objects.create(run=run, epoch=jury)
        return JudgeRunWriter(order, run, members, jury, now)

    def opened(self, run: Run, now: datetime) -> None:
        # What all members had judged before can be decided now. The sweep does it too, so a failure
        # here must not make a valid order look as if it had failed.
        transaction.on_commit(lambda: settle_ready(now=now, run=run), robust=True)

    def before_calls(self, now: datetime) -> None:
        pause_blocked_judges(now=now)

    def reconcile(self, now: datetime) -> None:
        settle_ready(now=now)


@dataclass(frozen=True)
class JudgeRunWriter:
    """Writes a run's comparisons, calls and judgements."""

    order: JudgeOrder
    run: Run
    members: list[tuple[Member, Epoch]]
    jury: Epoch | None
    now: datetime
    nonce: str = field(default_factory=new_nonce)

    @property
    def arena(self) -> Arena:
        return self.order.arena

    def write(self) -> None:
        picks = self.order.picks
        for start in range(0, len(picks), BATCH):
            write_comparisons(writer=self, picks=picks[start : start + BATCH])


@retry_on_deadlock
@transaction.atomic
def write_comparisons(*, writer: JudgeRunWriter, picks: Sequence[PlannedComparison]) -> None:
    """Write comparisons, calls and judgements of some picks, unless the run was cancelled."""
    # Taking sides updates many pairs, in the same order as all other code that updates them.
    lock_arena(writer.arena.pk)
    if not runs.is_being_written(writer.run):
        return
    new_picks = _picks_not_asked(writer, picks)
    flagged = _suspicious_pairs(new_picks)
    for member, epoch in writer.members:
        own = {pick.responses for pick in member.picks}
        own_picks = [pick for pick in new_picks if pick.responses in own]
        _write_member(writer, member, epoch, own_picks, flagged)
    if writer.jury is not None:
        _write_jury(writer, writer.jury, new_picks)
    _show_to_people(writer.arena, [pick for pick in new_picks if pick.responses in flagged])


def _picks_not_asked(
    writer: JudgeRunWriter, picks: Sequence[PlannedComparison]
) -> list[PlannedComparison]:
    """Drop what the judge or the jury was asked by another run since the order was planned."""
    responses = [pick.responses for pick in picks]
    asked: QuerySet[Any]
    if writer.jury is not None:
        asked = writer.jury.jury_verdicts.exclude(state=JuryVerdict.State.CANCELLED)
    else:
        [(_, epoch)] = writer.members
        asked = epoch.judgements.asked().filter(sample=0)
    asked = asked.filter(responses__in=responses)
    already_asked = set(asked.values_list("responses", flat=True))
    return [pick for pick in picks if pick.responses not in already_asked]


def _write_member(
    writer: JudgeRunWriter,
    member: Member,
    epoch: Epoch,
    picks: Sequence[PlannedComparison],
    flagged: set[str],
) -> None:
    """Write one judge's part. Replies from other runs are copied."""
    run = writer.run
    comparisons = _create_comparisons(writer, epoch.rater, picks)
    needs = calls_for(member.spec, picks, member.criteria_suffix)
    calls = write_calls(run=run, epoch=epoch, needs=needs, now=writer.now, nonce=writer.nonce)
    judgements = []
    for pick, comparison in zip(picks, comparisons, strict=True):
        forward, reverse = _subjects_of_comparison(member, pick, comparison)
        judgements.append(
            Judgement(
                epoch=epoch,
                run=run,
                comparison=comparison,
                responses=pick.responses,
                forward=calls[forward],
                reverse=calls[reverse],
                flagged=pick.responses in flagged,
            )
        )
    Judgement.objects.bulk_create(judgements)


def _subjects_of_comparison(
    member: Member, pick: PlannedComparison, comparison: Comparison
) -> tuple[str, str]:
    """Return the subjects of a comparison's two calls; the first one shows its left answer first.

    A list has no such order: its first call shows the list as it was drawn.
    """
    first, second = answer_orders(member.spec, pick)
    if member.spec.protocol != "listwise" and first[0] != comparison.left_response_id:
        first, second = second, first
    suffix = member.criteria_suffix
    return subjects.of_responses(first, suffix), subjects.of_responses(second, suffix)


def write_calls(
    *,
    run: Run,
    epoch: Epoch,
    needs: Mapping[str, str | None],
    now: datetime,
    nonce: str,
    sample: int = 0,
) -> dict[str, Call]:
    """Write the calls that the run does not have yet; return all of them by subject.

    `needs` maps each subject to the subject whose reply it needs first, or to None. All calls share
    the run's nonce, so that requests begin alike and servers' caches hit; it is drawn after the
    texts were written. Only requests for notes have another nonce, because a model writes those,
    and so do further readings, because the same request would show no variation.
    """
    nonces = {1: nonce}

    def draft(subject: str, needed: Call | None) -> Call:
        target = subjects.read_subject(subject)
        if target.reading not in nonces:
            nonces[target.reading] = new_nonce()
        return Call(
            run=run,
            requester=epoch.requester,
            subject=subject,
            sample=sample,
            endpoint=epoch.judge.endpoint,
            model=epoch.judge.model,
            needs=needed,
            nonce=new_nonce() if target.is_note else nonces[target.reading],
            due_at=now,
            enqueue_after=now,
        )

    independent = [draft(subject, None) for subject, needed in needs.items() if needed is None]
    calls = runs.create_calls(drafts=independent, now=now)
    dependent = [draft(subject, calls[needed]) for subject, needed in needs.items() if needed]
    return calls | runs.create_calls(drafts=dependent, now=now)


def _create_comparisons(
    writer: JudgeRunWriter, rater: Rater, picks: Sequence[PlannedComparison]
) -> list[Comparison]:
    ids = [pk for pick in picks for pk in (pick.low_response, pick.high_response)]
    named = set(Response.objects.filter(pk__in=ids, names_itself=True).values_list("pk", flat=True))
    drafts = []
    for pick in picks:
        sides = [(pick.pair.low_id, pick.low_response), (pick.pair.high_id, pick.high_response)]
        if not take_side(pair=pick.pair):
            sides.reverse()
        (left, left_response), (right, right_response) = sides
        drafts.append(
            Comparison(
                arena=writer.arena,
                rater=rater,
                run=writer.run,
                prompt_id=pick.prompt_id,
                left_id=left,
                right_id=right,
                left_response_id=left_response,
                right_response_id=right_response,
                draw_probability=writer.order.shares[pick.pair.pk],
                names_itself=bool(named & {left_response, right_response}),
                issued_at=writer.now,
            )
        )
    return Comparison.objects.bulk_create(drafts)


def _write_jury(writer: JudgeRunWriter, jury: Epoch, picks: Sequence[PlannedComparison]) -> None:
    """Write the jury's verdicts and link them to the run's judgements of its members."""
    comparisons = _create_comparisons(writer, jury.rater, picks)
    verdicts = JuryVerdict.objects.bulk_create(
        JuryVerdict(epoch=jury, run=writer.run, comparison=comparison, responses=pick.responses)
        for pick, comparison in zip(picks, comparisons, strict=True)
    )
    verdict_of = {verdict.responses: verdict for verdict in verdicts}
    of_members = Judgement.objects.filter(
        run=writer.run,
        epoch__in=[epoch for _, epoch in writer.members],
        responses__in=verdict_of,
        sample=0,
    )
    through = JuryVerdict.judgements.through
    through.objects.bulk_create(
        through(juryverdict=verdict_of[judgement.responses], judgement=judgement)
        for judgement in of_members
    )


def _suspicious_pairs(picks: Sequence[PlannedComparison]) -> set[str]:
    """Return the pairs of responses of which one may try to steer the judge."""
    ids = {pk for pick in picks for pk in (pick.low_response, pick.high_response)}
    rows = Response.objects.filter(pk__in=ids).values_list("pk", "candidate", "text")
    suspicious = find_suspicious((pk, author, as_read(text)) for pk, author, text in rows)
    return {
        pick.responses for pick in picks if suspicious & {pick.low_response, pick.high_response}
    }


def _show_to_people(arena: Arena, picks: Iterable[PlannedComparison]) -> None:
    """Request one human vote on each flagged pair, unless one was requested before."""
    for pick in picks:
        PairDemand.objects.get_or_create(
            arena=arena,
            pair=pick.pair,
            prompt_id=pick.prompt_id,
            run=None,
            defaults={"remaining": 1},
        )


def one_order_at_a_time(*, arena: Arena) -> AbstractContextManager[None]:
    """Hold the lock on judge orders in the arena; raises JudgeError when it is taken."""
    return exclusive_lock(f"order-{arena.pk}", busy=JudgesBusyError(BUSY))


def add_judge(
    *, run: Run, epoch: Epoch, own_family: bool = False, labels_in: LabelSet | None = None
) -> None:
    """Record that a run asks this judge, outside an arena about these labels."""
    judge = epoch.judge
    RunJudge.objects.create(run=run, epoch=epoch, own_family=own_family, labels_in=labels_in)
    RunRequester.objects.create(
        run=run, requester=epoch.requester, endpoint=judge.endpoint, model=judge.model
    )


def _check_not_blocked(epoch: Epoch) -> Epoch:
    if epoch.rater.blocked_at:
        raise JudgeError(BLOCKED.format(epoch=epoch))
    return epoch


def pause_blocked_judges(*, now: datetime) -> int:
    """Stop asking blocked judges in open runs, whose votes would not count; return how many.

    Called before every round of calls, because a run with a blocked judge can be resumed.
    """
    active = RunRequester.objects.filter(run__state=State.OPEN, paused_at=None)
    blocked = Epoch.objects.filter(
        rater__blocked_at__isnull=False, requester__in=active.values("requester")
    )
    epochs = {epoch.requester: epoch for epoch in blocked.select_related("judge")}
    to_pause = list(active.filter(requester__in=epochs)) if epochs else []
    for run_requester in to_pause:
        reason = BLOCKED.format(epoch=epochs[run_requester.requester])
        runs.pause_requester(
            run_id=run_requester.run_id, requester=run_requester.requester, reason=reason, now=now
        )
    return len(to_pause)


def unfinished_run(*, arena: Arena, digests: Sequence[str]) -> Run | None:
    """Return the newest unfinished run of exactly these judges in the arena."""
    unfinished = Run.objects.filter(arena=arena, kind=Run.Kind.JUDGE, state__in=runs.UNFINISHED)
    for run in unfinished.order_by("-pk"):
        asked = run.run_judges.exclude(epoch__judge__protocol="jury")
        if set(asked.values_list("epoch__judge__digest", flat=True)) == set(digests):
            return run
    return None


def cancel_judgements(*, run_id: int, now: datetime, **_: object) -> None:
    """Close the waiting judgements of a run that is being cancelled; a receiver of
    `run_cancelled`."""
    for model in (Judgement, JuryVerdict):
        waiting = model.objects.filter(run=run_id, state=model.State.WAITING)
        waiting.update(state=model.State.CANCELLED, settled_at=now)


def _failed_judgements(run: Run) -> QuerySet[Judgement]:
    return Judgement.objects.filter(run=run, state=Judgement.State.FAILED)


def runs_of_judges() -> "QuerySet[Run]":
    """Runs ordered for judges, neither human nor imported ones."""
    judged = RunJudge.objects.filter(run=OuterRef("pk"))
    return Run.objects.filter(Exists(judged), kind=Run.Kind.JUDGE)


def runs_in(arena: Arena | None) -> "QuerySet[Run]":
    """The runs of an arena, newest first, with their progress; trials if there is no arena."""
    unsettled = Q(judgements__state__in=Judgement.UNSETTLED)
    failed = Q(judgements__state=Judgement.State.FAILED)
    decided = Q(judgements__state__in=[Judgement.State.VOTED, Judgement.State.ABSTAINED])
    members = RunJudge.objects.select_related("epoch__judge").order_by("pk")
    return (
        runs_of_judges()
        .filter(arena=arena)
        .select_related("arena")
        .prefetch_related(Prefetch("run_judges", queryset=members, to_attr="members"))
        .annotate(
            total=Count("judgements"),
            settled_count=Count("judgements", filter=~unsettled),
            failed_count=Count("judgements", filter=failed),
            results_count=Count("judgements", filter=decided),
        )
        .order_by("-pk")
    )
