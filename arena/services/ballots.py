"""What raters see of prompts and answers: stored HTML, without names if the arena masks them."""

from django.utils.safestring import SafeString, mark_safe

from arena.markup.answers import render_answer
from arena.markup.conversations import render_conversation
from arena.markup.markdown import RENDERER_VERSION, render_markdown
from arena.models import Arena, Comparison, Prompt, Response
from arena.self_identification import mask_names, masked


def html_of(row: Prompt | Response) -> SafeString:
    """Return the safe HTML of the row's text or conversation; render and store it if outdated."""
    if row.html is None or row.html_version != RENDERER_VERSION:
        row.html = _rendered_answer(row) if isinstance(row, Response) else _rendered_prompt(row)
        row.html_version = RENDERER_VERSION
        type(row).objects.filter(pk=row.pk).update(html=row.html, html_version=RENDERER_VERSION)
    return mark_safe(row.html)  # noqa: S308  (sanitised by render_markdown, nothing else writes it)


def _rendered_answer(answer: Response) -> str:
    if answer.messages:
        return render_conversation(answer.messages, folds_thought=True)
    return render_answer(answer.text)


def _rendered_prompt(prompt: Prompt) -> str:
    return render_conversation(prompt.messages) if prompt.messages else render_markdown(prompt.text)


def prompt_html(prompt: Prompt | None) -> SafeString:
    return html_of(prompt) if prompt else SafeString()


def guide_html(arena: Arena) -> SafeString:
    """Return the HTML of an arena's guide for raters; empty without one."""
    return mark_safe(render_markdown(arena.guide)) if arena.guide else SafeString()  # noqa: S308


def response_html(response: Response | None) -> SafeString:
    """Return the HTML of a response; empty if its text was not imported."""
    return html_of(response) if response else SafeString()


def ballot_text(comparison: Comparison, response: Response | None) -> str:
    """Return an answer's text as raters see it: without names, if the arena masks them."""
    if response is None:
        return ""
    if not _is_masked(comparison, response):
        return response.text
    candidate = response.candidate
    return mask_names(response.text, names=(candidate.name, candidate.model))


def ballot_html(comparison: Comparison, response: Response | None) -> SafeString:
    """Like `response_html`, but masked as `ballot_text` is."""
    if response is None or not _is_masked(comparison, response):
        return response_html(response)
    if response.messages:
        names = (response.candidate.name, response.candidate.model)
        html = render_conversation(masked(response.messages, names=names), folds_thought=True)
    else:
        html = render_answer(ballot_text(comparison, response))
    return mark_safe(html)  # noqa: S308  (sanitised by render_markdown)


def _is_masked(comparison: Comparison, response: Response) -> bool:
    masks = Arena.SelfIdentifying.MASK
    return response.names_itself and comparison.arena.self_identifying == masks
