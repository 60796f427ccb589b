"""The worker of exports is killed while it builds a file, which another one then builds whole."""

import signal

import pytest
from django.core.files.storage import FileSystemStorage
from django.utils import timezone

from arena.models import Arena
from arena.services.imports import import_files
from ranking.exports import export_kinds
from ranking.models import Audience, ExportFile
from ranking.services import exports
from tests.ops.running import eventually
from tests.stress.installation import Installation

pytestmark = [pytest.mark.slow, pytest.mark.services]
VOTES = 15_000
AGAIN = exports.LEASE.total_seconds() + 60.0


def test_a_file_whose_worker_was_killed_is_built_whole(installation: Installation) -> None:
    path = installation.home / "votes.csv"
    path.write_text("left,right,winner\n" + "A,B,left\n" * VOTES)
    import_files(slug="support", paths=[path], now=timezone.now())
    arena = Arena.objects.get()
    file = exports.request(arena=arena, name="battles.csv", audience=Audience.PUBLIC)
    row = ExportFile.objects.filter(pk=file.pk)
    installation.beat()
    first = installation.worker(queues="exports")
    eventually(lambda: row.filter(state="building", rows_done__gt=0).exists())
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert row.filter(state="building", rows_done__lt=VOTES).exists(), "it was ready before"
    installation.worker(queues="exports")
    eventually(lambda: row.filter(state="ready").exists(), patience=AGAIN)
    file.refresh_from_db()
    folder = FileSystemStorage(installation.home / "exports")
    with folder.open(file.stored_as) as opened:
        written = opened.read()
    kind = export_kinds()[file.name]
    whole = b"".join(kind.write(arena, exports.reader_of(file.audience, arena), lambda _: None))
    assert (written, file.rows_done, file.size) == (whole, VOTES, len(whole))
    assert folder.listdir("")[1] == [file.stored_as]
