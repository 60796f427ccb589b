"""Which votes belong together, because one prompt or one rater stands behind them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ranking.stats import columns
from ranking.stats.columns import Ints

ENOUGH = 40  # prompts or raters from which intervals by them are trusted


@dataclass(frozen=True, eq=False)
class Clusters:
    """``codes``: (n,) int for `Battles.from_arrays`, None where each vote is its own cluster;
    ``rule``: "prompt", "prompt_pair", "rater" or "vote"."""

    codes: Ints | None
    rule: str

    @property
    def these_prompts_only(self) -> bool:
        """Whether the board speaks about these prompts only, and not about others like them."""
        return self.rule == "prompt_pair"

    @property
    def note(self) -> str:
        """One sentence for the page; empty for the rule that needs no excuse."""
        return _NOTES[self.rule]


_NOTES = {
    "prompt": "",
    "prompt_pair": f"With fewer than {ENOUGH} prompts, this board speaks about these prompts only.",
    "rater": "The prompts are not all known; votes of one rater are taken as dependent there.",
    "vote": "Neither prompts nor enough raters are known; votes are taken as independent.",
}


def choose_clusters(
    left: ArrayLike,
    right: ArrayLike,
    prompt: ArrayLike | None = None,
    rater: ArrayLike | None = None,
    batch: ArrayLike | None = None,
) -> Clusters:
    """By prompt from 40 prompts on, else by (prompt, pair); prompt unknown: by rater or by vote.

    Parameters
    ----------
    left, right : (n,) candidates
    prompt, rater : (n,) integers; negative is unknown. Where only some prompts are, votes on a
        known one share it and the others their rater, and the rule is "rater"; a vote of which
        neither is known makes it "vote"
    batch : (n,) integers; votes derived from one list of responses share one, negative is none.
        They share a cluster whatever the rule.
    """
    a = columns.integers("left", left)
    b = columns.integers("right", right, len(a))
    prompts = _known("prompt", prompt, len(a))
    owners = _owners(prompt, rater, len(a))
    if prompts is not None and prompts[1] >= ENOUGH:
        chosen = Clusters(prompts[0], "prompt")
    elif prompts is not None:
        chosen = Clusters(
            _by_pair(prompts[0], a.astype(np.int64), b.astype(np.int64)), "prompt_pair"
        )
    elif owners is not None and owners[1] >= ENOUGH:
        chosen = Clusters(owners[0], "rater")
    else:
        chosen = Clusters(None, "vote")
    return chosen if batch is None else _joined(chosen, columns.integers("batch", batch, len(a)))


def _known(name: str, values: ArrayLike | None, length: int) -> tuple[Ints, int] | None:
    if values is None or not length:
        return None
    array = columns.integers(name, values, length)
    return columns.codes(array) if array.min() >= 0 else None


def _owners(
    prompt: ArrayLike | None, rater: ArrayLike | None, length: int
) -> tuple[Ints, int] | None:
    """Codes of the prompts that are known and of the raters of all other votes, and how many."""
    if rater is None or not length:
        return None
    raters = columns.integers("rater", rater, length).astype(np.int64)
    if prompt is None:
        return _known("rater", raters, length)
    prompts = columns.integers("prompt", prompt, length).astype(np.int64)
    if ((prompts < 0) & (raters < 0)).any():
        return None
    return columns.codes(np.where(prompts < 0, raters, -1 - prompts))


def _by_pair(prompt: Ints, left: Ints, right: Ints) -> Ints:
    low, high = np.minimum(left, right), np.maximum(left, right)
    n_candidates = int(high.max()) + 1
    return columns.codes((prompt * n_candidates + low) * n_candidates + high)[0]


def _joined(chosen: Clusters, batch: Ints) -> Clusters:
    """Clusters that share a batch become one: the connected parts of votes, clusters, batches."""
    member = batch >= 0
    if not member.any():
        return chosen
    own = np.arange(len(batch)) if chosen.codes is None else chosen.codes
    batches, n_batches = columns.codes(batch[member])
    offset = int(own.max()) + 1
    ends = (own[member], offset + batches)
    size = offset + n_batches
    links = coo_array((np.ones(len(batches)), ends), shape=(size, size))
    joined = connected_components(links, directed=False)[1]
    return Clusters(joined[own].astype(np.int64), chosen.rule)
