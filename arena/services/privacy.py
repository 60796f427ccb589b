"""Privacy: closes accounts, exports people's data, forgets raters, and deletes rows that are kept
for a limited time.

Votes stay, because leaderboards and the vote log are built on them. What identifies the voter
is deleted. Old rows are deleted in small batches, so that nobody has to wait; every statement
repeats its conditions, and the database's foreign keys refuse the rest.

A clock that was wrong for a while leaves times too far in the future to wait for. A stored
time further ahead than the longest pause of its kind counts as past. Queries that can check this
themselves do; a sweep corrects the times listed here.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic, time
from typing import Any

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from arena.actors import Actor
from arena.calls.leases import HANDED_OUT, LONGEST_PAUSE
from arena.calls.models import Call, EndpointPace
from arena.endpoints import lease_of
from arena.errors import ServiceError
from arena.models import (
    AuditEntry,
    Comparison,
    Delivery,
    Hold,
    IdempotentRequest,
    Invitation,
    Membership,
    NetworkKey,
    Notice,
    RateLimit,
    Rater,
    Reason,
    Role,
    Team,
    Vote,
)
from arena.permissions import visible_arenas
from arena.services import idempotency, notices, rate_limits
from arena.services.notices import requested_test
from arena.services.teams import revoke_invitations_of
from arena.signals import announce, votes_changed
from arena.validation import join_names, numbered

# Audit entries whose subject is a member's name.
ABOUT_MEMBERS = ("changed a role", "removed a member", "left the team")
ROWS_AT_ONCE = 2_000


class AccountError(ServiceError):
    """An account that cannot be closed, or a rater that cannot be forgotten."""


# -- Leaving ---------------------------------------------------------------------------------------


@transaction.atomic
def close_account(*, user: User, now: datetime) -> None:
    """Delete an account. Its votes stay, under a pseudonym. Raises AccountError.

    Teams keep what the person made for them, and their audit logs say "former user" instead.
    """
    Team.objects.select_for_update(no_key=True).filter(memberships__user=user).order_by(
        "pk"
    ).first()
    if blocked := reason_to_stay(user):
        raise AccountError(blocked)
    rater = Rater.objects.filter(user=user).first()
    for membership in Membership.objects.filter(user=user).select_related("team"):
        revoke_invitations_of(member=membership, now=now)
    if rater is not None:
        _forget(rater)
    pseudonym, name = f"former user {user.pk}", user.get_username()
    AuditEntry.objects.filter(user=user).update(by=pseudonym)
    teams = Membership.objects.filter(user=user).values("team")
    about = AuditEntry.objects.filter(subject=name, action__in=ABOUT_MEMBERS)
    about.filter(Q(team__in=teams) | Q(action="removed a member")).update(subject=pseudonym)
    Hold.objects.filter(decided_by=name).update(decided_by=pseudonym)
    _rename_in_sentences(user, name, pseudonym)
    Invitation.objects.filter(accepted_by=user).update(note="")
    IdempotentRequest.objects.filter(owner=f"user:{user.pk}").delete()
    RateLimit.objects.filter(key__endswith=f":account:{user.pk}").delete()
    user.delete()


def _rename_in_sentences(user: User, name: str, pseudonym: str) -> None:
    """Replace the name in sentences and descriptions of rows that the site itself wrote."""
    by_them, by_nobody = f"voided by {name}", f"voided by {pseudonym}"
    for prefix in ("", "rater "):
        voided = Vote.objects.filter(voided_at__isnull=False, void_reason=prefix + by_them)
        voided.update(void_reason=prefix + by_nobody)
    tests = Notice.objects.filter(sentence=requested_test(name))
    tests.update(sentence=requested_test(pseudonym))
    addresses = list(EmailAddress.objects.filter(user=user).values_list("pk", flat=True))
    for model, ids in ((User, [user.pk]), (EmailAddress, addresses)):
        about = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(model))
        about.filter(object_id__in=list(map(str, ids))).update(object_repr=pseudonym)


def reason_to_stay(user: User, who: str = "You are") -> str:
    """Return a sentence about what must happen before the account can be closed; '' if nothing."""
    others = Membership.objects.filter(team=OuterRef("pk"), role=Role.OWNER).exclude(user=user)
    owned = Team.objects.filter(memberships__user=user, memberships__role=Role.OWNER)
    alone = list(owned.filter(~Exists(others)).order_by("name").values_list("name", flat=True))
    if alone:
        return (
            f"{who} the only owner of {join_names(alone)}. Make another member an owner, or "
            "delete the team, then close the account."
        )
    admins = User.objects.filter(is_superuser=True, is_active=True)
    if user.is_superuser and not admins.exclude(pk=user.pk).exists():
        return f"{who} the only administrator of this site. Appoint another administrator first."
    return ""


def loss_of_account(user: User) -> str:
    """Return a sentence about what is lost when the account is closed."""
    return (
        f"Deleting the account of {user} also permanently deletes its email address, memberships "
        f"and comments. {numbered(Vote.objects.filter(rater__user=user).count(), 'vote')} of "
        "theirs and everything they created for teams stay under a pseudonym."
    )


def forget_rater(*, rater: Rater, now: datetime) -> int:
    """Remove what identifies a person who voted; return how many votes stay. Raises AccountError.

    The person's account, if there is one, is closed. Leaderboards and the vote log hold as
    before, because they identify raters by number.
    """
    if rater.kind != Rater.Kind.PERSON:
        raise AccountError(f"Rater {rater.pk} is a {rater.kind}, not a person.")
    if rater.user is not None:
        close_account(user=rater.user, now=now)
    else:
        with transaction.atomic():
            _forget(rater)
    return rater.votes.count()


def _forget(rater: Rater) -> None:
    """Detach the rater from account and name; delete what they wrote in their own words."""
    # The name of a file's rater is unique in its arena.
    name = f"forgotten-{rater.pk}" if rater.arena_id else ""
    Rater.objects.filter(pk=rater.pk).update(name=name, user=None)
    Reason.objects.filter(vote__rater=rater, side=Reason.BOTH).delete()
    Vote.objects.filter(rater=rater).exclude(details=None).update(details=None)
    Hold.objects.filter(rater=rater).exclude(objection="").update(objection="")
    for arena_id in rater.votes.order_by().values_list("arena", flat=True).distinct():
        announce(votes_changed, arena_id=arena_id, reason="forgotten")


# -- Taking one's data along -----------------------------------------------------------------------


def personal_data(*, user: User) -> dict[str, Any]:
    """Return everything that is stored about a person, for JSON."""
    rater = Rater.objects.filter(user=user).first()
    return {
        "account": {
            "user_name": user.get_username(),
            "email": user.email,
            "first_name": user.first_name,
            "last_name": user.last_name,
            "joined_at": _time(user.date_joined),
            "last_signed_in_at": _time(user.last_login),
            "email_addresses": list(
                EmailAddress.objects.filter(user=user)
                .order_by("pk")
                .values("email", "verified", "primary")
            ),
            "sign_in_servers": list(
                SocialAccount.objects.filter(user=user)
                .order_by("pk")
                .values("provider", "uid", "extra_data")
            ),
        },
        "teams": [
            {
                "team": membership.team.slug,
                "name": membership.team.name,
                "role": membership.role,
                "joined_at": _time(membership.joined_at),
                "notices_by_email": membership.notices_by_email,
            }
            for membership in user.team_memberships.select_related("team").order_by("pk")
        ],
        "activity": [
            {"team": team, "action": action, "subject": subject, "at": _time(at)}
            for team, action, subject, at in AuditEntry.objects.filter(user=user)
            .order_by("pk")
            .values_list("team__slug", "action", "subject", "at")
        ],
        "rater": rater and {"id": rater.pk, "created_at": _time(rater.created_at)},
        "votes": _votes(rater, Actor(user=user)) if rater else [],
    }


def _votes(rater: Rater, actor: Actor) -> list[dict[str, Any]]:
    """The person's votes. For an arena that they can no longer see, it contains nothing else."""
    visible = set(visible_arenas(actor).values_list("pk", flat=True))
    rows = rater.votes.order_by("pk").select_related(
        "arena", "comparison__prompt", "comparison__left", "comparison__right"
    )
    rows = rows.defer("comparison__prompt__text", "comparison__prompt__html")
    votes = []
    for vote in rows.prefetch_related("reasons").iterator(chunk_size=ROWS_AT_ONCE):
        comparison = vote.comparison
        facts: dict[str, Any] = {
            "comparison": str(comparison.key),
            "outcome": vote.outcome,
            "cast_at": _time(vote.cast_at),
            "seconds": vote.seconds,
            "voided_at": _time(vote.voided_at),
            "void_reason": vote.void_reason,
            "uncounted": vote.uncounted,
            "reasons": [
                {"side": reason.side, "tag": reason.tag, "comment": reason.comment}
                for reason in vote.reasons.all()
            ],
        }
        if vote.arena_id in visible:
            facts |= {
                "arena": vote.arena.slug,
                "prompt": comparison.prompt and comparison.prompt.external_id,
                "left": str(comparison.left),
                "right": str(comparison.right),
            }
        votes.append(facts)
    return votes


def _time(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


UPLOADS_KEPT_FOR = timedelta(days=1)
BATCH = 500


def delete_old_rows(*, now: datetime) -> None:
    """Delete every row that has been kept long enough; running it twice does no harm."""
    hits = RateLimit.objects.filter(window_started_at__lte=now - rate_limits.KEPT_FOR)
    keys = IdempotentRequest.objects.filter(created_at__lte=now - idempotency.KEPT_FOR)
    for rows in (
        hits,
        keys,
        Session.objects.filter(expire_date__lt=now),
        NetworkKey.objects.filter(period__lt=rate_limits.key_period(now)),
        unanswered_comparisons(now),
        raters_without_votes(now),
        *kept_for_days(now),
    ):
        _delete_in_batches(rows)


def kept_for_days(now: datetime) -> Iterator[QuerySet[Any]]:
    """Yield what is kept forever unless a setting limits it: deliveries are deleted before
    notices."""
    if days := settings.KEEP_NOTICES_DAYS:
        old = Notice.objects.filter(created_at__lte=now - timedelta(days=days))
        yield Delivery.objects.filter(notice__in=old)
        yield old
    if days := settings.KEEP_AUDIT_DAYS:
        yield AuditEntry.objects.filter(at__lte=now - timedelta(days=days))


def unanswered_comparisons(now: datetime) -> QuerySet[Comparison]:
    """Comparisons left open or skipped long ago; a rater who returns later may get such a pair
    again.

    Those of a run stay, because they count in its progress; how often a pair was shown is counted
    on the pair. Judges' comparisons belong to their judgements.
    """
    return Comparison.objects.filter(
        ~Exists(Vote.objects.filter(comparison=OuterRef("pk"))),
        Exists(Rater.objects.filter(pk=OuterRef("rater"), kind=Rater.Kind.PERSON)),
        run=None,
        source=None,
        issued_at__isnull=False,
        expires_at__lte=now - timedelta(days=settings.KEEP_UNANSWERED_DAYS),
    )


def raters_without_votes(now: datetime) -> QuerySet[Rater]:
    """Old anonymous raters who have neither voted nor been blocked."""
    return Rater.objects.filter(
        ~Exists(Vote.objects.filter(rater=OuterRef("pk"))),
        ~Exists(Comparison.objects.filter(rater=OuterRef("pk"))),
        kind=Rater.Kind.PERSON,
        user=None,
        arena=None,
        blocked_at=None,
        created_at__lte=now - timedelta(days=settings.KEEP_RATERS_DAYS),
    )


def _delete_in_batches(rows: QuerySet[Any]) -> None:
    """Delete rows but nothing that refers to them: a cascade could delete a vote just cast."""
    last: Any = None
    while True:
        batch = rows.filter(pk__gt=last) if last is not None else rows
        ids = list(batch.order_by("pk").values_list("pk", flat=True)[:BATCH])
        if not ids:
            return
        last = ids[-1]
        with suppress(IntegrityError), transaction.atomic():
            rows.filter(pk__in=ids)._raw_delete(rows.db)


# -- Files -----------------------------------------------------------------------------------------


def delete_old_uploads(*, now: datetime) -> None:
    """Delete temporary files of uploads whose process was killed."""
    folder = Path(settings.FILE_UPLOAD_TEMP_DIR or tempfile.gettempdir())
    oldest = (now - UPLOADS_KEPT_FOR).timestamp()
    for path in folder.glob("tmp*.upload*"):
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()


# -- A clock that was wrong ------------------------------------------------------------------------

TOLERANCE = timedelta(minutes=1)  # the clocks of two servers may differ by less
# A worker may still be alive and at work: its lease is shortened, not ended.
REST_OF_LEASE = timedelta(seconds=30)


def make_clock_check() -> Callable[[], bool]:
    """Return a function that says whether the clock has run evenly since it was last called."""
    offset = time() - monotonic()

    def is_even() -> bool:
        nonlocal offset
        before, offset = offset, time() - monotonic()
        return abs(offset - before) < TOLERANCE.total_seconds()

    return is_even


def bring_back_times(*, now: datetime) -> None:
    """Correct the times of calls, endpoints, deliveries, rate limits and sessions."""
    _bring_back_calls(now)
    _bring_back_paces(now)
    _bring_back_deliveries(now)
    age = timedelta(seconds=settings.SESSION_COOKIE_AGE)
    _bring_back(Session.objects.all(), "expire_date", now + age, now + age + TOLERANCE)
    windows = RateLimit.objects.filter(window_started_at__gt=now + TOLERANCE)
    if windows.exists():  # on SQLite, a DELETE of nothing would still wait for its turn
        windows.delete()


def _bring_back(rows: QuerySet[Any], field: str, to: Any, latest: Any) -> None:
    """Set `field` to `to` where it is later than `latest`; write nothing if it never is."""
    late = rows.filter(**{f"{field}__gt": latest})
    if late.exists():
        late.update(**{field: to})


def _bring_back_calls(now: datetime) -> None:
    waiting = Call.objects.filter(state=Call.State.WAITING)
    for field in ("due_at", "enqueue_after"):
        _bring_back(waiting, field, now, now + LONGEST_PAUSE + TOLERANCE)
    handed_out = waiting.filter(due_at__lte=now)
    _bring_back(handed_out, "enqueue_after", now, now + HANDED_OUT + TOLERANCE)
    held = Call.objects.filter(state=Call.State.RUNNING)
    longest = max(map(lease_of, settings.MODEL_ENDPOINTS.values()), default=LONGEST_PAUSE)
    _bring_back(held, "lease_expires_at", now + REST_OF_LEASE, now + longest + TOLERANCE)


def _bring_back_paces(now: datetime) -> None:
    """An endpoint is paused for a minute's limit or the longest Retry-After at most."""
    latest = (now + LONGEST_PAUSE + 3 * TOLERANCE).timestamp()
    for field in ("requests_until", "tokens_until"):
        _bring_back(EndpointPace.objects.all(), field, now.timestamp(), latest)


def _bring_back_deliveries(now: datetime) -> None:
    waiting = Delivery.objects.filter(state=Delivery.State.WAITING)
    for attempts, pause in enumerate((timedelta(0), *notices.PAUSES)):
        rows = waiting.filter(attempts=attempts)
        _bring_back(rows, "due_at", now, now + pause + TOLERANCE)
    _bring_back(waiting, "lease_expires_at", now, now + notices.ENQUEUE_AGAIN + TOLERANCE)
    held = Delivery.objects.filter(state=Delivery.State.RUNNING)
    latest = now + notices.LEASE + TOLERANCE
    _bring_back(held, "lease_expires_at", now + REST_OF_LEASE, latest)
