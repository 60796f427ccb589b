"""How money and estimates are written on the pages of judges."""

from collections.abc import Callable, Mapping
from typing import Any

from django import template

from arena.calls.money import dollars as write_dollars
from arena.templatetags.arena_tags import NONE
from arena.validation import in_dollars
from judges.models import Calibration, LabelSet
from ranking.templatetags.ranking_tags import correlation, grouped

register = template.Library()
register.filter("figure", correlation)  # kappa, alpha: written like a correlation


@register.filter
def dollars(nano: int | None) -> str:
    """An amount of nano-dollars in dollars; a dash for None."""
    return NONE if nano is None else write_dollars(int(nano))


@register.filter
def usd(nano: int | None) -> str:
    """A price in dollars as it is typed: with cents, if it is not whole."""
    text = in_dollars(nano)
    whole, point, cents = text.partition(".")
    return f"{whole}.{cents:0<2}" if point else text


@register.filter
def p_value(value: float | None) -> str:
    if value is None:
        return NONE
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


@register.filter
def share(value: float | None) -> str:
    """A share in whole percent, because no interval here supports more."""
    return NONE if value is None else f"{100 * value:.0f}%"


@register.filter
def points(value: float | None) -> str:
    """A difference of two shares, in percentage points, with its sign."""
    return NONE if value is None else f"{100 * value:+.1f}".replace("-", "−")


@register.filter
def get(mapping: Mapping[str, Any] | None, key: str) -> Any:
    """Look up a key that is in a variable of the template."""
    return (mapping or {}).get(key)


@register.filter
def in_a_line(calibration: Calibration) -> str:
    """What an earlier calibration was measured on, its main figure, and whether it gave trust."""
    report = calibration.report
    against_all = report.get("against_all") or {}
    is_on_honeypots = calibration.kind == LabelSet.Kind.HONEYPOTS
    source = "honeypots" if is_on_honeypots else str(calibration.label_set)
    parts = [f"human votes in {calibration.arena}" if calibration.arena else source]
    parts.append(f"{grouped(report['n_items'])} items")
    figures: list[tuple[str, Any, Callable[[float | None], str]]] = [
        ("agreement on all items", report.get("on_all"), share),
        ("agreement", against_all.get("decisive"), share),
        ("Pearson", against_all.get("pearson"), correlation),
        ("honeypot failures", report.get("false_wins"), share),
    ]
    parts += [f"{name} {write(value['value'])}" for name, value, write in figures if value][:1]
    if not is_on_honeypots:
        parts.append("trusted" if calibration.trusted else "not trusted")
    return " · ".join(parts)
