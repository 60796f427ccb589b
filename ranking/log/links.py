"""The log of an arena's votes, written by refreshes.

`Vote.logged` says whether the log says that a vote counts; it changes in the transaction that
writes the link, so votes and log agree after every commit, even if a process is killed. Only the
holder of the arena's lease writes links.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.urls import reverse
from django.utils import timezone
from numpy.typing import NDArray

from arena.models import Arena, Import, Vote
from arena.models.votes import VoteQuerySet
from arena.outcomes import OUTCOMES
from arena.services.notices import notify
from arena.services.voting import UNDONE
from ranking.log import chain
from ranking.log.chain import (
    RATER_KINDS,
    REASONS,
    REMOVAL_COLUMNS,
    VOTE_COLUMNS,
    ChainLink,
    Columns,
    Ints,
)
from ranking.models import LogLink, VoteLog
from ranking.services.leases import renew

Kind = LogLink.Kind
BATCH = 5_000  # votes per link, which take a fraction of a second
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
READ = (
    *("pk", "comparison", "comparison__prompt", "comparison__left", "comparison__right"),
    *("rater", "rater__kind", "outcome", "preference", "cast_at"),
)
REASON_NUMBERS = {reason: number for number, reason in enumerate(REASONS)} | {
    UNDONE: REASONS.index("undone by the rater")
}
HEAD_NOTICE = "log.head"


@cache
def _signer(seed: str) -> chain.Signer:
    return chain.Signer(seed)


def signer() -> chain.Signer:
    """The site's key."""
    return _signer(settings.VOTE_LOG_KEY)


def update(*, arena_id: int, token: uuid.UUID) -> dict[str, Any] | None:
    """Append what has happened to an arena's votes; return the head, None without a log.

    Raises RefreshLeaseLostError.
    """
    if not settings.VOTE_LOG:
        return None
    log = open_log(arena_id=arena_id, token=token)
    for source in Import.objects.to_log().filter(arena=arena_id).order_by("pk"):
        _log_import(log, source, token)
    while _log_votes(log, Vote.objects.to_log(), token):
        pass
    while _log_votes(log, Vote.objects.to_log_again(), token):
        pass
    while _log_removals(log, token):
        pass
    return head(arena_id)


def open_log(*, arena_id: int, token: uuid.UUID) -> VoteLog:
    """Return the arena's log; a new one begins with all votes that are marked already.

    Raises RefreshLeaseLostError.
    """
    log, _ = VoteLog.objects.get_or_create(arena_id=arena_id)
    while not log.is_begun:
        _begin_log(log, token)
    return log


def _begin_log(log: VoteLog, token: uuid.UUID) -> None:
    """Write the next link of votes that were counted before; mark the log if there are none."""
    newest = LogLink.objects.without_rows().filter(arena=log.arena_id).order_by("-number").first()
    last_id = newest.last_id if newest is not None and newest.last_id else 0
    marked = logged_votes(log.arena_id).filter(pk__gt=last_id).order_by("pk")
    columns = vote_columns(log, list(marked.values_list(*READ)[:BATCH]))
    with transaction.atomic():
        renew(token)
        if len(columns["id"]) or newest is None:
            append(log=log, kind=Kind.START, columns=columns)
        if len(columns["id"]) < BATCH:
            VoteLog.objects.filter(pk=log.pk).update(is_begun=True)
            log.is_begun = True


def logged_votes(arena_id: int) -> VoteQuerySet:
    """The votes that count as the log says."""
    return Vote.objects.filter(arena=arena_id, logged=True)


def _log_import(log: VoteLog, source: Import, token: uuid.UUID) -> None:
    """Add all rows of a revealed import, even voided ones, which are removed later."""
    votes = Vote.objects.filter(source=source, logged=False).order_by("source_row")
    waiting = votes.values_list(*READ, "source_row")
    last = 0  # the marks alone would do, but finding the next row by them reads all rows before it
    while rows := list(waiting.filter(source_row__gt=last)[:BATCH]):
        last = rows[-1][-1]
        columns = vote_columns(log, rows)
        with transaction.atomic():
            renew(token)
            append(log=log, kind=Kind.IMPORT, columns=columns, details={"source": source.pk})
            _mark_votes(columns, logged=True)
    with transaction.atomic():
        renew(token)
        links = LogLink.objects.filter(
            arena=log.arena_id, kind=Kind.IMPORT, details__source=source.pk
        )
        parts = list(links.order_by("number").values_list("n_rows", "digest_of_rows"))
        details = {
            "source": source.pk,
            "sha256": source.sha256,
            "rows": sum(n_rows for n_rows, _ in parts),
            "digest": chain.digest_of("".join(digest for _, digest in parts).encode()),
        }
        Import.objects.filter(pk=source.pk).update(logged_at=timezone.now())
        append(log=log, kind=Kind.IMPORTED, details=details)


def _log_votes(log: VoteLog, waiting: VoteQuerySet, token: uuid.UUID) -> bool:
    """Add the next votes, first those that the log has had before; return whether any waited."""
    ordered = waiting.filter(arena=log.arena_id).order_by("pk")
    rows = list(ordered.values_list(*READ)[:BATCH])
    if not rows:
        return False
    columns, kind = vote_columns(log, rows), Kind.CAST
    is_back = _were_held(log, columns["id"])
    if is_back.any():
        columns = {name: column[is_back] for name, column in columns.items()}
        kind = Kind.RELEASED
    with transaction.atomic():
        renew(token)
        append(log=log, kind=kind, columns=columns)
        _mark_votes(columns, logged=True)
    return True


def _were_held(log: VoteLog, ids: Ints) -> NDArray[np.bool_]:
    """(N,): whether the log says that these votes were held, or ruled out, after they counted."""
    held = LogLink.objects.filter(arena=log.arena_id, kind=Kind.HELD)
    near = held.filter(first_id__lte=int(ids.max()), last_id__gte=int(ids.min()))
    stored_ids = [rows_of(row)["id"] for row in near.iterator(chunk_size=1)]
    return np.isin(ids, np.concatenate([np.zeros(0, np.int64), *stored_ids]))


def _log_removals(log: VoteLog, token: uuid.UUID) -> bool:
    """Remove votes that were voided, then those that are held or ruled out by the arena; return
    whether any waited."""
    waiting = Vote.objects.to_unlog().filter(arena=log.arena_id)
    ordered = waiting.order_by(F("voided_at").asc(nulls_last=True), "pk")
    rows = list(ordered.values_list("pk", "voided_at", "void_reason", "uncounted")[:BATCH])
    if not rows:
        return False
    if rows[0][1] is not None:
        kind = Kind.VOIDED
        columns = removal_columns(*zip(*(row[:3] for row in rows if row[1]), strict=True))
    else:
        kind, now = Kind.HELD, timezone.now()
        columns = removal_columns(*zip(*((row[0], now, row[3]) for row in rows), strict=True))
    with transaction.atomic():
        renew(token)
        append(log=log, kind=kind, columns=columns)
        _mark_votes(columns, logged=False)
    return True


def _mark_votes(columns: Columns, *, logged: bool) -> None:
    Vote.objects.filter(pk__in=columns["id"].tolist()).update(logged=logged)


def append(
    *,
    log: VoteLog,
    kind: str,
    columns: Columns | None = None,
    details: dict[str, Any] | None = None,
) -> None:
    """Write the next link. Call it in the transaction that marks the votes, under the lease."""
    previous = LogLink.objects.filter(arena=log.arena_id).order_by("-number")
    number, digest = previous.values_list("number", "digest").first() or (0, chain.GENESIS)
    columns = columns or {"id": np.zeros(0, np.int64)}
    ids, content = columns["id"], chain.to_bytes(columns, list(columns))
    made_at = timezone.now()
    link = ChainLink(
        number=number + 1,
        kind=kind,
        n_rows=len(ids),
        first_id=int(ids.min()) if len(ids) else None,
        last_id=int(ids.max()) if len(ids) else None,
        digest_of_rows=chain.digest_of(content),
        made_at=_iso(made_at),
        details=details or {},
    )
    link = link.signed(log.arena_id, digest, signer())
    fields = asdict(link) | {"made_at": made_at, "rows": chain.compress(content)}
    LogLink.objects.create(arena_id=log.arena_id, **fields)


def vote_columns(log: VoteLog, rows: Sequence[Sequence[Any]]) -> Columns:
    """Votes as the rows of a link; `rows` have the values of READ."""
    values = list(zip(*rows, strict=True)) or [()] * len(READ)
    pk, comparison, prompt, left, right, rater, kind, outcome, preference, cast_at, *_ = values
    soft = np.array([np.nan if p is None else p for p in preference], np.float64)
    return {
        "id": np.array(pk, np.int64),
        "comparison": np.array(comparison, np.int64),
        "prompt": np.array([number or 0 for number in prompt], np.int64),
        "left": np.array(left, np.int64),
        "right": np.array(right, np.int64),
        "rater": chain.rater_numbers(np.array(rater, np.int64), log.arena_id, bytes(log.salt)),
        "rater_kind": np.array([RATER_KINDS.index(name) for name in kind], np.int64),
        "outcome": np.array([OUTCOMES.index(name) for name in outcome], np.int64),
        "preference": chain.preference_bits(soft),
        "cast_at": microseconds(cast_at),
    }


def removal_columns(ids: Sequence[int], at: Iterable[datetime], reasons: Iterable[str]) -> Columns:
    """The rows of votes that no longer count; a reason without a number is "other"."""
    numbers = [REASON_NUMBERS.get(reason, 0) for reason in reasons]
    columns = (np.array(ids, np.int64), microseconds(at), np.array(numbers, np.int64))
    return dict(zip(REMOVAL_COLUMNS, columns, strict=True))


def microseconds(times: Iterable[datetime]) -> Ints:
    """(N,) times in microseconds since 1970."""
    return np.array([(time - EPOCH) // MICROSECOND for time in times], np.int64)


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def read_links(arena_id: int) -> Iterator[ChainLink]:
    """The links of an arena's log without their rows, oldest first."""
    rows = LogLink.objects.filter(arena=arena_id).order_by("number").without_rows()
    return map(link_of, rows.iterator(chunk_size=500))


def link_of(row: LogLink) -> ChainLink:
    names = ("number", "kind", "n_rows", "first_id", "last_id", "digest_of_rows", "details")
    signed = ("digest", "key", "signature")
    fields = {name: getattr(row, name) for name in (*names, *signed)}
    return ChainLink(**fields, made_at=_iso(row.made_at))


def head(arena_id: int) -> dict[str, Any] | None:
    """The published part of the newest link; None if there is none yet, or no log."""
    if not settings.VOTE_LOG:
        return None
    newest = LogLink.objects.filter(arena=arena_id).order_by("-number").without_rows().first()
    return None if newest is None else link_of(newest).head()


def rows_of(row: LogLink) -> Columns:
    """The rows of a link. Raises RowBytesError."""
    names = REMOVAL_COLUMNS if row.kind in LogLink.REMOVES else VOTE_COLUMNS
    return chain.from_bytes(chain.decompress(row.rows), names)


def send_head(*, arena: Arena, now: datetime) -> bool:
    """Send the newest head to the webhooks of the arena's team, once a day; return whether.

    Only if the operator has turned that on. Anyone who keeps it can prove that the log was
    rewritten.
    """
    team = arena.team
    if settings.VOTE_LOG_HEADS == "off" or team is None or not team.webhooks.live().exists():
        return False
    newest = head(arena.pk)
    if newest is None:
        return False
    link = f"link {newest['number']} of the vote log is {newest['digest']}"
    notice = notify(
        team=team,
        key=f"log-head:{arena.pk}:{now.astimezone(UTC):%Y-%m-%d}",
        kind=HEAD_NOTICE,
        sentence=f"{arena.name}: {link}.",
        path=reverse("about", args=[arena.slug]),
        arena=arena,
        details={"head": newest},
        by_email=False,
        now=now,
    )
    return notice is not None
