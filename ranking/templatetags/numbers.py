"""How numbers are written on the pages of ranking; a dash where there is none."""

from django import template

register = template.Library()

NONE = "–"


@register.filter
def elo(value: float | None) -> str:
    """Whole Elo points: digits after the point would claim what no interval supports."""
    return NONE if value is None else f"{value:.0f}"


@register.filter
def signed(value: float | None) -> str:
    """Whole Elo points gained or lost."""
    return NONE if value is None else f"{round(value):+d}".replace("-", "−")


@register.filter
def percent(value: float | None) -> str:
    """A share as whole percent, and 1 digit more where rounding would hide that there is any."""
    if value is None:
        return NONE
    return f"{value:.1%}" if 0 < value < 0.01 else f"{value:.0%}"


@register.filter
def correlation(value: float | None) -> str:
    """From -1 to 1, to two digits."""
    return NONE if value is None else f"{value:.2f}".replace("-", "−")


@register.filter
def figures(value: float | None) -> str:
    """A number of any size to three figures, and whole from a hundred on."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@register.filter
def tokens(value: float | None) -> str:
    """A mean of tokens, short: hundreds as they are, thousands to two figures or whole."""
    if value is None:
        return NONE
    if value < 999.5:
        return f"{value:.0f}"
    return f"{value / 1000:.1f}k" if value < 9950 else f"{value / 1000:,.0f}k"


@register.filter
def grouped(value: int | None) -> str:
    """A count with its thousands set apart."""
    return NONE if value is None else f"{value:,}"
