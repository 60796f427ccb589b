"""Prompt variants as texts: templates with variables, and what changed between two versions."""

from arena.prompting.diffs import DiffLine, Piece, diff_of
from arena.prompting.templates import (
    TEXT_LIMIT,
    TemplateError,
    check_template,
    check_variant,
    render_messages,
    variables_in,
)

__all__ = [
    "TEXT_LIMIT",
    "DiffLine",
    "Piece",
    "TemplateError",
    "check_template",
    "check_variant",
    "diff_of",
    "render_messages",
    "variables_in",
]
