"""Turns a model's text into HTML that is safe to show.

The entry points are `render_markdown` and `render_conversation`. Neither ever raises, and their
time and output are bounded: a text that is too long, nested too deeply or slow to parse, or whose
HTML is too big, is shown as plain text.
"""

from collections.abc import Sequence
from html import escape

import nh3
from pygments.token import STANDARD_TYPES

from arena.conversations import Message, title_of
from arena.rendering.markdown import NestingError, ParseTimeoutError, to_html

# Stored with the HTML: raising it makes every stored text be rendered again when it is next shown.
RENDERER_VERSION = 2

MAX_TEXT_BYTES = 20 * 1024
# A table of one row per line and 2,000 columns turns 20 KB of text into megabytes of cells.
MAX_HTML_BYTES = 500 * 1024
MAX_TURNS_BYTES = 60 * 1024  # of a conversation's text that is formatted


def render_markdown(text: str) -> str:
    """Return the text as safe HTML: Markdown, tables, highlighted code and math as MathML.

    Text of more than `MAX_TEXT_BYTES` bytes of UTF-8 is shown unformatted in `<pre class="plain">`;
    so is text nested too deeply or slow to parse, and text whose HTML exceeds `MAX_HTML_BYTES`.
    A single line break is kept, because models write poems, addresses and lists that way.
    """
    text = _clean(text)
    if len(text.encode()) > MAX_TEXT_BYTES:
        return _plain(text)
    try:
        html = to_html(text)
    except (NestingError, ParseTimeoutError):
        return _plain(text)
    if len(html.encode()) > MAX_HTML_BYTES:
        return _plain(text)
    return sanitize(html)


def render_conversation(messages: Sequence[Message]) -> str:
    """Return the turns of a conversation as safe HTML; system messages, tool calls and their
    results are folded.

    What people and the assistant say is formatted, up to `MAX_TURNS_BYTES` in all; the rest, and
    what tools are sent and return, is plain text.
    """
    left, turns = MAX_TURNS_BYTES, []
    for message in messages:
        text = _clean(message["content"])
        size = len(text.encode())
        is_formatted = message["role"] != "tool" and size <= left
        left -= size if is_formatted else 0
        html = render_markdown(text) if is_formatted else _plain(text)
        turns.append(_turn(message, html if text.strip() else ""))
        turns += [_folded("turn-call", f"Calls {name}", text) for name, text in _calls(message)]
    return f'<div class="turns">{"".join(turns)}</div>'


def _turn(message: Message, html: str) -> str:
    """One message as a section, or folded for the system or a tool; nothing for one of calls."""
    role, title = message["role"], escape(_clean(title_of(message)))
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
    summary = escape(_clean(title))
    return (
        f'<details class="turn {kind}" data-step><summary>{summary}</summary>'
        f"{_plain(_clean(text))}</details>"
    )


def _calls(message: Message) -> list[tuple[str, str]]:
    functions = [call["function"] for call in message.get("tool_calls", [])]
    return [(function["name"], function["arguments"]) for function in functions]


def _clean(text: str) -> str:
    """Join surrogate pairs; replace lone surrogates and NUL, which a UTF-8 page cannot contain."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\x00", "\ufffd")


def _plain(text: str) -> str:
    return f'<pre class="plain" dir="auto">{escape(text, quote=False)}</pre>'


# -- Sanitising ------------------------------------------------------------------------------------

# The allowlist for HTML made from a model's text. The Markdown step emits nothing else; this is the
# safeguard if it has a bug.
TEXT_TAGS = {
    "a", "blockquote", "br", "code", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p",
    "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
# MathML Core and the old menclose, without everything that carries links, actions or foreign
# content: no maction, no semantics, no annotation and no annotation-xml.
MATH_TAGS = {
    "math", "menclose", "merror", "mfrac", "mi", "mmultiscripts", "mn", "mo", "mover", "mpadded",
    "mphantom", "mprescripts", "mroot", "mrow", "ms", "mspace", "msqrt", "mstyle", "msub",
    "msubsup", "msup", "mtable", "mtd", "mtext", "mtr", "munder", "munderover",
}  # fmt: skip
MATH_ATTRIBUTES = {
    "math": {"display"},
    "menclose": {"notation"},
    "mfrac": {"linethickness"},
    "mi": {"mathvariant"},
    "mo": {
        "form", "largeop", "lspace", "maxsize", "minsize", "movablelimits", "rspace", "stretchy",
        "symmetric",
    },
    "mover": {"accent"},
    "mpadded": {"depth", "height", "lspace", "voffset", "width"},
    "mspace": {"depth", "height", "width"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mtable": {"displaystyle", "scriptlevel"},
    "mtd": {"columnspan", "rowspan"},
    "munder": {"accentunder"},
    "munderover": {"accent", "accentunder"},
}  # fmt: skip
DIRECTED_TAGS = ("blockquote", "h3", "h4", "h5", "h6", "ol", "p", "table", "ul")
ALIGNMENT_CLASSES = {"align-left", "align-center", "align-right"}
MATH_CLASSES = {
    "math-left", "math-right", "math-wide", "math-line-right", "math-line-top", "math-line-bottom",
}  # fmt: skip

_CLEANER = nh3.Cleaner(
    tags=TEXT_TAGS | MATH_TAGS,
    clean_content_tags={"script", "style"},
    attributes={"a": {"href"}, "ol": {"start"}, "div": {"aria-label"}, **MATH_ATTRIBUTES},
    tag_attribute_values={
        "div": {"tabindex": {"0"}, "role": {"region"}, "dir": {"ltr"}},
        **{tag: {"dir": {"auto"}} for tag in DIRECTED_TAGS},
    },
    set_tag_attribute_values={"a": {"target": "_blank"}},
    allowed_classes={
        "code": {"latex"},
        "div": {"scroll", "code", "math"},
        "mtable": MATH_CLASSES,
        "mtd": MATH_CLASSES,
        "pre": {"highlight"},
        "span": set(STANDARD_TYPES.values()) - {""},
        "td": ALIGNMENT_CLASSES,
        "th": ALIGNMENT_CLASSES,
    },
    url_schemes={"http", "https", "mailto"},
    url_relative="deny",
    link_rel="nofollow noopener noreferrer",
)


def sanitize(html: str) -> str:
    """Return the HTML without any tag, attribute, class or address that is not listed above."""
    return _CLEANER.clean(html)
