"""People, judges, juries and the combined board side by side: where they agree and where not."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from django.http import Http404

from arena.models import Candidate
from ranking.models import Counted, Snapshot, Standing
from ranking.pages import disagreement
from ranking.pages.board import Link, links_to_pages
from ranking.pages.disagreement import Disagreement
from ranking.pages.published import LONG_TEXTS
from ranking.pages.reading import Question
from ranking.services.rater_boards import RankCorrelation, rank_correlation

PAGE = "side_by_side"
ORDERS = {"rank": "By rank", "difference": "Largest difference first"}


@dataclass(frozen=True)
class Column:
    """A board that has votes: what it is called, where it stands, its standings by candidate."""

    raters: str
    label: str
    url: str
    snapshot: Snapshot
    standings: dict[int, Standing]

    @property
    def scores(self) -> dict[int, float]:
        known = self.standings.values()
        return {s.candidate_id: s.score for s in known if s.score is not None}


@dataclass(frozen=True)
class Line:
    """A candidate: its standing on each board, None where it is on none, and who disagrees."""

    candidate: Candidate
    cells: list[Standing | None]
    disagreement: Disagreement
    is_largest: bool


@dataclass(frozen=True)
class Pairing:
    """Two boards, and how far they rank alike."""

    first: str
    second: str
    correlation: RankCorrelation


def order_of(text: str) -> str:
    """The order asked for; by rank where that is none."""
    return text if text in ORDERS else "rank"


def side_by_side_context(arena: Any, asked: Question, order: str) -> dict[str, Any]:
    """Everything that `ranking/side_by_side.html` prints. Raises Http404 for unknown categories."""
    snapshots, columns = _read(arena, asked)
    lines = _lines(columns)
    return {
        "arena": arena,
        "has_snapshots": bool(snapshots),
        "columns": columns,
        "lines": sorted(lines, key=_by_difference) if order == "difference" else lines,
        "pairings": _pairings(columns),
        "n_apart": sum(line.disagreement.is_apart for line in lines),
        "is_shifted": _is_shifted(columns),
        "reference": columns[0].raters if columns else "",
        "page_links": links_to_pages(arena.slug, asked, snapshots, PAGE),
        "category_links": _category_links(arena.slug, asked, snapshots),
        "order_links": _order_links(arena.slug, asked, order),
    }


def _read(arena: Any, asked: Question, again: bool = True) -> tuple[list[Snapshot], list[Column]]:
    """Two queries. A refresh may replace a snapshot between them: then it reads `again`, once."""
    snapshots = list(Snapshot.objects.current().of_arena(arena))
    if asked.category and not _in_category(snapshots, asked):
        raise Http404("There is no such board.")
    columns = _columns(arena, asked, snapshots)
    if again and not all(column.standings for column in columns):
        return _read(arena, asked, again=False)
    return snapshots, columns


def _in_category(snapshots: Iterable[Snapshot], asked: Question) -> list[Snapshot]:
    return [s for s in snapshots if s.board.category == asked.category]


def _columns(arena: Any, asked: Question, snapshots: list[Snapshot]) -> list[Column]:
    """The boards of the category that have votes, people's first; one query."""
    mine = {s.board.raters: s for s in _in_category(snapshots, asked) if s.n_votes}
    found = Standing.objects.filter(snapshot__in=mine.values()).select_related("candidate")
    found = found.defer(*(f"candidate__{name}" for name in LONG_TEXTS))
    standings: dict[int, dict[int, Standing]] = {s.pk: {} for s in mine.values()}
    for standing in found:
        standings[standing.snapshot_id][standing.candidate_id] = standing
    return [
        Column(
            raters,
            label,
            asked.address(arena.slug, raters=raters),
            mine[raters],
            standings[mine[raters].pk],
        )
        for raters, label in Counted.choices
        if raters in mine
    ]


def _lines(columns: list[Column]) -> list[Line]:
    """A line per candidate, in the order of the first board that ranks it."""
    candidates: dict[int, Candidate] = {}
    for column in columns:
        candidates |= {pk: s.candidate for pk, s in column.standings.items()}
    others = [column for column in columns[1:] if column.raters != Counted.COMBINED]
    told = {pk: _disagreement(pk, columns[0], others) for pk in candidates}
    sizes = {pk: found.size for pk, found in told.items() if found.size}
    largest = max(sizes, key=lambda pk: sizes[pk]) if sizes else None
    lines = [
        Line(candidate, [c.standings.get(pk) for c in columns], told[pk], pk == largest)
        for pk, candidate in candidates.items()
    ]
    return sorted(lines, key=_by_rank)


def _disagreement(pk: int, reference: Column, others: list[Column]) -> Disagreement:
    own = reference.standings.get(pk)
    return disagreement.between(
        reference.raters,
        own,
        [(c.raters, c.standings.get(pk), _shift(reference, c)) for c in others],
    )


def _shift(reference: Column, other: Column) -> float:
    """How much higher the other board's scale lies for the candidates that both rank: the average
    of each board is 1000 among its own."""
    one, two = reference.scores, other.scores
    shared = one.keys() & two.keys()
    return sum(two[pk] - one[pk] for pk in shared) / len(shared) if shared else 0.0


def _is_shifted(columns: list[Column]) -> bool:
    return any(c.scores.keys() != columns[0].scores.keys() for c in columns[1:])


def _by_rank(line: Line) -> tuple[Any, ...]:
    places = [s.rank if s and s.rank else 10**9 for s in line.cells]
    return (*places, str(line.candidate).casefold(), line.candidate.pk)


def _by_difference(line: Line) -> tuple[Any, ...]:
    found = line.disagreement
    return found.size is None, -(found.size or 0), _by_rank(line)


def _pairings(columns: list[Column]) -> list[Pairing]:
    return [
        Pairing(one.label, two.label.lower(), rank_correlation(one.scores, two.scores))
        for one, two in combinations(columns, 2)
    ]


def _category_links(slug: str, asked: Question, snapshots: list[Snapshot]) -> list[Link]:
    """All prompts, then each category that anybody has voted in."""
    names = sorted({s.board.category for s in snapshots})
    return _links(
        [(name, name or "All prompts") for name in names],
        asked.category,
        lambda name: asked.address(slug, PAGE, raters="", category=name),
    )


def _order_links(slug: str, asked: Question, order: str) -> list[Link]:
    return _links(
        list(ORDERS.items()),
        order,
        lambda name: asked.address(
            slug, PAGE, raters="", **({} if name == "rank" else {"order": name})
        ),
    )


def _links(
    choices: list[tuple[str, str]], chosen: str, address: Callable[[str], str]
) -> list[Link]:
    links = [Link(label, address(name), name == chosen) for name, label in choices]
    return links if len(links) > 1 else []
