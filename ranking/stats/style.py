"""Style control: Bradley-Terry with style coefficients that all candidates share.

The log-odds of a vote are theta_left - theta_right + beta' f, where f are its style differences.
Each vote has its own f, so votes cannot be folded; they are read in chunks that stay in the
processor's cache, and terms that depend on candidates only are summed per pair.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from ranking.stats import arrays
from ranking.stats.arrays import Bools, Floats, Ints, codes, integers, summed
from ranking.stats.battles import Battles, expected_score
from ranking.stats.bradley_terry import (
    BradleyTerry,
    NoMaximumError,
    covariance,
    maximise_joint,
    shared_information,
)
from ranking.stats.connectivity import Status
from ranking.stats.intervals import (
    BLOCK,
    VANISHING,
    NoInterval,
    check_confidence,
    small_sample,
    t_quantile,
    why_none,
)

CHUNK = 1 << 16  # votes
DENSE = 4  # cells per vote up to which counting into all of them is faster than sorting


@dataclass(frozen=True, eq=False)
class StyledVotes:
    """n votes between K candidates, with P distinct (left, right).

    Attributes
    ----------
    left, right : (P,) the candidates of each ordered pair
    pair : (n,) the pair of each vote
    score : (n,) floats from 0 to 1
    features : (F, n) style differences
    weight : (n,) floats above 0, or None: 1 for each
    count : (n,) how many equal votes each represents, or None: 1 for each
    cluster : (n,) codes from 0, or None: each vote is its own
    """

    n_candidates: int
    left: Ints
    right: Ints
    pair: Ints
    score: Floats
    features: Floats
    weight: Floats | None
    count: Ints | None
    cluster: Ints | None

    @classmethod
    def between(
        cls,
        ranked: Bools,
        left: ArrayLike,
        right: ArrayLike,
        score: ArrayLike,
        features: Floats,
        weight: ArrayLike | None = None,
        count: ArrayLike | None = None,
        cluster: Ints | None = None,
    ) -> "StyledVotes":
        """The votes between ranked candidates, renumbered. Columns are checked; features (n, F)."""
        a, b = integers("left", left), integers("right", right)
        s = np.asarray(score, np.float64)
        w = None if weight is None else np.asarray(weight, np.float64)
        c = None if count is None else np.asarray(count).astype(np.int64)
        keep = _mask_of_kept(ranked, a, b, w, c)
        if keep is not None:
            a, b, s, features = a[keep], b[keep], s[keep], features[keep]
            w, c = (None if w is None else w[keep]), (None if c is None else c[keep])
            cluster = None if cluster is None else cluster[keep]
        cell = a.astype(np.int64) * len(ranked) + b
        pair, n_pairs = codes(cell)
        met = np.empty(n_pairs, np.int64)
        met[pair] = cell
        first, second = np.divmod(met, max(len(ranked), 1))
        place = np.cumsum(ranked) - 1
        group = None if cluster is None else codes(cluster)[0]
        table = np.array(features.T, order="C")  # always a copy: it is standardised in place
        size = int(ranked.sum())
        return cls(size, place[first], place[second], pair, s, table, w, c, group)

    @property
    def n_clusters(self) -> int:
        """The number of distinct clusters; without clusters, of votes."""
        if self.cluster is not None:
            return int(self.cluster.max(initial=-1)) + 1
        return len(self.pair) if self.count is None else int(self.count.sum())

    def standardise(self) -> tuple[Floats, list[int]]:
        """Divide each feature in place by its standard deviation about 0.

        Returns the deviations (F,), and the indices of features that are not constant.
        """
        low = self.features.min(axis=1, initial=np.inf)
        high = self.features.max(axis=1, initial=-np.inf)
        total = np.ones(len(self.pair))
        self._apply_weights(total, slice(None))
        unit = np.maximum(np.abs(low), np.abs(high))
        unit[(unit == 0) | np.isinf(unit)] = 1
        deviations = np.zeros(len(unit))
        for place, row in enumerate(self.features):
            row /= unit[place]
            deviations[place] = math.sqrt((row * row) @ total / max(float(total.sum()), 1e-300))
            row /= deviations[place] or 1
        return unit * deviations, np.flatnonzero(low < high).tolist()

    def choose(self, features: list[int]) -> "StyledVotes":
        """The same votes with only these features."""
        if len(features) == len(self.features):
            return self
        return replace(self, features=self.features[features])

    def derivatives(self, x: Floats) -> tuple[Floats, Floats]:
        """The gradient (K + F,) at (theta, beta), and the information (K + F, K + F)."""
        total, moments = np.zeros(len(self.left)), self._moments()
        slope = np.zeros(len(self.features))
        for part, _, chance in self._chunks(x):
            pair, features = self.pair[part], self.features[:, part]
            bend, residual = chance * (1 - chance), self.score[part] - chance
            for values in (bend, residual):
                self._apply_weights(values, part)
            total += np.bincount(pair, residual, len(total))
            slope += features @ residual
            moments.add(pair, bend, features)
        size = self.n_candidates
        gradient = summed(self.left, total, size) - summed(self.right, total, size)
        return np.concatenate([gradient, slope]), moments.matrix(self.left, self.right, size)

    def log_likelihood(self, x: Floats) -> float:
        """In nats."""
        total = 0.0
        for part, gap, _ in self._chunks(x):
            loss = np.log1p(np.exp(-np.abs(gap))) + np.maximum(gap, 0)
            each = self.score[part] * gap - loss
            self._apply_weights(each, part)
            total += float(each.sum())
        return total

    def meat(self, x: Floats) -> Floats:
        """(K + F, K + F): the sum over clusters of u u', u a cluster's share of the gradient."""
        return self._meat_of_votes(x) if self.cluster is None else self._meat_of(x, self.cluster)

    def _meat_of_votes(self, x: Floats) -> Floats:
        moments = self._moments()
        for part, _, chance in self._chunks(x):
            residual = self.score[part] - chance
            square = residual * residual
            if self.weight is not None:
                square *= self.weight[part] ** 2
            if self.count is not None:
                square *= self.count[part]
            moments.add(self.pair[part], square, self.features[:, part])
        return moments.matrix(self.left, self.right, self.n_candidates)

    def _meat_of(self, x: Floats, cluster: Ints) -> Floats:
        residual = np.empty(len(self.pair))
        for part, _, chance in self._chunks(x):
            residual[part] = self.score[part] - chance
            self._apply_weights(residual[part], part)
        strengths = self._per_cluster(residual, cluster)
        shared = [np.bincount(cluster, row * residual) for row in self.features]
        styles = np.stack(shared, axis=1) if shared else np.zeros((self.n_clusters, 0))
        total = np.zeros((self.n_candidates + len(shared),) * 2)
        for start in range(0, self.n_clusters, BLOCK):
            part = slice(start, start + BLOCK)
            rows = strengths[part]
            dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
            block = np.hstack([dense, styles[part]])
            total += block.T @ block
        return total

    def _per_cluster(self, residual: Floats, cluster: Ints) -> Floats | csr_array:
        """(G, K): each cluster's share of the gradient; sparse if clusters are small."""
        shape = self.n_clusters, self.n_candidates
        if math.prod(shape) > DENSE * len(residual):
            column = np.concatenate([self.left[self.pair], self.right[self.pair]])
            entries = np.concatenate([residual, -residual]), (np.tile(cluster, 2), column)
            return csr_array(entries, shape=shape)
        total = np.zeros(math.prod(shape))
        for side, values in ((self.left, residual), (self.right, -residual)):
            cell = cluster * self.n_candidates
            cell += side[self.pair]
            total += summed(cell, values, len(total))
        return total.reshape(shape)

    def _chunks(self, x: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
        """For each chunk: its slice, log-odds, and probabilities that left is preferred."""
        theta, beta = x[: self.n_candidates], x[self.n_candidates :]
        apart = theta[self.left] - theta[self.right]
        step = max(CHUNK, 2 * len(apart))  # so that summing per pair does not dominate
        for start in range(0, len(self.pair), step):
            part = slice(start, start + step)
            gap = apart[self.pair[part]] + beta @ self.features[:, part]
            yield part, gap, expected_score(gap)

    def _apply_weights(self, values: Floats, part: slice) -> None:
        """Multiply values by each vote's weight and count, in place."""
        if self.weight is not None:
            values *= self.weight[part]
        if self.count is not None:
            values *= self.count[part]

    def _moments(self) -> "_Moments":
        return _Moments(len(self.left), len(self.features))


def _mask_of_kept(
    ranked: Bools, left: Ints, right: Ints, weight: Floats | None, count: Ints | None
) -> Bools | None:
    """Mask of votes between ranked candidates with weight and count above 0; None if all are."""
    masks = [] if ranked.all() else [ranked[left] & ranked[right]]
    masks += [column > 0 for column in (weight, count) if column is not None]
    keep: Bools = np.logical_and.reduce(masks) if masks else np.ones(1, np.bool_)
    return None if keep.all() else keep


class _Moments:
    """The sum over votes of value * x x', x the contrast of candidates and the features."""

    def __init__(self, n_pairs: int, n_features: int) -> None:
        self._square = np.zeros(n_pairs)
        self._cross = np.zeros((n_features, n_pairs))
        self._gram = np.zeros((n_features, n_features))

    def add(self, pair: Ints, value: Floats, features: Floats) -> None:
        """Add a chunk: (c,) pairs and values, (F, c) features."""
        scaled = features * value
        self._square += np.bincount(pair, value, len(self._square))
        for row, scaled_row in zip(self._cross, scaled, strict=True):
            row += np.bincount(pair, scaled_row, len(row))
        self._gram += scaled @ features.T

    def matrix(self, left: Ints, right: Ints, size: int) -> Floats:
        """The sum as a (K + F, K + F) matrix."""
        whole = np.zeros((size + len(self._gram),) * 2)
        strengths = whole[:size, :size]
        strengths[left, right] = -self._square
        strengths += strengths.T.copy()
        np.fill_diagonal(strengths, -strengths.sum(axis=1))
        for place, row in enumerate(self._cross, size):
            cross = summed(left, row, size) - summed(right, row, size)
            whole[:size, place] = whole[place, :size] = cross
        whole[size:, size:] = self._gram
        return whole


VANISHING_INFORMATION = 1e-9  # of a feature's own information; less is rounding
TAKES_PART = 1e-6  # of a linear combination of length 1


class NoStyle(StrEnum):
    """Why a style coefficient, or style-controlled scores, cannot be estimated."""

    CONSTANT = "constant"
    COLLINEAR = "collinear"
    OF_CANDIDATES = "of_candidates"
    SEPARATED = "separated"

    @property
    def reason(self) -> str:
        """One sentence for a page."""
        return _REASONS[self]


_REASONS = {
    NoStyle.CONSTANT: "It is the same in every vote.",
    NoStyle.COLLINEAR: "It always varies together with other features, so their effects cannot be "
    "separated.",
    NoStyle.OF_CANDIDATES: "It depends only on the candidate, so style and strength cannot be "
    "separated.",
    NoStyle.SEPARATED: "Style and strength predict every vote, so no finite coefficients fit best.",
}


@dataclass(frozen=True)
class Identifiability:
    """Which of F style coefficients the votes can identify.

    Attributes
    ----------
    status : F of `NoStyle` or None, why a coefficient is not identified
    fitted : indices of features that span the same space as all
    strengths : whether scores are identified too
    """

    status: tuple[NoStyle | None, ...]
    fitted: list[int]
    strengths: bool


def identify(information: Floats, n_strengths: int) -> Identifiability:
    """Identify from the information (K + F, K + F) at any finite parameters; no feature is all 0.

    A linear combination of features that adds no information to the strengths is either determined
    by the candidates or zero throughout; its own information shows which.
    """
    style = information[n_strengths:, n_strengths:]
    unit = np.sqrt(style.diagonal())
    scaled = np.outer(unit, unit)
    rest, style = shared_information(information, n_strengths) / scaled, style / scaled
    values, vectors = np.linalg.eigh(rest)
    blind = vectors[:, values < VANISHING_INFORMATION]
    weights, mixtures = np.linalg.eigh(blind.T @ style @ blind)
    of_candidates = blind @ mixtures[:, weights > VANISHING_INFORMATION]
    status = tuple(
        NoStyle.OF_CANDIDATES if follows else NoStyle.COLLINEAR if is_blind else None
        for follows, is_blind in zip(_takes_part(of_candidates), _takes_part(blind), strict=True)
    )
    return Identifiability(status, _independent_features(rest), not of_candidates.size)


def _takes_part(mixtures: Floats) -> list[bool]:
    """Which features take part in any of the linear combinations, (F, M)."""
    return [bool(row @ row > TAKES_PART**2) for row in mixtures]


def _independent_features(rest: Floats) -> list[int]:
    """The features that add information to the chosen features before them."""
    chosen: list[int] = []
    for place in range(len(rest)):
        among = rest[np.ix_(chosen, chosen)]
        cross = rest[chosen, place]
        new = rest[place, place] - (cross @ np.linalg.solve(among, cross) if chosen else 0.0)
        if new > VANISHING_INFORMATION:
            chosen.append(place)
    return chosen


@dataclass(eq=False)
class StyledFit:
    """Estimates for R ranked candidates and F coefficients; NaN if there is none.

    Attributes
    ----------
    x : (R + F,) strengths of mean 0, then coefficients per standard deviation
    covariance : (R + F, R + F), cluster-robust
    status : F of `NoStyle` or None, why a coefficient is unknown
    reason : `NoStyle` if there are no scores, or None
    log_likelihood, n_iter : float in nats, and the number of Newton steps
    """

    x: Floats
    covariance: Floats
    status: list[NoStyle | None]
    reason: NoStyle | None = None
    log_likelihood: float = math.nan
    n_iter: int = 0

    @classmethod
    def nothing(cls, n_candidates: int, n_features: int) -> "StyledFit":
        """The estimates if no candidate is ranked."""
        size = n_candidates + n_features
        return cls(np.full(size, np.nan), np.full((size, size), np.nan), [None] * n_features)


def fit_style(votes: StyledVotes, varies: list[int], theta: Floats, robust: bool) -> StyledFit:
    """Fit standardised votes, starting from the plain strengths (R,).

    ``varies``: the features that are not constant; ``robust``: whether errors can be estimated.
    Raises NotConvergedError.
    """
    size = len(theta)
    fit = StyledFit.nothing(size, len(votes.features))
    fit.status = [None if j in varies else NoStyle.CONSTANT for j in range(len(votes.features))]
    start = np.concatenate([theta, np.zeros(len(varies))])
    gradient, information = votes.choose(varies).derivatives(start)
    identified = identify(information, size)
    for place, reason in zip(varies, identified.status, strict=True):
        fit.status[place] = reason
    keep = np.array([*range(size), *(size + j for j in identified.fitted)])
    chosen = votes.choose([varies[j] for j in identified.fitted])
    at_start = gradient[keep], information[np.ix_(keep, keep)]
    try:
        x, information, fit.n_iter = maximise_joint(chosen.derivatives, start[keep], at_start, size)
    except NoMaximumError:
        fit.reason = NoStyle.SEPARATED
        return fit
    fit.log_likelihood = chosen.log_likelihood(x)
    fit.reason = None if identified.strengths else NoStyle.OF_CANDIDATES
    places = np.array([*range(size), *(size + varies[j] for j in identified.fitted)])
    fit.x[places] = x
    if robust:
        bread = covariance(information, size)
        sandwich = bread @ chosen.meat(x) @ bread * small_sample(chosen.n_clusters) ** 2
        fit.covariance[np.ix_(places, places)] = sandwich
    # A parameter that is not identified has many values that fit equally well.
    unknown: Ints = np.array(
        [fit.reason is not None] * size + [reason is not None for reason in fit.status]
    ).nonzero()[0]
    fit.x[unknown] = np.nan
    fit.covariance[unknown] = np.nan
    fit.covariance[:, unknown] = np.nan
    return fit


def style_differences(of_left: ArrayLike, of_right: ArrayLike) -> Floats:
    """(n, F): (left - right) / (left + right), from -1 to 1; 0 where both are 0.

    Parameters
    ----------
    of_left, of_right : (n, F) counts of each answer: words, headings, list items, bold spans

    Raises ValueError unless both are (n, F), finite and not negative.
    Reference: Li, Angelopoulos and Chiang 2024, "Does style matter?".
    """
    left, right = _table("of_left", of_left), _table("of_right", of_right)
    if left.shape != right.shape:
        raise ValueError(f"of_right is of shape {right.shape} where of_left is of {left.shape}")
    for name, table in (("of_left", left), ("of_right", right)):
        if (table < 0).any():
            raise ValueError(f"{name} must not be negative")
    both = left / 2 + right / 2  # halves do not overflow
    return np.divide(left / 2 - right / 2, both, out=np.zeros_like(both), where=both > 0)


@dataclass(eq=False)
class StyledBradleyTerry:
    """Bradley-Terry with F style coefficients that all candidates share.

    The log-odds of a vote are theta_left - theta_right + sum of coefficient * difference, each
    difference divided by its standard deviation about 0 (its sign depends on which answer is on
    the left, so 0 is its centre). A score then compares candidates at equal style, and a
    coefficient is the effect of one standard deviation of style.

    Parameters
    ----------
    scale : Elo points for odds of 10 to 1
    center : the mean rating of the ranked candidates
    confidence : of the intervals, which use t quantiles with G - 1 degrees of freedom

    Attributes (K candidates, F features; NaN for what is unknown)
    ----------
    ratings_, standard_errors_, low_, high_ : (K,) Elo
    theta_ : (K,) natural log-odds, of mean 0 over the ranked
    coefficients_, coefficient_errors_, coefficient_low_, coefficient_high_ : (F,) natural log-odds
        per standard deviation
    deviations_ : (F,) the standard deviations; 0 for a feature that is 0 throughout
    coefficient_status_ : F of `NoStyle` or None, why a coefficient is unknown
    covariance_ : (K, K) of theta with mean 0, cluster-robust with G / (G - 1)
    log_likelihood_ : float, nats, over the votes between ranked candidates
    status_, ranked_, components_ : as in `BradleyTerry`
    reason_ : `NoStyle` if there are no scores, `NoInterval` if there are no intervals, or None
    n_clusters_ : G, between ranked candidates
    converged_, n_iter_ : True, and the number of Newton steps; `fit` raises if it does not converge
    """

    scale: float = 400.0
    center: float = 1000.0
    confidence: float = 0.95

    def fit(
        self,
        left: ArrayLike,
        right: ArrayLike,
        score: ArrayLike,
        features: ArrayLike,
        weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        n_candidates: int | None = None,
        count: ArrayLike | None = None,
    ) -> "StyledBradleyTerry":
        """Fit n votes; arguments as for `Battles.from_arrays`, and ``features``, (n, F) floats.

        Raises ValueError naming the argument; NotConvergedError.
        """
        check_confidence(self.confidence)
        battles = Battles.from_arrays(left, right, score, weight, None, n_candidates, count)
        styles = _table("features", features)
        n_votes = len(np.asarray(left))
        if len(styles) != n_votes:
            raise ValueError(f"features has {len(styles)} entries where left has {n_votes}")
        groups = None if cluster is None else arrays.integers("cluster", cluster, n_votes)
        plain = BradleyTerry(self.scale, self.center).fit(battles)
        votes = StyledVotes.between(
            plain.ranked_, left, right, score, styles, weight, count, groups
        )
        self.ranked_: Bools = plain.ranked_
        self.components_: Ints = plain.components_
        self.status_: tuple[Status, ...] = plain.status_
        self.n_clusters_ = votes.n_clusters
        no_interval = why_none(votes.n_clusters, bool((votes.score != 0.5).any()))
        self.deviations_, fit = _fit_or_nothing(plain, votes, robust=no_interval is None)
        self.coefficient_status_ = tuple(fit.status)
        self.log_likelihood_ = fit.log_likelihood
        self.n_iter_, self.converged_ = fit.n_iter, True
        self.reason_: NoStyle | NoInterval | None = fit.reason or no_interval
        quantile = 0.0 if no_interval else t_quantile(self.confidence, self.n_clusters_)
        size, points = int(plain.ranked_.sum()), plain.elo_per_theta
        errors: Floats = np.sqrt(fit.covariance.diagonal().clip(min=0)) * points
        errors[errors < VANISHING] = np.nan
        if self.reason_ is None and np.isnan(errors).all():
            self.reason_ = NoInterval.NO_VARIATION
        self.theta_: Floats = plain.spread(fit.x[:size])
        self.ratings_: Floats = plain.spread(plain.elo(fit.x[:size]))
        self.standard_errors_: Floats = plain.spread(errors[:size])
        self.low_: Floats = self.ratings_ - quantile * self.standard_errors_
        self.high_: Floats = self.ratings_ + quantile * self.standard_errors_
        self.coefficients_: Floats = fit.x[size:]
        self.coefficient_errors_: Floats = errors[size:] / points
        self.coefficient_low_: Floats = self.coefficients_ - quantile * self.coefficient_errors_
        self.coefficient_high_: Floats = self.coefficients_ + quantile * self.coefficient_errors_
        self.covariance_: Floats = plain.spread_square(fit.covariance[:size, :size])
        return self


def _fit_or_nothing(
    plain: BradleyTerry, votes: StyledVotes, robust: bool
) -> tuple[Floats, StyledFit]:
    """The features' standard deviations (F,), and the fit."""
    n_features = len(votes.features)
    if not plain.ranked_.any():
        return np.full(n_features, np.nan), StyledFit.nothing(0, n_features)
    deviations, varies = votes.standardise()
    return deviations, fit_style(votes, varies, plain.theta_[plain.ranked_], robust)


def _table(name: str, values: ArrayLike) -> Floats:
    """(n, F) finite floats."""
    array = np.asarray(values)
    if array.ndim != 2:
        raise ValueError(f"{name} must be of shape (n, F), not {array.shape}")
    if array.size and array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, not {array.dtype}")
    table = array.astype(np.float64, copy=False)
    finite = np.isfinite(table)
    if not finite.all():
        row = int(np.argmin(finite.all(axis=1)))
        raise ValueError(f"{name} must be finite; row {row} is {table[row].tolist()}")
    return table
