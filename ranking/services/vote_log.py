"""The signed log of an arena's votes: written by the fold, verified against the votes, repaired.

A link is written in the transaction that marks its votes as counted, so log, votes and tallies
agree after every commit, even if a process is killed. Only the holder of the arena's lease writes
links.
"""

import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.urls import reverse
from django.utils import timezone

from arena.actors import Actor
from arena.models import Arena, Import, Vote
from arena.models.voting import VoteQuerySet
from arena.outcomes import OUTCOMES
from arena.services import audit
from arena.services.notices import notify
from arena.services.voting import UNDONE
from ranking import vote_log
from ranking.models import LogLink, Snapshot, VoteLog
from ranking.services.leases import renew
from ranking.vote_log import REASONS, REMOVAL_COLUMNS, VOTE_COLUMNS, ChainLink, Columns
from ranking.tallied_votes import Bools, Ints, Votes, read_votes_with

Kind = LogLink.Kind
BATCH = 5_000  # votes per link
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LOGGED = ("comparison", "cast_at")  # columns of a vote that tallies do not need
KIND_NUMBERS = {kind: number for number, kind in enumerate(vote_log.RATER_KINDS)}
REASON_NUMBERS = {reason: number for number, reason in enumerate(REASONS)} | {
    UNDONE: REASONS.index("undone by the rater")
}
HEAD_NOTICE = "log.head"
REPAIR_REASONS = ("backup restored", "new key", "mistake corrected", "other")


class BrokenLogError(Exception):
    """The votes are not those of their log; `args` are sentences."""


@cache
def _signer(seed: str) -> vote_log.Signer:
    return vote_log.Signer(seed)


def signer() -> vote_log.Signer:
    """The site's key."""
    return _signer(settings.VOTE_LOG_KEY)


# -- Writing ---------------------------------------------------------------------------------------


def open_log(*, arena_id: int, token: uuid.UUID) -> VoteLog:
    """Return the arena's log; a new one begins with all votes that are counted already.

    Raises RefreshLeaseLostError.
    """
    log, _ = VoteLog.objects.get_or_create(arena_id=arena_id)
    while not log.is_begun:
        _begin(log, token)
    return log


def _begin(log: VoteLog, token: uuid.UUID) -> None:
    """Write the next link of votes that were counted before; mark the log if there are none."""
    newest = LogLink.objects.heads().filter(arena=log.arena_id).order_by("-number").first()
    last_id = newest.last_id if newest is not None and newest.last_id else 0
    before = counted_votes(log.arena_id).filter(pk__gt=last_id).order_by("pk")
    votes, others = read_votes_with(LOGGED, before, BATCH)
    with transaction.atomic():
        renew(token)
        if len(votes) or newest is None:
            append(log=log, kind=Kind.START, columns=vote_columns(log, votes, *others))
        if len(votes) < BATCH:
            VoteLog.objects.filter(pk=log.pk).update(is_begun=True)
            log.is_begun = True


def counted_votes(arena_id: int) -> VoteQuerySet:
    """The votes that the fold has marked as counted, whether or not their outcome counts."""
    is_folded = Q(source=None) | Q(source_row__lte=F("source__tallied_row"))
    return Vote.objects.filter(is_folded, arena=arena_id, tallied=True)


def append(
    *,
    log: VoteLog,
    kind: str,
    columns: Columns | None = None,
    details: dict[str, Any] | None = None,
) -> ChainLink:
    """Write the next link. Call it in the transaction that counts the votes, under the lease."""
    previous = LogLink.objects.filter(arena=log.arena_id).order_by("-number")
    number, digest = previous.values_list("number", "digest").first() or (0, vote_log.GENESIS)
    ids = np.zeros(0, np.int64) if columns is None else columns["id"]
    content = b"" if columns is None else vote_log.to_bytes(columns, list(columns))
    made_at = timezone.now()
    link = ChainLink(
        number=number + 1,
        kind=kind,
        n_rows=len(ids),
        first_id=int(ids.min()) if len(ids) else None,
        last_id=int(ids.max()) if len(ids) else None,
        digest_of_rows=vote_log.digest_of(content),
        made_at=_iso(made_at),
        details=details or {},
    )
    link = link.signed(log.arena_id, digest, signer())
    fields = vars(link) | {"made_at": made_at, "rows": vote_log.compress(content)}
    LogLink.objects.create(arena_id=log.arena_id, **fields)
    return link


def vote_columns(
    log: VoteLog, votes: Votes, comparison: Sequence[int] = (), cast_at: Sequence[datetime] = ()
) -> Columns:
    """The rows of votes in a link."""
    return {
        "id": votes.pk,
        "comparison": np.array(comparison, np.int64),
        "prompt": votes.prompt,
        "left": votes.left,
        "right": votes.right,
        "rater": vote_log.rater_numbers(votes.rater, log.arena_id, bytes(log.salt)),
        "rater_kind": np.array([KIND_NUMBERS[kind] for kind in votes.kind], np.int64),
        "outcome": votes.outcome,
        "preference": vote_log.preference_bits(votes.preference),
        "cast_at": microseconds(cast_at),
    }


def removal_columns(ids: Ints, at: Iterable[datetime], reasons: Iterable[str]) -> Columns:
    """The rows of votes that are no longer counted; a reason without a number is "other"."""
    numbers = [REASON_NUMBERS.get(reason, 0) for reason in reasons]
    return {"id": ids, "at": microseconds(at), "reason": np.array(numbers, np.int64)}


def were_held(log: VoteLog, ids: Ints) -> Bools:
    """(N,): whether the log says that these votes were held, or ruled out, after they counted."""
    held = LogLink.objects.filter(arena=log.arena_id, kind=Kind.HELD)
    near = held.filter(first_id__lte=int(ids.max()), last_id__gte=int(ids.min()))
    known = [rows_of(row)["id"] for row in near.iterator(chunk_size=1)]
    return np.isin(ids, np.concatenate([np.zeros(0, np.int64), *known]))


def close_import(*, log: VoteLog, source: Import) -> None:
    """Write the link that says an import is complete: its file, its rows, and their digest."""
    links = LogLink.objects.filter(arena=log.arena_id, kind=Kind.IMPORT, details__source=source.pk)
    parts = list(links.order_by("number").values_list("n_rows", "digest_of_rows"))
    details = {
        "source": source.pk,
        "sha256": source.sha256,
        "rows": sum(n_rows for n_rows, _ in parts),
        "digest": vote_log.digest_of("".join(digest for _, digest in parts).encode()),
    }
    append(log=log, kind=Kind.IMPORTED, details=details)


def microseconds(times: Iterable[datetime]) -> Ints:
    """(N,) times in microseconds since 1970."""
    return np.array([(time - EPOCH) // MICROSECOND for time in times], np.int64)


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")


# -- Reading ---------------------------------------------------------------------------------------


def read_links(arena_id: int) -> Iterator[ChainLink]:
    """The links of an arena's log without their rows, oldest first."""
    rows = LogLink.objects.filter(arena=arena_id).order_by("number").heads()
    return map(link_of, rows.iterator(chunk_size=500))


def link_of(row: LogLink) -> ChainLink:
    names = ("number", "kind", "n_rows", "first_id", "last_id", "digest_of_rows", "details")
    signed = ("digest", "key", "signature")
    fields = {name: getattr(row, name) for name in (*names, *signed)}
    return ChainLink(**fields, made_at=_iso(row.made_at))


def head(arena_id: int) -> dict[str, Any] | None:
    """The published part of the newest link; None if there is none yet."""
    newest = LogLink.objects.filter(arena=arena_id).order_by("-number").heads().first()
    return None if newest is None else link_of(newest).head()


def rows_of(row: LogLink) -> Columns:
    """The rows of a link. Raises RowBytesError."""
    names = REMOVAL_COLUMNS if row.kind in LogLink.REMOVES else VOTE_COLUMNS
    return vote_log.from_bytes(vote_log.decompress(row.rows), names)


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
        path=reverse("methodology", args=[arena.slug]),
        arena=arena,
        details={"head": newest},
        by_email=False,
        now=now,
    )
    return notice is not None


# -- Verifying -------------------------------------------------------------------------------------


@dataclass
class LogFaults:
    """What is wrong with a log and the votes it covers.

    `different`: ids of counted votes that the log lacks, or has with other content. `gone`: ids
    of votes that the log counts and the tallies do not.
    """

    links: list[str] = field(default_factory=list)
    votes: list[str] = field(default_factory=list)
    different: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    n_links: int = 0
    n_votes: int = 0
    head: dict[str, Any] | None = None

    @property
    def sentences(self) -> list[str]:
        return self.links + self.votes


@dataclass(frozen=True)
class _Removal:
    number: int
    kind: str
    at: int


def verify(*, arena_id: int, token: uuid.UUID) -> LogFaults:
    """Compare an arena's votes with its log, whose links are checked too.

    No refresh may run meanwhile. Raises RefreshLeaseLostError.
    """
    log = VoteLog.objects.filter(arena=arena_id, is_begun=True).first()
    links = list(read_links(arena_id)) if log else []
    published = _check_snapshots(arena_id, {link.number: link.digest for link in links})
    findings = LogFaults(
        vote_log.check_links(arena_id, links, signer().public, published),
        n_links=len(links),
        head=links[-1].head() if links else None,
    )
    if log is None:
        return findings
    check = _Check(log, token, findings)
    check.read_changes()
    check.check_counted()
    check.check_removed()
    check.find_added()
    return findings


def _check_snapshots(arena_id: int, digests: dict[int, str]) -> list[str]:
    """Compare the heads that leaderboards have published with the links."""
    published = Snapshot.objects.kept().filter(board__arena=arena_id, settings__has_key="log")
    faults: set[int] = set()
    for log in published.values_list("settings__log", flat=True):
        if digests.get(log["number"]) != log["digest"]:
            faults.add(log["number"])
    return [
        f"Link {number} of the log differs from the one that leaderboards published."
        for number in sorted(faults)
    ]


class _Check:
    """Compares votes with the rows of links, a link at a time."""

    def __init__(self, log: VoteLog, token: uuid.UUID, findings: LogFaults) -> None:
        self.log = log
        self.token = token
        self.findings = findings
        self.superseded: dict[int, int] = {}  # the repair that each of these votes is known from
        self.removed: dict[int, _Removal] = {}
        self.known: list[Ints] = []  # ids of votes that are counted as the log says

    def _links(self, kinds: Collection[str]) -> Iterator[tuple[LogLink, Columns]]:
        rows = LogLink.objects.filter(arena=self.log.arena_id, kind__in=kinds).order_by("number")
        last = 0
        while row := rows.filter(number__gt=last).first():
            renew(self.token, row.n_rows)
            last = row.number
            try:
                columns = rows_of(row)
            except vote_log.RowBytesError:
                columns = {}
            content = vote_log.to_bytes(columns, list(columns))
            if vote_log.digest_of(content) != row.digest_of_rows:
                self.findings.links.append(f"The rows of link {last} of the log were changed.")
            elif row.n_rows:
                yield row, columns

    def read_changes(self) -> None:
        """Read which votes were removed or repaired after they were counted."""
        for row, columns in self._links((*LogLink.REMOVES, Kind.RELEASED, Kind.REPAIR)):
            for at, pk in enumerate(columns["id"].tolist()):
                if row.kind in LogLink.REMOVES:
                    self.removed[pk] = _Removal(row.number, row.kind, int(columns["at"][at]))
                else:
                    self.removed.pop(pk, None)
                    self.superseded[pk] = row.number

    def check_counted(self) -> None:
        for row, columns in self._links(LogLink.ADDS):
            ids = columns["id"].tolist()
            for pk in self.removed.keys() & set(ids):  # held, for example, and released again
                if self.removed[pk].number < row.number and self.removed[pk].kind != Kind.VOIDED:
                    del self.removed[pk]
            chosen = [
                at
                for at, pk in enumerate(ids)
                if pk not in self.removed and self.superseded.get(pk, row.number) <= row.number
            ]
            self._compare({name: column[chosen] for name, column in columns.items()})

    def _compare(self, logged: Columns) -> None:
        """Compare counted votes with their rows in the log."""
        stored = self._stored(logged["id"].tolist())
        is_present = np.isin(logged["id"], stored["id"])
        for pk in logged["id"][~is_present].tolist():
            self._lost(pk)
        at = np.searchsorted(stored["id"], logged["id"][is_present])
        was = np.array([logged[name][is_present] for name in VOTE_COLUMNS])
        now = np.array([stored[name][at] for name in VOTE_COLUMNS])
        for row in np.flatnonzero((was != now).any(axis=0)).tolist():
            words = [
                _difference(name, int(was[i, row]), int(now[i, row]))
                for i, name in enumerate(VOTE_COLUMNS)
                if was[i, row] != now[i, row]
            ]
            self._fault(int(was[0, row]), f"differs from the log: {', '.join(words)}")
        self.known.append(stored["id"])
        self.findings.n_votes += len(stored["id"])

    def _lost(self, pk: int) -> None:
        is_there = Vote.objects.filter(pk=pk, arena=self.log.arena_id).exists()
        words = "is no longer counted, and the log does not say why" if is_there else "is missing"
        self.findings.gone.add(pk)
        self.findings.votes.append(f"Vote {pk} {words}.")

    def _fault(self, pk: int, words: str) -> None:
        self.findings.different.add(pk)
        self.findings.votes.append(f"Vote {pk} {words}.")

    def _stored(self, ids: list[int]) -> Columns:
        """The rows of the counted votes among these, as a link would hold them, by id."""
        votes = counted_votes(self.log.arena_id).filter(pk__in=ids).order_by("pk")
        read, others = read_votes_with(LOGGED, votes, len(ids))
        return vote_columns(self.log, read, *others)

    def check_removed(self) -> None:
        """Check that no removed vote is counted, and that the voided ones still are voided."""
        removed = sorted(self.removed)
        for start in range(0, len(removed), BATCH):
            renew(self.token, BATCH)
            ids = removed[start : start + BATCH]
            votes = Vote.objects.filter(pk__in=ids, arena=self.log.arena_id)
            stored = {pk: (at, tallied) for pk, at, tallied in votes.values_list(*STATE)}
            for pk in ids:
                self._check_removed(pk, *stored.get(pk, (None, None)))

    def _check_removed(self, pk: int, voided_at: datetime | None, tallied: bool | None) -> None:
        removal = self.removed[pk]
        if tallied:
            self._fault(pk, f"is counted, although the log says that it was {removal.kind}")
        elif tallied is None and removal.kind != Kind.GONE:
            self.findings.gone.add(pk)
            self.findings.votes.append(f"Vote {pk}, which was {removal.kind}, is missing.")
        elif removal.kind == Kind.VOIDED and (
            voided_at is None or int(microseconds([voided_at])[0]) != removal.at
        ):
            self.findings.gone.add(pk)
            self.findings.votes.append(f"Vote {pk} was voided, but its row says otherwise.")

    def find_added(self) -> None:
        """Find counted votes that are missing from the log, or in it more than once."""
        every = np.concatenate([np.zeros(0, np.int64), *self.known])
        known, times = np.unique(every, return_counts=True)
        for pk in known[times > 1].tolist():  # for example after its mark was reset
            self._fault(pk, "was counted more than once")
        votes = counted_votes(self.log.arena_id).order_by("pk")
        renew(self.token, len(known))
        if votes.count() == len(known):
            return
        ids = votes.values_list("pk", flat=True)
        last = 0
        while batch := list(ids.filter(pk__gt=last)[:BATCH]):
            renew(self.token, BATCH)
            last = batch[-1]
            for pk in sorted(set(batch) - set(known[np.isin(known, batch)].tolist())):
                if pk not in self.removed:
                    self._fault(pk, "is counted, but is not in the log")


STATE = ("pk", "voided_at", "tallied")
WORDS = {
    "comparison": "another comparison",
    "prompt": "another prompt",
    "left": "another candidate on the left",
    "right": "another candidate on the right",
    "rater": "another rater",
    "rater_kind": "another kind of rater",
    "preference": "another preference",
    "cast_at": "another time",
}


def _difference(name: str, was: int, now: int) -> str:
    if name == "outcome":
        return f"{OUTCOMES[now]} instead of {OUTCOMES[was]}"
    return WORDS[name]


# -- Repairing -------------------------------------------------------------------------------------


def repair(*, arena: Arena, reason: str, by: Actor, token: uuid.UUID) -> LogFaults:
    """Accept what `verify` finds, in signed entries; return what it found.

    The votes count as they are now. Raises RefreshLeaseLostError.
    """
    findings = verify(arena_id=arena.pk, token=token)
    if not findings.sentences:
        return findings
    log = open_log(arena_id=arena.pk, token=token)
    now = timezone.now()
    with transaction.atomic():
        renew(token, findings.n_votes)
        counted = counted_votes(arena.pk)
        present = set[int]()
        for ids in _batches(findings.different):
            votes, others = read_votes_with(
                LOGGED, counted.filter(pk__in=ids).order_by("pk"), BATCH
            )
            present |= set(votes.pk.tolist())
            append(
                log=log,
                kind=Kind.REPAIR,
                columns=vote_columns(log, votes, *others),
                details={"reason": reason},
            )
        for ids in _batches(findings.gone | findings.different - present):
            columns = removal_columns(np.array(ids, np.int64), [now] * len(ids), [""] * len(ids))
            append(log=log, kind=Kind.GONE, columns=columns, details={"reason": reason})
        details = {"reason": reason, "accepted": findings.links}
        append(log=log, kind=Kind.REPAIR, details=details)
        n_votes = len(findings.different | findings.gone)
        audit.record_in(arena, by, "repaired the log of votes", votes=n_votes, reason=reason)
    return findings


def _batches(ids: set[int]) -> Iterator[list[int]]:
    ordered = sorted(ids)
    for start in range(0, len(ordered), BATCH):
        yield ordered[start : start + BATCH]
