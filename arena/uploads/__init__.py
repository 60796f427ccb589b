"""Tables that people upload, read with care: pure, without a database."""

from arena.uploads.base import (
    AT_MOST_BYTES,
    AT_MOST_ROWS,
    Columns,
    Given,
    Problem,
    Table,
    UploadRefused,
    check_length,
)
from arena.uploads.kinds import PROMPTS, RESPONSES, PromptRow, ResponseRow
from arena.uploads.reading import parse_pasted, read_table

__all__ = [
    "AT_MOST_BYTES",
    "AT_MOST_ROWS",
    "PROMPTS",
    "RESPONSES",
    "Columns",
    "Given",
    "Problem",
    "PromptRow",
    "ResponseRow",
    "Table",
    "UploadRefused",
    "check_length",
    "parse_pasted",
    "read_table",
]
