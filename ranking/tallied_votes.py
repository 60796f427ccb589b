"""Votes and covariances read from the database as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from django.db.models import Count, Max, Q
from numpy.typing import NDArray

from arena.models import Rater, Vote
from arena.models.voting import VoteQuerySet
from arena.outcomes import COUNTED, OUTCOMES
from ranking.models import SnapshotMatrices, Tallied, TallyMember
from ranking.tallies import VoteCounts

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEFT, RIGHT, TIE, BOTH_BAD = range(4)
PLACES = {outcome: place for place, outcome in enumerate(OUTCOMES)}
KINDS: dict[str, str] = {
    Tallied.PEOPLE.value: Rater.Kind.PERSON.value,
    Tallied.JUDGES.value: Rater.Kind.JUDGE.value,
    Tallied.JURIES.value: Rater.Kind.JURY.value,
}
HUMAN = (Tallied.PEOPLE.value, Tallied.VERIFIED.value)
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
    "verified",
    "source_row",
)


def kind_of(raters: str) -> str:
    """The kind of rater whose votes these tallies count, or a part of them."""
    if raters == Tallied.VERIFIED:
        return KINDS[Tallied.PEOPLE.value]
    return KINDS[TRUSTED.get(raters, raters)]


def cast_by(raters: str) -> Q:
    """A filter for the votes of a board's raters; trust is not part of it."""
    votes = Q(rater__kind=kind_of(raters))
    return votes & Q(verified=True) if raters == Tallied.VERIFIED else votes


@dataclass(frozen=True, eq=False)
class Votes:
    """N votes in the order in which they were read. Missing ids are 0.

    Attributes
    ----------
    pk, left, right, rater : (N,) int64, ids
    prompt : (N,) int64, its id or 0 if unknown
    source_row : (N,) int64, the row of the imported file or 0
    outcome : (N,) int64, a place in OUTCOMES
    preference : (N,) float64, the soft verdict for left, NaN without one
    category : (N,) str objects, the prompt's or ""
    kind : (N,) str objects, the rater's
    verified : (N,) bool, whether a verified person cast it
    trusted : (N,) bool, whether the trusted tallies count the rater
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
    verified: Bools
    trusted: Bools
    source_row: Ints

    def __len__(self) -> int:
        return len(self.pk)

    @property
    def score(self) -> Floats:
        """(N,) the left answer's score: 1, 0, a half, or the soft verdict; "both bad" is a half."""
        hard = np.array([1.0, 0.0, 0.5, 0.5])[self.outcome]
        soft = ~np.isnan(self.preference) & (self.outcome != BOTH_BAD)
        return np.where(soft, self.preference, hard)

    def where(self, chosen: Bools) -> "Votes":
        return Votes(*(column[chosen] for column in vars(self).values()))

    def counted(self) -> "Votes":
        """The votes whose outcome counts."""
        return self.where(np.isin(self.outcome, [PLACES[outcome] for outcome in COUNTED]))

    def of(self, raters: str, category: str = "") -> "Votes":
        """The votes of one question; the category "" means all."""
        chosen: Bools = self.kind == kind_of(raters)
        if raters in TRUSTED:
            chosen &= self.trusted
        if raters == Tallied.VERIFIED:
            chosen &= self.verified
        if category:
            chosen &= self.category == category
        return self.where(chosen)

    def questions(self) -> set[tuple[str, str]]:
        """Each (raters, category) with at least one of these votes."""
        questions = set()
        for raters in Tallied.values:
            categories = set(self.of(raters).category.tolist())
            if categories:
                questions |= {(raters, category) for category in categories | {""}}
        return questions

    def count(self) -> VoteCounts:
        return VoteCounts.count(
            self.left, self.right, self.outcome, self.preference, self.prompt, self.rater
        )


def read_votes(votes: VoteQuerySet, limit: int, trusted: frozenset[int] = frozenset()) -> Votes:
    """Read the first `limit` votes of a queryset, in its order, in one query.

    `trusted`: the ids of the raters whose votes the trusted tallies count.
    """
    return read_votes_with((), votes, limit, trusted)[0]


def read_votes_with(
    others: Sequence[str],
    votes: VoteQuerySet,
    limit: int,
    trusted: frozenset[int] = frozenset(),
) -> tuple[Votes, list[tuple[Any, ...]]]:
    """Like `read_votes`, with further columns of the rows."""
    names = (*COLUMNS, *others)
    rows = list(votes.values_list(*names)[:limit])
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    pk, left, right, outcome, preference, prompt, category, rater, kind, proven, row, *rest = (
        columns
    )
    read = Votes(
        pk=np.array(pk, np.int64),
        left=np.array(left, np.int64),
        right=np.array(right, np.int64),
        outcome=np.array([PLACES[value] for value in outcome], np.int64),
        preference=np.array([np.nan if p is None else p for p in preference], np.float64),
        prompt=np.array([p or 0 for p in prompt], np.int64),
        category=np.array([name or "" for name in category], object),
        rater=np.array(rater, np.int64),
        kind=np.array(kind, object),
        verified=np.array(proven, np.bool_),
        trusted=np.array([pk in trusted for pk in rater], np.bool_),
        source_row=np.array([n or 0 for n in row], np.int64),
    )
    return read, rest


def rater_names(arena_id: int, raters: str, category: str) -> list[str]:
    """The names of the raters whose votes a question counts, in alphabetical order."""
    voted = TallyMember.objects.filter(
        tally__arena=arena_id, tally__raters=raters, tally__category=category, n_votes__gt=0
    )
    return sorted(str(rater) for rater in Rater.objects.filter(pk__in=voted.values("rater")))


def networks_of(arena_id: int) -> dict[int, str]:
    """The network that most of an unverified rater's counted votes came from, by rater; of two with
    as many, the one of the last vote."""
    votes = Vote.objects.filter(arena=arena_id, tallied=True).of_networks()
    rows = votes.values_list("rater", "network").annotate(n=Count("pk"), last=Max("pk"))
    return {rater: network for rater, network, *_ in rows.order_by("n", "last")}


def left_out(arena_id: int) -> dict[tuple[str, str], dict[str, int]]:
    """How many votes of each question do not count, by reason; voided ones are not among them."""
    votes = Vote.objects.filter(arena=arena_id, uncounted__isnull=False, voided_at=None)
    columns = ("rater__kind", "verified", "comparison__prompt__category", "uncounted")
    raters_of = {kind: raters for raters, kind in KINDS.items()}
    counts: dict[tuple[str, str], dict[str, int]] = {}
    rows = votes.values_list(*columns).annotate(n=Count("pk"))
    for kind, proven, category, reason, n in rows:
        voters = {raters_of[kind], Tallied.VERIFIED.value} if proven else {raters_of[kind]}
        for question in product(voters, {"", category or ""}):
            of_question = counts.setdefault(question, {})
            of_question[reason] = of_question.get(reason, 0) + n
    return counts


# -- The covariance that a snapshot keeps ----------------------------------------------------------


def pack_covariance(candidates: Ints, covariance: Floats) -> dict[str, bytes]:
    """The fields of `SnapshotMatrices` for R ascending candidate ids and an (R, R) covariance."""
    return {
        "candidates": candidates.astype("<i8").tobytes(),
        "covariance": covariance.astype("<f4").tobytes(),
    }


def unpack_covariance(matrices: SnapshotMatrices) -> tuple[Ints, Floats]:
    """The ids of the R candidates ranked when the intervals were made, and (R, R) Elo squared."""
    candidates = np.frombuffer(bytes(matrices.candidates), "<i8").astype(np.int64)
    covariance = np.frombuffer(bytes(matrices.covariance), "<f4").astype(np.float64)
    return candidates, covariance.reshape(len(candidates), len(candidates))


def covariance_among(matrices: SnapshotMatrices, candidates: Ints) -> Floats:
    """(K, K) in Elo squared for K candidates, ids ascending; NaN where it is unknown."""
    known, stored = unpack_covariance(matrices)
    # Candidates may have left the board since the intervals were made.
    shared = np.isin(known, candidates)
    at = np.searchsorted(candidates, known[shared])
    wide = np.full((len(candidates),) * 2, np.nan)
    wide[np.ix_(at, at)] = stored[np.ix_(shared, shared)]
    return wide
