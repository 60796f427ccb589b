"""Examines an arena's votes after they were counted, and holds suspicious ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from django.db.models import Exists, OuterRef, Q

from arena.models import Arena, Candidate, Comparison, Hold, Rater, Review, Vote, VoteChannel
from arena.outcomes import BOTH_BAD, PREFERENCES, Uncounted
from arena.services import holds
from ranking.models import ArenaRefresh
from ranking.stats import anomalies
from ranking.stats.anomalies import GROUP_TESTS, Cast, Suspicion
from ranking.votes import Bools, Ints

LEAST_RATERS = 10  # with fewer, taste cannot be distinguished from fraud
READ = 20_000  # votes of one examination
NEW = 10_000  # of these, those not examined before; the next examination has the others
FROM_FILES = 5_000  # votes that are read for comparison
CAST_HERE = tuple(channel.value for channel in VoteChannel if channel != VoteChannel.FILE)
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
    "verified",
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
    is_verified: Bools
    raters: Ints
    networks: Sequence[str]
    candidates: Ints

    @property
    def n_raters(self) -> int:
        return self.cast.n_raters + self.in_files.n_raters

    def votes_of(self, raters: Sequence[int]) -> list[int]:
        chosen = np.isin(self.cast.rater, list(raters)) & self.is_counted
        return [int(pk) for pk in self.pk[chosen]]


def arenas_to_examine() -> list[int]:
    """The arenas with votes that were never examined, unless only members' votes count there."""
    new = Vote.objects.filter(arena=OuterRef("arena"), pk__gt=OuterRef("examined_vote_id"))
    arenas = Arena.objects.revealed().not_of_members()
    behind = ArenaRefresh.objects.filter(Exists(new), arena__in=arenas)
    return sorted(behind.values_list("arena", flat=True))


def examine(*, arena_id: int, now: datetime) -> list[Hold]:
    """Test the arena's votes, put it under review if a group looks rigged, and hold the votes that
    do; running it twice holds no more. An arena with many new votes stays one to be examined.
    """
    arena = Arena.objects.not_of_members().filter(pk=arena_id).first()
    if arena is None:
        return []
    refresh = ArenaRefresh.objects.filter(arena=arena)
    examined_id = refresh.values_list("examined_vote_id", flat=True).first() or 0
    new = Vote.objects.filter(arena=arena, pk__gt=examined_id).order_by("pk")
    last = new.values_list("pk", flat=True).last() or examined_id
    cast_here = new.filter(channel__in=CAST_HERE, pk__lte=last)
    cast = list(cast_here.values_list("pk", flat=True)[:NEW])
    if len(cast) == NEW:
        last = cast[-1]
    made = _examine_up_to(arena, last, now) if cast else []
    # At the end, so that a worker that was killed has examined nothing. A vote that was committed
    # late, below it, is read with those that follow.
    refresh.filter(examined_vote_id__lt=last).update(examined_vote_id=last)
    return made


def _examine_up_to(arena: Arena, last: int, now: datetime) -> list[Hold]:
    examined = read(arena, up_to=last)
    if examined.n_raters < LEAST_RATERS:
        return []
    made: list[Hold] = []
    for each in suspicions_of(arena, examined):
        if each.test in GROUP_TESTS:
            _review(examined, each, now)
        made += _hold_votes(arena, examined, each, now)
    return made + _hold_later_votes(arena, examined, made, now)


def _review(examined: Examined, found: Suspicion, now: datetime) -> None:
    members = found.suspects or found.group
    holds.open_review(
        candidate=Candidate.objects.select_related("arena__team").get(
            pk=int(examined.candidates[found.candidate])
        ),
        loses=found.loses,
        test=found.test,
        evidence=evidence_of(examined, found, members),
        group=_ids(examined.raters[list(found.group)]),
        suspects=_ids(examined.raters[list(found.suspects)]),
        has_verified=bool(examined.is_verified[np.isin(examined.cast.rater, members)].any()),
        last_vote_id=int(examined.pk.max(initial=0)),
        now=now,
    )


def suspicions_of(arena: Arena, examined: Examined) -> list[Suspicion]:
    n_candidates = len(examined.candidates)
    suspicions = anomalies.find(examined.cast, n_candidates, examined.in_files)
    return suspicions + _count_skips(arena, examined)


def read(arena: Arena, up_to: int | None = None) -> Examined:
    """Read the newest votes that people cast here, also those that a program cast for them, and
    others' from files; `up_to`: the newest to be read.

    Those that an operator has released, or found honest in a review, are left out, and so are those
    that the arena's rules leave out.
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
    if up_to is not None:
        votes = votes.filter(pk__lte=up_to)
    closed = Review.objects.filter(arena=arena, closed_at__isnull=False).order_by("last_vote_id")
    decided = {rater: each.last_vote_id for each in closed for rater in each.decided_on}
    newest = votes.values_list(*COLUMNS)[:READ]
    rows = [row for row in newest if row[0] > decided.get(row[1], 0)][::-1]
    n_own = len(rows)
    in_files = arena.votes.live().of_people().filter(source__isnull=False)
    in_files = in_files.exclude(outcome=BOTH_BAD).order_by("-pk")
    rows += in_files.values_list(*COLUMNS)[:FROM_FILES]
    is_own = np.arange(len(rows)) < n_own
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    pk, rater, network, left, right, outcome, preference, uncounted, rushed, verified = columns
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
        is_verified=np.array(verified, np.bool_)[is_own],
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
        "raters": len(suspicion.raters or suspicion.suspects or suspicion.group),
        "candidate": int(examined.candidates[candidate]) if candidate >= 0 else None,
        "loses": suspicion.loses,
        "wins": wins,
    }
