"""How answers are written: counted once for each, since its text does not change."""

import re
import uuid
from collections.abc import Iterator

from arena.models import Response
from arena.shown_text import as_read
from ranking.models import ResponseStyle
from ranking.services.leases import renew

COUNTED_AT_ONCE = 500
# Markdown syntax. Code blocks are left out: a line that looks like a heading there is a comment.
FENCED = re.compile(r"^(```|~~~).*?(?:^\1|\Z)", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+\S", re.MULTILINE)
LIST_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\S", re.MULTILINE)
BOLD = re.compile(r"\*\*[^*\s][^*\n]*\*\*|__[^_\s][^_\n]*__")


def count_style(text: str) -> dict[str, int]:
    """How many words, headings, list items and bold spans an answer has, its thought left out."""
    text = as_read(text)
    prose = FENCED.sub("", text)
    return {
        "words": len(text.split()),
        "headings": len(HEADING.findall(prose)),
        "list_items": len(LIST_ITEM.findall(prose)),
        "bold": len(BOLD.findall(prose)),
    }


def count_missing(*, arena_id: int, token: uuid.UUID) -> int:
    """Count the style of the answers not counted yet; return how many."""
    total = 0
    for answers in _uncounted(arena_id):
        renew(token)
        rows = [ResponseStyle(response_id=pk, **count_style(text)) for pk, text in answers]
        ResponseStyle.objects.bulk_create(rows, ignore_conflicts=True)
        total += len(rows)
    return total


def _uncounted(arena_id: int) -> Iterator[list[tuple[int, str]]]:
    waiting = Response.objects.filter(prompt__arena=arena_id, style=None).order_by("pk")
    last = 0
    while batch := list(waiting.filter(pk__gt=last).values_list("pk", "text")[:COUNTED_AT_ONCE]):
        yield batch
        last = batch[-1][0]
