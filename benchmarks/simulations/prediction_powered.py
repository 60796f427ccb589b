"""Simulation of the combined board's coverage with good, biased and useless judges.

People and the judge see comparisons of `CANDIDATES` candidates, drawn with different pair
probabilities: people's increase with the candidates' indices, the judge's are equal. The truth is
the Bradley-Terry fit to infinitely many human votes with people's pair probabilities, or with equal
ones if votes are weighted by the stored draw probabilities.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranking.stats.battles import Battles
from ranking.stats.bootstrap import Bootstrap
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.intervals import Sandwich
from ranking.stats.judged import Labelled, Unlabelled, draw_weights
from ranking.stats.ppi import PredictionPowered

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

JUDGES = ("good", "abstains", "prefers_longer", "prefers_left", "prefers_one", "useless")
DESIGNS = ("votes", "prompts", "weighted", "shifted", "far", "strata")
SHIFTS = {"shifted": 0.5, "far": 1.0}  # natural log-odds
CANDIDATES = 8
PEOPLE = 600
JUDGED = 6000
PROMPTS = 60  # seen by people; the judge sees these and as many others
SPREAD = 0.8  # of strengths, in natural log-odds
RESAMPLES = 300
SHIFTED = 2  # the candidate that fares better on the judge's own prompts, if one does
SURPRISE = 1.2  # the standard deviation of an answer's quality around its candidate's strength


@dataclass(frozen=True)
class World:
    """The constants of all repeats: strengths, people's pair probabilities, and the true fit."""

    strength: Floats
    left: Ints
    right: Ints
    chance: Floats
    truth: Floats


@dataclass(frozen=True)
class Seen:
    """Comparisons with the log-odds of human votes, and what else may influence a judge."""

    left: Ints
    right: Ints
    gap: Floats
    longer: Floats
    prompt: Ints
    chance: Floats


def world(design: str) -> World:
    """Candidates with evenly spaced strengths; later ones are shown to people more often."""
    strength = np.linspace(-SPREAD, SPREAD, CANDIDATES)
    left, right = np.nonzero(~np.eye(CANDIDATES, dtype=bool))
    chance = 1.0 + left + right
    chance /= chance.sum()
    # Averaged over the surprise, people's preference is no longer logistic in the strengths.
    node, share = np.polynomial.hermite_e.hermegauss(60)
    gap = (strength[left] - strength[right])[:, None] + np.sqrt(2) * SURPRISE * node
    score = _sigmoid(gap) @ share / share.sum()
    pairs = None if design == "weighted" else chance
    votes = Battles.from_arrays(left, right, score, pairs, n_candidates=CANDIDATES)
    return World(strength, left, right, chance, BradleyTerry().fit(votes).ratings_)


def simulate(judge_kind: str, n_repeats: int, seed: int, design: str = "votes") -> dict[str, float]:
    """Simulate the board repeatedly.

    ``design``: "votes", with independent surprises; "prompts", with surprises shared by all votes
    on a prompt; "weighted", with votes weighted by their inverse draw probabilities; "shifted" and
    "far", as "prompts", but candidate `SHIFTED` does better by `SHIFTS` on the prompts that only
    the judge sees; "strata", with the shift of "far" on half of those, which have a category of
    their own.

    Returns, over repeats and candidates: ``coverage`` of the combined 95 % intervals and
    ``people_coverage`` of those from human votes alone; ``width_ratio``, the mean ratio of their
    mean widths, and ``widest_ratio``, the largest ratio of a single repeat; ``mean_lambda``, and
    ``lambda_zero``, the share of repeats that fall back to human votes alone; ``shifted``, the
    coverage of candidate `SHIFTED`, and ``left_out``, how often the judge is not asked about it;
    ``wider``, the share of repeats in which any interval is wider than with human votes alone.
    """
    if judge_kind not in JUDGES or design not in DESIGNS:
        raise ValueError(f"judge_kind is one of {JUDGES} and design of {DESIGNS}")
    there = world(design)
    rows = []
    for sequence in np.random.SeedSequence(seed).spawn(n_repeats):
        rows.append(_repeat(there, judge_kind, design, np.random.default_rng(sequence)))
    covered, alone, ratio, tuned, shifted, left_out, wider = np.array(rows).T
    return {
        "coverage": float(covered.mean()),
        "people_coverage": float(alone.mean()),
        "width_ratio": float(ratio.mean()),
        "widest_ratio": float(ratio.max()),
        "mean_lambda": float(tuned.mean()),
        "lambda_zero": float((tuned == 0).mean()),
        "shifted": float(shifted.mean()),
        "left_out": float(left_out.mean()),
        "wider": float(wider.mean()),
    }


def _repeat(
    there: World, judge_kind: str, design: str, rng: np.random.Generator
) -> tuple[float, ...]:
    quality = None
    if design not in ("votes", "weighted"):
        quality = rng.normal(0, SURPRISE, (2 * PROMPTS, CANDIDATES))
        quality[PROMPTS:, SHIFTED] += SHIFTS.get(design, 0)
    category = np.zeros(2 * PROMPTS, np.int64)
    if quality is not None and design == "strata":
        category[PROMPTS::2] = 1
        quality[PROMPTS::2, SHIFTED] += SHIFTS["far"]
    people = _draw(there, PEOPLE, there.chance, PROMPTS, quality, rng)
    judge = _draw(there, JUDGED, None, 2 * PROMPTS, quality, rng)
    score = (rng.random(PEOPLE) < _sigmoid(people.gap)).astype(float)
    labelled = Labelled.from_arrays(
        people.left,
        people.right,
        score,
        _verdict(judge_kind, people, rng),
        draw_weights(people.chance) if design == "weighted" else None,
        None if quality is None else people.prompt,
        CANDIDATES,
        category[people.prompt],
    )
    unlabelled = Unlabelled.from_arrays(
        judge.left,
        judge.right,
        _verdict(judge_kind, judge, rng),
        cluster=None if quality is None else judge.prompt,
        stratum=category[judge.prompt],
    )
    crossed = Sandwich(jackknifed=True).fit(labelled.battles)
    published = Bootstrap(RESAMPLES, random_state=int(rng.integers(2**32)))
    published.fit(labelled.battles, crossed)
    fit = PredictionPowered().fit(labelled, unlabelled, crossed, published)
    inside = (fit.low_ <= there.truth) & (there.truth <= fit.high_)
    alone = (published.low_ <= there.truth) & (there.truth <= published.high_)
    width, widest = fit.high_ - fit.low_, published.high_ - published.low_
    return (
        float(inside.mean()),
        float(alone.mean()),
        float(width.mean() / widest.mean()),
        fit.lambda_,
        float(inside[SHIFTED]),
        float(fit.left_out_[SHIFTED]),
        float((width > widest * (1 + 1e-9)).any()),
    )


def _draw(
    there: World,
    size: int,
    chance: Floats | None,
    n_prompts: int,
    quality: Floats | None,
    rng: np.random.Generator,
) -> Seen:
    """Draw comparisons. ``quality``: (prompts, K) of answers; None draws it per comparison."""
    pair = rng.choice(len(there.left), size, p=chance)
    left, right = there.left[pair], there.right[pair]
    prompt = rng.integers(0, n_prompts, size)
    gap = there.strength[left] - there.strength[right]
    if quality is None:
        gap = gap + rng.normal(0, np.sqrt(2) * SURPRISE, size)
    else:
        gap = gap + quality[prompt, left] - quality[prompt, right]
    return Seen(left, right, gap, rng.normal(size=size), prompt, there.chance[pair])


def _verdict(judge_kind: str, seen: Seen, rng: np.random.Generator) -> Floats:
    """The judge's soft score for left; one in ten is random, NaN if the judge abstains."""
    leaning = {
        "good": seen.gap,
        "abstains": np.where(np.abs(seen.gap) < 0.7, np.nan, seen.gap),
        "prefers_longer": seen.gap + 2.0 * seen.longer,
        "prefers_left": seen.gap + 1.5,
        "prefers_one": seen.gap + 3.0 * ((seen.left == 0) * 1.0 - (seen.right == 0)),
        "useless": rng.normal(0, 1.5, len(seen.gap)),
    }[judge_kind]
    coin = rng.random(len(leaning)) < 0.1
    return np.where(coin & ~np.isnan(leaning), rng.random(len(leaning)), _sigmoid(leaning))


def _sigmoid(gap: Floats) -> Floats:
    return 1 / (1 + np.exp(-gap))
