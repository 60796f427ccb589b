"""Examines an arena's votes after they were counted, and holds suspicious ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.db.models import Exists, OuterRef, Q

from arena.models import Arena, Comparison, Hold, Rater, Vote, VoteChannel
from arena.outcomes import BOTH_BAD, PREFERENCES, Uncounted
from arena.services import holds
from ranking.stats import anomalies
from ranking.stats.anomalies import Cast, Suspicion
from ranking.votes import Bools, Ints

LEAST_RATERS = 10  # with fewer, taste cannot be distinguished from fraud
RECENT = timedelta(minutes=3)  # an examination is due every minute
LATEST = 5_000  # votes of the whole site that are searched for recent ones
NEWEST = 20_000  # votes that are read; older ones were examined before
FROM_FILES = 5_000  # votes that are read for comparison
CAST_HERE = tuple(channel.value for channel in VoteChannel if channel != VoteChannel.FILE)
OF_MEMBERS = (
    Q(voters=Arena.Voters.MEMBERS)
    | Q(counts=Arena.Counts.INVITED)
    | Q(visibility=Arena.Visibility.PRIVATE)
)
COLUMNS = (
    "pk",
    "rater",
    "network",
    "comparison__left",
    "comparison__right",
    "outcome",
    "preference",
    "uncounted",
    "rushed",
)


@dataclass(frozen=True, eq=False)
class Examined:
    """The votes of an arena as the tests read them, with the ids behind their numbers.

    ``in_files``: votes of others from files, on which the scores rest too; they are not tested.
    """

    cast: Cast
    in_files: Cast
    pk: Ints
    is_counted: Bools
    raters: Ints
    networks: Sequence[str]
    candidates: Ints

    @property
    def n_raters(self) -> int:
        return self.cast.n_raters + self.in_files.n_raters

    def votes_of(self, raters: Sequence[int]) -> list[int]:
        chosen = np.isin(self.cast.rater, list(raters)) & self.is_counted
        return [int(pk) for pk in self.pk[chosen]]


def arenas_to_examine(*, now: datetime) -> list[int]:
    """The arenas with votes of the last minutes, unless only members' votes count there."""
    latest = Vote.objects.order_by("-pk").values("pk")[:LATEST]
    votes = Vote.objects.filter(pk__in=list(latest.values_list("pk", flat=True)))
    recent = votes.filter(channel__in=CAST_HERE, cast_at__gte=now - RECENT)
    arenas = Arena.objects.exclude(OF_MEMBERS).filter(pk__in=recent.values("arena"))
    return sorted(arenas.values_list("pk", flat=True))


def examine(*, arena_id: int, now: datetime) -> list[Hold]:
    """Test the arena's votes, and hold those that look rigged; running it twice holds no more."""
    arena = Arena.objects.exclude(OF_MEMBERS).filter(pk=arena_id).first()
    if arena is None or (examined := read(arena)).n_raters < LEAST_RATERS:
        return []
    suspicions = suspicions_of(arena, examined)
    made = [hold for each in suspicions for hold in _hold_votes(arena, examined, each, now)]
    return made + _hold_later_votes(arena, examined, made, now)


def suspicions_of(arena: Arena, examined: Examined) -> list[Suspicion]:
    n_candidates = len(examined.candidates)
    suspicions = anomalies.find(examined.cast, n_candidates, examined.in_files)
    return suspicions + _count_skips(arena, examined)


def read(arena: Arena) -> Examined:
    """Read the newest votes that people cast here, also those that a program cast for them, and
    others' from files.

    Those that an operator has released are left out, and so are those that the arena's rules leave
    out.
    """
    released = Hold.objects.filter(
        Q(rater=OuterRef("rater")) | Q(network=OuterRef("network")) & ~Q(network=""),
        arena=arena,
        state=Hold.State.RELEASED,
        last_vote_id__gte=OuterRef("pk"),
    )
    seen = [Uncounted.RUSHED, Uncounted.HELD]
    votes = Vote.objects.filter(
        Q(uncounted=None) | Q(uncounted__in=seen),
        arena=arena,
        channel__in=CAST_HERE,
        voided_at=None,
        source=None,
    ).exclude(outcome=BOTH_BAD)
    votes = votes.filter(~Exists(released)).order_by("-pk")
    rows = list(votes.values_list(*COLUMNS)[:NEWEST])[::-1]
    n_own = len(rows)
    in_files = arena.votes.live().of_people().filter(source__isnull=False)
    in_files = in_files.exclude(outcome=BOTH_BAD).order_by("-pk")
    rows += in_files.values_list(*COLUMNS)[:FROM_FILES]
    is_own = np.arange(len(rows)) < n_own
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    pk, rater, network, left, right, outcome, preference, uncounted, rushed = columns
    rater_id, rater_number = np.array(rater, np.int64), np.zeros(len(rows), np.int64)
    raters, rater_number[is_own] = np.unique(rater_id[is_own], return_inverse=True)
    _, rater_number[~is_own] = np.unique(rater_id[~is_own], return_inverse=True)
    names = sorted({name for name in network if name})
    numbers = {name: number for number, name in enumerate(names)}
    candidates, sides = np.unique(np.array([left, right], np.int64), return_inverse=True)
    sides = sides.reshape(2, -1)
    score = [PREFERENCES[o] if p is None else p for o, p in zip(outcome, preference, strict=True)]
    everyone = Cast(
        rater=rater_number,
        network=np.array([numbers.get(name, -1) for name in network], np.int64),
        left=sides[0],
        right=sides[1],
        score=np.array(score, np.float64),
        rushed=np.array(rushed, np.bool_),
    )
    return Examined(
        cast=everyone.where(is_own),
        in_files=everyone.where(~is_own),
        pk=np.array(pk, np.int64)[is_own],
        is_counted=np.array([reason is None for reason in uncounted], np.bool_)[is_own],
        raters=raters,
        networks=names,
        candidates=candidates,
    )


def _count_skips(arena: Arena, examined: Examined) -> list[Suspicion]:
    """Test which pairs raters skip; only raters who have skipped any are read."""
    skipped = Comparison.objects.filter(
        arena=arena, skipped_at__isnull=False, rater=OuterRef("rater")
    )
    comparisons = Comparison.objects.filter(
        Exists(skipped), arena=arena, rater__in=_ids(examined.raters)
    )
    comparisons = comparisons.filter(Q(skipped_at__isnull=False) | Q(votes__isnull=False))
    rows = [
        (rater, left, right, skipped_at is None)
        for rater, left, right, skipped_at in comparisons.values_list(
            "rater", "left", "right", "skipped_at"
        )
        if {left, right} <= set(examined.candidates.tolist())
    ]
    if not rows:
        return []
    rater, left, right, voted = (np.array(column) for column in zip(*rows, strict=True))
    return anomalies.skips(
        np.searchsorted(examined.raters, rater),
        np.searchsorted(examined.candidates, left),
        np.searchsorted(examined.candidates, right),
        voted,
        len(examined.candidates),
    )


def _ids(numbers: Ints) -> list[int]:
    return [int(number) for number in numbers]


def _hold_votes(
    arena: Arena, examined: Examined, suspicion: Suspicion, now: datetime
) -> list[Hold]:
    """Hold the votes that a test found: one hold per network, else one per rater."""
    if suspicion.network >= 0:
        groups: list[tuple[Rater | None, str, Sequence[int]]] = [
            (None, examined.networks[suspicion.network], suspicion.raters)
        ]
    else:
        raters = Rater.objects.in_bulk(_ids(examined.raters[list(suspicion.raters)]))
        groups = [
            (raters[int(examined.raters[number])], "", [number]) for number in suspicion.raters
        ]
    made = []
    for rater, network, members in groups:
        votes = examined.votes_of(members)
        if votes and (
            hold := holds.hold(
                arena=arena,
                rater=rater,
                network=network,
                test=suspicion.test,
                evidence=evidence_of(examined, suspicion, members),
                votes=votes,
                now=now,
            )
        ):
            made.append(hold)
    return made


def _hold_later_votes(
    arena: Arena, examined: Examined, made: Sequence[Hold], now: datetime
) -> list[Hold]:
    """Hold what raters on hold have voted since: it waits for the same decision, or other votes
    would weaken the evidence until they count."""
    known = Hold.objects.open().filter(arena=arena, rater__in=_ids(examined.raters))
    grown = []
    for hold in known.exclude(pk__in=[each.pk for each in made]).select_related("rater"):
        votes = examined.votes_of(np.flatnonzero(examined.raters == hold.rater_id).tolist())
        same = {"rater": hold.rater, "network": "", "test": hold.test, "evidence": hold.evidence}
        if votes and (again := holds.hold(arena=arena, votes=votes, now=now, **same)):
            grown.append(again)
    return grown


def evidence_of(examined: Examined, suspicion: Suspicion, members: Sequence[int]) -> dict[str, Any]:
    """What the review page explains: the test's numbers, and the candidate's share of wins."""
    cast, candidate = examined.cast, suspicion.candidate
    theirs = np.isin(cast.rater, list(members))
    wins = []
    for number, pk in enumerate(examined.candidates.tolist()):
        on_left, on_right = cast.left == number, cast.right == number
        won = np.where(on_left, cast.score, 1 - cast.score)
        with_it = on_left | on_right
        wins.append(
            {
                "candidate": pk,
                "own": [float(won[with_it & theirs].sum()), int((with_it & theirs).sum())],
                "others": [float(won[with_it & ~theirs].sum()), int((with_it & ~theirs).sum())],
            }
        )
    return {
        "e_value": suspicion.evidence,
        "n": suspicion.n,
        "k": suspicion.k,
        "raters": len(suspicion.raters),
        "candidate": int(examined.candidates[candidate]) if candidate >= 0 else None,
        "loses": suspicion.loses,
        "wins": wins,
    }
