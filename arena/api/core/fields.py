"""What the bodies of requests are made of."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from arena.api.core.problems import BadParameter, TooLarge, Unprocessable
from arena.calls.amounts import MOST, NANO
from arena.importers.base import kind_of
from arena.uploads import AT_MOST_ROWS

SHOWN = 10
YES_OR_NO = {"true": True, "1": True, "false": False, "0": False, "": False}


class Given(serializers.Serializer[Any]):
    """A body. A member that it does not know is refused, so that no slip of the pen is lost."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping) and (unknown := [key for key in data if self._lacks(key)]):
            sentence = f"There is no such member. There are: {', '.join(self._writable())}."
            raise serializers.ValidationError(dict.fromkeys(unknown[:SHOWN], sentence))
        return super().to_internal_value(data)

    def _lacks(self, name: str) -> bool:
        return name not in self._writable()

    def _writable(self) -> list[str]:
        return [name for name, field in self.fields.items() if not field.read_only]


class Changes(Given):
    """A body that says what is to change, and so at least one thing."""

    def validate(self, attrs: Any) -> Any:
        if not attrs:
            raise Unprocessable("The body changes nothing. Name what is to change.")
        return attrs


class Text(serializers.CharField):
    """A text kept to the letter: a space at its end may be meant."""

    def __init__(self, **options: Any) -> None:
        usual = {"trim_whitespace": False, "max_length": 1_000_000, "allow_blank": True}
        super().__init__(**usual | options)

    def to_internal_value(self, data: Any) -> str:
        """A number is not taken for a text."""
        if not isinstance(data, str):
            raise serializers.ValidationError(f"It is {kind_of(data)}, not a text.")
        return super().to_internal_value(data)


@extend_schema_field({"type": "number", "minimum": 0, "maximum": MOST})
class Dollars(serializers.Field[Any, Any, Any, Any]):
    """US dollars outside, whole nano-dollars inside."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise serializers.ValidationError(f"It is {kind_of(data)}, not a number of dollars.")
        if not 0 <= data <= MOST:
            raise serializers.ValidationError(f"It is a number from 0 to {MOST:,}.")
        return round(Decimal(str(data)) * NANO)

    def to_representation(self, value: int) -> float:
        return value / NANO


class Rows(serializers.Field[Any, Any, Any, Any]):
    """A list of rows, at most 10,000 of them, each of which is looked at by itself later."""

    def to_internal_value(self, data: Any) -> list[Any]:
        if not isinstance(data, list):
            raise serializers.ValidationError(f"It is {kind_of(data)}, not a list of rows.")
        if len(data) > AT_MOST_ROWS:
            raise TooLarge(f"A request takes {AT_MOST_ROWS:,} rows; these are {len(data):,}.")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


def yes_or_no(request: Any, parameter: str) -> bool:
    """Return what the query says of `parameter`, false unless it says so; raises BadParameter."""
    said = request.query_params.get(parameter, "").lower()
    if said not in YES_OR_NO:
        raise BadParameter(parameter, "It is true or false.")
    return YES_OR_NO[said]
