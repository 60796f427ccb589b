"""Filters for prompts in lists, times, durations, money and the details of audit entries; and the
tags `command` and `translate`, which are built in."""

import re
import shlex
from datetime import datetime
from typing import Any
from zlib import crc32

from django import template
from django.template.base import FilterExpression, Parser, Token
from django.templatetags import i18n
from django.utils.dateformat import format as format_date
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language

from arena.calls.money import dollars
from arena.models import Candidate
from arena.views.choices import result_of

register = template.Library()
register.filter("dollars", dollars)
register.simple_tag(result_of)

NONE = "–"
LISTED = 1000  # characters; no list shows more of a prompt
# Quotes, headings and fences; pairs of asterisks or backticks around words.
MARKS = re.compile(
    r"^[ \t]*(?:>[ \t]?|#{1,6}[ \t]|```\w*)+|(\*\*|`)(?=\S)([^\n]+?)(?<=\S)\1", re.MULTILINE
)
TINTS = 6
MOMENTS = {"": "j M Y, H:i", "date": "j M Y", "time": "H:i:s"}


@register.filter
def monogram(candidate: Candidate) -> str:
    """Two letters for the candidate's organisation, or else for the candidate."""
    words = re.findall(r"\w+", candidate.shown_organisation or str(candidate)) or ["?"]
    letters = words[0][0] + words[1][0] if len(words) > 1 else words[0][:2]
    return letters.upper()


@register.filter
def tint(candidate: Candidate) -> str:
    """The class of the monogram's colour, the same for all candidates of an organisation."""
    name = candidate.shown_organisation or str(candidate)
    return f"tint-{crc32(name.encode()) % TINTS + 1}"


@register.filter
def moment(value: datetime | None, part: str = "") -> SafeString | str:
    """Show a time, or its `part` ("date" or "time"), in UTC; `page.js` shows it in local time."""
    if value is None:
        return NONE
    return format_html(
        '<time datetime="{}" data-local="{}">{}{}</time>',
        value.isoformat(),
        part,
        format_date(value, MOMENTS[part]),
        "" if part == "date" else "\N{NO-BREAK SPACE}UTC",
    )


@register.simple_tag
def command(*parts: Any) -> SafeString:
    """A shell command that breaks at its spaces only; texts may have several words."""
    words = [
        word
        for part in parts
        for word in (part.split() if isinstance(part, str) else [shlex.quote(str(part))])
    ]
    spans = format_html_join(" ", "<span>{}</span>", ((word,) for word in words))
    return format_html('<code class="command">{}</code>', spans)


@register.filter
def last_question(text: str | None) -> str:
    """Return the beginning of what the user said last, if the text is the transcript of a
    conversation, without Markdown's marks, for lists that show one line of it.

    The prompts of an arena often begin with the same system message.
    """
    question = (text or "").rpartition("\n\nUser:\n")[2]
    return MARKS.sub(r"\2", question[:LISTED])


@register.filter
def seconds(value: float | None) -> str:
    """Format the duration of a call."""
    if value is None:
        return NONE
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


@register.filter
def duration(value: float | None) -> str:
    """Format an estimated duration, rounded to seconds, minutes or hours."""
    if value is None:
        return "unknown so far"
    if value < 90:
        return f"about {max(1, round(value))} s"
    if value < 90 * 60:
        return f"about {round(value / 60)} minutes"
    return f"about {round(value / 3600)} hours"


@register.filter
def in_words(value: Any) -> str:
    """Format an audit entry's detail without the brackets and quotes of lists and objects."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {in_words(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(in_words, value))
    return "none" if value is None else str(value)


# The log keeps the actions as they were first called; readers get the words of today's pages.
REWORDED = {
    "made ": "created ",
    "ordered votes of people": "requested human votes",
    "ordered ": "started ",
    "a run of judges": "a judge run",
    "a run of people": "a request for votes",
    "a run of answers": "an answer run",
    "asked failed": "retried failed",
    " again": "",
    "brought in ": "imported ",
    "gave the team an arena": "assigned an arena to the team",
    "registered a candidate": "added a candidate",
    "wrote the next version of": "revised",
    "retired": "archived",
    "log of votes": "vote log",
    "switched notices by e-mail": "turned email notifications",
}


@register.filter
def reworded(action: str) -> str:
    for old, new in REWORDED.items():
        action = action.replace(old, new)
    return action


@register.filter
def spaced(name: str) -> str:
    return name.replace("_", " ")


class FixedTranslation(i18n.TranslateNode):
    """A constant sentence that is translated once per language. Translating its buttons took half
    the time needed to render the response to a vote.
    """

    LANGUAGE = "language of fixed translations"

    def __init__(self, sentence: FilterExpression) -> None:
        super().__init__(sentence, noop=False)
        self._texts: dict[str | None, str] = {}

    def render(self, context: template.Context) -> str:
        kept = context.render_context
        language = kept.get(self.LANGUAGE)
        if language is None:  # looking it up for each sentence took longer than the rest
            language = kept[self.LANGUAGE] = get_language()
        text = self._texts.get(language)
        if text is None:
            text = self._texts[language] = super().render(context)
        return text


@register.tag
def translate(parser: Parser, token: Token) -> i18n.TranslateNode:
    """Django's `translate`, but remembers the translations of a plain literal."""
    node = i18n.do_translate(parser, token)
    is_literal = len(token.split_contents()) == 2 and not node.filter_expression.filters
    if is_literal and getattr(node.filter_expression.var, "literal", None) is not None:
        return FixedTranslation(node.filter_expression)
    return node
