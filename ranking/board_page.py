"""From what was read to what the template of a board needs: tabs, columns, words."""

from dataclasses import dataclass
from typing import Any

from ranking.charts import Chart, Mark, interval_chart
from ranking.models import BothBad, Raters
from ranking.reading import RISING, BoardView, Question, Row

TITLES = {
    "rank": "Rank",
    "name": "Candidate",
    "score": "Score",
    "elo": "Elo",
    "votes": "Votes",
    "win_rate": "Win rate",
    "both_bad": "Both bad",
}
CLUSTER_SENTENCES = {
    "prompt": "Votes on the same prompt are taken as dependent, so each prompt counts as one"
    " piece of evidence, however many votes it has.",
    "prompt_pair": "Votes on the same prompt and the same two candidates are taken as dependent.",
    "rater": "Votes of the same rater are taken as dependent.",
    "vote": "Every vote is taken as a piece of evidence of its own.",
}
BOTH_BAD_SENTENCES = {
    BothBad.SEPARATE: "“Both are bad” enters no score; it is a rate of its own.",
    BothBad.TIE: "“Both are bad” counts as a tie on this board.",
}


@dataclass(frozen=True)
class Link:
    label: str
    url: str
    chosen: bool


@dataclass(frozen=True)
class Column:
    """A heading that sorts: where it leads, and how the table is sorted now."""

    name: str
    title: str
    url: str
    aria_sort: str
    arrow: str


def board_context(view: BoardView) -> dict[str, Any]:
    """Everything that `ranking/board.html` prints."""
    slug, asked = view.arena.slug, view.asked
    return {
        "view": view,
        "arena": view.arena,
        "snapshot": view.snapshot,
        "columns": {column: _column(slug, asked, column) for column in TITLES},
        "raters_links": raters_links(view),
        "category_links": _category_links(view),
        "chart": _chart(view.ranked),
        "csv_url": asked.address(slug, "board_csv"),
        "json_url": asked.address(slug, "board_json"),
        "cluster_sentence": _setting(view, "clusters", CLUSTER_SENTENCES),
        "both_bad_sentence": _setting(view, "both_bad", BOTH_BAD_SENTENCES),
    }


def _setting(view: BoardView, name: str, sentences: dict[Any, str]) -> str:
    return sentences[view.snapshot.settings[name]] if view.snapshot else ""


def _column(slug: str, asked: Question, column: str) -> Column:
    """The heading of the column in force turns the order round; the others sort by theirs."""
    chosen = asked.sort.removeprefix("-") == column
    turned = asked.sort.startswith("-")
    target = f"-{column}" if chosen and not turned else column
    upward = (column in RISING) != turned
    return Column(
        name=column,
        title=TITLES[column],
        url=asked.address(slug, sort=target),
        aria_sort=("ascending" if upward else "descending") if chosen else "",
        arrow=("▲" if upward else "▼") if chosen else "",
    )


def raters_links(view: BoardView) -> list[Link]:
    """People and judges, where both have a board in this category."""
    there = {s.board.raters for s in view.snapshots if s.board.category == view.asked.category}
    links = [
        Link(label, view.asked.address(view.arena.slug, raters=raters), raters == view.asked.raters)
        for raters, label in Raters.choices
        if raters in there
    ]
    return links if len(links) > 1 else []


def _category_links(view: BoardView) -> list[Link]:
    """All prompts, then each category that these raters have voted in."""
    mine = [s.board.category for s in view.snapshots if s.board.raters == view.asked.raters]
    links = [
        Link(
            category or "All prompts",
            view.asked.address(view.arena.slug, category=category),
            category == view.asked.category,
        )
        for category in mine
    ]
    return links if len(links) > 1 else []


def _chart(rows: list[Row]) -> Chart | None:
    return interval_chart(
        [
            Mark(row.name, row.standing.score, row.standing.low, row.standing.high)
            for row in rows
            if row.standing.score is not None
        ]
    )
