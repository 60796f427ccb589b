"""One refresh of an arena's boards: claim, read, fit, publish, let go."""

import logging
import time
import uuid
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from arena.models import Arena, Run
from ranking.cadence import due_at
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
from ranking.services import (
    boards,
    cluster_tallies,
    combining,
    elo_ratings,
    fitting,
    measuring,
    pair_weights,
    people_alone,
    shut_outs,
    styles,
    tallying,
)
from ranking.services.evidence import Evidence, gather, questions_with_votes
from ranking.services.leases import LEASE, LeaseLost, renew
from ranking.stats import NotConverged
from ranking.tallies import Cells
from ranking.votes import rater_names

RUNS_NAMED = 5
logger = logging.getLogger(__name__)

VOTES_PER_REPLICATE = 200  # a replicate takes as long as so many votes, at most
SHORTEST_GAP = timedelta(seconds=1)
LONGEST_GAP = timedelta(seconds=15)
AFTER_A_FAILURE = timedelta(seconds=15)
HISTORY_EVERY = timedelta(minutes=10)


def refresh_arena(*, arena_id: int, now: datetime) -> list[int]:
    """Publish the boards whose votes have changed; return their ids.

    One refresh of an arena runs at a time. Where another one has it, or the last one is too short
    a while ago, nothing happens: the sweep comes back.
    """
    token = ArenaRefresh.objects.claim(arena_id, now, LEASE)
    if token is None:
        return []
    started = time.monotonic()
    try:
        published, put_off = _refresh(arena_id, token)
    except LeaseLost:
        return []
    except Exception as error:
        logger.exception("The boards of arena %s could not be refreshed", arena_id)
        problem = f"{type(error).__name__}: {error}"
        let_go(token, problem=problem, pause=AFTER_A_FAILURE, look_again=True)
        return []
    _finish(token, now, put_off, time.monotonic() - started)
    return published


def _refresh(arena_id: int, token: uuid.UUID) -> tuple[list[int], datetime | None]:
    """Return the boards published, and when intervals that were put off are to be made."""
    arena = Arena.objects.revealed().filter(pk=arena_id).first()
    if arena is None:
        return [], None
    tallying.fold(arena_id=arena_id, token=token)
    voted = questions_with_votes(arena_id)
    wanted = voted | {(Raters.PEOPLE.value, "")} | combining.questions(voted)
    asked = boards.open_boards(arena_id=arena_id, questions=wanted)
    asked.sort(key=lambda board: board.raters == Counted.COMBINED)  # it may show what people's does
    known = {s.board_id: s for s in Snapshot.objects.current().filter(board__in=asked)}
    published = [board.pk for board in asked if _refresh_board(board, known.get(board.pk), token)]
    renew(token)
    pair_weights.publish(arena=arena)
    return published, _next_look(asked)


def _next_look(asked: list[Board]) -> datetime | None:
    """When intervals that were put off are due; those that could not be made get a pause."""
    current = Snapshot.objects.current().filter(board__in=asked).exclude(measured_at=None)
    put_off = current.exclude(measured_digest=F("digest"))
    soonest = timezone.now() + AFTER_A_FAILURE
    return min((max(due_at(snapshot), soonest) for snapshot in put_off), default=None)


def _refresh_board(board: Board, current: Snapshot | None, token: uuid.UUID) -> bool:
    """Fit and publish the board where its votes have changed; say whether it was published."""
    evidence = gather(board)
    if people_alone.is_shown(evidence):
        return _show_people(board, current, token)
    digest, now = evidence.digest(), timezone.now()
    due = board.raters == Counted.COMBINED or measuring.is_due(current, now)
    if current and current.digest == digest and (not due or current.measured_digest == digest):
        return False
    renew(token, evidence.n_votes)
    started = time.monotonic()
    try:
        fitted = _fit(evidence, None if due else current, token)
    except (NotConverged, fitting.SecondOpinionDiffers) as error:
        logger.error("Board %s is not published: %s", board, error)
        Board.objects.filter(pk=board.pk).update(problem=str(error))
        return False
    met = shut_outs.prompts_met(evidence, fitted.standings)
    fitted.fields["settings"] |= {"prompts_met": met}
    if board.raters in (Raters.JUDGES, Raters.JURIES):
        judges = rater_names(board.arena_id, board.raters, board.category)
        fitted.fields["settings"] |= {"judges": judges, "runs": _runs(board.arena_id)}
    fitted.fields.update(seconds=time.monotonic() - started)
    publish(board=board, fitted=fitted, token=token, now=timezone.now())
    return True


def _show_people(board: Board, current: Snapshot | None, token: uuid.UUID) -> bool:
    """Publish people's snapshot on the combined board, where it shows an older one."""
    source = people_alone.newer(board, current)
    if source is None:
        return False
    publish(board=board, fitted=people_alone.copied(source), token=token, now=timezone.now())
    return True


def _fit(evidence: Evidence, lender: Snapshot | None, token: uuid.UUID) -> fitting.Fitted:
    """Scores from the newest votes; intervals too, unless an older snapshot lends its own."""
    board = evidence.board
    if board.raters == Counted.COMBINED:
        people = _clustered(evidence, Raters.PEOPLE.value, token)
        judged = _clustered(evidence, evidence.narrowing, token)
        scores, measured = combining.combine(evidence, people, judged, timezone.now())
        return fitting.compose(evidence, scores, measured, {})
    elo = elo_ratings.bring_up(board=board, token=token)
    renew(token, evidence.n_votes)
    scores = fitting.fit(evidence)
    if lender is not None:
        return fitting.compose(evidence, scores, measuring.borrow(lender), elo)
    clustered = _clustered(evidence, board.raters, token)
    styles.count_missing(arena_id=board.arena_id)
    renew(token, evidence.n_votes + board.n_resamples * VOTES_PER_REPLICATE)
    measured = measuring.measure(evidence, clustered, timezone.now())
    return fitting.compose(evidence, scores, measured, elo)


def _clustered(evidence: Evidence, raters: str, token: uuid.UUID) -> Cells:
    """The votes by prompt, brought up to those per pair first."""
    arena_id = evidence.board.arena_id
    cluster_tallies.settle(arena_id=arena_id, raters=raters, token=token)
    return cluster_tallies.read_clusters(
        arena_id=arena_id, raters=raters, category=evidence.board.category
    )


def _runs(arena_id: int) -> list[int]:
    """The newest runs of judges in the arena, whose verdicts can be read one by one."""
    runs = Run.objects.filter(arena=arena_id, kind=Run.Kind.JUDGE).order_by("-pk")
    return list(runs.values_list("pk", flat=True)[:RUNS_NAMED])


@transaction.atomic
def publish(*, board: Board, fitted: fitting.Fitted, token: uuid.UUID, now: datetime) -> Snapshot:
    """Replace the board's current snapshot, and let no older page be served again.

    Raises LeaseLost where the refresh is no longer the arena's: its row, updated first, also
    makes two publishers wait for one another.
    """
    mine = ArenaRefresh.objects.filter(arena=board.arena_id, token=token)
    if not mine.update(page_epoch=F("page_epoch") + 1, leased_until=now + LEASE):
        raise LeaseLost
    BoardPage.objects.filter(arena=board.arena_id).delete()
    board.snapshots.current().update(is_current=False)
    SnapshotMatrices.objects.filter(snapshot__board=board).delete()
    snapshot = board.snapshots.create(
        published_at=now, is_history=_is_history(board, now), **fitted.fields
    )
    fitted.matrices.snapshot = snapshot
    fitted.matrices.save()
    for standing in fitted.standings:
        standing.snapshot = snapshot
    Standing.objects.bulk_create(fitted.standings, batch_size=500)
    _forget_superseded(board, now)
    Board.objects.filter(pk=board.pk).exclude(problem="").update(problem="")
    return snapshot


def _is_history(board: Board, now: datetime) -> bool:
    """One snapshot in ten minutes is kept; the others go when a newer one is published."""
    recent = board.snapshots.filter(is_history=True, published_at__gt=now - HISTORY_EVERY)
    return not recent.exists()


def _forget_superseded(board: Board, now: datetime) -> None:
    """Delete what nothing needs; the newest Elo intervals stay until newer ones are there."""
    newest = board.snapshots.exclude(elo_intervals_at=None).order_by("-published_at")[:1]
    lender = list(newest.values_list("pk", flat=True))
    board.snapshots.superseded(now).exclude(pk__in=lender).delete()


def _finish(token: uuid.UUID, now: datetime, put_off: datetime | None, seconds: float) -> None:
    """Note what was done. A long refresh is followed by a long gap, within bounds."""
    gap = min(max(timedelta(seconds=2 * seconds), SHORTEST_GAP), LONGEST_GAP)
    let_go(
        token,
        pause=gap,
        started_at=now,
        finished_at=timezone.now(),
        recheck_at=put_off,
        seconds=seconds,
    )


def let_go(token: uuid.UUID, *, pause: timedelta = SHORTEST_GAP, **seen: object) -> None:
    """Leave the arena to whoever claims it after the pause."""
    ArenaRefresh.objects.filter(token=token).update(
        token=None,
        leased_until=None,
        not_before=timezone.now() + pause,
        **{"problem": ""} | seen,
    )
