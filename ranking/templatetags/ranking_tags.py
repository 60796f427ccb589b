"""Formulas, numbers and names of voters in the templates of ranking."""

from functools import cache
from typing import Any
from urllib.parse import urlencode

from django import template
from django.urls import reverse
from django.utils.formats import get_format
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, gettext_noop

from arena.markup.math import to_mathml
from arena.site import absolute_url
from ranking.models import Counted, Raters, Standing

register = template.Library()


@register.simple_tag
def absolute(name: str, *path: Any, **query: Any) -> str:
    """The absolute URL of a page, for use on other sites, without the empty parameters of
    `query`."""
    parameters = urlencode({name: value for name, value in query.items() if value})
    return absolute_url(f"{reverse(name, args=path)}{'?' if parameters else ''}{parameters}")


@register.simple_tag
@cache
def formula(latex: str) -> SafeString:
    """An inline formula, written in a template: no part comes from a reader or a model."""
    return mark_safe(to_mathml(latex, display=False))  # noqa: S308


@register.inclusion_tag("components/formula.html")
def display(of: str, latex: str) -> dict[str, object]:
    """A display formula, in a box that scrolls on narrow pages."""
    return {"of": of, "mathml": _display_math(latex)}


@cache
def _display_math(latex: str) -> SafeString:
    return mark_safe(to_mathml(latex, display=True))  # noqa: S308


NONE = "–"


@register.filter
def elo(value: float | None) -> str:
    """Whole Elo points: no interval is narrow enough for decimals."""
    return NONE if value is None else f"{value:.0f}".replace("-", "−")


@register.filter
def interval(standing: Standing) -> str:
    """A score's interval; open on one side if no finite score describes the candidate."""
    low, high = standing.low, standing.high
    if low is None and high is None:
        return NONE
    if low is None:
        return f"< {elo(high)}"
    return f"> {elo(low)}" if high is None else f"{elo(low)}–{elo(high)}"


@register.filter
def signed(value: float | None) -> str:
    """Whole Elo points gained or lost."""
    return NONE if value is None else f"{round(value):+d}".replace("-", "−")


@register.filter
def percent(value: float | None) -> str:
    """Whole percent, with one decimal below 1%, where rounding might give 0."""
    if value is None:
        return NONE
    digits = 1 if 0 < value < 0.01 else 0
    return f"{100 * value:.{digits}f}%"


@register.filter
def correlation(value: float | None) -> str:
    """From -1 to 1, with two decimals."""
    return NONE if value is None else f"{value:.2f}".replace("-", "−")


@register.filter
def figures(value: float | None) -> str:
    """Three significant digits, and whole numbers from 100 on."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@register.filter
def tokens(value: float | None) -> str:
    """A short mean number of tokens: 212, 1.5k, 12k."""
    if value is None:
        return NONE
    if value < 999.5:
        return f"{value:.0f}"
    return f"{value / 1000:.1f}k" if value < 9950 else f"{value / 1000:,.0f}k"


@register.filter
def grouped(value: int | None) -> str:
    """A count with the thousands separators of the reader's language."""
    return NONE if value is None else f"{value:,}".replace(",", get_format("THOUSAND_SEPARATOR"))


VOTERS = {  # one, several
    Raters.JUDGES.value: (gettext_noop("judge"), gettext_noop("judges")),
    Raters.JURIES.value: (gettext_noop("jury"), gettext_noop("juries")),
    Counted.VERIFIED.value: (gettext_noop("verified rater"), gettext_noop("verified raters")),
}
SOMEBODY = (gettext_noop("rater"), gettext_noop("raters"))
LABELS = (
    *(gettext_noop("People"), gettext_noop("Verified people"), gettext_noop("Judges")),
    *(gettext_noop("Juries"), gettext_noop("Combined")),
)


@register.filter
def voters_label(raters: str) -> str:
    """Whose votes a leaderboard counts."""
    return gettext(Counted(raters).label) if raters in Counted.values else ""


@register.filter
def voters(raters: str, n: int) -> str:
    """The noun for n voters: judge, juries, raters."""
    return gettext(VOTERS.get(raters, SOMEBODY)[n != 1])
