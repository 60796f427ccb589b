"""Answers as HTML that is safe to show, a model's thought folded."""

from arena.markup.markdown import clean_characters, plain_html, render_markdown
from arena.shown_text import name_pictures, thought_in, without_thought


def render_answer(text: str) -> str:
    """Return an answer as safe HTML: formatted, after its thought as plain text that is folded."""
    return folded_thought(text) + render_markdown(without_thought(text))


def folded_thought(text: str) -> str:
    """Return the thought in an answer, folded; '' without one."""
    thought = thought_in(text)
    if not thought:
        return ""
    html = plain_html(name_pictures(clean_characters(thought)))
    return f'<details class="thought"><summary>Thought</summary>{html}</details>'
