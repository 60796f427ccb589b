"""How money and estimates are written on the pages of judges."""

from collections.abc import Mapping
from typing import Any

from django import template

from arena.calls.money import dollars as write_dollars
from arena.templatetags.arena_tags import NONE
from ranking.templatetags.ranking_tags import correlation

register = template.Library()
register.filter("figure", correlation)  # kappa, alpha: written like a correlation


@register.filter
def dollars(nano: int | None) -> str:
    """An amount of nano-dollars in dollars; a dash for None."""
    return NONE if nano is None else write_dollars(int(nano))


@register.filter
def p_value(value: float | None) -> str:
    if value is None:
        return NONE
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


@register.filter
def share(value: float | None) -> str:
    """A share in whole percent, because no interval here supports more."""
    return NONE if value is None else f"{100 * value:.0f}\N{NO-BREAK SPACE}%"


@register.filter
def points(value: float | None) -> str:
    """A difference of two shares, in percentage points, with its sign."""
    return NONE if value is None else f"{100 * value:+.1f}".replace("-", "−")


@register.filter
def get(mapping: Mapping[str, Any] | None, key: str) -> Any:
    """Look up a key that is in a variable of the template."""
    return (mapping or {}).get(key)
