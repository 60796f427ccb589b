"""One refresh of an arena's boards: lease, read the votes, rank, publish, release."""

import logging
import time
import uuid
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from arena.models import Arena, Run
from ranking.intervals import MeasuredIntervals, Spread
from ranking.leaderboard import CrossCheckError, Leaderboard, fit_leaderboard
from ranking.log import links
from ranking.models import (
    ArenaRefresh,
    Board,
    BoardPage,
    Counted,
    Raters,
    Snapshot,
    SnapshotMatrices,
    Standing,
)
from ranking.models.refreshes import LONGEST_PAUSE
from ranking.question import Evidence, questions_of
from ranking.services import leases, pair_weights, styles
from ranking.services.leases import LEASE, REST_PER_SECOND, RefreshLeaseLostError, renew
from ranking.services.votes import cast_by, question_of, read
from ranking.stats.bradley_terry import NotConvergedError
from ranking.votes import NO_STYLES

logger = logging.getLogger(__name__)

ALL_HUMAN = (Raters.PEOPLE.value, "")  # (raters, category)
MOST_RUNS = 5  # judge runs named on a judges' board
VOTES_PER_REPLICATE = 200  # a replicate takes at most as long as fitting this many votes
SHORTEST_GAP = timedelta(seconds=1)
AFTER_A_FAILURE = timedelta(seconds=15)
HISTORY_EVERY = timedelta(minutes=10)
PAST_SNAPSHOTS = 12
LAST = datetime.max.replace(tzinfo=UTC)
MOST_PAST_VOTES = 50_000  # more would hold up the first leaderboard
# What a combined board repeats of people's while nobody is trusted.
REPEATED = (
    "digest",
    "n_votes",
    "n_both_bad",
    "n_raters",
    "n_prompts",
    "last_vote_id",
    "choix_difference",
    "interval_reason",
    "measured_digest",
    "measured_at",
    "measured_seconds",
    "measured_votes",
)
REPEATED_FINDINGS = (
    *(
        "leader",
        "ahead",
        "claimed_leader",
        "claimed_ahead",
        "provisional",
        "is_under_review",
        "possible",
        "apart",
        "neighbours",
    ),
    *("opposed", "tiers", "groups"),
)
MEASURED_SETTINGS = (
    "clusters",
    "clusters_note",
    "n_clusters",
    "these_raters",
    "effective",
    "critical",
    "clusters_met",
    "groups_met",
)


def refresh_arena(*, arena_id: int, now: datetime) -> list[int]:
    """Publish the boards whose votes have changed; return their ids.

    One refresh of an arena runs at a time. If another one runs, or the last one was a moment ago,
    nothing happens, and a later sweep tries again.
    """
    token = ArenaRefresh.objects.claim(arena_id, now, LEASE)
    if token is None:
        return []
    started, worked = time.monotonic(), time.process_time()
    try:
        published, fields = _refresh_boards(arena_id, token)
    except RefreshLeaseLostError:
        return []
    except Exception as error:
        logger.exception("The boards of arena %s could not be refreshed", arena_id)
        problem = f"{type(error).__name__}: {error}"
        release(token, problem=problem, pause=AFTER_A_FAILURE, is_stale=True)
        return []
    seconds = time.monotonic() - started
    # Other threads of the process may have worked meanwhile.
    cpu = min(time.process_time() - worked, seconds)
    release(
        token,
        pause=min(max(timedelta(seconds=REST_PER_SECOND * cpu), SHORTEST_GAP), LONGEST_PAUSE),
        started_at=now,
        finished_at=timezone.now(),
        seconds=seconds,
        **fields,
    )
    return published


def _refresh_boards(arena_id: int, token: uuid.UUID) -> tuple[list[int], dict[str, Any]]:
    """Return the ids of the boards published, and what is remembered of the refresh."""
    arena = Arena.objects.revealed().filter(pk=arena_id).first()
    if arena is None:
        return [], {"recheck_at": None}
    read_at = timezone.now()
    finished = list(Run.objects.to_count().filter(arena=arena_id).values_list("pk", flat=True))
    head = links.update(arena_id=arena_id, token=token)
    styles.count_missing(arena_id=arena_id, token=token)
    renew(token, 2 * arena.votes.count())  # to read them, and to see which boards have changed
    votes = read(arena)
    questions = questions_of(votes) | {ALL_HUMAN}
    boards = {(b.raters, b.category): b for b in leases.open_boards(arena_id, questions)}
    snapshots = Snapshot.objects.current().filter(board__in=boards.values()).select_related("board")
    current = {(s.board.raters, s.board.category): s for s in snapshots}
    first = boards[ALL_HUMAN]
    reviews = list(arena.reviews.open().order_by("pk"))
    everybody = Evidence.of(votes, question_of(first, arena, reviews))
    if ALL_HUMAN not in current:
        unstyled = replace(votes, answers=NO_STYLES, features=NO_STYLES)
        publish_past(replace(everybody, table=unstyled), first, token)
    published, late = [], []
    # Combined boards come last, because they may repeat people's board.
    in_order = sorted(boards.items(), key=lambda item: item[1].raters == Counted.COMBINED)
    for key, board in in_order:
        evidence = everybody
        if board is not first:
            evidence = Evidence.of(votes, question_of(board, arena, reviews))
        human = current.get((Raters.PEOPLE.value, board.category))
        publication = _rank_newest(board, evidence, current.get(key), human, token)
        if publication is not None:
            publication.settings |= {"log": head} if head else {}
            current[key] = publish(board, publication, token, read_at)
            published.append(board.pk)
        elif _is_late(board, evidence, current.get(key)):
            late.append(board.pk)
    _clean_up(arena_id, published, token)
    if not late and not any(board.problem for board in boards.values()):
        Run.objects.filter(pk__in=finished).update(counted_at=timezone.now())
    pair_weights.publish(board=first, evidence=everybody)
    if published and head:
        links.send_head(arena=arena, now=timezone.now())
    newest = int(votes.pk.max(initial=0))
    # Without a log, no mark tells of a vote with a lower id that commits only now.
    is_blind = head is None and newest > ArenaRefresh.objects.get(arena=arena).newest_vote_id
    recheck_at = _next_recheck(current.values(), late, is_blind)
    return published, {"recheck_at": recheck_at, "newest_vote_id": newest}


def _is_late(board: Board, evidence: Evidence, current: Snapshot | None) -> bool:
    """Whether a combined board leaves its newest votes for later, as slow intervals do."""
    if current is None or not evidence.narrowing or board.problem:
        return False
    return current.digest != evidence.digest


def _next_recheck(
    current: Iterable[Snapshot], late: Collection[int], is_blind: bool
) -> datetime | None:
    """When postponed intervals and late boards are due; not at once, in case they just failed.

    `is_blind`: votes with a lower id than the newest may have been missed.
    """
    now = timezone.now()
    soonest = now + AFTER_A_FAILURE
    postponed = [
        s
        for s in current
        if s.measured_at and (s.measured_digest != s.digest or s.board_id in late)
    ]
    if any(_is_due(snapshot, now) for snapshot in postponed):
        return soonest
    due = [max(snapshot.intervals_due_at, soonest) for snapshot in postponed]
    return min([*due, now + LEASE] if is_blind else due, default=None)


def _is_due(snapshot: Snapshot | None, now: datetime) -> bool:
    """Whether to compute intervals now, rather than borrow those of this older snapshot.

    Intervals from the future were computed while the clock was ahead.
    """
    if snapshot is None or not snapshot.measured_at:
        return True
    return not snapshot.measured_at <= now < snapshot.intervals_due_at


@dataclass
class Publication:
    """A snapshot that is not saved yet: its fields, its rows, and its matrices."""

    fields: dict[str, Any]
    settings: dict[str, Any]
    findings: dict[str, Any]
    standings: list[Standing]
    matrices: SnapshotMatrices


def _rank_newest(
    board: Board,
    evidence: Evidence,
    current: Snapshot | None,
    human: Snapshot | None,
    token: uuid.UUID,
) -> Publication | None:
    """Rank the board's candidates again, unless its newest votes are published already.

    `human`: the current snapshot of people's votes in the same category.
    """
    is_combined = board.raters == Counted.COMBINED
    if is_combined and not evidence.narrowing:
        return (
            None
            if human is None or (current and _is_copy_of_people(current, human))
            else _copy_of_people(human)
        )
    now, digest = timezone.now(), evidence.digest
    # Combined boards do not wait once other judges count, other candidates are archived, or the
    # scale is another.
    is_due = (
        _is_due(current, now)
        or (current is not None and _has_merged(evidence, current))
        or (is_combined and current is not None and _has_changed_settings(evidence, current))
    )
    if current and current.digest == digest and (not is_due or current.measured_digest == digest):
        _note_problem(board, "")  # the votes that made one may be gone
        return None
    if is_combined and not is_due:  # scores and intervals are computed together
        return None
    return _compute_publication(board, evidence, None if is_due else current, token)


def _compute_publication(
    board: Board, evidence: Evidence, lender: Snapshot | None, token: uuid.UUID
) -> Publication | None:
    """Make a leaderboard, with the intervals of an older snapshot if there is a `lender`."""
    now, started = timezone.now(), time.monotonic()
    replicates = board.n_resamples if lender is None else 0
    renew(token, evidence.n_votes + replicates * VOTES_PER_REPLICATE)
    try:
        made = fit_leaderboard(evidence, None if lender is None else borrow(lender))
    except (NotConvergedError, CrossCheckError) as error:
        logger.error("Board %s is not published: %s", board, error)
        _note_problem(board, str(error))
        return None
    seconds = time.monotonic() - started
    publication = publication_of(made)
    publication.fields |= {"digest": evidence.digest, "seconds": seconds}
    if lender is None:
        publication.fields |= {"measured_at": now, "measured_seconds": seconds}
    else:
        names = ("measured_at", "measured_seconds")
        publication.fields |= {name: getattr(lender, name) for name in names}
    if board.raters in (Raters.JUDGES, Raters.JURIES):
        runs = Run.objects.filter(arena=board.arena_id, kind=Run.Kind.JUDGE).order_by("-pk")
        publication.settings["runs"] = list(runs.values_list("pk", flat=True)[:MOST_RUNS])
    return publication


def _note_problem(board: Board, problem: str) -> None:
    """Keep why a board lacks its newest votes; a changed board would ask for another refresh."""
    if board.problem != problem:
        board.problem = problem
        Board.objects.filter(pk=board.pk).update(problem=problem)
        leases.drop_pages(arena_id=board.arena_id)


def _has_merged(evidence: Evidence, current: Snapshot) -> bool:
    """Whether other candidates are one than on the current snapshot, whose intervals are then
    those of other candidates."""
    return dict(current.settings.get("merged", ())) != evidence.table.merged


def _has_changed_settings(evidence: Evidence, current: Snapshot) -> bool:
    published = (
        current.findings["combined"].get("names"),
        current.findings.get("archived"),
        current.anchor,
        current.findings.get("is_under_review", False),
    )
    judges, question = evidence.names_of_raters(evidence.judged), evidence.question
    return published != (judges, evidence.archived, question.anchor, bool(question.reviews))


def _is_copy_of_people(current: Snapshot, human: Snapshot) -> bool:
    """Whether the board's current snapshot is a copy of people's."""
    digests = (current.digest, current.measured_digest)
    return digests == (human.digest, human.measured_digest)


def _copy_of_people(human: Snapshot) -> Publication:
    """A copy of people's snapshot, without Elo ratings."""
    standings = list(human.standings.all())
    for standing in standings:
        standing.pk = standing.elo = None
    findings = {name: human.findings.get(name) for name in REPEATED_FINDINGS}
    return Publication(
        fields={name: getattr(human, name) for name in REPEATED},
        settings=dict(human.settings),
        findings=findings | {"combined": {"trusted": False, "lambda": 0.0, "n_judge_votes": 0}},
        standings=standings,
        matrices=SnapshotMatrices(
            cells=human.matrices.cells,
            candidates=human.matrices.candidates,
            covariance=human.matrices.covariance,
        ),
    )


def publication_of(made: Leaderboard) -> Publication:
    measured = made.measured
    return Publication(
        fields=made.fields
        | {"measured_digest": measured.digest, "measured_votes": measured.n_votes},
        settings=made.settings,
        findings=made.findings,
        standings=[Standing(**asdict(row)) for row in made.rows],
        matrices=SnapshotMatrices.of(made.evidence.pairs, measured.candidates, measured.covariance),
    )


def borrow(snapshot: Snapshot) -> MeasuredIntervals:
    """The intervals of an older snapshot, for scores that have changed since."""
    standings = list(snapshot.standings.all())
    ranks = [row.rank for row in standings if row.score is not None and row.rank is not None]
    above = min(ranks, default=1) - 1
    candidates, covariance = snapshot.matrices.ids, snapshot.matrices.scores_covariance
    return MeasuredIntervals(
        spreads={row.candidate_id: _spread_of(row, above) for row in standings},
        candidates=candidates,
        covariance=covariance,
        digest=snapshot.measured_digest,
        n_votes=snapshot.measured_votes,
        reason=snapshot.interval_reason,
        settings={
            name: snapshot.settings[name] for name in MEASURED_SETTINGS if name in snapshot.settings
        },
        findings=snapshot.findings,
    )


def _spread_of(row: Standing, above: int) -> Spread:
    """The spread of a row; ranks are among those with a score, as they were measured, not among
    the `above` candidates without one."""
    score, low, high = row.score, row.low, row.high
    if score is None:
        return Spread()

    def within(rank: int | None) -> float | None:
        return None if rank is None else max(rank - above, 1)

    return Spread(
        below=None if low is None else score - low,
        above=None if high is None else high - score,
        standard_error=row.standard_error,
        rank_low=within(row.rank_low),
        rank_high=within(row.rank_high),
        sure_rank_low=within(row.sure_rank_low),
        sure_rank_high=within(row.sure_rank_high),
    )


@transaction.atomic
def publish(
    board: Board, publication: Publication, token: uuid.UUID, read_at: datetime
) -> Snapshot:
    """Replace the board's current snapshot in six statements; no older page is served again.

    The arena's lease is checked first; updating its row also makes concurrent publishers take
    turns. Raises RefreshLeaseLostError.
    """
    lease = ArenaRefresh.objects.filter(arena=board.arena_id, token=token)
    if not lease.update(page_epoch=F("page_epoch") + 1, leased_until=timezone.now() + LEASE):
        raise RefreshLeaseLostError
    board.snapshots.current().update(is_current=False)
    last_minutes = (read_at - HISTORY_EVERY, read_at)
    recent = board.snapshots.filter(is_history=True, published_at__range=last_minutes)
    snapshot = _save_snapshot(
        board, publication, published_at=read_at, is_history=not recent.exists()
    )
    # A board has one row of matrices, which moves to the current snapshot.
    matrices = publication.matrices
    moved = {name: getattr(matrices, name) for name in ("cells", "candidates", "covariance")}
    row = SnapshotMatrices.objects.filter(snapshot__board=board)
    is_moved = row.update(snapshot=snapshot, **moved)
    matrices.snapshot = snapshot
    if not is_moved:
        matrices.save()
    if board.problem:
        board.problem = ""
        Board.objects.filter(pk=board.pk).update(problem="")
    return snapshot


def _save_snapshot(board: Board, publication: Publication, **fields: Any) -> Snapshot:
    snapshot: Snapshot = board.snapshots.create(
        settings=publication.settings,
        findings=publication.findings,
        **publication.fields | fields,
    )
    for standing in publication.standings:
        standing.snapshot = snapshot
    Standing.objects.bulk_create(publication.standings, batch_size=500)
    return snapshot


def publish_past(evidence: Evidence, board: Board, token: uuid.UUID) -> None:
    """Give a new board a history, if its votes were cast over a longer time, as imported ones are.

    Raises RefreshLeaseLostError.
    """
    if len(evidence.votes) > MOST_PAST_VOTES or board.snapshots.exists():
        return
    now = timezone.now()
    of_people = board.arena.votes.filter(cast_by(board.raters), cast_at__lte=now)
    cast = dict(of_people.values_list("pk", "cast_at"))
    # Votes that were cast while the clock was ahead come after all others.
    times = np.array([cast.get(pk, LAST) for pk in evidence.votes.pk.tolist()], object)
    past_times = times[times <= now]
    first, last = min(past_times, default=now), max(past_times, default=now)
    if last - first < PAST_SNAPSHOTS * HISTORY_EVERY:
        return
    past = []
    for n in range(1, PAST_SNAPSHOTS):
        moment = first + (last - first) * n / PAST_SNAPSHOTS
        renew(token, len(times) + board.n_resamples * VOTES_PER_REPLICATE)
        earlier = evidence.up_to(times <= moment)
        with suppress(NotConvergedError, CrossCheckError):
            past.append((moment, publication_of(fit_leaderboard(earlier))))
    with transaction.atomic():
        renew(token)
        for moment, publication in past:
            publication.fields |= {"digest": "", "measured_at": moment}
            _save_snapshot(
                board, publication, published_at=moment, is_current=False, is_history=True
            )


@transaction.atomic
def _clean_up(arena_id: int, published: list[int], token: uuid.UUID) -> None:
    """Delete what publishing has replaced: stored pages, and snapshots that nothing needs.

    A board's newest Elo intervals stay until there are newer ones. The remains of a killed refresh
    are never served, and are deleted when the board is next published.
    """
    renew(token)
    if not published:
        return
    BoardPage.objects.filter(arena=arena_id).delete()
    with_elo = Snapshot.objects.filter(board=OuterRef("board")).exclude(elo_intervals_at=None)
    newest = Coalesce(Subquery(with_elo.order_by("-pk").values("pk")[:1]), 0)
    superseded = Snapshot.objects.superseded(timezone.now()).filter(board__in=published)
    superseded.exclude(pk=newest).delete()


def release(token: uuid.UUID, *, pause: timedelta = SHORTEST_GAP, **fields: object) -> None:
    """End the lease, with a pause before the next; `fields` are stored on its row."""
    ArenaRefresh.objects.filter(token=token).update(
        token=None,
        leased_until=None,
        not_before=timezone.now() + pause,
        **{"problem": ""} | fields,
    )
