"""Turns a model's Markdown into HTML that is safe to show.

`render_markdown` never raises, and its time and output are bounded: a text that is too long, nested
too deeply or slow to parse, or whose HTML is too big, is shown as plain text.

markdown-it makes HTML from Markdown, with our own code blocks, tables and images. It is escaped but
not trusted: `sanitize` must filter it.
"""

from collections.abc import Iterator, Sequence
from html import escape
from time import thread_time
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from arena.markup.boxes import numbered_label
from arena.markup.code import code_block
from arena.markup.math import math_plugin
from arena.markup.sanitizer import sanitize
from arena.shown_text import name_pictures

# Processor time for parsing a text and highlighting all of its code. Real texts of the maximum
# length take a tenth of this; the lexer is stopped between two tokens.
MAX_SECONDS = 0.5
# Enough for lists nested 18 deep; the cost of a run of "[" grows with it.
MAX_NESTING = 40
LINK_SCHEMES = frozenset({"http", "https", "mailto"})
# The page itself uses h1 and h2 above an answer.
HEADINGS = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6", "h6": "h6"}
ALIGNMENTS = {
    "text-align:left": "align-left",
    "text-align:center": "align-center",
    "text-align:right": "align-right",
}


class NestingError(Exception):
    """Quotes or lists are nested so deeply that the parser would drop what is inside."""


class ParseTimeoutError(Exception):
    """The text takes too long to parse, such as thousands of unclosed links."""


def to_html(text: str) -> str:
    """Return the text's HTML, escaped but not sanitised. Raises NestingError, ParseTimeoutError."""
    env: dict[str, Any] = {"deadline": thread_time() + MAX_SECONDS}
    tokens = _MARKDOWN.parse(text, env)
    if any(token.level >= MAX_NESTING - 2 for token in tokens):
        raise NestingError
    html: str = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, env)
    return html


def is_link_allowed(url: str) -> bool:
    """Return whether a page may contain this link: an absolute http(s) address, or mailto."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in LINK_SCHEMES and bool(parts.netloc or parts.scheme == "mailto")


def _stop_block_in_time(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Block rule that matches nothing."""
    return _stop_in_time(state, silent)


def _stop_in_time(state: StateBlock | StateCore | StateInline, silent: bool) -> bool:
    """Inline rule that matches nothing."""
    if thread_time() > state.env["deadline"]:
        raise ParseTimeoutError
    return False


def _adapt_tokens(state: StateCore) -> None:
    """Core rule: all changes that need to look at one token only."""
    for token in state.tokens:
        _stop_in_time(state, False)
        token.tag = HEADINGS.get(token.tag, token.tag)
        style = token.attrs.pop("style", None)
        if style is not None:
            token.attrs["class"] = ALIGNMENTS.get(str(style), "align-left")
        if token.level == 0 and token.nesting == 1:
            token.attrSet("dir", "auto")
        if token.children:
            token.children = list(_without_images(token.children))


def _without_images(tokens: Sequence[Token]) -> Iterator[Token]:
    """Replace images by links to them, so that showing an answer sends no request elsewhere."""
    links_open = 0
    for token in tokens:
        links_open += {"link_open": 1, "link_close": -1}.get(token.type, 0)
        if token.type != "image":
            yield token
        elif links_open:
            yield _text_token(token.content or "image")
        else:
            yield from _link_to_image(token)


def _link_to_image(image: Token) -> Iterator[Token]:
    url = str(image.attrs.get("src", ""))
    yield Token("link_open", "a", 1, attrs={"href": url})
    yield _text_token(image.content or url)
    yield Token("link_close", "a", -1)


def _text_token(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _render_code(renderer: Any, tokens: Sequence[Token], at: int, _: Any, env: Any) -> str:
    token, label = tokens[at], numbered_label(env, "Code")
    return code_block(token.content, token.info, label, env["deadline"])


def _render_table_open(
    renderer: Any, tokens: Sequence[Token], at: int, options: OptionsDict, env: Any
) -> str:
    label = numbered_label(env, "Table")
    table = renderer.renderToken(tokens, at, options, env)
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{label}">{table}'


def _render_table_close(*_: Any) -> str:
    return "</table></div>\n"


def _make_parser() -> MarkdownIt:
    options = {"html": False, "breaks": True, "maxNesting": MAX_NESTING}
    md = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    md.use(math_plugin)
    md.core.ruler.after("inline", "adapt", _adapt_tokens)
    md.inline.ruler.after("text", "deadline", _stop_in_time)
    md.block.ruler.before("table", "deadline", _stop_block_in_time)
    md.validateLink = is_link_allowed  # type: ignore[method-assign]
    for kind in ("fence", "code_block"):
        md.add_render_rule(kind, _render_code)
    md.add_render_rule("table_open", _render_table_open)
    md.add_render_rule("table_close", _render_table_close)
    return md


_MARKDOWN = _make_parser()
# Stored with the HTML: raising it makes every stored text be rendered again when it is next shown.
RENDERER_VERSION = 4

MAX_TEXT_BYTES = 20 * 1024
# A table of one row per line and 2,000 columns turns 20 KB of text into megabytes of cells.
MAX_HTML_BYTES = 500 * 1024


def render_markdown(text: str) -> str:
    """Return the text as safe HTML: Markdown, tables, highlighted code and math as MathML.

    Text of more than `MAX_TEXT_BYTES` bytes of UTF-8 is shown unformatted in `<pre class="plain">`;
    so is text nested too deeply or slow to parse, and text whose HTML exceeds `MAX_HTML_BYTES`.
    A single line break is kept, because models write poems, addresses and lists that way. Base64
    pictures are named, not shown.
    """
    text = name_pictures(clean_characters(text))
    if len(text.encode()) > MAX_TEXT_BYTES:
        return plain_html(text)
    try:
        html = to_html(text)
    except (NestingError, ParseTimeoutError):
        return plain_html(text)
    if len(html.encode()) > MAX_HTML_BYTES:
        return plain_html(text)
    return sanitize(html)


def clean_characters(text: str) -> str:
    """Join surrogate pairs; replace lone surrogates and NUL, which a UTF-8 page cannot contain."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\x00", "\ufffd")


def plain_html(text: str) -> str:
    return f'<pre class="plain" dir="auto">{escape(text, quote=False)}</pre>'
