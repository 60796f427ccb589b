"""The time of a refresh with few and with many stored votes, compared with a rebuild."""

import random
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from django.utils import timezone

from arena.models import Arena, Comparison, Outcome, Rater, Vote
from benchmarks.results import Line, machine, targets
from benchmarks.stored import CANDIDATES, PROMPTS
from ranking.models import ArenaRefresh, Board, Snapshot, Tally
from ranking.services import cluster_tallies, fold, intervals, refresh
from ranking.services.combined import combine
from ranking.services.evidence import load_tallies
from ranking.services.leases import LEASE

NEW_VOTES = 1000
MOST_GROWTH = 1.5
INTERVALS_SHARE = 0.1
PUT_OFF = 10.0**6  # stored as the seconds of the last intervals, so the next are not due soon


@dataclass(frozen=True)
class RefreshTimings:
    """Seconds of refreshes (by round), of a rebuild from the votes, and of intervals."""

    votes: tuple[int, int]
    small: list[float]
    large: list[float]
    rebuild: float
    read: float
    intervals: float
    combined: float
    peak_megabytes: int


def measure(small: Arena, large: Arena, rounds: int) -> RefreshTimings:
    """Rebuild both from their votes, publish them once, then refresh them in turns."""
    sizes = (small.votes.count(), large.votes.count())
    _rebuild(small)
    rebuild = _timed(lambda: _rebuild(large))
    for arena in (small, large):
        _cast(arena, 0, _trusted_judge(arena))
        refresh.refresh_arena(arena_id=arena.pk, now=timezone.now())
    read, intervals = _intervals(large)
    combined = _timed(lambda: _combine(large))
    times: dict[int, list[float]] = {small.pk: [], large.pk: []}
    for turn in range(rounds + 1):
        for arena in (small, large):
            seconds = _refresh(arena, turn)
            if turn:  # the first one warms up
                times[arena.pk].append(seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return RefreshTimings(
        sizes, times[small.pk], times[large.pk], rebuild, read, intervals, combined, peak
    )


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _claim(arena: Arena) -> Any:
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None)
    return ArenaRefresh.objects.claim(arena.pk, timezone.now(), LEASE * 100)


def _rebuild(arena: Arena) -> None:
    token = _claim(arena)
    fold.rebuild(arena_id=arena.pk, token=token)
    cluster_tallies.merge_deltas(arena_id=arena.pk, raters="people", token=token)
    refresh.release(token, is_stale=True)
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None)


def _intervals(arena: Arena) -> tuple[float, float]:
    """Seconds to read the tallies per prompt and rater, and to compute all intervals from them."""
    board = Board.objects.get(arena=arena, raters="people", category="")
    evidence = load_tallies(arena).evidence(board)
    started = time.perf_counter()
    cells = cluster_tallies.read_clusters(arena_id=arena.pk, raters="people")
    by_rater = cluster_tallies.stored_raters(arena.pk, "people", "")
    read = time.perf_counter() - started
    intervals.measure(evidence.capping(by_rater), cells, by_rater, timezone.now())
    return read, time.perf_counter() - started


def _combine(arena: Arena) -> None:
    """Fit a combined board; votes on half of the prompts stand in for those of trusted judges."""
    board = Board.objects.get(arena=arena, raters="people", category="")
    evidence = replace(load_tallies(arena).evidence(board), narrowing="trusted_judges")
    cells = cluster_tallies.read_clusters(arena_id=arena.pk, raters="people")
    judged = cluster_tallies.read_clusters(arena_id=arena.pk, raters="people")
    by_rater = cluster_tallies.stored_raters(arena.pk, "people", "")
    people = cells.where(cells.key("prompt") % 4 > 0)
    judged = judged.where(judged.key("prompt") % 2 == 0)
    combine(evidence.capping(by_rater), people, by_rater, judged, timezone.now())


def _refresh(arena: Arena, turn: int) -> float:
    """Cast new votes, then time one refresh that publishes scores and borrows intervals."""
    Snapshot.objects.filter(board__arena=arena).update(measured_seconds=PUT_OFF)
    before = Tally.objects.get(arena=arena, raters="people", category="").version
    _cast(arena, turn)
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None)
    seconds = _timed(lambda: refresh.refresh_arena(arena_id=arena.pk, now=timezone.now()))
    after = Tally.objects.get(arena=arena, raters="people", category="")
    assert after.version == before + 1
    current = Snapshot.objects.current().filter(board__arena=arena)
    assert current.get(board__raters="people").last_vote_id == after.last_vote_id
    assert current.get(board__raters="combined").last_vote_id < after.last_vote_id  # it waits
    return seconds


def _trusted_judge(arena: Arena) -> Rater:
    name, now = f"Judge of {arena.name}", timezone.now()
    return Rater.objects.create(kind=Rater.Kind.JUDGE, name=name, trusted_at=now)


def _cast(arena: Arena, turn: int, judge: Rater | None = None) -> None:
    """Cast new votes, by as many people or by one judge."""
    chance = random.Random(turn)
    candidates = list(arena.candidates.all())
    prompts = list(arena.prompts.all())
    people = Rater.objects.filter(name__startswith=arena.name)[:NEW_VOTES]
    raters = [judge] * NEW_VOTES if judge else list(people)
    now = timezone.now()
    comparisons = []
    for rater in raters:
        left, right = chance.sample(candidates, 2)
        prompt = chance.choice(prompts)
        comparisons.append(
            Comparison(
                arena=arena, rater=rater, prompt=prompt, left=left, right=right, issued_at=now
            )
        )
    outcomes = [Outcome.LEFT, Outcome.RIGHT, Outcome.TIE]
    Vote.objects.bulk_create(
        Vote(
            arena=arena,
            comparison=comparison,
            rater=comparison.rater,
            outcome=chance.choice(outcomes),
            cast_at=now,
        )
        for comparison in Comparison.objects.bulk_create(comparisons)
    )


# -- The report ------------------------------------------------------------------------------------


def lines(timings: RefreshTimings) -> list[Line]:
    growth = [large / small for small, large in zip(timings.small, timings.large, strict=True)]
    share, combined = timings.intervals / timings.rebuild, timings.combined / timings.rebuild
    few, many = (f"{n:,}" for n in timings.votes)
    return [
        Line(
            f"A refresh after {NEW_VOTES:,} new votes: time at {many} stored votes, relative to"
            f" {few}, with a combined leaderboard that waits",
            f"at most {MOST_GROWTH:g} x",
            f"{median(growth):.2f} x ({min(growth):.2f} to {max(growth):.2f})",
            median(growth) <= MOST_GROWTH,
        ),
        Line(
            f"Clustered intervals from tallies per prompt at {many} votes, as a share of"
            " rebuilding the tallies from the votes",
            f"at most {INTERVALS_SHARE:.0%}",
            f"{share:.0%}",
            share <= INTERVALS_SHARE,
        ),
        Line(
            f"The combined leaderboard with its intervals at {many} votes, as a share of the same",
            f"at most {INTERVALS_SHARE:.0%}",
            f"{combined:.0%}",
            combined <= INTERVALS_SHARE,
        ),
    ]


def table(timings: RefreshTimings) -> str:
    few, many = (f"{n:,}" for n in timings.votes)
    seconds = [
        (f"Refresh with scores at {few} votes, median", median(timings.small)),
        (f"Refresh with scores at {many} votes, median", median(timings.large)),
        (f"Reading the tallies per prompt at {many} votes", timings.read),
        ("The same, plus all intervals, ranks and findings (1,000 replicates)", timings.intervals),
        (
            "The combined leaderboard with its intervals, judges on half of the prompts",
            timings.combined,
        ),
        (f"Rebuilding the tallies from {many} votes", timings.rebuild),
    ]
    return "\n".join(
        [
            f"{machine()}; {CANDIDATES} candidates x {PROMPTS:,} prompts,"
            f" {len(timings.small)} rounds in turns. Peak memory of the process:"
            f" {timings.peak_megabytes:,} MB.",
            "",
            *targets(lines(timings)),
            "",
            "| | s |",
            "|---|---:|",
            *(f"| {what} | {taken:.2f} |" for what, taken in seconds),
        ]
    )
