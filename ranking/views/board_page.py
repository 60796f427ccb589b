"""What the template of a board prints: links, columns, rows and sentences."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ranking import wording
from ranking.board_data import (
    RISING,
    SCRIPTED_NOTICE,
    AdjacentCandidates,
    BoardQuery,
    BoardStanding,
    BoardView,
    Findings,
    StyleScore,
    counts_scripts,
)
from ranking.entries import list_entrants
from ranking.views.charts import Chart, ChartMark, interval_chart

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


@dataclass(frozen=True)
class SortColumn:
    """A heading that sorts: its address, and how the table is sorted now."""

    name: str
    title: str
    url: str
    aria_sort: str
    arrow: str


@dataclass(frozen=True)
class BoardRow:
    """A ranked candidate's row, its lead over the next one, and its style-controlled score."""

    row: BoardStanding
    clear_leader: bool
    below: AdjacentCandidates | None
    below_name: str
    compare_url: str
    style: StyleScore | None


def board_context(view: BoardView) -> dict[str, Any]:
    """Everything that `ranking/board.html` prints."""
    slug, query, snapshot = view.arena.slug, view.query, view.snapshot
    settings = snapshot.settings if snapshot else {}
    return {
        "view": view,
        "arena": view.arena,
        "snapshot": snapshot,
        "columns": {column: _column(slug, query, column) for column in TITLES},
        "raters_links": view.raters_links(),
        "category_links": view.category_links(),
        "page_links": view.page_links("board"),
        "chart": _chart(view.ranked),
        "csv_url": view.address("board_csv"),
        "json_url": view.address("board_json"),
        "methodology_url": view.address("methodology", sort="rank"),
        "cluster_sentence": wording.CLUSTER_SENTENCES.get(settings.get("clusters", ""), ""),
        "both_bad_sentence": wording.BOTH_BAD_SENTENCES.get(settings.get("both_bad", ""), ""),
        "few_prompts": settings.get("clusters") == "prompt_pair",
        "scripted": SCRIPTED_NOTICE if counts_scripts(snapshot) else "",
        "freshness": wording.freshness(snapshot),
        "groups": wording.groups(view.unranked),
        "entrants": list_entrants(view.arena, view.snapshots),
        **_findings_context(view),
    }


def _findings_context(view: BoardView) -> dict[str, Any]:
    findings = Findings.of(view.snapshot)
    names = {row.standing.candidate_id: row.name for row in view.rows}
    lead = wording.lead(view.ranked, findings.leader)
    leader = lead.candidate if lead and lead.clear else None
    return {
        "lead": lead,
        "has_elo": any(row.standing.elo is not None for row in view.ranked),
        "has_neighbours": bool(findings.neighbours),
        "lines": [_row(view, row, findings, names, leader) for row in view.ranked],
        "fragility": wording.fragility(findings, names),
        "combined": wording.combined(findings),
        "combined_changed": wording.changed(findings, names),
        "combined_counted": wording.counted(findings),
        "agreement": wording.agreement(findings, view.query.raters),
        "transitivity": wording.transitivity(findings),
        "traits": wording.traits(findings),
        "style_votes": findings.style.get("n_votes"),
    }


def _row(
    view: BoardView,
    row: BoardStanding,
    findings: Findings,
    names: dict[int, str],
    leader: int | None,
) -> BoardRow:
    pk = row.standing.candidate_id
    below, compare_url = findings.neighbours.get(pk), ""
    if below:
        pair = urlencode({"a": below.upper, "b": below.lower})
        compare_url = f"{view.address('compare', sort='rank')}&{pair}"
    return BoardRow(
        row=row,
        clear_leader=pk == leader,
        below=below,
        below_name=names.get(below.lower, "") if below else "",
        compare_url=compare_url,
        style=findings.style_scores.get(pk),
    )


def _column(slug: str, query: BoardQuery, column: str) -> SortColumn:
    """The heading of the column sorted by reverses the order; the others sort by theirs."""
    is_chosen = query.sort.removeprefix("-") == column
    is_reversed = query.sort.startswith("-")
    is_rising = (column in RISING) != is_reversed
    return SortColumn(
        name=column,
        title=TITLES[column],
        url=query.address(slug, sort=f"-{column}" if is_chosen and not is_reversed else column),
        aria_sort=("ascending" if is_rising else "descending") if is_chosen else "",
        arrow=("▲" if is_rising else "▼") if is_chosen else "",
    )


def _chart(rows: list[BoardStanding]) -> Chart | None:
    return interval_chart(
        [
            ChartMark(row.name, row.standing.score, row.standing.low, row.standing.high)
            for row in rows
            if row.standing.score is not None
        ]
    )
