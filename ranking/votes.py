"""The only door from rows to arrays: the live votes of an arena, as the fits read them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.models import Arena, Candidate, Outcome, Prompt, Rater, Vote

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

OUTCOMES = [Outcome.LEFT, Outcome.RIGHT, Outcome.TIE, Outcome.BOTH_BAD]
LEFT, RIGHT, TIE, BOTH_BAD = range(4)
UNKNOWN = -1  # the prompt of a vote whose file did not name one
CHUNK = 10_000
TICK = 100_000  # rows; about a second
COLUMNS = (
    "pk",
    "comparison__left",
    "comparison__right",
    "outcome",
    "preference",
    "comparison__prompt",
    "rater",
    "rater__kind",
)


@dataclass(frozen=True, eq=False)
class Votes:
    """N live votes in the order in which they were cast (their ids), and who they are about.

    Attributes
    ----------
    candidates : (K,) the candidates' ids, ascending; left and right are places in it
    active : (K,) bool, whether a candidate is still shown to raters
    categories : names that a vote's `category` is a place in; the first is "" (none)
    pk, left, right : (N,) int64
    outcome : (N,) int64, a place in OUTCOMES
    score : (N,) float64, the left answer's: 1, 0, a half, or the vote's soft preference
    prompt : (N,) int64, the prompt's id or UNKNOWN
    rater : (N,) int64, the rater's id
    category : (N,) int64
    by_judge : (N,) bool
    """

    candidates: Ints
    active: Bools
    categories: tuple[str, ...]
    pk: Ints
    left: Ints
    right: Ints
    outcome: Ints
    score: Floats
    prompt: Ints
    rater: Ints
    category: Ints
    by_judge: Bools

    def __len__(self) -> int:
        return len(self.pk)

    def where(self, chosen: Bools) -> "Votes":
        """The chosen votes, about the same candidates."""
        columns = ("pk", "left", "right", "outcome", "score", "prompt", "rater", "category")
        kept = {name: getattr(self, name)[chosen] for name in (*columns, "by_judge")}
        return replace(self, **kept)

    def questions(self) -> set[tuple[str, str]]:
        """Each (raters, category) that has votes; the category "" stands for all of them."""
        found = set()
        for raters, judged in (("people", False), ("judges", True)):
            mine = self.category[self.by_judge == judged]
            found |= {(raters, self.categories[code]) for code in np.unique(mine)}
            found |= {(raters, "")} if len(mine) else set()
        return found

    def of(self, raters: str, category: str) -> "Votes":
        """The votes of one board, about the candidates that are active or have one of them."""
        mine = self.by_judge == (raters == "judges")
        if category:
            named = np.array([name == category for name in self.categories])
            mine &= named[self.category]
        return self.where(mine)._without_strangers()

    def _without_strangers(self) -> "Votes":
        met = self.active.copy()
        met[self.left] = met[self.right] = True
        place = np.cumsum(met) - 1
        return replace(
            self,
            candidates=self.candidates[met],
            active=self.active[met],
            left=place[self.left],
            right=place[self.right],
        )


def read_votes(arena: Arena, tick: Callable[[], object] | None = None) -> Votes:
    """Read the arena's live votes, in the order of their ids. N rows, one query.

    `tick` is called every second or so: whoever holds a lease renews it there.
    """
    rows = Vote.objects.live().filter(arena=arena).order_by("pk").values_list(*COLUMNS)
    found = rows.iterator(chunk_size=CHUNK)
    columns = _columns(_ticking(found, tick) if tick else found)
    categories, of_prompt = _categories(arena)
    places = {outcome.value: code for code, outcome in enumerate(OUTCOMES)}
    outcome = np.array([places[value] for value in columns[3]], np.int64)
    active = set(Candidate.objects.active().filter(arena=arena).values_list("pk", flat=True))
    candidates = np.array(sorted(active.union(columns[1], columns[2])), np.int64)
    return Votes(
        candidates=candidates,
        active=np.array([pk in active for pk in candidates.tolist()], np.bool_),
        categories=categories,
        pk=np.array(columns[0], np.int64),
        left=np.searchsorted(candidates, np.array(columns[1], np.int64)),
        right=np.searchsorted(candidates, np.array(columns[2], np.int64)),
        outcome=outcome,
        score=_scores(outcome, columns[4]),
        prompt=np.array([UNKNOWN if pk is None else pk for pk in columns[5]], np.int64),
        rater=np.array(columns[6], np.int64),
        category=np.array([of_prompt.get(pk, 0) for pk in columns[5]], np.int64),
        by_judge=np.array([kind == Rater.Kind.JUDGE for kind in columns[7]], np.bool_),
    )


def rater_names(votes: Votes) -> list[str]:
    """The names of those who cast these votes, in alphabetical order."""
    raters = Rater.objects.filter(pk__in=np.unique(votes.rater).tolist())
    return sorted(str(rater) for rater in raters)


def _columns(rows: Iterator[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) or [()] * len(COLUMNS)


def _ticking(
    rows: Iterable[tuple[Any, ...]], tick: Callable[[], object]
) -> Iterator[tuple[Any, ...]]:
    for number, row in enumerate(rows, start=1):
        if number % TICK == 0:
            tick()
        yield row


def _scores(outcome: Ints, preferences: Iterable[float | None]) -> Floats:
    """A soft verdict is its own score; `both_bad` gets a half, for boards that count it a tie."""
    soft = np.array([np.nan if value is None else value for value in preferences], np.float64)
    hard = np.array([1.0, 0.0, 0.5, 0.5])[outcome]
    return np.where(np.isnan(soft) | (outcome == BOTH_BAD), hard, soft)


def _categories(arena: Arena) -> tuple[tuple[str, ...], dict[int, int]]:
    """The names of the arena's categories, "" first, and the place of each prompt's."""
    rows = Prompt.objects.filter(arena=arena).values_list("pk", "category")
    of_prompt = dict(rows.iterator(chunk_size=CHUNK))
    names = ("", *sorted(set(of_prompt.values()) - {""}))
    places = {name: code for code, name in enumerate(names)}
    return names, {pk: places[name] for pk, name in of_prompt.items()}
