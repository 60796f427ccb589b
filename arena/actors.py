"""Actors, the senders of requests, and what they can see and do.

A person has the permissions of their role in a team; a token has those of its scopes, in its own
team only. Operators (signed-in staff) can do everything, and own everything that has no team.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from arena.models import (
    ApiToken,
    Arena,
    Candidate,
    Membership,
    Prompt,
    Rater,
    Role,
    Run,
    RunRater,
    Team,
)


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
            own = Team.objects.filter(pk=self.token.team_id)
            return own if permission in self.token.scopes else own.none()
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


def teams_of(actor: Actor) -> QuerySet[Team]:
    """Return the teams that `actor` can see: its own, or all for operators."""
    return Team.objects.all() if actor.is_operator else actor.teams_seen()


def needed_to_change(fields: Iterable[str]) -> TeamPermission:
    """Return the permission to change these fields of an arena: MANAGE, except for criteria alone.

    Judges receive the criteria just as they receive a prompt's rubric, and changing a rubric takes
    SUBMIT. No token has MANAGE, so programs can change no other settings.
    """
    return TeamPermission.SUBMIT if set(fields) == {"criteria"} else TeamPermission.MANAGE


def can_enter(actor: Actor, arena: Arena, team: Team) -> bool:
    """Return whether `actor` can register candidates of `team` in `arena`."""
    return actor.may(TeamPermission.SUBMIT, team) and is_open_to(actor, arena, team.pk)


def is_open_to(actor: Actor, arena: Arena, team_id: int | None) -> bool:
    """Return whether `actor` can register or change that team's candidates in `arena` now.

    Other teams can do so only while the arena is open to them. A candidate without a team belongs
    to the arena's team.
    """
    return team_id in (None, arena.team_id) or arena.open_to_teams or actor.is_operator


def can_read_authors(
    actor: Actor, arena: Arena, prompt: Prompt | None, *, voted: bool = False
) -> bool:
    """Return whether `actor` can read who wrote the answers to `prompt`, next to their texts.

    Anyone who can is not blind when the same answers are on their ballot. So only these can: the
    arena's team; anyone who has `voted` on these two answers; and everyone once the prompt is
    archived, or if answers are open (as they are if nobody can vote) and the prompt is not held
    out. A candidate's own team can read its answers anyway (`can_read_texts`). No team can while an
    order hides names from the actor.
    """
    if voted or prompt is None or prompt.retired_at is not None:
        return True
    if arena.has_open_answers and not prompt.is_held_out(arena):
        return True
    return actor.may(TeamPermission.READ, arena.team_id) and not is_blind(actor, arena)


def is_raters_link(arena: Arena, secret: str) -> bool:
    """Whether `secret` is that of the link whose holders vote in a private arena, and no more."""
    return bool(arena.raters_secret) and constant_time_compare(secret, arena.raters_secret)


def is_blind(actor: Actor, arena: Arena) -> bool:
    """Return whether an order in `arena` hides names from `actor`, until its raters have voted."""
    orders = Run.objects.hiding_names().filter(arena=arena)
    named = RunRater.objects.filter(run__in=orders, rater__user=actor.user)
    return actor.user is not None and named.exists()


def can_see_variables(actor: Actor, arena: Arena) -> bool:
    """Return whether `actor` can see the prompts' variables: the arena's team and guests can.

    Guests' candidates are sent prompts with the values filled in, and their answers repeat them.
    """
    if actor.may(TeamPermission.READ, arena.team_id):
        return True
    can_submit = arena.open_to_teams and actor.teams_with(TeamPermission.SUBMIT).exists()
    return can_submit and actor.has_scope(TeamPermission.READ)


def can_read_references(actor: Actor, arena: Arena | None) -> bool:
    """Return whether `actor` can read the prompts' references and rubrics: the arena's team can.

    Without an arena, only operators can.
    """
    return actor.may(TeamPermission.READ, arena.team_id if arena else None)


def can_read_spending(actor: Actor, arena: Arena | None) -> bool:
    """Return whether `actor` can read what judges in `arena` cost: the arena's team can.

    So can a token that may only start judge runs, because the token sets their cap.
    """
    team_id = arena.team_id if arena else None
    return actor.may(TeamPermission.READ, team_id) or actor.may(TeamPermission.JUDGE, team_id)


def can_change(actor: Actor, candidate: Candidate) -> bool:
    """Return whether `actor` can revise `candidate` and generate or upload its answers.

    A candidate without a team belongs to the arena's team.
    """
    return actor.may(TeamPermission.SUBMIT, candidate.team_id or candidate.arena.team_id)


def can_retire(actor: Actor, candidate: Candidate) -> bool:
    """Return whether `actor` can archive `candidate`: its own team and the arena's team can."""
    return can_change(actor, candidate) or actor.may(TeamPermission.SUBMIT, candidate.arena.team_id)


def can_delete(actor: Actor, candidate: Candidate) -> bool:
    """Return whether `actor` can delete `candidate` while nobody has voted on it: its owners
    can.
    """
    return actor.may(TeamPermission.MANAGE, candidate.team_id or candidate.arena.team_id)


def can_read_money(actor: Actor, candidate: Candidate) -> bool:
    """Return whether `actor` can read the cost of the candidate's runs: its team, in any role."""
    return actor.may(TeamPermission.READ, candidate.team_id or candidate.arena.team_id)


def can_read_texts(actor: Actor, candidate: Candidate) -> bool:
    """Return whether `actor` can read the candidate's configuration and all of its answers.

    Its own team can; the arena's team can once the candidate is disclosed. Nobody can while an
    order hides names from them.
    """
    of_team = can_read_money(actor, candidate) or (
        candidate.disclosed_at is not None
        and actor.may(TeamPermission.READ, candidate.arena.team_id)
    )
    return of_team and not is_blind(actor, candidate.arena)


@dataclass
class FieldVisibility:
    """What an actor can see of one arena's candidates and prompts; answers are cached."""

    actor: Actor
    arena: Arena

    @cached_property
    def teams(self) -> set[int]:
        """The ids of the teams that the actor may read."""
        return set(self.actor.teams_with(TeamPermission.READ).values_list("pk", flat=True))

    @property
    def reads(self) -> bool:
        """Whether the actor can read texts; a token without the scope `read` cannot."""
        return self.actor.has_scope(TeamPermission.READ)

    @property
    def is_of_arena(self) -> bool:
        """Whether the actor can see what only the arena's team can see."""
        return self.actor.is_operator or self.arena.team_id in self.teams

    @cached_property
    def sees_variables(self) -> bool:
        return can_see_variables(self.actor, self.arena)

    @cached_property
    def is_blind(self) -> bool:
        return is_blind(self.actor, self.arena)

    def knows(self, candidate: Candidate) -> bool:
        """Whether the actor can see the candidate's name and configuration, as everybody can after
        disclosure.
        """
        return candidate.disclosed_at is not None or self.is_of_team(candidate)

    def reads_authors(self, prompt: Prompt | None, rater: Rater | None = None) -> bool:
        """Whether the actor can read who wrote which answer; `rater` voted on them."""
        if self.is_of_arena and not self.is_blind:
            return True
        user = self.actor.user
        voted = user is not None and rater is not None and rater.user_id == user.pk
        return can_read_authors(ANONYMOUS, self.arena, prompt, voted=voted)

    def reads_answer(self, candidate: Candidate, prompt: Prompt | None, rater: Rater) -> bool:
        """Whether the actor can read the candidate's answer next to its name."""
        of_team = self.is_of_team(candidate) and not self.is_blind
        return self.knows(candidate) and (of_team or self.reads_authors(prompt, rater))

    def is_of_team(self, candidate: Candidate) -> bool:
        """Whether the candidate belongs to a team of the actor's."""
        team_id = candidate.team_id or self.arena.team_id
        return self.actor.is_operator or team_id in self.teams
