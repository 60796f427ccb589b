"""One fit from the same input for everybody: columns or lists of names."""

import evalica
import numpy as np
import pandas as pd
from arena_rank.models.bradley_terry import BradleyTerry as ArenaRank
from arena_rank.utils.data_utils import PairDataset

from benchmarks.statistics.contest import Call, Contest, Contestant, Rival
from benchmarks.statistics.contests.a_fit import winners
from benchmarks.statistics.votes import N_CANDIDATES, votes
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry

SCORES = {"model_a": 1.0, "tie": 0.5, "model_b": 0.0}


def frame() -> pd.DataFrame:
    left, right, winner = votes().names()
    return pd.DataFrame({"model_a": left, "model_b": right, "winner": winner})


def our_columns() -> Call:
    data = frame()

    def fit() -> BradleyTerry:
        code, outcomes = data["winner"].factorize()
        score = np.array([SCORES[outcome] for outcome in outcomes])[code]
        return BradleyTerry().fit(Battles.from_names(data["model_a"], data["model_b"], score)[0])

    return fit


def our_lists() -> Call:
    left, right, winner = votes().names()

    def fit() -> BradleyTerry:
        score = np.fromiter(map(SCORES.__getitem__, winner), np.float64, len(winner))
        return BradleyTerry().fit(Battles.from_names(left, right, score)[0])

    return fit


def arena_rank() -> Call:
    data = frame()
    return lambda: ArenaRank(N_CANDIDATES).fit(PairDataset.from_pandas(data))


def evalica_columns() -> Call:
    """evalica takes outcomes only as its own objects, so they are converted, untimed."""
    data, winner = frame(), pd.Series(winners(votes()))
    return lambda: evalica.bradley_terry(data["model_a"], data["model_b"], winner)


def evalica_lists() -> Call:
    left, right, _ = votes().names()
    winner = winners(votes())
    return lambda: evalica.bradley_terry(left, right, winner)


CONTESTS = [
    Contest(
        "One fit from pandas columns of names",
        Contestant("Battles.from_names, BradleyTerry.fit", our_columns),
        (
            Rival("arena-rank: PairDataset.from_pandas, BradleyTerry.fit", arena_rank, faster=10),
            Rival("evalica: bradley_terry, with its own outcomes", evalica_columns, faster=10),
            Rival("our own fit from lists of names", our_lists, faster=1 / 1.5),
        ),
    ),
    Contest(
        "One fit from lists of names",
        Contestant("Battles.from_names, BradleyTerry.fit", our_lists),
        (Rival("evalica: bradley_terry, with its own outcomes", evalica_lists, faster=2),),
    ),
]
