"""Ranks with their intervals, tiers, and the places of candidates that have no finite score.

Rank intervals come from the covariance of differences, not from overlapping intervals. A candidate
that never lost to the scored ones, directly or through others, ranks above them, and one that never
won ranks below them, as soon as its votes are on `fewest_groups` prompts. If no candidate has a
score, as when one won every vote, the order of the chains of wins is the result. Candidates with
fewer votes stand apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.special import ndtri, stdtrit

from ranking.stats.arrays import Bools, Floats, Ints, check_estimate, clusters_met, summed
from ranking.stats.battles import Battles
from ranking.stats.connectivity import arrows_of, largest_first
from ranking.stats.intervals import (
    MIN_CLUSTERS,
    Dependence,
    Sandwich,
    check_confidence,
    critical_value,
    totals_per_unit,
)

DRAWS = 10_000  # the simultaneous level is exact to 0.2 percentage points (one standard error)
MOST_DRAWN = 400  # candidates; with more, the draws of all pairs would take seconds
FARTHEST = 10_000.0  # Elo beyond the scores, within which a bound is sought
LEVEL = 1e-6  # Elo; scores that differ by less are equal but for rounding
ROUNDING = 1e-9  # of a vote; shares that differ by less agree
CLEAR_AT = 3.1  # standard errors of the difference that a clear leader needs at every look
VARIANCE = 0.18  # of the difference of two candidates between raters, and between prompts: typical
BLOCK = 500  # draws whose differences are in memory at once, to fit the processor's cache


def ranks(ratings: Floats) -> Floats:
    """(K,) 1 + the number of higher ratings (Elo); NaN for the unranked."""
    above = (ratings[None, :] - ratings[:, None] > LEVEL).sum(axis=1)
    return np.where(np.isnan(ratings), np.nan, 1.0 + above)


def rank_intervals(
    theta: ArrayLike,
    covariance: ArrayLike,
    simultaneous: bool = False,
    confidence: float = 0.95,
    random_state: int = 0,
    n_clusters: int | None = None,
    critical: float | None = None,
) -> tuple[Floats, Floats]:
    """The best and the worst possible rank (1 is the top) of each candidate.

    ``low = 1 + the number clearly above`` and ``high = K - the number clearly below``; clearly
    means that the difference exceeds a critical value times its standard error. For marginal
    ranges that is the normal quantile (1.96): each comparison errs in 5 %. For simultaneous
    ranges it is `simultaneous_value`: all ranges hold jointly at this confidence, as a claim about
    "number one" requires. With ``n_clusters``, G, both are of Student's t with G - 1 degrees of
    freedom, because the errors are estimated from few clusters.

    Parameters
    ----------
    theta : (K,) strengths on any linear scale, NaN for the unranked
    covariance : (K, K) of theta on that scale, as `Sandwich.covariance_`
    random_state : seed of the draws; the same seed gives the same ranges
    n_clusters : clusters behind the covariance, at least 2; None for practically infinitely many
    critical : the critical value, if it is known

    Returns
    -------
    low, high : (K,) floats that are whole numbers; NaN for the unranked, and where the covariance
        is NaN

    Reference: Mogstad, Romano, Shaikh and Wilhelm 2024.
    """
    check_confidence(confidence)
    strength, matrix = check_estimate(theta, covariance)
    is_scored: Bools = ~np.isnan(strength) & ~np.isnan(matrix.diagonal())
    low, high = np.full(len(strength), np.nan), np.full(len(strength), np.nan)
    inner = matrix[np.ix_(is_scored, is_scored)]
    if critical is None and simultaneous:
        critical = simultaneous_value(inner, confidence, random_state, n_clusters)
    elif critical is None:
        critical = critical_value(confidence, n_clusters)
    below = clearly_below(strength[is_scored], inner, critical)
    low[is_scored] = 1 + below.sum(axis=0)
    high[is_scored] = is_scored.sum() - below.sum(axis=1)
    return low, high


def clearly_below(theta: Floats, covariance: Floats, critical: float) -> Bools:
    """(K, K) whether the column's strength is clearly below the row's: by more than `critical`
    standard errors of their difference. False where either is unknown."""
    lead = theta[:, None] - theta[None, :]
    below: Bools = lead > critical * _difference_errors(covariance)
    return below


def simultaneous_value(
    covariance: ArrayLike,
    confidence: float = 0.95,
    random_state: int = 0,
    n_clusters: int | None = None,
) -> float:
    """The critical value of all differences at once: the quantile of the largest
    |difference| / error over all pairs (max-t, from seeded normal draws).

    Parameters as for `rank_intervals`; candidates of unknown variance are left out.
    """
    matrix = np.asarray(covariance, np.float64)
    known = ~np.isnan(matrix.diagonal())
    single = critical_value(confidence, n_clusters)
    if known.sum() < 2:
        return single
    inner, rng = matrix[np.ix_(known, known)], np.random.default_rng(random_state)
    largest = _largest(inner, _difference_errors(inner), rng, n_clusters)
    # The draws are random; the value for all pairs must not fall below that for a single one.
    return max(single, float(np.quantile(largest, confidence)))


def least_error(n_raters: int, n_prompts: int) -> float:
    """The standard error of a difference, in Elo, that is left after any number of votes by these
    raters on these prompts, if they vary as is typical."""
    elo_per_theta = 400 / math.log(10)
    return elo_per_theta * math.sqrt(VARIANCE / n_raters + VARIANCE / n_prompts)


def clear_leader(
    theta: ArrayLike,
    covariance: ArrayLike,
    confidence: float = 0.95,
    random_state: int = 0,
    n_clusters: int | None = None,
) -> int | None:
    """The candidate that is clearly number one, or None.

    Its simultaneous rank interval is 1 to 1. If two candidates truly share the top, a leader is
    named with a probability of at most ``1 - confidence``. None if fewer than two are ranked, or if
    the covariance is unknown. Parameters as for `rank_intervals`.
    """
    _, worst = rank_intervals(theta, covariance, True, confidence, random_state, n_clusters)
    return leader_among(worst)


def leader_among(worst: Floats) -> int | None:
    """The clear number one, given the worst ranks of `clear_leader`'s simultaneous intervals."""
    if np.isfinite(worst).sum() < 2 or np.nanmin(worst) > 1:
        return None
    return int(np.nanargmin(worst))


def tiers(below: Bools) -> Ints:
    """(K,) the tier of each candidate, 1 is the top.

    A tier begins at the first candidate that is clearly below the first one of the tier above. With
    a simultaneous critical value, all these statements hold together at its confidence.

    Parameters
    ----------
    below : (K, K) `clearly_below`, in the order of falling strength
    """
    numbers = np.ones(len(below), np.int64)
    first = 0
    for i in range(1, len(below)):
        numbers[i] = numbers[i - 1]
        if below[first, i]:
            first, numbers[i] = i, numbers[i] + 1
    return numbers


def _difference_errors(covariance: Floats) -> Floats:
    """(K, K) standard errors of differences; infinite on the diagonal and where unknown."""
    variance = covariance.diagonal()
    square = variance[:, None] + variance[None, :] - 2 * covariance
    floor = 1e-12 * np.nan_to_num(variance).max(initial=0.0)
    known = square > floor
    errors: Floats = np.sqrt(np.where(known, square, np.inf))
    return errors


def _largest(
    covariance: Floats, error: Floats, generator: np.random.Generator, n_clusters: int | None
) -> Floats:
    """(DRAWS,) maxima over pairs of |z_i - z_j| / error_ij, z normal with this covariance.

    Dividing z by sqrt(chi-square / (G - 1)) makes it multivariate t.
    """
    if len(error) > MOST_DRAWN:
        largest = _sidak_maxima(len(error), generator)
    else:
        largest = _draw_maxima(covariance, error, generator)
    if n_clusters is None:
        return largest.astype(np.float64)
    freedom = n_clusters - 1
    return largest / np.sqrt(generator.chisquare(freedom, DRAWS) / freedom)


def _draw_maxima(covariance: Floats, error: Floats, generator: np.random.Generator) -> NDArray[Any]:
    """The maxima of actual draws.

    Computed in single precision, one candidate against all later ones at a time, to stay in the
    processor's cache.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(values.clip(min=0))).astype(np.float32)
    scale = (1 / error).astype(np.float32)
    largest = np.zeros(DRAWS, np.float32)
    for start in range(0, DRAWS, BLOCK):
        draw = root @ generator.standard_normal((len(root), BLOCK), np.float32)
        block = largest[start : start + BLOCK]
        for i in range(len(root) - 1):
            apart = draw[i + 1 :] - draw[i]
            apart *= scale[i, i + 1 :, None]
            np.maximum(block, np.abs(apart, out=apart).max(axis=0), out=block)
    return largest


def _sidak_maxima(n_candidates: int, generator: np.random.Generator) -> Floats:
    """Maxima as if all pairs were independent, which are never smaller (Sidak 1967)."""
    n_pairs = n_candidates * (n_candidates - 1) / 2
    beyond = -np.expm1(np.log(generator.random(DRAWS)) / n_pairs)
    largest: Floats = -ndtri(beyond / 2)
    return largest


@dataclass(frozen=True, eq=False)
class Places:
    """The places of K candidates; arrays are (K,).

    Attributes
    ----------
    rank : 1 + the number placed higher; NaN for those that stand apart
    best, worst : the possible ranks of the placed that have no score; NaN for the others
    low, high : Elo, the open intervals of those placed above and below the scored; NaN if unknown
    surely_above : the number of candidates without a score that are clearly above each scored one
    maybe_below : the number of those placed below that are not clearly below each scored one
    n_above : the number of candidates placed above the scored
    apart : those without a place, although their votes are on as many prompts as a place needs, or
        as an interval needs if they only beat the scored: nothing says that they are not better
    """

    rank: Floats
    best: Floats
    worst: Floats
    low: Floats
    high: Floats
    surely_above: Ints
    maybe_below: Ints
    n_above: int
    apart: Bools

    def among_all(self, best: Floats, worst: Floats) -> tuple[Floats, Floats]:
        """Possible ranks among the measured (NaN if unknown) as possible ranks among all placed.

        They contain the rank, which also counts scores without an interval.
        """
        low = np.where(np.isnan(self.best), best + self.surely_above, self.best)
        high = np.where(np.isnan(self.worst), worst + self.n_above + self.maybe_below, self.worst)
        placed = np.count_nonzero(~np.isnan(self.rank))
        return np.minimum(low, self.rank), np.minimum(np.maximum(high, self.rank), placed)

    def leader(self, scored: int | None) -> int | None:
        """The clear number one, given that among the scored; None if there is none."""
        certain = np.flatnonzero(self.worst == 1)
        if len(certain):
            return int(certain[0])
        is_open = self.n_above or (scored is not None and self.maybe_below[scored])
        return None if is_open else scored

    def allow(self, leader: int, active: Bools | None = None) -> bool:
        """Whether this candidate may be called number one: it is active (by default all are), alone
        in the first place, and no active candidate stands apart with as much evidence."""
        active = np.ones(len(self.rank), np.bool_) if active is None else active
        is_alone = self.rank[leader] == 1 and (self.rank == 1).sum() == 1
        return bool(is_alone and active[leader] and not (self.apart & active).any())


def independent_groups(first: Ints, second: Ints, prompt: Ints, n_clusters: Ints) -> Ints:
    """(K,) the number of prompts of each candidate's votes; of clusters, if some are unknown.

    ``first``, ``second``: (N,) candidates; ``prompt``: (N,), negative if unknown; ``n_clusters``:
    (K,) clusters of votes on each candidate.
    """
    if not (prompt >= 0).any():
        return n_clusters
    size, known = len(n_clusters), prompt >= 0
    is_partly_unknown = np.zeros(size, np.bool_)
    if not known.all():
        for side in (first, second):
            is_partly_unknown[side[~known]] = True
        first, second, prompt = first[known], second[known], prompt[known]
    n_prompts = clusters_met(first, second, prompt, size, int(prompt.max()) + 1)
    return np.where(is_partly_unknown, n_clusters, n_prompts)


def place(
    wins: Floats,
    ratings: Floats,
    n_clusters: Ints,
    low: Floats,
    high: Floats,
    confidence: float = 0.95,
    scale: float = 400.0,
) -> Places:
    """Place K candidates.

    Parameters
    ----------
    wins : (K, K) the row's points against the column, of votes without weights
    ratings, low, high : (K,) Elo and its interval; NaN without a score or an interval
    n_clusters : (K,) `independent_groups` of votes on each candidate
    scale : Elo points for odds of 10 to 1
    """
    scored: Bools = ~np.isnan(ratings)
    size, nothing = len(ratings), np.full(len(ratings), np.nan)
    none = np.zeros(size, np.int64)
    if scored.all():
        return Places(ranks(ratings), nothing, nothing, nothing, nothing, none, none, 0, ~scored)
    enough = fewest_groups(confidence)
    arrows = arrows_of(wins)
    # No more groups of votes are between two candidates than either has, or than votes.
    groups = np.minimum(np.minimum(n_clusters[:, None], n_clusters), wins + wins.T)
    decided = arrows & ~arrows.T & (groups >= enough)
    votes: Floats = (wins + wins.T)[:, scored].sum(axis=1)
    evident = scored | ((n_clusters >= enough) & (votes >= enough))
    links = np.where(scored[:, None] | scored, arrows & evident[:, None] & evident, decided)
    above_one, placed = _placing_order(links, scored, wins)
    above, below = _sides(above_one, scored)
    open_low = _bounds(wins, above, scored, n_clusters, (ratings, low), (confidence, scale))
    open_high = -_bounds(wins.T, below, scored, n_clusters, (-ratings, -high), (confidence, scale))
    unsettled = _unsettled(above_one & ~decided, scored, (open_low, high), (open_high, low))
    n_higher = above_one.sum(axis=0)
    within = np.where(scored, ranks(ratings) - 1, 0)
    free = placed & ~scored
    unbeaten = arrows[:, scored].any(axis=1) & ~arrows[scored].any(axis=0)
    clearly_above = (above_one & ~unsettled).sum(axis=0)
    clearly_below = (above_one & ~unsettled).sum(axis=1)
    return Places(
        rank=np.where(placed, 1.0 + n_higher + within, np.nan),
        best=np.where(free, 1.0 + clearly_above, np.nan),
        worst=np.where(free, float(placed.sum()) - clearly_below, np.nan),
        low=open_low,
        high=open_high,
        surely_above=np.where(scored, clearly_above, 0),
        maybe_below=np.where(scored, (above_one & unsettled).sum(axis=1), 0),
        n_above=int(above.sum()) if scored.any() else 0,
        apart=~placed & (n_clusters >= np.where(unbeaten, MIN_CLUSTERS, enough)),
    )


def _placing_order(links: Bools, scored: Bools, wins: Floats) -> tuple[Bools, Bools]:
    """(K, K) whether the row is placed above the column, and (K,) who is placed.

    Where nobody has a score, the largest group that links connect is; nobody if two are alike.
    """
    graph = csr_array(links.astype(np.int64))
    reaches = np.isfinite(shortest_path(graph, unweighted=True))
    higher: Bools = reaches & ~reaches.T
    placed = scored.copy()
    if scored.any():
        first = int(np.argmax(scored))
        placed |= higher[:, first] | higher[first]
    elif links.any():
        group = connected_components(graph, directed=False)[1].astype(np.int64)
        order, is_one = largest_first(group, wins)
        placed = (group == order[0]) & is_one
    return higher & placed[:, None] & placed, placed


def _sides(higher: Bools, scored: Bools) -> tuple[Bools, Bools]:
    """(K,) masks of those placed above and below the scored; nobody if nobody has a score."""
    if not scored.any():
        return np.zeros_like(scored), np.zeros_like(scored)
    first = int(np.argmax(scored))
    return higher[:, first] & ~scored, higher[first] & ~scored


def _bounds(
    wins: Floats,
    above: Bools,
    scored: Bools,
    n_clusters: Ints,
    opponents: tuple[Floats, Floats],
    level: tuple[float, float],
) -> Floats:
    """(K,) the lowest Elo with which each of ``above`` would win all its votes by chance.

    Each cluster counts as one vote, and an opponent is as weak as its interval allows.
    """
    ratings, low = opponents
    confidence, scale = level
    bounds = np.full(len(ratings), np.nan)
    if not above.any():
        return bounds
    from scipy.optimize import brentq  # noqa: PLC0415  (a fifth of a second; few boards need it)

    strength = np.where(np.isnan(low), ratings, low)[scored]
    for i in np.flatnonzero(above):
        won = wins[i][scored] * min(1.0, n_clusters[i] / max(wins[i].sum(), 1.0))
        if not won.any():
            continue

        def surplus(elo: float, won: Floats = won) -> float:
            chance = -np.logaddexp(0, (strength - elo) * math.log(10) / scale)
            return float(won @ chance) - math.log(1 - confidence)

        ends = strength.min() - FARTHEST, strength.max() + FARTHEST
        if surplus(ends[0]) < 0 < surplus(ends[1]):
            bounds[i] = brentq(surplus, *ends)
    return bounds


def _unsettled(
    higher: Bools, scored: Bools, above: tuple[Floats, Floats], below: tuple[Floats, Floats]
) -> Bools:
    """(K, K) pairs of a scored and another candidate whose intervals do not settle the order."""
    between = scored[:, None] ^ scored
    clear = (above[0][:, None] > above[1]) | (below[1][:, None] > below[0])
    return higher & between & ~clear


def fewest_groups(confidence: float) -> int:
    """The groups of votes that one side must win, without a loss or a tie, to be called better.

    Without a difference each is a coin toss. The likelihood ratio of all shares alike is
    2^n / (n + 1), which reaches 1 / (1 - confidence) with a probability of at most 1 - confidence
    (Robbins 1970): 8 for 95 %.
    """
    n = 1
    while 2**n / (n + 1) < 1 / (1 - confidence):
        n += 1
    return n


def direct_wins(battles: Battles, confidence: float = 0.95) -> Bools:
    """(K, K) whether the row is better than the column by the votes between just the two.

    Significantly so, by a t test over clusters, or without ever losing on `fewest_groups` clusters.
    """
    size, pairs = battles.n_candidates, battles.pairs
    weight, scored = (matrix.tocoo() for matrix in totals_per_unit(battles))
    pair, votes = weight.row.astype(np.int64), weight.data
    lead = scored.data - votes / 2  # of ``first``, in points of a cell: a pair in a cluster
    # Without clusters a cell holds one of a row's votes.
    times = np.ones(len(pair)) if battles.cluster is not None else battles.count[weight.col]
    n = len(pairs.first)

    def total(values: Floats | Bools) -> Floats:
        return summed(pair, times * values, n)

    cells, mean = total(np.ones(len(pair))), total(lead) / total(votes)
    spread = total((lead - votes * mean[pair]) ** 2) * cells / np.maximum(cells - 1, 1)
    error = np.sqrt(spread) / total(votes)
    differ = total(np.abs(lead / votes - mean[pair]) > ROUNDING) > 0
    measured = differ & (cells >= MIN_CLUSTERS)
    critical = stdtrit(np.maximum(cells - 1, 1), (1 + confidence) / 2)
    significant = measured & (np.abs(mean) > critical * error)
    enough = fewest_groups(confidence)
    won, lost = (
        (total(sign * lead > 0) >= enough)
        & ~(np.bincount(battles.pair_of_row, sign * (battles.score - 0.5) < 0, n) > 0)
        for sign in (1, -1)
    )
    wins = np.zeros((size, size), np.bool_)
    wins[pairs.first, pairs.second] = (mean > 0) & (significant | won)
    wins[pairs.second, pairs.first] = (mean < 0) & (significant | lost)
    return wins


def clear_number_one(
    places: Places,
    scored: int | None,
    direct: Bools,
    active: Bools | None = None,
) -> int | None:
    """The candidate that is clearly number one among all active candidates, or None.

    ``scored``: the clear number one among those with an interval. None if another candidate has as
    high a score, even from few votes, or has beaten it, whatever the scores say, or if `Places`
    does not allow it. ``direct``: (K, K) `direct_wins`. ``active``: (K,) mask of the candidates
    that are not archived.
    """
    leader = places.leader(scored)
    if leader is None or not places.allow(leader, active):
        return None
    return None if direct[:, leader].any() else leader


def other_groups(
    components: Ints,
    dependence: Dependence,
    ids: Sequence[int | str],
    confidence: float = 0.95,
) -> list[list[dict[str, Any]]]:
    """The rankings of groups that wins connect only among themselves, each on its own scale."""
    groups = []
    for label in range(1, int(components.max(initial=0)) + 1):
        members = components == label
        if members.sum() < 2:  # the largest groups come first
            break
        inside = tuple(grouping.among(members) for grouping in dependence.groupings)
        fit = Sandwich(confidence, jackknifed=True).fit(*inside)
        enough = replace(dependence, groupings=inside).measurable
        of_group, placed = np.flatnonzero(members).tolist(), ranks(fit.ratings_)
        rows = [
            {
                "candidate": ids[of_group[i]],
                "rank": int(placed[i]),
                "score": float(fit.ratings_[i]),
                "low": _known(fit.low_[i]) if enough[i] else None,
                "high": _known(fit.high_[i]) if enough[i] else None,
            }
            for i in np.argsort(-fit.ratings_, kind="stable").tolist()
        ]
        groups.append(rows)
    return groups


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
