"""What a fit stands on: the tallies of one board, and who is on it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from arena.models import Candidate
from ranking.models import Board, BothBad, Counted, Raters, Tallied, Tally
from ranking.tallies import Cells
from ranking.votes import Ints

CONFIDENCE = 0.95
NARROWING = (Tallied.TRUSTED_JURIES.value, Tallied.TRUSTED_JUDGES.value)
FIT_VERSION = 5  # part of the digest: raise it where the same votes give other numbers


@dataclass(frozen=True, eq=False)
class Evidence:
    """The votes of a board, added up per pair, and the (K,) ids of the candidates on it.

    `narrowing` names the tallies of those who narrow people's intervals on a combined board:
    trusted juries, else trusted judges; "" where nobody is trusted, and on any other board.
    """

    board: Board
    cells: Cells
    candidates: Ints
    versions: tuple[int, ...]
    n_raters: int
    n_prompts: int
    last_vote_id: int
    narrowing: str = ""

    @property
    def both_bad_is_tie(self) -> bool:
        return self.board.both_bad == BothBad.TIE

    @property
    def n_votes(self) -> int:
        """The votes that the scores stand on."""
        cells = self.cells
        return int((cells.votes if self.both_bad_is_tie else cells.decided).sum())

    def digest(self) -> str:
        """A fingerprint of all that the fit depends on: equal digests give equal numbers."""
        board = self.board
        settings = (FIT_VERSION, board.both_bad, board.n_resamples, board.seed, self.versions)
        found = hashlib.sha256(repr(settings).encode())
        found.update(self.candidates.tobytes())
        return found.hexdigest()


def questions_with_votes(arena_id: int) -> set[tuple[str, str]]:
    """Each (raters, category) that anybody has voted in, whether or not they are trusted."""
    asked = Tally.objects.filter(arena=arena_id, raters__in=Raters.values, n_raters__gt=0)
    return set(asked.values_list("raters", "category"))


def gather(board: Board) -> Evidence:
    """Read the board's tally: two queries, however many votes there are.

    The combined board stands on people's votes; that those of the trusted have changed is part of
    its version.
    """
    asked = Tally.objects.filter(arena=board.arena_id, category=board.category)
    tallies = {tally.raters: tally for tally in asked.filter(raters__in=_raters_of(board))}
    tally = tallies.get(_raters_of(board)[0])
    narrowing = _narrowing(board, tallies)
    used = [tally, tallies.get(narrowing)]
    cells = Cells.of_bytes(tally.cells) if tally else Cells.none()
    active = Candidate.objects.active().filter(arena=board.arena_id).values_list("pk", flat=True)
    ids = [*active, *cells.key("first").tolist(), *cells.key("second").tolist()]
    return Evidence(
        board=board,
        cells=cells,
        candidates=np.unique(np.array(ids, np.int64)),
        versions=tuple(one.version for one in used if one),
        n_raters=tally.n_raters if tally else 0,
        n_prompts=tally.n_prompts if tally else 0,
        last_vote_id=tally.last_vote_id if tally else 0,
        narrowing=narrowing,
    )


def _raters_of(board: Board) -> list[str]:
    """Whose tallies the board reads, first those that its scores stand on."""
    if board.raters == Counted.COMBINED:
        return [Raters.PEOPLE.value, *NARROWING]
    return [board.raters]


def _narrowing(board: Board, tallies: Mapping[str, Tally]) -> str:
    """The first of NARROWING that have voted: a jury is never counted beside its members."""
    if board.raters != Counted.COMBINED:
        return ""
    return next((name for name in NARROWING if name in tallies and tallies[name].n_raters), "")
