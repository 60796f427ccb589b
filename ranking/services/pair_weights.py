"""Which pairs the raters should see next: those that tell most about who is not settled yet."""

from dataclasses import dataclass

import numpy as np

from arena.models import Arena
from arena.services import pairing
from ranking.matrices import covariance_among
from ranking.models import Board, Raters, SnapshotMatrices
from ranking.services.evidence import Evidence, gather
from ranking.stats import BradleyTerry, pair_weights
from ranking.tallies import pair_battles
from ranking.votes import Floats, Ints

NOTICEABLE = 0.1  # a weight that moves by less than this part of itself is left alone
Pair = tuple[int, int]


def publish(*, arena: Arena) -> None:
    """Hand the arena the weights that have changed noticeably; their mean is 1.

    People's board decides: its votes are what raters add to. See `ranking.stats.pair_weights`.
    """
    pairs = arena.pairs.filter(shared_prompts__gt=0).values_list("low", "high", "weight")
    known = {(low, high): weight for low, high, weight in pairs}
    board = Board.objects.filter(arena=arena, raters=Raters.PEOPLE, category="").first()
    if board is None or not known:
        return
    wanted = _wanted(board, known)
    mean = sum(wanted.values()) / len(wanted)
    changed = {
        pair: weight / mean
        for pair, weight in wanted.items()
        if abs(known[pair] - weight / mean) > NOTICEABLE * weight / mean
    }
    if changed:
        pairing.publish_pair_weights(arena=arena, weights=changed)


def _wanted(board: Board, known: dict[Pair, float]) -> dict[Pair, float]:
    """The weight of each pair that can be shown, on any scale."""
    estimate = _estimate(gather(board), known)
    weights = pair_weights(
        estimate.theta,
        _covariance(board, estimate.candidates),
        estimate.counts,
        board.target_error,
        wins=estimate.wins,
    )
    place = {pk: i for i, pk in enumerate(estimate.candidates.tolist())}
    return {(low, high): float(weights[place[low], place[high]]) for low, high in known}


@dataclass(frozen=True, eq=False)
class _Estimate:
    """Of K candidates: strengths (K,), votes and points per pair (K, K)."""

    candidates: Ints
    theta: Floats
    counts: Floats
    wins: Floats


def _estimate(evidence: Evidence, known: dict[Pair, float]) -> _Estimate:
    shown = [pk for pair in known for pk in pair]
    candidates = np.unique(np.concatenate([evidence.candidates, np.array(shown, np.int64)]))
    battles = pair_battles(evidence.cells, candidates, evidence.both_bad_is_tie)
    counts = np.zeros((len(candidates),) * 2)
    np.add.at(counts, (battles.first, battles.second), battles.count)
    model = BradleyTerry().fit(battles)
    return _Estimate(candidates, model.theta_, counts + counts.T, battles.wins())


def _covariance(board: Board, candidates: Ints) -> Floats:
    """(K, K) of theta, as the newest intervals have it; NaN for whom they do not know."""
    kept = SnapshotMatrices.objects.filter(snapshot__board=board, snapshot__is_current=True).first()
    if kept is None:
        return np.full((len(candidates),) * 2, np.nan)
    return covariance_among(kept, candidates) / BradleyTerry().elo_per_theta ** 2
