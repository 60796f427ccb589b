"""Invitations: a link makes one person a member, is valid for a week, and is shown once."""

import secrets
from datetime import datetime, timedelta

from allauth.account import app_settings as accounts
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.db import transaction

from arena.actors import Actor
from arena.errors import ServiceError
from arena.models import Invitation, Membership, Role, Team
from arena.services.audit import record
from arena.services.tokens import digest_secret

LONGEST_NOTE = 200
MOST_OPEN = 100
INVITATION_LIFETIME = timedelta(days=7)
ACCOUNT_CREATED = "This invitation was already used to create an account. Ask for a new one."
UNKNOWN_INVITATION = "This link is no longer valid. Ask the person who sent it for a new one."


class InvitationError(ServiceError):
    """An invitation that cannot be created or accepted."""


@transaction.atomic
def create_invitation(
    *, team: Team, role: str, note: str, by: Actor, now: datetime
) -> tuple[Invitation, str]:
    """Return a new invitation to `team` and the secret of its link. Raises InvitationError."""
    if role not in Role.values:
        raise InvitationError("Choose a role: owner, member or viewer.")
    note = " ".join(note.split())
    if len(note) > LONGEST_NOTE:
        raise InvitationError(f"The note can have at most {LONGEST_NOTE} characters.")
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    if team.invitations.open(now).count() >= MOST_OPEN:
        raise InvitationError(f"A team can have {MOST_OPEN} open invitations. Revoke one first.")
    secret = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        team=team,
        role=role,
        note=note,
        digest=digest_secret(secret),
        created_by=by.user,
        expires_at=now + INVITATION_LIFETIME,
    )
    record(team=team, by=by, action="made an invitation", subject=note, role=role)
    return invitation, secret


@transaction.atomic
def revoke_invitation(*, invitation: Invitation, by: Actor, now: datetime) -> bool:
    """Revoke `invitation`; return whether this call did it."""
    revoked = Invitation.objects.unused(now).filter(pk=invitation.pk).update(revoked_at=now)
    if revoked:
        record(team=invitation.team, by=by, action="revoked an invitation", subject=invitation.note)
    return bool(revoked)


def revoke_invitations_of(*, member: Membership, now: datetime) -> dict[str, int]:
    """Revoke the open invitations that `member` created; return details for the audit log."""
    invitations = member.team.invitations.unused(now).filter(created_by=member.user_id)
    revoked = invitations.update(revoked_at=now)
    return {"invitations_revoked": revoked} if revoked else {}


@transaction.atomic
def accept_invitation(*, invitation: Invitation, by: Actor, now: datetime) -> Membership:
    """Make `by` a member of the invitation's team; use up the link. Raises InvitationError."""
    team, role = invitation.team, invitation.role
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    if member := Membership.objects.filter(team=team, user=by.user).first():
        raise InvitationError(f"You are already in {team}, as {member.role}.")
    open_invitation = Invitation.objects.open(now).filter(pk=invitation.pk)
    if not open_invitation.update(accepted_at=now, accepted_by=by.user):
        current = Invitation.objects.select_related("team").filter(pk=invitation.pk).first()
        raise InvitationError(closed_reason(current, now) or UNKNOWN_INVITATION)
    membership = Membership.objects.create(team=team, user=by.user, role=role)
    record(team=team, by=by, action="joined the team", subject=invitation.note, role=role)
    return membership


def can_create_account(*, invitation_id: int, now: datetime) -> bool:
    """Return whether a new user can sign up by this link; each link creates one account."""
    invitations = Invitation.objects.open(now).select_related("made_account")
    invitation = invitations.filter(pk=invitation_id).first()
    return invitation is not None and _can_make_account(invitation)


@transaction.atomic
def record_account(*, invitation_id: int, user: User, now: datetime) -> None:
    """Record that `user` has just signed up by the link, so that it creates no other account.

    An unused account that the link created before is deleted, so that a mistyped address, or a
    stranger who found the link, does not lock out the invited person. Raises InvitationError.
    """
    locked = Invitation.objects.open(now).select_for_update(of=("self",), no_key=True)
    invitation = locked.filter(pk=invitation_id).first()
    if invitation is None or not _can_make_account(invitation):
        raise InvitationError(ACCOUNT_CREATED)
    if before := invitation.made_account:
        before.delete()
    Invitation.objects.filter(pk=invitation_id).update(made_account=user)


def _can_make_account(invitation: Invitation) -> bool:
    """Return whether the link created no account, or an account that nobody can have used.

    If email addresses must be verified, nobody can sign in before that; otherwise people are
    signed in at once.
    """
    account = invitation.made_account
    if account is None:
        return True
    must_verify = accounts.EMAIL_VERIFICATION == accounts.EmailVerificationMethod.MANDATORY
    if not must_verify or account.last_login or account.is_staff:
        return False
    verified = EmailAddress.objects.filter(user=account, verified=True)
    return not (verified.exists() or Membership.objects.filter(user=account).exists())


def find_invitation(secret: str) -> Invitation | None:
    """Return the invitation whose link holds `secret`, open or not."""
    invitations = Invitation.objects.select_related("team", "created_by")
    return invitations.filter(digest=digest_secret(secret)).first()


def closed_reason(invitation: Invitation | None, now: datetime) -> str:
    """Return why the link cannot be used; '' if it can."""
    if invitation is None:
        return UNKNOWN_INVITATION
    if invitation.accepted_at is not None:
        return (
            "This invitation has already been used. Each link is for one person: ask for a new one."
        )
    ask_again = f"Ask an owner of {invitation.team} for a new one."
    if invitation.revoked_at is not None:
        return f"This invitation was revoked. {ask_again}"
    if invitation.expires_at <= now:
        return f"This invitation has expired. {ask_again}"
    if not Invitation.objects.open(now).filter(pk=invitation.pk).exists():
        return f"The person who sent this invitation can no longer invite people. {ask_again}"
    return ""
