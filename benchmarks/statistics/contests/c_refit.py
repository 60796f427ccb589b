"""A refit after one more vote, with the stored totals and from the last strengths."""

from benchmarks.statistics.contest import Call, Contest, Contestant, Rival
from benchmarks.statistics.contests import a_fit
from benchmarks.statistics.votes import N_CANDIDATES, votes
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry


def refit() -> Call:
    """The new vote is on two rarely shown candidates, whose strengths it moves the most."""
    v = votes()
    kept = Battles.from_arrays(v.left, v.right, v.score)
    model = BradleyTerry().fit(kept)
    seldom = [N_CANDIDATES - 1], [N_CANDIDATES - 2], [1.0]

    def one_more() -> BradleyTerry:
        more = Battles.from_arrays(*seldom, n_candidates=N_CANDIDATES)
        return BradleyTerry().fit(kept.plus(more), start=model.theta_)

    return one_more


CONTESTS = [
    Contest(
        "Refit after one more vote",
        Contestant("Battles.plus, BradleyTerry.fit(start=)", refit),
        (Rival("our own fit from the arrays", a_fit.ours, faster=10),),
        rounds=15,
    )
]
