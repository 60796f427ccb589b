"""Who asks, and what they may see and do.

A person has the abilities of their role in a team; a token those of its scopes, in its own team
alone. Operators (staff, signed in) may do everything. What belongs to no team is the operators'.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from arena.models import ApiToken, Arena, Candidate, Membership, Role, Team


class Ability(StrEnum):
    """What may be done for a team; the first three are the scopes of tokens too."""

    READ = "read"
    SUBMIT = "submit"
    JUDGE = "judge"
    MANAGE = "manage"


ROLES_WITH = {
    Ability.READ: [Role.OWNER, Role.MEMBER, Role.VIEWER],
    Ability.SUBMIT: [Role.OWNER, Role.MEMBER],
    Ability.JUDGE: [Role.OWNER, Role.MEMBER],
    Ability.MANAGE: [Role.OWNER],
}


@dataclass(frozen=True)
class Actor:
    """A person, a program with a team's token, or nobody in particular.

    What is neither, a command or a rule, has its name in `known_as`. Whoever may give commands here
    runs this Ringside: `by_command`.
    """

    user: Any = None
    token: ApiToken | None = None
    known_as: str = ""
    by_command: bool = False

    @property
    def is_operator(self) -> bool:
        if self.by_command:
            return True
        return self.token is None and bool(self.user and self.user.is_active and self.user.is_staff)

    @property
    def name(self) -> str:
        """As the audit trail names it."""
        if self.token is not None:
            return f"token {self.token}"
        return self.user.get_username() if self.user else self.known_as or "nobody"

    @property
    def key(self) -> str:
        """As limits and idempotency keys tell actors apart; '' for nobody."""
        if self.token is not None:
            return f"token:{self.token.pk}"
        return f"user:{self.user.pk}" if self.user else ""

    @property
    def rights(self) -> str:
        """What a person may, as a text that is another one when it changes; '' for all others.

        A token's scopes and team are its own for good.
        """
        if self.token is not None or self.user is None:
            return ""
        theirs = Membership.objects.filter(user=self.user).order_by("team")
        return f"{self.is_operator} {list(theirs.values_list('team', 'role'))}"

    def has_scope(self, ability: str) -> bool:
        """Whether this is no token, or one with the scope; without it nothing of it is done."""
        return self.token is None or ability in self.token.scopes

    def teams_with(self, ability: str) -> QuerySet[Team]:
        """The teams for which this actor has `ability`; of operators their own teams alone."""
        if self.token is not None:
            own = Team.objects.filter(pk=self.token.team_id)
            return own if ability in self.token.scopes else own.none()
        if self.user is None:
            return Team.objects.none()
        roles = ROLES_WITH[Ability(ability)]
        theirs = Membership.objects.filter(user=self.user, role__in=roles)
        return Team.objects.filter(pk__in=theirs.values("team"))

    def teams_seen(self) -> QuerySet[Team]:
        """The teams whose private arenas exist for this actor: a token needs no scope for that.

        One that may only submit has to find where to.
        """
        if self.token is not None:
            return Team.objects.filter(pk=self.token.team_id)
        return self.teams_with(Ability.READ)

    def may(self, ability: str, team: Team | int | None) -> bool:
        """Whether this actor has `ability` for `team`; what has no team is the operators'."""
        if self.is_operator:
            return True
        if team is None:
            return False
        return self.teams_with(ability).filter(pk=getattr(team, "pk", team)).exists()


NOBODY = Actor()
COMMAND = Actor(known_as="an operator, by a command", by_command=True)
RULE = Actor(known_as="a rule of the arena")


def actor_of(request: HttpRequest) -> Actor:
    """Return who sends `request`: the bearer of a token, the signed-in person, or nobody."""
    token = getattr(request, "auth", None)
    if isinstance(token, ApiToken):
        return Actor(token=token)
    user = getattr(request, "user", None)
    return Actor(user=user) if user is not None and user.is_authenticated else NOBODY


def teams_of(actor: Actor) -> QuerySet[Team]:
    """The teams that exist for `actor`: its own, and all for operators."""
    return Team.objects.all() if actor.is_operator else actor.teams_seen()


def needed_to_change(fields: Iterable[str]) -> Ability:
    """What changing these fields of an arena takes: an owner, but for the criteria alone.

    Those are told to judges, as a prompt's rubric is, by whoever may bring prompts. No token
    manages, so a program changes no settings.
    """
    return Ability.SUBMIT if set(fields) == {"criteria"} else Ability.MANAGE


def may_enter(actor: Actor, arena: Arena, team: Team) -> bool:
    """Whether `actor` may enter candidates of `team` into `arena`."""
    return actor.may(Ability.SUBMIT, team) and is_open_to(actor, arena, team.pk)


def is_open_to(actor: Actor, arena: Arena, team_id: int | None) -> bool:
    """Whether `arena` takes candidates of that team, and changes of them, when `actor` brings them.

    Those of other teams only while it is open; what has no team is the arena's own.
    """
    return team_id in (None, arena.team_id) or arena.open_to_teams or actor.is_operator


def may_see_variables(actor: Actor, arena: Arena) -> bool:
    """Whether `actor` may see the prompts' variables: the arena's team, and whoever may enter.

    What is entered is sent with their values in it, and its answers repeat them.
    """
    if actor.may(Ability.READ, arena.team_id):
        return True
    enters = arena.open_to_teams and actor.teams_with(Ability.SUBMIT).exists()
    return enters and actor.has_scope(Ability.READ)


def may_read_references(actor: Actor, arena: Arena | None) -> bool:
    """Whether `actor` may read the prompts' reference answers and rubrics: the arena's team may.

    What has no arena is the operators'.
    """
    return actor.may(Ability.READ, arena.team_id if arena else None)


def may_read_spending(actor: Actor, arena: Arena | None) -> bool:
    """Whether `actor` may read what judges of `arena` cost, and what their servers said of it.

    Its team may, and so may a token that orders judges and reads nothing else: it sets the cap.
    """
    team_id = arena.team_id if arena else None
    return actor.may(Ability.READ, team_id) or actor.may(Ability.JUDGE, team_id)


def may_change(actor: Actor, candidate: Candidate) -> bool:
    """Whether `actor` may write new versions of `candidate`, generate or upload its answers.

    A candidate without a team is the arena's team's.
    """
    return actor.may(Ability.SUBMIT, candidate.team_id or candidate.arena.team_id)


def may_retire(actor: Actor, candidate: Candidate) -> bool:
    """Whether `actor` may retire `candidate`: its own team may, and the arena's may its guests'."""
    return may_change(actor, candidate) or actor.may(Ability.SUBMIT, candidate.arena.team_id)


def may_read_money(actor: Actor, candidate: Candidate) -> bool:
    """Whether `actor` may read what the runs of `candidate` cost: its own team, in any role."""
    return actor.may(Ability.READ, candidate.team_id or candidate.arena.team_id)


def may_read_texts(actor: Actor, candidate: Candidate) -> bool:
    """Whether `actor` may read what the candidate is made of and all of its answers.

    Its own team may; the arena's team once the candidate is disclosed.
    """
    if may_read_money(actor, candidate):
        return True
    return candidate.disclosed_at is not None and actor.may(Ability.READ, candidate.arena.team_id)
