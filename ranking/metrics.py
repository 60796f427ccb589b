"""Metrics in the format of Prometheus, computed from the database whenever they are read.

All web processes answer alike, because no process counts anything itself.
"""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count, F, Min, Q, Sum
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from arena.calls.models import Call
from arena.models import Import, Run, Vote
from arena.models.voting import TO_ADD, TO_TAKE_OUT
from arena.validation import NANO
from ranking.health import stale_arenas


class DatabaseCollector(Collector):
    """What the database says at `now`, in six queries."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._votes()
        yield from self._calls()
        yield self._money()
        stale = stale_arenas(self._now)
        yield GaugeMetricFamily(
            "ringside_board_age_seconds",
            "Since when the leaderboards that are out of date longest have been so; 0 if none is.",
            self._age(stale[0][1] if stale else None),
        )

    def _votes(self) -> Iterator[GaugeMetricFamily]:
        votes = Vote.objects.aggregate(
            live=Count("pk", filter=Q(voided_at=None)),
            unfolded=Count("pk", filter=TO_ADD | TO_TAKE_OUT),
        )
        of_files = Vote.objects.filter(
            source__in=Import.objects.to_tally(),
            source_row__gt=F("source__tallied_row"),
        )
        yield GaugeMetricFamily("ringside_votes", "Votes that are not voided.", votes["live"])
        yield GaugeMetricFamily(
            "ringside_votes_unfolded",
            "Votes, and voided ones, that no leaderboard has taken into account yet.",
            votes["unfolded"] + of_files.count(),
        )

    def _calls(self) -> Iterator[GaugeMetricFamily]:
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
            "How long the oldest call that is due has waited; 0 if none waits.",
            self._age(oldest["due_at"]),
        )

    def _money(self) -> GaugeMetricFamily:
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
        return money

    def _age(self, moment: datetime | None) -> float:
        return max((self._now - moment).total_seconds(), 0) if moment else 0


def registry(now: datetime) -> CollectorRegistry:
    """Return a registry of these metrics alone, made for one reading."""
    metrics = CollectorRegistry()
    metrics.register(DatabaseCollector(now))
    return metrics
