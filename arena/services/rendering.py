"""The HTML of prompts and responses: made once, when first shown, and stored."""

from django.utils.safestring import SafeString, mark_safe

from arena.models import Prompt, Response
from arena.rendering import RENDERER_VERSION, render_markdown


def html_of(row: Prompt | Response) -> SafeString:
    """Return the sanitised HTML of `row.text`, rendering it only where none is stored."""
    if row.html is None or row.html_version != RENDERER_VERSION:
        row.html = render_markdown(row.text)
        row.html_version = RENDERER_VERSION
        type(row).objects.filter(pk=row.pk).update(html=row.html, html_version=RENDERER_VERSION)
    return mark_safe(row.html)  # noqa: S308  (sanitised by render_markdown, nothing else writes it)


def prompt_html(prompt: Prompt | None) -> SafeString:
    """Return what a page shows of a prompt; nothing where it is not known."""
    return html_of(prompt) if prompt else SafeString()


def response_html(response: Response | None) -> SafeString:
    """Return what a page shows of a response; nothing where its text was never brought."""
    return html_of(response) if response else SafeString()
