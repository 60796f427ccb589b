"""From the verdicts of finished calls to votes of judges and juries, and feedback on reasoning.

A call's verdict is about what it showed: `{"outcome": "left"}` says that the answer shown first is
better, `{"label": "4", "score": 4.0}` is a score, `{"met": [true, false], "score": 1.0}` that of a
checklist, `{"order": [[2], [0, 1]]}` ranks a list by positions. A soft verdict has
`{"p": {...}}` as well, the probability of each outcome or label; with a scale also
`{"expected": 3.47}`, which counts instead of the score where all calls have it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from statistics import fmean
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from arena.calls.models import Call
from arena.db import sql
from arena.models import Comparison, Rater, Run
from arena.outcomes import PREFERENCES, TIE, mirror, outcome_of_lead
from arena.services.comparisons import VoteError
from arena.services.runs import pause_requester
from arena.services.voting import cast_vote
from judges.core.calibration.panels import weigh
from judges.models import Judgement, JuryVerdict, RunJudge
from judges.services.subjects import first_reading, of_reading, read_subject

State = Judgement.State
READABLE = (State.VOTED, State.ABSTAINED)
ROUNDING = 1e-9  # leads that are no more than rounding
JuryState = JuryVerdict.State
# If a call ends without a verdict, so does the judgement; of two states, the first one listed.
WITHOUT_VERDICT = {
    Call.State.REFUSED: State.REFUSED,
    Call.State.TOO_LONG: State.TOO_LONG,
    Call.State.FAILED: State.FAILED,
    Call.State.UNREADABLE: State.UNREADABLE,
    Call.State.CANCELLED: State.CANCELLED,
}


@dataclass(frozen=True)
class FinishedCall:
    """A finished call: its state, its subject, and its verdict if there is one."""

    state: str
    subject: str
    verdict: Mapping[str, Any] | None


@dataclass(frozen=True)
class JudgementResult:
    """The result of a judgement. `preference` is 1 for left and 0 for right.

    `flipped` says whether the two orders disagree; None if there are no two verdicts on both.
    """

    state: str
    outcome: str = ""
    preference: float | None = None
    score: float | None = None
    flipped: bool | None = None


@dataclass(frozen=True)
class Sides:
    """The ids by which a call's subject names the left and the right answer."""

    left: int
    right: int


def decide(
    forward: FinishedCall, reverse: FinishedCall, *, protocol: str, policy: str, sides: Sides | None
) -> JudgementResult:
    """Return the result of two finished calls; a missing verdict is missing data, never a tie.

    `policy` is the judge's swap policy. `sides` is None for an item with one answer, whose score
    is the result.
    """
    states = {forward.state, reverse.state}
    for call_state, state in WITHOUT_VERDICT.items():
        if call_state in states:
            return JudgementResult(state)
    if protocol == "direct":
        left, right = _scores(_verdict(forward), _verdict(reverse))
        return _compare_scores(left, right, sides)
    assert sides is not None, "two answers are compared"
    return _combine_orders(_orient(forward, sides), _orient(reverse, sides), policy)


def decide_readings(
    pairs: Sequence[tuple[FinishedCall, FinishedCall]],
    *,
    protocol: str,
    policy: str,
    soft: bool,
    sides: Sides | None,
) -> JudgementResult:
    """Return the one result of a judge that is asked several times.

    More than half of the readings must be readable. Scores are averaged, and so are verdicts of a
    soft judge and of one that averages the orders; otherwise more than half of those must agree.
    """
    results = [decide(*pair, protocol=protocol, policy=policy, sides=sides) for pair in pairs]
    if len(results) == 1:
        return results[0]
    read = [number for number, result in enumerate(results) if result.state in READABLE]
    if 2 * len(read) <= len(results):
        missing = Counter(result.state for result in results if result.state not in READABLE)
        return JudgementResult(missing.most_common(1)[0][0])
    if protocol == "direct":
        scores = [_scores(*map(_verdict, pairs[number])) for number in read]
        left, right = (fmean(side) for side in zip(*scores, strict=True))
        return _compare_scores(left, right, sides)
    return _combine_readings([results[number] for number in read], policy, is_mean=soft)


def _combine_readings(
    read: Sequence[JudgementResult], policy: str, *, is_mean: bool
) -> JudgementResult:
    flipped = 2 * sum(reading.flipped is True for reading in read) > len(read)
    voted = [reading for reading in read if reading.state == State.VOTED]
    if (is_mean or policy == "average") and 2 * len(voted) > len(read):
        points = [(reading.preference, PREFERENCES[reading.outcome]) for reading in voted]
        mean = fmean(usual if exact is None else exact for exact, usual in points)
        outcome = outcome_of_lead(mean - 0.5, tolerance=ROUNDING)
        return JudgementResult(State.VOTED, outcome, mean, flipped=flipped)
    state, outcome = majority([reading.outcome for reading in read], 1)
    if state == JuryState.VOTED and outcome:
        return JudgementResult(State.VOTED, outcome, flipped=flipped)
    if policy == "tie":
        return JudgementResult(State.VOTED, TIE, flipped=flipped)
    return JudgementResult(State.ABSTAINED, flipped=flipped)


def _compare_scores(left: float, right: float, sides: Sides | None) -> JudgementResult:
    if sides is None:
        return JudgementResult(State.VOTED, score=left)
    return JudgementResult(State.VOTED, outcome_of_lead(left - right, tolerance=ROUNDING))


def _scores(*verdicts: Mapping[str, Any]) -> list[float]:
    """Return the expected scores if all verdicts have one, otherwise the written ones."""
    name = "expected" if all("expected" in verdict for verdict in verdicts) else "score"
    return [float(verdict[name]) for verdict in verdicts]


@dataclass(frozen=True)
class OrientedVerdict:
    """One call's verdict in the comparison's own left and right.

    `points` are 1 for left, 0 for right, 0.5 for a tie; in a soft verdict, their expected value.
    """

    outcome: str
    points: float
    soft: bool


def _orient(call: FinishedCall, sides: Sides) -> OrientedVerdict:
    verdict = _verdict(call)
    outcome = call_outcome(verdict, call.subject, sides)
    assert outcome is not None, "a verdict about two answers has an outcome"
    probabilities: Mapping[str, float] | None = verdict.get("p")
    if probabilities is None:
        return OrientedVerdict(outcome, PREFERENCES[outcome], soft=False)
    points = sum(PREFERENCES[each] * probability for each, probability in probabilities.items())
    swapped = read_subject(call.subject).shown[0] != sides.left
    return OrientedVerdict(outcome, 1 - points if swapped else points, soft=True)


def call_outcome(verdict: Mapping[str, Any], subject: str, sides: Sides) -> str | None:
    """Return a call's outcome in terms of `sides`; None for a score of a single answer."""
    answers = read_subject(subject).shown
    if "order" in verdict:
        order: Sequence[Sequence[int]] = verdict["order"]
        rank = {position: place for place, group in enumerate(order) for position in group}
        return outcome_of_lead(rank[answers.index(sides.right)] - rank[answers.index(sides.left)])
    outcome: str | None = verdict.get("outcome")
    if outcome is None or answers[0] == sides.left:
        return outcome
    return mirror(outcome)


def _verdict(call: FinishedCall) -> Mapping[str, Any]:
    assert call.verdict is not None, "a call that is done has a verdict"
    return call.verdict


def _combine_orders(
    forward: OrientedVerdict, reverse: OrientedVerdict, policy: str
) -> JudgementResult:
    """If the two orders disagree, the judge's swap policy decides."""
    mean = (forward.points + reverse.points) / 2
    if forward.outcome == reverse.outcome:
        preference = mean if forward.soft and reverse.soft else None
        return JudgementResult(State.VOTED, forward.outcome, preference, flipped=False)
    if policy == "tie":
        return JudgementResult(State.VOTED, TIE, flipped=True)
    if policy == "average":
        outcome = outcome_of_lead(mean - 0.5, tolerance=ROUNDING)
        return JudgementResult(State.VOTED, outcome, mean, flipped=True)
    return JudgementResult(State.ABSTAINED, flipped=True)


# Whether the rater has a vote on the same two answers: deleting a run deletes its judgements, but
# not its votes.
HAS_VOTED = """
    SELECT 1 FROM arena_comparison c
    JOIN arena_vote v ON v.comparison_id = c.id AND v.rater_id = c.rater_id AND v.voided_at IS NULL
    WHERE c.rater_id = %s AND c.left_response_id IN (%s, %s) AND c.right_response_id IN (%s, %s)
    LIMIT 1
"""


def try_to_vote(
    rater: Rater,
    comparison: Comparison,
    outcome: str,
    now: datetime,
    *,
    preference: float | None = None,
) -> bool:
    """Cast a vote inside the caller's transaction, unless it exists; False if it is refused.

    A refusal is not a database error, so it needs no savepoint.
    """
    answers = (comparison.left_response_id, comparison.right_response_id)
    if sql.one(HAS_VOTED, rater.pk, *answers, *answers):
        return True
    try:
        cast_vote(
            comparison=comparison, rater=rater, outcome=outcome, now=now, preference=preference
        )
    except VoteError:
        return False
    return True


# Statements that every call needs are written as SQL: composing them with the ORM took several
# times longer than running them, and a worker's threads share one core. The waiting
# judgements of a call whose other call has ended too (as `Judgement.objects.ready`),
READY = """
    SELECT j.id, j.run_id FROM judges_judgement j
    JOIN arena_call f ON f.id = j.forward_id
    JOIN arena_call r ON r.id = j.reverse_id
    WHERE (j.forward_id = %s OR j.reverse_id = %s) AND j.state = 'waiting'
        AND f.state NOT IN ('waiting', 'running') AND r.state NOT IN ('waiting', 'running')
"""
# a waiting judgement, in the order of `_LockedJudgement`,
LOCK_JUDGEMENT = """
    SELECT f.state, f.subject, f.verdict, r.state, r.subject, r.verdict,
        j.epoch_id, j.comparison_id, j.sample, g.protocol, g.order_policy,
        c.left_response_id, c.right_response_id, f.id = r.id,
        EXISTS (SELECT 1 FROM judges_juryverdict_judgements m
            JOIN judges_juryverdict v ON v.id = m.juryverdict_id AND v.state = 'waiting'
            WHERE m.judgement_id = j.id),
        g.readings, g.soft, j.run_id, e.requester
    FROM judges_judgement j
    JOIN judges_epoch e ON e.id = j.epoch_id
    JOIN judges_judge g ON g.id = e.judge_id
    JOIN arena_call f ON f.id = j.forward_id
    JOIN arena_call r ON r.id = j.reverse_id
    LEFT JOIN arena_comparison c ON c.id = j.comparison_id
    WHERE j.id = %s AND j.state = 'waiting'
"""
SETTLE = """
    UPDATE judges_judgement
    SET state = %s, outcome = %s, preference = %s, score = %s, flipped = %s, settled_at = %s,
        casts_vote = %s AND NOT EXISTS (SELECT 1 FROM judges_judgement o
            WHERE o.epoch_id = judges_judgement.epoch_id AND o.casts_vote
                AND o.responses = judges_judgement.responses
                AND o.sample = judges_judgement.sample)
    WHERE id = %s
    RETURNING casts_vote
"""
REFUSE = """
    UPDATE judges_judgement
    SET state = 'failed', outcome = '', preference = NULL, score = NULL, flipped = NULL,
        casts_vote = false
    WHERE id = %s
    RETURNING id
"""
# and the end of a run. One statement, because a run that is resumed at the same moment sets
# judgements back to waiting while it opens.
CLOSE_RUN = """
    UPDATE arena_run SET state = 'done', closed_at = %s
    WHERE id = %s AND state = 'open'
        AND NOT EXISTS (SELECT 1 FROM judges_judgement j
            WHERE j.run_id = arena_run.id AND j.state = 'waiting')
        AND NOT EXISTS (SELECT 1 FROM judges_juryverdict v
            WHERE v.run_id = arena_run.id AND v.state = 'waiting')
    RETURNING id
"""


def settle_call(call: Call) -> None:
    """Settle every judgement that this call completes, and close the runs that are done."""
    now = timezone.now()
    first = call.pk
    if (subject := first_reading(call.subject)) != call.subject:
        same = Call.objects.filter(run=call.run_id, requester=call.requester, sample=call.sample)
        first = same.values_list("pk", flat=True).get(subject=subject)
    ready = sql.rows(READY, first, first)
    for judgement_id, _ in ready:
        settle(judgement_id=judgement_id, now=now)
    for run_id in {run for _, run in ready}:
        close_if_done(run_id=run_id, now=now)
        _pause_if_hopeless(run_id, call.requester, now)


FEWEST_TO_DESPAIR = 30
MOST_LOOKED_AT = 60
USELESS = Fraction(2, 3)


@transaction.atomic
def _pause_if_hopeless(run_id: int, requester: str, now: datetime) -> None:
    """Pause a judge of a run, once, if most verdicts change with the order or are unreadable.

    A judge that flips as often as a trusted one may (30 %) is hardly ever paused by chance: in
    simulations, in 34 of 1,000,000 runs.
    """
    if not settings.STOP_HOPELESS_JUDGES:
        return
    own = Judgement.objects.filter(run=run_id, epoch__requester=requester)
    first = own.settled().order_by("settled_at", "pk")
    ended = list(first.values_list("state", "flipped")[:MOST_LOOKED_AT])
    flips = sum(flipped is True for _, flipped in ended)
    unreadable = sum(state == State.UNREADABLE for state, _ in ended)
    if len(ended) < FEWEST_TO_DESPAIR or flips + unreadable < USELESS * len(ended):
        return
    member = RunJudge.objects.filter(run=run_id, epoch__requester=requester, hopeless_at=None)
    if own.waiting().exists() and member.update(hopeless_at=now):
        reason = (
            f"Of its first {len(ended)} pairs, {flips} were inconsistent when swapped and "
            f"{unreadable} unreadable, so it stopped to save money. To continue anyway, resume "
            "the run when its other judges, if any, are done."
        )
        pause_requester(run_id=run_id, requester=requester, reason=reason, now=now)


def settle(*, judgement_id: int, now: datetime) -> None:
    """Turn two finished calls into a vote, or into the state that explains why there is none."""
    try:
        _settle(judgement_id, now)
    except IntegrityError:  # another run's same judgement became the one that votes
        _settle(judgement_id, now)


@transaction.atomic
def _settle(judgement_id: int, now: datetime) -> None:
    judgement = _lock_judgement(judgement_id)
    if judgement is None:
        return
    forward, reverse = judgement.forward, judgement.reverse
    pairs = [(forward, reverse), *_other_readings(judgement)]
    if any(call.state in Call.GOING_ON for pair in pairs for call in pair):
        return
    result = decide_readings(
        pairs,
        protocol=judgement.protocol,
        policy=judgement.swap_policy,
        soft=bool(judgement.soft),
        sides=_sides(judgement),
    )
    facts = (result.state, result.outcome, result.preference, result.score, result.flipped)
    counts = result.state not in (Judgement.State.FAILED, Judgement.State.CANCELLED)
    row = sql.one(SETTLE, *facts, now, counts, judgement_id)
    votes = row and row[0] and judgement.comparison is not None and judgement.sample == 0
    if votes and result.outcome and not _vote(judgement, result, now):
        sql.one(REFUSE, judgement_id)
    if judgement.jury_waits:
        settle_juries_of(judgement_id=judgement_id, now=now)


@dataclass(frozen=True)
class _LockedJudgement:
    """What settling needs to know about a judgement, whose row this transaction has locked."""

    forward: FinishedCall
    reverse: FinishedCall
    epoch: int
    comparison: int | None
    sample: int
    protocol: str
    swap_policy: str
    left: int | None
    right: int | None
    is_single: bool
    jury_waits: bool
    readings: int
    soft: bool
    run: int
    requester: str


def _lock_judgement(judgement_id: int) -> _LockedJudgement | None:
    """Lock a waiting judgement; None if another worker has settled it."""
    lock = "" if connection.vendor == "sqlite" else " FOR NO KEY UPDATE OF j"
    row = sql.one(LOCK_JUDGEMENT + lock, judgement_id)
    if row is None:
        return None
    return _LockedJudgement(_finished_call(*row[:3]), _finished_call(*row[3:6]), *row[6:])


def _other_readings(judgement: _LockedJudgement) -> list[tuple[FinishedCall, FinishedCall]]:
    numbers = range(2, judgement.readings + 1)
    firsts = (judgement.forward.subject, judgement.reverse.subject)
    subjects = {of_reading(first, number) for number in numbers for first in firsts}
    same = Call.objects.filter(
        run=judgement.run, requester=judgement.requester, sample=judgement.sample
    )
    asked = same.filter(subject__in=subjects) if subjects else ()
    calls = {call.subject: FinishedCall(call.state, call.subject, call.verdict) for call in asked}
    return [
        (calls[of_reading(firsts[0], number)], calls[of_reading(firsts[1], number)])
        for number in numbers
    ]


def _finished_call(state: str, subject: str, verdict: str | None) -> FinishedCall:
    return FinishedCall(state, subject, json.loads(verdict) if verdict else None)


def _sides(judgement: _LockedJudgement) -> Sides | None:
    if judgement.comparison is None:
        return None if judgement.is_single else Sides(1, 2)
    assert judgement.left is not None
    assert judgement.right is not None
    return Sides(judgement.left, judgement.right)


def _vote(judgement: _LockedJudgement, result: JudgementResult, now: datetime) -> bool:
    """Cast the judge's vote as the rater of the epoch that was asked."""
    assert judgement.comparison is not None
    comparisons = Comparison.objects.select_related("arena", "rater")
    comparison = comparisons.get(pk=judgement.comparison, rater__epoch=judgement.epoch)
    return try_to_vote(
        comparison.rater, comparison, result.outcome, now, preference=result.preference
    )


def settle_ready(*, now: datetime, run: Run | None = None) -> None:
    """Settle the judgements that wait for no call, in one run or in all, and close the runs that
    are done.

    Those are copied verdicts, and those that killed workers left unsettled.
    """
    ready, runs = Judgement.objects.ready(), Run.objects.filter(kind=Run.Kind.JUDGE)
    if run is not None:
        ready, runs = ready.filter(run=run), runs.filter(pk=run.pk)
    for judgement_id in ready.values_list("pk", flat=True):
        settle(judgement_id=judgement_id, now=now)
    settle_waiting_juries(now=now)
    for run_id in runs.filter(state=Run.State.OPEN).values_list("pk", flat=True):
        close_if_done(run_id=run_id, now=now)


def close_if_done(*, run_id: int, now: datetime) -> None:
    """Close an open run in which nothing waits, and count its votes."""
    if not sql.one(CLOSE_RUN, now, run_id):
        return
    jury_verdicts = JuryVerdict.objects.filter(run=run_id)
    if jury_verdicts.exists():
        voted = jury_verdicts.filter(state=JuryVerdict.State.VOTED, casts_vote=True).count()
    else:
        judgements = Judgement.objects.filter(run=run_id, sample=0, casts_vote=True)
        voted = judgements.filter(state=Judgement.State.VOTED).count()
    Run.objects.filter(pk=run_id).update(votes_done=voted)


@transaction.atomic
def settle_juries_of(*, judgement_id: int, now: datetime) -> None:
    """Decide the pairs on which juries waited only for this member's judgement."""
    waiting = JuryVerdict.objects.filter(judgements=judgement_id, state=JuryState.WAITING)
    for pk in waiting.values_list("pk", flat=True):
        settle_jury(verdict_id=pk, now=now)


def settle_waiting_juries(*, now: datetime) -> None:
    """Decide the pairs that all members have judged."""
    waiting_members = Judgement.objects.waiting().filter(jury_verdicts=OuterRef("pk"))
    ready = JuryVerdict.objects.filter(
        ~Exists(waiting_members), state=JuryState.WAITING, run__state="open"
    )
    for pk in ready.values_list("pk", flat=True):
        settle_jury(verdict_id=pk, now=now)


def settle_jury(*, verdict_id: int, now: datetime) -> None:
    """Turn the members' verdicts into the jury's vote, or into the reason why there is none.

    Two members may settle at the same moment: the lock on the verdict's row makes the second one
    see what the first has written.
    """
    try:
        _settle_jury(verdict_id, now)
    except IntegrityError:  # another run's same verdict became the one that votes
        _settle_jury(verdict_id, now)


@transaction.atomic
def _settle_jury(verdict_id: int, now: datetime) -> None:
    verdict = (
        JuryVerdict.objects.select_for_update(of=("self",))
        .select_related("epoch__judge", "epoch__rater", "comparison__arena", "comparison__prompt")
        .filter(pk=verdict_id, state=JuryState.WAITING)
        .first()
    )
    if verdict is None:
        return
    members = list(
        verdict.judgements.values_list(
            "epoch__requester", "state", "outcome", "comparison__left_response"
        )
    )
    if any(state == Judgement.State.WAITING for _, state, _, _ in members):
        return
    left = verdict.comparison.left_response_id
    outcomes = {
        requester: orient_outcome(left, outcome, members_left)
        for requester, state, outcome, members_left in members
        if state == Judgement.State.VOTED
    }
    verdict.counts = dict(Counter(outcomes.values()))
    jury, preference = verdict.epoch.judge, None
    assert jury.quorum is not None, "a jury has a quorum"
    if jury.weights:
        prompt = verdict.comparison.prompt
        category = prompt.category if prompt else ""
        verdict.state, outcome, preference = weighted(outcomes, jury.quorum, jury.weights, category)
        verdict.outcome = outcome
    else:
        verdict.state, outcome = majority(outcomes.values(), jury.quorum)
    same = JuryVerdict.objects.filter(epoch=verdict.epoch_id, responses=verdict.responses)
    verdict.casts_vote = not same.filter(casts_vote=True).exists()
    verdict.settled_at = now
    verdict.save(update_fields=["state", "counts", "outcome", "casts_vote", "settled_at"])
    if not outcome or not verdict.casts_vote:
        return
    rater, comparison = verdict.epoch.rater, verdict.comparison
    if not try_to_vote(rater, comparison, outcome, now, preference=preference):
        verdict.state, verdict.casts_vote = JuryState.FAILED, False
        verdict.save(update_fields=["state", "casts_vote"])


def orient_outcome(left: int | None, outcome: str, members_left: int | None) -> str:
    """Translate a member's outcome to a comparison whose left response is `left`.

    Every member has a comparison of its own, with its own sides.
    """
    return outcome if left == members_left else mirror(outcome)


def majority(outcomes: Iterable[str], quorum: int) -> tuple[str, str]:
    """Return the jury's state, and the outcome of more than half of the verdicts, or ''.

    `outcomes` are the members' settled ones; fewer than `quorum` decide nothing.
    """
    counts = Counter(outcomes)
    total = sum(counts.values())
    if total < quorum:
        return JuryState.NO_QUORUM, ""
    outcome, most = counts.most_common(1)[0]
    if 2 * most <= total:
        return JuryState.NO_MAJORITY, ""
    return JuryState.VOTED, outcome


def weighted(
    outcomes: Mapping[str, str], quorum: int, weights: Mapping[str, Any], category: str
) -> tuple[str, str, float | None]:
    """Return the state of a jury that weighs its members, its outcome, and the probability that
    a person prefers left. `outcomes` maps the members' requesters to their settled verdicts."""
    if len(outcomes) < quorum:
        return JuryState.NO_QUORUM, "", None
    log_odds = weights["categories"].get(category, weights["general"])
    own = [log_odds[requester] for requester in outcomes]
    outcome, preference = weigh(own, list(outcomes.values()))
    assert outcome is not None, "a quorum has a verdict"
    return JuryState.VOTED, outcome, preference
