"""What the compact board shows that other sites put into a frame."""

from typing import Any

from ranking.pages import words
from ranking.pages.findings import Findings
from ranking.pages.published import Published
from ranking.pages.reading import Row
from ranking.pages.scripted import SENTENCE, counts_scripts

AT_MOST = 10


def embed_context(board: Published) -> dict[str, Any]:
    """Everything that `ranking/embed.html` prints: the best ten, how many come after them, and
    whether the first is the best beyond doubt."""
    ranked = [standing for standing in board.standings if standing.score is not None]
    shown = ranked[:AT_MOST]
    rows = [Row(standing, str(standing.candidate)) for standing in ranked]
    return {
        "arena": board.arena,
        "snapshot": board.snapshot,
        "raters": board.asked.raters,
        "category": board.asked.category,
        "scripted": SENTENCE if counts_scripts(board.snapshot) else "",
        "lead": words.lead(rows, Findings.of(board.snapshot).leader),
        "standings": shown,
        "more": len(board.standings) - len(shown),
        "board_url": board.asked.address(board.arena.slug),
    }
