"""Sequential tests for votes that are cast to move one candidate, up or down, or without reading.

Each test yields an e-value: a likelihood ratio of what a rigged ballot would look like against what
an honest one may look like, averaged over what is unknown beforehand. Among honest raters it
exceeds 1000 with a probability of at most 1/1000, whenever one looks (Ville's inequality; Ramdas,
Grünwald, Vovk and Shafer 2023, "Game-theoretic statistics and safe anytime-valid inference").

Honest raters differ in taste: each may like a candidate more or less than others do, by a normal
shift with the standard deviation `TASTE`, or more for a candidate that divides them. So a rater who
now and then disagrees with everybody is not suspicious, but one for whom a candidate nearly always
wins, or nearly always loses, wherever it is shown, may be.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, xlog1py

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LIMIT = 1000.0  # the e-value from which votes are held
TASTE = 1.0  # log-odds; twice the variance of .7, because both candidates of a pair have one
TYPICAL = 30.0  # of what measures tastes (`_tastes`), how much this guess counts for
WITHOUT_EXTREMES = 1.5  # with it, e-values of honest raters average about 1
ALWAYS = 0.97  # how often a rigged ballot has the candidate win, or one side
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.9, 0.99)  # shares of a group that may be rigged
SURE = 0.98  # the probability from which a member of a rigged group may be held
MISTAKEN = 0.01  # the expected share of a board's honest raters that are held with a group
OWN = 100.0  # the likelihood ratio of a rater's own votes from which that share does not matter
FEW = 30  # honest raters; with fewer, that share is smaller, because they say little about others
ASSUMED = 20  # further honest raters: else none could be held where all are rigged
ONE_WAY = 0.9  # how often a candidate wins, or loses, if a network's cookies vote one way
ALWAYS_WON = 4  # votes on one candidate, all won
PRIOR = 0.1
REFITS = 4
LEAST_VOTES = 10  # that a rater needs before a test of this rater only can hold them
HONEST_RUSHED, RIGGED_RUSHED = 0.1, 0.6
NEWCOMERS = (16, 32, 64, 128)  # sizes of the groups of raters who came one after the other
GROUP_TESTS = ("board", "network", "burst")
STEP = 8  # a group begins after each such part of the size of the one before
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


@dataclass(frozen=True, eq=False)
class Cast:
    """N votes in the order in which they were cast.

    Attributes
    ----------
    rater, network : (N,) numbers from 0; -1 for an unknown network
    left, right : (N,) numbers of candidates from 0
    score : (N,) 1 if the left answer won, 0 if the right one did, a half for a tie
    rushed : (N,) whether it was cast faster than anybody can read
    """

    rater: Ints
    network: Ints
    left: Ints
    right: Ints
    score: Floats
    rushed: Bools

    @property
    def n_raters(self) -> int:
        return int(self.rater.max(initial=-1)) + 1

    def columns(self) -> list[NDArray[Any]]:
        return [getattr(self, field.name) for field in fields(self)]

    def where(self, chosen: Bools | Ints) -> "Cast":
        return Cast(*(column[chosen] for column in self.columns()))

    def turned(self) -> "Cast":
        """The votes with winners and losers exchanged."""
        return replace(self, score=1 - self.score)

    def with_others(self, others: "Cast") -> "Cast":
        """The votes of `others`, then these; no rater is in both."""
        return replace(others, rater=others.rater + self.n_raters).followed_by(self)

    def followed_by(self, later: "Cast") -> "Cast":
        return Cast(*map(np.concatenate, zip(self.columns(), later.columns(), strict=True)))


@dataclass(frozen=True)
class Suspicion:
    """A test's result: its e-value, the raters concerned, and the votes behind it.

    ``test``: favours, sides, speed, skips, or one of GROUP_TESTS. ``raters``: whose votes are to be
    held. ``group``: all who were tested together; ``suspects``: those of them who look rigged, also
    whom the bound on honest ones spares. ``candidate``: the one that wins (or loses, if ``loses``),
    or the only one whose pairs are voted on. ``n``, ``k``: of n votes, k were as the test says.
    """

    test: str
    evidence: float
    raters: tuple[int, ...]
    network: int = -1
    candidate: int = -1
    n: int = 0
    k: int = 0
    loses: bool = False
    suspects: tuple[int, ...] = ()
    group: tuple[int, ...] = ()


def find(votes: Cast, n_candidates: int, others: Cast | None = None) -> list[Suspicion]:
    """Test raters, networks, bursts of newcomers and everybody; the strongest evidence first.

    ``others``: votes of other raters, on which the scores rest too. They are not tested.
    """
    # Whoever votes against a candidate that others raise may be honest, and those who raise it make
    # the rest lose. So the stronger direction is tested first, the other on what that leaves.
    number = one_way_raters(votes, n_candidates)
    tested = [
        (*_winners(votes, number, n_candidates, others, loses=loses), loses)
        for loses in (False, True)
    ]
    suspicions, moved, _, loses = max(tested, key=lambda found: found[2])
    suspicions += [*_sides(votes), *_speeds(votes)]
    rest = votes.where(~np.isin(votes.rater, list(held_raters(suspicions))))
    suspicions += _winners(rest, number, n_candidates, others, loses=not loses, besides=moved)[0]
    return sorted(suspicions, key=lambda suspicion: -suspicion.evidence)


def one_way_raters(votes: Cast, n_candidates: int) -> Ints:
    """(R,) for each rater its number, or that of the first one of its network, if all raters of the
    network together vote one way.

    Cookies cost nothing, addresses do. As one rater with one taste, they cannot hide behind few
    votes each, nor stand for many.
    """
    number = np.arange(votes.n_raters)
    known = votes.where(votes.network >= 0)
    shape = (int(known.network.max(initial=-1)) + 1, n_candidates)
    sides = np.concatenate([known.left, known.right])
    place = np.concatenate([known.network, known.network]) * n_candidates + sides
    won = np.concatenate([known.score, 1 - known.score])
    wins, met = _cell_sums(place, shape, won, np.ones(len(won)))
    share = np.divide(wins, met, out=np.full(shape, 0.5), where=met >= LEAST_VOTES)
    one_way = np.flatnonzero((np.abs(share - 0.5) >= ONE_WAY - 0.5).any(axis=1))
    raters, first = np.unique(known.rater, return_index=True)
    for network in one_way.tolist():
        cookies = raters[known.network[first] == network]
        number[cookies] = cookies.min(initial=len(number))
    return number


def _winners(
    votes: Cast,
    number: Ints,
    n_candidates: int,
    others: Cast | None,
    *,
    loses: bool,
    besides: Sequence[int] = (),
) -> tuple[list[Suspicion], list[int], float]:
    """Those for whom one candidate nearly always wins, or loses, `besides` some; the candidates of
    the groups among them, and the groups' strongest evidence, as a logarithm. `number`: of
    `one_way_raters`, whose members are found with them."""
    if loses:  # to lose is to win with all votes turned round
        votes, others = votes.turned(), others and others.turned()
    one = replace(votes, rater=number[votes.rater])
    theta = honest_scores(one.with_others(others) if others else one, n_candidates)
    ratios, wins, met = favour_ratios(one, theta)
    cookies, *_ = favour_ratios(votes, theta)
    for each in (ratios, cookies):
        each[:, list(besides)] = -np.inf
    n_honest = ASSUMED + (others.n_raters if others else 0)
    # Where all vote alike, nobody is left to compare newcomers with: `board` tests them.
    sizes = [size for size in NEWCOMERS if 2 * size <= len(np.unique(votes.rater))]
    groups, strongest = _groups(
        one, ratios, wins, met, n_honest, _of_networks(votes, cookies, number), sizes
    )

    def members(raters: Sequence[int]) -> tuple[int, ...]:
        return tuple(np.flatnonzero(np.isin(number, list(raters))).tolist())

    found = [
        replace(
            each,
            loses=loses,
            raters=members(each.raters),
            suspects=members(each.suspects),
            group=members(each.group),
        )
        for each in _favours(ratios, wins, met) + groups
    ]
    return found, [group.candidate for group in groups], strongest


def honest_scores(votes: Cast, n_candidates: int) -> Floats:
    """(K,) log-odds of the candidates, without the votes of raters who look rigged.

    Rigged votes hide in the scores that they have raised. So the first fit leaves out all raters
    for whom a candidate always wins; each later one leaves out those who look rigged by the fit
    before.
    """
    shape = (votes.n_raters, n_candidates)
    ratios, wins, met = favour_ratios(votes, np.zeros(n_candidates))
    is_rigged = (wins == met) & (met >= ALWAYS_WON)
    for _ in range(REFITS):
        is_rigged_vote = is_rigged[votes.rater, votes.left] | is_rigged[votes.rater, votes.right]
        theta = fit_scores(votes.where(~is_rigged_vote), n_candidates)
        ratios, *_ = favour_ratios(votes, theta)
        odds = np.log(PRIOR) + ratios
        is_rigged = (odds > 0).reshape(shape)
    return theta


def fit_scores(votes: Cast, n_candidates: int) -> Floats:
    """(K,) Bradley-Terry scores; those that the votes do not determine are 0."""
    battles = Battles.from_arrays(votes.left, votes.right, votes.score, n_candidates=n_candidates)
    return np.nan_to_num(BradleyTerry().fit(battles).theta_)


def favour_ratios(votes: Cast, theta: Floats) -> tuple[Floats, Floats, Ints]:
    """(R, K) log likelihood ratios that a rater makes a candidate win, its wins, and its votes."""
    shape = (votes.n_raters, len(theta))
    rater = np.concatenate([votes.rater, votes.rater])
    candidate = np.concatenate([votes.left, votes.right])
    other = np.concatenate([votes.right, votes.left])
    won = np.concatenate([votes.score, 1 - votes.score])
    place = rater * shape[1] + candidate
    gap = theta[candidate] - theta[other]
    expected, spread, wins = _cell_sums(place, shape, expit(gap), expit(gap) * expit(-gap), won)
    met: Ints = np.bincount(place, minlength=shape[0] * shape[1]).reshape(shape)
    taste = _tastes(wins, met, expected, spread)
    gap = gap[:, None] + taste[candidate][:, None] * _NODES
    honest = np.zeros((shape[0] * shape[1], len(_NODES)))
    np.add.at(honest, place, won[:, None] * gap - np.logaddexp(0, gap))
    weights = np.log(_WEIGHTS / _WEIGHTS.sum())
    log_honest = logsumexp(honest + weights, axis=1).reshape(shape)
    rigged = wins * np.log(ALWAYS) + (met - wins) * np.log1p(-ALWAYS)
    return rigged - log_honest, wins, met


def _cell_sums(place: Ints, shape: tuple[int, int], *values: Floats) -> Iterator[Floats]:
    for value in values:
        yield np.bincount(place, value, shape[0] * shape[1]).reshape(shape).astype(np.float64)


def _tastes(wins: Floats, met: Ints, expected: Floats, spread: Floats) -> Floats:
    """(K,) standard deviations of honest raters' tastes, which are wider for a candidate that
    divides them; TASTE as long as little is known.

    Rigged votes are extreme. So this is measured, by the method of moments, on raters for whom the
    candidate neither always wins nor always loses, each with the weight 1 / ``spread``, the
    variance of its wins without tastes; else those with many votes would decide. Those left out
    have the widest tastes, so the others' variance counts `WITHOUT_EXTREMES` times.
    """
    varies = (wins > 0) & (wins < met)
    beyond = (wins - expected) ** 2 / np.where(varies, spread, 1) - 1
    known = np.sum(spread, axis=0, where=varies)
    measured = WITHOUT_EXTREMES * np.sum(beyond, axis=0, where=varies).clip(0)
    tastes: Floats = np.sqrt((measured + TYPICAL * TASTE**2) / (known + TYPICAL))
    return tastes


def _favours(ratios: Floats, wins: Floats, met: Ints) -> list[Suspicion]:
    """Raters for whom one candidate, whichever it is, nearly always wins."""
    if not ratios.size:
        return []
    evidence = logsumexp(ratios, axis=1) - np.log(ratios.shape[1])
    suspicions = []
    for rater in np.flatnonzero(evidence >= np.log(LIMIT)).tolist():
        candidate = int(ratios[rater].argmax())
        n, k = int(met[rater, candidate]), int(wins[rater, candidate])
        if n >= LEAST_VOTES:
            suspicion = Suspicion("favours", _e(evidence[rater]), (rater,), -1, candidate, n, k)
            suspicions.append(suspicion)
    return suspicions


@dataclass(frozen=True, eq=False)
class _Group:
    """Raters, some of whom make one candidate nearly always win.

    ``rigged``: the probability that each belongs to that share; 0 for those who may not be held.
    """

    test: str
    evidence: float
    members: Ints
    rigged: Floats
    candidate: int
    network: int


def _groups(
    votes: Cast,
    ratios: Floats,
    wins: Floats,
    met: Ints,
    n_honest: int,
    of_networks: Iterable[_Group],
    sizes: Sequence[int],
) -> tuple[list[Suspicion], float]:
    """Suspicious groups of raters: everybody, those of networks, those who came one after the
    other; and the strongest evidence, as a logarithm.

    Groups overlap, so one bound on the honest ones held applies to all of them together.
    ``n_honest``: raters who count as honest in it, besides these. ``sizes``: of newcomers' groups.
    """
    raters, first = np.unique(votes.rater, return_index=True)
    arrived = raters[np.argsort(first, kind="stable")]
    bursts = [
        arrived[start : start + size]
        for size in sizes
        for start in range(0, max(len(arrived) - size // 2, 1), size // STEP)
    ]
    tested = [_group("board", raters, ratios), *of_networks]
    tested += [_group("burst", members, ratios, tries=len(bursts)) for members in bursts]
    groups = [group for group in tested if group is not None]
    rigged = np.zeros(votes.n_raters)
    for group in groups:
        rigged[group.members] = np.maximum(rigged[group.members], group.rigged)
    is_held = np.zeros(votes.n_raters, np.bool_)
    is_held[raters] = _most_certain(rigged[raters], n_honest)
    suspicions = []
    for group in groups:
        suspects = group.members[group.rigged > 0]
        held = suspects[is_held[suspects]]
        who = next(some for some in (held, suspects, group.members) if len(some))
        suspicions.append(
            Suspicion(
                group.test,
                _e(group.evidence),
                tuple(held.tolist()),
                group.network,
                group.candidate,
                int(met[who, group.candidate].sum()),
                int(wins[who, group.candidate].sum()),
                suspects=tuple(suspects.tolist()),
                group=tuple(group.members.tolist()),
            )
        )
    return suspicions, max((group.evidence for group in groups), default=0.0)


def _of_networks(votes: Cast, ratios: Floats, number: Ints) -> Iterator[_Group]:
    """The suspicious ones among the groups of a network's raters, each rater with its `number`."""
    networks = np.unique(votes.network[votes.network >= 0]).tolist()
    for network in networks:
        raters = np.unique(votes.rater[votes.network == network])
        if group := _group("network", raters, ratios, network=network, tries=len(networks)):
            members, place = np.unique(number[raters], return_inverse=True)
            rigged = np.zeros(len(members))
            np.maximum.at(rigged, place, group.rigged)
            yield replace(group, members=members, rigged=rigged)


def _group(
    test: str, members: Ints, ratios: Floats, network: int = -1, tries: int = 1
) -> _Group | None:
    """Test whether a share of these raters, whoever they are, makes one candidate win."""
    if len(members) < 2:
        return None
    ratio = ratios[members]
    shares = np.array(SHARES)[:, None, None]
    mixed = np.logaddexp(np.log1p(-shares), np.log(shares) + ratio)  # shares, members, candidates
    total = mixed.sum(axis=1)
    evidence = float(logsumexp(total) - np.log(total.size * tries))
    if evidence < np.log(LIMIT):
        return None
    candidate = int(total.max(axis=0).argmax())
    # The share is unknown too: each counts by how well it explains the votes.
    share_is = np.exp(total[:, candidate] - logsumexp(total[:, candidate]))
    rigged = np.exp(np.log(shares[..., 0]) + ratio[:, candidate] - mixed[..., candidate])
    probability = share_is @ rigged
    # Honest raters reach this ratio with a probability of at most 1 / OWN, however few they are.
    is_own = ratio[:, candidate] >= np.log(OWN)
    probability[probability < SURE] = 0
    if test == "board":
        probability[~is_own] = 0
    probability[is_own & (probability > 0)] = 1
    return _Group(test, evidence, members, probability, candidate, network)


def _most_certain(rigged: Floats, n_others: int = ASSUMED) -> Bools:
    """(N,) which raters to hold, given the probability that each is rigged.

    As many as possible, the most certain first, while the honest ones expected among them are at
    most the share `MISTAKEN` of all honest ones, with ``n_others`` who are not tested.
    """
    order = np.argsort(-rigged, kind="stable")
    honest = 1 - rigged[order]
    chosen = np.zeros(len(rigged), np.bool_)
    n_honest = honest.sum() + n_others
    chosen[order] = np.cumsum(honest) <= MISTAKEN * n_honest**2 / (n_honest + FEW)
    return chosen & (rigged > 0)


def _sides(votes: Cast) -> list[Suspicion]:
    """Raters who nearly always choose one side, which a coin has assigned."""
    decided = votes.score != 0.5
    n = np.bincount(votes.rater[decided], minlength=votes.n_raters)
    left = np.bincount(votes.rater[decided], votes.score[decided], votes.n_raters)
    sides = np.stack([left, n - left])
    rigged = sides * np.log(ALWAYS) + (n - sides) * np.log1p(-ALWAYS)
    evidence = logsumexp(rigged, axis=0) - np.log(2) - n * np.log(0.5)
    return [
        Suspicion("sides", _e(evidence[r]), (r,), -1, -1, int(n[r]), int(sides[:, r].max()))
        for r in np.flatnonzero((evidence >= np.log(LIMIT)) & (n >= LEAST_VOTES)).tolist()
    ]


def _speeds(votes: Cast) -> list[Suspicion]:
    """Raters who cast many votes faster than anybody can read."""
    n = np.bincount(votes.rater, minlength=votes.n_raters)
    k = np.bincount(votes.rater, votes.rushed, votes.n_raters)
    evidence = k * np.log(RIGGED_RUSHED / HONEST_RUSHED) + xlog1py(n - k, -RIGGED_RUSHED)
    evidence -= xlog1py(n - k, -HONEST_RUSHED)
    return [
        Suspicion("speed", _e(evidence[r]), (r,), -1, -1, int(n[r]), int(k[r]))
        for r in np.flatnonzero((evidence >= np.log(LIMIT)) & (n >= LEAST_VOTES)).tolist()
    ]


def skips(rater: Ints, left: Ints, right: Ints, voted: Bools, n_candidates: int) -> list[Suspicion]:
    """Raters who skip all pairs but those of one candidate.

    ``voted``: (M,) whether each pair shown was voted on. If it does not depend on the candidates,
    the number of a candidate's pairs among those voted on is hypergeometric; its p-value becomes an
    e-value by 1 / (2 sqrt(p)) (Vovk and Wang 2021, "E-values: calibration, combination and
    applications").
    """
    from scipy.stats import hypergeom  # noqa: PLC0415  (half a second; only a task needs it)

    suspicions = []
    for number in np.unique(rater).tolist():
        theirs = rater == number
        n_shown, taken = int(theirs.sum()), int((theirs & voted).sum())
        if taken < LEAST_VOTES or taken == n_shown:
            continue
        has = np.zeros((n_candidates, n_shown), np.bool_)
        has[left[theirs], np.arange(n_shown)] = has[right[theirs], np.arange(n_shown)] = True
        of, hits = has.sum(axis=1), (has & voted[theirs]).sum(axis=1)
        p = np.maximum(hypergeom.sf(hits - 1, n_shown, of, taken), 1e-300)
        values = 0.5 / np.sqrt(p)
        evidence = float(values.mean())
        if evidence >= LIMIT:
            best = int(values.argmax())
            suspicions.append(
                Suspicion("skips", evidence, (number,), -1, best, taken, int(hits[best]))
            )
    return suspicions


def _e(log_evidence: float) -> float:
    return float(np.exp(min(log_evidence, 700.0)))


def held_raters(suspicions: Sequence[Suspicion]) -> set[int]:
    """The raters whose votes a suspicion is about."""
    return {rater for suspicion in suspicions for rater in suspicion.raters}
