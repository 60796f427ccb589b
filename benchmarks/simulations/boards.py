"""Simulation of a board's error rates: intervals, ranks and "clear number one"."""

import numpy as np

from benchmarks.simulations.designs import Design, Drawn, Floats, Ints, draw
from ranking.stats.bootstrap import Bootstrap
from ranking.stats.bradley_terry import NoMaximumError
from ranking.stats.intervals import Sandwich, critical_value
from ranking.stats.ranks import clearly_below, rank_intervals, simultaneous_value, tiers

RESAMPLES = 1000
CROWD_RESAMPLES = 300
EQUAL = 1e-6  # Elo; true ratings that differ by less are equal


def simulate_coverage(design: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """Shares over repeats (and candidates): ``bootstrap``, ``sandwich`` and ``independent`` (a
    sandwich that takes votes as independent) of 95 % intervals that contain the truth;
    ``least_bootstrap`` and ``least_sandwich`` for the candidate with the fewest;
    ``simultaneous`` and ``marginal`` of boards whose rank intervals contain all true ranks.
    """
    rows, ranks = [], []
    for rng in generators(n_repeats, seed):
        votes = draw(design, rng)
        clustered = votes.battles(clustered=True)
        robust = Sandwich().fit(clustered)
        rows.append(
            [
                _holds(Bootstrap(RESAMPLES, random_state=_seed(rng)).fit(clustered), votes.truth),
                _holds(robust, votes.truth),
                _holds(Sandwich().fit(votes.battles(clustered=False)), votes.truth),
            ]
        )
        ranks.append([_ranks_hold(robust, votes, sure) for sure in (True, False)])
    bootstrap, sandwich, independent = np.mean(rows, axis=0)
    simultaneous, marginal = np.mean(ranks, axis=0)
    return {
        "bootstrap": float(bootstrap.mean()),
        "least_bootstrap": float(bootstrap.min()),
        "sandwich": float(sandwich.mean()),
        "least_sandwich": float(sandwich.min()),
        "independent": float(independent.mean()),
        "simultaneous": float(simultaneous),
        "marginal": float(marginal),
    }


def simulate_leader(design: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """Shares of repeats, for a design whose best candidates are equal: ``wrong``, in which a clear
    number one was named; ``marginal``, in which the marginal ranks would have named one;
    ``simultaneous``, in which the simultaneous rank intervals contain all true ranks.
    """
    rows = []
    for rng in generators(n_repeats, seed):
        votes = draw(design, rng)
        groups = votes.evidence.groups
        fit = Sandwich(jackknifed=True).fit(*groups.groupings)
        named = not groups.n_raters  # a result for these raters only has no clear number one
        best = [named and bool((_ranks(fit, sure)[1] == 1).any()) for sure in (True, False)]
        rows.append([*best, _ranks_hold(fit, votes, simultaneous=True)])
    wrong, marginal, simultaneous = np.mean(rows, axis=0)
    return {
        "wrong": float(wrong),
        "marginal": float(marginal),
        "simultaneous": float(simultaneous),
    }


def simulate_tiers(design: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """``drawn`` and ``known``: how often a tier ends on a board, by its own covariance and by that
    of all simulated scores, which estimates the true one; ``share``: of the two; ``wrong``: share
    of boards on which a tier begins with a candidate that is as good as the first above, or better.
    """
    fits, truths = [], []
    for rng in generators(n_repeats, seed):
        votes = draw(design, rng)
        fits.append(Sandwich(jackknifed=True).fit(*votes.evidence.groups.groupings))
        truths.append(votes.truth)
    covariance = np.cov([fit.model_.theta_ for fit in fits], rowvar=False)
    drawn, known, wrong = [], [], []
    for fit, truth in zip(fits, truths, strict=True):
        theta = fit.model_.theta_
        order = np.argsort(-theta)
        number = _tiers(theta[order], fit.covariance_[np.ix_(order, order)], fit.n_clusters_)
        best = _tiers(theta[order], covariance[np.ix_(order, order)], None)
        firsts = truth[order][np.unique(number, return_index=True)[1]]
        drawn.append(number.max() - 1)
        known.append(best.max() - 1)
        wrong.append((np.diff(firsts) >= -EQUAL).any())
    figures = {"drawn": float(np.mean(drawn)), "known": float(np.mean(known))}
    return figures | {"share": figures["drawn"] / figures["known"], "wrong": float(np.mean(wrong))}


def _tiers(theta: Floats, covariance: Floats, n_clusters: int | None) -> Ints:
    critical = simultaneous_value(covariance, n_clusters=n_clusters)
    return tiers(clearly_below(theta, covariance, critical))


def simulate_crowd(design: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """Shares over repeats and candidates of 95 % intervals that contain the truth: ``bootstrap``,
    ``difference`` (of every two) and ``by_prompt``, of a sandwich by prompt only; ``least_`` of
    the candidate or pair with the fewest. ``refused``: of boards whose results hold for these
    raters or prompts only; they are not counted otherwise.
    """
    rows, by_prompt, differences = [], [], []
    for rng in generators(n_repeats, seed):
        votes = draw(design, rng)
        groups = votes.evidence.groups
        fit = Sandwich(jackknifed=True).fit(*groups.groupings)
        if fit.reason_ or (groups.n_raters and not design.these_raters):
            continue
        model = Bootstrap(CROWD_RESAMPLES, random_state=_seed(rng)).fit(fit.strongest_, fit)
        rows.append(np.where(groups.measurable, _holds(model, votes.truth), np.nan))
        alone = Sandwich().fit(votes.battles(clustered=votes.cluster is not None))
        by_prompt.append(_holds(alone, votes.truth))
        differences.append(_differences_hold(fit, votes.truth))
    figures = {"refused": 1 - len(rows) / n_repeats}
    for name, table in (("bootstrap", rows), ("difference", differences), ("by_prompt", by_prompt)):
        each = np.nanmean(table, axis=0)
        figures |= {name: float(each.mean()), f"least_{name}": float(each.min())}
    return figures


def simulate_sparse(design: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """Shares over repeats of 95 % intervals that contain the truth, among the candidates that have
    one, whose truths are centred as their scores are: ``scores``, of all candidates, ``first`` and
    ``last``, of the strongest and the weakest; ``shown``, the candidates that have one.
    """
    rows, shown = [], []
    for rng in generators(n_repeats, seed):
        votes = draw(design, rng)
        groups = votes.evidence.groups
        try:
            fit = Sandwich(jackknifed=True).fit(*groups.groupings)
        except NoMaximumError:
            shown.append(0.0)
            continue
        model = Bootstrap(CROWD_RESAMPLES, random_state=_seed(rng)).fit(fit.strongest_, fit)
        scored = ~np.isnan(model.ratings_)
        truth = votes.truth - votes.truth[scored].mean() + 1000
        known = groups.measurable & ~np.isnan(model.low_)
        rows.append(np.where(known, _holds(model, truth), np.nan))
        shown.append(float(known.mean()))
    each = np.nanmean(rows, axis=0)
    order = np.argsort(-np.array(design.strengths), kind="stable")
    return {
        "scores": float(np.nanmean(rows)),
        "first": float(each[order[0]]),
        "last": float(each[order[-1]]),
        "shown": float(np.mean(shown)),
    }


def _differences_hold(fit: Sandwich, truth: Floats) -> Floats:
    """(P,): 1 where the interval of the difference of two contains the true one."""
    i, j = np.triu_indices(len(truth), 1)
    c = fit.covariance_
    reach = np.sqrt(c[i, i] + c[j, j] - 2 * c[i, j]) * fit.model_.elo_per_theta
    reach *= critical_value(fit.confidence, fit.n_clusters_)
    missed = (fit.ratings_[i] - fit.ratings_[j]) - (truth[i] - truth[j])
    return (np.abs(missed) <= reach).astype(np.float64)


def generators(n_repeats: int, seed: int) -> list[np.random.Generator]:
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(n_repeats)]


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**32))


def _holds(fit: Bootstrap | Sandwich, truth: Floats) -> Floats:
    """(K,): 1 where the interval contains the truth."""
    return ((fit.low_ <= truth) & (truth <= fit.high_)).astype(np.float64)


def _ranks(fit: Sandwich, simultaneous: bool) -> tuple[Floats, Floats]:
    theta, covariance = fit.model_.theta_, fit.covariance_
    return rank_intervals(theta, covariance, simultaneous, n_clusters=fit.n_clusters_)


def _ranks_hold(fit: Sandwich, votes: Drawn, simultaneous: bool) -> bool:
    """Whether all intervals contain all true ranks; equals share several, which must all be in."""
    low, high = _ranks(fit, simultaneous)
    ahead = votes.truth[None, :] - votes.truth[:, None]  # how far the column is ahead
    best = 1 + (ahead > EQUAL).sum(axis=1)
    worst = len(votes.truth) - (ahead < -EQUAL).sum(axis=1)
    return bool(((low <= best) & (worst <= high)).all())
