"""One fit from columns of strings: left, right and winner."""

import numpy as np
import pandas as pd
from arena_rank.models.bradley_terry import BradleyTerry as ArenaRank
from arena_rank.utils.data_utils import PairDataset

from benchmarks.statistics.contest import Call, Contest, Contestant, Rival
from benchmarks.statistics.votes import N_CANDIDATES, votes
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry

SCORES = {"model_a": 1.0, "tie": 0.5, "model_b": 0.0}


def ours() -> Call:
    left, right, winner = votes().names()

    def fit() -> BradleyTerry:
        score = np.fromiter(map(SCORES.__getitem__, winner), np.float64, len(winner))
        return BradleyTerry().fit(Battles.from_names(left, right, score)[0])

    return fit


def arena_rank() -> Call:
    left, right, winner = votes().names()
    frame = pd.DataFrame({"model_a": left, "model_b": right, "winner": winner})
    return lambda: ArenaRank(N_CANDIDATES).fit(PairDataset.from_pandas(frame))


CONTESTS = [
    Contest(
        "One fit from columns of strings",
        Contestant("Battles.from_names, BradleyTerry.fit", ours),
        (Rival("arena-rank: PairDataset.from_pandas, BradleyTerry.fit", arena_rank, faster=10),),
    )
]
