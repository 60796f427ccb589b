"""Real votes, read from outside the checkout."""

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

SCORES = {"left": 1.0, "tie": 0.5, "right": 0.0}


@dataclass(frozen=True)
class CrowdVotes:
    names: list[str]
    left: np.ndarray
    right: np.ndarray
    score: np.ndarray
    prompt: np.ndarray
    rater: np.ndarray


@pytest.fixture(scope="session")
def crowd() -> CrowdVotes:
    """The 8,931 votes of llmfao.csv; candidates are numbered in the order of their names."""
    folder = Path(os.environ.get("RINGSIDE_DATA", "../shared/data"))
    path = folder / "crowd-votes" / "llmfao.csv"
    if not path.exists():
        pytest.skip(f"no real data: {path} is absent (set RINGSIDE_DATA)")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = sorted({row[side] for row in rows for side in ("left", "right")})
    return CrowdVotes(
        names=names,
        left=np.array([names.index(row["left"]) for row in rows]),
        right=np.array([names.index(row["right"]) for row in rows]),
        score=np.array([SCORES[row["winner"]] for row in rows]),
        prompt=np.array([int(row["prompt"]) for row in rows]),
        rater=np.array([int(row["worker"]) for row in rows]),
    )
