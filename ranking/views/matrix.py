"""The win matrix: how often each candidate is preferred to each other one."""

from dataclasses import dataclass
from math import isnan
from typing import Any
from urllib.parse import urlencode

import numpy as np
from django.urls import reverse

from arena.validation import shorten_apart
from ranking.board_data import choice_links
from ranking.comparison import PublishedBoard, PublishedPairs, read_pairs
from ranking.models import Standing
from ranking.stats.bradley_terry import WinMatrix, predicted_shares
from ranking.templatetags.ranking_tags import percent
from ranking.votes import Floats, Ints

MOST_ROWS = 100  # and columns; nobody can read a larger table
FIRST_ROWS = 30  # of the table at first
SHOWS = {"observed": "Actual", "predicted": "Predicted"}
NAME_LENGTH = 22  # characters of a name that fit a column heading
SHADE_STEPS = (0.05, 0.12, 0.2, 0.3)  # how far from one half each shade begins


def clean_show(show: str) -> str:
    return show if show in SHOWS else "observed"


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """A row's win rate against a column; `says` replaces a missing one."""

    share: str
    votes: int
    shade: str
    url: str
    says: str


@dataclass(frozen=True)
class MatrixRow:
    standing: Standing
    name: str
    short: str
    cells: list[MatrixCell]


@dataclass(frozen=True, eq=False)
class MatrixTable:
    """(K, K) each: the win rates, the votes that they count, all votes, and the CSS classes."""

    share: Floats
    votes: Ints
    all_votes: Ints
    shade: list[list[str]]
    no_share: str


def _parameter(show: str) -> str:
    return "" if show == "observed" else show


def matrix_context(board: PublishedBoard, show: str, show_all: bool = False) -> dict[str, Any]:
    """The context of `ranking/_matrix.html`; `show` is one of SHOWS."""
    pairs = read_pairs(board)
    rows = "all" if show_all else ""

    def address(show: str, rows: str) -> str:
        return board.address("compare", show=_parameter(show), rows=rows)

    n_shown = MOST_ROWS if show_all else FIRST_ROWS
    return {
        "show": show,
        "lines": _matrix_rows(board, pairs, show, n_shown) if pairs else [],
        "n_candidates": len(board.standings),
        "all_rows_url": "" if show_all else address(show, "all"),
        "show_links": choice_links(SHOWS.items(), show, lambda value: address(value, rows)),
        "raters_links": board.raters_links("compare", show=_parameter(show)),
        "category_links": board.category_links("compare", show=_parameter(show)),
    }


def _matrix_rows(
    board: PublishedBoard, pairs: PublishedPairs, show: str, n_shown: int
) -> list[MatrixRow]:
    """The first `n_shown` candidates in rank order, each against all of them."""
    table = _matrix_table(pairs, show)
    standings = board.standings[:n_shown]
    ids = [standing.candidate_id for standing in standings]
    places = np.searchsorted(pairs.candidates, ids).tolist()
    opponents = list(zip(places, ids, strict=True))
    names = [str(standing.candidate) for standing in standings]
    short = shorten_apart(names, NAME_LENGTH)
    rows = []
    for i, standing, name, label in zip(places, standings, names, short, strict=True):
        cells = _matrix_cells(comparisons_url(board, standing.candidate_id), i, opponents, table)
        rows.append(MatrixRow(standing, name, label, cells))
    return rows


def _matrix_table(pairs: PublishedPairs, show: str) -> MatrixTable:
    observed = pairs.observed
    is_predicted = show == "predicted"
    share = predicted_shares(pairs.theta) if is_predicted else observed.share
    all_votes = np.zeros((len(pairs.candidates),) * 2, np.int64)
    first = np.searchsorted(pairs.candidates, pairs.counts.first)
    second = np.searchsorted(pairs.candidates, pairs.counts.second)
    all_votes[first, second] = pairs.counts.votes
    return MatrixTable(
        share=share,
        votes=observed.votes,
        all_votes=all_votes + all_votes.T,
        shade=_shade_classes(share if is_predicted else _shrunk_shares(observed)),
        no_share="not comparable" if is_predicted else "no votes",
    )


def _matrix_cells(
    address: str, i: int, opponents: list[tuple[int, int]], table: MatrixTable
) -> list[MatrixCell]:
    """The cells of a row; each links to its votes, if there are any."""
    share, votes = table.share[i].tolist(), table.votes[i].tolist()
    all_votes = table.all_votes[i].tolist()

    def without_share(j: int) -> str:
        if j == i:
            return "itself"
        return "both bad" if all_votes[j] and not votes[j] else table.no_share

    return [
        MatrixCell(
            share="" if isnan(share[j]) else percent(share[j]),
            votes=votes[j],
            shade=table.shade[i][j],
            url=f"{address}&opponent={pk}#comparisons" if all_votes[j] else "",
            says=without_share(j),
        )
        for j, pk in opponents
    ]


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


def comparisons_url(board: PublishedBoard, candidate: int) -> str:
    """The URL that lists a candidate's votes on this board; an opponent may be appended."""
    parameters = {"raters": board.voters, "category": board.query.category}
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{reverse('candidate', args=[board.arena.slug, candidate])}?{query}"
