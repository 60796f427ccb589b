"""A published board as the pages beside it read it: its snapshot, its standings, its pairs."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import Any
from urllib.parse import urlencode

import numpy as np
from django.http import Http404
from django.urls import reverse

from ranking.matrices import covariance_among
from ranking.models import BothBad, Counted, Raters, Snapshot, SnapshotMatrices, Standing
from ranking.pages.board import Link, links_to_pages
from ranking.pages.reading import Question, choose_snapshot
from ranking.stats import Battles, BradleyTerry
from ranking.tallies import Cells, pair_battles
from ranking.votes import Floats, Ints

LONG_TEXTS = ("system_prompt", "user_template", "parameters", "notes")


@dataclass(frozen=True)
class Published:
    """A board's current snapshot, None before the first; `standings` in rank order, then by name.

    `asked` names the raters whose board it is, even where the reader has not.
    """

    arena: Any
    asked: Question
    snapshot: Snapshot | None
    standings: list[Standing]
    snapshots: list[Snapshot]

    @property
    def is_combined(self) -> bool:
        return self.asked.raters == Counted.COMBINED

    @property
    def voters(self) -> str:
        """Whose votes the pairs hold: people's, where judges only narrow the intervals."""
        return Raters.PEOPLE.value if self.is_combined else self.asked.raters


def read_published(arena: Any, asked: Question, again: bool = True) -> Published:
    """Read in two queries; 404 where nobody has voted in such a category.

    A refresh may replace the snapshot before its standings are read: then it reads `again`, once.
    """
    snapshots = list(Snapshot.objects.current().of_arena(arena))
    snapshot = choose_snapshot(snapshots, asked)
    if snapshot is None:
        if asked.category:
            raise Http404("There is no such board.")
        return Published(arena, asked, None, [], snapshots)
    standings = _standings(snapshot)
    if again and not standings and not Snapshot.objects.filter(pk=snapshot.pk).exists():
        return read_published(arena, asked, again=False)
    asked = replace(asked, raters=snapshot.board.raters)
    return Published(arena, asked, snapshot, standings, snapshots)


def _standings(snapshot: Snapshot) -> list[Standing]:
    found = snapshot.standings.select_related("candidate")
    found = found.defer(*(f"candidate__{name}" for name in LONG_TEXTS))
    return sorted(found, key=_place)


def _place(standing: Standing) -> tuple[int, str, int]:
    name = str(standing.candidate).casefold()
    return standing.rank or 10**9, name, standing.candidate_id


def page_links(board: Published, page: str) -> list[Link]:
    """The board and the pages beside it, of which `page` is being read."""
    return links_to_pages(board.arena.slug, board.asked, board.snapshots, page)


def raters_links(board: Published, page: str, **kept: str) -> list[Link]:
    """People, judges and both, where they have boards here; `kept` stays in the address."""
    there = {s.board.raters for s in board.snapshots if s.board.category == board.asked.category}
    links = [
        Link(label, _address(board, page, kept, raters=raters), raters == board.asked.raters)
        for raters, label in Counted.choices
        if raters in there
    ]
    return links if len(links) > 1 else []


def category_links(board: Published, page: str, **kept: str) -> list[Link]:
    """All prompts, then each category that these raters have voted in."""
    mine = [s.board.category for s in board.snapshots if s.board.raters == board.asked.raters]
    links = [
        Link(
            name or "All prompts",
            _address(board, page, kept, category=name),
            name == board.asked.category,
        )
        for name in mine
    ]
    return links if len(links) > 1 else []


def _address(board: Published, page: str, kept: dict[str, str], **changes: str) -> str:
    return board.asked.address(board.arena.slug, page, **kept, **changes)


def comparisons_url(board: Published, candidate: int) -> str:
    """Where a candidate's comparisons on this board are listed; an opponent may be appended."""
    asked = {"raters": board.voters, "category": board.asked.category}
    query = urlencode({name: value for name, value in asked.items() if value})
    return f"{reverse('candidate', args=[board.arena.slug, candidate])}?{query}"


@dataclass(frozen=True, eq=False)
class Pairs:
    """Who met whom, and how sure the scores are, for K candidates.

    Attributes
    ----------
    candidates : (K,) ids, ascending
    theta : (K,) natural log-odds, NaN for the unranked
    covariance : (K, K) of theta; NaN where it is not known
    cells : one per pair that has met; `both_bad_is_tie` says what else counts in `battles`
    scale : Elo points that stand for odds of 10 to 1
    """

    candidates: Ints
    theta: Floats
    covariance: Floats
    cells: Cells
    both_bad_is_tie: bool
    scale: float

    @cached_property
    def battles(self) -> Battles:
        return pair_battles(self.cells, self.candidates, self.both_bad_is_tie)

    @cached_property
    def independent(self) -> Floats:
        """(K, K): covariance of theta with votes taken as independent; NaN for the unranked."""
        covariance: Floats = BradleyTerry().fit(self.battles, start=self.theta).covariance_
        return covariance

    def place(self, pk: int) -> int | None:
        """Where a candidate stands in the arrays; None where it is not on the board."""
        found = np.flatnonzero(self.candidates == pk)
        return int(found[0]) if len(found) else None


def read_pairs(board: Published) -> Pairs | None:
    """One query; None where the snapshot was published without matrices, or has been replaced."""
    if board.snapshot is None:
        return None
    matrices = SnapshotMatrices.objects.filter(snapshot=board.snapshot).first()
    return pairs_of(board.snapshot, board.standings, matrices) if matrices else None


def pairs_of(
    snapshot: Snapshot, standings: Iterable[Standing], matrices: SnapshotMatrices
) -> Pairs:
    """The same from rows that were read already."""
    settings = snapshot.settings
    per_theta = settings["scale"] / log(10)
    by_id = sorted(standings, key=lambda standing: standing.candidate_id)
    candidates = np.array([standing.candidate_id for standing in by_id], np.int64)
    scores = np.array([standing.score for standing in by_id], np.float64)  # None is NaN
    return Pairs(
        candidates=candidates,
        theta=(scores - settings["center"]) / per_theta,
        covariance=covariance_among(matrices, candidates) / per_theta**2,
        cells=Cells.of_bytes(bytes(matrices.cells)),
        both_bad_is_tie=settings["both_bad"] == BothBad.TIE,
        scale=settings["scale"],
    )
