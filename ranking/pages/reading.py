"""What a board's page shows, read in five queries at most."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.db.models import F, Subquery
from django.http import Http404
from django.urls import reverse

from arena.access import NOBODY, Actor
from arena.models import Arena, Candidate
from arena.pages.ballots import with_ballots
from ranking.models import Counted, EloInterval, Snapshot, Standing
from ranking.pages.costs import UNKNOWN, Value, values_beside

VALUES = ("price", "wins_per_dollar", "seconds", "wins_per_second")
SORTS = ("rank", "name", "score", "elo", "votes", "win_rate", "both_bad", *VALUES)
# Sorted from the smallest on; all other columns from the largest.
RISING = {"rank", "name", "price", "seconds"}


@dataclass(frozen=True)
class Question:
    """What a reader asks of an arena; unknown parameters of the address are not part of it.

    `raters` may be empty: then it is the board that has votes, people's first.
    """

    raters: str = ""
    category: str = ""
    sort: str = "rank"

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> "Question":
        raters, sort = parameters.get("raters", ""), parameters.get("sort", "rank")
        return cls(
            raters if raters in Counted.values else "",
            parameters.get("category", "").replace("\0", ""),
            sort if sort.removeprefix("-") in SORTS else "rank",
        )

    @classmethod
    def unsorted(cls, parameters: Mapping[str, str]) -> "Question":
        """What is asked on a page that has no columns to sort by."""
        return replace(cls.of(parameters), sort="rank")

    def address(self, slug: str, page: str = "board", **changes: str) -> str:
        """The address of this question's page, or of one that differs from it by `changes`."""
        asked = {"raters": self.raters, "category": self.category, "sort": self.sort} | changes
        if asked["sort"] == "rank":
            del asked["sort"]
        query = urlencode({name: value for name, value in asked.items() if value})
        return reverse(page, args=[slug]) + (f"?{query}" if query else "")

    def key(self, page: str) -> str:
        return f"{page}|{self.raters}|{self.sort}|{self.category}"


@dataclass(frozen=True)
class Row:
    """A standing, the interval of its Elo rating, which an older snapshot may have lent, and what
    its answers cost."""

    standing: Standing
    name: str
    elo_low: float | None = None
    elo_high: float | None = None
    value: Value = UNKNOWN


@dataclass(frozen=True)
class BoardView:
    """Everything that a board's page, CSV or JSON is made from."""

    arena: Any
    asked: Question
    snapshot: Snapshot | None
    rows: list[Row]
    elo_votes: int | None  # how many votes the Elo intervals have seen, where that is fewer
    snapshots: list[Snapshot]

    @property
    def ranked(self) -> list[Row]:
        return [row for row in self.rows if row.standing.score is not None]

    @property
    def unranked(self) -> list[Row]:
        return [row for row in self.rows if row.standing.score is None]

    @property
    def has_unmeasured(self) -> bool:
        """Whether a score alone has no interval, because its candidate has few votes of its own."""
        known = [row.standing.low is not None for row in self.ranked]
        return any(known) and not all(known)

    @property
    def has_prices(self) -> bool:
        return any(row.value.n_priced for row in self.rows)

    @property
    def has_costs(self) -> bool:
        """Whether any answer cost something: where all are free, nothing is won per dollar."""
        return any(row.value.wins_per_dollar is not None for row in self.rows)

    @property
    def has_times(self) -> bool:
        return any(row.value.n_timed for row in self.rows)

    @property
    def has_tokens(self) -> bool:
        return any(row.value.n_counted for row in self.rows)


def find_arena(slug: str, actor: Actor = NOBODY) -> Any:
    """The arena, whether there is something to vote on, and the epoch of its pages.

    404 where there is none, or none that `actor` may see.
    """
    arenas = with_ballots(Arena.objects.visible_to(actor))
    arena = arenas.filter(slug=slug).annotate(page_epoch=F("refresh__page_epoch")).first()
    if arena is None:
        raise Http404("There is no such arena.")
    return arena


def read_board(arena: Any, asked: Question, again: bool = True) -> BoardView:
    """Read the board that is asked for; 404 where nobody has voted in such a category.

    A refresh may replace the snapshot before its standings are read: then it reads `again`, once.
    """
    snapshots = list(Snapshot.objects.current().of_arena(arena))
    snapshot = choose_snapshot(snapshots, asked)
    if snapshot is None:
        if asked.category:
            raise Http404("There is no such board.")
        return BoardView(arena, asked, None, _waiting(arena), None, snapshots)
    standings = list(snapshot.standings.select_related("candidate", "elo_interval"))
    if again and not standings and not Snapshot.objects.filter(pk=snapshot.pk).exists():
        return read_board(arena, asked, again=False)
    asked = Question(snapshot.board.raters, asked.category, asked.sort)
    lent, elo_votes = _lent_intervals(snapshot, standings)
    values = values_beside(arena, snapshot, standings)
    rows = [_row(standing, lent, values) for standing in standings]
    return BoardView(arena, asked, snapshot, sort_rows(rows, asked.sort), elo_votes, snapshots)


def choose_snapshot(snapshots: Iterable[Snapshot], asked: Question) -> Snapshot | None:
    """The snapshot of the board asked for; unless raters are named, one that has votes."""
    named = [
        snapshot
        for snapshot in snapshots
        if snapshot.board.category == asked.category and asked.raters in ("", snapshot.board.raters)
    ]
    order = Counted.values
    named.sort(key=lambda snapshot: (not snapshot.n_votes, order.index(snapshot.board.raters)))
    return named[0] if named else None


def _waiting(arena: Arena) -> list[Row]:
    """The candidates of an arena whose first board is still being made."""
    found = Candidate.objects.active().filter(arena=arena)
    rows = [
        Row(Standing(candidate=candidate, status="no_votes"), str(candidate)) for candidate in found
    ]
    return sort_rows(rows, "name")


def _lent_intervals(
    snapshot: Snapshot, standings: Iterable[Standing]
) -> tuple[dict[int, Any], int | None]:
    """The newest Elo intervals by candidate, and the votes they have seen, while ours are made."""
    rated = any(standing.elo is not None for standing in standings)
    if snapshot.elo_intervals_at or not rated:
        return {}, None
    earlier = Snapshot.objects.filter(board=snapshot.board_id).exclude(elo_intervals_at=None)
    newest = Subquery(earlier.order_by("-published_at").values("pk")[:1])
    found = EloInterval.objects.filter(standing__snapshot=newest).annotate(
        candidate=F("standing__candidate"), n_votes=F("standing__snapshot__elo_interval_votes")
    )
    by_candidate: dict[int, Any] = {interval.candidate: interval for interval in found}
    seen = next((interval.n_votes for interval in by_candidate.values()), 0)
    return by_candidate, seen


def _row(standing: Standing, lent: Mapping[int, EloInterval], values: Mapping[int, Value]) -> Row:
    own = getattr(standing, "elo_interval", None)
    interval = own or lent.get(standing.candidate_id)
    name, value = str(standing.candidate), values.get(standing.candidate_id, UNKNOWN)
    if interval is None:
        return Row(standing, name, value=value)
    return Row(standing, name, interval.low, interval.high, value)


def sort_rows(rows: list[Row], sort: str) -> list[Row]:
    """Sorted by a column, `-` for the other way round; those without a value always come last."""
    column = sort.removeprefix("-")
    upward = (column in RISING) != sort.startswith("-")
    by_name = sorted(rows, key=lambda row: (row.name.casefold(), row.standing.candidate_id))
    known = [row for row in by_name if _value(row, column) is not None]
    unknown = [row for row in by_name if _value(row, column) is None]
    return sorted(known, key=lambda row: _value(row, column), reverse=not upward) + unknown


def _value(row: Row, column: str) -> Any:
    if column == "name":
        return row.name.casefold()
    if column in VALUES:
        return getattr(row.value, column)
    return getattr(row.standing, "both_bad_rate" if column == "both_bad" else column)
