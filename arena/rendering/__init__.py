"""Turns what a model wrote into HTML that is safe to show.

One door, `render_markdown`. It never raises, whatever the text, and its time and its output are
bounded: whatever is too long, too deep or too big comes out as plain text instead.
"""

from html import escape

from arena.rendering.markdown import NestingError, to_html
from arena.rendering.sanitize import sanitize

__all__ = ["MAX_HTML_BYTES", "MAX_TEXT_BYTES", "RENDERER_VERSION", "render_markdown"]

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
