"""The sweep over the share of the first judge in docs/how-to/train-a-judge.md, computed again.

A network of 1,152 weights stands in for a language model: from the same base, one copy learns to
score answers and one to choose between two, and each forgets some of the other task.
"""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.conf import settings
from django.core.management import call_command
from safetensors.numpy import load_file, save_file

from judges.core.weights import METHODS, NEEDS_BASE

pytestmark = pytest.mark.django_db
Weights = dict[str, Any]
FEATURES, HIDDEN = 16, 64
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def answers(random: np.random.Generator, n: int) -> tuple[Any, Any]:
    """(n, 16) what a judge sees of each answer, and (n,) how good it is."""
    seen = random.normal(size=(n, FEATURES))
    return seen, np.tanh(
        seen[:, 0] + 2 * np.abs(seen[:, 1]) - 2 * np.maximum(seen[:, 2], seen[:, 3])
    )


def run(model: Weights, seen: Any) -> tuple[Any, Any]:
    hidden = np.tanh(seen @ model["inner"])
    return hidden, hidden @ model["outer"]


def learn(model: Weights, task: str, steps: int, seed: int) -> Weights:
    """Gradient descent: squared error of scores, or the logistic loss of choices."""
    random, model = np.random.default_rng(seed), {name: w.copy() for name, w in model.items()}
    for _ in range(steps):
        (one, quality), (other, quality_other) = answers(random, 64), answers(random, 64)
        hidden, said = run(model, one)
        beside, said_beside = run(model, other)
        inner = np.zeros_like(model["inner"])
        outer = np.zeros_like(model["outer"])
        column = 0 if task == "scores" else 1
        if task == "scores":
            errors = [(one, hidden, said[:, 0] - quality)]
        else:
            gap = 1 / (1 + np.exp(said_beside[:, 1] - said[:, 1])) - (quality > quality_other)
            errors = [(one, hidden, gap), (other, beside, -gap)]
        for seen, layer, error in errors:
            outer[:, column] += layer.T @ error / len(error)
            back = np.outer(error, model["outer"][:, column]) * (1 - layer**2)
            inner += seen.T @ back / len(error)
        model = {"inner": model["inner"] - 0.3 * inner, "outer": model["outer"] - 0.3 * outer}
    return model


def measure(model: Weights) -> tuple[float, float]:
    """Pearson of the scores, and how often the choice is right."""
    random = np.random.default_rng(99)
    (one, quality), (other, quality_other) = answers(random, 20_000), answers(random, 20_000)
    said, beside = run(model, one)[1], run(model, other)[1]
    right = (said[:, 1] > beside[:, 1]) == (quality > quality_other)
    return float(np.corrcoef(said[:, 0], quality)[0, 1]), float(right.mean())


def save(folder: Path, model: Weights) -> Path:
    folder.mkdir()
    tensors = {name: np.ascontiguousarray(weights, "f4") for name, weights in model.items()}
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_the_table_of_the_sweep_is_what_the_command_makes(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    base = {
        "inner": random.normal(size=(FEATURES, HIDDEN)) / 1.5,
        "outer": random.normal(size=(HIDDEN, 2)) / 8,
    }
    for seed in range(20):
        base = learn(learn(base, "scores", 20, seed), "pairs", 20, seed + 100)
    paths = {
        "base": save(tmp_path / "base", base),
        "direct": save(tmp_path / "direct", learn(base, "scores", 8000, 201)),
        "pairwise": save(tmp_path / "pairwise", learn(base, "pairs", 8000, 202)),
    }
    found = {}
    for method in METHODS:
        for share in SHARES:
            out = tmp_path / f"{method} {share}"
            options = {"method": method, "share": share, "family": "small"}
            options |= {"base": paths["base"]} if method in NEEDS_BASE else {}
            call_command(
                "merge_judges", paths["direct"], paths["pairwise"], out,
                stdout=io.StringIO(), **options,
            )  # fmt: skip
            found[method, share] = measure(load_file(out / "model.safetensors"))
    page = (Path(settings.BASE_DIR) / "docs" / "how-to" / "train-a-judge.md").read_text(
        encoding="utf-8"
    )
    for method in METHODS:
        cells = re.findall(rf"^\| `{method}` \| (.*) \|$", page, re.MULTILINE)[-1].split(" | ")
        for share, text in zip(SHARES, cells, strict=True):
            pearson, right = (float(number) for number in text.removesuffix(" %").split(", "))
            assert found[method, share] == pytest.approx((pearson, right / 100), abs=0.01)
