"""One refresh of an arena's boards: claim, read, fit, publish, let go."""

import logging
import time
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from arena.models import Arena, Rater, Run, Vote
from ranking.models import ArenaRefresh, Board, BoardPage, Raters, Snapshot, Standing
from ranking.services import boards, fitting, pair_weights
from ranking.stats import NotConverged
from ranking.votes import Votes, rater_names, read_votes

RUNS_NAMED = 5
logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=20)  # so long a killed worker keeps an arena from being refreshed
LEASE_PER_VOTE = timedelta(microseconds=20)  # a fit takes half of that, and nothing renews in it
SHORTEST_GAP = timedelta(seconds=1)
LONGEST_GAP = timedelta(seconds=15)
AFTER_A_FAILURE = timedelta(seconds=15)
LATE_COMMITS = timedelta(seconds=30)  # a vote with a smaller id may still commit for so long
HISTORY_EVERY = timedelta(minutes=10)


class LeaseLost(Exception):
    """Another refresh has taken over: what this one knows may be older."""


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
        newest, published = _refresh(arena_id, token)
    except LeaseLost:
        return []
    except Exception as error:
        logger.exception("The boards of arena %s could not be refreshed", arena_id)
        problem = f"{type(error).__name__}: {error}"
        _let_go(token, problem=problem, pause=AFTER_A_FAILURE, sure_until=None)
        return []
    _finish(token, now, newest, bool(published), time.monotonic() - started)
    return published


def _refresh(arena_id: int, token: uuid.UUID) -> tuple[int, list[int]]:
    """Return the newest vote id that was there, and the boards published."""
    newest = Vote.objects.live().filter(arena=arena_id).order_by("-pk").values_list("pk", flat=True)
    seen = newest.first() or 0
    arena = Arena.objects.revealed().filter(pk=arena_id).first()
    if arena is None:
        return seen, []
    votes = read_votes(arena, partial(renew, token))
    asked = boards.open_boards(arena_id=arena_id, questions=votes.questions() | {("people", "")})
    known = dict(Snapshot.objects.current().filter(board__in=asked).values_list("board", "digest"))
    published = [board.pk for board in asked if _refresh_board(board, votes, known, token)]
    if published:
        renew(token)
        pair_weights.publish(arena=arena, votes=votes)
    return seen, published


def _refresh_board(board: Board, votes: Votes, known: Mapping[int, str], token: uuid.UUID) -> bool:
    """Fit and publish the board where its votes have changed; say whether it was published."""
    mine = votes.of(board.raters, board.category)
    fingerprint = fitting.digest(board, mine)
    if known.get(board.pk) == fingerprint:
        return False
    renew(token, len(mine))
    started = time.monotonic()
    try:
        fitted = fitting.fit(board, mine)
    except (NotConverged, fitting.SecondOpinionDiffers) as error:
        logger.error("Board %s is not published: %s", board, error)
        Board.objects.filter(pk=board.pk).update(problem=str(error))
        return False
    if board.raters == Raters.JUDGES:
        fitted.fields["settings"] |= {"judges": rater_names(mine), "runs": _runs(board.arena_id)}
    fitted.fields.update(digest=fingerprint, seconds=time.monotonic() - started)
    publish(board=board, fitted=fitted, token=token, now=timezone.now())
    return True


def renew(token: uuid.UUID, n_votes: int = 0) -> None:
    """Keep the arena for one more step, longer where that is about `n_votes`; or LeaseLost."""
    until = timezone.now() + LEASE + n_votes * LEASE_PER_VOTE
    if not ArenaRefresh.objects.filter(token=token).update(leased_until=until):
        raise LeaseLost


def _runs(arena_id: int) -> list[int]:
    """The newest runs of judges in the arena, whose verdicts can be read one by one."""
    runs = Run.objects.filter(arena=arena_id, kind=Rater.Kind.JUDGE).order_by("-pk")
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
    snapshot = board.snapshots.create(
        published_at=now, is_history=_is_history(board, now), **fitted.fields
    )
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


def _finish(token: uuid.UUID, now: datetime, newest: int, published: bool, seconds: float) -> None:
    """Note what was seen. A long refresh is followed by a long gap, within bounds."""
    gap = min(max(timedelta(seconds=2 * seconds), SHORTEST_GAP), LONGEST_GAP)
    _let_go(
        token,
        pause=gap,
        started_at=now,
        finished_at=timezone.now(),
        recheck_at=now + LATE_COMMITS if published else None,
        seconds=seconds,
        seen_vote_id=newest,
    )


def _let_go(token: uuid.UUID, *, pause: timedelta, problem: str = "", **seen: object) -> None:
    ArenaRefresh.objects.filter(token=token).update(
        token=None,
        leased_until=None,
        not_before=timezone.now() + pause,
        problem=problem,
        **seen,
    )
