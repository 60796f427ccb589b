"""Simulation of registered runs by judges: a draft against a baseline, tested for "worse" alone."""

from dataclasses import dataclass

import numpy as np

from benchmarks.simulations.boards import generators
from benchmarks.simulations.designs import Floats
from ranking.stats.claim import Registration, Verdict, registered_power, stopped_after

SIZES = (20, 50, 100, 200)
MARGIN = 0.45
LOSERS = {60: (100, 0.60), 70: (50, 0.84)}  # percent lost: decided prompts, and the power asked for


@dataclass(frozen=True)
class Gate:
    """How the scores of prompts are drawn: "verdict" is of one judge, "soft" of any size, and
    "judges" the mean of two who see the same answers. `ties`: the share of each judge's verdicts.
    """

    name: str
    kind: str
    ties: float

    def scores(self, size: int, rng: np.random.Generator, lost: float = 0.5) -> Floats:
        """`lost`: the share of decided verdicts that the draft loses, of one judge."""
        if self.kind == "judges":
            effect = rng.normal(size=(size, 1))
            score = np.sign(effect + rng.normal(size=(size, 2)))
        elif self.kind == "soft":
            score = rng.uniform(-1, 1, (size, 1))
        else:
            score = np.where(rng.random((size, 1)) < lost, -1.0, 1.0)
        mean: Floats = np.where(rng.random(score.shape) < self.ties, 0.0, score).mean(1)
        return mean


def simulate_gate(gate: Gate, n_repeats: int, seed: int) -> dict[str, float]:
    """The shares of runs that find the draft worse: where both are alike, of each size and of
    ``all``; of one judge, also those of drafts that lose 60 or 70 of 100, beside what is ``stated``
    for as many decided prompts (``apart``: the larger of the two differences), and the share of
    drafts at the ``margin`` that are found no worse with 100 prompts.
    """
    rngs, found = generators(n_repeats, seed), {}
    for size in SIZES:
        ended = _ended(gate, Registration(size, side=-1), rngs, 0.5)
        found[str(size)] = ended.count(Verdict.WORSE) / n_repeats
    found["all"] = float(np.mean(list(found.values())))
    if gate.kind != "verdict":
        return found
    found["apart"] = 0.0
    for percent, (decided, _) in LOSERS.items():
        run = Registration(round(decided / (1 - gate.ties)), side=-1)
        stated = registered_power(percent / 100, Registration(decided, side=-1))
        share = _ended(gate, run, rngs, percent / 100).count(Verdict.WORSE) / n_repeats
        found |= {f"lost {percent}": share, "apart": max(found["apart"], abs(share - stated))}
    lost = 0.5 + (0.5 - MARGIN) / (1 - gate.ties)
    ended = _ended(gate, Registration(100, side=-1), rngs, lost, MARGIN)
    return found | {"margin": ended.count(Verdict.NO_WORSE) / n_repeats}


def _ended(
    gate: Gate,
    run: Registration,
    rngs: list[np.random.Generator],
    lost: float,
    margin: float | None = None,
) -> list[Verdict]:
    return [stopped_after(gate.scores(run.size, rng, lost), run, margin)[1].verdict for rng in rngs]


GATES = tuple(
    Gate(f"{words}, {ties:.0%} ties", kind, ties)
    for kind, words in (
        ("verdict", "one judge"),
        ("soft", "scores of any size"),
        ("judges", "two judges"),
    )
    for ties in (0.0, 0.25, 0.6)
)
