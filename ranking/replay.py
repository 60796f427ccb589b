"""A leaderboard as it was at earlier checks."""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from ranking.comparison import DifferenceBoard, PublishedPairs
from ranking.intervals import group_settings, groups_met
from ranking.models import Counted, Snapshot, Standing
from ranking.question import Evidence
from ranking.services.votes import question_of, read
from ranking.stats.bradley_terry import NotConvergedError
from ranking.stats.intervals import Sandwich

CHECKS = 20


def replay(board: DifferenceBoard, candidate: int, baseline: int) -> Iterator[DifferenceBoard]:
    """Yield the board as it was after each of at most CHECKS parts of the votes between the two.

    The last one is `board` itself. A combined board yields only that one, because it is not stored
    which judges were trusted when.
    """
    if board.raters != Counted.COMBINED:
        yield from _earlier_boards(board.snapshot, candidate, baseline)
    yield board


def _earlier_boards(snapshot: Snapshot, candidate: int, baseline: int) -> Iterator[DifferenceBoard]:
    board = snapshot.board
    evidence = Evidence.of(read(board.arena), question_of(board, board.arena))
    ids = evidence.votes.pk
    pair = [candidate, baseline]
    direct = np.isin(evidence.votes.left, pair) & np.isin(evidence.votes.right, pair)
    between = ids[direct & (ids <= snapshot.last_vote_id)]
    step = max(1, -(-len(between) // CHECKS))
    for end in between[step - 1 :: step][: CHECKS - 1].tolist():
        with suppress(NotConvergedError):
            yield fit_board(snapshot, evidence.up_to(ids <= end))


def fit_board(snapshot: Snapshot, evidence: Evidence) -> DifferenceBoard:
    """A board of these votes, not saved. Raises NotConvergedError."""
    candidates, is_tie = evidence.candidates, evidence.question.both_bad_is_tie
    sandwich = Sandwich(evidence.question.confidence, jackknifed=True)
    sandwich.fit(*evidence.groups.groupings)
    model, settings, counts = sandwich.model_, snapshot.settings, evidence.pairs
    earlier = Snapshot(
        board=snapshot.board,
        n_votes=evidence.n_votes,
        settings=settings
        | group_settings(evidence, sandwich.n_clusters_, groups_met(evidence))
        | {"prompts_met": []},
    )
    votes = evidence.grouped(None, weighted=False).votes_per_candidate()
    standings = {
        pk: Standing(
            candidate_id=pk,
            score=None if np.isnan(model.theta_[i]) else float(model.ratings_[i]),
            reason=model.status_[i].reason,
            votes=int(votes[i]),
        )
        for i, pk in enumerate(candidates.tolist())
    }
    pairs = PublishedPairs(
        candidates=candidates,
        theta=model.theta_,
        covariance=sandwich.covariance_,
        counts=counts,
        both_bad_is_tie=is_tie,
        scale=settings["scale"],
        weight=evidence.mean_weight,
    )
    return DifferenceBoard(earlier, standings, pairs)
