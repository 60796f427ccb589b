"""Exports as files: requested by readers, built once by a worker, deleted once outdated.

A file belongs to a state of its arena: the newest vote, and the epochs of `ArenaRefresh`, which
publishing and every other change advance. What a reader may not see depends on a part of that
state, `hiding`. It is read before a file is built, again when it is ready, and whenever it is
served: so no file outlives a change that hides something, even if nobody was there to delete it.
"""

import errno
import hashlib
import logging
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

from django.core.files import File
from django.core.files.storage import Storage, storages
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import Count, F, Max, Q
from django.utils import timezone

from arena.actors import ANONYMOUS, CLI, Actor, TeamPermission
from arena.errors import BusyError
from arena.models import ApiToken, Arena, Run
from arena.permissions import is_blind
from arena.services.exports import ExportError
from ranking.exports import ExportKind, export_kinds
from ranking.models import ArenaRefresh, Audience, ExportFile
from ranking.models.exports import OF_SERVER
from ranking.services import leases

logger = logging.getLogger(__name__)

SMALL = 5_000  # rows that are read while the client waits
LEASE = timedelta(minutes=1)  # after which a killed worker's file is built again
RENEW_EVERY = 15.0  # seconds
SAVE_EVERY = 1.0
MOST_ATTEMPTS = 3  # whoever is killed so often is killed by the file
TURN = 5.0  # seconds that a client waits for another one's small file
KEPT_OUTDATED = timedelta(hours=1)  # for whoever was told its address
KEPT_FAILED = timedelta(days=1)
MOST_READY = 2  # of the same export: the newest, and the one that somebody may be downloading
PIECE = 1 << 20
NO_SPACE = f"{OF_SERVER} has no space left for the file. Request it again later."
NO_REASON = f"{OF_SERVER} could not build the file, and has logged why. Request it again."
NOT_STORED = f"{OF_SERVER} could not store the file"
GIVEN_UP = f"{OF_SERVER} ended {MOST_ATTEMPTS} times while it built the file. Request it again."
State = ExportFile.State


class ExportLostError(Exception):
    """The file is being built by another worker, or nobody may read it any more."""


def storage() -> Storage:
    return storages["exports"]


def hiding_of(arena_id: int) -> str:
    """What decides, in an arena now, what readers may not see. Raises Arena.DoesNotExist."""
    arena = Arena.objects.revealed().get(pk=arena_id)
    epochs = ArenaRefresh.objects.filter(arena=arena).values_list("export_epoch", flat=True)
    if not epochs:  # nothing would say that a file is outdated
        leases.open_arena(arena_id=arena_id)
    prompts = arena.prompts.revealed().aggregate(
        all=Count("pk"), archived=Count("retired_at"), last=Max("retired_at")
    )
    hidden_by = [
        *(epochs.get(), prompts["all"], prompts["archived"]),
        *(prompts["last"] and prompts["last"].timestamp(), arena.held_out),
        *(arena.has_open_answers, Run.objects.hiding_names().filter(arena=arena).count()),
    ]
    return ":".join(map(str, hidden_by))


def version_of(arena: Arena, kind: ExportKind, hiding: str) -> str:
    """The state of an arena on which a file depends."""
    published = ArenaRefresh.objects.get(arena=arena).page_epoch
    newest = arena.votes.aggregate(newest=Max("pk"))["newest"]
    # What changes without a sign, such as a comment on an old vote, is at most an hour old.
    hour = timezone.now().strftime("%Y-%m-%dT%H")
    return f"{hiding}/{published}/{newest}/{kind.state(arena)}/{hour}"


def audience_of(actor: Actor, arena: Arena) -> Audience:
    """Whose files `actor` reads. Names that an order hides from it are in none of the team's."""
    if not actor.may(TeamPermission.READ, arena.team_id) or is_blind(actor, arena):
        return Audience.PUBLIC
    return Audience.OPERATORS if actor.is_operator else Audience.TEAM


def audiences_below(audience: Audience) -> list[Audience]:
    """The audiences whose files a reader of this one may read, too."""
    return list(Audience)[: list(Audience).index(audience) + 1]


def reader_of(audience: str, arena: Arena) -> Actor:
    """The least privileged reader of an audience: of the team, a token that can only read."""
    if audience == Audience.TEAM:
        return Actor(token=ApiToken(team=arena.team))  # which can read
    return CLI if audience == Audience.OPERATORS else ANONYMOUS


def may_have(actor: Actor, arena: Arena, name: str) -> bool:
    """Whether `actor`, who may see the arena, may have an export; names are hidden otherwise."""
    kind = export_kinds().get(name)
    return not kind or kind.permission is None or actor.may(kind.permission, arena.team_id)


def files_for(actor: Actor, arena: Arena) -> Any:
    """The files that `actor`, who may see the arena, may read, and those that are not ready."""
    audiences = audiences_below(audience_of(actor, arena))
    names = [name for name in export_kinds() if may_have(actor, arena, name)]
    rows = ExportFile.objects.filter(arena=arena, audience__in=audiences, name__in=names)
    return rows.filter(~Q(state=State.READY) | Q(hiding=hiding_of(arena.pk)))


def find(*, actor: Actor, arena: Arena, key: uuid.UUID) -> ExportFile | None:
    """A file that `actor`, who may see the arena, may read, or that will be there."""
    file = ExportFile.objects.filter(arena=arena, key=key).first()
    if file is None or file.audience not in audiences_below(audience_of(actor, arena)):
        return None
    if file.name not in export_kinds() or not may_have(actor, arena, file.name):
        return None
    # Whoever waits asks often, so only whoever gets something pays for this.
    is_hidden = file.is_ready and file.hiding != hiding_of(arena.pk)
    return None if is_hidden else file


def request(*, arena: Arena, name: str, audience: Audience) -> ExportFile:
    """Return the export of the arena as it is now, which is begun if there is none.

    A small one is built at once, and is ready unless it fails. A larger one is a worker's. One
    that is being built is returned, although it may lack the newest votes: else nobody would ever
    get a file of a busy arena. One that has failed is begun again.
    """
    kind, deadline = export_kinds()[name], time.monotonic() + TURN
    while True:
        file = _find_or_begin(arena, name, audience)
        if file is None:  # it was finished meanwhile
            if time.monotonic() > deadline:
                raise BusyError("This file is requested too often. Try again in a few seconds.")
            continue
        if file.is_ready or count_rows(arena, kind, SMALL + 1) > SMALL:
            return file
        build(pk=file.pk)
        found = ExportFile.objects.filter(pk=file.pk).first()
        if found is not None and not found.is_in_progress:
            return found
        if time.monotonic() > deadline:
            return found or file
        time.sleep(0.05)


def _find_or_begin(arena: Arena, name: str, audience: Audience) -> ExportFile | None:
    """The file of the arena as it is now, or the one that is in progress."""
    hiding = hiding_of(arena.pk)
    version = version_of(arena, export_kinds()[name], hiding)
    key = {"arena": arena, "name": name, "audience": audience}
    of_export = ExportFile.objects.filter(**key)
    ready = of_export.ready().filter(version=version).first()
    if ready is not None:
        # Something was hidden, or shown, while it waited; the database may also be a backup's.
        if ready.hiding == hiding and storage().exists(ready.stored_as):
            return ready
        ready.delete()
    if (going_on := of_export.in_progress().first()) is not None:
        return going_on
    of_export.filter(state=State.FAILED).delete()
    with suppress(IntegrityError), transaction.atomic():
        now = timezone.now()
        return ExportFile.objects.create(**key, version=version, requested_at=now)
    return of_export.in_progress().first()


def count_rows(arena: Arena, kind: ExportKind, most: int) -> int:
    """How many rows a file is made of; those above `most` are not counted."""
    return sum(rows[:most].count() for rows in kind.reads(arena))


def build(*, pk: int) -> bool:
    """Build a file that waits; return whether it was still there to be built.

    Whoever is killed leaves a lease that expires, and no file that anybody is given.
    """
    token, now = uuid.uuid4(), timezone.now()
    claimed = ExportFile.objects.filter(pk=pk, state=State.WAITING).update(
        state=State.BUILDING,
        token=token,
        leased_until=now + LEASE,
        attempts=F("attempts") + 1,
        rows_done=0,
        stored_as=f"{token.hex}.export",
    )
    if not claimed:
        return False
    file = ExportFile.objects.get(pk=pk)
    progress = BuildProgress(file)
    try:
        with progress.renewing_lease():
            _write(file, progress)
    except (ExportLostError, Arena.DoesNotExist):
        _discard(file)
    except Exception as error:
        _discard(file)
        if not isinstance(error, ExportError):
            logger.exception("The export %s could not be built", file)
        progress.save(state=State.FAILED, token=None, leased_until=None, problem=_reason(error))
    return True


class BuildProgress:
    """Tells how many rows are written, and keeps the lease, also where no row comes for long."""

    def __init__(self, file: ExportFile) -> None:
        self.mine = ExportFile.objects.filter(pk=file.pk, token=file.token)
        self.rows, self.next_save = 0, time.monotonic() + SAVE_EVERY

    def __call__(self, rows: int) -> None:
        """Note so many more rows. Raises ExportLostError."""
        self.rows += rows
        if time.monotonic() > self.next_save:
            if not self.save(rows_done=self.rows):
                raise ExportLostError
            self.next_save = time.monotonic() + SAVE_EVERY

    @contextmanager
    def renewing_lease(self) -> Iterator[None]:
        """Renew the lease from a thread of its own, which ends with the process."""
        ended = Event()
        thread = Thread(target=self._renew_lease, args=[ended], daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _renew_lease(self, ended: Event) -> None:
        while not ended.wait(RENEW_EVERY):
            try:
                self.save(leased_until=timezone.now() + LEASE)
            except DatabaseError as error:
                logger.warning("The lease of an export could not be renewed: %s", error)
            finally:
                connection.close()

    def save(self, **fields: Any) -> bool:
        """Save fields if the file is still this worker's."""
        return bool(self.mine.update(**fields))


def _write(file: ExportFile, progress: BuildProgress) -> None:
    kind, hiding = export_kinds()[file.name], hiding_of(file.arena_id)
    # Afterwards: what an older row of it shows may be hidden by now.
    arena = Arena.objects.select_related("team").get(pk=file.arena_id)
    total = kind.passes and kind.passes * count_rows(arena, kind, 1 << 31)
    progress.save(hiding=hiding, rows_total=total)
    digest, size = hashlib.sha256(), 0
    with tempfile.TemporaryFile() as draft:
        for piece in kind.write(arena, reader_of(file.audience, arena), progress):
            digest.update(piece)
            size += draft.write(piece)
        draft.seek(0)
        stored_as = storage().save(file.stored_as, File(draft))
    if hiding_of(arena.pk) != hiding:
        progress.save(state=State.WAITING, token=None, leased_until=None, attempts=0)
        raise ExportLostError
    is_mine = progress.save(
        state=State.READY,
        token=None,
        leased_until=None,
        rows_done=progress.rows,
        stored_as=stored_as,
        size=size,
        digest=digest.hexdigest(),
        built_at=timezone.now(),
    )
    if not is_mine:
        raise ExportLostError
    of_export = ExportFile.objects.ready().filter(
        arena=arena, name=file.name, audience=file.audience
    )
    delete(of_export.order_by("-built_at", "-pk")[MOST_READY:])


def _discard(file: ExportFile) -> None:
    try:
        storage().delete(file.stored_as)
    except Exception as error:  # storages of other hosts raise their own; a sweep deletes it
        logger.warning("The draft of the export %s could not be deleted: %s", file, error)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NO_SPACE
    if isinstance(error, OSError) and error.strerror:
        return f"{NOT_STORED} ({error.strerror}). Request it again later."
    return str(error) if isinstance(error, ExportError) else NO_REASON


def build_waiting() -> None:
    """Build all that waits, one after the other, in the order of requests."""
    while (pk := _next_waiting()) is not None:
        build(pk=pk)


def _next_waiting() -> int | None:
    waiting = ExportFile.objects.filter(state=State.WAITING).order_by("requested_at", "pk")
    return waiting.values_list("pk", flat=True).first()


def has_waiting(now: datetime) -> bool:
    """Whether there is something to build, with what killed workers have left."""
    left, free = ExportFile.objects.abandoned(now), {"token": None, "leased_until": None}
    hopeless = left.filter(attempts__gte=MOST_ATTEMPTS)
    hopeless.update(state=State.FAILED, problem=GIVEN_UP, **free)
    left.update(state=State.WAITING, **free)
    return _next_waiting() is not None


def advance(*, arena_id: int) -> None:
    """End all files of an arena, within the transaction that may hide something in it."""
    ArenaRefresh.objects.filter(arena=arena_id).update(export_epoch=F("export_epoch") + 1)
    transaction.on_commit(partial(delete_hidden, arena_id=arena_id), robust=True)


def delete_hidden(*, arena_id: int) -> None:
    """Delete the arena's files that may show what is hidden now."""
    ready = ExportFile.objects.ready().filter(arena=arena_id)
    if ready.exists():
        delete(ready.exclude(hiding=hiding_of(arena_id)))


def delete(files: Iterable[ExportFile]) -> None:
    """Delete rows, and with each of them its file (`signals.py`)."""
    for file in files:
        file.delete()


def delete_old(now: datetime) -> None:
    """Delete what is outdated or hidden, what has failed, and files that no row knows."""
    ready = ExportFile.objects.ready()
    for arena_id in ready.order_by().values_list("arena", flat=True).distinct():
        with suppress(Arena.DoesNotExist):
            delete_hidden(arena_id=arena_id)
    old = ready.filter(built_at__lt=now - KEPT_OUTDATED, name__in=list(export_kinds()))
    for file in old.select_related("arena"):
        with suppress(Arena.DoesNotExist):
            hiding = hiding_of(file.arena_id)
            if file.version != version_of(file.arena, export_kinds()[file.name], hiding):
                file.delete()
    ExportFile.objects.filter(state=State.FAILED, requested_at__lt=now - KEPT_FAILED).delete()
    with suppress(FileNotFoundError):  # nothing has been stored yet
        _delete_unknown(now)


def _delete_unknown(now: datetime) -> None:
    _, stored = storage().listdir("")
    known = set(ExportFile.objects.exclude(stored_as="").values_list("stored_as", flat=True))
    for name in stored:
        is_ours = Path(name).suffix == ".export"
        if is_ours and name not in known:
            with suppress(FileNotFoundError):
                if storage().get_modified_time(name) < now - KEPT_OUTDATED:
                    storage().delete(name)
