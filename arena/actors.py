"""Actors, the senders of requests: what they may see and do is in `permissions`.

A person has the permissions of their role in a team; a token has those of its scopes, in its own
team only. Operators (signed-in staff) can do everything, and own everything that has no team.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from arena.models import ApiToken, Membership, Role, Team


class TeamPermission(StrEnum):
    """What can be done for a team; the first three are also the scopes of tokens."""

    READ = "read"
    SUBMIT = "submit"
    JUDGE = "judge"
    MANAGE = "manage"


ROLES_WITH = {
    TeamPermission.READ: [Role.OWNER, Role.MEMBER, Role.VIEWER],
    TeamPermission.SUBMIT: [Role.OWNER, Role.MEMBER],
    TeamPermission.JUDGE: [Role.OWNER, Role.MEMBER],
    TeamPermission.MANAGE: [Role.OWNER],
}


@dataclass(frozen=True)
class Actor:
    """A person, a program with a team's token, a command, a rule of the system, or nobody.

    Commands and rules have a `display_name`. An actor with `by_command` is an operator, because
    only operators can run commands on the server.
    """

    user: Any = None
    token: ApiToken | None = None
    display_name: str = ""
    by_command: bool = False

    @property
    def is_operator(self) -> bool:
        if self.by_command:
            return True
        return self.token is None and bool(self.user and self.user.is_active and self.user.is_staff)

    @property
    def name(self) -> str:
        """The name in the audit log."""
        if self.token is not None:
            return f"token {self.token}"
        return self.user.get_username() if self.user else self.display_name or "nobody"

    @property
    def key(self) -> str:
        """The identity for rate limits and idempotency keys; '' for nobody."""
        if self.token is not None:
            return f"token:{self.token.pk}"
        return f"user:{self.user.pk}" if self.user else ""

    @property
    def rights(self) -> str:
        """A person's permissions as text, to detect changes in them; '' for all other actors.

        A token's scopes and team never change.
        """
        if self.token is not None or self.user is None:
            return ""
        memberships = Membership.objects.filter(user=self.user).order_by("team")
        return f"{self.is_operator} {list(memberships.values_list('team', 'role'))}"

    def has_scope(self, permission: str) -> bool:
        """Return whether this is not a token, or a token with this scope."""
        return self.token is None or permission in self.token.scopes

    def teams_with(self, permission: str) -> QuerySet[Team]:
        """Return the teams for which this actor has `permission`; an operator's own teams only."""
        if self.token is not None:
            own_team = Team.objects.filter(pk=self.token.team_id)
            return own_team if permission in self.token.scopes else own_team.none()
        if self.user is None:
            return Team.objects.none()
        roles = ROLES_WITH[TeamPermission(permission)]
        memberships = Membership.objects.filter(user=self.user, role__in=roles)
        return Team.objects.filter(pk__in=memberships.values("team"))

    def teams_seen(self) -> QuerySet[Team]:
        """Return the teams whose private arenas this actor can see; tokens need no scope for this.

        A token that can only submit must still find the arena to submit to.
        """
        if self.token is not None:
            return Team.objects.filter(pk=self.token.team_id)
        return self.teams_with(TeamPermission.READ)

    def may(self, permission: str, team: Team | int | None) -> bool:
        """Return whether this actor has `permission` for `team`; without a team, only operators
        do.
        """
        if self.is_operator:
            return True
        if team is None:
            return False
        return self.teams_with(permission).filter(pk=getattr(team, "pk", team)).exists()


ANONYMOUS = Actor()
CLI = Actor(display_name="an administrator (command line)", by_command=True)
SYSTEM = Actor(display_name="a rule of the arena")


def actor_of(request: HttpRequest) -> Actor:
    """Return the sender of `request`: a token, the signed-in person, or nobody."""
    token = getattr(request, "auth", None)
    if isinstance(token, ApiToken):
        return Actor(token=token)
    user = getattr(request, "user", None)
    return Actor(user=user) if user is not None and user.is_authenticated else ANONYMOUS
