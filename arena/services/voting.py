"""Raters, and casting, skipping, undoing and voiding votes."""

import math
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils.translation import gettext_lazy

from arena.actors import Actor
from arena.db import sql
from arena.errors import ServiceError
from arena.models import (
    Arena,
    ArenaTrust,
    AuditEntry,
    Comparison,
    Pair,
    PairDemand,
    Rater,
    Reason,
    Run,
    Vote,
)
from arena.outcomes import LEFT, OUTCOMES, RIGHT
from arena.services import audit
from arena.services.comparisons import (
    VoteError,
    check_admission,
)
from arena.services.locks import retry_on_deadlock
from arena.services.rate_limits import allow
from arena.signals import announce, trust_changed, votes_changed
from arena.validation import COMMENT_LIMIT, TAG_LIMIT, InputError, clean_name, clean_paragraphs

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
TIME_TO_UNDO = timedelta(seconds=30)
MOST_UNDONE = 5  # of a rater within an hour: undoing whatever a candidate lost would move a board
UNDONE = "undone by the rater"
VOIDED_AT_ONCE = 1000
REASONS_IN_FILES = {"reasons_a": LEFT, "reasons_b": RIGHT}


class RaterError(ServiceError):
    """An invalid rater name."""


class TooManyNamesError(VoteError):
    message = gettext_lazy(
        "Too many new raters were named in this arena within an hour. Try again later."
    )


class NotIssuedToYouError(VoteError):
    message = gettext_lazy("This pair was assigned to another rater. Here is one for you.")


class ExpiredError(VoteError):
    message = gettext_lazy("This pair expired before you voted. Here is a new one.")


class SkippedError(VoteError):
    message = gettext_lazy("You skipped this pair. Here is the next one.")


class AlreadyVotedError(VoteError):
    message = gettext_lazy("You have already voted on this pair; your first vote counts.")


class UnknownOutcomeError(VoteError):
    message = f"Unknown outcome. Choose from {', '.join(OUTCOMES)}."


class UndoneError(VoteError):
    message = gettext_lazy(
        "You withdrew your vote on this pair and saw the names, so it goes to another rater."
    )


class BlockedError(VoteError):
    message = gettext_lazy(
        "The site's administrators have excluded your votes and closed voting for you."
    )


class NotVotedError(VoteError):
    message = gettext_lazy(
        "You have no vote on this pair, so there is nothing to give reasons for."
    )


class UnknownReasonError(VoteError):
    message = gettext_lazy("This arena does not offer that reason for this answer.")


class LongCommentError(VoteError):
    message = gettext_lazy("A comment can have up to 1,000 characters, and no control characters.")


class TooLateToUndoError(VoteError):
    message = gettext_lazy("A vote can be undone within 30 seconds. This one is final.")


class OftenUndoneError(VoteError):
    message = gettext_lazy(
        "You have undone several votes within an hour and saw the names, so this one is final."
    )


# -- Raters ----------------------------------------------------------------------------------------


class NotAJudgeError(ValueError):
    """Only judges and juries can be trusted; the message is a sentence for people."""


def rater_of_person(*, user_id: int) -> Rater:
    """Return the rater of a signed-in person, the same one in every arena."""
    rater, _ = Rater.objects.get_or_create(user_id=user_id, defaults={"kind": Rater.Kind.PERSON})
    return rater


def rater_of_name(*, arena: Arena, name: str, now: datetime) -> Rater:
    """Return the rater that a team's program calls `name` in this arena; create one if needed.

    Raises RaterError and TooManyNamesError.
    """
    try:
        name = clean_name(name)
    except InputError as error:
        raise RaterError(f"The rater's name {error.reason}.", field="rater") from None
    known = Rater.objects.filter(arena=arena, kind=Rater.Kind.PERSON, name=name).first()
    if known is not None:
        return known
    limit = settings.NEW_RATERS_PER_HOUR
    if not allow(key=f"new-raters:arena:{arena.pk}", limit=limit, window=HOUR, now=now):
        raise TooManyNamesError
    rater, _ = Rater.objects.get_or_create(arena=arena, kind=Rater.Kind.PERSON, name=name)
    return rater


def allow_comparison(*, rater: Rater, now: datetime) -> bool:
    """Count one more comparison for `rater`; return whether it is within this minute's limit."""
    limit = settings.VOTES_PER_MINUTE
    return allow(key=f"issue:{rater.pk}", limit=limit, window=MINUTE, now=now)


@transaction.atomic
def set_trust(*, rater_id: int, trusted: bool, now: datetime) -> bool:
    """Set whether a judge's or jury's votes, past and future, are trusted wherever it was not
    measured; return whether that changed.

    Trusted votes narrow people's intervals, in each arena where the rater has voted. Raises
    NotAJudgeError.
    """
    rater = Rater.objects.select_for_update().filter(pk=rater_id).first()
    if rater is None or rater.kind == Rater.Kind.PERSON:
        raise NotAJudgeError(f"Rater {rater_id} is not a judge or jury, so it cannot be trusted.")
    if trusted == (rater.trusted_at is not None):
        return False
    rater.trusted_at = now if trusted else None
    rater.save(update_fields=["trusted_at"])
    votes = Vote.objects.filter(arena=OuterRef("pk"), rater=rater_id)
    for arena_id in Arena.objects.filter(Exists(votes)).order_by("pk").values_list("pk", flat=True):
        trust_changed.send(sender=None, arena_id=arena_id)
    return True


@transaction.atomic
def set_arena_trust(*, rater_id: int, arena_id: int, trusted: bool | None, now: datetime) -> bool:
    """Set whether a measured judge or jury is trusted in one arena; return whether that changed.

    None: it was not measured there, so `Rater.trusted_at` decides.
    """
    rows = ArenaTrust.objects.select_for_update().filter(rater=rater_id, arena=arena_id)
    known = rows.values_list("trusted", flat=True).first()
    if trusted == known:
        return False
    if trusted is None:
        rows.delete()
    else:
        facts = {"trusted": trusted, "decided_at": now}
        rows.update_or_create(rater_id=rater_id, arena_id=arena_id, defaults=facts)
    trust_changed.send(sender=None, arena_id=arena_id)
    return True


# -- Casting, skipping, undoing --------------------------------------------------------------------


@retry_on_deadlock
def cast_vote(
    *,
    comparison: Comparison,
    rater: Rater,
    outcome: str,
    now: datetime,
    preference: float | None = None,
    seconds: float | None = None,
    network: str = "",
) -> Vote:
    """Record the outcome of a comparison issued to `rater`; repeating the vote changes nothing.

    `seconds`: how long the pair was open (see `seconds_open`). Raises a VoteError. The database's
    unique constraint decides between two concurrent requests.
    """
    if outcome not in OUTCOMES:
        raise UnknownOutcomeError
    _check_rater(comparison, rater)
    has_expired = comparison.expires_at and comparison.expires_at <= now
    if comparison.skipped_at or has_expired:
        return _earlier_vote(comparison, rater, outcome)
    with transaction.atomic(savepoint=False):
        sql.lock(sql.LOCK_COMPARISON, comparison.pk)
        cast = Vote.objects.raw(
            sql.CAST,
            {
                "comparison": comparison.pk,
                "rater": rater.pk,
                "outcome": outcome,
                "preference": preference,
                "now": now,
                "seconds": seconds,
                "network": network,
            },
        )
        vote = next(iter(cast), None)
    if vote is None:
        return _earlier_vote(comparison, rater, outcome)
    announce(votes_changed, arena_id=comparison.arena_id)
    return vote


def seconds_open(comparison: Comparison, now: datetime, reported: str = "") -> float:
    """Return how long a pair was open: the client's figure, at most the time since it was issued.

    A client that sends no figure is assumed to have shown the pair all that time.
    """
    issued = comparison.issued_at or now
    longest = max((now - issued).total_seconds(), 0.0)
    try:
        seconds = float(reported)
    except ValueError:
        return longest
    return min(max(seconds, 0.0), longest) if math.isfinite(seconds) else longest


def apply_rules(*, arena: Arena) -> int:
    """Decide again which of an arena's votes count; return how many that changed.

    The next refresh counts them accordingly.
    """
    changed = len(sql.rows(sql.APPLY_RULES, arena.pk))
    if changed:
        announce(votes_changed, arena_id=arena.pk, reason="rules")
    return changed


def _earlier_vote(comparison: Comparison, rater: Rater, outcome: str) -> Vote:
    """Return the existing vote if it has the same outcome; otherwise raise the VoteError."""
    vote = comparison.votes.filter(rater=rater).order_by("-pk").first()
    if vote is None:
        skipped = Comparison.objects.filter(pk=comparison.pk, skipped_at__isnull=False)
        raise SkippedError if skipped.exists() else ExpiredError
    if vote.voided_at:
        raise UndoneError
    if vote.outcome != outcome:
        raise AlreadyVotedError
    return vote


def _check_rater(comparison: Comparison, rater: Rater) -> None:
    if comparison.rater_id != rater.pk:
        raise NotIssuedToYouError
    if rater.blocked_at:
        raise BlockedError
    check_admission(comparison.arena, rater)


@retry_on_deadlock
@transaction.atomic
def skip_comparison(*, comparison: Comparison, rater: Rater, now: datetime) -> Vote | None:
    """Skip a comparison: missing data, never a tie. An existing vote stays, and is returned."""
    _check_rater(comparison, rater)
    # A vote on its way holds the lock, and only a later statement sees it.
    sql.lock(sql.LOCK_COMPARISON, comparison.pk)
    open_comparison = Comparison.objects.filter(pk=comparison.pk, skipped_at=None, votes=None)
    if open_comparison.update(skipped_at=now):
        return None
    return comparison.votes.filter(rater=rater, voided_at=None).first()


@retry_on_deadlock
@transaction.atomic
def undo_vote(*, comparison: Comparison, rater: Rater, now: datetime) -> Vote:
    """Void the rater's last vote within 30 seconds; the pair goes to another rater.

    The names were shown after the vote, so the same rater does not get the pair again.
    """
    _check_rater(comparison, rater)
    vote = rater.votes.filter(arena=comparison.arena_id).order_by("-pk").first()
    if vote is None or vote.comparison_id != comparison.pk or vote.cast_at < now - TIME_TO_UNDO:
        raise TooLateToUndoError
    undone = rater.votes.filter(void_reason=UNDONE, voided_at__gt=now - HOUR)
    if undone.count() >= MOST_UNDONE:
        raise OftenUndoneError
    if void(votes={vote.pk: vote.arena_id}, reason=UNDONE, now=now):
        vote.reasons.all().delete()
        _demand_again(comparison)
    return vote


def _demand_again(comparison: Comparison) -> None:
    """Have the pair shown to another rater: by its run, reopened if needed, or by a demand.

    With any prompt: on the same one, whoever undoes a vote in one browser would know the names in
    another.
    """
    if comparison.run_id is not None:
        done = Run.objects.filter(pk=comparison.run_id, state=Run.State.DONE)
        done.update(state=Run.State.OPEN, closed_at=None)
        return
    low, high = sorted([comparison.left_id, comparison.right_id])
    demand, _ = PairDemand.objects.get_or_create(
        arena_id=comparison.arena_id,
        pair=Pair.objects.get(low=low, high=high),
        prompt=None,
        run=None,
        defaults={"draw_probability": comparison.draw_probability, "remaining": 0},
    )
    PairDemand.objects.filter(pk=demand.pk).update(remaining=F("remaining") + 1)


# -- Reasons ---------------------------------------------------------------------------------------


@transaction.atomic
def give_reasons(
    *,
    comparison: Comparison,
    rater: Rater,
    tags: Mapping[str, Collection[str]],
    comment: str,
) -> list[Reason]:
    """Replace the reasons of the rater's vote by these: tags by side, and a comment.

    Raises NotVotedError, UnknownReasonError and LongCommentError.
    """
    _check_rater(comparison, rater)
    vote = Vote.objects.select_for_update(no_key=True).filter(
        comparison=comparison, rater=rater, voided_at=None
    )
    voted = vote.first()
    if voted is None:
        raise NotVotedError
    try:
        comment = clean_paragraphs(comment, limit=COMMENT_LIMIT)
    except InputError:
        raise LongCommentError from None
    offered = {side: comparison.arena.reasons_for(side, voted.outcome) for side in (LEFT, RIGHT)}
    if any(tag not in offered.get(side, ()) for side, chosen in tags.items() for tag in chosen):
        raise UnknownReasonError
    reasons = [
        Reason(vote=voted, side=side, tag=tag)
        for side, chosen in tags.items()
        for tag in dict.fromkeys(chosen)
    ]
    if comment:
        reasons.append(Reason(vote=voted, side=Reason.BOTH, comment=comment))
    voted.reasons.all().delete()
    return Reason.objects.bulk_create(reasons)


def read_reasons(*, votes: QuerySet[Vote]) -> int:
    """Store the reasons in a file's votes, in `reasons_a`, `reasons_b` and `comment`;
    return how many are new. Running it again adds none."""
    given = Q(details__has_any_keys=[*REASONS_IN_FILES, "comment"])
    votes = votes.filter(given, reasons=None).order_by("pk")
    new = last = 0
    while some := list(votes.filter(pk__gt=last)[:VOIDED_AT_ONCE]):
        last = some[-1].pk
        reasons = [reason for vote in some for reason in _reasons_in(vote)]
        new += len(Reason.objects.bulk_create(reasons, batch_size=500))
    return new


def _reasons_in(vote: Vote) -> Iterator[Reason]:
    details = vote.details or {}
    for name, side in REASONS_IN_FILES.items():
        tags = details.get(name)
        for tag in dict.fromkeys(tags if isinstance(tags, list) else []):
            if isinstance(tag, str) and 0 < len(tag) <= TAG_LIMIT:
                yield Reason(vote=vote, side=side, tag=tag)
    comment = details.get("comment")
    if isinstance(comment, str) and 0 < len(comment) <= COMMENT_LIMIT:
        yield Reason(vote=vote, side=Reason.BOTH, comment=comment)


# -- Voiding ---------------------------------------------------------------------------------------


@transaction.atomic
def void(*, votes: Mapping[int, int], reason: str, now: datetime) -> dict[int, int]:
    """Exclude votes from every count; return how many were voided in each arena, by its id.

    `votes` maps each vote's id to its arena's. Votes voided before stay as they are. Nothing is
    recorded in the audit log, because a rater who undoes a vote does not act for the team.
    """
    voided_in = {}
    for arena_id in sorted(set(votes.values())):
        ids = [vote_id for vote_id, arena in votes.items() if arena == arena_id]
        live = Vote.objects.filter(pk__in=ids, voided_at=None)
        if voided := live.update(voided_at=now, void_reason=reason):
            announce(votes_changed, arena_id=arena_id, reason="void")
            voided_in[arena_id] = voided
    return voided_in


def void_votes(*, votes: QuerySet[Vote], by: Actor, reason: str, now: datetime) -> int:
    """Void `votes`, with an audit entry for each arena's team; return how many were voided.

    Works in batches, so that no voter waits long; after an interruption, call it again.
    """
    live = votes.filter(voided_at=None).order_by("pk")
    # One audit entry per arena for all batches together; None if the arena has no team.
    entries: dict[int, AuditEntry | None] = {}
    total = 0
    while voided := _void_batch(live, entries, by, reason, now):
        total += voided
    return total


def void_rater(*, rater: Rater, by: Actor, reason: str, now: datetime) -> int:
    """Block a rater and void all of their votes; return how many were voided."""
    _block(rater, by, reason, now)
    return void_votes(votes=rater.votes.all(), by=by, reason=reason, now=now)


@transaction.atomic
def _block(rater: Rater, by: Actor, reason: str, now: datetime) -> None:
    """Block a rater; if the rater belongs to one arena, record it in its team's audit log."""
    blocked = Rater.objects.filter(pk=rater.pk, blocked_at=None).update(blocked_at=now)
    if blocked and rater.arena is not None:
        audit.record_in(rater.arena, by, "blocked a rater", rater, reason=reason)


@transaction.atomic
def unblock_rater(*, rater: Rater, by: Actor, reason: str) -> bool:
    """Let a blocked rater vote again; voided votes stay void. Return whether that was a change."""
    unblocked = Rater.objects.filter(pk=rater.pk).exclude(blocked_at=None).update(blocked_at=None)
    if unblocked and rater.arena is not None:
        audit.record_in(rater.arena, by, "unblocked a rater", rater, reason=reason)
    return bool(unblocked)


@transaction.atomic
def _void_batch(
    live: QuerySet[Vote],
    entries: dict[int, AuditEntry | None],
    by: Actor,
    reason: str,
    now: datetime,
) -> int:
    batch = dict(live.values_list("pk", "arena")[:VOIDED_AT_ONCE])
    voided = void(votes=batch, reason=reason, now=now)
    for arena_id, count in voided.items():
        if arena_id not in entries:
            arena = Arena.objects.select_related("team").get(pk=arena_id)
            entries[arena_id] = audit.record(
                team=arena.team,
                by=by,
                action="voided votes",
                subject=arena,
                arena=arena.slug,
                votes=count,
                reason=reason,
            )
        elif entry := entries[arena_id]:
            entry.details["votes"] += count
            entry.save(update_fields=["details"])
    return sum(voided.values())
