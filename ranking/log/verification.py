"""The log of an arena's votes, compared with the votes, and repaired."""

import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from django.db import transaction
from django.utils import timezone

from arena.actors import Actor
from arena.models import Arena, Vote
from arena.outcomes import OUTCOMES
from arena.services import audit
from ranking.log import chain
from ranking.log.chain import VOTE_COLUMNS, Columns, Ints
from ranking.log.links import (
    BATCH,
    READ,
    Kind,
    append,
    logged_votes,
    microseconds,
    open_log,
    read_links,
    removal_columns,
    rows_of,
    signer,
    vote_columns,
)
from ranking.models import LogLink, Snapshot, VoteLog
from ranking.services.leases import renew

REPAIR_REASONS = ("backup restored", "new key", "mistake corrected", "other")


@dataclass
class LogFaults:
    """What is wrong with a log and the votes it covers.

    `different`: ids of counted votes that the log lacks, or has with other content. `gone`: ids
    of votes that count as the log says, but not as the database does.
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
    faults = LogFaults(
        chain.check_links(arena_id, links, signer().public, published),
        n_links=len(links),
        head=links[-1].head() if links else None,
    )
    if log is None:
        return faults
    check = _Check(log, token, faults)
    check.read_changes()
    check.check_counted()
    check.check_removed()
    check.find_added()
    return faults


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

    def __init__(self, log: VoteLog, token: uuid.UUID, faults: LogFaults) -> None:
        self.log = log
        self.token = token
        self.faults = faults
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
            except chain.RowBytesError:
                columns = {}
            content = chain.to_bytes(columns, list(columns))
            if chain.digest_of(content) != row.digest_of_rows:
                self.faults.links.append(f"The rows of link {last} of the log were changed.")
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
            self._compare_votes({name: column[chosen] for name, column in columns.items()})

    def _compare_votes(self, logged: Columns) -> None:
        """Compare counted votes with their rows in the log."""
        votes = (
            logged_votes(self.log.arena_id).filter(pk__in=(logged["id"].tolist())).order_by("pk")
        )
        stored = vote_columns(self.log, list(votes.values_list(*READ)))
        is_present = np.isin(logged["id"], stored["id"])
        for pk in logged["id"][~is_present].tolist():
            self._note_lost_vote(pk)
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
        self.faults.n_votes += len(stored["id"])

    def _note_lost_vote(self, pk: int) -> None:
        is_there = Vote.objects.filter(pk=pk, arena=self.log.arena_id).exists()
        words = "is no longer counted, and the log does not say why" if is_there else "is missing"
        self.faults.gone.add(pk)
        self.faults.votes.append(f"Vote {pk} {words}.")

    def _fault(self, pk: int, words: str) -> None:
        self.faults.different.add(pk)
        self.faults.votes.append(f"Vote {pk} {words}.")

    def check_removed(self) -> None:
        """Check that no removed vote is counted, and that the voided ones still are voided."""
        removed = sorted(self.removed)
        for start in range(0, len(removed), BATCH):
            renew(self.token, BATCH)
            ids = removed[start : start + BATCH]
            votes = Vote.objects.filter(pk__in=ids, arena=self.log.arena_id)
            stored = {pk: (at, logged) for pk, at, logged in votes.values_list(*STATE)}
            for pk in ids:
                self._check_removed(pk, *stored.get(pk, (None, None)))

    def _check_removed(self, pk: int, voided_at: datetime | None, logged: bool | None) -> None:
        removal = self.removed[pk]
        if logged:
            self._fault(pk, f"is counted, although the log says that it was {removal.kind}")
        elif logged is None and removal.kind != Kind.GONE:
            self.faults.gone.add(pk)
            self.faults.votes.append(f"Vote {pk}, which was {removal.kind}, is missing.")
        elif removal.kind == Kind.VOIDED and (
            voided_at is None or int(microseconds([voided_at])[0]) != removal.at
        ):
            self.faults.gone.add(pk)
            self.faults.votes.append(f"Vote {pk} was voided, but its row says otherwise.")

    def find_added(self) -> None:
        """Find counted votes that are missing from the log, or in it more than once."""
        every = np.concatenate([np.zeros(0, np.int64), *self.known])
        values, times = np.unique(every, return_counts=True)
        for pk in values[times > 1].tolist():  # for example after its mark was reset
            self._fault(pk, "was counted more than once")
        votes = logged_votes(self.log.arena_id).order_by("pk")
        renew(self.token, len(values))
        if votes.count() == len(values):
            return
        ids = votes.values_list("pk", flat=True)
        last = 0
        while batch := list(ids.filter(pk__gt=last)[:BATCH]):
            renew(self.token, BATCH)
            last = batch[-1]
            for pk in sorted(set(batch) - set(values[np.isin(values, batch)].tolist())):
                if pk not in self.removed:
                    self._fault(pk, "is counted, but is not in the log")


STATE = ("pk", "voided_at", "logged")
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


def repair(*, arena: Arena, reason: str, by: Actor, token: uuid.UUID) -> LogFaults:
    """Accept what `verify` finds, in signed entries; return what it found.

    The votes count as they are now. Raises RefreshLeaseLostError.
    """
    faults = verify(arena_id=arena.pk, token=token)
    if not faults.sentences:
        return faults
    log = open_log(arena_id=arena.pk, token=token)
    now = timezone.now()
    with transaction.atomic():
        renew(token, faults.n_votes)
        counted = logged_votes(arena.pk)
        present = set[int]()
        for ids in _batches(faults.different):
            votes = counted.filter(pk__in=ids).order_by("pk")
            columns = vote_columns(log, list(votes.values_list(*READ)))
            present |= set(columns["id"].tolist())
            append(log=log, kind=Kind.REPAIR, columns=columns, details={"reason": reason})
        for ids in _batches(faults.gone | faults.different - present):
            columns = removal_columns(ids, [now] * len(ids), [""] * len(ids))
            append(log=log, kind=Kind.GONE, columns=columns, details={"reason": reason})
        details = {"reason": reason, "accepted": faults.links}
        append(log=log, kind=Kind.REPAIR, details=details)
        n_votes = len(faults.different | faults.gone)
        audit.record_in(arena, by, "repaired the log of votes", votes=n_votes, reason=reason)
    return faults


def _batches(ids: set[int]) -> Iterator[list[int]]:
    ordered = sorted(ids)
    for start in range(0, len(ordered), BATCH):
        yield ordered[start : start + BATCH]
