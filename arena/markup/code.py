"""Code blocks, highlighted if their language is known and time is left."""

from collections.abc import Iterator
from html import escape
from time import thread_time

from pygments import format as format_tokens
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import _TokenType as TokenType

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
_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)


class _HighlightTimeoutError(Exception):
    """The lexer took too long."""


def code_block(code: str, info: str, label: str, deadline: float) -> str:
    """Return a code block as HTML; `info` is the fence's info string, `label` names the box.

    Highlighting stops when `thread_time` reaches the deadline.
    """
    language = language_of(info)
    inner = _highlighted_code(code, language, deadline) if language else None
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


def _highlighted_code(code: str, language: str, deadline: float) -> str | None:
    """Return the code with spans of Pygments' classes; None if that would take too long."""
    if len(code) > MAX_CODE_CHARS or any(len(line) > MAX_LINE_CHARS for line in code.split("\n")):
        return None
    lexer = get_lexer_by_name(language, stripnl=False)
    try:
        return format_tokens(_tokens_in_time(lexer.get_tokens(code), deadline), _FORMATTER)
    except _HighlightTimeoutError:
        return None


def _tokens_in_time(
    tokens: Iterator[tuple[TokenType, str]], deadline: float
) -> Iterator[tuple[TokenType, str]]:
    for token in tokens:
        yield token
        if thread_time() > deadline:
            raise _HighlightTimeoutError
