"""1,000 bootstrap replicates of votes taken as independent."""

from collections.abc import Callable

import choix
import jax
import numpy as np
import pandas as pd
from arena_rank.models.bradley_terry import BradleyTerry as ArenaRank
from arena_rank.models.bradley_terry import fit_single_bootstrap_sample
from arena_rank.utils.data_utils import PairDataset
from numpy.typing import NDArray

from benchmarks.statistics.contest import Call, Contest, Contestant, Rival
from benchmarks.statistics.votes import N_CANDIDATES, votes
from ranking.stats.battles import Battles
from ranking.stats.bootstrap import Bootstrap

REPLICATES = 1000
CHOIX_REPLICATES = 200


def folded() -> Battles:
    v = votes()
    return Battles.from_arrays(v.left, v.right, v.score)


def ours(n_threads: int) -> Callable[[], Call]:
    def make() -> Call:
        battles = folded()
        return lambda: Bootstrap(REPLICATES, n_threads=n_threads).fit(battles)

    return make


def with_choix() -> Call:
    """choix on win matrices from resampled counts of (pair, outcome)."""
    battles = folded()
    draw = np.random.default_rng(0)

    def replicates() -> list[NDArray[np.float64]]:
        return [
            choix.ilsr_pairwise_dense(_resampled(battles, draw)) for _ in range(CHOIX_REPLICATES)
        ]

    return replicates


def _resampled(battles: Battles, draw: np.random.Generator) -> NDArray[np.float64]:
    count = draw.multinomial(battles.n_votes, battles.count / battles.n_votes)
    cell = battles.first * N_CANDIDATES + battles.second
    size = N_CANDIDATES**2
    won = np.bincount(cell, count * battles.score, size).reshape(N_CANDIDATES, -1)
    lost = np.bincount(cell, count * (1 - battles.score), size).reshape(N_CANDIDATES, -1)
    return won + lost.T


def arena_rank() -> Call:
    """arena-rank's function for one replicate, in series: its pool of forked processes hangs on
    Linux. Drawing the counts is not timed."""
    left, right, winner = votes().names()
    frame = pd.DataFrame({"model_a": left, "model_b": right, "winner": winner})
    dataset = PairDataset.from_pandas(frame)
    model = ArenaRank(N_CANDIDATES)
    total = dataset.counts.sum()
    counts = jax.random.multinomial(
        jax.random.PRNGKey(0), int(total), dataset.counts / total, dtype=model.dtype
    )
    return lambda: fit_single_bootstrap_sample(counts, model, dataset)


CONTESTS = [
    Contest(
        "1,000 bootstrap replicates",
        Contestant("Bootstrap.fit", ours(1), REPLICATES),
        (
            Rival(
                "choix: a loop of ilsr_pairwise_dense",
                with_choix,
                CHOIX_REPLICATES,
                faster=5,
            ),
            Rival("arena-rank: fit_single_bootstrap_sample, in series", arena_rank, 1, faster=500),
        ),
    ),
    Contest(
        "1,000 bootstrap replicates on two threads",
        Contestant("Bootstrap(n_threads=2).fit", ours(2), REPLICATES),
        (Rival("one thread", ours(1), REPLICATES, faster=1.5),),
        rounds=7,
    ),
]
