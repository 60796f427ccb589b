"""Runs of human votes: ordering them, their demands and progress, and pairs asked twice."""

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from arena.actors import Actor
from arena.db import sql
from arena.models import Arena, Comparison, Pair, PairDemand, Rater, Run, RunRater, Vote
from arena.outcomes import mirror
from arena.services import audit, runs
from arena.services.comparisons import TIME_TO_VOTE
from arena.signals import announce, votes_changed

MAX_PER_PAIR = 10_000
MAX_REPEATS = 100
# The number of a rater's other votes between a pair and its repeat, while there are others left.
VOTES_BETWEEN = 5

# Whose comparisons (None: anybody's) of which two candidates, the lower id first.
PairKey = tuple[int | None, int, int]
# How many comparisons have a live vote, and how many are open.
PairCounts = dict[PairKey, tuple[int, int]]

draw = random.SystemRandom()


@transaction.atomic
def order_people_run(
    *,
    arena: Arena,
    per_pair: int,
    by: Actor,
    raters: Sequence[Rater] = (),
    candidates: Collection[int] = (),
    against: int | None = None,
    hides_names: bool = False,
    repeats: int = 0,
) -> Run:
    """Order `per_pair` human votes for every pair of the arena, from each of `raters` or in all
    from anybody; a task opens the run.

    `candidates`: the ids of some, to ask only about pairs of these; with `against`, only about
    pairs with this one. `hides_names`: the raters see no names until all of them have voted. In
    that case, each can be asked twice about `repeats` of their pairs. Raises ValidationError.
    """
    pairs = _pairs_to_ask_about(arena, candidates, against)
    if not 1 <= per_pair <= MAX_PER_PAIR:
        raise ValidationError(f"Votes per pair must be between 1 and {MAX_PER_PAIR:,}.")
    if hides_names and not raters:
        raise ValidationError("Names can be hidden only from named raters: choose who votes.")
    if not 0 <= repeats <= MAX_REPEATS:
        raise ValidationError(f"A rater can be asked twice about at most {MAX_REPEATS} pairs.")
    if repeats and not hides_names:
        raise ValidationError("To ask about pairs twice, hide the names until all have voted.")
    run = Run.objects.create(
        arena=arena,
        kind=Run.Kind.PERSON,
        per_pair=per_pair,
        hides_names=hides_names,
        repeats=repeats,
        created_by=by.user,
    )
    demands = _create_demands(run, [rater.pk for rater in raters], pairs)
    if not demands:
        raise ValidationError(
            "These raters cannot vote on any of these pairs: one of the two is their own team’s."
        )
    asked = Counter(demand.rater_id for demand in demands)
    RunRater.objects.bulk_create(
        RunRater(run=run, rater=rater, votes_wanted=asked[rater.pk] * per_pair) for rater in raters
    )
    run.votes_wanted = len(demands) * per_pair
    run.save(update_fields=["votes_wanted"])
    about = {"candidates": sorted(candidates)} if candidates else {}
    audit.record(
        team=arena.team,
        by=by,
        action="ordered votes of people",
        subject=arena,
        run=run.pk,
        votes=run.votes_wanted,
        raters=[rater.pk for rater in raters],
        **about,
    )
    return run


def _pairs_to_ask_about(
    arena: Arena, candidates: Collection[int], against: int | None
) -> list[Pair]:
    if len(candidates) == 1:
        raise ValidationError("Choose at least two candidates, or none to ask about all of them.")
    if arena.candidates.active().filter(pk__in=candidates).count() < len(candidates):
        raise ValidationError("One of the candidates is archived, or of another arena.")
    pairs = _pairs_of(arena, candidates)
    if against is not None:
        pairs = pairs.filter(Q(low=against) | Q(high=against))
    if not pairs:
        these = "of these candidates" if candidates else "candidates in this arena"
        raise ValidationError(f"No two {these} have different answers to the same prompt.")
    return list(pairs)


def _pairs_of(arena: Arena, candidates: Collection[int]) -> QuerySet[Pair]:
    """The pairs that can be shown; of `candidates` alone, if there are any."""
    pairs = arena.pairs.filter(shared_prompts__gt=0)
    return pairs.filter(low__in=candidates, high__in=candidates) if candidates else pairs


def _create_demands(run: Run, raters: Sequence[int], pairs: list[Pair]) -> list[PairDemand]:
    """Create what is demanded of each of `raters`, or of anybody; nothing is shown until the run
    opens."""
    arena = run.in_arena
    named: list[int | None] = [*raters] or [None]
    return PairDemand.objects.bulk_create(
        PairDemand(arena=arena, run=run, pair=pair, rater_id=rater_id, remaining=0)
        for rater_id in named
        for pair in _impartial_pairs(arena, rater_id, pairs)
    )


def candidates_asked_about(runs_here: Iterable[Run]) -> dict[int, set[int]]:
    """Return the ids of the candidates whose pairs each run of human votes asks about."""
    asked: dict[int, set[int]] = defaultdict(set)
    demands = PairDemand.objects.filter(run__in=[run.pk for run in runs_here])
    for side in ("pair__low", "pair__high"):
        for run_id, candidate_id in demands.values_list("run", side).distinct():
            asked[run_id].add(candidate_id)
    return asked


@transaction.atomic
def cancel_people_run(*, run: Run, by: Actor, now: datetime) -> None:
    """Cancel a run of human votes; the votes cast so far stay. Raises RunError."""
    runs.cancel(run=run, by=by, now=now)
    PairDemand.objects.filter(run=run).update(remaining=0)


@dataclass(frozen=True)
class Progress:
    """How many of the votes wanted have been cast; `is_own`: all of them by one named rater."""

    done: int
    wanted: int
    is_own: bool

    @property
    def is_complete(self) -> bool:
        return self.done >= self.wanted


def is_anyone_asked(*, arena: Arena) -> bool:
    """Return whether a run asks for votes of whoever comes."""
    open_to_all = PairDemand.objects.filter(arena=arena, rater=None, remaining__gt=0)
    return open_to_all.exclude(run=None).exists()


def progress_for(*, arena: Arena, rater: Rater) -> Progress | None:
    """Return the progress of the run that asks `rater` for votes: one that names them before one
    for anybody. If none does, that of the newest run that they voted for; None without one."""
    runs_here = arena.runs.of_people().exclude(state=Run.State.CANCELLED)
    unfinished = runs_here.unfinished().order_by("pk")
    for run in unfinished.filter(raters__rater=rater):
        progress = progress_in(run=run, rater=rater)
        if not progress.is_complete:
            return progress
    theirs = Vote.objects.filter(comparison__run=OuterRef("pk"), rater=rater, voided_at=None)
    shown = (
        unfinished.filter(raters=None).first()
        or runs_here.filter(Exists(theirs)).order_by("-pk").first()
    )
    return progress_in(run=shown, rater=rater) if shown else None


def progress_in(*, run: Run, rater: Rater) -> Progress:
    """Return the progress of a run: that of `rater`, if it names them.

    The votes are counted, because the progress in the run's row is seconds old.
    """
    votes = Vote.objects.filter(comparison__run=run, voided_at=None)
    if named := run.raters.filter(rater=rater).first():
        # Repeats are counted like other votes, so that nobody can tell them apart.
        done, wanted = votes.filter(rater=rater).count(), named.votes_wanted + run.repeats
    else:
        done, wanted = votes.count(), run.votes_wanted
    done = min(done, wanted)
    # A run may end short of a repeat that could not be asked for.
    return Progress(done, done if run.state == Run.State.DONE else wanted, is_own=named is not None)


@transaction.atomic
def reconcile_people_run(*, run: Run, now: datetime) -> Run:
    """Update a run's demands and progress from its votes; open or close it. Idempotent.

    A pair's demand is the votes ordered less those cast and those still open with a rater, so
    expired, skipped and undone comparisons are demanded again.
    """
    # NO KEY: a comparison of this run that is being written refers to its row.
    run = Run.objects.select_for_update(of=("self",), no_key=True).get(pk=run.pk)
    if run.state not in (Run.State.ORDERED, Run.State.OPEN):
        return run
    raters = list(run.raters.order_by("pk"))
    if run.hides_names and run.state == Run.State.ORDERED:
        # A pair that they got before would be shown first, and its names after their vote.
        theirs = Comparison.objects.filter(rater__in=[named.rater_id for named in raters])
        theirs.open(now).filter(arena=run.arena).update(expires_at=now)
    demands = _lock_demands(run, raters)
    counts = _count_by_pair(run, now, by_rater=bool(raters))
    seen = _count_seen(run, raters)
    wanted = {
        demand: _votes_wanted(run, demand, counts, seen)
        for demand in demands
        if demand.repeats_id is None
    }
    _update_demands(wanted, counts)
    _add_up_progress(run, raters, wanted, counts)
    repeats_left = _demand_repeats(run, raters, demands, now) if run.repeats else 0
    done = run.votes_done >= run.votes_wanted and not repeats_left
    run.state = Run.State.DONE if done else Run.State.OPEN
    run.closed_at = now if done else None
    run.save(update_fields=["votes_done", "votes_wanted", "state", "closed_at"])
    if done and run.hides_names:
        announce(votes_changed, arena_id=run.in_arena.pk, reason="order")
    progress = ["votes_wanted", "votes_done", "repeats_done", "repeats_same"]
    RunRater.objects.bulk_update(raters, progress)
    return run


def _pair_of_demand(demand: PairDemand) -> PairKey:
    return demand.rater_id, demand.pair.low_id, demand.pair.high_id


def _lock_demands(run: Run, raters: Sequence[RunRater]) -> list[PairDemand]:
    """Lock the run's demands.

    Issuing a comparison locks its demand until it commits, so counts made under this lock are
    complete.
    """
    if run.state == Run.State.ORDERED and not run.demands.exists():
        # It was ordered by a release that created them here, for all pairs.
        _create_demands(
            run, [named.rater_id for named in raters], list(_pairs_of(run.in_arena, ()))
        )
    locked = run.demands.select_for_update(of=("self",), no_key=True).select_related("pair")
    return list(locked.order_by("pk"))


def _impartial_pairs(arena: Arena, rater_id: int | None, pairs: list[Pair]) -> list[Pair]:
    """Return the pairs that may be shown to a rater: `sql.IMPARTIAL` says which."""
    rows = sql.rows(sql.OWN, arena=arena.pk, rater=rater_id, also=0) if rater_id else []
    theirs = {pk for (pk,) in rows}
    return [pair for pair in pairs if (pair.low_id in theirs) == (pair.high_id in theirs)]


def _count_by_pair(run: Run, now: datetime, *, by_rater: bool) -> PairCounts:
    """Count each pair's comparisons of the run: those with a live vote, and those still open."""
    live = Q(votes__isnull=False, votes__voided_at=None)
    still_open = _is_open_comparison(now)
    rows = run.comparisons.filter(repeats=None).order_by().values_list("rater", "left", "right")
    counts: PairCounts = {}
    for rater, left, right, done, waiting in rows.annotate(
        done=Count("pk", filter=live), waiting=Count("pk", filter=still_open)
    ):
        key = (rater if by_rater else None, min(left, right), max(left, right))
        others = counts.get(key, (0, 0))
        counts[key] = (others[0] + done, others[1] + waiting)
    return counts


def _is_open_comparison(now: datetime) -> Q:
    # Issued while the clock was ahead, a comparison would expire only when that time comes.
    in_time = Q(expires_at__gt=now, expires_at__lte=now + TIME_TO_VOTE + timedelta(minutes=1))
    return Q(in_time, votes__isnull=True, skipped_at=None)


def _count_seen(run: Run, raters: Sequence[RunRater]) -> Counter[PairKey]:
    """Count the prompts that each named rater has seen with each pair, in this run or not."""
    seen: Counter[PairKey] = Counter()
    if raters:
        rows = Comparison.objects.filter(
            arena=run.arena,
            rater__in=[named.rater_id for named in raters],
            left_response__isnull=False,
            prompt__retired_at=None,
            repeats=None,
        )
        by_sides = rows.order_by().values_list("rater", "left", "right")
        for rater, left, right, n in by_sides.annotate(n=Count("pk")):
            seen[rater, min(left, right), max(left, right)] += n
    return seen


def _votes_wanted(run: Run, demand: PairDemand, counts: PairCounts, seen: Counter[PairKey]) -> int:
    """Return the votes wanted for a pair; if it can no longer be shown, the votes it has."""
    key, shared = _pair_of_demand(demand), demand.pair.shared_prompts
    done, waiting = counts.get(key, (0, 0))
    if not shared:
        return min(done, run.per_pair)
    if demand.rater_id is None:
        return run.per_pair
    unseen = max(shared - seen[key], 0)  # what this rater has seen cannot go to anybody else
    return min(done + waiting + unseen, run.per_pair)


def _update_demands(wanted: dict[PairDemand, int], counts: PairCounts) -> None:
    changed = []
    for demand, votes in wanted.items():
        missing = max(votes - sum(counts.get(_pair_of_demand(demand), (0, 0))), 0)
        if demand.remaining != missing:
            demand.remaining = missing
            changed.append(demand)
    PairDemand.objects.bulk_update(changed, ["remaining"], batch_size=1000)


def _add_up_progress(
    run: Run, raters: Sequence[RunRater], wanted: dict[PairDemand, int], counts: PairCounts
) -> None:
    """Set the progress of the run and of each named rater."""
    run.votes_done = sum(min(done, run.per_pair) for done, _ in counts.values())
    run.votes_wanted = sum(wanted.values())
    done_by, wanted_of = Counter[int | None](), Counter[int | None]()
    for (rater, *_), (done, _) in counts.items():
        done_by[rater] += min(done, run.per_pair)
    for demand, votes in wanted.items():
        wanted_of[demand.rater_id] += votes
    for named in raters:
        named.votes_done, named.votes_wanted = done_by[named.rater_id], wanted_of[named.rater_id]


@dataclass(frozen=True)
class OwnVote:
    comparison: int
    repeats: int | None
    left: int
    right: int
    prompt: int
    outcome: str

    def is_same_as(self, earlier: "OwnVote") -> bool:
        """Whether both votes on the same answers prefer the same one, on whichever side."""
        outcome = self.outcome if self.left == earlier.left else mirror(self.outcome)
        return outcome == earlier.outcome


def _demand_repeats(
    run: Run, raters: Sequence[RunRater], demands: Sequence[PairDemand], now: datetime
) -> int:
    """Demand each rater's next repeat when it is due; return how many are still to come.

    Repeats are spread over a rater's votes. One that is skipped or expires is replaced by another
    pair's, as long as there is one.
    """
    asked: set[int | None] = {demand.repeats_id for demand in demands if demand.repeats_id}
    waiting = Counter(
        demand.rater_id for demand in demands if demand.repeats_id and demand.remaining
    )
    still_open = run.comparisons.exclude(repeats=None).filter(_is_open_comparison(now))
    waiting.update(still_open.values_list("rater", flat=True))
    votes_by_rater, left = _own_votes(run), 0
    for named in raters:
        votes = votes_by_rater[named.rater_id]
        earlier: dict[int | None, OwnVote] = {vote.comparison: vote for vote in votes}
        repeated = [(vote, earlier[vote.repeats]) for vote in votes if vote.repeats in earlier]
        named.repeats_done = len(repeated)
        named.repeats_same = sum(vote.is_same_as(first) for vote, first in repeated)
        to_come = run.repeats - named.repeats_done
        if to_come > 0 and not waiting[named.rater_id]:
            to_come = _demand_repeat(run, named, votes, asked)
        left += max(to_come, 0)
    return left


def _own_votes(run: Run) -> dict[int, list[OwnVote]]:
    """Return the live votes for the run by rater, oldest first."""
    votes = Vote.objects.filter(comparison__run=run, voided_at=None).order_by("pk")
    names = (f"comparison__{name}" for name in ("pk", "repeats", "left", "right", "prompt"))
    by_rater: dict[int, list[OwnVote]] = defaultdict(list)
    for rater, *vote in votes.values_list("rater", *names, "outcome"):
        by_rater[rater].append(OwnVote(*vote))
    return by_rater


def _demand_repeat(run: Run, named: RunRater, votes: list[OwnVote], asked: set[int | None]) -> int:
    """Demand one repeat of a rater if its time has come; return 0 if no pair is left to repeat."""
    is_last = named.votes_done >= named.votes_wanted
    due_at = (named.repeats_done + 1) * named.votes_wanted / (run.repeats + 1)
    recent = 1 if is_last else VOTES_BETWEEN
    firsts = [vote for vote in votes[:-recent] if not vote.repeats and vote.comparison not in asked]
    if not firsts and is_last:
        return 0
    if firsts and (is_last or named.votes_done >= due_at):
        vote = draw.choice(firsts)
        low, high = sorted([vote.left, vote.right])
        PairDemand.objects.create(
            arena=run.in_arena,
            run=run,
            pair=Pair.objects.get(low=low, high=high),
            rater_id=named.rater_id,
            prompt_id=vote.prompt,
            repeats_id=vote.comparison,
            remaining=1,
        )
    return run.repeats - named.repeats_done
