"""Holding votes for review, and then releasing them or voiding them with a reason.

Held votes stay and count nowhere. A release makes them count again exactly as before, unless the
arena's rules leave them out; the tests then start again with the votes cast after the release.

A Review says of a whole group that it looks rigged: until somebody has decided, its arena's
leaderboards name no leader.
"""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Max, Q
from django.urls import reverse
from django.utils.translation import gettext

from arena.actors import SYSTEM, Actor
from arena.db import sql
from arena.errors import ServiceError
from arena.models import Arena, Candidate, Hold, Rater, Review, Vote
from arena.outcomes import Uncounted
from arena.services import audit, notices, voting
from arena.signals import announce, votes_changed
from arena.validation import InputError, clean_name, clean_paragraphs

OBJECTION_LIMIT = 2_000
LONGEST_OBJECTIONS = 20_000  # of all raters of a network
SHOWN_FOR = timedelta(days=30)
REASON_LIMIT = 200
NOBODY_STANDS_OUT = (
    "The group looks rigged as a whole, but none of its raters certainly does, so there is nothing"
    " to void. Let only verified people’s votes count in the arena, or void votes one by one."
)
GROWN = "More raters of this group look rigged since you opened the page. Read the evidence again."
MOST_IN_QUERY = 10_000  # raters; databases limit the parameters of a query
UNDER_REVIEW = "votes.review"  # the notice
RELEASED_RATERS = "released_raters"  # in the evidence on a network, an object keyed by their ids


class HoldError(ServiceError):
    """A decision or an objection that cannot be accepted."""


@transaction.atomic
def hold(
    *,
    arena: Arena,
    rater: Rater | None,
    network: str,
    test: str,
    evidence: dict[str, Any],
    votes: Collection[int],
    now: datetime,
) -> Hold | None:
    """Hold these votes of a rater or a network; add them to its open hold, if there is one.

    Votes that are voided, held or left out already stay as they are; None if there is none to hold.
    """
    live = Vote.objects.filter(pk__in=votes, arena=arena, voided_at=None, uncounted=None)
    if not live.exists():
        return None
    open_hold, is_new = (
        Hold.objects.open()
        .select_for_update()
        .get_or_create(
            arena=arena,
            rater=rater,
            network=network,
            defaults={
                "test": test,
                "evidence": evidence,
                "last_vote_id": max(votes),
                "held_at": now,
            },
        )
    )
    held = live.update(hold=open_hold, uncounted=Uncounted.HELD)
    newest = max(open_hold.last_vote_id, *votes)
    Hold.objects.filter(pk=open_hold.pk).update(n_votes=F("n_votes") + held, last_vote_id=newest)
    open_hold.refresh_from_db()
    announce(votes_changed, arena_id=arena.pk, reason="hold")
    if is_new:
        _record_decision(open_hold, SYSTEM, "held votes", test=test)
    return open_hold


def release(*, hold: Hold, by: Actor, reason: str, now: datetime) -> Hold:
    """Let the held votes count again. Raises HoldError."""
    with transaction.atomic():
        decided = _decide_hold(hold, Hold.State.RELEASED, by, reason, now)
        if decided.network:
            # Released votes no longer name the hold, and their raters are told of the release.
            raters = decided.votes.order_by("rater").values_list("rater", flat=True).distinct()
            decided.evidence[RELEASED_RATERS] = {str(rater): True for rater in raters}
        # The decision also covers the votes cast since: the tests would only hold them again.
        whose = Q(network=decided.network) if decided.network else Q(rater=decided.rater_id)
        newest = Vote.objects.filter(whose, arena=decided.arena_id).aggregate(Max("pk"))["pk__max"]
        decided.last_vote_id = max(decided.last_vote_id, newest or 0)
        decided.save(update_fields=["evidence", "last_vote_id"])
        sql.rows(sql.RELEASE, decided.pk)
        announce(votes_changed, arena_id=decided.arena_id, reason="release")
        _record_decision(decided, by, "released held votes", reason=decided.reason)
    return decided


def void(*, hold: Hold, by: Actor, reason: str, now: datetime) -> Hold:
    """Void the held votes for good. Raises HoldError."""
    with transaction.atomic():
        decided = _decide_hold(hold, Hold.State.VOIDED, by, reason, now)
        held = decided.votes.filter(voided_at=None).values_list("pk", "arena")
        voting.void(votes=dict(held), reason=decided.reason, now=now)
        _record_decision(decided, by, "voided held votes", reason=decided.reason)
    return decided


def find_open(*, raters: Collection[Rater], arena: Arena) -> Hold | None:
    """Return the open hold of these raters' votes in the arena, by rater or by network."""
    return Hold.objects.open().filter(arena=arena, votes__rater__in=raters).order_by("pk").first()


def find_newest(*, raters: Collection[Rater], arena: Arena, now: datetime) -> Hold | None:
    """Return the open hold of these raters' votes, or the last one that was decided lately."""
    names = {f"evidence__{RELEASED_RATERS}__has_any_keys": [str(rater.pk) for rater in raters]}
    of_network = Q(rater=None, state=Hold.State.RELEASED, **names)
    voted = Q(votes__rater__in=raters)
    of_rater = Q(rater__in=raters) | voted | of_network
    is_recent = Q(state=Hold.State.HELD) & voted | Q(decided_at__gte=now - SHOWN_FOR)
    newest = arena.holds.filter(of_rater, is_recent)
    return newest.order_by(F("decided_at").desc(nulls_first=True), "pk").first()


@transaction.atomic
def object_to(*, raters: Collection[Rater], arena: Arena, text: str, now: datetime) -> Hold:
    """Keep the objection of one of these raters for whoever decides. Raises HoldError.

    A network may have several raters: what one of them says is added to what others have said.
    """
    hold = find_open(raters=raters, arena=arena)
    if hold is None:
        raise HoldError(gettext("None of your votes here are on hold."))
    try:
        words = clean_paragraphs(text, limit=OBJECTION_LIMIT)
    except InputError as error:
        raise HoldError(f"The objection {error.reason}.", field="objection") from None
    if hold.network and hold.objection:
        words = f"{hold.objection}\n\n{words}"
    if len(words) > LONGEST_OBJECTIONS:
        raise HoldError(gettext("This hold already has too many objections."), field="objection")
    Hold.objects.filter(pk=hold.pk).update(objection=words, objected_at=now)
    return hold


@transaction.atomic
def open_review(
    *,
    candidate: Candidate,
    loses: bool,
    test: str,
    evidence: dict[str, Any],
    group: Collection[int],
    suspects: Collection[int],
    has_verified: bool,
    last_vote_id: int,
    now: datetime,
) -> Review | None:
    """Put the arena's votes under review, or add what is new to the open review of the candidate.

    `group`: the ids of the raters who were tested together; `suspects`: of those who look rigged;
    `now`: when their votes were read. Returns None if somebody has decided on any of them since:
    this evidence is out of date, and the next votes bring another test.
    """
    arena = candidate.arena
    decided_since = Review.objects.filter(arena=arena, closed_at__gte=now)
    decided = {rater for each in decided_since for rater in each.decided_on}
    if not decided.isdisjoint(group):
        return None
    fields: dict[str, Any] = {
        "test": test,
        "evidence": evidence,
        "group": sorted(group),
        "suspects": sorted(suspects),
        "has_verified": has_verified,
        "last_vote_id": last_vote_id,
    }
    review, is_new = (
        Review.objects.open()
        .select_for_update()
        .get_or_create(
            arena=arena, candidate=candidate, loses=loses, defaults={**fields, "opened_at": now}
        )
    )
    if not is_new:
        before = review.has_verified, review.suspects
        fields["group"] = sorted({*review.group, *group})
        fields["suspects"] = sorted({*review.suspects, *suspects})
        fields["has_verified"] = has_verified or review.has_verified
        Review.objects.filter(pk=review.pk).update(**fields)
        review.refresh_from_db()
        if before == (review.has_verified, review.suspects):
            return review  # leaderboards say so already
    else:
        audit.record_in(arena, SYSTEM, "put votes under review", review, test=test)
        if arena.team:
            sentence = f"{arena.name}: votes on {candidate} look rigged and are under review."
            notices.notify(
                team=arena.team,
                key=f"review:{review.pk}",
                kind=UNDER_REVIEW,
                sentence=sentence,
                path=reverse("board", args=[arena.slug]),
                arena=arena,
                details={"candidate": {"id": candidate.pk, "name": str(candidate)}},
                now=now,
            )
    announce(votes_changed, arena_id=arena.pk, reason="review")
    return review


@transaction.atomic
def close_review(
    *, review: Review, are_rigged: bool, by: Actor, reason: str, now: datetime
) -> Review:
    """Void the suspects' votes, or let them count, also those on hold.

    The tests start again with votes that those decided on cast later. A network's hold is decided
    on with them if nobody else's votes are in it. Raises HoldError, also if raters were added since
    `review` was read.
    """
    reason = _clean_reason(reason)
    if are_rigged and not review.suspects:
        raise HoldError(NOBODY_STANDS_OUT, field="decision")
    locked = Review.objects.open().select_for_update().filter(pk=review.pk).first()
    if locked is None:
        raise HoldError("Someone has already decided on these votes.")
    if locked.suspects != review.suspects:
        raise HoldError(GROWN)
    cast = Vote.objects.filter(arena=review.arena_id)
    newest = [
        cast.filter(some).aggregate(Max("pk", default=0))["pk__max"]
        for some in _of_raters(review.decided_on)
    ]
    locked.closed_at, locked.closed_by, locked.reason = now, by.name[:200], reason
    locked.last_vote_id = max([locked.last_vote_id, *newest])
    locked.save()
    decide = void if are_rigged else release
    held = Hold.objects.open().filter(arena=review.arena_id)
    suspects = set(review.suspects)
    decided = [each for some in _of_raters(review.suspects) for each in held.filter(some)]
    for each in held.exclude(network=""):
        if suspects.issuperset(each.votes.values_list("rater", flat=True)):
            decided.append(each)
    for each in decided:
        decide(hold=each, by=by, reason=reason, now=now)
    voided = 0
    if are_rigged:
        for some in _of_raters(review.suspects):
            votes = dict(cast.filter(some, voided_at=None).values_list("pk", "arena"))
            voided += sum(voting.void(votes=votes, reason=reason, now=now).values())
    action = "voided votes under review" if are_rigged else "ended the review of votes"
    audit.record_in(review.arena, by, action, review, votes=voided, reason=reason)
    announce(votes_changed, arena_id=review.arena_id, reason="review")
    return Review.objects.select_related("arena", "candidate").get(pk=review.pk)


def _of_raters(raters: list[int]) -> Iterator[Q]:
    for start in range(0, len(raters), MOST_IN_QUERY):
        yield Q(rater__in=raters[start : start + MOST_IN_QUERY])


def _decide_hold(hold: Hold, state: str, by: Actor, reason: str, now: datetime) -> Hold:
    reason = _clean_reason(reason)
    decided = {"state": state, "decided_at": now, "decided_by": by.name[:200], "reason": reason}
    if not Hold.objects.open().filter(pk=hold.pk).update(**decided):
        raise HoldError("Someone has already decided on these votes.")
    return Hold.objects.select_related("arena", "rater").get(pk=hold.pk)


def _clean_reason(reason: str) -> str:
    try:
        return clean_name(reason, limit=REASON_LIMIT)
    except InputError as error:
        raise HoldError(f"The reason {error.reason}.", field="reason") from None


def _record_decision(hold: Hold, by: Actor, action: str, **details: Any) -> None:
    audit.record_in(hold.arena, by, action, hold, votes=hold.n_votes, **details)
