"""The table of all pairs: how often each candidate is preferred to each other one."""

from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from arena.validation import shorten_apart
from ranking.comparison import PublishedBoard, PublishedPairs, read_pairs
from ranking.models import Standing
from ranking.stats.bradley_terry import WinMatrix
from ranking.templatetags.ranking_tags import percent
from ranking.votes import Floats, Ints

MOST_ROWS = 100  # and columns; nobody can read a larger table
FIRST_ROWS = 30  # of the table at first
NAME_LENGTH = 22  # characters of a name that fit a column heading
SHADE_STEPS = (0.05, 0.12, 0.2, 0.3)  # how far from one half each shade begins


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """A row's win rate against a column; without one, the two have no votes that count."""

    share: str
    votes: int
    shade: str
    url: str
    is_itself: bool


@dataclass(frozen=True)
class MatrixRow:
    standing: Standing
    name: str
    short: str
    cells: list[MatrixCell]


def matrix_context(board: PublishedBoard, show_all: bool = False) -> dict[str, Any]:
    """The context of `ranking/_matrix.html`."""
    pairs = read_pairs(board)
    n_shown = MOST_ROWS if show_all else FIRST_ROWS
    return {
        "lines": _matrix_rows(board, pairs, n_shown) if pairs else [],
        "n_candidates": len(board.standings),
        "rows_url": "" if show_all else board.address("compare", rows="all") + "#matrix",
        "show_all": show_all,
    }


def _matrix_rows(board: PublishedBoard, pairs: PublishedPairs, n_shown: int) -> list[MatrixRow]:
    """The first `n_shown` candidates in rank order, each against all of them."""
    standings = board.standings[:n_shown]
    ids = [standing.candidate_id for standing in standings]
    places = np.searchsorted(pairs.candidates, ids)
    among = np.ix_(places, places)
    shares, votes = pairs.observed.share[among], pairs.observed.votes[among]
    all_votes = _all_votes(pairs)[among].tolist()
    shades = _shade_classes(_shrunk_shares(pairs.observed)[among])
    names = [str(standing.candidate) for standing in standings]
    short = shorten_apart(names, NAME_LENGTH)
    address = board.address("compare")
    mark = "&" if "?" in address else "?"
    rows = []
    for i, standing in enumerate(standings):
        cells = [
            MatrixCell(
                share="" if isnan(share) else percent(share),
                votes=n,
                shade=shades[i][j],
                url=f"{address}{mark}a={ids[i]}&b={ids[j]}" if all_votes[i][j] else "",
                is_itself=i == j,
            )
            for j, (share, n) in enumerate(zip(shares[i].tolist(), votes[i].tolist(), strict=True))
        ]
        rows.append(MatrixRow(standing, names[i], short[i], cells))
    return rows


def _all_votes(pairs: PublishedPairs) -> Ints:
    """(K, K) the votes of each pair, whether or not they count."""
    votes = np.zeros((len(pairs.candidates),) * 2, np.int64)
    first = np.searchsorted(pairs.candidates, pairs.counts.first)
    second = np.searchsorted(pairs.candidates, pairs.counts.second)
    votes[first, second] = pairs.counts.votes
    return votes + votes.T


def _shrunk_shares(observed: WinMatrix) -> Floats:
    """The shares with two wins and two losses added, so that a few votes give little colour.

    This is the centre of the interval of Agresti and Coull 1998 for a share.
    """
    shrunk: Floats = (observed.share * observed.votes + 2) / (observed.votes + 4)
    return shrunk


def _shade_classes(share: Floats) -> list[list[str]]:
    """(K, K) classes: `over-1` to `over-4` above one half, `under-1` to `under-4` below it."""
    step = np.searchsorted(SHADE_STEPS, np.abs(np.nan_to_num(share, nan=0.5) - 0.5), side="right")
    steps = range(1, len(SHADE_STEPS) + 1)
    above = np.array(["", *(f"over-{n}" for n in steps)], object)
    below = np.array(["", *(f"under-{n}" for n in steps)], object)
    shades: list[list[str]] = np.where(share > 0.5, above[step], below[step]).tolist()
    return shades
