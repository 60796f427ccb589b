"""Online Elo, vote after vote: from each one's fastest input, and from the same columns of names.

Outcomes are converted to each package's own spelling, untimed.
"""

import evalica
import numpy as np
import pandas as pd

from benchmarks.statistics.contest import Call, Contest, Contestant, Rival
from benchmarks.statistics.contests.a_fit import winners
from benchmarks.statistics.votes import votes
from ranking.stats.arrays import name_codes
from ranking.stats.elo import Elo

N_VOTES = 10_000_000


def ours() -> Call:
    v = votes(N_VOTES)
    return lambda: Elo().fit(v.left, v.right, v.score)


def frame() -> pd.DataFrame:
    left, right, _ = votes(N_VOTES).names()
    return pd.DataFrame({"left": left, "right": right})


def our_columns() -> Call:
    data, score = frame(), votes(N_VOTES).score

    def fit() -> Elo:
        sides = [name_codes(side, data[side]) for side in ("left", "right")]
        names = sorted({name for _, distinct in sides for name in distinct})
        places = [np.searchsorted(names, distinct)[codes] for codes, distinct in sides]
        return Elo().fit(*places, score)

    return fit


def evalica_columns() -> Call:
    data, winner = frame(), pd.Series(winners(votes(N_VOTES)))
    return lambda: evalica.elo(data["left"], data["right"], winner)


def evalica_lists() -> Call:
    """evalica on lists of integers, the input that it reads fastest."""
    v = votes(N_VOTES)
    left, right, winner = v.left.tolist(), v.right.tolist(), winners(v)
    return lambda: evalica.elo(left, right, winner)


CONTESTS = [
    Contest(
        f"Online Elo over {N_VOTES:,} votes from each one's fastest input",
        Contestant("Elo.fit on integer arrays", ours),
        (Rival("evalica: elo on lists of integers", evalica_lists, faster=2),),
        rounds=3,
    ),
    Contest(
        f"Online Elo over {N_VOTES:,} votes from pandas columns of names",
        Contestant("names to integers, Elo.fit", our_columns),
        (Rival("evalica: elo, with its own outcomes", evalica_columns, faster=2),),
        rounds=3,
    ),
]
