"""Markdown to HTML with markdown-it, and our own code blocks, tables and images.

The resulting HTML is escaped but not trusted: `sanitize` must filter it.
"""

from collections.abc import Iterator, Sequence
from html import escape
from time import thread_time
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from pygments import format as format_tokens
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import _TokenType as TokenType

from arena.rendering.math import math_plugin

# -- Code blocks -----------------------------------------------------------------------------------

# Only lexers whose regular expressions were tested on hostile input (long runs of each kind of
# character); the makefile, Terraform and MATLAB lexers take seconds for a few kilobytes.
LANGUAGES = {
    "bash", "basic", "c", "clojure", "cmake", "console", "cpp", "csharp", "css", "dart", "diff",
    "docker", "elixir", "erlang", "fortran", "fsharp", "gdscript", "go", "graphql", "groovy",
    "haskell", "html", "http", "ini", "java", "javascript", "json", "jsx", "julia", "kotlin",
    "lean", "lisp", "lua", "markdown", "nasm", "nginx", "objective-c", "ocaml", "perl", "php",
    "powershell", "properties", "protobuf", "python", "r", "ruby", "rust", "scala", "scss",
    "solidity", "sql", "swift", "tex", "toml", "tsx", "typescript", "vbnet", "vim", "xml", "yaml",
    "zig",
}  # fmt: skip
ALIASES = {
    "c#": "csharp", "c++": "cpp", "cs": "csharp", "dockerfile": "docker", "gd": "gdscript",
    "golang": "go", "hs": "haskell", "js": "javascript", "jl": "julia", "kt": "kotlin",
    "latex": "tex", "md": "markdown", "node": "javascript", "objc": "objective-c",
    "pl": "perl", "proto": "protobuf", "ps1": "powershell", "py": "python", "python3": "python",
    "rb": "ruby", "rs": "rust", "sh": "bash", "shell": "bash", "svg": "xml", "ts": "typescript",
    "vb": "vbnet", "yml": "yaml", "zsh": "bash",
}  # fmt: skip

MAX_CODE_CHARS = 8_000
MAX_LINE_CHARS = 1_000
# Processor time for parsing a text and highlighting all of its code. Real texts of the maximum
# length take a tenth of this; the lexer is stopped between two tokens.
MAX_SECONDS = 0.5

_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)


class _HighlightTimeoutError(Exception):
    """The lexer used up its time."""


def code_block(code: str, info: str, label: str, deadline: float) -> str:
    """Return a code block as HTML; `info` is the fence's info string, `label` names the region.

    Highlighting stops when `thread_time` reaches the deadline.
    """
    language = language_of(info)
    inner = _highlighted(code, language, deadline) if language else None
    return (
        f'<div class="scroll code" tabindex="0" role="region" aria-label="{escape(label)}"'
        f' dir="ltr"><pre class="highlight"><code>{inner or escape(code)}</code></pre></div>\n'
    )


def language_of(info: str) -> str | None:
    """Return the lexer that the info string asks for, or None if it is not a tested one."""
    words = info.split(maxsplit=1)
    word = words[0].lower().strip("{}.`") if words else ""
    name = ALIASES.get(word, word)
    return name if name in LANGUAGES else None


def _highlighted(code: str, language: str, deadline: float) -> str | None:
    """Return the code with spans of Pygments' classes; None if that would take too long."""
    if len(code) > MAX_CODE_CHARS or any(len(line) > MAX_LINE_CHARS for line in code.split("\n")):
        return None
    lexer = get_lexer_by_name(language, stripnl=False)
    try:
        return format_tokens(_in_time(lexer.get_tokens(code), deadline), _FORMATTER)
    except _HighlightTimeoutError:
        return None


def _in_time(
    tokens: Iterator[tuple[TokenType, str]], deadline: float
) -> Iterator[tuple[TokenType, str]]:
    for token in tokens:
        yield token
        if thread_time() > deadline:
            raise _HighlightTimeoutError


# -- Markdown --------------------------------------------------------------------------------------

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


def _adapt(state: StateCore) -> None:
    """Core rule: all changes that need to look at one token only."""
    for token in state.tokens:
        _stop_in_time(state, False)
        token.tag = HEADINGS.get(token.tag, token.tag)
        _align_by_class(token)
        if token.level == 0 and token.nesting == 1:
            token.attrSet("dir", "auto")
        if token.children:
            token.children = list(_without_images(token.children))


def _align_by_class(token: Token) -> None:
    """Turn a column's alignment into a class, because the CSP forbids style attributes."""
    style = token.attrs.pop("style", None)
    if style is not None:
        token.attrs["class"] = ALIGNMENTS.get(str(style), "align-left")


def _without_images(tokens: Sequence[Token]) -> Iterator[Token]:
    """Replace images by links to them, so that showing an answer sends no request elsewhere."""
    links_open = 0
    for token in tokens:
        links_open += {"link_open": 1, "link_close": -1}.get(token.type, 0)
        if token.type != "image":
            yield token
        elif links_open:
            yield _text(token.content or "image")
        else:
            yield from _link_to_image(token)


def _link_to_image(image: Token) -> Iterator[Token]:
    url = str(image.attrs.get("src", ""))
    yield Token("link_open", "a", 1, attrs={"href": url})
    yield _text(image.content or url)
    yield Token("link_close", "a", -1)


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _render_code(
    self: RendererProtocol,
    tokens: Sequence[Token],
    idx: int,
    options: OptionsDict,
    env: Any,
) -> str:
    token, label = tokens[idx], _numbered(env, "Code")
    return code_block(token.content, token.info, label, env["deadline"])


def _render_table_open(
    self: Any,
    tokens: Sequence[Token],
    idx: int,
    options: OptionsDict,
    env: Any,
) -> str:
    label = _numbered(env, "Table")
    table = self.renderToken(tokens, idx, options, env)
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table}'


def _render_table_close(
    self: RendererProtocol,
    tokens: Sequence[Token],
    idx: int,
    options: OptionsDict,
    env: Any,
) -> str:
    return "</table></div>\n"


def _numbered(env: Any, kind: str) -> str:
    """Return a label that is unique in the answer, because screen readers list boxes by name."""
    env[kind] = number = env.get(kind, 0) + 1
    return f"{kind} {number}"


def _make_parser() -> MarkdownIt:
    options = {"html": False, "breaks": True, "maxNesting": MAX_NESTING}
    md = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    md.use(math_plugin)
    md.core.ruler.after("inline", "adapt", _adapt)
    md.inline.ruler.after("text", "deadline", _stop_in_time)
    md.block.ruler.before("table", "deadline", _stop_block_in_time)
    md.validateLink = is_link_allowed  # type: ignore[method-assign]
    for kind in ("fence", "code_block"):
        md.add_render_rule(kind, _render_code)
    md.add_render_rule("table_open", _render_table_open)
    md.add_render_rule("table_close", _render_table_close)
    return md


_MARKDOWN = _make_parser()
