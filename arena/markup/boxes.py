"""Names of the boxes that scroll: code, tables and formulas."""

from typing import Any


def numbered_label(env: Any, kind: str) -> str:
    """Return a label that is unique in the answer, because screen readers list boxes by name."""
    env[kind] = number = env.get(kind, 0) + 1
    return f"{kind} {number}"
