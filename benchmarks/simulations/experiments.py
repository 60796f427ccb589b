"""Simulation of registered runs by judges: a draft against a baseline, tested for "worse" alone."""

from dataclasses import dataclass

import numpy as np

from benchmarks.simulations.boards import generators
from benchmarks.simulations.designs import Floats
from ranking.stats.claim import Registration, Verdict, registered_power, stopped_after

SIZES = (20, 50, 100, 200)
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
    for as many decided prompts (``apart``: the larger of the two differences).
    """
    rngs, found = generators(n_repeats, seed), {}
    for size in SIZES:
        found[str(size)] = _failed(gate, Registration(size, side=-1), rngs, 0.5)
    found["all"] = float(np.mean(list(found.values())))
    if gate.kind != "verdict":
        return found
    found["apart"] = 0.0
    for percent, (decided, _) in LOSERS.items():
        run = Registration(round(decided / (1 - gate.ties)), side=-1)
        stated = registered_power(percent / 100, Registration(decided, side=-1))
        found[f"lost {percent}"] = _failed(gate, run, rngs, percent / 100)
        found["apart"] = max(found["apart"], abs(found[f"lost {percent}"] - stated))
    return found


def _failed(gate: Gate, run: Registration, rngs: list[np.random.Generator], lost: float) -> float:
    claims = (stopped_after(gate.scores(run.size, rng, lost), run)[1] for rng in rngs)
    return sum(claim.verdict is Verdict.WORSE for claim in claims) / len(rngs)


GATES = tuple(
    Gate(f"{words}, {ties:.0%} ties", kind, ties)
    for kind, words in (
        ("verdict", "one judge"),
        ("soft", "scores of any size"),
        ("judges", "two judges"),
    )
    for ties in (0.0, 0.25, 0.6)
)
