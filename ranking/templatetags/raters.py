"""How those who vote are called on the pages of ranking."""

from django import template

from ranking.models import Raters

register = template.Library()

ONE = {Raters.JUDGES.value: "judge", Raters.JURIES.value: "jury"}


@register.filter
def one_of(raters: str) -> str:
    """One of those whose board it is; on people's and the combined board a person."""
    return ONE.get(raters, "person")


@register.filter
def voters(raters: str, n: int) -> str:
    """They, as many as there are: "1 judge", "2 raters"."""
    if raters not in ONE:
        return "rater" if n == 1 else "raters"
    return ONE[raters] if n == 1 else raters
