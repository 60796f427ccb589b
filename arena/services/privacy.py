"""Privacy: closes accounts, exports people's data and forgets raters.

Votes stay, because leaderboards and the vote log are built on them. What identifies the voter is
deleted.
"""

from datetime import datetime
from typing import Any

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from arena.actors import Actor
from arena.errors import ServiceError
from arena.models import (
    AuditEntry,
    Hold,
    IdempotentRequest,
    Invitation,
    KeptUpload,
    LiveConversation,
    Membership,
    Notice,
    RateLimit,
    Rater,
    Reason,
    Review,
    Role,
    Team,
    Vote,
)
from arena.permissions import visible_arenas
from arena.services.invitations import revoke_invitations_of
from arena.services.live import delete_texts
from arena.services.webhooks import requested_test
from arena.signals import announce, forgetting, votes_changed
from arena.validation import join_names, numbered

# Audit entries whose subject is a member's name.
ABOUT_MEMBERS = ("changed a role", "removed a member", "left the team")
ROWS_AT_ONCE = 2_000


class AccountError(ServiceError):
    """An account that cannot be closed, or a rater that cannot be forgotten."""


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
        _forget_rater(rater, now)
    pseudonym, name = f"former user {user.pk}", user.get_username()
    AuditEntry.objects.filter(user=user).update(by=pseudonym)
    teams = Membership.objects.filter(user=user).values("team")
    about = AuditEntry.objects.filter(subject=name, action__in=ABOUT_MEMBERS)
    about.filter(Q(team__in=teams) | Q(action="removed a member")).update(subject=pseudonym)
    Hold.objects.filter(decided_by=name).update(decided_by=pseudonym)
    Review.objects.filter(closed_by=name).update(closed_by=pseudonym)
    _rename_in_sentences(user, name, pseudonym)
    Invitation.objects.filter(accepted_by=user).update(note="")
    for model in (IdempotentRequest, KeptUpload):
        model.objects.filter(owner=f"user:{user.pk}").delete()
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
            _forget_rater(rater, now)
    return rater.votes.count()


def _forget_rater(rater: Rater, now: datetime) -> None:
    """Detach the rater from account and name; delete what they wrote in their own words."""
    arenas = list(rater.votes.order_by("arena").values_list("arena", flat=True).distinct())
    for arena_id in arenas:
        forgetting.send(sender=None, arena_id=arena_id)
    # The name of a file's rater is unique in its arena.
    name = f"forgotten-{rater.pk}" if rater.arena_id else ""
    Rater.objects.filter(pk=rater.pk).update(name=name, user=None)
    Reason.objects.filter(vote__rater=rater, side=Reason.BOTH).delete()
    Vote.objects.filter(rater=rater).exclude(details=None).update(details=None)
    Hold.objects.filter(rater=rater).exclude(objection="").update(objection="")
    delete_texts(conversations=LiveConversation.objects.filter(rater=rater), now=now)
    for arena_id in arenas:
        announce(votes_changed, arena_id=arena_id, reason="forgotten")


def personal_data(*, user: User) -> dict[str, Any]:
    """Return everything that is stored about a person, for JSON."""
    rater = Rater.objects.filter(user=user).first()
    return {
        "account": {
            "user_name": user.get_username(),
            "email": user.email,
            "first_name": user.first_name,
            "last_name": user.last_name,
            "joined_at": _iso_time(user.date_joined),
            "last_signed_in_at": _iso_time(user.last_login),
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
                "joined_at": _iso_time(membership.joined_at),
                "notices_by_email": membership.notices_by_email,
            }
            for membership in user.team_memberships.select_related("team").order_by("pk")
        ],
        "activity": [
            {"team": team, "action": action, "subject": subject, "at": _iso_time(at)}
            for team, action, subject, at in AuditEntry.objects.filter(user=user)
            .order_by("pk")
            .values_list("team__slug", "action", "subject", "at")
        ],
        "rater": rater and {"id": rater.pk, "created_at": _iso_time(rater.created_at)},
        "votes": _votes_of_person(rater, Actor(user=user)) if rater else [],
        "live_questions": _live_questions_of(rater) if rater else [],
    }


def _votes_of_person(rater: Rater, actor: Actor) -> list[dict[str, Any]]:
    """The person's votes. For an arena that they can no longer see, it contains nothing else."""
    visible = set(visible_arenas(actor).values_list("pk", flat=True))
    rows = rater.votes.order_by("pk").select_related(
        "arena", *(f"comparison__{name}" for name in ("prompt", "left", "right", "run"))
    )
    rows = rows.defer("comparison__prompt__text", "comparison__prompt__html")
    votes = []
    for vote in rows.prefetch_related("reasons").iterator(chunk_size=ROWS_AT_ONCE):
        comparison = vote.comparison
        facts: dict[str, Any] = {
            "comparison": str(comparison.key),
            "outcome": vote.outcome,
            "cast_at": _iso_time(vote.cast_at),
            "seconds": vote.seconds,
            "voided_at": _iso_time(vote.voided_at),
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
                "left": None if vote.hides_names else str(comparison.left),
                "right": None if vote.hides_names else str(comparison.right),
            }
        votes.append(facts)
    return votes


def _live_questions_of(rater: Rater) -> list[dict[str, Any]]:
    conversations = rater.conversations.order_by("pk").prefetch_related("turns")
    return [
        {
            "key": str(conversation.key),
            "asked_at": _iso_time(conversation.created_at),
            "shared": conversation.shared,
            "turns": [
                {"question": turn.question, "a": turn.left_text, "b": turn.right_text}
                for turn in conversation.turns.all()
            ],
        }
        for conversation in conversations
    ]


def _iso_time(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
