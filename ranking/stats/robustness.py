"""Robustness of the first place: how few votes, if dropped, would change number one.

Sets of votes are found by influence functions (Broderick, Giordano and Meager 2020) and confirmed
by refitting without exactly these votes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ranking.stats.anomalies import Cast, fit_scores
from ranking.stats.arrays import Floats, Ints, codes, summed
from ranking.stats.battles import Battles, Pairs
from ranking.stats.bradley_terry import BradleyTerry, NotConvergedError, maximise, pseudo_inverse

BRIDGE = 1e-6  # a vote with a leverage closer to 1 holds two parts of the graph together


@dataclass(frozen=True, eq=False)
class Kinds:
    """Votes grouped by their effect on a fit, whatever their cluster.

    Attributes
    ----------
    place : (M,) the pair of each kind in ``pairs``
    score, weight, count : (M,) of each kind
    kind_of_row : (R,) the kind of each row of the battles
    """

    pairs: Pairs
    place: Ints
    score: Floats
    weight: Floats
    count: Ints
    kind_of_row: Ints

    @classmethod
    def of(cls, battles: Battles) -> "Kinds":
        """Fold the rows of battles over their clusters."""
        (score, n_scores), (weight, n_weights) = _coded(battles.score), _coded(battles.weight)
        pair = battles.first * battles.n_candidates + battles.second
        kind, size = codes((pair * n_scores + score) * n_weights + weight)
        row = np.empty(size, np.int64)
        row[kind] = np.arange(len(kind))  # any row represents its kind
        return cls(
            pairs=battles.pairs,
            place=battles.pairs.locate(battles.first[row], battles.second[row]),
            score=battles.score[row],
            weight=battles.weight[row],
            count=summed(kind, battles.count, size).astype(np.int64),
            kind_of_row=kind,
        )

    def without(self, dropped: Ints) -> Pairs:
        """The pairs after dropping these votes of each kind; summed again, so that 0 is exact."""
        weight = (self.count - dropped) * self.weight
        size = len(self.pairs.first)
        return Pairs(
            self.pairs.n_candidates,
            self.pairs.first,
            self.pairs.second,
            summed(self.place, weight, size),
            summed(self.place, weight * self.score, size),
        )


@dataclass(frozen=True, eq=False)
class Influence:
    """First-order effects of single votes on a fit ``theta`` of ``pairs``."""

    kinds: Kinds
    pairs: Pairs
    theta: Floats

    @cached_property
    def _inverse(self) -> Floats:
        return pseudo_inverse(self.pairs.information(self.theta))

    @cached_property
    def _push(self) -> Floats:
        """(M,): weight * (score - p) / (1 - h), the residual in a fit without that vote.

        h is the vote's leverage (Pregibon 1981); 0 for votes that cannot be dropped.
        """
        p = self.pairs.win_probability(self.theta)
        inverse, first, second = self._inverse, self.pairs.first, self.pairs.second
        pair_variance = inverse[first, first] + inverse[second, second] - 2 * inverse[first, second]
        remainder = 1 - self.kinds.weight * (p * (1 - p) * pair_variance)[self.kinds.place]
        residual = self.kinds.weight * (self.kinds.score - p[self.kinds.place])
        return np.divide(
            residual, remainder, out=np.zeros(len(remainder)), where=remainder > BRIDGE
        )

    def greatest_on_lead(self, top: int) -> Floats:
        """(K,): the most that any single vote adds to theta_top - theta_rival, per rival."""
        # Kinds are sorted by pair; only the extremes of each pair matter.
        starts = np.searchsorted(self.kinds.place, np.arange(len(self.pairs.first)))
        most = np.maximum.reduceat(self._push, starts)
        least = np.minimum.reduceat(self._push, starts)
        lead = self._inverse[top][:, None] - self._inverse  # row: candidate, column: rival
        greatest = np.empty(len(lead))
        for rival, column in enumerate(lead.T):
            lever = column[self.pairs.first] - column[self.pairs.second]
            greatest[rival] = np.maximum(lever * most, lever * least).max()
        return greatest

    def on_lead(self, top: int, rival: int) -> Floats:
        """(M,): H^-1 g, what one vote of each kind adds to theta_top - theta_rival."""
        lead = self._inverse[top] - self._inverse[rival]
        lever = lead[self.pairs.first] - lead[self.pairs.second]
        effect: Floats = self._push * lever[self.kinds.place]
        return effect


class DropOrder:
    """Votes in the order in which to drop them, by the effect of their kind."""

    def __init__(self, kinds: Kinds, effect: Floats) -> None:
        self.kinds = kinds
        helpful = np.flatnonzero(effect > 0)
        self.kind = helpful[np.argsort(-effect[helpful], kind="stable")]
        self.effect = effect[self.kind]
        self.droppable = kinds.count[self.kind]  # number of votes of each kind
        self.safe = 0  # dropping this many is known to leave the candidates connected

    def predict(self, gap: float) -> int:
        """How many votes have effects that add up to the gap; the total plus 1 if even all do
        not."""
        total = np.cumsum(self.effect * self.droppable)
        step = int(np.searchsorted(total, gap))
        if step == len(total):
            return int(self.droppable.sum()) + 1
        missing = gap - (total[step] - self.effect[step] * self.droppable[step])
        return int(self.droppable[:step].sum()) + math.ceil(float(missing / self.effect[step]))

    def first(self, votes: int) -> Ints:
        """(M,): of the first ``votes`` votes, how many are of each kind."""
        dropped = np.zeros(len(self.kinds.count), np.int64)
        before = np.cumsum(self.droppable) - self.droppable
        dropped[self.kind] = (votes - before).clip(0, self.droppable)
        return dropped

    def keep_connected(self, votes: int) -> None:
        """Exclude those of the first ``votes`` votes that keep the candidates connected."""
        while not self._connected(votes):
            splitting = least(lambda n: not self._connected(n), votes, votes)
            assert splitting is not None
            self.safe = splitting - 1
            step = int(np.searchsorted(np.cumsum(self.droppable), splitting))
            self.droppable[step] = splitting - 1 - int(self.droppable[:step].sum())

    def _connected(self, votes: int) -> bool:
        if votes <= self.safe:
            return True
        is_connected = connected(self.kinds.without(self.first(votes)))
        self.safe = votes if is_connected else self.safe
        return is_connected


def refit(pairs: Pairs, start: Floats) -> Floats | None:
    """(K,) strengths, or None if the candidates are no longer connected."""
    if not connected(pairs):
        return None
    try:
        return maximise(pairs, start=start)[0]
    except NotConvergedError:
        return None


def connected(pairs: Pairs) -> bool:
    """Whether chains of wins lead from every candidate to every other."""
    wins: csr_array = csr_array(pairs.wins() > 0)
    parts, _ = connected_components(wins, connection="strong")
    return bool(parts == 1)


def _coded(values: Floats) -> tuple[Ints, int]:
    """Codes of values, and how many codes; fast for few distinct values, which are looked up."""
    if len(values) and (values == values[0]).all():
        return np.zeros(1, np.int64), 1
    table = np.unique(values[:4096])
    code = np.searchsorted(table, values).clip(max=len(table) - 1)
    if not np.array_equal(table[code], values):
        table, code = np.unique(values, return_inverse=True)
    return code.astype(np.int64), len(table)


def least(changes: Callable[[int], bool], guess: int, limit: int) -> int | None:
    """The smallest n in 1..limit with ``changes(n)``, searched near a guess; None if there is none.

    ``changes`` should be monotone; otherwise any n at which it becomes true may be found.
    """
    low, high, step = 0, max(guess, 1), 1
    while high > limit or not changes(high):
        if high >= limit:
            return None
        low, high, step = high, min(high + step, limit), 2 * step
    step = 1
    while high - low > 1:
        middle = max(high - step, (low + high) // 2)
        if changes(middle):
            high, step = middle, 2 * step
        else:
            low = middle
    return high


LEVEL = 1e-9  # of theta; a smaller lead is rounding
MOST_RIVALS = 20  # rivals that are tried, the nearest by influence first
SLACK = 1.5  # rivals up to this factor and MARGIN votes above the lowest prediction are tried
MARGIN = 3


class Stability(StrEnum):
    """The outcome of the search."""

    CHANGES = "changes"
    LEVEL = "level"
    HOLDS = "holds"
    NOTHING_RANKED = "nothing_ranked"
    NO_SCORE = "no_score"

    @property
    def reason(self) -> str:
        """One sentence for a page; empty if there is a number."""
        return _REASONS[self]


_REASONS = {
    Stability.CHANGES: "",
    Stability.LEVEL: "The first place is shared.",
    Stability.HOLDS: "No set of votes within the bound changes number one.",
    Stability.NOTHING_RANKED: "No two candidates are comparable yet.",
    Stability.NO_SCORE: "Number one has no finite score, because it has never lost.",
}


@dataclass(frozen=True, eq=False)
class Robustness:
    """How many votes would change number one if dropped.

    Attributes
    ----------
    stability : `Stability`, with a ``reason``
    of : the number of votes between ranked candidates
    votes : the number found, an upper bound on the smallest possible; 0 if two are level, None if
        none was found
    top, rival : the candidate that is first, and the one that would be; None if there is none
    foretold : the number predicted by first-order effects, before any refit; None without a number
    confirmed : whether a refit without these votes puts ``rival`` first
    rows, counts : (m,) rows of the battles, and how many votes of each were dropped
    """

    stability: Stability
    of: int
    votes: int | None = None
    top: int | None = None
    rival: int | None = None
    foretold: int | None = None
    confirmed: bool = False
    rows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    counts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def words(self) -> str:
        """ "13 of 8,931 votes would change number one", or why there is no number."""
        if self.stability is not Stability.CHANGES:
            return self.stability.reason
        return f"{self.votes:,} of {self.of:,} votes would change number one"


def measure_robustness(
    battles: Battles, model: BradleyTerry | None = None, most: int | None = None
) -> Robustness:
    """Find how few votes, if dropped, would put another candidate first.

    For each rival, votes are ordered by what they add to the lead over it, H^-1 g, largest first.
    Refits find the smallest number in that order whose removal changes number one; the smallest
    over all rivals is the result. Votes that keep the candidates connected are never dropped,
    because that would leave number one unranked rather than replaced. Votes are dropped one by
    one, whatever their clusters.

    Parameters
    ----------
    model : the `BradleyTerry` already fitted to these battles; None fits one
    most : the largest number of votes to drop; None for half of them

    Raises ValueError for an invalid ``model`` or ``most``, and as `BradleyTerry.fit` does.
    """
    fit = BradleyTerry().fit(battles) if model is None else model
    if len(fit.theta_) != battles.n_candidates:
        raise ValueError("model must be fitted to these battles")
    inside = battles.among(fit.ranked_)
    most = inside.n_votes // 2 if most is None else most
    if most < 0:
        raise ValueError(f"most must be 0 or more, not {most}")
    if not fit.ranked_.any():
        return Robustness(Stability.NOTHING_RANKED, of=0)
    return _report(_Search(inside, fit.theta_[fit.ranked_], most).run(), battles, fit)


@dataclass(frozen=True, eq=False)
class _Result:
    kinds: Kinds
    top: int
    rival: int | None = None
    foretold: int | None = None
    dropped: Ints | None = None  # per kind


def _report(result: _Result, battles: Battles, fit: BradleyTerry) -> Robustness:
    """The result in terms of the caller's candidates and rows."""
    ranked_ids = np.flatnonzero(fit.ranked_)
    top, of = int(ranked_ids[result.top]), int(result.kinds.count.sum())
    if result.rival is None or result.dropped is None:
        return Robustness(Stability.HOLDS, of, top=top)
    rival, votes = int(ranked_ids[result.rival]), int(result.dropped.sum())
    if not votes:
        return Robustness(Stability.LEVEL, of, 0, top, rival, 0, confirmed=True)
    inside = np.flatnonzero(fit.ranked_[battles.first] & fit.ranked_[battles.second])
    kind = result.kinds.kind_of_row
    few = np.flatnonzero((result.dropped > 0)[kind])
    rows = inside[few]
    counts = _spread_over_rows(result.dropped, kind[few], battles.count[rows])
    rows = rows[counts > 0]
    foretold = result.foretold
    return Robustness(
        Stability.CHANGES, of, votes, top, rival, foretold, True, rows, counts[counts > 0]
    )


def _spread_over_rows(dropped: Ints, kind: Ints, count: Ints) -> Ints:
    """(R,): how many votes of each row are dropped, taking a kind's rows in their order."""
    order = np.argsort(kind, kind="stable")
    kind, count = kind[order], count[order]
    before = np.cumsum(count) - count
    before -= before[np.searchsorted(kind, kind)]
    taken = np.empty(len(kind), np.int64)
    taken[order] = (dropped[kind] - before).clip(0, count)
    return taken


class _Search:
    """The search among battles whose candidates are all ranked."""

    def __init__(self, battles: Battles, theta: Floats, most: int) -> None:
        self.kinds = Kinds.of(battles)
        self.theta, self.most = theta, most
        self.top = int(np.argmax(theta))
        self.influence = Influence(self.kinds, battles.pairs, theta)

    def run(self) -> _Result:
        """Find the fewest votes over all rivals that are near by influence."""
        runner_up = int(np.argsort(-self.theta, kind="stable")[1])
        if self.theta[self.top] - self.theta[runner_up] < LEVEL:
            nothing = np.zeros(len(self.kinds.count), np.int64)
            return _Result(self.kinds, self.top, runner_up, 0, nothing)
        best, limit = _Result(self.kinds, self.top), self.most
        for foretold, rival in self._rivals():
            order = self._order(rival)
            guess = foretold if best.dropped is None else limit  # one refit may rule a rival out
            votes = least(partial(self._unseats, order), min(guess, limit), limit)
            if votes is not None:
                dropped, limit = order.first(votes), votes - 1
                best = _Result(self.kinds, self.top, self._winner(dropped), foretold, dropped)
        return best

    def _rivals(self) -> list[tuple[int, int]]:
        """(predicted votes, rival) for the rivals near by influence, the nearest first."""
        lead = self.theta[self.top] - self.theta
        # A lower bound: as if every vote had the largest effect.
        greatest = self.influence.greatest_on_lead(self.top)
        at_least = np.divide(lead, greatest, out=np.full(len(lead), np.inf), where=greatest > 0)
        at_least[self.top] = np.inf
        near: list[tuple[int, int]] = []
        for rival in np.argsort(at_least, kind="stable")[:MOST_RIVALS].tolist():
            if near and at_least[rival] > SLACK * min(near)[0] + MARGIN:
                break
            if rival != self.top:
                near.append((self._order(rival).predict(lead[rival]), rival))
        return sorted(pair for pair in near if pair[0] <= SLACK * min(near)[0] + MARGIN)

    def _order(self, rival: int) -> DropOrder:
        return DropOrder(self.kinds, self.influence.on_lead(self.top, rival))

    def _unseats(self, order: DropOrder, votes: int) -> bool:
        """Whether number one changes without the first ``votes`` votes of an order."""
        order.keep_connected(votes)
        return self._winner(order.first(votes)) is not None

    def _winner(self, dropped: Ints) -> int | None:
        """The candidate that is first without these votes; None if it is unchanged, or there is no
        fit."""
        theta = refit(self.kinds.without(dropped), self.theta)
        if theta is None or theta.max() - theta[self.top] < LEVEL:
            return None
        return int(np.argmax(theta))


@dataclass(frozen=True)
class AttackPlan:
    """The number of votes of each rater and of networks, whether on all pairs, whether all at once,
    and how often the target loses."""

    each: int
    everywhere: bool = False
    at_once: bool = False
    one_network: bool = False
    losing: float = 0.0


ATTACKS = {
    "target only": AttackPlan(50),
    "omnipresent": AttackPlan(50, everywhere=True, one_network=True),
    "careful": AttackPlan(50, everywhere=True, losing=1 / 8),
    "burst": AttackPlan(10, everywhere=True, at_once=True),
    "slow": AttackPlan(5, everywhere=True, one_network=True),
    "many networks": AttackPlan(5, everywhere=True),
}


def with_attack(
    attack: str, cast: Cast, target: int, n_candidates: int, n_votes: int, rng: np.random.Generator
) -> Cast:
    """The votes with `n_votes` rigged ones among them, which on other pairs follow the scores."""
    plan = ATTACKS[attack]
    theta = fit_scores(cast, n_candidates)
    left, right = _attacked_pairs(plan, target, n_candidates, n_votes, rng)
    wins = 1 / (1 + np.exp(theta[right] - theta[left]))
    score = (rng.random(n_votes) < wins).astype(float)
    lost = rng.random(n_votes) < plan.losing
    score = np.where(left == target, ~lost, np.where(right == target, lost, score))
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
    return cast.followed_by(rigged).where(order)


def _attacked_pairs(
    plan: AttackPlan, target: int, n_candidates: int, n_votes: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    left = rng.integers(0, n_candidates, n_votes) if plan.everywhere else np.full(n_votes, target)
    right = (left + rng.integers(1, n_candidates, n_votes)) % n_candidates
    swap = rng.random(n_votes) < 0.5
    return np.where(swap, right, left), np.where(swap, left, right)


def rank_of(target: int, cast: Cast, n_candidates: int) -> int:
    """One plus the number of candidates with a higher score."""
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
        "flipping": lambda n: replace(cast, score=_flip_outcomes(cast.score, won[:n])),
        "adding": lambda n: _add_votes(cast, first, second, n),
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


def _flip_outcomes(score: Floats, at: Ints) -> Floats:
    flipped = score.copy()
    flipped[at] = 1 - flipped[at]
    return flipped


def _add_votes(cast: Cast, first: int, second: int, n: int) -> Cast:
    new = Cast(
        rater=np.full(n, cast.n_raters),
        network=np.full(n, -1),
        left=np.full(n, second),
        right=np.full(n, first),
        score=np.ones(n),
        rushed=np.zeros(n, np.bool_),
    )
    return cast.followed_by(new)
