"""The win matrix: who scored how much against whom, as voted and as the scores predict it."""

from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from ranking.models import Standing
from ranking.pages.board import Link
from ranking.pages.charts import shorten
from ranking.pages.published import (
    Pairs,
    Published,
    category_links,
    comparisons_url,
    page_links,
    raters_links,
    read_pairs,
)
from ranking.stats import WinMatrix, observed_shares, predicted_shares
from ranking.templatetags.numbers import percent
from ranking.votes import Floats, Ints

SHOWN = 100  # rows and columns; a larger table is no use to anybody
SHOWS = {"observed": "As voted", "predicted": "As the scores predict"}
NAME = 22  # characters of a name that the headings have room for
STEPS = (0.05, 0.12, 0.2, 0.3)  # how far from one half the shades begin


@dataclass(frozen=True, slots=True)
class Cell:
    """What a row's candidate scored against a column's; `says` is there where there is no share."""

    share: str
    votes: int
    shade: str
    url: str
    says: str


@dataclass(frozen=True)
class Line:
    """A row of the table."""

    standing: Standing
    name: str
    short: str
    cells: list[Cell]


@dataclass(frozen=True, eq=False)
class Table:
    """(K, K) each: what is printed, the votes behind it, all votes, and the classes of shades."""

    share: Floats
    votes: Ints
    met: Ints
    shade: list[list[str]]
    nothing: str


def shown_of(show: str) -> str:
    return show if show in SHOWS else "observed"


def matrix_context(board: Published, show: str) -> dict[str, Any]:
    """Everything that `ranking/matrix.html` prints; `show` is one of SHOWS."""
    pairs = read_pairs(board)
    kept = {"show": show if show != "observed" else ""}
    return {
        "arena": board.arena,
        "board": board,
        "snapshot": board.snapshot,
        "show": show,
        "lines": _lines(board, pairs, show) if pairs else [],
        "n_candidates": len(board.standings),
        "page_links": page_links(board, "win_matrix"),
        "raters_links": raters_links(board, "win_matrix", **kept),
        "category_links": category_links(board, "win_matrix", **kept),
        "show_links": _show_links(board, show),
    }


def _show_links(board: Published, show: str) -> list[Link]:
    address = board.asked.address
    return [
        Link(
            label,
            address(board.arena.slug, "win_matrix", show="" if name == "observed" else name),
            name == show,
        )
        for name, label in SHOWS.items()
    ]


def _lines(board: Published, pairs: Pairs, show: str) -> list[Line]:
    """The first SHOWN candidates in rank order, each against all of them."""
    table = _table(pairs, show)
    standings = board.standings[:SHOWN]
    ids = [standing.candidate_id for standing in standings]
    places = np.searchsorted(pairs.candidates, ids).tolist()
    opponents = list(zip(places, ids, strict=True))
    return [
        _line(standing, _cells(board, standing, i, opponents, table))
        for i, standing in zip(places, standings, strict=True)
    ]


def _line(standing: Standing, cells: list[Cell]) -> Line:
    name = str(standing.candidate)
    return Line(standing, name, shorten(name, NAME), cells)


def _table(pairs: Pairs, show: str) -> Table:
    voted = observed_shares(pairs.battles)
    predicted = show == "predicted"
    share = predicted_shares(pairs.theta) if predicted else voted.share
    return Table(
        share=share,
        votes=voted.votes,
        met=_met(pairs),
        shade=_shades(share if predicted else _drawn_in(voted)),
        nothing="not comparable" if predicted else "never met",
    )


def _met(pairs: Pairs) -> Ints:
    """(K, K): all votes between two, those that say that both are bad too."""
    met = np.zeros((len(pairs.candidates),) * 2, np.int64)
    first = np.searchsorted(pairs.candidates, pairs.cells.key("first"))
    second = np.searchsorted(pairs.candidates, pairs.cells.key("second"))
    met[first, second] = pairs.cells.votes
    return met + met.T


def _cells(
    board: Published, standing: Standing, i: int, opponents: list[tuple[int, int]], table: Table
) -> list[Cell]:
    """A row; each cell leads to the comparisons beneath it, where there are any."""
    address = comparisons_url(board, standing.candidate_id)
    share, votes, met = table.share[i].tolist(), table.votes[i].tolist(), table.met[i].tolist()
    return [
        Cell(
            share="" if isnan(share[j]) else percent(share[j]),
            votes=votes[j],
            shade=table.shade[i][j],
            url=f"{address}&opponent={pk}#comparisons" if met[j] else "",
            says="itself" if j == i else "both bad" if met[j] and not votes[j] else table.nothing,
        )
        for j, pk in opponents
    ]


def _drawn_in(observed: WinMatrix) -> Floats:
    """The shares with two wins and two losses added: a few votes do not colour much.

    That is the centre of the interval of Agresti and Coull 1998 for a share.
    """
    drawn: Floats = (observed.share * observed.votes + 2) / (observed.votes + 4)
    return drawn


def _shades(share: Floats) -> list[list[str]]:
    """(K, K) classes: `over-1` to `over-4` above one half, `under-1` to `under-4` below it."""
    step = np.searchsorted(STEPS, np.abs(np.nan_to_num(share, nan=0.5) - 0.5), side="right")
    names = np.array(["", *(f"over-{n}" for n in range(1, len(STEPS) + 1))], object)
    below = np.array(["", *(f"under-{n}" for n in range(1, len(STEPS) + 1))], object)
    shades: list[list[str]] = np.where(share > 0.5, names[step], below[step]).tolist()
    return shades
