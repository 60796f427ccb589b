"""Few-shot examples: judgements by people that a judge is shown, drawn from a pool by seed."""

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, zip_longest

Drawn = tuple[str, str, "Example"]


class ExampleError(ValueError):
    """Examples that cannot be drawn or shown; the message says why."""


@dataclass(frozen=True)
class Example:
    """One judgement by people, with `answers` in the order in which they are shown.

    `verdict` is "left", "right" or "tie" for two answers, a label of the scale for one, and for
    three or more their letters, best first: "B > A = C".
    """

    prompt: str
    answers: tuple[str, ...]
    verdict: str
    reason: str = ""
    reference: str = ""


def draw_examples(
    pool: Sequence[Drawn], n: int, seed: int | str, exclude_keys: Collection[str] = ()
) -> tuple[Example, ...]:
    """Draw `n` examples from a pool of (key, label, example), as evenly over the labels as it goes.

    A key is drawn once at most, and never one of `exclude_keys` (the items that are tested). The
    draw depends on the seed and on what is in the pool, not on its order. Raises ExampleError when
    the pool is too small.
    """
    candidates = _one_per_key((one for one in pool if one[0] not in set(exclude_keys)), seed)
    if not 0 <= n <= len(candidates):
        raise ExampleError(
            f"The pool has {len(candidates)} examples outside the items tested; {n} were asked for."
        )
    chosen = _round_robin(candidates, seed)[:n]
    return tuple(example for _, _, example in _by_chance(chosen, seed, "order"))


def _one_per_key(pool: Iterable[Drawn], seed: int | str) -> list[Drawn]:
    """Several people's labels of one item are several entries; chance takes one of them."""
    kept = {one[0]: one for one in _by_chance(pool, seed, "key")}
    return list(kept.values())


def _round_robin(pool: Sequence[Drawn], seed: int | str) -> list[Drawn]:
    """Take one of each label in turn, as long as there are any; the labels' order is chance's."""
    strata: dict[str, list[Drawn]] = {}
    for one in _by_chance(pool, seed, "stratum"):
        strata.setdefault(one[1], []).append(one)
    queues = [strata[label] for label in sorted(strata, key=lambda one: _draw(seed, "label", one))]
    return [one for one in chain.from_iterable(zip_longest(*queues)) if one is not None]


def _by_chance(pool: Iterable[Drawn], seed: int | str, purpose: str) -> list[Drawn]:
    return sorted(pool, key=lambda one: _draw(seed, purpose, *one[:2], json.dumps(asdict(one[2]))))


def _draw(seed: int | str, *parts: str) -> bytes:
    """Return what SHA-256 makes of the parts: chance that anybody can repeat."""
    return hashlib.sha256(json.dumps([seed, *parts]).encode()).digest()
