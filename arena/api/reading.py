"""What whoever asks may read of an arena's candidates and prompts; the database is asked once."""

from dataclasses import dataclass
from functools import cached_property

from arena.access import Ability, Actor, may_see_variables
from arena.models import Arena, Candidate


@dataclass
class Reader:
    """Somebody who reads in one arena."""

    actor: Actor
    arena: Arena

    @cached_property
    def teams(self) -> set[int]:
        """The teams whose own things the actor may read."""
        return set(self.actor.teams_with(Ability.READ).values_list("pk", flat=True))

    @property
    def reads(self) -> bool:
        """A token without the scope is told nothing, not even what everybody may read."""
        return self.actor.has_scope(Ability.READ)

    @property
    def is_of_arena(self) -> bool:
        """May the actor read what only the arena's team sees?"""
        return self.actor.is_operator or self.arena.team_id in self.teams

    @cached_property
    def sees_variables(self) -> bool:
        """May the actor see the prompts' variables?"""
        return may_see_variables(self.actor, self.arena)

    def knows(self, candidate: Candidate) -> bool:
        """May the actor read the candidate's true name, and what it is made of?

        Everybody may once it is disclosed.
        """
        return candidate.disclosed_at is not None or self.is_of_team(candidate)

    def is_of_team(self, candidate: Candidate) -> bool:
        """Is the candidate the actor's team's own?"""
        team_id = candidate.team_id or self.arena.team_id
        return self.actor.is_operator or team_id in self.teams
