"""Formulas in Markdown, as MathML."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from math_core import LatexError, LatexToMathML

from arena.markup.boxes import numbered_label

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
        return _source_html(latex)
    try:
        mathml = LatexToMathML(fancy_error=False).convert_with_local_state(
            latex, displaystyle=display
        )
    except LatexError:
        return _source_html(latex)
    return _STYLE.sub(_classes_of_style, mathml)


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


def _source_html(latex: str) -> str:
    return f'<code class="latex">{escape(latex)}</code>'


def _classes_of_style(style: re.Match[str]) -> str:
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
        token.content = _formula_between(state, start, last, opener)
        state.line = last + 1
    return True


def _line_closed_by(state: StateBlock, match: re.Match[str], start: int, end: int) -> int | None:
    """Return the formula's last line, if it is in this block and only `.` or `,` may follow."""
    last = bisect_left(state.eMarks, match.end(), start)
    if last >= end or _BLANK_LINE.search(match[1]) or not match[1].strip():
        return None
    rest = state.src[match.end() : state.eMarks[last]].strip()
    return last if rest in ("", ".", ",") else None


def _formula_between(state: StateBlock, start: int, last: int, opener: str) -> str:
    """Return the formula without its delimiters and the marks of the quotes and lists around it."""
    lines = state.getLines(start, last + 1, state.blkIndent, False).strip().rstrip(".,")
    return lines[len(opener) : -len(opener)]


def _render_inline(renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    display = tokens[at].markup in ("$$", r"\[")
    return to_mathml(tokens[at].content, display=display)


def _render_display(renderer: Any, tokens: Sequence[Token], at: int, _: Any, env: Any) -> str:
    label = numbered_label(env, "Formula")
    return (
        f'<div class="scroll math" tabindex="0" role="group" aria-label="{label}">'
        f"{to_mathml(tokens[at].content, display=True)}</div>\n"
    )
