"""Reports as plain data: what they hold is what a file or a page gets."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


class Plain:
    """A dataclass that can be written as JSON."""

    def to_json(self) -> dict[str, Any]:
        """Dicts, lists, strings, numbers and None. Raises ValueError for a number like NaN."""
        found: dict[str, Any] = _plain(self)
        return found


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"A report must not hold {value}: what is not known is None.")
    return value
