"""Teams: their members, budget, invitations and API tokens.

A team never loses its last owner. Code that counts owners locks the team's row, so that two owners
who demote each other at once cannot both succeed.
"""

import hashlib
import logging
import secrets
import string
from collections.abc import Collection
from datetime import datetime, timedelta

from allauth.account import app_settings as accounts
from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.text import slugify

from arena.actors import Actor, TeamPermission
from arena.calls.money import dollars
from arena.errors import ServiceError
from arena.models import ApiToken, Invitation, Membership, Role, Team
from arena.services.audit import record
from arena.services.rate_limits import allow
from arena.validation import MOST, NANO, invisible_character, join_names, name_key

log = logging.getLogger(__name__)

LONGEST_NAME = 120
LONGEST_SLUG = 60
LONGEST_NOTE = 200
LONGEST_TOKEN_NAME = 100
MOST_BUDGET = MOST * NANO
# A user's new teams are limited because request limits apply per team.
MOST_NEW_TEAMS = 10
MOST_OPEN = 100
MOST_TOKENS = 50
HOUR = timedelta(hours=1)
INVITATION_LIFETIME = timedelta(days=7)
LAST_USE_INTERVAL = timedelta(minutes=1)  # a token's last use is written at most this often
RESERVED_SLUGS = {"new"}
SCOPES = (TeamPermission.READ, TeamPermission.SUBMIT, TeamPermission.JUDGE)
LETTERS = string.ascii_lowercase + string.digits
RANDOM_BYTES = 32
ACCOUNT_CREATED = "This invitation was already used to create an account. Ask for a new one."
UNKNOWN_INVITATION = "This link is no longer valid. Ask the person who sent it for a new one."


class TeamError(ServiceError):
    """A change to a team that cannot be made."""


class LastOwnerError(TeamError):
    def __init__(self, team: Team) -> None:
        super().__init__(f"{team} needs at least one owner. Make another member an owner first.")


class InvitationError(ServiceError):
    """An invitation that cannot be created or accepted."""


class TokenError(ServiceError):
    """A token that cannot be created."""


# -- Teams and members -----------------------------------------------------------------------------


@transaction.atomic
def create_team(*, name: str, by: Actor) -> Team:
    """Create a team whose first owner is `by`. Raises TeamError."""
    name = _clean_team_name(name)
    slug = _team_slug(name)
    _check_is_free(name)
    _check_rate(by)
    try:
        with transaction.atomic():
            team = Team.objects.create(
                name=name, slug=slug, name_key=name_key(name), budget=settings.TEAM_BUDGET
            )
    except IntegrityError:
        if not Team.objects.filter(slug=slug).exists():
            raise _taken(name) from None
        raise TeamError(
            f"The address /teams/{slug}/ is already taken. Choose another name."
        ) from None
    Membership.objects.create(team=team, user=by.user, role=Role.OWNER)
    record(team=team, by=by, action="made the team", subject=team)
    return team


@transaction.atomic
def rename_team(*, team: Team, name: str, by: Actor) -> Team:
    """Rename `team`; its address stays the same, so that links keep working. Raises TeamError."""
    name, before = _clean_team_name(name), team.name
    if name == before:
        return team
    _check_is_free(name, team)
    team.name, team.name_key = name, name_key(name)
    try:
        with transaction.atomic():
            team.save(
                update_fields=["name", "name_key"]
            )  # saved as an instance: signals tell its leaderboards
    except IntegrityError:
        team.refresh_from_db(fields=["name", "name_key"])
        raise _taken(name) from None
    record(team=team, by=by, action="renamed the team", subject=name, before=before)
    return team


@transaction.atomic
def change_role(*, membership: Membership, role: str, by: Actor, now: datetime) -> Membership:
    """Make a member an owner, a member or a viewer. Raises TeamError.

    The open invitations of someone who is no longer an owner are revoked.
    """
    if role not in Role.values:
        raise TeamError("Choose a role: owner, member or viewer.")
    member = _locked(membership)
    if member.role == role:
        return member
    if role != Role.OWNER:
        _keep_an_owner(member)
    before, member.role = member.role, role
    member.save(update_fields=["role"])
    revoked = {} if role == Role.OWNER else revoke_invitations_of(member=member, now=now)
    record(
        team=member.team,
        by=by,
        action="changed a role",
        subject=member.user,
        role=role,
        before=before,
        **revoked,
    )
    return member


@transaction.atomic
def remove_member(*, membership: Membership, by: Actor, now: datetime) -> None:
    """Remove a member from their team, or let them leave, and revoke their invitations."""
    member = _locked(membership)
    _keep_an_owner(member)
    is_leaving = by.user is not None and by.user.pk == member.user_id
    action = "left the team" if is_leaving else "removed a member"
    revoked = revoke_invitations_of(member=member, now=now)
    record(team=member.team, by=by, action=action, subject=member.user, role=member.role, **revoked)
    member.delete()


@transaction.atomic
def delete_team(*, team: Team, by: Actor) -> None:
    """Delete a team with its memberships, tokens, webhooks and audit log. Raises TeamError."""
    locked = Team.objects.select_for_update().filter(pk=team.pk).first()
    if locked is None:
        return
    if reason := reason_to_keep_team(locked):
        raise TeamError(reason)
    locked.delete()
    log.info("%s deleted the team %s", by.name, locked.slug)


def loss_of_team(team: Team) -> str:
    """Return a sentence about what is lost when the team is deleted."""
    return (
        f"Deleting {team} also permanently deletes its memberships, API tokens, webhooks and "
        "audit log."
    )


def reason_to_keep_team(team: Team) -> str:
    """Return a sentence about why the team cannot be deleted; '' if it can."""
    if names := list(team.arenas.order_by("name").values_list("name", flat=True)):
        return f"The team still has arenas: {join_names(names)}. Delete them first."
    guests = team.candidates.order_by("arena__name")
    if names := list(dict.fromkeys(guests.values_list("arena__name", flat=True))):
        return (
            f"The team has candidates in arenas of other teams: {join_names(names)}. Delete those "
            "without votes. If any has votes, leaderboards depend on them and the team cannot be "
            "deleted."
        )
    return ""


@transaction.atomic
def set_budget(*, team: Team, budget: int, by: Actor) -> Team:
    """Set what `team` may spend on models in total, in nano-dollars. Raises TeamError."""
    if not 0 <= budget <= MOST_BUDGET:
        raise TeamError(f"The budget must be between $0 and ${MOST:,}.")
    team = Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    before, team.budget = team.budget, budget
    team.save(update_fields=["budget"])
    record(
        team=team, by=by, action="set the budget", budget=dollars(budget), before=dollars(before)
    )
    return team


def _locked(membership: Membership) -> Membership:
    """Return the current membership, with its team locked against other changes of members."""
    Team.objects.select_for_update(no_key=True).get(pk=membership.team_id)
    current = Membership.objects.select_related("team", "user").filter(pk=membership.pk).first()
    if current is None:
        raise TeamError("This person is no longer in the team.")
    return current


def _keep_an_owner(member: Membership) -> None:
    """Raise LastOwnerError if this member is the team's only owner."""
    owners = Membership.objects.filter(team=member.team, role=Role.OWNER).exclude(pk=member.pk)
    if member.role == Role.OWNER and not owners.exists():
        raise LastOwnerError(member.team)


def _clean_team_name(name: str) -> str:
    name = " ".join(name.split())
    if not name:
        raise TeamError("Enter a name for the team.", field="name")
    if len(name) > LONGEST_NAME:
        raise TeamError(f"A team name can have at most {LONGEST_NAME} characters.")
    if hidden := invisible_character(name):
        raise TeamError(f"The name {hidden}.", field="name")
    return name


def _check_rate(by: Actor) -> None:
    """Raise TeamError for too many new teams. Failed attempts do not count."""
    if by.user is None or by.is_operator:
        return
    key, now = f"new-teams:{by.user.pk}", timezone.now()
    if not allow(key=key, limit=MOST_NEW_TEAMS, window=HOUR, now=now):
        raise TeamError(
            f"You can create {MOST_NEW_TEAMS} teams an hour. Try again later, or invite people to "
            "an existing team."
        )


def _check_is_free(name: str, team: Team | None = None) -> None:
    """Raise TeamError if `name` reads like the name of a team other than `team`."""
    key = name_key(name)
    others = Team.objects.exclude(pk=team.pk) if team else Team.objects.all()
    if other := others.filter(name_key=key).first():
        raise _taken(other.name)
    # Teams without a key had similar names before such names were refused; there are few or none.
    for other in others.filter(name_key=None).only("name"):
        if name_key(other.name) == key:
            raise _taken(other.name)


def _taken(name: str) -> TeamError:
    return TeamError(f"A team named {name} already exists. Choose another name.", field="name")


def _team_slug(name: str) -> str:
    """Return the slug for a name; a random one if the name has no Latin letter or digit."""
    slug = slugify(name)[:LONGEST_SLUG].strip("-_")
    if slug in RESERVED_SLUGS:
        raise TeamError(f"The address /teams/{slug}/ is reserved. Choose another name.")
    return slug or f"team-{get_random_string(8, LETTERS)}"


# -- Invitations -----------------------------------------------------------------------------------

# A link makes one person a member and is valid for a week. Its secret is shown once.


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
    return invitation is not None and _has_room(invitation)


@transaction.atomic
def record_account(*, invitation_id: int, user: User, now: datetime) -> None:
    """Record that `user` has just signed up by the link, so that it creates no other account.

    An unused account that the link created before is deleted, so that a mistyped address, or a
    stranger who found the link, does not lock out the invited person. Raises InvitationError.
    """
    locked = Invitation.objects.open(now).select_for_update(of=("self",), no_key=True)
    invitation = locked.filter(pk=invitation_id).first()
    if invitation is None or not _has_room(invitation):
        raise InvitationError(ACCOUNT_CREATED)
    if before := invitation.made_account:
        before.delete()
    Invitation.objects.filter(pk=invitation_id).update(made_account=user)


def _has_room(invitation: Invitation) -> bool:
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


# -- API tokens ------------------------------------------------------------------------------------

# A token is `rs_<8 characters>_<64 hexadecimal digits>`: 256 random bits after a prefix that may be
# shown. Only the SHA-256 of the whole token is stored, which is enough for a secret that nobody can
# guess.


@transaction.atomic
def create_token(
    *, team: Team, name: str, scopes: Collection[str], by: Actor
) -> tuple[ApiToken, str]:
    """Return a new token of `team` and its secret, which is not stored. Raises TokenError."""
    name = _clean_token_name(name)
    if not scopes:
        raise TokenError("Choose at least one scope.", field="scopes")
    if unknown := sorted(set(scopes) - set(SCOPES)):
        raise TokenError(f"Unknown scope “{unknown[0]}”. Choose from read, submit and judge.")
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    if team.tokens.live().count() >= MOST_TOKENS:
        raise TokenError(f"A team can have {MOST_TOKENS} tokens. Revoke one first.")
    prefix, secret = _new_secret()
    token = ApiToken(
        team=team,
        name=name,
        prefix=prefix,
        digest=digest_secret(secret),
        can_read=TeamPermission.READ in scopes,
        can_submit=TeamPermission.SUBMIT in scopes,
        can_judge=TeamPermission.JUDGE in scopes,
        created_by=by.user,
    )
    try:
        with transaction.atomic():
            token.save(force_insert=True)
    except IntegrityError:  # as when a form is sent twice
        raise TokenError(
            "A token with this name already exists. Revoke it, or choose another name.",
            field="name",
        ) from None
    record(team=team, by=by, action="made a token", subject=token, scopes=token.scopes)
    return token, secret


@transaction.atomic
def revoke_token(*, token: ApiToken, by: Actor, now: datetime) -> bool:
    """Revoke `token` for good; return whether this call did it."""
    revoked = ApiToken.objects.live().filter(pk=token.pk).update(revoked_at=now)
    if revoked:
        record(team=token.team, by=by, action="revoked a token", subject=token)
    return bool(revoked)


def find_token(secret: str, now: datetime) -> ApiToken | None:
    """Return the active token with this secret, with its team, or None.

    Every text takes the same path: a digest and one query. The token's last use is written at most
    once a minute.
    """
    digest = digest_secret(secret)
    token = ApiToken.objects.live().select_related("team").filter(digest=digest).first()
    if token is not None:
        _record_use(token, now)
    return token


def digest_secret(secret: str) -> str:
    """Return the stored digest of a secret, which may contain lone surrogates."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _record_use(token: ApiToken, now: datetime) -> None:
    recently = now - LAST_USE_INTERVAL
    if token.last_used_at is not None and token.last_used_at > recently:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lte=recently)
    ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
    token.last_used_at = now


def _new_secret() -> tuple[str, str]:
    prefix = "rs_" + "".join(secrets.choice(LETTERS) for _ in range(8))
    return prefix, f"{prefix}_{secrets.token_hex(RANDOM_BYTES)}"


def _clean_token_name(name: str) -> str:
    name = " ".join(name.split())
    if not name:
        raise TokenError("Enter a name that says where the token is used.", field="name")
    if len(name) > LONGEST_TOKEN_NAME:
        raise TokenError(f"A token name can have at most {LONGEST_TOKEN_NAME} characters.")
    return name
