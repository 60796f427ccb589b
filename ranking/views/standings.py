"""The leaderboard's table: columns, cells, intervals on one scale, search, and links that keep
all of these."""

import re
from collections.abc import Callable, Sequence, Set
from copy import copy
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict

from arena.models import Candidate
from arena.templatetags.arena_tags import dollars, seconds
from ranking import wording
from ranking.board_data import (
    CONTROLLED,
    RISING,
    AdjacentCandidates,
    BoardStanding,
    BoardView,
    Findings,
    StyleScore,
    sort_rows,
)
from ranking.costs import add_wins
from ranking.templatetags.ranking_tags import NONE, elo, figures, grouped, percent, signed, tokens
from ranking.views.charts import ScoreScale

MOST_ROWS = 100  # on the page at first; the rest on request
MOST_COLUMNS = 5  # beside rank, name and score; more make the table scroll sideways
LONGEST_SEARCH = 100
PRICE = re.compile(r"\d{1,7}(\.\d{1,6})?", re.ASCII)  # in dollars
OWN = "own"


@dataclass(frozen=True)
class Cell:
    """What a cell shows: its text, a small line below it, a link; `spoken` is for screen readers
    and comes after the text, `before` comes before it."""

    text: str
    under: str = ""
    url: str = ""
    before: str = ""
    spoken: str = ""


@dataclass(frozen=True)
class TableColumn:
    """A column that readers may choose; `shown` by default; `has`: whether the board has values."""

    title: str
    hint: str
    cell: Callable[["TableRow"], Cell]
    has: Callable[[BoardView], bool] = lambda view: True
    shown: bool = False


@dataclass(frozen=True)
class DrawnInterval:
    """Where the dot and the ends of the line are, in percent of the scale; '' if there is none."""

    x: str = ""
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class AboutText:
    """A text below a candidate's name, with the dot that parts it from its neighbour."""

    text: str
    for_laptops: bool = False


@dataclass(frozen=True)
class TableRow:
    """What the table shows of a candidate; `cells`: of the chosen columns, by CSS class."""

    row: BoardStanding
    is_leader: bool
    ranks: str
    about: Sequence[AboutText]
    link: str
    drawn: DrawnInterval
    tier: int | None
    below_name: str
    compare_url: str
    cells: Sequence[tuple[str, Cell]] = ()


def _lead_cell(line: TableRow) -> Cell:
    below = line.row.below
    if below is None:
        return Cell(NONE)
    under = "next tier" if below.separated else ""
    spoken = f"over {line.below_name}"
    return Cell(signed(line.row.gap), under, url=line.compare_url, spoken=spoken)


def _interval_cell(score: float | None, low: float | None, high: float | None) -> Cell:
    return Cell(elo(score), "" if low is None else f"{elo(low)}–{elo(high)}")


def _style_cell(line: TableRow) -> Cell:
    style = line.row.style or StyleScore()
    return _interval_cell(style.score, style.low, style.high)


def _shrunk_cell(line: TableRow) -> Cell:
    standing = line.row.standing
    return _interval_cell(standing.shrunk, standing.shrunk_low, standing.shrunk_high)


def _price_cell(line: TableRow) -> Cell:
    value = line.row.value
    if not value.n_priced:
        return Cell(NONE)
    before = "No other candidate is both better and cheaper" if value.unbeaten else ""
    return Cell(dollars(value.price), before=before)


def _seconds_cell(line: TableRow) -> Cell:
    value = line.row.value
    if not value.n_timed:
        return Cell(NONE)
    return Cell(seconds(value.seconds))


def _tokens_cell(line: TableRow) -> Cell:
    value = line.row.value
    if not value.n_counted:
        return Cell(NONE)
    return Cell(f"{tokens(value.tokens_in)} → {tokens(value.tokens_out)}")


COLUMNS = {
    "lead": TableColumn(
        "Lead over next",
        "How far its score is above the next one, and whether a tier ends there",
        _lead_cell,
        has=lambda view: any(row.below for row in view.ranked),
    ),
    "win_rate": TableColumn(
        "Win rate",
        "Share of votes won; a tie counts as half",
        lambda line: Cell(percent(line.row.standing.win_rate)),
        shown=True,
    ),
    "style": TableColumn(
        "Style-controlled",
        "Score without the effect of length, headings, lists and bold words; below it, its 95 %"
        " interval",
        _style_cell,
        has=lambda view: view.has_style,
        shown=True,
    ),
    "shrunk": TableColumn(
        "Shrunk score",
        "Score pulled towards the average, more strongly with fewer votes; every candidate with "
        "votes has one. No rank or lead is based on it. Below it, its 95 % interval",
        _shrunk_cell,
        has=lambda view: any(row.standing.shrunk is not None for row in view.rows),
    ),
    "price": TableColumn(
        "$ per 1,000",
        "Mean cost of 1,000 answers in dollars; below it, the number of answers measured",
        _price_cell,
        has=lambda view: view.has_prices,
        shown=True,
    ),
    "wins_per_dollar": TableColumn(
        "Wins per $",
        "Prompts on which it is expected to beat the average candidate, per dollar spent",
        lambda line: Cell(figures(line.row.value.wins_per_dollar)),
        has=lambda view: view.has_costs,
    ),
    "seconds": TableColumn(
        "Seconds",
        "Mean time per answer; below it, the number of answers measured",
        _seconds_cell,
        has=lambda view: view.has_times,
    ),
    "wins_per_second": TableColumn(
        "Wins per s",
        "Prompts on which it is expected to beat the average candidate, per second of waiting",
        lambda line: Cell(figures(line.row.value.wins_per_second)),
        has=lambda view: view.has_times,
    ),
    "tokens": TableColumn(
        "Tokens",
        "Mean number of tokens sent and received per answer",
        _tokens_cell,
        has=lambda view: view.has_tokens,
    ),
    "elo": TableColumn(
        "Elo",
        "Online Elo rating, updated after every vote; below it, its 95 % interval",
        lambda line: _interval_cell(line.row.standing.elo, line.row.elo_low, line.row.elo_high),
        has=lambda view: view.has_elo,
    ),
    "both_bad": TableColumn(
        "Both bad",
        "Share of votes that rated both answers bad",
        lambda line: Cell(percent(line.row.standing.both_bad_rate)),
    ),
    "votes": TableColumn(
        "Votes",
        "Votes this candidate took part in",
        lambda line: Cell(grouped(line.row.standing.votes)),
        shown=True,
    ),
}
Columns = dict[str, TableColumn]
UNSORTED = {"shrunk", "tokens"}
FIXED = {
    "rank": ("Rank", "1 + the number of candidates placed higher; below it, the possible ranks"),
    "name": ("Candidate", ""),
    "score": ("Score", "Bradley-Terry score on the Elo scale; the average candidate scores 1000"),
}


@dataclass(frozen=True)
class TableQuery:
    """The columns, search and filters that a reader has chosen. Empty `columns`: those shown by
    default.

    `price` is the most that 1,000 answers may cost, in dollars. `own`: only candidates of the
    reader's teams. Only tables without chosen columns, a search or filters are stored, or strangers
    could fill the store.
    """

    columns: tuple[str, ...] = ()
    search: str = ""
    show_all: bool = False
    organisation: str = ""
    licence: str = ""
    price: str = ""
    own: bool = False

    @classmethod
    def of(cls, parameters: QueryDict) -> "TableQuery":
        named = {name for text in parameters.getlist("columns") for name in text.split(",")}
        texts = {
            name: " ".join(parameters.get(name, "").replace("\0", "").split())[:LONGEST_SEARCH]
            for name in ("q", "organisation", "licence", "price")
        }
        return cls(
            columns=tuple(name for name in COLUMNS if name in named),
            search=texts["q"],
            show_all=parameters.get("rows", "") == "all",
            organisation=texts["organisation"],
            licence=texts["licence"],
            price=texts["price"] if PRICE.fullmatch(texts["price"]) else "",
            own=parameters.get("team", "") == OWN,
        )

    @property
    def is_stored(self) -> bool:
        return not self.columns and not self.selects

    @property
    def selects(self) -> bool:
        """Whether the table may lack candidates."""
        return bool(self.selection)

    @property
    def selection(self) -> str:
        """The search and the filters in words."""
        return ", ".join([*([f"“{self.search}”"] if self.search else []), *self.filters])

    @property
    def filters(self) -> list[str]:
        """The filters in words."""
        words = [
            self.organisation,
            self.licence,
            f"at most ${self.price} per 1,000" if self.price else "",
            "your teams" if self.own else "",
        ]
        return [text for text in words if text]

    @property
    def form(self) -> str:
        """The stored page's kind."""
        return "html-all" if self.show_all else "html"

    def parameters(self, **changes: str) -> dict[str, str]:
        """As parameters of a URL; empty ones are left out by `BoardQuery.address`."""
        rows = "all" if self.show_all else ""
        fixed = {"columns": ",".join(self.columns), "q": self.search, "rows": rows}
        return fixed | self.filter_parameters | changes

    @property
    def filter_parameters(self) -> dict[str, str]:
        return {
            "organisation": self.organisation,
            "licence": self.licence,
            "price": self.price,
            "team": OWN if self.own else "",
        }

    def keeps(self, row: BoardStanding, own_teams: Set[int]) -> bool:
        """Whether the search and the filters keep the candidate. What is not public about an
        undisclosed candidate is neither searched nor filtered by."""
        candidate, price = row.standing.candidate, row.value.dollars
        is_disclosed = candidate.disclosed_at is not None
        texts = " ".join([row.name, *candidate_line(candidate)])
        return (
            self.search.casefold() in texts.casefold()
            and self.organisation in ("", is_disclosed and candidate.organisation)
            and self.licence in ("", is_disclosed and candidate.licence)
            and (not self.price or (price is not None and price <= float(self.price)))
            and (not self.own or candidate.team_id in own_teams)
        )


@dataclass(frozen=True)
class Tier:
    """The rows of one tier; `number` is 0 if there is only one."""

    number: int
    rows: list[TableRow]


@dataclass(frozen=True)
class Heading:
    """A column's heading: its link sorts, and reverses the order of the sorted column."""

    name: str
    title: str
    hint: str
    kind: str = "number"
    url: str = ""
    aria_sort: str = ""
    arrow: str = ""


@dataclass(frozen=True)
class ColumnChoice:
    """A box in the list of columns."""

    name: str
    title: str
    chosen: bool


@dataclass(frozen=True)
class Select:
    """A filter by one of several values; each option says whether it is chosen."""

    name: str
    label: str
    options: list[tuple[str, bool]]


@dataclass(frozen=True)
class FilterMenu:
    """What the table can be filtered by; empty if no filter would separate candidates."""

    title: str
    selects: list[Select]
    has_price: bool
    has_team: bool

    @classmethod
    def of(cls, view: BoardView, table: TableQuery) -> "FilterMenu":
        candidates = [row.standing.candidate for row in view.ranked]
        disclosed = [candidate for candidate in candidates if candidate.disclosed_at]
        selects = []
        for name, chosen in (("organisation", table.organisation), ("licence", table.licence)):
            values = {getattr(candidate, name) for candidate in disclosed} - {""}
            options = [(value, value == chosen) for value in sorted(values, key=str.casefold)]
            selects.append(Select(name, name.capitalize(), options))
        return cls(
            f"Filter ({len(table.filters)})" if table.filters else "Filter",
            [select for select in selects if select.options],
            view.has_prices,
            any(candidate.team_id for candidate in candidates),
        )

    def __bool__(self) -> bool:
        return bool(self.selects or self.has_price or self.has_team)


def control_style(view: BoardView) -> BoardView:
    """The same board, ranked by style-controlled scores if the reader asks for that.

    Candidates without such a score have no rank. Leads are unknown, so there are no ranges of ranks
    and no leads over the next.
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
        standing.sure_rank_low = standing.sure_rank_high = None
        rows.append(replace(row, standing=standing, below=None))
    costs = add_wins(
        {row.standing.candidate_id: row.value for row in rows},
        [row.standing for row in rows],
        view.snapshot.settings["scale"],
    )
    rows = [replace(row, value=costs[row.standing.candidate_id]) for row in rows]
    return replace(view, rows=sort_rows(rows, view.query.sort))


def table_context(
    view: BoardView, table: TableQuery, leader: int | None, own_teams: Set[int]
) -> dict[str, Any]:
    """The context of `ranking/_table.html`."""
    plain, view = view, control_style(view)
    is_styled = view.query.style
    offered, columns = _choose_columns(view, table)
    other_control = "" if view.query.style else CONTROLLED
    matching = [row for row in view.ranked if table.keeps(row, own_teams)]
    shown = matching if table.show_all or table.selects else matching[:MOST_ROWS]
    scale = _score_scale(view.ranked)
    rows = _table_rows(view, shown, scale, None if is_styled else leader, columns)
    headings = [
        *(_heading(view, table, name, *texts) for name, texts in FIXED.items()),
        *(_heading(view, table, name, of.title, of.hint) for name, of in columns.items()),
    ]
    return {
        "table": table,
        "fixed": headings[: len(FIXED)],
        "headings": headings[len(FIXED) :],
        "sort_links": [heading for heading in headings if heading.url],
        "ticks": scale.ticks() if scale else [],
        "tiers": _group_by_tier(rows, view.query.sort == "rank" and not table.selects),
        "n_columns": len(headings) + 1,
        "n_found": len(matching),
        "n_more": len(matching) - len(shown),
        "all_url": _table_address(view, table, rows="all"),
        "clear_url": view.address("board", columns=",".join(table.columns)),
        "filters": FilterMenu.of(view, table),
        "style_url": view.address("board", **table.parameters(), control=other_control)
        if view.has_style
        else "",
        "is_styled": is_styled,
        "style_says": wording.style_lead(plain.ranked, view.ranked) if is_styled else "",
        "column_choices": [
            ColumnChoice(name, column.title, name in columns) for name, column in offered.items()
        ],
        **_hidden_fields(view, table),
        "is_wide": len(columns) > MOST_COLUMNS,
    }


def _choose_columns(view: BoardView, table: TableQuery) -> tuple[Columns, Columns]:
    """The columns for which the board has values, and those of them that the table shows."""
    offered = {name: column for name, column in COLUMNS.items() if column.has(view)}
    chosen = table.columns or [name for name, column in offered.items() if column.shown]
    sorted_by = view.query.sort.removeprefix("-")
    return offered, {name: of for name, of in offered.items() if name in (*chosen, sorted_by)}


def _hidden_fields(view: BoardView, table: TableQuery) -> dict[str, list[tuple[str, str]]]:
    """What each form of the table leaves as it is."""
    board = {
        "raters": view.query.raters,
        "category": view.query.category,
        "sort": "" if view.query.sort == "rank" else view.query.sort,
        "control": CONTROLLED if view.query.style else "",
    }
    kept = [item for item in board.items() if item[1]]
    filters = [item for item in table.filter_parameters.items() if item[1]]
    columns = [("columns", name) for name in table.columns]
    search = [("q", table.search)] if table.search else []
    return {
        "kept_by_search": kept + filters + columns,
        "kept_by_filters": kept + columns + search,
        "kept_by_columns": kept + filters + search,
    }


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
    """What is shown below a candidate's name; nothing while it is undisclosed."""
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


def _table_rows(
    view: BoardView,
    rows: Sequence[BoardStanding],
    scale: ScoreScale | None,
    leader: int | None,
    columns: Columns,
) -> list[TableRow]:
    names = {row.standing.candidate_id: row.name for row in view.rows}
    tiers = () if view.query.style else Findings.of(view.snapshot).tiers
    by_tier = {pk: number for number, tier in enumerate(tiers, 1) for pk in tier}
    sorted_by = view.query.sort.removeprefix("-")
    # If a row has no space for more, it shows the column that it is sorted by.
    on_phone = sorted_by if sorted_by in columns else "votes"
    classes = {name: f"c-{name} on-phone" if name == on_phone else f"c-{name}" for name in columns}
    lines = []
    for row in rows:
        standing, below = row.standing, row.below
        low, high = standing.sure_rank_low, standing.sure_rank_high
        line = TableRow(
            row=row,
            is_leader=standing.candidate_id == leader,
            ranks=f"{low}–{high}" if low and low != high else "",
            about=_about_texts(standing.candidate),
            link=standing.candidate.link if standing.candidate.disclosed_at else "",
            drawn=_draw_interval(row, scale),
            tier=by_tier.get(standing.candidate_id),
            below_name=names.get(below.lower, "") if below else "",
            compare_url=_compare_url(view, below) if below else "",
        )
        cells = [(classes[name], column.cell(line)) for name, column in columns.items()]
        lines.append(replace(line, cells=cells))
    return lines


def _compare_url(view: BoardView, below: AdjacentCandidates) -> str:
    pair = urlencode({"a": below.upper, "b": below.lower})
    return f"{view.address('compare', sort='rank')}&{pair}"


def _about_texts(candidate: Candidate) -> list[AboutText]:
    """The texts with a dot between any two; phones leave out the model beside other facts."""
    facts = candidate_line(candidate)
    texts = []
    for i, fact in enumerate(facts):
        for_laptops = fact == candidate.model and len(facts) > 1
        if for_laptops and i == 0:
            fact = f"{fact} ·"
        elif for_laptops or i > 1 or (i == 1 and facts[0] != candidate.model):
            fact = f"· {fact}"
        texts.append(AboutText(fact, for_laptops))
    return texts


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


def _table_address(view: BoardView, table: TableQuery, **changes: str) -> str:
    names = {name: value for name, value in changes.items() if name == "sort"}
    others = {name: value for name, value in changes.items() if name != "sort"}
    return view.address("board", **table.parameters(**others), **names)


def _heading(view: BoardView, table: TableQuery, name: str, title: str, hint: str) -> Heading:
    if name in UNSORTED:
        return Heading(name, title, hint)
    sort = view.query.sort
    is_chosen, is_reversed = sort.removeprefix("-") == name, sort.startswith("-")
    is_rising = (name in RISING) != is_reversed
    return Heading(
        name=name,
        title=title,
        hint=hint,
        kind=name if name in ("rank", "name") else "number",
        url=_table_address(view, table, sort=f"-{name}" if is_chosen and not is_reversed else name),
        aria_sort=("ascending" if is_rising else "descending") if is_chosen else "",
        arrow=("▲" if is_rising else "▼") if is_chosen else "",
    )
