"""The leaderboard's table: rows with their ranges of ranks, intervals on one scale, and one of four
sets of columns."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext

from arena.models import Candidate
from arena.templatetags.arena_tags import dollars, seconds
from ranking.board_data import (
    CONTROLLED,
    BoardStanding,
    BoardView,
    Findings,
    Link,
    StyleScore,
    choice_links,
    sort_rows,
)
from ranking.comparison import standings_with_candidates
from ranking.costs import add_wins
from ranking.models import Snapshot, Standing
from ranking.reasons import FEWEST_NAMED, NamedReason
from ranking.templatetags.ranking_tags import NONE, elo, grouped, percent, signed, tokens
from ranking.views.charts import ScoreScale
from ranking.wording import possible_ranks

MOST_ROWS = 100  # on the page at first; the rest on request
DENSE = 20  # candidates from which rows are lower and there is a search
LONGEST_SEARCH = 100
LONGEST_NAME = 24  # characters; the end of a longer name stays in sight
END = 8
SHADES = 5
MOST_CATEGORIES = 7  # side by side without scrolling sideways
LINE = (120, 24)  # px of the line of a score over time
MOST_POINTS = 30
RESULTS, CATEGORIES, REASONS, DETAILS = "", "categories", "reasons", "details"


@dataclass(frozen=True)
class Cell:
    """What a cell shows; `under`: a smaller text beside it, `shade`: from 0, none, to SHADES;
    `share`: of a bar, in percent; `line`: the points of a polyline."""

    text: str
    under: str = ""
    url: str = ""
    shade: int | None = None
    share: int | None = None
    line: str = ""


@dataclass(frozen=True)
class TableColumn:
    """A column: its kind is its CSS class, `url` a leaderboard of its own."""

    name: str
    title: str
    cell: Callable[["TableRow"], Cell]
    hint: str = ""
    url: str = ""
    kind: str = "number"


@dataclass(frozen=True)
class DrawnInterval:
    """Where the dot and the ends of the line are, in percent of the scale; '' if there is none."""

    x: str = ""
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class TableRow:
    """What the table shows of a candidate. `ranks`: the possible ones; `start` and `end`: its
    name, of which a narrow column cuts the start; `cells`: with their classes, and the titles that
    a phone shows."""

    row: BoardStanding
    ranks: str
    start: str
    end: str
    about: str
    drawn: DrawnInterval
    tier: int | None
    cells: Sequence[tuple[str, Cell, str]] = ()


@dataclass(frozen=True)
class Tier:
    """The rows of one tier; `number` is 0 if there is only one."""

    number: int
    rows: list[TableRow]

    @property
    def colour(self) -> int:
        """There are four."""
        return min(self.number, 4)


@dataclass(frozen=True)
class TableQuery:
    """The set of columns, and the search. Only tables without a search are stored, or strangers
    could fill the store."""

    columns: str = RESULTS
    search: str = ""
    show_all: bool = False

    @classmethod
    def of(cls, parameters: QueryDict) -> "TableQuery":
        """Addresses of earlier versions chose single columns, and filtered by organisation and
        licence, which the search finds too."""
        columns = parameters.get("columns", "")
        if columns not in (CATEGORIES, REASONS, DETAILS):
            single = {name for text in parameters.getlist("columns") for name in text.split(",")}
            columns = DETAILS if single & {"elo", "both_bad", "lead", "tokens"} else RESULTS
        texts = (parameters.get(name, "") for name in ("q", "organisation", "licence"))
        search = next((text for text in texts if text.strip("\0 ")), "")
        return cls(
            columns=columns,
            search=" ".join(search.replace("\0", "").split())[:LONGEST_SEARCH],
            show_all=parameters.get("rows", "") == "all",
        )

    @property
    def is_stored(self) -> bool:
        return not self.search

    @property
    def form(self) -> str:
        """The stored page's kind."""
        return "-".join(["html", *filter(None, [self.columns, "all" if self.show_all else ""])])

    def parameters(self, **changes: str) -> dict[str, str]:
        """As parameters of a URL; empty ones are left out by `BoardQuery.address`."""
        rows = "all" if self.show_all else ""
        return {"columns": self.columns, "q": self.search, "rows": rows} | changes

    def keeps(self, row: BoardStanding) -> bool:
        """Whether the search finds the candidate. What is not public about an undisclosed one is
        not searched."""
        texts = " ".join([row.name, *candidate_line(row.standing.candidate)])
        return all(word in texts.casefold() for word in self.search.casefold().split())


def control_style(view: BoardView) -> BoardView:
    """The same leaderboard, ranked by style-controlled scores if the reader asks for that.

    Candidates without such a score have no rank.
    """
    if view.snapshot is None or not view.has_style:
        return replace(view, query=replace(view.query, style=False))
    if not view.query.style:
        return view
    scores = [row.style.score for row in view.ranked if row.style and row.style.score is not None]
    rows = []
    for row in view.ranked:
        standing, style = copy(row.standing), row.style or StyleScore()
        standing.score, standing.low, standing.high = style.score, style.low, style.high
        standing.rank = None
        if style.score is not None:
            standing.rank = 1 + sum(score > style.score for score in scores)
        standing.sure_rank_low, standing.sure_rank_high = style.rank_low, style.rank_high
        rows.append(replace(row, standing=standing, below=None))
    costs = add_wins(
        {row.standing.candidate_id: row.value for row in rows},
        [row.standing for row in rows],
        view.snapshot.settings["scale"],
    )
    rows = [replace(row, value=costs[row.standing.candidate_id]) for row in rows]
    return replace(view, rows=sort_rows(rows, view.query.sort))


def table_context(
    view: BoardView, table: TableQuery, reasons: Sequence[NamedReason]
) -> dict[str, Any]:
    """The context of `ranking/_table.html`; `view`: after `control_style`."""
    matching = [row for row in view.ranked if table.keeps(row)]
    shown = matching if table.show_all or table.search else matching[:MOST_ROWS]
    offered = {
        RESULTS: gettext("Results"),
        CATEGORIES: gettext("Categories") if category_snapshots(view) else "",
        REASONS: gettext("Reasons") if reasons else "",
    }
    columns = _columns(view, table.columns, reasons, shown)
    scale = _score_scale(view.ranked) if table.columns in (RESULTS, DETAILS) else None
    rows = _table_rows(view, shown, scale, columns)
    return {
        "table": table,
        "columns": columns,
        "has_scale": scale is not None,
        "ticks": scale.ticks() if scale else [],
        "tiers": _group_by_tier(rows, view.query.sort == "rank" and not table.search),
        "n_found": len(matching),
        "n_more": len(matching) - len(shown),
        "is_dense": len(view.ranked) > DENSE,
        "is_wide": len(columns) > MOST_CATEGORIES,
        "all_url": view.address("board", **table.parameters(rows="all")),
        "clear_url": view.address("board", **table.parameters(q="")),
        "kept_by_search": _kept_by_search(view, table),
        "column_links": choice_links(
            [(name, label) for name, label in offered.items() if label],
            table.columns,
            lambda name: view.address("board", **table.parameters(columns=name)),
        ),
        "menu": _menu(view, table),
    }


def _menu(view: BoardView, table: TableQuery) -> list[tuple[str, list[Link]]]:
    """The choices in the one menu, by heading."""

    def address(**changes: str) -> str:
        return view.address("board", **table.parameters(q="", rows="") | changes)

    sorts = {
        "rank": gettext("Rank"),
        "name": gettext("Name"),
        "win_rate": gettext("Win rate"),
        **({"price": gettext("Price")} if view.has_prices else {}),
        **({"seconds": gettext("Time")} if view.has_times else {}),
        "votes": gettext("Votes"),
    }
    style = [("", gettext("As voted")), (CONTROLLED, gettext("Controlled for style"))]
    details = [
        (RESULTS, gettext("Score and price")),
        (DETAILS, gettext("Elo, both bad, lead, history")),
    ]
    choices = [
        (gettext("Voters"), view.raters_links(**table.parameters(q="", rows=""))),
        (
            gettext("Style"),
            choice_links(
                style if view.has_style else [],
                CONTROLLED if view.query.style else "",
                lambda control: address(control=control),
            ),
        ),
        (gettext("Category"), view.category_links(**table.parameters(q="", rows=""))),
        (
            gettext("Order"),
            choice_links(sorts.items(), view.query.sort, lambda sort: address(sort=sort)),
        ),
        (
            gettext("Numbers"),
            choice_links(details, table.columns, lambda name: address(columns=name)),
        ),
    ]
    return [(heading, links) for heading, links in choices if links]


def _kept_by_search(view: BoardView, table: TableQuery) -> list[tuple[str, str]]:
    kept = {
        "raters": view.query.raters,
        "category": view.query.category,
        "sort": "" if view.query.sort == "rank" else view.query.sort,
        "control": CONTROLLED if view.query.style else "",
        "columns": table.columns,
    }
    return [item for item in kept.items() if item[1]]


def _columns(
    view: BoardView,
    chosen: str,
    reasons: Sequence[NamedReason],
    shown: Sequence[BoardStanding],
) -> list[TableColumn]:
    if chosen == CATEGORIES:
        return _category_columns(view)
    if chosen == REASONS:
        return _reason_columns(reasons)
    return _detail_columns(view, shown) if chosen == DETAILS else _result_columns(view)


def _result_columns(view: BoardView) -> list[TableColumn]:
    columns = [
        TableColumn(
            "win-rate",
            gettext("Win rate"),
            lambda line: Cell(percent(line.row.standing.win_rate)),
            gettext("Share of votes won; a tie counts as half"),
        )
    ]
    if view.has_prices:
        hint = gettext("Mean price of 1,000 answers in dollars")
        columns.append(TableColumn("price", gettext("$ / 1,000 answers"), _price_cell, hint))
    if view.has_times:
        hint = gettext("Mean time of an answer")
        columns.append(TableColumn("time", gettext("Time"), _time_cell, hint))
    hint = gettext("Votes this candidate took part in")
    return [
        *columns,
        TableColumn(
            "votes", gettext("Votes"), lambda line: Cell(grouped(line.row.standing.votes)), hint
        ),
    ]


def _price_cell(line: TableRow) -> Cell:
    value = line.row.value
    return Cell(dollars(value.price) if value.n_priced else NONE)


def _time_cell(line: TableRow) -> Cell:
    time = line.row.value.seconds
    return Cell(NONE if time is None else f"{time:.1f} s" if time >= 1 else seconds(time))


def _detail_columns(view: BoardView, shown: Sequence[BoardStanding]) -> list[TableColumn]:
    """Elo, “both bad”, the lead over the next, tokens, and the score over time; one query."""
    lines = _score_lines(view, shown)
    columns = []
    if view.has_elo:
        hint = gettext("Online Elo rating, updated after every vote, with its 95% interval")
        columns.append(TableColumn("elo", "Elo", _elo_cell, hint))
    hint = gettext("Share of votes that rated both answers bad")
    columns.append(
        TableColumn(
            "both-bad",
            gettext("Both bad"),
            lambda line: Cell(percent(line.row.standing.both_bad_rate)),
            hint,
        )
    )
    if any(row.below for row in view.ranked):
        hint = gettext("How far its score is above the next one")
        columns.append(TableColumn("lead", gettext("Lead over next"), _lead_cell, hint))
    if view.has_tokens:
        hint = gettext("Mean number of tokens sent and received per answer")
        columns.append(TableColumn("tokens", gettext("Tokens"), _tokens_cell, hint))
    if lines:
        columns.append(
            TableColumn(
                "history",
                gettext("Score over time"),
                lambda line: Cell("", line=lines.get(line.row.standing.candidate_id, "")),
                kind="history",
            )
        )
    return columns


def _elo_cell(line: TableRow) -> Cell:
    row = line.row
    ends = "" if row.elo_low is None else f"{elo(row.elo_low)}–{elo(row.elo_high)}"
    return Cell(elo(row.standing.elo), ends)


def _lead_cell(line: TableRow) -> Cell:
    return Cell(NONE if line.row.below is None else signed(line.row.gap))


def _tokens_cell(line: TableRow) -> Cell:
    value = line.row.value
    known = f"{tokens(value.tokens_in)} → {tokens(value.tokens_out)}"
    return Cell(known if value.n_counted else NONE)


def _score_lines(view: BoardView, shown: Sequence[BoardStanding]) -> dict[int, str]:
    """The points of each candidate's score over time, on one scale."""
    if view.snapshot is None:
        return {}
    past = Snapshot.objects.kept().filter(board=view.snapshot.board_id)
    times = list(past.order_by("published_at", "pk").values_list("pk", flat=True))
    times = times[:: -(-len(times) // MOST_POINTS) or 1]
    if len(times) < 2:
        return {}
    rows = Standing.objects.filter(
        snapshot__in=times,
        candidate__in=[row.standing.candidate_id for row in shown],
        score__isnull=False,
    ).values_list("candidate", "snapshot", "score")
    place, (width, height) = {pk: at for at, pk in enumerate(times)}, LINE
    moves = view.snapshot.moves(times)
    scores: dict[int, list[tuple[int, float]]] = {}
    for candidate, snapshot, score in rows:
        assert score is not None
        scores.setdefault(candidate, []).append((place[snapshot], score + moves[snapshot]))
    known = [score for points in scores.values() for _at, score in points]
    if not known:
        return {}
    low, span = min(known), max(max(known) - min(known), 1.0)
    return {
        pk: " ".join(
            f"{width * at / (len(times) - 1):.0f},{height - height * (score - low) / span:.1f}"
            for at, score in sorted(points)
        )
        for pk, points in scores.items()
    }


def category_snapshots(view: BoardView) -> list[Snapshot]:
    """The current snapshots of these voters in each category that has votes; none for one."""
    found = [
        snapshot
        for snapshot in view.snapshots
        if snapshot.board.raters == view.query.raters
        and snapshot.board.category
        and snapshot.n_votes
    ]
    found.sort(key=lambda snapshot: snapshot.board.category.casefold())
    return found if len(found) > 1 else []


def _category_columns(view: BoardView) -> list[TableColumn]:
    """One query: the possible ranks of each candidate in each category."""
    snapshots = category_snapshots(view)
    standings: dict[int, dict[int, Standing]] = {snapshot.pk: {} for snapshot in snapshots}
    for standing in standings_with_candidates(snapshots):
        standings[standing.snapshot_id][standing.candidate_id] = standing

    def column(snapshot: Snapshot) -> TableColumn:
        of_category = standings[snapshot.pk]
        n = sum(standing.sure_rank_high is not None for standing in of_category.values())

        def cell(line: TableRow) -> Cell:
            standing = of_category.get(line.row.standing.candidate_id)
            if standing is None or snapshot.lacks_votes or not standing.sure_rank_high:
                return Cell(NONE)
            share = (n - standing.sure_rank_high) / max(n - 1, 1)
            return Cell(possible(standing), shade=-(-round(max(share, 0) * 100) * SHADES // 100))

        name = snapshot.board.category
        return TableColumn(
            f"category-{snapshot.pk}",
            name,
            cell,
            url=view.address("board", category=name, columns="", control=""),
            kind="category",
        )

    return [column(snapshot) for snapshot in snapshots]


def _reason_columns(reasons: Iterable[NamedReason]) -> list[TableColumn]:
    """What raters name most often about each candidate, for and against."""
    most: dict[tuple[int, bool], NamedReason] = {}
    for reason in reasons:
        key = (reason.candidate, reason.is_strength)
        if reason.named >= FEWEST_NAMED and (key not in most or reason.percent > most[key].percent):
            most[key] = reason

    def column(name: str, title: str, is_strength: bool) -> TableColumn:
        def cell(line: TableRow) -> Cell:
            reason = most.get((line.row.standing.candidate_id, is_strength))
            if reason is None:
                return Cell(NONE)
            return Cell(reason.tag, f"{reason.percent}%", share=reason.percent)

        return TableColumn(name, title, cell, kind=f"reason {name}")

    return [
        column("praise", gettext("Praised most for"), True),
        column("blame", gettext("Blamed most for"), False),
    ]


def possible(standing: Standing) -> str:
    """The possible ranks; without an interval any rank is possible."""
    return possible_ranks(standing, "–") or gettext("any")


def _group_by_tier(rows: Sequence[TableRow], in_order: bool) -> list[Tier]:
    """The rows by tier; those without an interval stay in place. A single group without a
    number if there are fewer than two tiers, or if the rows are not in their order."""
    numbers = [row.tier for row in rows if row.tier]
    if not in_order or numbers != sorted(numbers) or len(set(numbers)) < 2:
        return [Tier(0, list(rows))]
    tiers = [Tier(numbers[0], [])]
    for row in rows:
        if row.tier and row.tier != tiers[-1].number:
            tiers.append(Tier(row.tier, []))
        tiers[-1].rows.append(row)
    return tiers


def candidate_line(candidate: Candidate) -> list[str]:
    """What is known of a candidate besides its name; nothing while it is undisclosed."""
    if candidate.disclosed_at is None:
        return []
    facts = (
        candidate.organisation or candidate.team,
        candidate.model if candidate.model != candidate.name else "",
        candidate.licence,
    )
    return [str(text) for text in facts if text]


def _score_scale(rows: Sequence[BoardStanding]) -> ScoreScale | None:
    """The scale around all scores. Very wide intervals are cut off, so that they do not flatten the
    others."""
    scores = [row.standing.score for row in rows if row.standing.score is not None]
    if not scores:
        return None
    reach = max(max(scores) - min(scores), 50.0)
    low, high = min(scores) - reach, max(scores) + reach
    ends = [
        min(max(end, low), high)
        for row in rows
        for end in (row.standing.low, row.standing.high)
        if end is not None
    ]
    return ScoreScale.covering([*scores, *ends])


def tiers_of(view: BoardView) -> Sequence[Sequence[int]]:
    """The ids by tier; `view`: after `control_style`."""
    findings = Findings.of(view.snapshot)
    return findings.style.get("tiers") or () if view.query.style else findings.tiers


def _table_rows(
    view: BoardView,
    rows: Sequence[BoardStanding],
    scale: ScoreScale | None,
    columns: Sequence[TableColumn],
) -> list[TableRow]:
    by_tier = {pk: number for number, tier in enumerate(tiers_of(view), 1) for pk in tier}
    lines = []
    for row in rows:
        standing, name = row.standing, row.name
        cut = len(name) - END if len(name) > LONGEST_NAME else len(name)
        line = TableRow(
            row=row,
            ranks=possible(standing),
            start=name[:cut],
            end=name[cut:],
            about=standing.candidate.model
            if standing.candidate.disclosed_at and standing.candidate.model != name
            else "",
            drawn=_draw_interval(row, scale),
            tier=by_tier.get(standing.candidate_id),
        )
        cells = [
            (
                f"{of.kind} c-{of.name}",
                of.cell(line),
                of.title if of.name == "votes" or of.kind not in ("number", "history") else "",
            )
            for of in columns
        ]
        lines.append(replace(line, cells=cells))
    return lines


def _draw_interval(row: BoardStanding, scale: ScoreScale | None) -> DrawnInterval:
    """An open interval reaches the edge of the scale."""
    standing = row.standing
    if scale is None:
        return DrawnInterval()
    x = "" if standing.score is None else scale.percent(standing.score)
    if standing.low is None and standing.high is None:
        return DrawnInterval(x)
    low = scale.low if standing.low is None else max(standing.low, scale.low)
    high = scale.high if standing.high is None else min(standing.high, scale.high)
    return DrawnInterval(x, scale.percent(low), scale.percent(high))
