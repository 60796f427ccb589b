"""The data behind a board's page, files and API responses: scores, findings, costs, voters."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from django.db.models import F, FilteredRelation, OuterRef, Q, QuerySet, Subquery
from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

from arena.actors import ANONYMOUS, Actor
from arena.models import Candidate
from arena.permissions import visible_arenas
from arena.services.candidates import with_ballots
from ranking.anchor import MEAN
from ranking.costs import UNKNOWN_COSTS, CostAndSpeed, has_costs, read_costs_with_scores
from ranking.models import Counted, EloInterval, Snapshot, Standing

LARGEST_ID = 2**63 - 1
CONTROLLED = "style"
COST_COLUMNS = ("price", "wins_per_dollar", "seconds", "wins_per_second")
SORTS = (
    *("rank", "name", "score", "elo", "votes", "win_rate", "both_bad", "style", "lead"),
    *COST_COLUMNS,
)
# All other columns start with the largest value.
RISING = {"rank", "name", "price", "seconds"}
PAGES = {
    "board": gettext_noop("Leaderboard"),
    "compare": gettext_noop("Compare"),
    "price": gettext_noop("Price"),
    "about": gettext_noop("About"),
}
LONG_TEXTS = ("system_prompt", "user_template", "messages", "parameters", "notes")
Columns = dict[str, Any]


def parse_id(text: str) -> int | None:
    """Parse an id from a URL; None if it is not a valid id."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        return None
    return pk if (pk := int(text)) <= LARGEST_ID else None


@dataclass(frozen=True)
class AdjacentCandidates:
    """Two candidates with adjacent scores; `separated`: whether their tiers differ. `votes` and
    `words` are no longer known: a claim about the two says what is missing."""

    upper: int
    lower: int
    separated: bool
    votes: int | None
    words: str


@dataclass(frozen=True)
class StyleScore:
    """A candidate's style-controlled score in Elo, its interval, and its possible ranks, which
    older snapshots lack."""

    score: float | None = None
    low: float | None = None
    high: float | None = None
    rank_low: int | None = None
    rank_high: int | None = None


@dataclass(frozen=True)
class Findings:
    """The findings of one snapshot, by candidate ids; older snapshots may lack any of them.

    `leader`: clear at every look. `ahead`: at this count of votes. `provisional`: who would be
    either, if few networks did not carry the lead. `possible`: who could be best.
    `apart`: active candidates that cannot be compared with the ranked ones, although they have
    enough votes. `opposed`: pairs of a higher and a lower candidate whose direct votes say the
    opposite. `neighbours` is keyed by the upper candidate, `style_scores` by the candidate; the
    others are the stored JSON objects.
    """

    leader: int | None = None
    ahead: int | None = None
    provisional: int | None = None
    is_under_review: bool = False
    possible: Sequence[int] = ()
    apart: Sequence[int] = ()
    opposed: frozenset[tuple[int, int]] = frozenset()
    neighbours: Mapping[int, AdjacentCandidates] = field(default_factory=dict)
    robustness: Mapping[str, Any] = field(default_factory=dict)
    agreement: Mapping[str, Any] = field(default_factory=dict)
    transitivity: Mapping[str, Any] = field(default_factory=dict)
    style: Mapping[str, Any] = field(default_factory=dict)
    combined: Mapping[str, Any] = field(default_factory=dict)
    groups: Sequence[Sequence[Mapping[str, Any]]] = ()
    style_scores: Mapping[int, StyleScore] = field(default_factory=dict)
    tiers: Sequence[Sequence[int]] = ()

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> "Findings":
        stored = snapshot.findings if snapshot else {}
        names = ("agreement", "transitivity", "style", "combined")
        parts = {name: stored.get(name) or {} for name in names}
        # Findings are stored with a mean of 1000, because a later snapshot may borrow them.
        move = snapshot.center - MEAN if snapshot else 0.0
        # JSON has no integer keys, so ids were stored as text.
        scores = (parts["style"].get("scores") or {}).items()
        return cls(
            leader=stored.get("leader"),
            ahead=stored.get("ahead"),
            provisional=stored.get("provisional"),
            is_under_review=stored.get("is_under_review", False),
            possible=stored.get("possible") or (),
            apart=stored.get("apart") or (),
            opposed=frozenset((higher, lower) for higher, lower in stored.get("opposed") or ()),
            tiers=stored.get("tiers") or (),
            groups=stored.get("groups") or (),
            robustness=stored.get("fragility") or {},
            neighbours={
                pair["upper"]: AdjacentCandidates(
                    pair["upper"],
                    pair["lower"],
                    pair["separated"],
                    pair.get("votes"),
                    pair["words"],
                )
                for pair in stored.get("neighbours") or []
            },
            style_scores={
                int(pk): StyleScore(
                    _moved(row.get("score"), move),
                    _moved(row.get("low"), move),
                    _moved(row.get("high"), move),
                    row.get("rank_low"),
                    row.get("rank_high"),
                )
                for pk, row in scores
            },
            **parts,
        )


def _moved(score: float | None, by: float) -> float | None:
    return None if score is None else score + by


@dataclass(frozen=True)
class BoardQuery:
    """The board that a reader asks for; unknown URL parameters are ignored.

    Empty `raters` means the first board that has votes, starting with human votes. `style`: ranked
    by style-controlled scores, on the pages that offer it.
    """

    raters: str = ""
    category: str = ""
    sort: str = "rank"
    style: bool = False

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> "BoardQuery":
        raters, sort = parameters.get("raters", ""), parameters.get("sort", "rank")
        return cls(
            raters if raters in Counted.values else "",
            parameters.get("category", "").replace("\0", ""),
            sort if sort.removeprefix("-") in SORTS else "rank",
            parameters.get("control", "") == CONTROLLED,
        )

    @classmethod
    def unsorted(cls, parameters: Mapping[str, str]) -> "BoardQuery":
        """A query for a page without sortable columns."""
        return replace(cls.of(parameters), sort="rank")

    def address(self, slug: str, page: str = "board", **changes: str) -> str:
        """The URL of a page about this board, with its parameters updated by `changes`."""
        parameters = {"raters": self.raters, "category": self.category, "sort": self.sort}
        parameters |= {"control": CONTROLLED if self.style else ""} | changes
        if parameters["sort"] == "rank":
            del parameters["sort"]
        query = urlencode({name: value for name, value in parameters.items() if value})
        return reverse(page, args=[slug]) + (f"?{query}" if query else "")

    def key(self, page: str) -> str:
        styled = "-styled" if self.style else ""
        return f"{page}{styled}|{self.raters}|{self.sort}|{self.category}"


@dataclass(frozen=True)
class Link:
    label: str
    url: str
    chosen: bool


def choice_links(
    choices: Iterable[tuple[str, str]], chosen: str, address: Callable[[str], str]
) -> list[Link]:
    """A link for each (value, label), with `chosen` marked; none for a single one."""
    links = [Link(label, address(value), value == chosen) for value, label in choices]
    return links if len(links) > 1 else []


def is_own(snapshot: Snapshot) -> bool:
    """Whether it is a leaderboard of its own: without trusted judges, the combined one is the human
    one again."""
    is_combined = snapshot.board.raters == Counted.COMBINED
    return not is_combined or bool(Findings.of(snapshot).combined.get("names"))


@dataclass(frozen=True)
class BoardLinks:
    """The board that a page is about: its current snapshot (None before the first), and all current
    `snapshots` of the arena. `query.raters` names its voters, even if the URL does not."""

    arena: Any
    query: BoardQuery
    snapshot: Snapshot | None
    snapshots: list[Snapshot]

    def address(self, page: str = "board", **changes: str) -> str:
        return self.query.address(self.arena.slug, page, **changes)

    def page_links(self, here: str) -> list[Link]:
        return page_links(self.arena, self.query, self.snapshots, here, self.shows_costs())

    def shows_costs(self) -> bool:
        """Whether any answer of the arena has a price or a time."""
        return has_costs(self.arena)

    def raters_links(self, page: str = "board", **parameters: str) -> list[Link]:
        """Links to the boards of this category by raters; `parameters` are kept in the URL."""
        raters = {s.board.raters for s in self.snapshots if self._is_worth_a_link(s)}
        return choice_links(
            [(value, gettext(label)) for value, label in Counted.choices if value in raters],
            self.query.raters,
            lambda value: self.address(page, **parameters, raters=value),
        )

    def _is_worth_a_link(self, snapshot: Snapshot) -> bool:
        """Whether a leaderboard of this category shows something that the others do not."""
        board = snapshot.board
        if board.category != self.query.category:
            return False
        return board.raters == self.query.raters or (is_own(snapshot) and snapshot.n_votes > 0)

    def category_links(self, page: str = "board", **parameters: str) -> list[Link]:
        """Links to all prompts, and to each category in which these raters have voted."""
        names = [s.board.category for s in self.snapshots if s.board.raters == self.query.raters]
        return choice_links(
            [(name, name or gettext("All prompts")) for name in names],
            self.query.category,
            lambda name: self.address(page, **parameters, category=name),
        )


def page_links(
    arena: Any, query: BoardQuery, snapshots: Iterable[Snapshot], here: str, shows_costs: bool
) -> list[Link]:
    """The tabs of an arena that have something to show."""
    query = replace(query, sort="rank")
    offered = {
        "compare": any(snapshot.n_votes for snapshot in snapshots),
        "price": shows_costs,
    }
    return [
        Link(gettext(label), query.address(arena.slug, page), page == here)
        for page, label in PAGES.items()
        if page == here or offered.get(page, True)
    ]


@dataclass(frozen=True)
class BoardStanding:
    """A standing, its Elo interval (perhaps from an older snapshot), the cost of answers, the
    style-controlled score, and the next candidate with the gap to its score, in Elo."""

    standing: Standing
    name: str
    elo_low: float | None = None
    elo_high: float | None = None
    value: CostAndSpeed = UNKNOWN_COSTS
    style: StyleScore | None = None
    below: AdjacentCandidates | None = None
    gap: float | None = None


@dataclass(frozen=True)
class BoardView(BoardLinks):
    """The data behind a board's page, CSV and JSON.

    `elo_votes`: how many votes the Elo intervals include, None for all of them. `candidates`: all
    candidates of the arena, with the columns that the page asked for.
    """

    rows: list[BoardStanding]
    elo_votes: int | None = None
    candidates: list[Any] = field(default_factory=list)

    @property
    def ranked(self) -> list[BoardStanding]:
        """The candidates that have a place, with or without a score."""
        return [row for row in self.rows if row.standing.rank is not None]

    @property
    def unranked(self) -> list[BoardStanding]:
        return [row for row in self.rows if row.standing.rank is None]

    @property
    def names_of_candidates(self) -> dict[int, str]:
        """Those without a row, too."""
        return {candidate.pk: str(candidate) for candidate in self.candidates}

    @property
    def has_scores(self) -> bool:
        return any(row.standing.score is not None for row in self.rows)

    @property
    def has_unmeasured(self) -> bool:
        """Whether some scores have intervals and others do not, for lack of votes."""
        scored = [row.standing for row in self.ranked if row.standing.score is not None]
        bounded = [standing.low is not None for standing in scored]
        return any(bounded) and not all(bounded)

    def shows_costs(self) -> bool:
        is_known = self.has_prices or self.has_times
        # A category may lack what the others have.
        return is_known or bool(self.query.category and super().shows_costs())

    @property
    def has_prices(self) -> bool:
        return any(row.value.n_priced for row in self.rows)

    @property
    def has_costs(self) -> bool:
        """Whether any answer has a cost; if all are free, there are no wins per dollar."""
        return any(row.value.wins_per_dollar is not None for row in self.rows)

    @property
    def has_times(self) -> bool:
        return any(row.value.n_timed for row in self.rows)

    @property
    def has_style(self) -> bool:
        """Whether there are style-controlled scores, and style has any effect to control for."""
        features = Findings.of(self.snapshot).style.get("features") or []
        has_effects = any(feature.get("coefficient") is not None for feature in features)
        return has_effects and any(row.style for row in self.rows)

    @property
    def has_elo(self) -> bool:
        return any(row.standing.elo is not None for row in self.ranked)

    @property
    def has_tokens(self) -> bool:
        return any(row.value.n_counted for row in self.rows)


def find_arena(slug: str, actor: Actor = ANONYMOUS) -> Any:
    """The arena, annotated with whether there is something to vote on, and with its page epoch.

    Raises Http404 if it does not exist or `actor` may not see it.
    """
    arenas = with_ballots(visible_arenas(actor))
    arena = arenas.filter(slug=slug).annotate(page_epoch=F("refresh__page_epoch")).first()
    if arena is None:
        raise Http404("There is no such arena.")
    return arena


def choose_snapshot(snapshots: Iterable[Snapshot], query: BoardQuery) -> Snapshot | None:
    """The snapshot of the requested board; if no raters are named, preferably one with enough
    votes, or else with any; verified people's first, while votes are under review."""
    matches = [
        snapshot
        for snapshot in snapshots
        if snapshot.board.category == query.category and query.raters in ("", snapshot.board.raters)
    ]
    order: list[str] = list(Counted.values)
    if any(Findings.of(snapshot).is_under_review for snapshot in matches):
        order.sort(key=lambda raters: raters != Counted.VERIFIED)
    return min(
        matches,
        key=lambda snapshot: (
            snapshot.lacks_votes,
            not snapshot.n_votes,
            order.index(snapshot.board.raters),
        ),
        default=None,
    )


def read_snapshots(
    arena: Any, query: BoardQuery, columns: Columns | None = None
) -> tuple[list[Snapshot], Snapshot | None]:
    """All current snapshots of the arena, and the requested one (None before the first).

    Raises Http404 if nobody has voted in the category.
    """
    snapshots = list(Snapshot.objects.current().of_arena(arena).annotate(**columns or {}))
    snapshot = choose_snapshot(snapshots, query)
    if snapshot is None and query.category:
        raise Http404("There is no such leaderboard.")
    return snapshots, snapshot


def is_replaced(snapshot: Snapshot, standings: Collection[Standing]) -> bool:
    """Whether a refresh replaced the snapshot before its standings were read."""
    return not standings and not Snapshot.objects.filter(pk=snapshot.pk).exists()


def read_board(
    arena: Any,
    query: BoardQuery,
    *,
    columns: Columns | None = None,
    candidate_columns: Columns | None = None,
    retry: bool = True,
) -> BoardView:
    """Read the requested board, and again if a refresh replaces it meanwhile.

    Pages that show more than standings add columns to the snapshots and candidates. Raises Http404
    for unknown categories.
    """
    snapshots, snapshot = read_snapshots(arena, query, columns)
    further = _older_intervals(snapshot) | (candidate_columns or {})
    candidates = list(_with_standings(arena, snapshot).annotate(**further))
    if snapshot is None:
        rows = [
            BoardStanding(Standing(candidate=candidate, status="no_votes"), str(candidate))
            for candidate in candidates
            if candidate.retired_at is None
        ]
        rows = sort_rows(rows, "name")
        return BoardView(arena, query, None, snapshots, rows, candidates=candidates)
    # The standings of the candidates that have one; on the others Django does not set `shown`.
    standings: list[Standing] = []
    for candidate in candidates:
        if hasattr(candidate, "shown"):
            candidate.shown.candidate = candidate
            standings.append(candidate.shown)
    if retry and is_replaced(snapshot, standings):
        return read_board(
            arena, query, columns=columns, candidate_columns=candidate_columns, retry=False
        )
    query = replace(query, raters=snapshot.board.raters)
    costs = read_costs_with_scores(arena, snapshot, standings)
    findings = Findings.of(snapshot)
    score = {row.candidate_id: row.score for row in standings}
    rows = [
        replace(
            board_standing(row, costs),
            style=findings.style_scores.get(row.candidate_id),
            below=below,
            gap=_gap(row.score, score.get(below.lower) if below else None),
        )
        for row in standings
        for below in (findings.neighbours.get(row.candidate_id),)
    ]
    rows = sort_rows(rows, query.sort)
    elo_votes = _elo_votes(snapshot, standings)
    return BoardView(arena, query, snapshot, snapshots, rows, elo_votes, candidates)


def _gap(upper: float | None, lower: float | None) -> float | None:
    return None if upper is None or lower is None else upper - lower


def _with_standings(arena: Any, snapshot: Snapshot | None) -> QuerySet[Any]:
    """The arena's candidates, each with its team and its standing in `snapshot` as `shown`."""
    in_snapshot = Q(standings__snapshot=snapshot.pk if snapshot else None)
    candidates = Candidate.objects.revealed().filter(arena=arena).defer(*LONG_TEXTS)
    relation = FilteredRelation("standings", condition=in_snapshot)
    return candidates.annotate(shown=relation).select_related("team", "shown__elo_interval")


def _older_intervals(snapshot: Snapshot | None) -> Columns:
    """Candidate columns with the board's newest Elo intervals, if the snapshot has none yet."""
    if snapshot is None or snapshot.elo_intervals_at:
        return {}
    earlier = Snapshot.objects.filter(board=snapshot.board_id).exclude(elo_intervals_at=None)
    newest = Subquery(earlier.order_by("-pk").values("pk")[:1])
    older = EloInterval.objects.filter(
        standing__snapshot=newest, standing__candidate=OuterRef("pk")
    )
    columns = {
        "older_low": "low",
        "older_high": "high",
        "older_votes": "standing__snapshot__elo_interval_votes",
    }
    return {name: Subquery(older.values(column)[:1]) for name, column in columns.items()}


def _elo_votes(snapshot: Snapshot, standings: Iterable[Standing]) -> int | None:
    """How many votes the Elo intervals shown include; None for all of them."""
    rated = [row for row in standings if row.elo is not None]
    if snapshot.elo_intervals_at or not rated:
        return None
    votes = [getattr(row.candidate, "older_votes", None) for row in rated]
    return next((count for count in votes if count is not None), 0)


def board_standing(standing: Standing, costs: Mapping[int, CostAndSpeed]) -> BoardStanding:
    """A standing with its own Elo interval, or else with its candidate's older one."""
    candidate, interval = standing.candidate, getattr(standing, "elo_interval", None)
    low = interval.low if interval else getattr(candidate, "older_low", None)
    high = interval.high if interval else getattr(candidate, "older_high", None)
    value = costs.get(standing.candidate_id, UNKNOWN_COSTS)
    return BoardStanding(standing, str(candidate), low, high, value)


def sort_rows(rows: list[BoardStanding], sort: str) -> list[BoardStanding]:
    """Sort by a column, reversed by a leading `-`; rows without a value always come last."""
    column = sort.removeprefix("-")
    is_rising = (column in RISING) != sort.startswith("-")
    by_name = sorted(rows, key=lambda row: (row.name.casefold(), row.standing.candidate_id))
    valued = [row for row in by_name if _sort_value(row, column) is not None]
    unknown = [row for row in by_name if _sort_value(row, column) is None]
    return sorted(valued, key=lambda row: _sort_value(row, column), reverse=not is_rising) + unknown


def _sort_value(row: BoardStanding, column: str) -> Any:
    if column == "name":
        return row.name.casefold()
    if column in COST_COLUMNS:
        return getattr(row.value, column)
    if column == "style":
        return row.style and row.style.score
    if column == "lead":
        return row.gap
    return getattr(row.standing, "both_bad_rate" if column == "both_bad" else column)
