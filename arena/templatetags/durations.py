"""How durations are written on pages; a dash where there is none."""

from django import template

register = template.Library()

NONE = "–"


@register.filter
def seconds(value: float | None) -> str:
    """A duration of a call, coarser the longer it is."""
    if value is None:
        return NONE
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


@register.filter
def duration(value: float | None) -> str:
    """How long something will take, in the words people use."""
    if value is None:
        return "not known yet"
    if value < 90:
        return f"about {max(1, round(value))} s"
    if value < 90 * 60:
        return f"about {round(value / 60)} minutes"
    return f"about {round(value / 3600)} hours"
