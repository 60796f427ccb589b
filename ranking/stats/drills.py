"""Attacks on a copy of an arena's votes, and the fewest votes that change number one."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ranking.stats.anomalies import Cast, Floats, Ints, fit_scores


@dataclass(frozen=True)
class AttackPlan:
    """Votes of each rater, whether on all pairs, all at once, and from how many networks."""

    each: int
    everywhere: bool = False
    at_once: bool = False
    one_network: bool = False


ATTACKS = {
    "target only": AttackPlan(50),
    "omnipresent": AttackPlan(50, everywhere=True, one_network=True),
    "burst": AttackPlan(10, everywhere=True, at_once=True),
    "slow": AttackPlan(5, everywhere=True, one_network=True),
    "many networks": AttackPlan(5, everywhere=True),
}


def with_attack(
    attack: str, cast: Cast, target: int, n_candidates: int, n_votes: int, rng: np.random.Generator
) -> Cast:
    """The votes with `n_votes` rigged ones among them; on other pairs, these follow the scores."""
    plan = ATTACKS[attack]
    theta = fit_scores(cast, n_candidates)
    left, right = _pairs(plan, target, n_candidates, n_votes, rng)
    wins = 1 / (1 + np.exp(theta[right] - theta[left]))
    score = (rng.random(n_votes) < wins).astype(float)
    score = np.where(left == target, 1.0, np.where(right == target, 0.0, score))
    number = np.arange(n_votes) // plan.each
    first = int(cast.network.max(initial=-1)) + 1
    start = len(cast.rater) // 2
    place = np.full(n_votes, start) if plan.at_once else rng.integers(0, len(cast.rater), n_votes)
    rigged = Cast(
        rater=cast.n_raters + number,
        network=first + (0 * number if plan.one_network else number),
        left=left,
        right=right,
        score=score,
        rushed=np.zeros(n_votes, np.bool_),
    )
    order = np.argsort(np.r_[np.arange(len(cast.rater)), np.sort(place)], kind="stable")
    return Cast(
        *(
            np.concatenate([old, new])[order]
            for old, new in zip(vars(cast).values(), vars(rigged).values(), strict=True)
        )
    )


def _pairs(
    plan: AttackPlan, target: int, n_candidates: int, n_votes: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    left = rng.integers(0, n_candidates, n_votes) if plan.everywhere else np.full(n_votes, target)
    right = (left + rng.integers(1, n_candidates, n_votes)) % n_candidates
    swap = rng.random(n_votes) < 0.5
    return np.where(swap, right, left), np.where(swap, left, right)


def rank_of(target: int, cast: Cast, n_candidates: int) -> int:
    """One, and how many candidates have a higher score."""
    theta = fit_scores(cast, n_candidates)
    return 1 + int((theta > theta[target]).sum())


def fewest_votes(change: str, cast: Cast, first: int, second: int, n_candidates: int) -> int | None:
    """The fewest votes between the two whose change puts `second` first; None if none does.

    ``change``: dropping votes that `first` won, adding votes that `second` wins, or flipping votes
    that `first` won.
    """
    met_first = (cast.left == first) & (cast.right == second)
    met_second = (cast.left == second) & (cast.right == first)
    won = np.flatnonzero((met_first & (cast.score == 1)) | (met_second & (cast.score == 0)))
    changed: dict[str, Callable[[int], Cast]] = {
        "dropping": lambda n: cast.where(~np.isin(np.arange(len(cast.rater)), won[:n])),
        "flipping": lambda n: replace(cast, score=_flipped(cast.score, won[:n])),
        "adding": lambda n: _added(cast, first, second, n),
    }
    most = len(cast.rater) if change == "adding" else len(won)

    def is_enough(n: int) -> bool:
        theta = fit_scores(changed[change](n), n_candidates)
        return bool(theta[second] > theta[first])

    if not is_enough(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _flipped(score: Floats, at: Ints) -> Floats:
    flipped = score.copy()
    flipped[at] = 1 - flipped[at]
    return flipped


def _added(cast: Cast, first: int, second: int, n: int) -> Cast:
    new = Cast(
        rater=np.full(n, cast.n_raters),
        network=np.full(n, -1),
        left=np.full(n, second),
        right=np.full(n, first),
        score=np.ones(n),
        rushed=np.zeros(n, np.bool_),
    )
    return Cast(
        *(
            np.concatenate([old, more])
            for old, more in zip(vars(cast).values(), vars(new).values(), strict=True)
        )
    )
