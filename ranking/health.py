"""What an operator should know: silent workers, late leaderboards, times that cannot be right.

Workers and beat are seen by their sweeps: beat queues each of them every few seconds, and the
worker that runs one leaves its time in a row of the rate limits, one row per queue.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import Count, F, FloatField, Min, OuterRef, Q, QuerySet, Subquery, Sum
from django.utils import timezone
from kombu.exceptions import OperationalError
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from arena import __version__
from arena.calls.leases import LONGEST_PAUSE
from arena.calls.models import Call, EndpointPace
from arena.calls.paces import BROKEN_IN_A_ROW
from arena.calls.providers.base import EndpointStoppedError
from arena.celery import app
from arena.endpoints import all_endpoints, key_of, lease_of
from arena.models import Backup, Delivery, Hold, RateLimit, Review, Run, Vote
from arena.models.imports import REVEALED
from arena.models.votes import TO_LOG, TO_UNLOG
from arena.services.deliveries import PAUSES
from arena.validation import NANO, join_names, numbered
from ranking.models import ArenaRefresh, ExportFile, Snapshot
from ranking.models.refreshes import new_votes

RECORD_EVERY = 20.0  # seconds between two small writes, although a sweep runs every few seconds
SILENT_AFTER = timedelta(minutes=1)
STALE_AFTER = timedelta(minutes=2)
BACKUP_LATE_AFTER = timedelta(days=3)  # if backups are made at all
HOLDS_LATE_AFTER = timedelta(days=3)
PING_SECONDS = 1.0
WRITE_WITHIN = 4.0
WRITTEN = 1 << 20  # bytes
EXPORTS_NAMED = 5
SWEEP = "sweep:"
# The services of compose.yaml, by the queue that each serves.
SERVICES = {
    "fits": "worker",
    settings.LARGE_FITS: "large-worker",
    "sweeps": "sweeper",
    "exports": "export-worker",
    "calls": "judge-worker",
}
LOCAL = ("localhost", "127.0.0.1", "::1", None)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)

_recorded: dict[str, float] = {}  # by queue, the monotonic time of this process's last record


def record_sweep(queue: str) -> None:
    """Remember that a worker has just finished a sweep of `queue`."""
    if time.monotonic() - _recorded.get(queue, -RECORD_EVERY) < RECORD_EVERY:
        return
    RateLimit.objects.bulk_create(
        [RateLimit(key=f"{SWEEP}{queue}", window_started_at=timezone.now(), hits=1)],
        update_conflicts=True,
        unique_fields=["key"],
        update_fields=["window_started_at"],
    )
    _recorded[queue] = time.monotonic()


@dataclass
class Health:
    """Facts for programs, and one sentence for each problem that needs an operator."""

    version: str = __version__
    findings: list[str] = field(default_factory=list)
    seconds_since_sweep: dict[str, float | None] = field(default_factory=dict)
    stale_boards: list[dict[str, Any]] = field(default_factory=list)
    future_times: list[dict[str, Any]] = field(default_factory=list)
    seconds_since_backup: float | None = None


def check_health(now: datetime) -> Health:
    """Return the findings about this site; an unreachable database is one of them."""
    health = Health()
    try:
        _check_sweeps(health, now)
        _check_boards(health, now)
        _check_exports(health, now)
        _check_times(health, now)
        _check_backup(health, now)
        _check_holds(health, now)
        _check_reviews(health)
        _check_keys(health)
        _check_endpoints(health)
        _check_writing(health)
    except (DatabaseError, InterfaceError):
        health.findings.append("The database is not reachable. Start it again.")
    return health


def queues() -> list[str]:
    """Return the names of the queues that sweeps run on. A silent worker for another one is found
    by what is late."""
    router = app.amqp.router
    return sorted({router.route({}, name)["queue"].name for name in settings.SWEEPS})


def _check_sweeps(health: Health, now: datetime) -> None:
    rows = RateLimit.objects.filter(key__startswith=SWEEP)
    swept = dict(rows.values_list("key", "window_started_at"))
    silent = []
    for queue in queues():
        last = swept.get(f"{SWEEP}{queue}")
        health.seconds_since_sweep[queue] = round((now - last).total_seconds(), 1) if last else None
        if last is None or now - last > SILENT_AFTER:
            silent.append(queue)
    if not silent:
        return
    try:
        answering = _queues_answering()
    except OperationalError as error:
        health.findings.append(
            f"The broker is not reachable, so no sweep runs ({error})."
            " Start it again: docker compose restart redis. Nothing is lost."
        )
        return
    is_beat_silent = bool(answering) and silent == queues()
    if is_beat_silent:
        health.findings.append(
            "Beat is silent: workers answer, but no sweep reaches them."
            " Restart it: docker compose restart beat."
        )
    for queue in silent:
        if not (is_beat_silent and queue in answering):
            health.findings.append(_silent_worker(health, queue, queue in answering))


def _silent_worker(health: Health, queue: str, answers: bool) -> str:
    state = "answers, but is too busy for sweeps" if answers else "is silent"
    seconds = health.seconds_since_sweep[queue]
    last = "no sweep has run yet" if seconds is None else f"the last sweep ran {seconds:.0f} s ago"
    return f"The worker for the queue {queue} {state}: {last}. {_restart(queue)}"


def _restart(queue: str) -> str:
    """Say how to restart what serves a queue; one machine has one process for all of them."""
    if not current_app.conf.worker_enable_remote_control:
        return "Stop Ringside and start it again."
    return f"Restart it: docker compose restart {SERVICES.get(queue, queue)}."


def _queues_answering() -> set[str]:
    """Ask the workers which queues they serve; the embedded worker cannot be asked.

    Raises kombu's OperationalError if the broker is unreachable.
    """
    if not current_app.conf.worker_enable_remote_control:
        return set()
    try:
        served = current_app.control.inspect(timeout=PING_SECONDS).active_queues() or {}
    except current_app.connection_for_read().connection_errors as error:  # the driver's own
        raise OperationalError(str(error)) from error
    return {queue["name"] for of_worker in served.values() for queue in of_worker}


def _check_writing(health: Health) -> None:
    """Find a full disk, or a program that keeps SQLite's file locked: neither stops reads."""
    if connection.in_atomic_block:  # then the lock is our own, and an error would end the work
        return
    write = _write_to_file if connection.vendor == "sqlite" else _write_to_server
    try:
        write()
    except (OSError, sqlite3.Error, DatabaseError) as error:
        reason = getattr(error, "strerror", "") or " ".join(str(error).split())
        health.findings.append(
            f"Nothing can be written to the database ({reason}). Free some space on its disk, or"
            " end what locks it."
        )


def _write_to_file() -> None:
    path = Path(connection.settings_dict["NAME"])
    if path.is_file():
        with closing(sqlite3.connect(path, timeout=WRITE_WITHIN, isolation_level=None)) as beside:
            beside.execute("BEGIN IMMEDIATE")
            beside.execute("ROLLBACK")
        with TemporaryFile(dir=path.parent) as beside_it:
            beside_it.write(bytes(WRITTEN))


def _write_to_server() -> None:
    """Fill new pages, since those with free space hide a full disk."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMPORARY TABLE disk_check ON COMMIT DROP"
            " AS SELECT md5(n::text) FROM generate_series(1, %s) n",
            [WRITTEN // 64],
        )


def stale_arenas(now: datetime) -> list[tuple[str, datetime]]:
    """Return the arenas whose boards lack votes or changes, and since when, longest first."""
    of_arena = {"arena": OuterRef("arena")}
    cast = new_votes(with_log=settings.VOTE_LOG).filter(**of_arena)
    voided = Vote.objects.to_unlog() if settings.VOTE_LOG else Vote.objects.none()
    behind = ArenaRefresh.objects.behind(now).annotate(
        vote_at=Subquery(cast.order_by("pk").values("cast_at")[:1]),
        void_at=Subquery(voided.filter(**of_arena).order_by("pk").values("voided_at")[:1]),
        slug=F("arena__slug"),
        opened_at=F("arena__created_at"),
    )
    stale = [(row.slug, _stale_since(row, now)) for row in behind]
    return sorted(stale, key=lambda arena: arena[1])


def _stale_since(row: Any, now: datetime) -> datetime:
    """The earliest known cause; a mark made during a refresh counts from the end of that
    refresh."""
    marked = row.recheck_at if row.recheck_at and row.recheck_at <= now else None
    causes = [moment for moment in (row.vote_at, row.void_at, marked) if moment]
    since: datetime = min(causes, default=row.finished_at or row.opened_at)
    return since


def _check_boards(health: Health, now: datetime) -> None:
    for slug, since in stale_arenas(now):
        if now - since <= STALE_AFTER:
            continue
        seconds = round((now - since).total_seconds())
        health.stale_boards.append({"arena": slug, "seconds": seconds})
        late = numbered(seconds // 60, "minute")
        health.findings.append(
            f"The leaderboards of {slug} have been out of date for {late}."
            f" Refresh them: manage.py refresh_boards {slug}."
        )
    large = settings.LARGE_FITS
    with suppress(OperationalError):  # which the sweeps' check has found
        if health.stale_boards and (answering := _queues_answering()) and large not in answering:
            health.findings.append(
                f"No worker serves the queue {large}, where arenas of many votes wait."
                f" {_restart(large)}"
            )


def _check_exports(health: Health, now: datetime) -> None:
    waiting = ExportFile.objects.unserved(now).filter(requested_at__lt=now - STALE_AFTER)
    facts = waiting.aggregate(n=Count("pk"), since=Min("requested_at"))
    if facts["n"]:
        late = numbered((now - facts["since"]) // MINUTE, "minute")
        health.findings.append(
            f"No worker builds the exports that wait: {numbered(facts['n'], 'export')},"
            f" the oldest for {late}. {_restart('exports')}"
        )
    for file in ExportFile.objects.broken().select_related("arena").order_by("pk")[:EXPORTS_NAMED]:
        health.findings.append(
            f"The export {file.name} of {file.arena.slug} failed: {file.problem}"
            " Mend the storage of exports, or see why in the log of web and export-worker. Exports"
            f" are requested at /a/{file.arena.slug}/about/#exports."
        )


def _longest_legal() -> Iterable[tuple[str, QuerySet[Any], tuple[str, ...], timedelta]]:
    """Kinds of rows: the name, the rows, their times, and how far ahead of now these may be."""
    leases = [lease_of(endpoint) for endpoint in all_endpoints().values()]
    of_calls = max(LONGEST_PAUSE, *leases)
    calls = Call.objects.filter(state__in=Call.GOING_ON)
    yield "calls", calls, ("due_at", "enqueue_after", "lease_expires_at"), of_calls + MINUTE
    paces = EndpointPace.objects.all()
    yield "limits of endpoints", paces, ("requests_until", "tokens_until"), of_calls + MINUTE
    deliveries = Delivery.objects.filter(state__in=["waiting", "running"])
    yield "deliveries", deliveries, ("due_at", "lease_expires_at"), PAUSES[-1] + MINUTE
    refreshes = ArenaRefresh.objects.all()
    yield "leaderboard refreshes", refreshes, ("leased_until", "not_before", "recheck_at"), HOUR
    yield "snapshots", Snapshot.objects.all(), ("elo_claimed_until",), HOUR
    yield "rate limits", RateLimit.objects.all(), ("window_started_at",), MINUTE


def _check_times(health: Health, now: datetime) -> None:
    """Find times that only a wrong clock can have written, so that rows wait too long."""
    for what, rows, names, longest in _longest_legal():
        for name in names:
            is_number = isinstance(rows.model._meta.get_field(name), FloatField)
            bound = (now + longest).timestamp() if is_number else now + longest
            if n_rows := rows.filter(**{f"{name}__gt": bound}).count():
                health.future_times.append({"rows": what, "time": name, "count": n_rows})
                health.findings.append(
                    f"A clock was wrong: {n_rows} of the {what} have a time ({name}) more than"
                    f" {longest} ahead. Set the clocks right."
                )


def last_backup_at() -> datetime | None:
    """When the last good backup was made."""
    return Backup.objects.order_by("-made_at").values_list("made_at", flat=True).first()


def _check_backup(health: Health, now: datetime) -> None:
    if made_at := last_backup_at():
        health.seconds_since_backup = round((now - made_at).total_seconds(), 1)
        if now - made_at > BACKUP_LATE_AFTER:
            health.findings.append(
                f"The last backup was made {(now - made_at).days} days ago. Make one: see"
                " /operators/health/#backups."
            )


def _check_keys(health: Health) -> None:
    """Keys that operators entered cannot be read after a change of SECRET_KEY."""
    for endpoint in all_endpoints().values():
        if endpoint.encrypted_key:
            try:
                key_of(endpoint)
            except EndpointStoppedError as error:
                health.findings.append(str(error))


def _check_endpoints(health: Health) -> None:
    """Those that got no answer so often that they are left in peace between two attempts."""
    wanted = set(Call.objects.filter(state__in=Call.GOING_ON).values_list("endpoint", flat=True))
    wanted &= all_endpoints().keys()  # only a call tells that one answers again
    known = EndpointPace.objects.filter(endpoint__in=wanted, broken__gte=BROKEN_IN_A_ROW)
    for name, n_broken in known.order_by("endpoint").values_list("endpoint", "broken"):
        health.findings.append(
            f"The endpoint {name} does not answer: its last {n_broken} requests failed."
            " Test it at /operators/models/; calls go on once it answers."
        )


def _check_holds(health: Health, now: datetime) -> None:
    """Held votes count nowhere, and their raters wait for a decision."""
    late = Hold.objects.open().filter(held_at__lt=now - HOLDS_LATE_AFTER)
    facts = late.aggregate(n=Count("pk"), objections=Count("objected_at"))
    if facts["n"]:
        health.findings.append(
            f"Held votes have waited for a decision for more than {HOLDS_LATE_AFTER.days} days:"
            f" {numbered(facts['n'], 'hold')}, {numbered(facts['objections'], 'objection')}."
            " Decide at /admin/arena/hold/."
        )


def _check_reviews(health: Health) -> None:
    """Leaderboards under review name no leader until somebody has decided."""
    slugs = Review.objects.open().values_list("arena__slug", flat=True).order_by("arena__slug")
    if arenas := sorted(set(slugs)):
        health.findings.append(
            f"Votes look rigged and are under review in {join_names(arenas)}."
            " Decide at /admin/arena/review/."
        )


class DatabaseCollector(Collector):
    """The metrics in the database at `now`, in a few queries."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def collect(self) -> Iterator[GaugeMetricFamily]:
        waiting = TO_LOG & REVEALED | TO_UNLOG
        if not settings.VOTE_LOG:
            waiting = Q(pk__in=new_votes(with_log=False))
        votes = Vote.objects.aggregate(
            live=Count("pk", filter=Q(voided_at=None)), waiting=Count("pk", filter=waiting)
        )
        yield GaugeMetricFamily("ringside_votes", "Votes that are not voided.", votes["live"])
        yield GaugeMetricFamily(
            "ringside_votes_unfolded",
            "Cast and voided votes that no leaderboard includes yet.",
            votes["waiting"],
        )
        calls = GaugeMetricFamily(
            "ringside_calls", "Calls to models.", labels=["endpoint", "state"]
        )
        counts = Call.objects.values_list("endpoint", "state").annotate(n=Count("pk"))
        for endpoint, state, n_calls in counts.order_by("endpoint", "state"):
            calls.add_metric([endpoint, state], n_calls)
        yield calls
        oldest = Call.objects.claimable(self._now).aggregate(due_at=Min("due_at"))
        yield GaugeMetricFamily(
            "ringside_queue_age_seconds",
            "How long the oldest call that is due has waited; 0 if none is waiting.",
            self._age(oldest["due_at"]),
        )
        money = GaugeMetricFamily(
            "ringside_money_dollars",
            "What runs have spent, what is reserved for requests under way, and the most that"
            " interrupted requests may have cost.",
            labels=["kind"],
        )
        sums = Run.objects.aggregate(
            spent=Sum("settled"), reserved=Sum("reserved"), uncertain=Sum("uncertain")
        )
        for kind, nano in sums.items():
            money.add_metric([kind], (nano or 0) / NANO)
        yield money
        yield from self._exports()
        stale = stale_arenas(self._now)
        yield GaugeMetricFamily(
            "ringside_board_age_seconds",
            "How long the most outdated leaderboards have been out of date; 0 if none are.",
            self._age(stale[0][1] if stale else None),
        )
        yield GaugeMetricFamily(
            "ringside_holds",
            "Raters and networks whose votes are on hold until somebody decides.",
            Hold.objects.open().count(),
        )
        yield GaugeMetricFamily(
            "ringside_reviews",
            "Groups of raters that look rigged, on whom nobody has decided.",
            Review.objects.open().count(),
        )
        if made_at := last_backup_at():
            yield GaugeMetricFamily(
                "ringside_backup_age_seconds",
                "How long ago the last good backup was made; absent if there is none.",
                self._age(made_at),
            )

    def _exports(self) -> Iterator[GaugeMetricFamily]:
        exports = GaugeMetricFamily(
            "ringside_exports", "Exports that are not ready, or failed.", labels=["state"]
        )
        kinds = {
            "in progress": ExportFile.objects.in_progress(),
            "failed": ExportFile.objects.broken(),
        }
        for state, files in kinds.items():
            exports.add_metric([state], files.count())
        yield exports
        oldest = ExportFile.objects.unserved(self._now).aggregate(at=Min("requested_at"))
        yield GaugeMetricFamily(
            "ringside_export_age_seconds",
            "How long the oldest export has waited for a worker; 0 if a worker is at it.",
            self._age(oldest["at"]),
        )

    def _age(self, moment: datetime | None) -> float:
        return max((self._now - moment).total_seconds(), 0) if moment else 0


def registry(now: datetime) -> CollectorRegistry:
    """Return a registry with only these metrics, for a single scrape."""
    metrics = CollectorRegistry()
    metrics.register(DatabaseCollector(now))
    return metrics
