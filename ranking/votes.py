"""The only door from rows to arrays: votes as the tallies and the replays read them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.models import Outcome, Rater
from arena.models.voting import VoteQuerySet
from ranking.models import Tallied, TallyMember
from ranking.tallies import Cells

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

OUTCOMES = [Outcome.LEFT, Outcome.RIGHT, Outcome.TIE, Outcome.BOTH_BAD]
LEFT, RIGHT, TIE, BOTH_BAD = range(4)
PLACES = {outcome.value: place for place, outcome in enumerate(OUTCOMES)}
KINDS: dict[str, str] = {
    Tallied.PEOPLE.value: Rater.Kind.PERSON.value,
    Tallied.JUDGES.value: Rater.Kind.JUDGE.value,
    Tallied.JURIES.value: Rater.Kind.JURY.value,
}
TRUSTED: dict[str, str] = {
    Tallied.TRUSTED_JUDGES.value: Tallied.JUDGES.value,
    Tallied.TRUSTED_JURIES.value: Tallied.JURIES.value,
}
COLUMNS = (
    "pk",
    "comparison__left",
    "comparison__right",
    "outcome",
    "preference",
    "comparison__prompt",
    "comparison__prompt__category",
    "rater",
    "rater__kind",
    "source_row",
)


@dataclass(frozen=True, eq=False)
class Votes:
    """N votes in the order in which they were read.

    Attributes
    ----------
    pk, left, right, rater : (N,) int64, ids
    prompt : (N,) int64, its id or 0 where it is not known
    source_row : (N,) int64, the row of its file or 0
    outcome : (N,) int64, a place in OUTCOMES
    preference : (N,) float64, the soft verdict for left, NaN where there is none
    category : (N,) str objects, the prompt's or ""
    kind : (N,) str objects, the rater's
    trusted : (N,) bool, whether the tallies of the trusted count its rater
    """

    pk: Ints
    left: Ints
    right: Ints
    outcome: Ints
    preference: Floats
    prompt: Ints
    category: NDArray[Any]
    rater: Ints
    kind: NDArray[Any]
    trusted: Bools
    source_row: Ints

    def __len__(self) -> int:
        return len(self.pk)

    @property
    def score(self) -> Floats:
        """(N,) the left answer's: 1, 0, a half, or the soft verdict; both bad is a half."""
        hard = np.array([1.0, 0.0, 0.5, 0.5])[self.outcome]
        soft = ~np.isnan(self.preference) & (self.outcome != BOTH_BAD)
        return np.where(soft, self.preference, hard)

    def where(self, chosen: Bools) -> "Votes":
        return Votes(*(column[chosen] for column in vars(self).values()))

    def of(self, raters: str, category: str = "") -> "Votes":
        """The votes of one question."""
        mine: Bools = self.kind == KINDS[TRUSTED.get(raters, raters)]
        if raters in TRUSTED:
            mine &= self.trusted
        if category:
            mine &= self.category == category
        return self.where(mine)

    def questions(self) -> set[tuple[str, str]]:
        """Each (raters, category) that a vote is here for; the category "" is all of them."""
        found = set()
        for raters in Tallied.values:
            mine = set(self.of(raters).category.tolist())
            found |= {(raters, name) for name in mine | {""}} if mine else set()
        return found

    def cells(self) -> Cells:
        """What they add up to."""
        return Cells.count(
            self.left, self.right, self.outcome, self.preference, self.prompt, self.rater
        )


def read_votes(votes: VoteQuerySet, limit: int, trusted: frozenset[int] = frozenset()) -> Votes:
    """The first `limit` of the votes, in the order they are asked for; one query. `trusted`: the
    ids of the raters whose votes the tallies of the trusted count."""
    rows = list(votes.values_list(*COLUMNS)[:limit])
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    pk, left, right, outcome, preference, prompt, category, rater, kind, row = columns
    return Votes(
        pk=np.array(pk, np.int64),
        left=np.array(left, np.int64),
        right=np.array(right, np.int64),
        outcome=np.array([PLACES[value] for value in outcome], np.int64),
        preference=np.array([np.nan if p is None else p for p in preference], np.float64),
        prompt=np.array([p or 0 for p in prompt], np.int64),
        category=np.array([name or "" for name in category], object),
        rater=np.array(rater, np.int64),
        kind=np.array(kind, object),
        trusted=np.array([pk in trusted for pk in rater], np.bool_),
        source_row=np.array([n or 0 for n in row], np.int64),
    )


def rater_names(arena_id: int, raters: str, category: str) -> list[str]:
    """The names of those whose votes a question counts, in alphabetical order."""
    voted = TallyMember.objects.filter(
        tally__arena=arena_id, tally__raters=raters, tally__category=category, n_votes__gt=0
    )
    return sorted(str(rater) for rater in Rater.objects.filter(pk__in=voted.values("rater")))
