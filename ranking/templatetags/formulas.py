"""Formulas on the pages of ranking: LaTeX in the template, MathML in the page, and no script."""

from functools import cache

from django import template
from django.utils.safestring import SafeString, mark_safe

from arena.rendering.math import to_mathml

register = template.Library()


@register.simple_tag
@cache
def formula(latex: str) -> SafeString:
    """A formula in the line. It is written by us: no part of it comes from a reader or a model."""
    return mark_safe(to_mathml(latex, display=False))  # noqa: S308


@register.inclusion_tag("ranking/methodology/_display.html")
def display(of: str, latex: str) -> dict[str, object]:
    """A formula on a line of its own, in a box that scrolls where the page is narrow."""
    return {"of": of, "mathml": _block(latex)}


@cache
def _block(latex: str) -> SafeString:
    return mark_safe(to_mathml(latex, display=True))  # noqa: S308
