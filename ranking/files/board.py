"""From the votes of a file to all that its board says: the same estimators as the web's boards."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ranking.files.reading import BadFile, Bools, FileVotes, Floats, Ints
from ranking.stats import (
    Battles,
    Bootstrap,
    Clusters,
    Fragility,
    Sandwich,
    choose_clusters,
    clear_leader,
    largest_difference,
    measure_fragility,
    rank_intervals,
)
from ranking.stats.intervals import known_among, measurable

N_THREADS = 2


@dataclass(frozen=True)
class Settings:
    """How to rank. `cluster`: one of CLUSTERS; "unit" is the same as "prompt_pair"."""

    cluster: str = "auto"
    n_resamples: int = 1000
    seed: int = 0
    confidence: float = 0.95


@dataclass(frozen=True, eq=False)
class FileBoard:
    """What the votes say. Arrays are (K,), NaN for what cannot be known.

    `bootstrap` has scores and their intervals, `sandwich` standard errors and covariance; the
    rank intervals `low`, `high` hold one by one, `sure_low`, `sure_high` all together. `leader`:
    the place of the clear number one, or None. `choix_difference`: the second opinion, in Elo.
    `measured` says who has votes in clusters enough for an interval; who has not has no ranks.
    """

    votes: FileVotes
    settings: Settings
    battles: Battles
    clusters: Clusters
    bootstrap: Bootstrap
    sandwich: Sandwich
    low: Floats
    high: Floats
    sure_low: Floats
    sure_high: Floats
    leader: int | None
    fragility: Fragility
    choix_difference: float
    counts: Ints
    measured: Bools

    @property
    def covariance(self) -> Floats:
        """(K, K) of theta; NaN for whoever is not measured."""
        return known_among(self.sandwich.covariance_, self.measured)

    @property
    def n_clusters(self) -> int | None:
        """None where there are too few to estimate anything: then the covariance is not known."""
        return self.sandwich.n_clusters_ if self.sandwich.n_clusters_ > 1 else None


def rank_votes(votes: FileVotes, settings: Settings) -> FileBoard:
    """Fit scores, intervals and ranks.

    Raises BadFile where the votes do not say what the clusters need; NotConverged.
    """
    clusters = CLUSTERS[settings.cluster](votes)
    battles = Battles.from_arrays(
        votes.left, votes.right, votes.score, None, clusters.codes, len(votes.names)
    )
    confidence, seed = settings.confidence, settings.seed
    bootstrap = Bootstrap(settings.n_resamples, confidence, seed, n_threads=N_THREADS).fit(battles)
    sandwich = Sandwich(confidence).fit(battles)
    model, covariance = bootstrap.model_, sandwich.covariance_
    few = sandwich.n_clusters_ if sandwich.n_clusters_ > 1 else None
    measured = measurable(battles)
    theta = np.where(measured, model.theta_, np.nan)
    low, high = rank_intervals(theta, covariance, False, confidence, n_clusters=few)
    sure_low, sure_high = rank_intervals(theta, covariance, True, confidence, n_clusters=few)
    return FileBoard(
        votes=votes,
        settings=settings,
        battles=battles,
        clusters=clusters,
        bootstrap=bootstrap,
        sandwich=sandwich,
        low=low,
        high=high,
        sure_low=sure_low,
        sure_high=sure_high,
        leader=clear_leader(theta, covariance, confidence, n_clusters=few),
        fragility=measure_fragility(battles, model),
        choix_difference=largest_difference(battles, model),
        counts=battles.votes_per_candidate(),
        measured=measured,
    )


# -- Which votes belong together -----------------------------------------------------------------


def _as_on_the_boards(votes: FileVotes) -> Clusters:
    return choose_clusters(votes.left, votes.right, votes.prompt, votes.rater)


def _by_prompt(votes: FileVotes) -> Clusters:
    return Clusters(_known(votes.prompt, "prompt"), "prompt")


def _by_unit(votes: FileVotes) -> Clusters:
    low, high = np.minimum(votes.left, votes.right), np.maximum(votes.left, votes.right)
    units = np.column_stack([_known(votes.prompt, "prompt"), low, high])
    codes = np.unique(units, axis=0, return_inverse=True)[1]
    return Clusters(codes.reshape(-1).astype(np.int64), "prompt_pair")


def _by_rater(votes: FileVotes) -> Clusters:
    return Clusters(_known(votes.rater, "rater"), "rater")


def _independent(votes: FileVotes) -> Clusters:
    return Clusters(None, "vote")


def _known(column: Ints, name: str) -> Ints:
    if missing := int((column < 0).sum()):
        raise BadFile(f"{missing:,} of {len(column):,} votes name no {name} to cluster by.")
    return column


CLUSTERS: dict[str, Callable[[FileVotes], Clusters]] = {
    "auto": _as_on_the_boards,
    "prompt": _by_prompt,
    "prompt_pair": _by_unit,
    "unit": _by_unit,
    "rater": _by_rater,
    "none": _independent,
}
