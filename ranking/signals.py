"""Signal receivers: they schedule refreshes after changes in an arena, drop stored pages, and
record sweeps.

Scheduling a refresh only adds to a set, so it does not slow requests down. A daemon thread queues
one message per arena a second later, however many votes there are. A lost message does no harm: a
sweep every few seconds finds each arena whose newest votes are on no board. Commands end soon after
they schedule, so a process queues what is still waiting when it exits.
"""

import atexit
import logging
import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from celery import current_app
from celery.signals import task_success
from django.apps import AppConfig
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection, transaction
from django.db.models.signals import post_delete, post_migrate, post_save
from django.dispatch import receiver
from kombu.exceptions import OperationalError

from arena.models import Arena, Candidate, SiteSettings, Team
from arena.signals import (
    answers_changed,
    arena_created,
    forgetting,
    trust_changed,
    votes_changed,
)
from ranking import health
from ranking.models import ArenaRefresh, Board, ExportFile, HomePage
from ranking.services import exports, leases

logger = logging.getLogger(__name__)

DEBOUNCE_SECONDS = 1.0
FLUSH_SECONDS = 5.0  # a broker that is away must not keep a command from ending


class DebouncedTask:
    """Collects arena ids and publishes each one once, `wait` seconds after it was scheduled."""

    def __init__(self, publish: Callable[[int], None], wait: float = DEBOUNCE_SECONDS) -> None:
        self._publish = publish
        self._wait = wait
        self._lock = threading.Lock()
        self._scheduled: set[int] = set()
        self._thread: threading.Thread | None = None
        self._flushing = threading.Event()
        atexit.register(self.flush)

    def schedule(self, arena_id: int) -> None:
        """Request one refresh of the arena soon; never blocks on the broker."""
        with self._lock:
            self._scheduled.add(arena_id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="debounce", daemon=True)
                self._thread.start()

    def flush(self, timeout: float = FLUSH_SECONDS) -> None:
        """Publish what is scheduled now, and wait at most `timeout` seconds for that."""
        thread = self._thread
        if thread is None:
            return
        self._flushing.set()
        thread.join(timeout)

    def _run(self) -> None:
        """Publish until nothing was scheduled during one wait; `schedule` starts a new thread."""
        while True:
            self._flushing.wait(self._wait)
            with self._lock:
                arena_ids, self._scheduled = self._scheduled, set()
                if not arena_ids:
                    self._thread = None
                    self._flushing.clear()
                    return
            for arena_id in sorted(arena_ids):
                try:
                    self._publish(arena_id)
                except OperationalError as error:
                    logger.warning(
                        "The refresh of arena %s could not be queued: the broker is not reachable"
                        " (%s)",
                        arena_id,
                        error,
                    )
                except Exception:
                    logger.exception("The refresh of arena %s could not be queued", arena_id)


def _send(arena_id: int) -> None:
    """Queue the refresh by the task's name, because tasks import this module's callers."""
    current_app.send_task("ranking.tasks.refresh_arena", args=[arena_id])


schedule_refresh = DebouncedTask(_send).schedule


@receiver(votes_changed)
def refresh_after_votes(arena_id: int, reason: str = "vote", **_: Any) -> None:
    """Schedule a refresh; reveals and voids change older votes, so they mark it stale, and end
    exports.

    A new vote needs no mark, because the sweep finds its id: voting writes nothing here.
    """
    if reason != "vote":
        leases.mark_stale(arena_id=arena_id)
        exports.advance(arena_id=arena_id)
    if reason == "rules":  # votes may count now that were passed over
        ArenaRefresh.objects.filter(arena=arena_id).update(examined_vote_id=0)
    schedule_refresh(arena_id)


@receiver(forgetting)
def end_exports(arena_id: int, **_: Any) -> None:
    """End exports in the transaction that forgets: not even a kill may leave one behind."""
    exports.advance(arena_id=arena_id)


@receiver(post_delete, sender=ExportFile)
def delete_stored_file(instance: ExportFile, **_: Any) -> None:
    if instance.stored_as:
        transaction.on_commit(partial(exports.storage().delete, instance.stored_as), robust=True)


@receiver(trust_changed)
def refresh_after_trust(arena_id: int, **_: Any) -> None:
    """Mark the arena stale in the transaction that changes the trust, and schedule a refresh."""
    leases.mark_stale(arena_id=arena_id)
    transaction.on_commit(lambda: schedule_refresh(arena_id))


@receiver(arena_created)
def open_first_board(arena_id: int, **_: Any) -> None:
    leases.open_arena(arena_id=arena_id)
    schedule_refresh(arena_id)


@receiver(answers_changed)
def drop_pages_of_answers(arena_id: int, **_: Any) -> None:
    """Drop pages that show the answers' cost and time; no score depends on these."""
    leases.drop_pages(arena_id=arena_id)


@receiver(post_save, sender=Arena)
def drop_pages_of_arena(instance: Arena, created: bool, **_: Any) -> None:
    """Drop pages that show the arena's settings; scores depend on some of them."""
    if not created:
        leases.drop_pages(arena_id=instance.pk, is_stale=True)
        exports.advance(arena_id=instance.pk)


@receiver(post_save, sender=Team)
def drop_pages_of_team(
    instance: Team, created: bool, update_fields: Collection[str] | None = None, **_: Any
) -> None:
    """Drop pages that show the team's name, in every arena that it has entered."""
    if created or (update_fields is not None and "name" not in update_fields):
        return
    entered = Arena.objects.filter(candidates__team=instance).distinct()
    for arena_id in entered.values_list("pk", flat=True):
        leases.drop_pages(arena_id=arena_id)


@receiver([post_save, post_delete], sender=Candidate)
def drop_pages_of_candidate(instance: Candidate, **_: Any) -> None:
    leases.drop_pages(arena_id=instance.arena_id, is_stale=True)
    exports.advance(arena_id=instance.arena_id)


@receiver([post_save, post_delete], sender=Board)
def drop_pages_of_board(instance: Board, **_: Any) -> None:
    """Drop pages with numbers computed with the board's old settings, and refresh."""
    leases.drop_pages(arena_id=instance.arena_id, is_stale=True)


@task_success.connect
def record_sweep(sender: Any, **_: Any) -> None:
    """Remember when a queue's last sweep ended, for `/healthz?full`."""
    if sender.name not in settings.SWEEPS:
        return
    try:
        health.record_sweep(sender.request.delivery_info["routing_key"])
    except (DatabaseError, InterfaceError) as error:
        logger.warning("A sweep could not be recorded: %s", error)


@receiver(post_save, sender=SiteSettings)
def drop_pages_of_the_site(**_: Any) -> None:
    """They hold the site's address, and whether accounts can be created."""
    leases.drop_all_pages()


@receiver(post_migrate)
def drop_pages_of_an_older_release(sender: AppConfig, **_: Any) -> None:
    """Drop pages rendered by old templates; a new release migrates when it starts."""
    if (
        sender.name == "ranking"
        and HomePage._meta.db_table in connection.introspection.table_names()
    ):
        leases.drop_all_pages()
