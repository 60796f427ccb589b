"""The input of fits: the tallies of an arena, and the candidates of a board."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from arena.models import Arena, Candidate
from ranking.models import Board, BothBad, Counted, Raters, Tallied, Tally
from ranking.services import vote_log
from ranking.stats.battles import Battles
from ranking.tallies import NOBODY, CappedRaters, VoteCounts, pair_battles
from ranking.tallied_votes import HUMAN, Bools, Ints, left_out, networks_of

Question = tuple[str, str]  # raters, category

CONFIDENCE = 0.95
NARROWING = (Tallied.TRUSTED_JURIES.value, Tallied.TRUSTED_JUDGES.value)
# Part of the digest. Raise it when the same votes give other numbers, with a migration that marks
# all leaderboards as stale: without it they would stay as they are until the next vote.
FIT_VERSION = 14


@dataclass(frozen=True, eq=False)
class BoardEvidence:
    """The vote counts per pair of a board, and the (K,) ids of its candidates, ascending.

    `narrowing` names the tallies that narrow human intervals on a combined board: of trusted
    juries, else of trusted judges; "" if nobody is trusted, and on all other boards. `log_head`:
    the head of the log of the votes in the counts. `rater_share`: of human votes, the share that
    one rater may weigh, `network_share`: the anonymous raters of one network; `capped`: the raters
    affected. `keeps_named`: votes count on answers that are known to reveal their author.
    `archived`: the ids of candidates that have votes but are archived. `names`: those that the
    public may see, by id; their order decides which side of a pair comes first, so that alpha is
    the same for a ranked file.
    """

    board: Board
    counts: VoteCounts
    candidates: Ints
    versions: tuple[int, ...]
    n_raters: int
    n_prompts: int
    last_vote_id: int
    narrowing: str = ""
    log_head: Mapping[str, Any] | None = None
    rater_share: float = 1.0
    network_share: float = 1.0
    networks: Callable[[], Mapping[int, str]] = dict
    left_out: Callable[[], Mapping[str, int]] = dict
    keeps_named: bool = False
    capped: CappedRaters = NOBODY
    archived: Sequence[int] = ()
    names: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def battles(self) -> Battles:
        """The votes without clusters, weighted, for scores."""
        return pair_battles(self.counts, self.candidates, self.both_bad_is_tie, self.capped)

    def capping(self, by_rater: VoteCounts) -> "BoardEvidence":
        """The same with a cap on the weight of each rater, and of each anonymous network.

        `by_rater`: the votes per rater.
        """
        capped = CappedRaters.of(
            by_rater, self.rater_share, self.both_bad_is_tie, self.networks(), self.network_share
        )
        return replace(self, capped=capped)

    @property
    def active(self) -> Bools:
        """(K,) which candidates are not archived."""
        return ~np.isin(self.candidates, self.archived)

    @cached_property
    def alphabetical(self) -> Ints:
        """(K,) each candidate's place in the order of names."""
        ids = self.candidates.tolist()
        order = sorted(range(len(ids)), key=lambda i: (self.names.get(ids[i], ""), i))
        return np.argsort(order)

    @property
    def both_bad_is_tie(self) -> bool:
        return self.board.both_bad == BothBad.TIE

    @property
    def n_votes(self) -> int:
        """The number of votes in the scores."""
        return int(self.scored(self.counts).sum())

    def scored(self, counts: VoteCounts) -> Ints:
        """(M,): the votes of each row that count for the scores of this board."""
        return counts.votes if self.both_bad_is_tie else counts.decided

    @property
    def mean_weight(self) -> float:
        """Of a vote in the scores: below 1 if raters or networks are capped."""
        return float(self.battles.pairs.weight.sum()) / max(self.n_votes, 1) or 1.0

    def digest(self) -> str:
        """A digest of everything that the fit depends on: equal digests mean equal numbers."""
        board = self.board
        settings = (FIT_VERSION, board.both_bad, board.n_resamples, board.seed, self.versions)
        digest = hashlib.sha256(repr((*settings, self.rater_share, self.network_share)).encode())
        for column in (self.candidates, self.active, self.alphabetical):
            digest.update(column.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class ArenaTallies:
    """The tallies of an arena by question, the ids of its active candidates, the names of all, its
    log's head, and the shares of human votes that one rater and one network may weigh."""

    tallies: Mapping[Question, Tally]
    active: Sequence[int]
    names: Mapping[int, str]
    log_head: Mapping[str, Any] | None
    rater_share: float
    network_share: float
    keeps_named: bool
    arena_id: int

    @cached_property
    def networks(self) -> dict[int, str]:
        """The networks of anonymous raters; read once for all boards, and only if one needs it."""
        return networks_of(self.arena_id)

    @cached_property
    def left_out(self) -> dict[Question, dict[str, int]]:
        """How many votes of each question do not count, by reason."""
        return left_out(self.arena_id)

    def questions(self) -> set[Question]:
        """Each (raters, category) with votes, whether or not the raters are trusted; of verified
        people only if others voted too.
        """
        return {
            (raters, category)
            for (raters, category), tally in self.tallies.items()
            if tally.n_raters
            and (raters in Raters.values or self._is_part_of_people(raters, category))
        }

    def _is_part_of_people(self, raters: str, category: str) -> bool:
        if raters != Tallied.VERIFIED:
            return False
        people = self.tallies[Tallied.PEOPLE.value, category]
        return bytes(people.cells) != bytes(self.tallies[raters, category].cells)

    def evidence(self, board: Board) -> BoardEvidence:
        """The input of the board's fit.

        A combined board's scores are fitted to human votes; its versions also include that of the
        trusted raters' tally.
        """
        is_combined = board.raters == Counted.COMBINED
        scored = Raters.PEOPLE.value if is_combined else board.raters
        tally = self.tallies.get((scored, board.category))
        # A jury is never counted together with its members.
        narrowing = self._narrowing(board.category) if is_combined else None
        counts = VoteCounts.of_bytes(tally.cells) if tally else VoteCounts.none()
        ids = [*self.active, *counts.key("first").tolist(), *counts.key("second").tolist()]
        candidates = np.unique(np.array(ids, np.int64))
        return BoardEvidence(
            board=board,
            counts=counts,
            candidates=candidates,
            versions=tuple(row.version for row in (tally, narrowing) if row),
            n_raters=tally.n_raters if tally else 0,
            n_prompts=tally.n_prompts if tally else 0,
            last_vote_id=tally.last_vote_id if tally else 0,
            narrowing=narrowing.raters if narrowing else "",
            log_head=self.log_head,
            rater_share=self.rater_share if scored in HUMAN else 1.0,
            network_share=self.network_share if scored in HUMAN else 1.0,
            keeps_named=self.keeps_named and scored in HUMAN,
            networks=lambda: self.networks,
            archived=np.setdiff1d(candidates, self.active).tolist(),
            names=self.names,
            left_out=lambda: self.left_out.get((scored, board.category), {}),
        )

    def _narrowing(self, category: str) -> Tally | None:
        tallies = (self.tallies.get((raters, category)) for raters in NARROWING)
        return next((tally for tally in tallies if tally and tally.n_raters), None)


def load_tallies(arena: Arena) -> ArenaTallies:
    """Read all tallies of an arena: three queries, however many votes and boards there are."""
    rows = Tally.objects.filter(arena=arena)
    named = Candidate.objects.revealed().filter(arena=arena)
    candidates = list(named.only("name", "version", "disclosed_at", "retired_at"))
    return ArenaTallies(
        {(tally.raters, tally.category): tally for tally in rows},
        [candidate.pk for candidate in candidates if candidate.retired_at is None],
        {candidate.pk: str(candidate) for candidate in candidates},
        vote_log.head(arena.pk),
        arena.rater_cap / 100,
        arena.network_share / 100,
        arena.self_identifying == Arena.SelfIdentifying.KEEP,
        arena.pk,
    )
