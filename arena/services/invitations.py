"""Invitations: links that make one person a member, shown once, for a week, for one use."""

import secrets
from datetime import datetime, timedelta

from allauth.account import app_settings as accounts
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.db import transaction

from arena.access import Actor
from arena.models import Invitation, Membership, Role, Team
from arena.services.audit import record
from arena.services.refusals import Refused
from arena.services.tokens import digest_of

LASTS = timedelta(days=7)
LONGEST_NOTE = 200
MOST_OPEN = 100
MADE_ONE = "An account was made by this invitation already. Each link makes one."
NEVER = "This is not an invitation. Ask whoever sent you the link to send it once more."


class InvitationRefused(Refused):
    """The invitation cannot be made or accepted; the message is a sentence for people."""


@transaction.atomic
def create_invitation(
    *, team: Team, role: str, note: str, by: Actor, now: datetime
) -> tuple[Invitation, str]:
    """Return a new invitation to `team` and the secret of its link. Raises InvitationRefused."""
    if role not in Role.values:
        raise InvitationRefused("Choose what the new member is: owner, member or viewer.")
    note = " ".join(note.split())
    if len(note) > LONGEST_NOTE:
        raise InvitationRefused(f"The note has at most {LONGEST_NOTE} characters.")
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    if team.invitations.open(now).count() >= MOST_OPEN:
        raise InvitationRefused(f"{MOST_OPEN} invitations are open. Revoke those not needed.")
    secret = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        team=team,
        role=role,
        note=note,
        digest=digest_of(secret),
        created_by=by.user,
        expires_at=now + LASTS,
    )
    record(team=team, by=by, action="made an invitation", subject=note, role=role)
    return invitation, secret


@transaction.atomic
def revoke_invitation(*, invitation: Invitation, by: Actor, now: datetime) -> bool:
    """End the link of `invitation`; say whether that is news."""
    revoked = Invitation.objects.unused(now).filter(pk=invitation.pk).update(revoked_at=now)
    if revoked:
        record(team=invitation.team, by=by, action="revoked an invitation", subject=invitation.note)
    return bool(revoked)


def revoke_invitations_of(*, member: Membership, now: datetime) -> dict[str, int]:
    """End the links that `member` made for their team; return what a trail says of it, if any."""
    theirs = member.team.invitations.unused(now).filter(created_by=member.user_id)
    revoked = theirs.update(revoked_at=now)
    return {"invitations_revoked": revoked} if revoked else {}


@transaction.atomic
def accept_invitation(*, invitation: Invitation, by: Actor, now: datetime) -> Membership:
    """Make `by` a member of the invitation's team and use the link up. Raises InvitationRefused."""
    team, role = invitation.team, invitation.role
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    if member := Membership.objects.filter(team=team, user=by.user).first():
        raise InvitationRefused(f"You are in {team} already, as {member.role}.")
    used = Invitation.objects.open(now).filter(pk=invitation.pk)
    if not used.update(accepted_at=now, accepted_by=by.user):
        raise InvitationRefused(why_closed(_as_it_stands(invitation), now) or NEVER)
    membership = Membership.objects.create(team=team, user=by.user, role=role)
    record(team=team, by=by, action="joined the team", subject=invitation.note, role=role)
    return membership


def makes_an_account(*, invitation_id: int, now: datetime) -> bool:
    """May somebody new sign up by this link? Each makes one account."""
    found = Invitation.objects.open(now).filter(pk=invitation_id).select_related("made_account")
    invitation = found.first()
    return invitation is not None and _has_room(invitation)


@transaction.atomic
def note_account(*, invitation_id: int, user: User, now: datetime) -> None:
    """Use the link up for making accounts; `user` has just signed up by it.

    An account that the link made before, and that came to nothing, is deleted: whoever mistyped an
    address, or a stranger who found the link, keeps nobody out. Raises InvitationRefused.
    """
    locked = Invitation.objects.open(now).select_for_update(of=("self",), no_key=True)
    invitation = locked.filter(pk=invitation_id).first()
    if invitation is None or not _has_room(invitation):
        raise InvitationRefused(MADE_ONE)
    if before := invitation.made_account:
        before.delete()
    Invitation.objects.filter(pk=invitation_id).update(made_account=user)


def _has_room(invitation: Invitation) -> bool:
    """Has the link made no account, or one that nobody can be behind?

    Where mail arrives nobody signs in before their address is proven. Elsewhere everybody does at
    once.
    """
    made = invitation.made_account
    if made is None:
        return True
    proves = accounts.EMAIL_VERIFICATION == accounts.EmailVerificationMethod.MANDATORY
    if not proves or made.last_login or made.is_staff:
        return False
    proven = EmailAddress.objects.filter(user=made, verified=True)
    return not (proven.exists() or Membership.objects.filter(user=made).exists())


def find_invitation(secret: str) -> Invitation | None:
    """Return the invitation whose link holds `secret`, open or not."""
    found = Invitation.objects.select_related("team", "created_by")
    return found.filter(digest=digest_of(secret)).first()


def why_closed(invitation: Invitation | None, now: datetime) -> str:
    """Say why the link cannot be used; '' when it can."""
    if invitation is None:
        return NEVER
    if invitation.accepted_at is not None:
        return "This invitation has been used. Each link is for one person: ask for another."
    if invitation.revoked_at is not None:
        return f"This invitation was withdrawn. Ask an owner of {invitation.team} for another."
    if invitation.expires_at <= now:
        return f"This invitation has expired. Ask an owner of {invitation.team} for another."
    if not Invitation.objects.open(now).filter(pk=invitation.pk).exists():
        return (
            f"Whoever made this invitation cannot invite to {invitation.team} any more. Ask an "
            f"owner of {invitation.team} for another."
        )
    return ""


def _as_it_stands(invitation: Invitation) -> Invitation | None:
    return Invitation.objects.select_related("team").filter(pk=invitation.pk).first()
