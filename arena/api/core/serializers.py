"""Serializer bases and fields, and what an actor can see of candidates and prompts."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from arena.actors import Actor, TeamPermission, can_see_variables
from arena.api.core.errors import BadParameter, TooLarge, Unprocessable
from arena.files.tables import AT_MOST_ROWS
from arena.models import Arena, Candidate
from arena.validation import MOST, NANO, json_type

MAX_UNKNOWN = 10  # unknown members that an error lists
YES_OR_NO = {"true": True, "1": True, "false": False, "0": False, "": False}


class StrictSerializer(serializers.Serializer[Any]):
    """A body that refuses unknown members, so that no misspelling goes unnoticed."""

    def to_internal_value(self, data: Any) -> Any:
        known = [name for name, field in self.fields.items() if not field.read_only]
        if isinstance(data, Mapping) and (unknown := [name for name in data if name not in known]):
            detail = f"Unknown member. Known members: {', '.join(known)}."
            raise serializers.ValidationError(dict.fromkeys(unknown[:MAX_UNKNOWN], detail))
        return super().to_internal_value(data)


class PatchSerializer(StrictSerializer):
    """A body of changes, of which there must be at least one."""

    def validate(self, attrs: Any) -> Any:
        if not attrs:
            raise Unprocessable("The body contains no changes.")
        return attrs


class Text(serializers.CharField):
    """A text that is stored exactly as it is, with leading and trailing spaces."""

    def __init__(self, **options: Any) -> None:
        defaults = {"trim_whitespace": False, "max_length": 1_000_000, "allow_blank": True}
        super().__init__(**defaults | options)

    def to_internal_value(self, data: Any) -> str:
        """Refuse numbers, which CharField would convert."""
        if not isinstance(data, str):
            raise serializers.ValidationError(f"Must be a text, not {json_type(data)}.")
        return super().to_internal_value(data)


@extend_schema_field({"type": "number", "minimum": 0, "maximum": MOST})
class Dollars(serializers.Field[Any, Any, Any, Any]):
    """US dollars in JSON, nano-dollars in Python."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise serializers.ValidationError(
                f"Must be a number of dollars, not {json_type(data)}."
            )
        if not 0 <= data <= MOST:
            raise serializers.ValidationError(f"Must be a number from 0 to {MOST:,}.")
        return round(Decimal(str(data)) * NANO)

    def to_representation(self, value: int) -> float:
        return value / NANO


class RowsField(serializers.Field[Any, Any, Any, Any]):
    """A list of at most 10,000 rows, which are validated one by one later."""

    def to_internal_value(self, data: Any) -> list[Any]:
        if not isinstance(data, list):
            raise serializers.ValidationError(f"Must be a list of rows, not {json_type(data)}.")
        if len(data) > AT_MOST_ROWS:
            raise TooLarge(f"The limit is {AT_MOST_ROWS:,} rows; the request has {len(data):,}.")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


def yes_or_no(request: Any, parameter: str) -> bool:
    """Return the value of a boolean query parameter, False by default; raises BadParameter."""
    value = request.query_params.get(parameter, "").lower()
    if value not in YES_OR_NO:
        raise BadParameter(parameter, "Must be true or false.")
    return YES_OR_NO[value]


# -- Visibility ------------------------------------------------------------------------------------


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
        """A token without the scope `read` sees not even what is public."""
        return self.actor.has_scope(TeamPermission.READ)

    @property
    def is_of_arena(self) -> bool:
        """Whether the actor can see what only the arena's team can see."""
        return self.actor.is_operator or self.arena.team_id in self.teams

    @cached_property
    def sees_variables(self) -> bool:
        return can_see_variables(self.actor, self.arena)

    def knows(self, candidate: Candidate) -> bool:
        """Whether the actor can see the candidate's name and configuration: once it is disclosed,
        everybody can.
        """
        return candidate.disclosed_at is not None or self.is_of_team(candidate)

    def is_of_team(self, candidate: Candidate) -> bool:
        """Whether the candidate belongs to a team of the actor's."""
        team_id = candidate.team_id or self.arena.team_id
        return self.actor.is_operator or team_id in self.teams
