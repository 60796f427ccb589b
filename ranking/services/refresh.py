"""One refresh of an arena's boards: lease, fold, fit, publish, release."""

import logging
import time
import uuid
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
from django.db import transaction
from django.db.models import F, Max, Min, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from arena.models import Arena, Run, Vote
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
from ranking.services import cluster_tallies, findings, intervals, leases, pair_weights, vote_log
from ranking.services import elo as elo_service
from ranking.services import fit as fit_service
from ranking.services import fold as fold_service
from ranking.services.combined import (
    combine,
    combined_questions,
    fallback,
    needs_fallback,
    shows,
)
from ranking.services.evidence import BoardEvidence, load_tallies
from ranking.services.findings import named_votes, prompts_met
from ranking.services.intervals import interval_due_at
from ranking.services.leases import LEASE, RefreshLeaseLostError, renew
from ranking.stats.bradley_terry import NotConvergedError
from ranking.tallies import CappedRaters, VoteCounts
from ranking.tallied_votes import HUMAN, Votes, cast_by, rater_names, read_votes_with

logger = logging.getLogger(__name__)

ALL_HUMAN = (Raters.PEOPLE.value, "")  # (raters, category)
MOST_RUNS = 5  # judge runs named on a judges' board
VOTES_PER_REPLICATE = 200  # a replicate takes at most as long as fitting this many votes
SHORTEST_GAP = timedelta(seconds=1)
LONGEST_GAP = timedelta(seconds=15)
AFTER_A_FAILURE = timedelta(seconds=15)
CAPPED = ("n_raters", "n_networks")
HISTORY_EVERY = timedelta(minutes=10)
PAST_SNAPSHOTS = 12
MOST_PAST_VOTES = 50_000  # more would hold up the first leaderboard


def refresh_arena(*, arena_id: int, now: datetime) -> list[int]:
    """Publish the boards whose votes have changed; return their ids.

    One refresh of an arena runs at a time. If another one runs, or the last one was a moment ago,
    nothing happens, and a later sweep tries again.
    """
    token = ArenaRefresh.objects.claim(arena_id, now, LEASE)
    if token is None:
        return []
    started = time.monotonic()
    try:
        published, recheck_at = _refresh(arena_id, token)
    except RefreshLeaseLostError:
        return []
    except Exception as error:
        logger.exception("The boards of arena %s could not be refreshed", arena_id)
        problem = f"{type(error).__name__}: {error}"
        release(token, problem=problem, pause=AFTER_A_FAILURE, is_stale=True)
        return []
    seconds = time.monotonic() - started
    release(
        token,
        # A long refresh is followed by a long gap, within bounds.
        pause=min(max(timedelta(seconds=2 * seconds), SHORTEST_GAP), LONGEST_GAP),
        started_at=now,
        finished_at=timezone.now(),
        recheck_at=recheck_at,
        seconds=seconds,
    )
    return published


def _refresh(arena_id: int, token: uuid.UUID) -> tuple[list[int], datetime | None]:
    """Return the ids of the boards published, and when postponed intervals are due."""
    arena = Arena.objects.revealed().filter(pk=arena_id).first()
    if arena is None:
        return [], None
    read_at = timezone.now()
    finished = list(Run.objects.to_count().filter(arena=arena_id).values_list("pk", flat=True))
    fold_service.fold(arena_id=arena_id, token=token)
    tallies = load_tallies(arena)
    voted = tallies.questions()
    questions = voted | {ALL_HUMAN} | combined_questions(voted)
    boards = {(b.raters, b.category): b for b in leases.open_boards(arena_id, questions)}
    snapshots = Snapshot.objects.current().filter(board__in=boards.values())
    current = {snapshot.board_id: snapshot for snapshot in snapshots}
    published, late = [], []
    # Combined boards come last, because they may repeat the human-votes board.
    for board in sorted(boards.values(), key=lambda board: board.raters == Counted.COMBINED):
        human = boards.get((Raters.PEOPLE.value, board.category))
        source = current.get(human.pk) if human else None
        evidence = tallies.evidence(board)
        if (board.raters, board.category) == ALL_HUMAN and board.pk not in current:
            publish_past(evidence, token)
        snapshot = _refresh_board(evidence, current.get(board.pk), source, token, read_at)
        if snapshot is not None:
            current[board.pk] = snapshot
            published.append(board.pk)
        elif _is_late(evidence, current.get(board.pk)):
            late.append(board.pk)
    if (
        finished
        and not late
        and not Board.objects.filter(arena=arena_id).exclude(problem="").exists()
    ):
        Run.objects.filter(pk__in=finished).update(counted_at=timezone.now())
    _clean_up(arena_id, published, token)
    pair_weights.publish(arena=arena, evidence=tallies.evidence(boards[ALL_HUMAN]))
    if published:
        vote_log.send_head(arena=arena, now=timezone.now())
    return published, _next_recheck(current.values(), late)


def _is_late(evidence: BoardEvidence, current: Snapshot | None) -> bool:
    """Whether a combined board leaves its newest votes for later, as slow intervals do."""
    if current is None or not evidence.narrowing or evidence.board.problem:
        return False
    return current.digest != evidence.digest()


def _next_recheck(current: Iterable[Snapshot], late: Collection[int]) -> datetime | None:
    """When postponed intervals and late boards are due; not at once, in case they just failed."""
    now = timezone.now()
    soonest = now + AFTER_A_FAILURE
    postponed = [
        s
        for s in current
        if s.measured_at and (s.measured_digest != s.digest or s.board_id in late)
    ]
    if any(intervals.is_due(snapshot, now) for snapshot in postponed):
        return soonest
    return min((max(interval_due_at(snapshot), soonest) for snapshot in postponed), default=None)


def _refresh_board(
    evidence: BoardEvidence,
    current: Snapshot | None,
    human: Snapshot | None,
    token: uuid.UUID,
    read_at: datetime,
) -> Snapshot | None:
    """Fit and publish the board if its votes have changed; return what was published.

    `human`: the current snapshot of human votes in the same category, for the fallback. `read_at`:
    all votes until then are in the evidence.
    """
    board = evidence.board
    if needs_fallback(evidence):
        if human is None or (current and shows(current, human)):
            return None
        fitted = fallback(human)
        fitted.fields["settings"]["log"] = evidence.log_head
        return publish(board=board, fitted=fitted, token=token, read_at=read_at)
    digest, is_due = evidence.digest(), _is_due(evidence, current)
    if current and current.digest == digest and (not is_due or current.measured_digest == digest):
        return None
    if board.raters == Counted.COMBINED and not is_due:  # scores and intervals are fitted together
        return None
    renew(token, evidence.n_votes)
    started = time.monotonic()
    try:
        fitted = _fit(evidence, None if is_due else current, token)
    except (NotConvergedError, fit_service.CrossCheckError) as error:
        logger.error("Board %s is not published: %s", board, error)
        board.problem = str(error)
        board.save(update_fields=["problem"])
        return None
    fitted.fields["settings"] |= {
        "prompts_met": prompts_met(evidence, fitted.standings),
        "left_out": evidence.left_out(),
        "named": named_votes(evidence),
        "log": evidence.log_head,
    }
    if board.raters in (Raters.JUDGES, Raters.JURIES):
        newest_runs = Run.objects.filter(arena=board.arena_id, kind=Run.Kind.JUDGE).order_by("-pk")
        fitted.fields["settings"] |= {
            "judges": rater_names(board.arena_id, board.raters, board.category),
            "runs": list(newest_runs.values_list("pk", flat=True)[:MOST_RUNS]),
        }
    fitted.fields["seconds"] = time.monotonic() - started
    return publish(board=board, fitted=fitted, token=token, read_at=read_at)


def _is_due(evidence: BoardEvidence, current: Snapshot | None) -> bool:
    """Whether to compute intervals now. Combined boards do not wait once other judges count, or
    other candidates are archived."""
    if current is None or intervals.is_due(current, timezone.now()):
        return True
    board = evidence.board
    if board.raters != Counted.COMBINED:
        return False
    names = rater_names(board.arena_id, evidence.narrowing, board.category)
    published = (current.findings["combined"].get("names"), current.findings.get("archived"))
    return published != (names, list(evidence.archived))


def _fit(
    evidence: BoardEvidence, lender: Snapshot | None, token: uuid.UUID
) -> fit_service.FittedBoard:
    """Fit scores to the newest votes; compute intervals too, or borrow those of the `lender`."""
    board, started = evidence.board, time.monotonic()
    if board.raters == Counted.COMBINED:
        people = _clustered(evidence, Raters.PEOPLE.value, token)
        by_people = _by_rater(evidence, people, token)
        judged = _clustered(evidence, evidence.narrowing, token)
        evidence = evidence.capping(by_people)
        reading = time.monotonic() - started
        scores, measured = combine(evidence, people, by_people, judged, timezone.now())
        measured.fields["measured_seconds"] += reading
        return fit_service.compose(evidence, scores, measured, {})
    elo = elo_service.update_ratings(board=board, token=token)
    renew(token, evidence.n_votes)
    if lender is not None:
        evidence = _capped_as(evidence, lender, token)
        scores, measured = fit_service.fit(evidence), intervals.borrow(lender)
        return fit_service.compose(evidence, scores, measured, elo)
    started = time.monotonic()
    clustered, by_rater = _clustered(evidence, board.raters, token), None
    # Judges and juries are not a sample: their boards are about those that have voted.
    if board.raters in HUMAN:
        by_rater = _by_rater(evidence, clustered, token)
        evidence = evidence.capping(by_rater)
    reading = time.monotonic() - started
    scores = fit_service.fit(evidence)
    findings.count_missing(arena_id=board.arena_id)
    renew(token, evidence.n_votes + board.n_resamples * VOTES_PER_REPLICATE)
    measured = intervals.measure(evidence, clustered, by_rater, timezone.now())
    measured.fields["measured_seconds"] += reading  # both are put off where they take long
    return fit_service.compose(evidence, scores, measured, elo)


def _capped_as(evidence: BoardEvidence, lender: Snapshot, token: uuid.UUID) -> BoardEvidence:
    """The evidence with the weights of raters that an older snapshot had capped."""
    weights = dict(lender.findings.get("capped", []))
    if not weights:
        return evidence
    board = evidence.board
    cluster_tallies.merge_deltas(arena_id=board.arena_id, raters=board.raters, token=token)
    own = cluster_tallies.stored_raters(board.arena_id, _scored(board), board.category, weights)
    share = lender.settings["capped_at"]
    capped = CappedRaters.read(own, weights, share)
    counts = {name: lender.settings.get(f"capped_{name[2:]}", 0) for name in CAPPED}
    return replace(evidence, capped=replace(capped, **counts))


def _clustered(evidence: BoardEvidence, raters: str, token: uuid.UUID) -> VoteCounts:
    """The counts by prompt, after merging the deltas of refreshes."""
    arena_id = evidence.board.arena_id
    cluster_tallies.merge_deltas(arena_id=arena_id, raters=raters, token=token)
    return cluster_tallies.read_clusters(
        arena_id=arena_id, raters=raters, category=evidence.board.category
    )


def _by_rater(evidence: BoardEvidence, clustered: VoteCounts, token: uuid.UUID) -> VoteCounts:
    """Human counts by rater; `clustered`: the same votes by prompt."""
    board = evidence.board
    return cluster_tallies.read_raters(
        arena_id=board.arena_id,
        raters=_scored(board),
        category=board.category,
        clustered=clustered,
        token=token,
    )


def _scored(board: Board) -> str:
    """The raters whose tallies decide the scores of a board."""
    return Raters.PEOPLE.value if board.raters == Counted.COMBINED else board.raters


@transaction.atomic
def publish(
    *, board: Board, fitted: fit_service.FittedBoard, token: uuid.UUID, read_at: datetime
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
    snapshot = board.snapshots.create(
        published_at=read_at, is_history=not recent.exists(), **fitted.fields
    )
    # A board has one row of matrices, which moves to the current snapshot.
    matrices = fitted.matrices
    row = SnapshotMatrices.objects.filter(snapshot__board=board)
    is_moved = row.update(
        snapshot=snapshot,
        cells=matrices.cells,
        candidates=matrices.candidates,
        covariance=matrices.covariance,
    )
    matrices.snapshot = snapshot
    if not is_moved:
        matrices.save()
    _save_standings(snapshot, fitted)
    if board.problem:
        Board.objects.filter(pk=board.pk).update(problem="")
    return snapshot


def publish_past(evidence: BoardEvidence, token: uuid.UUID) -> None:
    """Give a new board a history, if its votes were cast over a longer time, as imported ones are.

    Raises RefreshLeaseLostError.
    """
    board, n_votes = evidence.board, int(evidence.counts.votes.sum())
    cast = Vote.objects.in_tallies().filter(cast_by(board.raters), arena=board.arena_id)
    span = cast.filter(cast_at__lte=timezone.now()).aggregate(
        first=Min("cast_at"), last=Max("cast_at")
    )
    if span["first"] is None or n_votes > MOST_PAST_VOTES or board.snapshots.exists():
        return
    length = span["last"] - span["first"]
    if length < PAST_SNAPSHOTS * HISTORY_EVERY:
        return
    renew(token, n_votes)
    votes, (cast_at,) = read_votes_with(("cast_at",), cast.order_by("pk"), MOST_PAST_VOTES)
    dates, past = np.array(cast_at, object), []
    for n in range(1, PAST_SNAPSHOTS):
        moment = span["first"] + length * n / PAST_SNAPSHOTS
        renew(token, n_votes + board.n_resamples * VOTES_PER_REPLICATE)
        with suppress(NotConvergedError, fit_service.CrossCheckError):
            past.append((moment, _fit_past(evidence, votes.where(dates <= moment), moment)))
    with transaction.atomic():
        renew(token)
        for moment, fitted in past:
            fields = fitted.fields | {"digest": "", "published_at": moment}
            _save_standings(
                board.snapshots.create(is_current=False, is_history=True, **fields), fitted
            )


def _fit_past(evidence: BoardEvidence, votes: Votes, moment: datetime) -> fit_service.FittedBoard:
    """The board as it would have been with these votes alone."""
    counts = votes.count()
    by_rater = replace(votes, prompt=np.zeros_like(votes.prompt)).count()
    past = replace(
        evidence,
        counts=counts.per_pair(),
        n_raters=len(np.unique(votes.rater)),
        n_prompts=len(np.unique(votes.prompt[votes.prompt > 0])),
        last_vote_id=int(votes.pk.max()),
    ).capping(by_rater)
    scores, by_prompt = fit_service.fit(past), counts.per_prompt()
    measured = intervals.measure(past, by_prompt, by_rater, moment, with_style=False)
    return fit_service.compose(past, scores, measured, {})


def _save_standings(snapshot: Snapshot, fitted: fit_service.FittedBoard) -> None:
    for standing in fitted.standings:
        standing.snapshot = snapshot
    Standing.objects.bulk_create(fitted.standings, batch_size=500)


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
