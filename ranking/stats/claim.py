"""What the votes between two candidates, A and B, allow to be said: the Claim.

A vote scores 1 if B wins, 0 for a tie and -1 if A wins. Votes on one prompt are alike, and so are
votes by one rater, so a claim is tested over groups of them, by e-values: if A and B are alike, an
e-value ever reaches 40 with a probability of at most 1 in 40, however often one looks (Ville 1939).
A claim in either direction is then false in at most 5 %.

Prompts: betting on the mean score of each prompt (Waudby-Smith and Ramdas 2024). With one vote a
prompt it is Robbins' beta-binomial mixture (1970). A vote for B never weakens a claim for B.

Raters, and documents that prompts come from: a t mixture over their means, whose effect size is
Cauchy (Rouder et al. 2009; Wang and Ramdas, arXiv 2310.03722), with jackknife errors.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln, ndtr, ndtri, stdtrit, xlog1py, xlogy

from ranking.stats.arrays import Bools, Floats, Ints, codes, summed
from ranking.stats.intervals import RATER_SHARE, capped_weights, largest_share

ALPHA = 0.05  # both directions together
ENOUGH = math.log(2 / ALPHA)
MIN_RATERS = 3  # fewer say nothing about others
TAU = 0.2878  # of scores; the standard deviation of true differences, 100 Elo
TYPICAL_TASTE = 0.15**2  # variance of raters' mean scores, before many are known
TYPICAL_RATERS = 4  # that this guess counts for
MOST = 100_000  # more prompts or votes are not forecast
FUTILE = 0.025  # a decision at the planned end that is less probable is not waited for
GRID = 60  # steps of a score; means of up to six votes are exact
TRIFLE = 1e-6  # of a total score; sums of them are more exact
LONGEST_PLAN = 2_000
DIFFERENCES = 32  # over which a mean is taken
TOSSES = 1_000  # that stand for normal errors
MANY_GROUPS = 10**6  # stand for infinitely many
MOST_GAPS = 2_000  # between candidates, whose e-values are computed one by one
TYPICAL_GAP = 60 * math.log(10) / 400  # natural log-odds; of leaderboards, 60 Elo
HALVINGS = 25  # of an interval's ends, to 1e-7 of the score
BETS: Floats = (np.arange(64) + 0.5) / 64
EFFECTS: Floats = ndtri(0.5 + (np.arange(256) + 0.5) / 512) ** -2.0  # inverse gamma (1/2, 1/2)


class Verdict(StrEnum):
    """What is said of B, compared with A."""

    BETTER = "better"
    WORSE = "worse"
    NO_WORSE = "no_worse"
    OPEN = "open"
    CANNOT_TELL = "cannot_tell"


class Scope(StrEnum):
    """Whom a claim is about, besides prompts like these."""

    JUDGE = "judge"
    THESE_RATERS = "these_raters"
    RATERS = "raters"


class Unit(StrEnum):
    """What may be missing."""

    PROMPTS = "prompts"
    DOCUMENTS = "documents"
    RATERS = "raters"
    VOTES = "votes"


@dataclass(frozen=True)
class Missing:
    """How many more of what would settle it, as a median; None if no number is known to.

    `on_new_prompts`: these raters, or votes, settle it on new prompts only.
    """

    unit: Unit
    number: int | None
    on_new_prompts: bool = False


@dataclass(frozen=True)
class Look:
    """When a claim is tested: the last registered look, 0 before the first; or, without `looks`,
    after every vote."""

    number: int = 0
    looks: int = 0
    size: int = 0


@dataclass(frozen=True)
class Claim:
    """What is said of B, compared with A, and to whom it applies.

    Attributes
    ----------
    verdict, scope : as above
    win_rate, low, high : of B, from 0 to 1, ties as halves, prompts counting equally (votes, where
        the scope is "raters"); the interval excludes 0.5 exactly where B is better or worse; None
        without votes
    for_b, for_a : e-values; 40 decides
    n_votes, n_prompts, n_documents, n_raters : behind it; 0 documents if none are given
    missing : None once decided
    is_kept : whether it was decided at an earlier look, whose win rate and interval these are, and
        newer votes no longer support it
    no_votes_settle : whether no number of votes by these raters will settle it
    parts : shares of the uncertainty by source ("votes", "prompts", "raters"), which add up to 1
    wider : the claim about raters like these, where only one about these raters can be made
    """

    verdict: Verdict
    scope: Scope
    win_rate: float | None = None
    low: float | None = None
    high: float | None = None
    for_b: float = 1.0
    for_a: float = 1.0
    n_votes: int = 0
    n_prompts: int = 0
    n_documents: int = 0
    n_raters: int = 0
    look: Look = Look()
    missing: Missing | None = None
    is_kept: bool = False
    no_votes_settle: bool = False
    parts: dict[str, float] = field(default_factory=dict)
    wider: "Claim | None" = None

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Claim":
        """What `json` gave, as far as a later look needs it."""
        wider = stored["wider"]
        return cls(
            Verdict(stored["verdict"]),
            Scope(stored["scope"]),
            win_rate=stored["win_rate"],
            low=stored["low"],
            high=stored["high"],
            for_b=stored["e_better"],
            for_a=stored["e_worse"],
            wider=wider and cls.of(wider),
        )

    @property
    def is_decided(self) -> bool:
        return self.verdict in (Verdict.BETTER, Verdict.WORSE)

    @property
    def reversed(self) -> "Claim":
        """The claim about A, compared with B."""
        turned = {
            Verdict.BETTER: Verdict.WORSE,
            Verdict.WORSE: Verdict.BETTER,
            Verdict.NO_WORSE: Verdict.OPEN,
        }
        return replace(
            self,
            verdict=turned.get(self.verdict, self.verdict),
            win_rate=None if self.win_rate is None else 1 - self.win_rate,
            low=None if self.high is None else 1 - self.high,
            high=None if self.low is None else 1 - self.low,
            for_b=self.for_a,
            for_a=self.for_b,
            wider=self.wider and self.wider.reversed,
        )

    @property
    def json(self) -> dict[str, Any]:
        """As the API, exports and commands give it."""
        missing = self.missing
        return {
            "verdict": self.verdict.value,
            "scope": self.scope.value,
            "win_rate": self.win_rate,
            "low": self.low,
            "high": self.high,
            "e_better": self.for_b,
            "e_worse": self.for_a,
            "votes": self.n_votes,
            "prompts": self.n_prompts,
            "documents": self.n_documents,
            "raters": self.n_raters,
            "look": {"number": self.look.number, "looks": self.look.looks, "size": self.look.size}
            if self.look.looks
            else None,
            "missing": missing and {"unit": missing.unit.value, "number": missing.number},
            "kept": self.is_kept,
            "no_votes_settle": self.no_votes_settle,
            "parts": self.parts,
            "wider": self.wider and self.wider.json,
        }


@dataclass(frozen=True, eq=False)
class DirectVotes:
    """The votes between A and B, as columns of N.

    Attributes
    ----------
    score : from -1, for A, to 1, for B
    prompt, rater, document : codes of any value; None where unknown. Without prompts every vote is
        taken as a prompt of its own
    is_judged : whether raters are judges, who are no sample of others
    rater_share : how much one rater may weigh
    """

    score: Floats
    prompt: Ints | None = None
    rater: Ints | None = None
    document: Ints | None = None
    is_judged: bool = False
    rater_share: float = RATER_SHARE

    def first(self, n: int) -> "DirectVotes":
        """The votes at an earlier look."""
        return replace(
            self,
            score=self.score[:n],
            prompt=None if self.prompt is None else self.prompt[:n],
            rater=None if self.rater is None else self.rater[:n],
            document=None if self.document is None else self.document[:n],
        )


@dataclass(frozen=True, eq=False)
class Bets:
    """Bets on the mean scores of prompts: (V,) distinct values, and how many prompts have each."""

    values: Floats
    counts: Floats

    @classmethod
    def of(cls, score: Floats, group: Ints, n_groups: int) -> "Bets":
        """`group`: (N,) codes from 0."""
        means = summed(group, score, n_groups) / np.bincount(group, minlength=n_groups)
        values, counts = np.unique(np.round(means, 12), return_counts=True)
        return cls(values, counts.astype(np.float64))

    @property
    def mean(self) -> float:
        return float(self.values @ self.counts / self.counts.sum())

    def evidence(self, theta: float = 0.0, side: int = 1) -> float:
        """The log e-value of "`side` times the mean is above theta", for theta above -1."""
        won = (side * self.values - theta) / (1 + theta)
        return _log_mean(self.counts @ np.log1p(won[:, None] * BETS))

    def to_go(self) -> int | None:
        """How many more prompts decide, if the true mean is as forecast; None if `MOST` do not.

        The variance of the mean is taken where a flat prior puts it, since a few prompts may agree
        by chance.
        """
        size = float(self.counts.sum())
        square = float(self.values**2 @ self.counts) / size
        mean = shrunk(self.mean, (square - (self.mean * size / (size + 2)) ** 2) / size)
        if not mean:
            return None
        each = math.sqrt(square)
        won = min(1.0, (1 + abs(mean) / each) / 2)
        growth = won * np.log1p(each * BETS) + (1 - won) * np.log1p(-each * BETS)
        so_far = self.counts @ np.log1p(math.copysign(1, mean) * self.values[:, None] * BETS)
        return _least(lambda n: _log_mean(so_far + n * growth) >= ENOUGH)


@dataclass(frozen=True, eq=False)
class Means:
    """A t test over the mean scores of groups.

    Attributes
    ----------
    mean, variance : of all votes, the variance by the jackknife (CR3)
    null : what (weights' squares times (score - theta)^2) sums to: its coefficients in theta. The
        variance is at least that of independent votes whose mean is theta, because a few groups may
        agree by chance
    n_groups : their effective number (Kish 1965)
    """

    mean: float
    variance: float
    null: tuple[float, float, float]
    n_groups: float

    @classmethod
    def of(cls, score: Floats, weight: Floats, group: Ints, n_groups: int) -> "Means":
        of_group, points = summed(group, weight, n_groups), summed(group, weight * score, n_groups)
        total = of_group.sum()
        mean = float(points.sum() / total)
        moved = (points.sum() - points) / np.maximum(total - of_group, 1e-12) - mean
        squares = weight**2 / total**2
        return cls(
            mean,
            float((n_groups - 1) / n_groups * (moved**2).sum()),
            (float(squares @ score**2), float(-2 * squares @ score), float(squares.sum())),
            float(total**2 / (of_group**2).sum()),
        )

    def to_go(self) -> int | None:
        """How many more groups as large as these decide; None if no forecast finds a number."""
        variance, size = self.variance_if(0.0), max(self.n_groups, 1.0)
        mean = abs(shrunk(self.mean, self.likely_variance))

        def enough(more: int) -> bool:
            groups = size + more
            return t_evidence(mean / math.sqrt(variance * size / groups), groups) >= ENOUGH

        return _least(enough) if mean else None

    def variance_if(self, theta: float) -> float:
        """Of the mean, if the true one is theta."""
        constant, linear, square = self.null
        return max(self.variance, constant + linear * theta + square * theta**2)

    @property
    def likely_variance(self) -> float:
        """Of the mean, if the true one is where a flat prior puts it."""
        return self.variance_if(self.mean / (1 + 2 * self.null[2]))

    def evidence(self, theta: float = 0.0, side: int = 1) -> float:
        lead = side * self.mean - theta
        error = math.sqrt(self.variance_if(side * theta))
        return t_evidence(lead / error, self.n_groups) if lead > 0 and error else -math.inf


def t_evidence(t: float, n_groups: float) -> float:
    """The log e-value of a difference of t standard errors above 0, from G groups.

    0 is the null value, effect sizes of both signs are Cauchy, and what they say together counts
    for the side of t; minus infinity for fewer than three groups.
    """
    if n_groups <= 2 or not t > 0:
        return -math.inf
    return math.log(2) + _log_mean(t_likelihood(t, n_groups - 1, n_groups * EFFECTS))


def t_likelihood(t: float | Floats, freedom: float, spread: Floats) -> Floats:
    """The log ratio of the likelihoods of t: if the true difference varies normally, with `spread`
    the ratio of its variance to the squared error, and if it is 0."""
    ratio = np.log1p(t**2 / freedom) - np.log1p(t**2 / (freedom * (1 + spread)))
    logs: Floats = ((freedom + 1) * ratio - np.log1p(spread)) / 2
    return logs


def possible_leaders(theta: Floats, covariance: Floats, n_groups: int | None) -> Bools:
    """(K,) mask of the candidates that could be the best, at every look.

    A candidate leaves when the mean over the others of the e-values of "this one is ahead of it"
    reaches 40. Each of them is half that of a t mixture of Cauchy effect sizes, which finds large
    leads from few groups, and half that of normal differences of 60 Elo, which finds small ones
    from many. Means of e-values are e-values, however these depend on one another (Vovk and Wang
    2021). Candidates with an unknown strength are not among them.

    Parameters
    ----------
    theta, covariance : (K,) natural log-odds, NaN if unknown, and (K, K) of it
    n_groups : the effective number of groups of votes; None for practically infinitely many
    """
    known = ~np.isnan(theta) & ~np.isnan(covariance.diagonal())
    inner, strength = covariance[np.ix_(known, known)], theta[known]
    gap = strength[:, None] - strength
    variance = inner.diagonal()[:, None] + inner.diagonal() - 2 * inner
    is_ahead = (gap > 0) & (variance > 1e-12 * inner.diagonal().max(initial=0.0))
    z = np.divide(gap, np.sqrt(variance.clip(min=1e-300)), out=np.zeros_like(gap), where=is_ahead)
    at = np.unique(np.append(z, 0.0))
    if len(at) > MOST_GAPS:
        at = np.linspace(0.0, float(at[-1]), MOST_GAPS)
    groups = MANY_GROUPS if n_groups is None else n_groups
    cauchy = np.interp(z, at, [t_evidence(t, groups) if t else -math.inf for t in at])
    spread = TYPICAL_GAP**2 / variance.clip(min=1e-300)
    normal = math.log(2) + t_likelihood(z, max(groups - 1, 1), spread)
    logs = np.logaddexp(cauchy, normal) - math.log(2)
    mean = np.logaddexp.reduce(np.where(is_ahead, logs, -np.inf), axis=0, initial=-np.inf)
    could: Bools = np.zeros(len(theta), np.bool_)
    could[known] = mean - math.log(max(len(strength) - 1, 1)) < ENOUGH
    return could


def _log_mean(logs: Floats) -> float:
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).mean()))


def _least(enough: Callable[[int], bool], most: int = MOST) -> int | None:
    """The least number from 1 to `most` that is enough; None if none is."""
    high = 1
    while not enough(high):
        high *= 2
        if high > most:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def claim(
    votes: DirectVotes,
    kept: Claim | None = None,
    margin: float | None = None,
    family: int = 1,
) -> Claim:
    """Say what these votes allow.

    `kept`: the claim of an earlier look, all of whose votes are among these: what was decided then
    stays decided, because e-values may be looked at whenever one likes. `margin`: a win rate above
    it, below 0.5, is "no worse". `family`: how many are compared with A, each at its share of the
    error.
    """
    size, enough = len(votes.score), ENOUGH + math.log(family)
    scope = Scope.JUDGE if votes.is_judged else Scope.THESE_RATERS
    if not size:
        return Claim(Verdict.OPEN, scope, missing=Missing(Unit.PROMPTS, None))
    tests, means = tests_of(votes)
    prompt, n_prompts = codes(np.arange(size) if votes.prompt is None else votes.prompt)
    rater, n_raters = (None, 0) if votes.rater is None else codes(votes.rater)
    n_documents = 0 if votes.document is None else codes(votes.document)[1]
    parts = variance_parts(votes.score, prompt, None if means is None else rater)
    found = Claim(
        Verdict.OPEN,
        scope,
        win_rate=(1 + tests[0].mean) / 2,
        n_votes=size,
        n_prompts=n_prompts,
        n_documents=n_documents,
        n_raters=n_raters,
        parts=shares(parts),
    )
    narrow = _with_missing_prompts(_tested(found, tests, kept, margin, enough), tests)
    if means is None:
        return narrow
    found = replace(found, scope=Scope.RATERS, win_rate=(1 + means.mean) / 2)
    wide = _tested(found, [*tests, means], kept, margin, enough)
    if wide.is_decided:
        return wide
    return replace(narrow, wider=_with_missing_raters(wide, means, parts))


def tests_of(votes: DirectVotes) -> tuple[list[Bets | Means], Means | None]:
    """What a claim about this judge, or these raters, has to pass at 40 (over prompts, and over
    documents if they are known), and what one about raters like these has to pass besides; None
    if no sample of raters is known. There must be votes.
    """
    size = len(votes.score)
    bets = Bets.of(votes.score, *codes(np.arange(size) if votes.prompt is None else votes.prompt))
    tests: list[Bets | Means] = [bets]
    if votes.document is not None:
        tests.append(Means.of(votes.score, np.ones(size), *codes(votes.document)))
    if votes.rater is None or votes.is_judged:
        return tests, None
    rater, n_raters = codes(votes.rater)
    weight = rater_weights(rater, n_raters, votes.rater_share)
    return tests, Means.of(votes.score, weight, rater, n_raters)


def rater_weights(rater: Ints, n_raters: int, share: float) -> Floats:
    """(N,) what each vote weighs where no rater may weigh more than this share."""
    cast = np.bincount(rater, minlength=n_raters).astype(np.float64)
    weight: Floats = capped_weights(cast, largest_share(n_raters, share))[rater]
    return weight


def decides(tests: Sequence[Bets | Means]) -> bool:
    """Whether all of these tests confirm one direction."""
    return any(all(test.evidence(0.0, side) >= ENOUGH for test in tests) for side in (1, -1))


def decided_together(claims: Sequence[Claim]) -> list[bool]:
    """Which of several claims about one baseline hold with all of them taken together (e-BH).

    Of m claims, the k with the largest e-values hold, with the largest k for which the smallest of
    these e-values reaches 40 m / k: at most 5 % of those that hold are then expected to be false,
    however they depend on one another (Wang and Ramdas 2022).
    """
    logs = [math.log(max(claim.for_b, claim.for_a, 1e-300)) for claim in claims]
    order, m = sorted(logs, reverse=True), len(logs)
    k = max((k for k in range(1, m + 1) if order[k - 1] >= ENOUGH + math.log(m / k)), default=0)
    least = ENOUGH + math.log(m / k) if k else math.inf
    return [evidence >= least for evidence in logs]


def _tested(
    found: Claim,
    tests: Sequence[Bets | Means],
    kept: Claim | None,
    margin: float | None,
    enough: float,
) -> Claim:
    """The claim with what all of these tests confirm; and what was decided before stays."""
    earlier = (one for one in (kept, kept and kept.wider) if one and one.scope is found.scope)
    before = next(earlier, None)
    for_b, for_a = (min(test.evidence(0.0, side) for test in tests) for side in (1, -1))
    low, above = (min(_bound(test, side, enough) for test in tests) for side in (1, -1))
    found = replace(
        found,
        low=(1 + low) / 2,
        high=(1 - above) / 2,
        for_b=math.exp(min(for_b, 700.0)),
        for_a=math.exp(min(for_a, 700.0)),
    )
    if max(for_b, for_a) >= enough:
        return replace(found, verdict=Verdict.BETTER if for_b > for_a else Verdict.WORSE)
    if before is None or not before.is_decided:
        assert found.low is not None
        is_no_worse = margin is not None and found.low > margin
        return replace(found, verdict=Verdict.NO_WORSE if is_no_worse else Verdict.OPEN)
    return replace(
        found,
        verdict=before.verdict,
        win_rate=before.win_rate,
        low=before.low,
        high=before.high,
        for_b=max(found.for_b, before.for_b),
        for_a=max(found.for_a, before.for_a),
        is_kept=True,
    )


def _bound(test: Bets | Means, side: int, enough: float) -> float:
    """The largest theta from -1 to 1 that `side` times the mean score is known to exceed."""
    decided = test.evidence(0.0, side) >= enough
    low, high = (0.0, 1.0) if decided else (-1.0, 0.0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if test.evidence(middle, side) >= enough else (low, middle)
    return low


def shrunk(mean: float, variance: float) -> float:
    """What further votes are expected to say, given how large true differences are (`TAU`)."""
    return mean * TAU**2 / (TAU**2 + variance)


def _with_missing_prompts(found: Claim, tests: Sequence[Bets | Means]) -> Claim:
    """What else this judge, or these raters, have to see."""
    if found.is_decided:
        return found
    for test in reversed(tests):  # prompts of the same few documents do not help
        if isinstance(test, Means) and max(test.evidence(0.0, s) for s in (1, -1)) < ENOUGH:
            return replace(found, missing=Missing(Unit.DOCUMENTS, test.to_go()))
        if isinstance(test, Bets):
            return replace(found, missing=Missing(Unit.PROMPTS, test.to_go()))
    return found


def _with_missing_raters(found: Claim, means: Means, parts: dict[str, float]) -> Claim:
    """What would make it a claim about raters like these, with the fewest votes.

    What raters differ by is pooled with `TYPICAL_RATERS` raters of typical taste. More votes by the
    same raters do not shrink it, and more votes on the same prompts not what these differ by. The
    bets on prompts are forecast as if they were a t test.
    """
    variance, size = means.variance_if(0.0), max(means.n_groups, 1.0)
    mean = abs(shrunk(means.mean, means.likely_variance + parts["prompts"]))
    pooled = found.n_raters * parts["raters"] * size + TYPICAL_RATERS * TYPICAL_TASTE
    of_raters = pooled / (found.n_raters + TYPICAL_RATERS) / size
    of_votes = max(variance - parts["raters"], means.null[0])
    of_others = max(parts["votes"] + parts["raters"], means.null[0])

    def enough(raters: float, votes: float, prompts: float) -> bool:
        """Whether it is decided with so many times the raters, the votes and the prompts."""
        by_rater = of_raters / raters + of_votes / votes
        by_prompt = parts["prompts"] / prompts + of_others / votes
        return (
            t_evidence(mean / math.sqrt(by_rater), size * raters) >= ENOUGH
            and t_evidence(mean / math.sqrt(by_prompt), found.n_prompts * prompts) >= ENOUGH
        )

    on_new = False
    raters = votes = None
    if mean:
        raters = _least(lambda n: enough(1 + n / size, 1 + n / size, 1))
        on_new = raters is None
    if on_new:
        raters = _least(lambda n: enough(1 + n / size, 1 + n / size, 1 + n / size))
    if mean and found.n_raters >= MIN_RATERS:
        cast = found.n_votes
        votes = _least(lambda n: enough(1, 1 + n / cast, 1 + n / cast))
    if raters is not None:
        raters = max(raters, MIN_RATERS - found.n_raters)
    if votes is None:
        missing = Missing(Unit.RATERS, raters, on_new)
        verdict = Verdict.CANNOT_TELL if found.verdict is Verdict.OPEN else found.verdict
        return replace(found, verdict=verdict, missing=missing, no_votes_settle=True)
    is_less = raters is not None and raters * found.n_votes <= votes * found.n_raters
    missing = Missing(Unit.RATERS, raters, on_new) if is_less else Missing(Unit.VOTES, votes, True)
    return replace(found, missing=missing)


def variance_parts(score: Floats, prompt: Ints, rater: Ints | None) -> dict[str, float]:
    """The parts of the variance of the mean score from votes, prompts and raters.

    By moments: the mean product of two deviations that share a prompt, or a rater, estimates the
    variance between prompts, or raters.
    """
    size, deviation = len(score), score - score.mean()
    left = float((deviation**2).sum() / max(size - 1, 1))
    parts = {"votes": 0.0, "prompts": 0.0, "raters": 0.0}
    for name, group in (("prompts", prompt), ("raters", rater)):
        if group is None:
            continue
        n = np.bincount(group).astype(np.float64)
        pairs = float((n * (n - 1)).sum())
        products = float((summed(group, deviation, len(n)) ** 2).sum() - (deviation**2).sum())
        between = min(max(products / pairs, 0.0), left) if pairs else 0.0
        left -= between
        parts[name] = between * float((n**2).sum()) / size**2
    return parts | {"votes": left / size}


def shares(parts: dict[str, float]) -> dict[str, float]:
    """Of each part in their sum; empty if there is no variance."""
    total = sum(parts.values())
    return {name: round(part / total, 3) for name, part in parts.items()} if total else {}


# A judge run may register its size and its looks before the first call. Then the signs of the
# prompts' scores are coin tosses given their sizes, if A and B are alike, and the boundary of each
# look is exact. Its error is spent as by Lan and DeMets (1983), nearly all of it at the end.


@dataclass(frozen=True)
class Registration:
    """What a run promised before its first call.

    Attributes
    ----------
    size, looks : how many prompts, and how often they are looked at
    side : whether B is tested for "better" (1), for "worse" (-1), or for both (0)
    family : how many candidates are compared with A; the error is divided among them
    """

    size: int
    looks: int = 5
    side: int = 0
    family: int = 1

    @property
    def ends(self) -> list[int]:
        """How many prompts there are at each look; the last is the size."""
        ends = {round(self.size * k / self.looks) for k in range(1, self.looks + 1)}
        return sorted(ends - {0})

    @property
    def alpha(self) -> float:
        """Per side that is tested."""
        return ALPHA / (1 if self.side else 2) / self.family


@lru_cache(maxsize=256)
def boundaries(sizes: tuple[float, ...], registration: Registration) -> tuple[float, ...]:
    """The least total scores with which each look decides, less a trifle; infinite where none does.

    `sizes`: the absolute scores of all registered prompts in their order. A look's boundary does
    not depend on those after it.
    """
    steps = np.rint(np.abs(sizes) * GRID).astype(np.int64)
    unit = max(int(np.gcd.reduce(steps)), 1)
    steps //= unit
    middle = int(steps.sum())
    chance: Floats = np.zeros(2 * middle + 1)
    chance[middle] = 1.0
    spent, start, found = 0.0, 0, []
    for end in registration.ends:
        for step in steps[start:end].tolist():
            if step:
                chance = (_moved(chance, step) + _moved(chance, -step)) / 2
        start = end
        done = end / registration.size
        allowed = 2 * float(ndtr(ndtri(registration.alpha / 2) / math.sqrt(done)))
        beyond = np.cumsum(chance[::-1])[::-1]
        least = int(np.argmax(np.append(beyond, 0.0) + spent <= allowed * (1 + 1e-12)))
        decisive = np.flatnonzero(chance[least:])
        # Of totals that are possible, for an interval that is not too short where another is true.
        limit = (least + int(decisive[0]) - middle) * unit / GRID if len(decisive) else math.inf
        spent += float(chance[least:].sum())
        found.append(limit - TRIFLE)
        chance[least:] = 0.0
        if not registration.side:
            chance[: 2 * middle - least + 1] = 0.0
    return tuple(found)


def _moved(chance: Floats, step: int) -> Floats:
    moved: Floats = np.zeros(len(chance))
    if step > 0:
        moved[step:] = chance[:-step]
    else:
        moved[:step] = chance[-step:]
    return moved


def registered_claim(
    score: Floats, registration: Registration, margin: float | None = None
) -> Claim:
    """The claim of a registered run after these prompts: that of the look at which it ended, or of
    the newest one. Before the first look there is no interval.

    `score`: (G,) the prompts' mean scores, in the registered order; NaN where there is no verdict.
    Such a prompt counts for the registered size, and as a toss of size 0, so that the error is
    exact whatever is missing, if that does not depend on who would have won. The win rate, the
    interval and the number of prompts are of those with a verdict.

    The interval is the repeated one (Jennison and Turnbull 1989), with the error per side of the
    test: a 95 % interval if both sides are tested, and a 90 % interval if one is, divided by the
    family. On a side that is not tested it ends at 0.5 or beyond, so that it excludes 0.5 exactly
    where B is better or worse.

    `margin`: a win rate above it, below 0.5, is "no worse". That ends a run which tests for "worse"
    alone; others go on, and say it at their end.
    """
    return stopped_after(score, registration, margin)[1]


def is_conclusive(claim: Claim) -> bool:
    """Whether a registered run ends with this claim."""
    return claim.verdict is not Verdict.OPEN


def stopped_after(
    score: Floats, registration: Registration, margin: float | None = None
) -> tuple[int, Claim]:
    """After how many prompts a registered run ended, and its claim; if it goes on, how many there
    are so far. As in `registered_claim`.
    """
    look = Look(0, len(registration.ends), registration.size)
    missing = Missing(Unit.PROMPTS, registration.size - len(score))
    n, seen = len(score), score
    found = Claim(Verdict.OPEN, Scope.JUDGE, look=look, missing=missing)
    for end in registration.ends:
        if end > len(score):
            break
        seen = score[:end]
        found = _at_look(seen, registration, margin)
        if is_conclusive(found):
            n = end
            break
    counted = claim(DirectVotes(seen[~np.isnan(seen)], is_judged=True))
    return n, replace(
        counted,
        verdict=found.verdict,
        low=found.low,
        high=found.high,
        look=found.look,
        missing=found.missing,
    )


def _at_look(score: Floats, registration: Registration, margin: float | None) -> Claim:
    """What a look at a run says that has not ended before, without what the claim rests on."""
    done, known = len(score), score[~np.isnan(score)]
    number, left = registration.ends.index(done), registration.size - done
    found = Claim(
        Verdict.OPEN if left else Verdict.CANNOT_TELL,
        Scope.JUDGE,
        look=Look(number + 1, len(registration.ends), registration.size),
        missing=Missing(Unit.PROMPTS, left) if left else None,
    )
    if not len(known):
        return found
    rounded = np.rint(np.nan_to_num(score) * GRID) / GRID
    sizes = np.abs(rounded)
    to_come = _to_come(sizes, len(known), left)
    limits = boundaries(tuple(np.append(sizes, to_come).tolist()), registration)
    mean, reach = float(rounded.sum()) / len(known), limits[number] / len(known)
    found = _with_interval(found, mean, reach, registration.side)
    if found.is_decided:
        return found
    assert found.low is not None
    is_no_worse = margin is not None and found.low > margin
    if not left or is_futile(score, to_come, registration, limits[-1], margin):
        found = replace(found, verdict=Verdict.CANNOT_TELL, missing=None)
    if is_no_worse and (registration.side < 0 or is_conclusive(found)):
        found = replace(found, verdict=Verdict.NO_WORSE, missing=None)
    return found


def _with_interval(found: Claim, mean: float, reach: float, side: int) -> Claim:
    """The claim with this interval of the mean score, and decided if it excludes 0.5."""
    low, high = max((1 + mean - reach) / 2, 0.0), min((1 + mean + reach) / 2, 1.0)
    if side < 0:
        low = min(low, 0.5)
    if side > 0:
        high = max(high, 0.5)
    found = replace(found, low=low, high=high)
    if low <= 0.5 <= high:
        return found
    return replace(found, verdict=Verdict.BETTER if low > 0.5 else Verdict.WORSE, missing=None)


def _to_come(sizes: Floats, n_known: int, left: int) -> Floats:
    """(left,) sizes of the scores to come, which matter for futility alone: as now, and with
    verdicts as often, but as few ties as there may be (Agresti and Coull 1998), since a few prompts
    may tie by chance.
    """
    decisive = sizes[sizes > 0]
    share = (len(decisive) + 2) / (n_known + 4)
    share = min(share + 2 * math.sqrt(share * (1 - share) / (n_known + 4)), 1.0)
    more = round(share * left * n_known / len(sizes))
    to_come: Floats = np.zeros(left)
    # Evenly, because a look without new ones cannot decide.
    places = np.linspace(left - 1, 0, more).astype(np.int64)
    to_come[places] = np.resize(decisive, more) if len(decisive) else 1.0
    return to_come


def is_futile(
    score: Floats,
    to_come: Floats,
    registration: Registration,
    limit: float,
    margin: float | None = None,
) -> bool:
    """Whether a verdict for which the run would go on has become improbable at its end
    (Spiegelhalter and others 1986): "better" or "worse", as tested, and "no worse" if that ends it.

    The further wins are beta-binomial, given those so far and a flat prior; of scores of different
    sizes, given as many equal ones as have the same sum and the same sum of squares.

    `score`: as in `registered_claim`; `to_come`: the sizes of further ones; `limit`: the boundary
    of the last look
    """
    known = score[~np.isnan(score)]
    total = float(np.abs(known).sum())
    each = float(known @ known) / total if total else 1.0
    won, lost = float(known.clip(min=0).sum()) / each, float(-known.clip(max=0).sum()) / each
    left, size = round(float(to_come.sum()) / each), registration.size * len(known) / len(score)

    def ends(total: Floats) -> Bools:
        return _ends(each * total, limit, size, registration.side, margin)

    return bool(_forecast(np.array([won]), np.array([lost]), left, ends)[0] < FUTILE)


def _ends(total: Floats, limit: float, size: float, side: int, margin: float | None) -> Bools:
    """Which total scores of so many prompts end a run."""
    ends: Bools = (side >= 0) & (total > limit) | (side <= 0) & (total < -limit)
    if margin is not None and side < 0:
        ends |= total - limit > (2 * margin - 1) * size
    return ends


def _forecast(won: Floats, lost: Floats, left: int, ends: Callable[[Floats], Bools]) -> Floats:
    """(M,) the probability that the total after so many more tosses is one that `ends`, given (M,)
    those won and lost so far.
    """
    more = np.arange(left + 1)
    ways = gammaln(left + 1) - gammaln(more + 1) - gammaln(left - more + 1)
    a, b = won[:, None] + 1, lost[:, None] + 1
    chance = np.exp(ways + betaln(more + a, left - more + b) - betaln(a, b))
    found: Floats = (chance * ends(a - b + 2 * more - left)).sum(1)
    return found


def registered_people(votes: DirectVotes, registration: Registration) -> Claim:
    """The claim about raters like these of a run by people that registered how many votes to cast.

    `votes` have prompts and raters, in the order in which they were cast; the size and the looks
    are counted in votes. The mean score is compared with its two-way error (Cameron, Gelbach and
    Miller 2011) by Student's t, with one degree of freedom less than there are raters or prompts,
    whichever are fewer. Raises ValueError without prompts or raters.
    """
    if votes.prompt is None or votes.rater is None:
        raise ValueError("votes must have prompts and raters")
    votes = votes.first(registration.size)
    done, found = len(votes.score), claim(votes)
    ends = registration.ends
    look = sum(end <= done for end in ends)
    left = Missing(Unit.VOTES, registration.size - done)
    found = replace(
        found.wider or found,
        verdict=Verdict.OPEN if left.number else Verdict.CANNOT_TELL,
        scope=Scope.RATERS,
        look=Look(look, len(ends), registration.size),
        missing=left if left.number else None,
        no_votes_settle=False,
    )
    for end, limit in zip(ends[:look], normal_limits(registration), strict=False):
        mean, error, n_groups = two_way_mean(votes.first(end))
        if n_groups < MIN_RATERS:
            continue
        reach = float(stdtrit(n_groups - 1, ndtr(limit))) * error
        found = replace(found, win_rate=(1 + mean) / 2)
        found = _with_interval(found, mean, reach, registration.side)
        if found.is_decided:
            return found
    return found


def two_way_mean(votes: DirectVotes) -> tuple[float, float, int]:
    """The mean score by raters and on prompts like these, its error, and the number of groups of
    the kind with fewer.
    """
    assert votes.prompt is not None
    assert votes.rater is not None
    (prompt, n_prompts), (rater, n_raters) = codes(votes.prompt), codes(votes.rater)
    weight = rater_weights(rater, n_raters, votes.rater_share)
    by_prompt, by_rater, by_both = (
        Means.of(votes.score, weight, group, n_groups)
        for group, n_groups in (
            (prompt, n_prompts),
            (rater, n_raters),
            codes(prompt * n_raters + rater),
        )
    )
    both = by_prompt.variance + by_rater.variance - by_both.variance
    variance = max(both, by_prompt.variance_if(0.0), by_rater.variance_if(0.0))
    return by_rater.mean, math.sqrt(variance), min(n_prompts, n_raters)


@cache
def normal_limits(registration: Registration) -> list[float]:
    """The standard errors beyond which each look decides, of a mean with normal errors: the
    boundaries of very many tosses, whose totals are two apart.
    """
    many = replace(registration, size=TOSSES)
    limits = boundaries((1.0,) * TOSSES, many)
    return [(limit - 1) / math.sqrt(end) for limit, end in zip(limits, many.ends, strict=True)]


@dataclass(frozen=True)
class Plan:
    """How many prompts, judged once each, find a win rate; None for more than 2,000."""

    registered: int | None
    watched: int | None


def plan(share: float, power: float = 0.8, ties: float = 0.0, *, side: int = 0) -> Plan:
    """The prompts with which a judge finds a candidate that wins this share of decisive votes.

    Parameters
    ----------
    share : above 0.5 and at most 1
    power : how often it is found, between 0 and 1
    ties : the share of prompts without a winner, which say nothing, from 0 to below 1
    side : as in `Registration`

    Raises ValueError naming the invalid argument.
    """
    if not 0.5 < share <= 1:
        raise ValueError(f"share must be above 0.5 and at most 1, not {share}")
    if not 0 < power < 1:
        raise ValueError(f"power must be between 0 and 1, not {power}")
    if not 0 <= ties < 1:
        raise ValueError(f"ties must be at least 0 and below 1, not {ties}")
    registered = size_to_detect(share, side, power=power)
    watched = next((n for n, found in watched_power(share, LONGEST_PLAN) if found >= power), None)
    counts = (None if n is None else math.ceil(n / (1 - ties)) for n in (registered, watched))
    return Plan(*counts)


def least_share(n: int, power: float = 0.8) -> float | None:
    """The smallest win rate of decisive votes that n prompts, looked at after each, find with this
    probability; None if they are too few for any.
    """
    n = min(n, LONGEST_PLAN)
    low, high = 0.5, 1.0
    if dict(watched_power(high, n)).get(n, 0.0) < power:
        return None
    for _ in range(8):
        middle = (low + high) / 2
        found = dict(watched_power(middle, n))[n]
        low, high = (low, middle) if found >= power else (middle, high)
    return high


@lru_cache(maxsize=1024)
def registered_power(share: float, registration: Registration) -> float:
    """The probability that it is found, with one vote a prompt, that this share of them is for B
    (or for A, if "worse" alone is tested). Stopping for futility costs up to half a point of it,
    or one point if one side is tested; ties cost a few points more, as the number of tosses at each
    look is then by chance.
    """
    side = registration.side or 1
    stops, found = _stops(registration), 0.0
    chances = _until_stopped(share if side > 0 else 1 - share, registration, stops)
    for end, chance, stop in zip(registration.ends, chances, stops, strict=True):
        found += float(chance[stop & (side * (2 * np.arange(end + 1) - end) > 0)].sum())
    return found


@lru_cache(maxsize=1024)
def detectable(registration: Registration, power: float = 0.8) -> float | None:
    """The smallest share of decisive prompts, won by B (lost, if "worse" alone is tested), that is
    found with this probability; None if not even unanimous verdicts are.
    """
    low, high = 0.5, 1.0
    if registered_power(high, registration) < power:
        return None
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if registered_power(middle, registration) >= power else (middle, high)
        )
    return high


@lru_cache(maxsize=1024)
def size_to_detect(
    share: float, side: int = 0, family: int = 1, power: float = 0.8, most: int = LONGEST_PLAN
) -> int | None:
    """The smallest size, in fives, with which five looks find this share of decisive prompts as
    often; None if it is above `most`, or the share at most 0.5.
    """
    if share <= 0.5:
        return None
    # One look and normal errors would need as many; ten fewer, as tosses are not quite normal.
    errors = 2 * math.sqrt(share * (1 - share)) * float(ndtri(power))
    errors -= float(ndtri(Registration(1, 1, side, family).alpha))
    least = (max(errors, 0.0) / (2 * share - 1)) ** 2 - 10
    sizes = range(5 * max(1, int(min(least, most) / 5)), most + 1, 5)
    return next(
        (n for n in sizes if registered_power(share, Registration(n, 5, side, family)) >= power),
        None,
    )


@lru_cache(maxsize=1024)
def expected_prompts(
    registration: Registration, margin: float | None = None, share: float | None = None
) -> float:
    """How many prompts are judged, on average, until the run ends, with one vote a prompt.

    `margin`: as in `registered_claim`; `share`: of the votes, for B; without it, the mean over true
    differences as large as they usually are (`TAU`).
    """
    differences = TAU * ndtri((np.arange(DIFFERENCES) + 0.5) / DIFFERENCES)
    shares = ((1 + differences) / 2).clip(0, 1).tolist() if share is None else [share]
    stops, used = _stops(registration, margin, with_futility=True), 0.0
    for each in shares:
        chances = _until_stopped(each, registration, stops)
        for end, chance, stop in zip(registration.ends, chances, stops, strict=True):
            used += end * float(chance[stop].sum())
    return used / len(shares)


def _until_stopped(
    share: float, registration: Registration, stops: Sequence[Bools]
) -> Iterator[Floats]:
    """At each look, the probabilities of 0, 1, ... wins in a run that was not stopped before."""
    chance: Floats = np.ones(1)
    start = 0
    for end, stop in zip(registration.ends, stops, strict=True):
        n, wins = end - start, np.arange(end - start + 1)
        logs = gammaln(n + 1) - gammaln(wins + 1) - gammaln(n - wins + 1)
        tossed = np.exp(logs + xlogy(wins, share) + xlog1py(n - wins, -share))
        chance, start = np.convolve(chance, tossed), end
        yield chance
        chance = np.where(stop, 0.0, chance)


@lru_cache(maxsize=256)
def _stops(
    registration: Registration, margin: float | None = None, *, with_futility: bool = False
) -> list[Bools]:
    """At each look, after which numbers of wins a run with one vote a prompt has its verdict, or is
    stopped for futility or at its end.
    """
    size, side = registration.size, registration.side
    limits = boundaries((1.0,) * size, registration)
    stops = []
    for end, limit in zip(registration.ends, limits, strict=True):
        won = np.arange(end + 1.0)
        stop = _ends(2 * won - end, limit, end, side, margin)
        if with_futility:
            at_end = partial(_ends, limit=limits[-1], size=size, side=side, margin=margin)
            stop |= (end == size) | (_forecast(won, end - won, size - end, at_end) < FUTILE)
        stops.append(stop)
    return stops


def watched_power(share: float, most: int) -> Iterator[tuple[int, float]]:
    """After each prompt up to `most`, the probability that "better" has been said by then."""
    chance: Floats = np.ones(1)
    found, least = 0.0, 0
    for n in range(1, most + 1):
        chance = np.append(chance * (1 - share), 0.0) + np.append(0.0, chance * share)
        # Not above n: with too few prompts, even n wins do not decide.
        while least <= n and _log_bet(least, n) < ENOUGH:
            least += 1
        found += float(chance[least:].sum())
        chance[least:] = 0.0
        chance[: max(n - least + 1, 0)] = 0.0  # the same for A
        yield n, found


def _log_bet(wins: int, n: int) -> float:
    return _log_mean(wins * np.log1p(BETS) + (n - wins) * np.log1p(-BETS))
