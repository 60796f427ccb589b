"""From what was read to what the template of a board needs: tabs, columns, words."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from ranking.models import BothBad, Counted, Snapshot
from ranking.pages import combined_words, words
from ranking.pages.charts import Chart, Mark, interval_chart
from ranking.pages.findings import Findings, Neighbours, StyleScore
from ranking.pages.reading import RISING, BoardView, Question, Row
from ranking.pages.scripted import SENTENCE, counts_scripts
from ranking.pages.style_words import traits
from ranking.pages.tried import tried
from ranking.pages.words import CLUSTER_SENTENCES

TITLES = {
    "rank": "Rank",
    "name": "Candidate",
    "score": "Score",
    "elo": "Elo",
    "votes": "Votes",
    "win_rate": "Win rate",
    "both_bad": "Both bad",
    "price": "$ per 1,000",
    "wins_per_dollar": "Wins per $",
    "seconds": "Seconds",
    "wins_per_second": "Wins per s",
}
FEW_PROMPTS = {"prompt_pair": True}
PAGES = {
    "board": "Board",
    "win_matrix": "Win matrix",
    "compare": "Compare two",
    "side_by_side": "Side by side",
    "history": "Score history",
    "methodology": "Methodology",
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


@dataclass(frozen=True)
class Line:
    """A ranked candidate's row, how it stands to the one below it, and its score by style."""

    row: Row
    clear_leader: bool
    below: Neighbours | None
    below_name: str
    compare_url: str
    style: StyleScore | None


def board_context(view: BoardView) -> dict[str, Any]:
    """Everything that `ranking/board.html` prints."""
    slug, asked = view.arena.slug, view.asked
    return {
        "view": view,
        "arena": view.arena,
        "snapshot": view.snapshot,
        "columns": {column: _column(slug, asked, column) for column in TITLES},
        "raters_links": raters_links(view),
        "category_links": category_links(view),
        "pages": page_links(view),
        "chart": _chart(view.ranked),
        "csv_url": asked.address(slug, "board_csv"),
        "json_url": asked.address(slug, "board_json"),
        "methodology_url": asked.address(slug, "methodology", sort="rank"),
        "cluster_sentence": _setting(view, "clusters", CLUSTER_SENTENCES),
        "both_bad_sentence": _setting(view, "both_bad", BOTH_BAD_SENTENCES),
        "few_prompts": _setting(view, "clusters", FEW_PROMPTS),
        "scripted": SENTENCE if counts_scripts(view.snapshot) else "",
        "freshness": words.freshness(view.snapshot),
        "groups": words.groups(view.unranked),
        "entrants": tried(view.arena, view.snapshots),
        **_found(view),
    }


def _found(view: BoardView) -> dict[str, Any]:
    """What the snapshot's findings say."""
    findings = Findings.of(view.snapshot)
    names = {row.standing.candidate_id: row.name for row in view.rows}
    lead = words.lead(view.ranked, findings.leader)
    clear = lead.candidate if lead and lead.clear else None
    return {
        "lead": lead,
        "has_elo": any(row.standing.elo is not None for row in view.ranked),
        "has_neighbours": bool(findings.neighbours),
        "lines": [_line(view, row, findings, names, clear) for row in view.ranked],
        "fragility": words.fragility(findings, names),
        "combined": combined_words.combined(findings),
        "combined_changed": combined_words.changed(findings, names),
        "combined_counted": combined_words.counted(findings),
        "agreement": words.agreement(findings, view.asked.raters),
        "transitivity": words.transitivity(findings),
        "traits": traits(findings),
        "style_votes": findings.style.get("n_votes"),
    }


def _line(
    view: BoardView, row: Row, findings: Findings, names: dict[int, str], clear: int | None
) -> Line:
    pk = row.standing.candidate_id
    below = findings.neighbours.get(pk)
    return Line(
        row=row,
        clear_leader=pk == clear,
        below=below,
        below_name=names.get(below.lower, "") if below else "",
        compare_url=_compare_url(view, below) if below else "",
        style=findings.style_scores.get(pk),
    )


def _compare_url(view: BoardView, two: Neighbours) -> str:
    page = view.asked.address(view.arena.slug, "compare", sort="rank")
    return f"{page}&{urlencode({'a': two.upper, 'b': two.lower})}"


def page_links(view: BoardView, here: str = "board") -> list[Link]:
    """The pages about the same votes, of which one is being read."""
    return links_to_pages(view.arena.slug, replace(view.asked, sort="rank"), view.snapshots, here)


def links_to_pages(
    slug: str, asked: Question, snapshots: Iterable[Snapshot], here: str
) -> list[Link]:
    """The pages about what is asked; boards stand side by side where two of them have votes."""
    voted = [s for s in snapshots if s.board.category == asked.category and s.n_votes]
    pages = [
        Link(label, asked.address(slug, page), page == here)
        for page, label in PAGES.items()
        if page != "side_by_side" or page == here or len(voted) > 1
    ]
    # The last one stands on the floor above.
    return [*pages, Link("Judges’ runs", reverse("judge_runs", args=[slug]), chosen=False)]


def _setting(view: BoardView, name: str, meanings: dict[Any, Any]) -> Any:
    """What a setting in force means to the page; '' where that is nothing."""
    return meanings.get(view.snapshot.settings[name], "") if view.snapshot else ""


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


def raters_links(view: BoardView, page: str = "board") -> list[Link]:
    """People, judges, and both combined, where more than one has a board in this category."""
    there = {s.board.raters for s in view.snapshots if s.board.category == view.asked.category}
    links = [
        Link(
            label,
            view.asked.address(view.arena.slug, page, raters=raters),
            raters == view.asked.raters,
        )
        for raters, label in Counted.choices
        if raters in there
    ]
    return links if len(links) > 1 else []


def category_links(view: BoardView, page: str = "board") -> list[Link]:
    """All prompts, then each category that these raters have voted in."""
    mine = [s.board.category for s in view.snapshots if s.board.raters == view.asked.raters]
    links = [
        Link(
            category or "All prompts",
            view.asked.address(view.arena.slug, page, category=category),
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
