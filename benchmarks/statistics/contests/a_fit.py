"""One fit from each package's fastest input, including the checks and the pass over the votes.

Ours reads integer arrays; evalica has no faster input than lists of integers, and arena-rank none
faster than its own dataset, which is built untimed.
"""

import evalica
import pandas as pd
from arena_rank.models.bradley_terry import BradleyTerry as ArenaRank
from arena_rank.utils.data_utils import PairDataset

from benchmarks.statistics.contest import Call, Contest, Contestant, Rival
from benchmarks.statistics.votes import N_CANDIDATES, Votes, votes
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry


def ours() -> Call:
    v = votes()
    return lambda: BradleyTerry().fit(Battles.from_arrays(v.left, v.right, v.score))


def arena_rank() -> Call:
    """arena-rank, with its dataset built untimed; each call fits a new model from zero."""
    left, right, winner = votes().names()
    frame = pd.DataFrame({"model_a": left, "model_b": right, "winner": winner})
    dataset = PairDataset.from_pandas(frame)
    return lambda: ArenaRank(N_CANDIDATES).fit(dataset)


def evalica_lists() -> Call:
    """evalica on lists of integers, the input that it reads fastest."""
    v = votes()
    left, right, winner = v.left.tolist(), v.right.tolist(), winners(v)
    return lambda: evalica.bradley_terry(left, right, winner)


def winners(v: Votes) -> list[evalica.Winner]:
    """The outcomes as evalica spells them."""
    spelt = [evalica.Winner.Y, evalica.Winner.Draw, evalica.Winner.X]
    return [spelt[code] for code in (2 * v.score).astype(int).tolist()]


CONTESTS = [
    Contest(
        "One fit from each one's fastest input",
        Contestant("Battles.from_arrays on integer arrays, BradleyTerry.fit", ours),
        (
            Rival("arena-rank: BradleyTerry.fit on a ready PairDataset", arena_rank, faster=60),
            Rival("evalica: bradley_terry on lists of integers", evalica_lists, faster=20),
        ),
    )
]
