"""Turns what a model wrote into HTML that is safe to show.

One door, `render_markdown`. It never raises, whatever the text, and its time and its output are
bounded: whatever is too long, too deep or too big comes out as plain text instead.
"""

from html import escape

import nh3
from pygments.token import STANDARD_TYPES

from arena.rendering.markdown import NestingError, to_html

# Stored HTML carries this number: raising it makes every response be rendered again, lazily.
RENDERER_VERSION = 1

MAX_TEXT_BYTES = 20 * 1024
# A table of one row per line and 2,000 columns turns 20 KB of text into megabytes of cells.
MAX_HTML_BYTES = 500 * 1024


def render_markdown(text: str) -> str:
    """The text as safe HTML: Markdown, tables, highlighted code and math as MathML.

    Text of more than `MAX_TEXT_BYTES` bytes of UTF-8 is shown as it is, in `<pre class="plain">`;
    so is text nested too deeply, and text whose HTML would exceed `MAX_HTML_BYTES`.
    A single line break is kept, because models write poems, addresses and lists that way.
    """
    text = _clean(text)
    if len(text.encode()) > MAX_TEXT_BYTES:
        return _plain(text)
    try:
        html = to_html(text)
    except NestingError:
        return _plain(text)
    if len(html.encode()) > MAX_HTML_BYTES:
        return _plain(text)
    return sanitize(html)


def _clean(text: str) -> str:
    """Joins surrogate pairs and replaces lone halves and NUL, which no UTF-8 page can carry."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\x00", "\ufffd")


def _plain(text: str) -> str:
    return f'<pre class="plain" dir="auto">{escape(text, quote=False)}</pre>'


# -- Sanitising ------------------------------------------------------------------------------------

# The last word over HTML made from a model's text: only what is listed here passes, even where the
# Markdown step, which emits nothing else, has a fault.
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
    """The HTML with every tag, attribute, class and address taken out that is not listed above."""
    return _CLEANER.clean(html)
