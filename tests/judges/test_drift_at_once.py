"""Beats and commands at the same moment: one check, one set, one epoch."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from judges.models import DriftCheck, Epoch, LabelSet
from judges.services.drift import run_drift_checks, start_drift_checks
from judges.services.label_files import read_labels
from judges.services.labels import add_labels
from tests.judges.fake_server import FakeServer, prefers
from tests.judges.helpers import epoch_of, pair_row, store_labels, work_off, write_labels

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services]
NOW = timezone.now()
TOMORROW = NOW + timedelta(days=1)


@pytest.fixture(autouse=True)
def only_where_threads_meet() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time.")


def at_once(work: Callable[[], Any], threads: int = 4) -> list[Any]:
    """Let threads do the same at the same moment, each with its own connection."""
    together = threading.Barrier(threads)

    def one() -> Any:
        together.wait()
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(threads) as pool:
        return [future.result() for future in [pool.submit(one) for _ in range(threads)]]


def test_beats_that_meet_make_one_check_and_one_epoch(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = prefers("GOOD")
    labels_in = store_labels(tmp_path, [pair_row(i) for i in range(40)])
    start_drift_checks(epoch=epoch_of(), labels_in=labels_in, cap=0, now=NOW)
    work_off(DriftCheck.objects.get().run)
    at_once(lambda: run_drift_checks(now=NOW))
    at_once(lambda: run_drift_checks(now=TOMORROW))
    assert list(DriftCheck.objects.order_by("pk").values_list("why", flat=True)) == [
        "baseline",
        "daily",
    ]
    local.otherwise = prefers(", in my view")
    work_off(DriftCheck.objects.get(why="daily").run)
    at_once(lambda: run_drift_checks(now=TOMORROW))
    assert Epoch.objects.count() == 2
    assert DriftCheck.objects.filter(epoch__number=2).count() == 1


def test_a_file_that_is_read_twice_at_once_is_stored_once(tmp_path: Path) -> None:
    file = read_labels(write_labels(tmp_path, [pair_row(i) for i in range(50)]))
    sets = at_once(lambda: add_labels(file=file, name="labels").pk)
    assert len(set(sets)) == 1
    assert LabelSet.objects.get().items.count() == 50
