"""The base serializers and fields."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema_field
from rest_framework import serializers

from arena.api.core.errors import TooLarge, Unprocessable
from arena.api.core.parameters import check_names
from arena.conversations import ROLES, clean_messages
from arena.files.tables import AT_MOST_ROWS
from arena.validation import MOST, NANO, InputError, json_type

MAX_UNKNOWN = 10  # unknown members that an error lists


class StrictSerializer(serializers.Serializer[Any]):
    """A body that refuses unknown members, so that no misspelling goes unnoticed."""

    def to_internal_value(self, data: Any) -> Any:
        known = [name for name, field in self.fields.items() if not field.read_only]
        if isinstance(data, Mapping) and (unknown := [name for name in data if name not in known]):
            detail = f"Unknown member. Known members: {', '.join(known)}."
            raise serializers.ValidationError(dict.fromkeys(unknown[:MAX_UNKNOWN], detail))
        return super().to_internal_value(data)


class PatchSerializer(StrictSerializer):
    """A body of at least one change."""

    def validate(self, attrs: Any) -> Any:
        if not attrs:
            raise Unprocessable("The body contains no changes.")
        return attrs


class Text(serializers.CharField):
    """A text that is stored unchanged, including leading and trailing spaces."""

    def __init__(self, **options: Any) -> None:
        defaults = {"trim_whitespace": False, "max_length": 1_000_000, "allow_blank": True}
        super().__init__(**defaults | options)

    def to_internal_value(self, data: Any) -> str:
        """Refuse numbers, which CharField would convert."""
        if not isinstance(data, str):
            raise serializers.ValidationError(f"Must be text, not {json_type(data)}.")
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


@extend_schema_field(
    {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["role", "content"],
            "properties": {
                "role": {"type": "string", "enum": list(ROLES)},
                "content": {"type": "string"},
                "name": {"type": "string"},
                "tool_calls": {"type": "array", "items": {"type": "object"}},
                "tool_call_id": {"type": "string"},
            },
        },
    }
)
class MessagesField(serializers.Field[Any, Any, Any, Any]):
    """A conversation: a list of messages."""

    def to_internal_value(self, data: Any) -> Any:
        try:
            return clean_messages(data)
        except InputError as error:
            raise serializers.ValidationError(f"It {error.reason}.") from None

    def to_representation(self, value: Any) -> Any:
        return value


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


CONFIRM = OpenApiParameter(
    "confirm", str, description="The slug again; without it, nothing is deleted."
)


def check_confirmed(request: Any, slug: str, loss: str) -> None:
    """Raise Unprocessable with what would be lost, unless the query has `confirm=slug`."""
    check_names(request, [CONFIRM.name])
    if request.query_params.get(CONFIRM.name) != slug:
        raise Unprocessable(
            f"Nothing was deleted. {loss} To delete it, repeat the request with ?confirm={slug}.",
            [{"parameter": CONFIRM.name, "detail": f"Must be {slug}."}],
        )
