"""Simulation of the draw: which pairs raters see, and what their votes say."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from arena.db.sql import FEW, SESSION
from benchmarks.simulations.boards import generators
from benchmarks.simulations.designs import ELO, Design, Drawn, Floats, Ints, crowd, draw
from ranking.stats.arrays import Bools
from ranking.stats.intervals import Sandwich
from ranking.stats.pairing import pair_shares
from ranking.stats.ranks import leader_among, rank_intervals, simultaneous_value

SESSIONS = 20  # drawn on each board, after its last vote
TOP = 4
HIGHEST = 5
NEWCOMER_VOTES = 200
Pair = tuple[int, int]


def drawn(name: str, scores: Sequence[float]) -> Design:
    """A board of 40 raters and 40 prompts, on which the draw decides who meets; scores in Elo."""
    return crowd(
        name,
        40,
        40,
        strengths=tuple(score * ELO for score in scores),
        popular=(1.0,) * len(scores),
        n_votes=50 * SESSION,
        taste=0.3,
        prompt_effect=0.3,
    )


# With what is asked of each in particular.
DRAWN = {
    drawn("the sample’s 8 candidates", (195, 167, 147, 146, -39, -96, -207, -313)): {
        "top": (0.4, 1.0),
        "settled": (0.0, 0.45),
        "first": (0.0, 0.9),
    },
    drawn("20 candidates", np.linspace(250, -250, 20).tolist()): {
        "settled": (0.0, 0.32),
        "first": (0.0, 0.85),
    },
}
TARGETS = {
    "candidate": (0.0, 0.5),
    "pair": (0.0, 0.15),
    "widths": (0.0, 1.06),
    "coverage": (0.93, 0.985),
    "least": (0.92, 1.0),
    "wrong": (0.0, 0.02),
}


def grades(pairs: Sequence[Pair], recent: Sequence[Pair], n_candidates: int) -> list[int]:
    """How grave a rule each pair would break after the `recent` ones, the latest first: 0 is none,
    2 the one that is dropped last. These are the rules of `arena.db.sql.NEXT`, written again."""
    if n_candidates <= FEW:
        return [int(pair in recent[:1]) for pair in pairs]
    twice = set(recent[0]) & set(recent[1]) if len(recent) > 1 else set()
    count = Counter(candidate for pair in recent[:SESSION] for candidate in pair)
    often = {candidate for candidate, n in count.items() if n * n_candidates >= 4 * SESSION}
    last = set(recent[:5])
    return [
        2 if not twice.isdisjoint(pair) else int(pair in last or not often.isdisjoint(pair))
        for pair in pairs
    ]


class Session:
    """The pairs that one rater sees, as places in a design's pairs."""

    def __init__(self, design: Design) -> None:
        low, high = (side.tolist() for side in design.pairs)
        self.pairs: list[Pair] = list(zip(low, high, strict=True))
        self.n_candidates = len(design.strengths)
        self.seen: list[int] = []

    def draw(self, weights: Floats, rng: np.random.Generator) -> int:
        recent = [self.pairs[place] for place in self.seen[: -SESSION - 1 : -1]]
        broken = np.array(grades(self.pairs, recent, self.n_candidates))
        # Pairs with a weight of 0 cannot be drawn.
        allowed = np.where(broken == broken[weights > 0].min(), weights, 0.0)
        self.seen.append(int(rng.choice(len(allowed), p=allowed / allowed.sum())))
        return self.seen[-1]


@dataclass(frozen=True, eq=False)
class Fit:
    """What the product says of a board's votes.

    Attributes
    ----------
    sandwich : the scores
    weights : (P,) published after these votes
    is_settled : (P,) whether the order of a pair is
    leader : whose lead over each other candidate is significant, or None
    """

    sandwich: Sandwich
    weights: Floats
    is_settled: Bools
    leader: int | None

    @property
    def first_against_second(self) -> float:
        """The standard error of the difference of the first two candidates, in Elo."""
        c = self.sandwich.covariance_
        return float(np.sqrt(c[0, 0] + c[1, 1] - 2 * c[0, 1])) / ELO


def fit(design: Design, votes: Drawn, is_drawable: Bools) -> Fit:
    """`is_drawable`: (P,)"""
    sandwich = Sandwich(jackknifed=True).fit(*votes.evidence.groups.groupings)
    theta, c, groups = sandwich.model_.theta_, sandwich.covariance_, sandwich.n_clusters_
    critical = simultaneous_value(c, n_clusters=groups) if groups > 1 else None
    low, high = design.pairs
    weights = np.zeros(len(low))
    pairs = (low[is_drawable], high[is_drawable])
    wins = votes.battles(clustered=False).wins()
    weights[is_drawable] = pair_shares(pairs, theta, c, wins, critical).total
    if critical is None:
        return Fit(sandwich, weights, np.zeros(len(low), np.bool_), None)
    error = np.sqrt(c[low, low] + c[high, high] - 2 * c[low, high])
    is_settled = np.abs(theta[low] - theta[high]) > critical * error
    leader = leader_among(rank_intervals(theta, c, critical=critical)[1])
    return Fit(sandwich, weights, is_settled, leader)


def vote(design: Design, rng: np.random.Generator, newcomer: int | None = None) -> Drawn:
    """A board on which raters see what the product would draw. The `newcomer` is drawn only for the
    last NEWCOMER_VOTES votes."""
    sessions = [Session(design) for _ in range(design.n_raters)]
    everybody = np.ones(len(design.gap), np.bool_)
    others = np.logical_and(*(side != newcomer for side in design.pairs))

    def choose(votes: Drawn, raters: Ints) -> Ints:
        n = len(votes.left)
        is_drawable = others if n < design.n_votes - NEWCOMER_VOTES else everybody
        weights = fit(design, votes, is_drawable).weights if n else is_drawable.astype(np.float64)
        return np.array([sessions[rater].draw(weights, rng) for rater in raters.tolist()])

    return draw(design, rng, choose)


def simulate_draw(design: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """Figures of boards whose pairs the product draws, and of sessions after their last vote.

    ``candidate`` and ``pair``: how much of a session the most frequent one takes, 99th percentile
    and mean; ``top``, ``settled``: the shares of pairs among the best four, and in settled order;
    ``first``: the standard error of first against second, ``widths``: those of all scores, both as
    a share of what uniform draws give; ``coverage``, of 95 % intervals, and ``least`` of the five
    best; ``wrong``: boards with another clear leader than the best.
    """
    sessions, seen, ratios, holds, wrong = [], [], [], [], 0
    everybody = np.ones(len(design.gap), np.bool_)
    for rng in generators(n_repeats, seed):
        twin, votes = draw(design, rng), vote(design, rng)
        uniform, found = fit(design, twin, everybody), fit(design, votes, everybody)
        ratios.append(
            [
                [one.first_against_second, float(one.sandwich.standard_errors_.mean())]
                for one in (found, uniform)
            ]
        )
        scores = found.sandwich
        holds.append((scores.low_ <= votes.truth) & (votes.truth <= scores.high_))
        wrong += found.leader not in (None, 0)
        for _ in range(SESSIONS):
            session = Session(design)
            places = np.array([session.draw(found.weights, rng) for _ in range(SESSION)])
            candidates = np.concatenate([side[places] for side in design.pairs])
            sessions.append([np.bincount(candidates).max(), np.bincount(places).max()])
            seen.append([(design.pairs[1][places] < TOP).mean(), found.is_settled[places].mean()])
    often = np.array(sessions) / SESSION
    top, settled = np.mean(seen, axis=0)
    (first, widths), (first_uniform, widths_uniform) = np.mean(ratios, axis=0)
    each = np.mean(holds, axis=0)
    return {
        "candidate": float(np.quantile(often[:, 0], 0.99)),
        "pair": float(often[:, 1].mean()),
        "top": float(top),
        "settled": float(settled),
        "first": float(first / first_uniform),
        "widths": float(widths / widths_uniform),
        "coverage": float(each.mean()),
        "least": float(each[:HIGHEST].min()),
        "wrong": wrong / n_repeats,
    }


def simulate_newcomer(design: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """``newcomer``: the standard error of the fourth best, which is new, after NEWCOMER_VOTES,
    by the median one; the mean of all boards."""
    newcomer = TOP - 1
    longer = replace(design, n_votes=design.n_votes + NEWCOMER_VOTES)
    shares = []
    for rng in generators(n_repeats, seed):
        votes = vote(longer, rng, newcomer)
        errors = fit(longer, votes, np.ones(len(design.gap), np.bool_)).sandwich.standard_errors_
        shares.append(errors[newcomer] / np.median(errors))
    return {"newcomer": float(np.mean(shares))}
