"""1,000 replicates that resample whole prompts, compared with resampling votes."""

from benchmarks.statistics.contest import Call, Contest, Contestant, Rival
from benchmarks.statistics.contests import d_bootstrap
from benchmarks.statistics.contests.d_bootstrap import REPLICATES
from benchmarks.statistics.votes import N_PROMPTS, votes
from ranking.stats.battles import Battles
from ranking.stats.bootstrap import Bootstrap


def clustered() -> Call:
    v = votes()
    battles = Battles.from_arrays(v.left, v.right, v.score, cluster=v.prompt)
    return lambda: Bootstrap(REPLICATES).fit(battles)


CONTESTS = [
    Contest(
        f"1,000 replicates clustered by {N_PROMPTS:,} prompts",
        Contestant("Bootstrap.fit", clustered, REPLICATES),
        (Rival("votes as independent", d_bootstrap.ours(1), REPLICATES, faster=1 / 3),),
        rounds=3,
    )
]
