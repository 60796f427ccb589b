"""Style control: 4 features shared by all candidates."""

import pandas as pd
from arena_rank.models.contextual_bradley_terry import ContextualBradleyTerry
from arena_rank.utils.data_utils import ContextualPairDataset

from benchmarks.statistics.contest import Call, Contest, Contestant, Rival
from benchmarks.statistics.votes import N_CANDIDATES, N_FEATURES, features, votes
from ranking.stats.style import StyledBradleyTerry


def ours() -> Call:
    v = votes()
    style = features(v)
    return lambda: StyledBradleyTerry().fit(v.left, v.right, v.score, style)


def arena_rank() -> Call:
    """arena-rank, with its dataset built untimed; its sandwich is timed, as ours is."""
    left, right, winner = votes().names()
    frame = pd.DataFrame({"model_a": left, "model_b": right, "winner": winner})
    names = [f"feature_{number}" for number in range(N_FEATURES)]
    frame[names] = features(votes())
    dataset = ContextualPairDataset.from_pandas(frame, names, reweighted=False)
    return lambda: ContextualBradleyTerry(N_CANDIDATES, N_FEATURES).compute_ratings_and_cis(dataset)


CONTESTS = [
    Contest(
        "Style control with 4 features",
        Contestant("StyledBradleyTerry.fit, the sandwich included", ours),
        (
            Rival(
                "arena-rank: ContextualBradleyTerry.compute_ratings_and_cis", arena_rank, faster=20
            ),
        ),
        rounds=3,
    )
]
