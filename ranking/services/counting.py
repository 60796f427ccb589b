"""What votes come to, counted by the database itself (GROUP BY): it checks what folding adds up."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from django.db.models import BigIntegerField, Case, Count, F, Sum, Value, When
from django.db.models.functions import Cast, Floor

from arena.models import Prompt, Vote
from arena.models.voting import VoteQuerySet
from ranking.tallies import COUNTS, UNIT, Cells
from ranking.votes import BOTH_BAD, KINDS, PLACES, TIE, TRUSTED

GROUPS_AT_ONCE = 100_000
MEMBERS = ("rater", "prompt")
Members = dict[str, dict[int, int]]  # votes by id, of raters and of prompts
KEYS = (
    "prompt_known",
    "rater_alone",
    "comparison__left",
    "comparison__right",
    "outcome",
    "hard",
)


@dataclass(frozen=True, eq=False)
class Counted:
    """The votes of one kind of raters, by prompt; `members` of all categories ("") and of each."""

    cells: Cells
    members: dict[str, Members]
    category_of: dict[int, str]
    last_vote_id: int

    def of_category(self, category: str) -> Cells:
        """The cells per pair of one category, or of all."""
        prompts = [pk for pk, name in self.category_of.items() if name == category]
        known = np.isin(self.cells.key("prompt"), prompts)
        return (self.cells.where(known) if category else self.cells).per_pair()

    def members_of(self, category: str) -> Members:
        return self.members.get(category, {kind: {} for kind in MEMBERS})


def count(arena_id: int, raters: str, trusted: Collection[int]) -> Counted:
    """Count the votes in the tallies; `trusted`: the ids of those that are taken as trusted."""
    votes = _in_tallies(arena_id, raters, trusted)
    category_of = dict(Prompt.objects.filter(arena=arena_id).values_list("pk", "category"))
    cells = count_cells(votes)
    newest = votes.order_by("-pk").values_list("pk", flat=True).first()
    return Counted(cells, _members(votes, cells, category_of), category_of, newest or 0)


def _in_tallies(arena_id: int, raters: str, trusted: Collection[int]) -> VoteQuerySet:
    kind = KINDS[TRUSTED.get(raters, raters)]
    votes = Vote.objects.in_tallies().filter(arena=arena_id, rater__kind=kind)
    return votes.filter(rater__in=trusted) if raters in TRUSTED else votes


def count_cells(votes: VoteQuerySet) -> Cells:
    """The cells of the votes by prompt, or by rater where that is not known; merged."""
    points = Cast(Floor(F("preference") * Value(float(UNIT))), BigIntegerField())
    groups = (
        votes.annotate(
            prompt_known=F("comparison__prompt"),
            rater_alone=Case(When(comparison__prompt=None, then=F("rater"))),
            hard=Case(When(preference=None, then=True), default=False),
        )
        .values_list(*KEYS)
        .annotate(n=Count("pk"), points=Sum(points))
        .order_by()
    )
    rows = groups.iterator(chunk_size=10_000)
    return Cells.joined(_cells(some) for some in _pieces(rows)).merged()


def _pieces(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while some := list(islice(rows, GROUPS_AT_ONCE)):
        yield some


def _cells(groups: list[tuple[Any, ...]]) -> Cells:
    prompt, rater, left, right, outcome, hard, n, points = zip(*groups, strict=True)
    first, second = np.array(left, np.int64), np.array(right, np.int64)
    flip = first > second
    keys = [np.array([pk or 0 for pk in prompt]), np.array([pk or 0 for pk in rater])]
    keys += [np.where(flip, second, first), np.where(flip, first, second)]
    place = np.array([PLACES[value] for value in outcome])
    swapped = np.where(flip & (place < TIE), 1 - place, place)
    soft = ~np.array(hard) & (place != BOTH_BAD)
    votes = np.array(n, np.int64)
    counts = np.zeros((len(groups), len(COUNTS)), np.int64)
    column = np.where(soft, swapped + COUNTS.index("soft_first"), swapped)
    counts[np.arange(len(groups)), column] = votes
    given = np.array([p or 0 for p in points], np.int64)
    counts[:, -1] = np.where(soft, np.where(flip, votes * UNIT - given, given), 0)
    return Cells(np.column_stack(keys).astype(np.int64), counts)


def _members(votes: VoteQuerySet, cells: Cells, category_of: dict[int, str]) -> dict[str, Members]:
    """How many votes each rater cast and each prompt got, in all categories ("") and in each."""
    found: dict[str, Members] = {}
    voted = votes.values_list("rater", "comparison__prompt__category")
    for rater, category, n in voted.annotate(n=Count("pk")).order_by():
        _note(found, category or "", "rater", rater, n)
    prompts, place = np.unique(cells.key("prompt"), return_inverse=True)
    for prompt, n in zip(prompts.tolist(), np.bincount(place, cells.votes), strict=False):
        if prompt:
            _note(found, category_of[prompt], "prompt", prompt, int(n))
    return found


def _note(found: dict[str, Members], category: str, kind: str, pk: int, n: int) -> None:
    for name in {"", category}:
        counts = found.setdefault(name, {kind: {} for kind in MEMBERS})[kind]
        counts[pk] = counts.get(pk, 0) + n
