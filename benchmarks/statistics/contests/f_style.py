"""Style control: 4 features shared by all candidates."""

import pandas as pd
from arena_rank.models.contextual_bradley_terry import ContextualBradleyTerry
from arena_rank.utils.data_utils import ContextualPairDataset

from benchmarks.statistics.contest import Call, Contest, Contestant, Rival
from benchmarks.statistics.votes import N_CANDIDATES, N_FEATURES, features, votes
from ranking.stats import StyledBradleyTerry


def ours() -> Call:
    v, style = votes(), features()
    return lambda: StyledBradleyTerry().fit(v.left, v.right, v.score, style)


def arena_rank() -> Call:
    """Its dataset is ready-made, outside of the clock."""
    left, right, winner = votes().names()
    frame = pd.DataFrame({"model_a": left, "model_b": right, "winner": winner})
    names = [f"feature_{number}" for number in range(N_FEATURES)]
    frame[names] = features()
    dataset = ContextualPairDataset.from_pandas(frame, names, reweighted=False)
    return lambda: ContextualBradleyTerry(N_CANDIDATES, N_FEATURES).fit(dataset)


CONTESTS = [
    Contest(
        "Style control with 4 features",
        Contestant("StyledBradleyTerry.fit, the sandwich included", ours),
        (
            Rival(
                "arena-rank: ContextualBradleyTerry.fit on a ready dataset", arena_rank, faster=20
            ),
        ),
        rounds=3,
    )
]
