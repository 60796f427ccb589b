"""How the details of an audit entry are written."""

from typing import Any

from django import template

register = template.Library()


@register.filter
def said(value: Any) -> str:
    """A detail in words: lists and what is nested in it without brackets and quotes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {said(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(said, value))
    return "none" if value is None else str(value)


@register.filter
def spaced(name: str) -> str:
    """The name of a detail as words."""
    return name.replace("_", " ")
