"""The allowlist for HTML made from a model's text.

The Markdown step emits nothing else; this is the safeguard if it has a bug.
"""

import nh3
from pygments.token import STANDARD_TYPES

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
