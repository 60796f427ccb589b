"""Filters for prompts in lists, durations, amounts of money and the details of audit entries."""

from typing import Any

from django import template

from arena.calls.money import dollars

register = template.Library()
register.filter("dollars", dollars)

NONE = "–"


@register.filter
def last_question(text: str | None) -> str:
    """Return what the user said last, if the text is the transcript of a conversation.

    The prompts of an arena often begin with the same system message.
    """
    return (text or "").rpartition("\n\nUser:\n")[2]


@register.filter
def seconds(value: float | None) -> str:
    """Format the duration of a call."""
    if value is None:
        return NONE
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


@register.filter
def duration(value: float | None) -> str:
    """Format an estimated duration, rounded to seconds, minutes or hours."""
    if value is None:
        return "not known yet"
    if value < 90:
        return f"about {max(1, round(value))} s"
    if value < 90 * 60:
        return f"about {round(value / 60)} minutes"
    return f"about {round(value / 3600)} hours"


@register.filter
def in_words(value: Any) -> str:
    """Format an audit entry's detail without the brackets and quotes of lists and objects."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {in_words(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(in_words, value))
    return "none" if value is None else str(value)


@register.filter
def spaced(name: str) -> str:
    return name.replace("_", " ")
