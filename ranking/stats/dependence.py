"""Which votes of a board depend on one another, and how much one rater may weigh."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ranking.stats.arrays import Bools, Floats, Ints
from ranking.stats.battles import Battles
from ranking.stats.intervals import MIN_CLUSTERS, measurable


@dataclass(frozen=True, eq=False)
class Dependence:
    """The groupings of a board's votes whose members are dependent.

    Attributes
    ----------
    groupings : one or two `Battles` of the same votes, by prompt and by rater
    rule : "prompt_rater", "prompt", "rater" or "vote" (all votes independent)
    n_raters : if the result holds for these raters only, their number; else 0
    effective : the effective numbers of "prompts" and "raters", where they are known
    """

    groupings: tuple[Battles, ...]
    rule: str
    n_raters: int = 0
    effective: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def choose(cls, by_prompt: Battles | None, by_rater: Battles | None, votes: Battles) -> Self:
        """The groupings that are known and have enough clusters.

        ``by_prompt``: None if no prompt is known. ``by_rater``: None if no rater is known, or if
        the result is about these raters alone, as with judges. ``votes``: without clusters. Fewer
        than 5 effective raters say too little about others: the result then holds for them only.
        """
        sampled = by_rater is not None and by_rater.effective_clusters >= MIN_CLUSTERS
        known = {"prompt": by_prompt, "rater": by_rater if sampled else None}
        used = {name: grouping for name, grouping in known.items() if grouping is not None}
        n_raters = 0 if sampled or by_rater is None else by_rater.n_clusters
        both = {"prompts": by_prompt, "raters": by_rater}
        effective = {name: of.effective_clusters for name, of in both.items() if of is not None}
        rule = "_".join(used) or "vote"
        return cls(tuple(used.values()) or (votes,), rule, n_raters, effective)

    @property
    def note(self) -> str:
        """One sentence for a page; empty for the usual rule."""
        if not self.n_raters:
            return "Prompts are unknown; all votes are treated as independent." * (
                self.rule == "vote"
            )
        if self.n_raters == 1:
            return "All votes are by one rater; the results say nothing about others."
        return f"The results hold for these {self.n_raters:,} raters only: they are too few."

    @property
    def measurable(self) -> Bools:
        """(K,) mask: the candidates with enough clusters of their own in every grouping."""
        mask: Bools = np.logical_and.reduce([measurable(grouping) for grouping in self.groupings])
        return mask

    @property
    def clusters_per_candidate(self) -> Ints:
        """(K,): the number of clusters of each candidate's votes, in the grouping with fewer."""
        fewest: Ints = np.min(
            [grouping.clusters_per_candidate() for grouping in self.groupings], axis=0
        )
        return fewest


# -- The weight of one rater -----------------------------------------------------------------------

RATER_SHARE = 0.1  # of the votes of people, where nothing else is set


def largest_share(n_raters: int, share: float) -> float:
    """The share of a board's votes that one of its raters may weigh, from 0 to 1.

    At least twice the average rater's, so that a cap never bites where all cast as many votes.
    """
    return min(1.0, max(share, 2 / max(n_raters, 1)))


def capped_weights(votes: Floats, share: float) -> Floats:
    """(R,) the weight of one vote of each rater, so that nobody weighs more than the share of all.

    Parameters
    ----------
    votes : (R,) votes of each rater, 0 or more
    share : as `largest_share`

    The m heaviest raters get s / (1 - m s) times the votes of the others each, with the smallest m
    that leaves nobody else above that.
    """
    weights: Floats = np.ones(len(votes))
    order = np.argsort(-votes, kind="stable")
    rest = float(votes.sum())
    limit = share * rest
    for n_capped, heaviest in enumerate(order.tolist()):
        if votes[heaviest] <= limit or (n_capped + 1) * share >= 1:
            break
        rest -= float(votes[heaviest])
        limit = share * rest / (1 - (n_capped + 1) * share)
    over = votes > limit
    weights[over] = limit / votes[over]
    return weights


def vote_weights(rater: Ints, share: float = RATER_SHARE) -> tuple[Floats, float]:
    """(N,) the weights of votes by these raters, and the share that each of them is capped at.

    ``rater``: (N,), negative if unknown; such votes are taken to be by as many raters.
    """
    known = rater >= 0
    cast = np.bincount(rater[known]).astype(np.float64)
    votes = np.concatenate([cast, np.ones(np.count_nonzero(~known))])
    most = largest_share(int(np.count_nonzero(votes)), share)
    weights = np.ones(len(rater))
    weights[known] = capped_weights(votes, most)[rater[known]]
    return weights, most


def capped_note(n_raters: int, share: float) -> str:
    """One sentence for a page; empty if nobody is capped."""
    if not n_raters:
        return ""
    whose = "1 rater’s votes are" if n_raters == 1 else f"{n_raters:,} raters’ votes are each"
    return f"{whose} capped at {100 * share:.0f} % of the weight."
