"""Conversations as HTML that is safe to show."""

from collections.abc import Sequence
from html import escape

from arena.conversations import Message, title_of
from arena.markup.answers import folded_thought
from arena.markup.markdown import clean_characters, plain_html, render_markdown
from arena.shown_text import name_pictures, without_thought

MAX_TURNS_BYTES = 60 * 1024  # of a conversation's text that is formatted


def render_conversation(messages: Sequence[Message], *, folds_thought: bool = False) -> str:
    """Return the turns of a conversation as safe HTML; system messages, tool calls and their
    results are folded, and so is the assistant's thought with `folds_thought`.

    What people and the assistant say is formatted, up to `MAX_TURNS_BYTES` in all; the rest, and
    what tools are sent and return, is plain text.
    """
    left, turns = MAX_TURNS_BYTES, []
    for message in messages:
        text = message["content"]
        has_thought = folds_thought and message["role"] == "assistant"
        thought = folded_thought(text) if has_thought else ""
        text = without_thought(text) if has_thought else text
        text = name_pictures(clean_characters(text))
        size = len(text.encode())
        is_formatted = message["role"] != "tool" and size <= left
        left -= size if is_formatted else 0
        html = render_markdown(text) if is_formatted else plain_html(text)
        turns.append(_turn_html(message, thought + html if text.strip() else ""))
        turns += [_folded("turn-call", f"Calls {name}", text) for name, text in _calls_of(message)]
    return f'<div class="turns">{"".join(turns)}</div>'


def _turn_html(message: Message, html: str) -> str:
    """One message as a section, folded for the system or a tool; nothing for a message without
    text.
    """
    role, title = message["role"], escape(clean_characters(title_of(message)))
    if role == "tool" or (role == "system" and html):
        return (
            f'<details class="turn turn-{role}" data-step><summary>{title}</summary>{html}'
            "</details>"
        )
    if not html:
        return ""
    return (
        f'<section class="turn turn-{role}" data-step><p class="turn-role">{title}</p>'
        f"{html}</section>"
    )


def _folded(kind: str, title: str, text: str) -> str:
    summary = escape(clean_characters(title))
    return (
        f'<details class="turn {kind}" data-step><summary>{summary}</summary>'
        f"{plain_html(clean_characters(text))}</details>"
    )


def _calls_of(message: Message) -> list[tuple[str, str]]:
    functions = [call["function"] for call in message.get("tool_calls", [])]
    return [(function["name"], function["arguments"]) for function in functions]
