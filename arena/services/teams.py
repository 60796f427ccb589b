"""Teams and who belongs to them. A team never loses its last owner.

Whatever counts owners holds the lock on the team's row, so that two owners who demote each other
at once cannot both succeed.
"""

from datetime import datetime, timedelta
from string import ascii_lowercase, digits

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.text import slugify

from arena.access import Actor
from arena.calls.amounts import MOST, NANO
from arena.calls.money import dollars
from arena.models import Membership, Role, Team
from arena.services.audit import record
from arena.services.invitations import revoke_invitations_of
from arena.services.limits import allow
from arena.services.names import hidden_character, key_of
from arena.services.refusals import Refused

LONGEST_NAME = 120
LONGEST_SLUG = 60
MOST_BUDGET = MOST * NANO
KEPT_SLUGS = {"new"}
# Each brings tokens, whose requests are counted by team: many teams must not be many requests.
MOST_NEW_TEAMS = 10
HOUR = timedelta(hours=1)


class TeamRefused(Refused):
    """The change cannot be made; the message is a sentence for people."""


class LastOwner(TeamRefused):
    """Somebody must stay who can manage the team."""

    def __init__(self, team: Team) -> None:
        super().__init__(
            f"{team} needs an owner: make somebody else one first, then this can be done."
        )


@transaction.atomic
def create_team(*, name: str, by: Actor) -> Team:
    """Make a team, whose first owner is `by`. Raises TeamRefused."""
    name = _checked_name(name)
    slug = _checked_slug(name)
    _check_is_free(name)
    _check_pace(by)
    try:
        with transaction.atomic():
            team = Team.objects.create(name=name, slug=slug, name_key=key_of(name))
    except IntegrityError:
        if not Team.objects.filter(slug=slug).exists():
            raise _taken(name) from None
        raise TeamRefused(f"The address /teams/{slug}/ is taken. Choose another name.") from None
    Membership.objects.create(team=team, user=by.user, role=Role.OWNER)
    record(team=team, by=by, action="made the team", subject=team)
    return team


@transaction.atomic
def rename_team(*, team: Team, name: str, by: Actor) -> Team:
    """Give `team` another name; its address stays, since others hold links to it.

    Raises TeamRefused.
    """
    name, before = _checked_name(name), team.name
    if name == before:
        return team
    _check_is_free(name, team)
    team.name, team.name_key = name, key_of(name)
    try:
        with transaction.atomic():
            team.save(update_fields=["name", "name_key"])  # boards that name it hear of it
    except IntegrityError:
        team.refresh_from_db(fields=["name", "name_key"])
        raise _taken(name) from None
    record(team=team, by=by, action="renamed the team", subject=name, before=before)
    return team


@transaction.atomic
def change_role(*, membership: Membership, role: str, by: Actor, now: datetime) -> Membership:
    """Make a member an owner, a member or a viewer. Raises TeamRefused.

    Whoever is no owner any more has no links out that still bring somebody in.
    """
    if role not in Role.values:
        raise TeamRefused("Choose what they are: owner, member or viewer.")
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
    """Take somebody out of their team, and their links with them; or they leave it themselves."""
    member = _locked(membership)
    _keep_an_owner(member)
    left = by.user is not None and by.user.pk == member.user_id
    action = "left the team" if left else "removed a member"
    revoked = revoke_invitations_of(member=member, now=now)
    record(team=member.team, by=by, action=action, subject=member.user, role=member.role, **revoked)
    member.delete()


@transaction.atomic
def set_budget(*, team: Team, budget: int, by: Actor) -> Team:
    """Let `team` spend `budget` nano-dollars on models, all told. Raises TeamRefused."""
    if not 0 <= budget <= MOST_BUDGET:
        raise TeamRefused(f"A budget is between $0 and ${MOST:,}.")
    team = Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    before, team.budget = team.budget, budget
    team.save(update_fields=["budget"])
    record(
        team=team, by=by, action="set the budget", budget=dollars(budget), before=dollars(before)
    )
    return team


def _locked(membership: Membership) -> Membership:
    """Return the membership as it stands, while nobody else changes who is in its team."""
    Team.objects.select_for_update(no_key=True).get(pk=membership.team_id)
    found = Membership.objects.select_related("team", "user").filter(pk=membership.pk).first()
    if found is None:
        raise TeamRefused("They are not in the team any more.")
    return found


def _keep_an_owner(member: Membership) -> None:
    """Raise LastOwner if the team would have none without this member."""
    owners = Membership.objects.filter(team=member.team, role=Role.OWNER).exclude(pk=member.pk)
    if member.role == Role.OWNER and not owners.exists():
        raise LastOwner(member.team)


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if not name:
        raise TeamRefused("Give the team a name.", field="name")
    if len(name) > LONGEST_NAME:
        raise TeamRefused(f"The name of a team has at most {LONGEST_NAME} characters.")
    if hidden := hidden_character(name):
        raise TeamRefused(f"The name {hidden}.", field="name")
    return name


def _check_pace(by: Actor) -> None:
    """Refuse one new team too many. A team that is not made after all is not counted."""
    if by.user is None or by.is_operator:
        return
    key, now = f"new-teams:{by.user.pk}", timezone.now()
    if not allow(key=key, limit=MOST_NEW_TEAMS, window=HOUR, now=now):
        raise TeamRefused(
            f"You have made {MOST_NEW_TEAMS} teams within an hour. Wait until it is over, or "
            "invite people to a team that you have."
        )


def _check_is_free(name: str, team: Team | None = None) -> None:
    """Refuse a name that reads like that of another team than `team`."""
    key = key_of(name)
    others = Team.objects.exclude(pk=team.pk) if team else Team.objects.all()
    if found := others.filter(name_key=key).first():
        raise _taken(found.name)
    # Teams that were called alike before that was refused; there are few, or none.
    for without_key in others.filter(name_key=None).only("name"):
        if key_of(without_key.name) == key:
            raise _taken(without_key.name)


def _taken(name: str) -> TeamRefused:
    return TeamRefused(f"There is a team called {name} already. Choose another name.", field="name")


def _checked_slug(name: str) -> str:
    """Return the address that a name gives; one without a Latin letter or digit gets any."""
    slug = slugify(name)[:LONGEST_SLUG].strip("-_")
    if slug in KEPT_SLUGS:
        raise TeamRefused(
            f"The address /teams/{slug}/ is kept for another page. Choose another name."
        )
    return slug or f"team-{get_random_string(8, ascii_lowercase + digits)}"
