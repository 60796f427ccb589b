"""Simulation of leaderboards that are looked at again and again."""

import numpy as np

from benchmarks.simulations.boards import generators
from benchmarks.simulations.designs import ELO, Design, Drawn, crowd, draw
from ranking.intervals import Measurement, describe
from ranking.question import Question
from ranking.stats.bradley_terry import NoMaximumError
from ranking.stats.claim import Scope, claim, decided_together
from ranking.stats.intervals import Sandwich

LOOKS = 40


def watched(name: str, strengths: tuple[float, ...], n_votes: int, n_raters: int = 0) -> Design:
    """A board whose candidates are shown equally often: by a judge, each vote on a prompt of its
    own, or by raters on 60 prompts; strengths in Elo.
    """
    fields = {"taste": 0.3} if n_raters else {"taste": 0.0, "prompt_effect": 0.0}
    return crowd(
        name,
        n_raters,
        60 if n_raters else n_votes,
        strengths=tuple(strength * ELO for strength in strengths),
        popular=(1.0,) * len(strengths),
        n_votes=n_votes,
        **fields,
    )


# A board whose best are equal, beside the same with one that is 100 Elo ahead of the others; how
# often that one has to be found, if it is promised.
WATCHED = (
    (*(watched("two", gaps, 1000) for gaps in ((0, 0), (100, 0))), 0.95),
    (*(watched("two, 20 raters", gaps, 1000, 20) for gaps in ((0, 0), (100, 0))), 0.55),
    (*(watched("three, two best", gaps, 1000) for gaps in ((0, 0, -100), (100, 0, 0))), 0.0),
    (*(watched("six, all equal", gaps, 2000) for gaps in ((0,) * 6, (100, *(0,) * 5))), 0.8),
    (*(watched("six, two best", g, 2000) for g in ((100, 100, *(0,) * 4), (100, *(0,) * 5))), 0.8),
    (
        *(
            watched("six, two best, 20 raters", gaps, 2000, 20)
            for gaps in ((100, 100, *(0,) * 4), (100, *(0,) * 5))
        ),
        0.0,
    ),
    (
        *(
            watched("twenty, two best", gaps, 4000)
            for gaps in ((100, 100, *(0,) * 18), (100, *(0,) * 19))
        ),
        0.0,
    ),
)
# The first is the baseline of the nine others; the last is 200 Elo ahead where it is to be found.
FAMILIES = tuple(
    tuple(
        crowd(
            f"one against nine, {name}",
            n_raters,
            n_prompts,
            strengths=(*(0.0,) * 9, lead * ELO),
            popular=(9.0, *(1.0,) * 9),
            n_votes=2500,
            **fields,
        )
        for lead in (0.0, 200.0)
    )
    for name, n_raters, n_prompts, fields in (
        ("prompt effects, 15 prompts", 0, 15, {"taste": 0.0, "prompt_effect": 1.0}),
        ("prompt effects, 60 prompts", 0, 60, {"taste": 0.0, "prompt_effect": 1.0}),
        ("20 raters of taste 0.5, 60 prompts", 20, 60, {"taste": 0.5}),
    )
)


def simulate_watching(equal: Design, apart: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """Shares of repeats in which a clear leader was named at any of 40 looks: ``false``, of boards
    whose best are equal; ``found``, of those with a best candidate, which it has to be; and
    ``ahead``, of these, in which it is ahead at the last look.
    """
    false, found, ahead = 0, 0, 0
    for rng in generators(n_repeats, seed):
        leaders, _ = _leaders(draw(equal, rng))
        false += any(leader is not None for leader in leaders)
    for rng in generators(n_repeats, seed + 1):
        leaders, first = _leaders(draw(apart, rng))
        found += any(leader == 0 for leader in leaders)
        ahead += first == 0
    return {"false": false / n_repeats, "found": found / n_repeats, "ahead": ahead / n_repeats}


def _leaders(votes: Drawn) -> tuple[list[int | None], int | None]:
    """The clear leader at each look, and who is ahead at the last one."""
    leaders, ahead = [], None
    raters = "judges" if votes.rater is None else "people"
    for n in np.linspace(0, len(votes.left), LOOKS + 1).astype(int)[1:].tolist():
        evidence = votes.first(n).evidence_for(Question(raters))
        try:
            fit = Sandwich(jackknifed=True).fit(*evidence.groups.groupings)
        except NoMaximumError:  # not all candidates can be compared yet
            continue
        measurement = Measurement(
            fit.model_.theta_,
            fit.covariance_,
            fit.model_.covariance_,
            fit.ratings_,
            fit.low_,
            fit.high_,
            fit.standard_errors_,
            fit.n_clusters_,
            fit.reason_,
        )
        measured, _ = describe(evidence, measurement, fit)
        leader, ahead = measured.findings["leader"], measured.findings["ahead"]
        leaders.append(leader)
    return leaders, ahead


def simulate_family(equal: Design, apart: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """Shares of repeats in which any candidate was called better or worse than the first at any of
    40 looks, all of them taken together: ``false``, where all are equal, which is the false
    discovery rate, and ``found``, where the last is better and was called so.
    """
    false, found = 0, 0
    for rng in generators(n_repeats, seed):
        false += any(_called(draw(equal, rng)))
    for rng in generators(n_repeats, seed + 1):
        found += _called(draw(apart, rng))[-1]
    return {"false": false / n_repeats, "found": found / n_repeats}


def _called(votes: Drawn) -> list[bool]:
    """Of each candidate after the first, whether it was called different at any look."""
    called = np.zeros(len(votes.truth) - 1, np.bool_)
    for n in np.linspace(0, len(votes.left), LOOKS + 1).astype(int)[1:].tolist():
        evidence = votes.first(n).evidence
        ids = evidence.candidates.tolist()
        claims = [claim(evidence.between(candidate, ids[0])) for candidate in ids[1:]]
        if votes.rater is not None:
            claims = [one if one.scope is Scope.RATERS else one.wider or one for one in claims]
        called |= np.array(decided_together(claims)) & [one.is_decided for one in claims]
    return called.tolist()
