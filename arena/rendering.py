"""Turns a model's text into HTML that is safe to show.

The entry points are `render_markdown` and `render_conversation`. Neither ever raises, and their
time and output are bounded: a text that is too long, nested too deeply or slow to parse, or whose
HTML is too big, is shown as plain text.

markdown-it makes HTML from Markdown, with our own code blocks, tables and images. It is escaped but
not trusted: `sanitize` must filter it.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from html import escape
from time import thread_time
from typing import Any
from urllib.parse import urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from math_core import LatexError, LatexToMathML
from pygments import format as format_tokens
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES
from pygments.token import _TokenType as TokenType

from arena.conversations import Message, title_of

MAX_LATEX_CHARS = 2_000
# math-core recurses: a few hundred levels overflow a thread's stack of 512 KB, which ends the
# process and cannot be caught. Real formulas have a dozen levels at most.
MAX_DEPTH = 40
MAX_COMMANDS_IN_A_ROW = 40

# A closed formula within MAX_LATEX_CHARS; possessive, so that a failed match never backtracks.
_BODY = rf"{{1,{MAX_LATEX_CHARS}}}+"
_INLINE = {
    "$": re.compile(rf"\$(?![\s$])((?:[^\\$]|\\.){_BODY})(?<!\s)\$(?!\d)", re.DOTALL),
    "$$": re.compile(rf"\$\$((?:[^\\$]|\\.|\$(?!\$)){_BODY})\$\$", re.DOTALL),
    r"\(": re.compile(rf"\\\(((?:[^\\]|\\[^()]){_BODY})\\\)", re.DOTALL),
    r"\[": re.compile(rf"\\\[((?:[^\\]|\\[^\[\]]){_BODY})\\\]", re.DOTALL),
}
_BLANK_LINE = re.compile(r"\n[ \t>]*\n")
_COMMANDS_IN_A_ROW = re.compile(rf"(?:\\[a-zA-Z]+\s*+){{{MAX_COMMANDS_IN_A_ROW}}}")
_STEP = re.compile(r"\\(?:left|begin)(?![a-zA-Z])|\\(?:right|end)(?![a-zA-Z])|\\.|[{}\[\]]", re.S)
_DEEPER = {"{": 1, "[": 1, r"\left": 1, r"\begin": 1, "}": -1, "]": -1, r"\right": -1, r"\end": -1}
# A definition can multiply depth and length beyond every limit above.
_DEFINITION = re.compile(r"\\(?:(?:re)?new|provide|Declare|def|let|gdef|edef|xdef)")
_BARE_DOLLAR = re.compile(r"(?<!\\)\$")
_NUMBERED = re.compile(r"\\(?:tag|label)\b")
_STYLE = re.compile(r' style="([^"]*)"')
# A class for each declaration that math-core writes inline, because the CSP forbids inline styles.
_CLASS_OF_STYLE = {
    "width: 100%": "math-wide",
    "text-align: left": "math-left",
    "text-align: right": "math-right",
    "border-right: 0.05em solid currentcolor": "math-line-right",
    "border-right: 0.05em dashed currentcolor": "math-line-right",
    "border-top: 0.05em solid currentcolor": "math-line-top",
    "border-top: 0.05em dashed currentcolor": "math-line-top",
    "border-bottom: 0.05em solid currentcolor": "math-line-bottom",
    "border-bottom: 0.05em dashed currentcolor": "math-line-bottom",
}


def math_plugin(md: MarkdownIt) -> None:
    """Add the four delimiters, and the rendering of their formulas, to a parser."""
    md.inline.ruler.before("escape", "math", _inline_rule)
    interrupts: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    md.block.ruler.before("fence", "math_display", _block_rule, interrupts)
    md.add_render_rule("math", _render_inline)
    md.add_render_rule("math_display", _render_display)


def to_mathml(latex: str, *, display: bool) -> str:
    """Return a formula as MathML; if that fails, its source in `<code class="latex">`."""
    latex = _BARE_DOLLAR.sub(r"\\$", latex.strip())
    if display and _NUMBERED.search(latex) and r"\begin" not in latex:
        latex = rf"\begin{{equation*}}{latex}\end{{equation*}}"
    if len(latex) > MAX_LATEX_CHARS + 40 or not _is_harmless(latex):
        return _source(latex)
    try:
        mathml = LatexToMathML(fancy_error=False).convert_with_local_state(
            latex, displaystyle=display
        )
    except LatexError:
        return _source(latex)
    return _STYLE.sub(_classes, mathml)


def _is_harmless(latex: str) -> bool:
    """Return whether the formula cannot overflow the converter's stack."""
    if _DEFINITION.search(latex) or _COMMANDS_IN_A_ROW.search(latex):
        return False
    depth = 0
    for step in _STEP.findall(latex):
        depth += _DEEPER.get(step, 0)
        if depth > MAX_DEPTH:
            return False
    return True


def _source(latex: str) -> str:
    return f'<code class="latex">{escape(latex)}</code>'


def _classes(style: re.Match[str]) -> str:
    names = [_CLASS_OF_STYLE.get(part.strip()) for part in style[1].split(";")]
    known = " ".join(name for name in names if name)
    return f' class="{known}"' if known else ""


def _delimiter_at(src: str, pos: int) -> str:
    """Return the opening delimiter at this position, or the empty string.

    A dollar right after a letter or a digit opens nothing: US$5, or data$column in R. Only ASCII
    counts, because scripts without spaces may have a formula right after a letter.
    """
    pair = src[pos : pos + 2]
    if pair in _INLINE:
        return pair
    before = src[pos - 1 : pos]
    return "$" if pair.startswith("$") and not (before.isascii() and before.isalnum()) else ""


def _inline_rule(state: StateInline, silent: bool) -> bool:
    """Inline rule for markdown-it: a formula that starts at the current position."""
    opener = _delimiter_at(state.src, state.pos)
    match = _INLINE[opener].match(state.src, state.pos) if opener else None
    if match is None or not match[1].strip():
        return False
    if not silent:
        token = state.push("math", "math", 0)
        token.content, token.markup = match[1], opener
    state.pos = match.end()
    return True


def _block_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Block rule for markdown-it: a display formula on lines of its own."""
    if state.is_code_block(start):
        return False
    begin = state.bMarks[start] + state.tShift[start]
    opener = state.src[begin : begin + 2]
    if opener not in ("$$", r"\["):
        return False
    match = _INLINE[opener].match(state.src, begin)
    last = _line_closed_by(state, match, start, end) if match else None
    if match is None or last is None:
        return False
    if not silent:
        token = state.push("math_display", "math", 0)
        token.block, token.markup, token.map = True, opener, [start, last + 1]
        token.content = _body(state, start, last, opener)
        state.line = last + 1
    return True


def _line_closed_by(state: StateBlock, match: re.Match[str], start: int, end: int) -> int | None:
    """Return the formula's last line, if it is in this block and only `.` or `,` may follow."""
    last = bisect_left(state.eMarks, match.end(), start)
    if last >= end or _BLANK_LINE.search(match[1]) or not match[1].strip():
        return None
    rest = state.src[match.end() : state.eMarks[last]].strip()
    return last if rest in ("", ".", ",") else None


def _body(state: StateBlock, start: int, last: int, opener: str) -> str:
    """Return the formula without its delimiters and the marks of the quotes and lists around it."""
    lines = state.getLines(start, last + 1, state.blkIndent, False).strip().rstrip(".,")
    return lines[len(opener) : -len(opener)]


def _render_inline(renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    display = tokens[at].markup in ("$$", r"\[")
    return to_mathml(tokens[at].content, display=display)


def _render_display(renderer: Any, tokens: Sequence[Token], at: int, _: Any, env: Any) -> str:
    label = _numbered(env, "Formula")
    return (
        f'<div class="scroll math" tabindex="0" role="group" aria-label="{label}">'
        f"{to_mathml(tokens[at].content, display=True)}</div>\n"
    )


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
    """The lexer took too long."""


def code_block(code: str, info: str, label: str, deadline: float) -> str:
    """Return a code block as HTML; `info` is the fence's info string, `label` names the box.

    Highlighting stops when `thread_time` reaches the deadline.
    """
    language = language_of(info)
    inner = _highlighted(code, language, deadline) if language else None
    return (
        f'<div class="scroll code" tabindex="0" role="group" aria-label="{escape(label)}"'
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


def _render_code(renderer: Any, tokens: Sequence[Token], at: int, _: Any, env: Any) -> str:
    token, label = tokens[at], _numbered(env, "Code")
    return code_block(token.content, token.info, label, env["deadline"])


def _render_table_open(
    renderer: Any, tokens: Sequence[Token], at: int, options: OptionsDict, env: Any
) -> str:
    label = _numbered(env, "Table")
    table = renderer.renderToken(tokens, at, options, env)
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{label}">{table}'


def _render_table_close(*_: Any) -> str:
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


# Stored with the HTML: raising it makes every stored text be rendered again when it is next shown.
RENDERER_VERSION = 3

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
    """One message as a section, folded for the system or a tool; nothing for a message without
    text.
    """
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
        "div": {"tabindex": {"0"}, "role": {"group"}, "dir": {"ltr"}},
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
