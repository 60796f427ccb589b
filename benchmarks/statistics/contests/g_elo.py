"""Online Elo, vote after vote."""

import evalica
import pandas as pd

from benchmarks.statistics.contest import Call, Contest, Contestant, Rival
from benchmarks.statistics.contests.a_fit import winners
from benchmarks.statistics.votes import votes
from ranking.stats.elo import Elo

N_VOTES = 10_000_000


def ours() -> Call:
    v = votes(N_VOTES)
    return lambda: Elo().fit(v.left, v.right, v.score)


def evalica_columns() -> Call:
    """evalica on DataFrame columns with candidates by name: the data as it is published."""
    v = votes(N_VOTES)
    left, right, _ = v.names()
    frame = pd.DataFrame({"left": left, "right": right, "winner": winners(v)})
    return lambda: evalica.elo(frame["left"], frame["right"], frame["winner"])


def evalica_lists() -> Call:
    """evalica on lists of integers, the input that it reads fastest."""
    v = votes(N_VOTES)
    left, right, winner = v.left.tolist(), v.right.tolist(), winners(v)
    return lambda: evalica.elo(left, right, winner)


CONTESTS = [
    Contest(
        f"Online Elo over {N_VOTES:,} votes",
        Contestant("Elo.fit", ours),
        (
            Rival("evalica: elo on columns of names", evalica_columns, faster=10),
            Rival("evalica: elo on lists of integers", evalica_lists, faster=2),
        ),
        rounds=3,
    )
]
