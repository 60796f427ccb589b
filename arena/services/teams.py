"""Teams, their names and their members.

A team never loses its last owner. Code that counts owners locks the team's row, so that two owners
who demote each other at once cannot both succeed.
"""

import logging
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.text import slugify

from arena.actors import Actor
from arena.errors import ServiceError
from arena.models import Membership, Role, Team
from arena.services.audit import record
from arena.services.invitations import revoke_invitations_of
from arena.services.rate_limits import allow
from arena.services.tokens import LETTERS
from arena.site import team_budget
from arena.validation import invisible_character, join_names, name_key

log = logging.getLogger(__name__)

LONGEST_NAME = 120
LONGEST_SLUG = 60
# A user's new teams are limited because request limits apply per team.
MOST_NEW_TEAMS = 10
HOUR = timedelta(hours=1)
RESERVED_SLUGS = {"new"}


class TeamError(ServiceError):
    """A change to a team that cannot be made."""


class LastOwnerError(TeamError):
    def __init__(self, team: Team) -> None:
        super().__init__(f"{team} needs at least one owner. Make another member an owner first.")


@transaction.atomic
def create_team(*, name: str, by: Actor) -> Team:
    """Create a team whose first owner is `by`. Raises TeamError."""
    name = _clean_team_name(name)
    slug = slugify(name)[:LONGEST_SLUG].strip("-_")
    if slug in RESERVED_SLUGS:
        raise TeamError(f"The address /teams/{slug}/ is reserved. Choose another name.")
    slug = slug or f"team-{get_random_string(8, LETTERS)}"
    check_team_name_is_free(name)
    _check_rate(by)
    try:
        with transaction.atomic():
            # One budget a person: otherwise whoever makes ten teams spends ten.
            is_first = not Membership.objects.filter(user=by.user, role=Role.OWNER).exists()
            budget = team_budget() if is_first else 0
            team = Team.objects.create(name=name, slug=slug, name_key=name_key(name), budget=budget)
    except IntegrityError:
        if not Team.objects.filter(slug=slug).exists():
            raise _name_taken_error(name) from None
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
    check_team_name_is_free(name, team)
    team.name, team.name_key = name, name_key(name)
    try:
        with transaction.atomic():
            team.save(
                update_fields=["name", "name_key"]
            )  # saved as an instance: signals tell its leaderboards
    except IntegrityError:
        team.refresh_from_db(fields=["name", "name_key"])
        raise _name_taken_error(name) from None
    record(team=team, by=by, action="renamed the team", subject=name, before=before)
    return team


@transaction.atomic
def change_role(*, membership: Membership, role: str, by: Actor, now: datetime) -> Membership:
    """Make a member an owner, a member or a viewer. Raises TeamError.

    The open invitations of someone who is no longer an owner are revoked.
    """
    if role not in Role.values:
        raise TeamError("Choose a role: owner, member or viewer.")
    member = _locked_membership(membership)
    if member.role == role:
        return member
    if role != Role.OWNER:
        _check_owner_remains(member)
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
    member = _locked_membership(membership)
    _check_owner_remains(member)
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
        f"Deleting {team} also permanently deletes its memberships, API tokens, webhooks, rubrics "
        "that no judge has used, labels that no judge was asked about, and audit log."
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


def _locked_membership(membership: Membership) -> Membership:
    """Return the current membership, with its team locked against other changes of members."""
    Team.objects.select_for_update(no_key=True).get(pk=membership.team_id)
    current = Membership.objects.select_related("team", "user").filter(pk=membership.pk).first()
    if current is None:
        raise TeamError("This person is no longer in the team.")
    return current


def _check_owner_remains(member: Membership) -> None:
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


def check_team_name_is_free(name: str, team: Team | None = None) -> None:
    """Raise TeamError if `name` reads like the name of a team other than `team`."""
    key = name_key(name)
    others = Team.objects.exclude(pk=team.pk) if team else Team.objects.all()
    if other := others.filter(name_key=key).first():
        raise _name_taken_error(other.name)
    # Teams without a key had similar names before such names were refused; there are few or none.
    for other in others.filter(name_key=None).only("name"):
        if name_key(other.name) == key:
            raise _name_taken_error(other.name)


def _name_taken_error(name: str) -> TeamError:
    return TeamError(f"A team named {name} already exists. Choose another name.", field="name")
