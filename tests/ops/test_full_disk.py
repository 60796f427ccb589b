"""Uploads and exports on a full disk say so, and leave no half file. Backups: test_backups.py."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from arena.models import Arena
from tests.arena.rest import token_of
from tests.arena.teams import signed_in
from tests.factories import make_arena, make_team

pytestmark = [pytest.mark.slow, pytest.mark.any_database, pytest.mark.django_db]
IS_ROOT = sys.platform == "linux" and os.geteuid() == 0
MEGABYTE = 1 << 20


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One of a megabyte, for temporary files."""
    if not IS_ROOT:
        pytest.skip("only root mounts a small disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("this machine lets nobody mount a disk")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


@pytest.fixture
def arena() -> Arena:
    return make_arena(1, 2, team=make_team())


@pytest.fixture
def owner(arena: Arena) -> Client:
    assert arena.team
    client = signed_in(arena.team.memberships.get().user)
    client.raise_request_exception = False
    return client


def test_an_upload_that_does_not_fit_is_refused(disk: Path, arena: Arena, owner: Client) -> None:
    rows = b"prompt\n" + b"Why?\n" * MEGABYTE
    file = SimpleUploadedFile("prompts.csv", rows)
    page = owner.post(reverse("import_file", args=[arena.slug]), {"file": file, "do": "preview"})
    assert page.status_code == 503
    assert "The disk of this site is full" in page.text
    content = {"file_name": "prompts.csv", "content": rows.decode()}
    answer = token_of(arena.team).post(f"arenas/{arena.slug}/imports/", content)
    assert answer.status_code == 503
    assert "The disk of this site is full" in answer.json()["detail"]
    assert not [*disk.iterdir()]


@pytest.mark.parametrize(
    "reason",
    [
        "database or disk is full",
        'could not extend file "base/5/16397": No space left on device\nHINT:  Check free space.',
    ],
)
def test_a_database_without_room_is_no_busy_one(
    reason: str, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise OperationalError(reason)

    monkeypatch.setattr("arena.services.teams.create_team", refuse)
    page = owner.post(reverse("new_team"), {"name": "Mine"})
    assert page.status_code == 503
    assert "The disk of this site is full" in page.text
