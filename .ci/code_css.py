"""Makes static/css/code.css: `python .ci/code_css.py > static/css/code.css`.

The colours come from two Pygments styles, each adjusted until its contrast with the background
meets WCAG AA for text. Light is the default; dark follows the system or `data-theme`.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from pygments.styles import get_style_by_name
from pygments.token import STANDARD_TYPES

LIGHT = ("default", "#f6f7f9")
DARK = ("github-dark", "#12161d")
MIN_CONTRAST = 4.5

LAYOUT = """\
/* Made by .ci/code_css.py: edit that file, not this one. */
.scroll { max-width: 100%; overflow-x: auto; }
.scroll.math { padding-block: 0.25rem; }
.scroll .align-left { text-align: left; }
.scroll .align-center { text-align: center; }
.scroll .align-right { text-align: right; }
.math-wide { width: 100%; }
.math-left { text-align: left; justify-items: start; padding-left: 0; }
.math-right { text-align: right; justify-items: end; padding-right: 0; }
.math-line-right { border-right: 0.05em solid currentcolor; }
.math-line-top { border-top: 0.05em solid currentcolor; }
.math-line-bottom { border-bottom: 0.05em solid currentcolor; }
menclose[notation~="box"] { border: 0.05em solid currentcolor; padding: 0.2em; }
pre.plain { white-space: pre-wrap; overflow-wrap: anywhere; }
.turn { margin: 0 0 0.75rem; padding: 0.25rem 0.75rem; border-left: 3px solid var(--line); }
.turn-user { border-left-color: currentcolor; }
.turn-role, .turn > summary { margin: 0 0 0.25rem; color: var(--muted); font-size: 0.85rem; }
.turn > summary { cursor: pointer; }
.turn.differs > :is(.turn-role, summary)::after { content: " · differs"; }
:lang(fr) .turn.differs > :is(.turn-role, summary)::after { content: " · différent"; }
pre.highlight { margin: 0; white-space: pre; tab-size: 4; }
code { direction: ltr; unicode-bidi: isolate; }
"""


def code_css() -> str:
    """Return the style sheet of rendered answers: the layout, then the two themes."""
    light, dark = "".join(_rules(*LIGHT)), "".join(_rules(*DARK))
    return (
        f"{LAYOUT}\n{light}\n@media (prefers-color-scheme: dark) {{\n"
        f"{_scoped(dark, ':root:not([data-theme=light])')}}}\n\n"
        f"{_scoped(dark, ':root[data-theme=dark]')}"
    )


def contrast(first: str, second: str) -> float:
    """Return WCAG's contrast ratio of two `#rrggbb` colours, 1 to 21."""
    dim, bright = sorted((_luminance(first), _luminance(second)))
    return (bright + 0.05) / (dim + 0.05)


def _luminance(color: str) -> float:
    """Return the relative luminance as defined by WCAG 2 for sRGB."""
    parts = [channel / 255 for channel in _channels(color)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(color: str) -> list[int]:
    return [int(color[i : i + 2], 16) for i in (1, 3, 5)]


def _readable(color: str, background: str) -> str:
    """Mix the colour with black or white in small steps until it is readable; return the result."""
    target = 255 if _luminance(background) < 0.5 else 0
    while contrast(color, background) < MIN_CONTRAST:
        mixed = [round(channel + (target - channel) * 0.06) for channel in _channels(color)]
        color = "#" + "".join(f"{channel:02x}" for channel in mixed)
    return color


def _rules(style_name: str, background: str) -> Iterator[str]:
    """Yield one rule for all of Pygments' classes that the style formats alike.

    The browser waits for them: one rule for each class would be four times as long.
    """
    style, classes = get_style_by_name(style_name), defaultdict(list)
    for kind, css_class in STANDARD_TYPES.items():
        declarations = _declarations(style.style_for_token(kind), background)
        if css_class and declarations:
            classes[declarations].append(f".{css_class}")
    for declarations, names in classes.items():
        yield f".highlight :is({', '.join(names)}) {{ {declarations} }}\n"


def _declarations(style: Any, background: str) -> str:
    parts = [f"color: {_readable('#' + style['color'], background)};"] if style["color"] else []
    # Both themes set weight and slant, so that one cannot inherit them from the other.
    parts.append(f"font-weight: {'bold' if style['bold'] else 'normal'};")
    parts.append(f"font-style: {'italic' if style['italic'] else 'normal'};")
    return " ".join(parts) if len(parts) == 3 or style["bold"] or style["italic"] else ""


def _scoped(rules: str, scope: str) -> str:
    return "".join(f"{scope} {line}\n" for line in rules.splitlines())


if __name__ == "__main__":
    sys.stdout.write(code_css())
