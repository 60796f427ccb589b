"""A leaderboard as it stood at earlier checks, recomputed from its votes in the order they came."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat

import numpy as np

from arena.models import Vote
from arena.models.voting import VoteQuerySet
from ranking.comparison import DifferenceBoard, PublishedPairs
from ranking.models import Counted, Snapshot, Standing
from ranking.services.cluster_tallies import count_in_parts
from ranking.services.evidence import CONFIDENCE, BoardEvidence, load_tallies
from ranking.services.intervals import cluster_settings
from ranking.stats.bradley_terry import NotConvergedError
from ranking.stats.sandwich import Sandwich
from ranking.tallies import VoteCounts, dependence
from ranking.votes import HUMAN, Bools, cast_by

CHECKS = 20


def replay(board: DifferenceBoard, candidate: int, baseline: int) -> Iterator[DifferenceBoard]:
    """Yield the board as it was after each of at most CHECKS parts of the votes between the two.

    The last one is `board` itself. A combined board yields only that one, because it is not stored
    which judges were trusted when. Memory holds one count per prompt and pair, and per rater and
    pair, however many votes there are.
    """
    if board.raters != Counted.COMBINED:
        yield from _earlier(board.snapshot, candidate, baseline)
    yield board


def _earlier(snapshot: Snapshot, candidate: int, baseline: int) -> Iterator[DifferenceBoard]:
    votes = _votes_of(snapshot)
    evidence = load_tallies(snapshot.board.arena).evidence(snapshot.board)
    ends, is_human = _ends(votes, candidate, baseline), snapshot.board.raters in HUMAN
    by_prompt, by_rater = VoteCounts.none(), VoteCounts.none()
    of_raters = count_in_parts(votes, ends, by_rater=True) if is_human else repeat(by_rater)
    for part, of_part in zip(count_in_parts(votes, ends), of_raters, strict=False):
        by_prompt = VoteCounts.joined([by_prompt, part]).merged()
        so_far = replace(evidence, counts=by_prompt.per_pair())
        if is_human:
            by_rater = VoteCounts.joined([by_rater, of_part]).merged()
            so_far = so_far.capping(by_rater)
        try:
            yield fit_board(snapshot, so_far, by_prompt, by_rater if is_human else None)
        except NotConvergedError:
            continue


def _votes_of(snapshot: Snapshot) -> VoteQuerySet:
    board = snapshot.board
    votes = Vote.objects.in_tallies().filter(cast_by(board.raters), arena=board.arena_id)
    votes = votes.filter(pk__lte=snapshot.last_vote_id)
    return votes.filter(comparison__prompt__category=board.category) if board.category else votes


def _ends(votes: VoteQuerySet, candidate: int, baseline: int) -> list[int]:
    """The ids of the votes that end each part but the last."""
    pair = [candidate, baseline]
    direct = votes.filter(comparison__left__in=pair, comparison__right__in=pair).order_by("pk")
    step = max(1, -(-direct.count() // CHECKS))
    ids = direct.values_list("pk", flat=True).iterator()
    return [pk for number, pk in enumerate(ids, 1) if number % step == 0][: CHECKS - 1]


def fit_board(
    snapshot: Snapshot, evidence: BoardEvidence, clustered: VoteCounts, by_rater: VoteCounts | None
) -> DifferenceBoard:
    """A board of these votes, not saved. Raises NotConvergedError."""
    candidates, is_tie = evidence.candidates, evidence.both_bad_is_tie
    groups = dependence(clustered, by_rater, candidates, is_tie, evidence.capped)
    sandwich = Sandwich(CONFIDENCE, jackknifed=True).fit(*groups.groupings)
    model, settings = sandwich.model_, snapshot.settings
    earlier = Snapshot(
        board=snapshot.board,
        n_votes=evidence.n_votes,
        settings=settings
        | cluster_settings(groups, sandwich.n_clusters_, candidates)
        | {"prompts_met": []},
    )
    scored = evidence.scored(evidence.counts)
    standings = {
        pk: Standing(
            candidate_id=pk,
            score=None if np.isnan(model.theta_[i]) else float(model.ratings_[i]),
            reason=model.status_[i].reason,
            votes=int(scored[_is_about(evidence.counts, pk)].sum()),
        )
        for i, pk in enumerate(candidates.tolist())
    }
    pairs = PublishedPairs(
        candidates=candidates,
        theta=model.theta_,
        covariance=sandwich.covariance_,
        counts=evidence.counts,
        both_bad_is_tie=is_tie,
        scale=settings["scale"],
        weight=evidence.mean_weight,
    )
    return DifferenceBoard(earlier, standings, pairs)


def _is_about(counts: VoteCounts, pk: int) -> Bools:
    return (counts.key("first") == pk) | (counts.key("second") == pk)
