"""Backups contain everything, are checked before they are trusted, and replace nothing."""

import json
import os
import tarfile
from collections.abc import Callable
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from arena import __version__
from arena.management.commands import restore
from arena.management.commands.backup import VARIABLE
from arena.models import Arena, Backup, Vote
from arena.services import backups
from arena.services.backups import BackupError
from tests.ranking.helpers import make_voted_arena, publish

pytestmark = pytest.mark.django_db
committed = pytest.mark.django_db(transaction=True)


@pytest.fixture
def voted(no_doorbell: None) -> Arena:
    arena = make_voted_arena()
    publish(arena)
    return arena


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A backup of a database without rows."""
    return back_up(tmp_path / "backup")


def back_up(target: Path, passphrase: str = "") -> Path:
    backups.make_backup(target=target, passphrase=passphrase, now=timezone.now())
    return target


def check(source: Path, passphrase: str = "") -> None:
    backups.check_backup(source=source, passphrase=passphrase, report=str)


@committed
def test_what_it_holds_is_counted_and_its_boards_have_digests(voted: Arena, tmp_path: Path) -> None:
    with backups.open_backup(back_up(tmp_path / "backup"), "") as (manifest, _):
        assert manifest.tables["arena_vote"] == Vote.objects.count()
        assert list(manifest.boards) == [voted.slug]
        assert manifest.version == __version__


@committed
def test_it_is_its_owners_alone_and_remembered(voted: Arena, tmp_path: Path) -> None:
    path = back_up(tmp_path / "backup")
    assert path.stat().st_mode & 0o777 == 0o600
    assert Backup.objects.get().size == path.stat().st_size
    assert list(tmp_path.iterdir()) == [path]


def test_an_existing_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "backup").write_text("mine")
    with pytest.raises(BackupError, match="exists"):
        back_up(tmp_path / "backup")
    assert (tmp_path / "backup").read_text() == "mine"


@committed
def test_of_dated_backups_the_newest_are_kept(tmp_path: Path) -> None:
    for name in ("ringside-2026-01-01T030000Z", "ringside-2026-01-02T030000Z", "monday"):
        (tmp_path / name).touch()
    call_command("backup", tmp_path, "--keep=2", stdout=StringIO())
    oldest, *others = sorted(path.name for path in tmp_path.iterdir())
    assert oldest == "monday"
    assert others[0] == "ringside-2026-01-02T030000Z"
    assert len(others) == 2
    with backups.open_backup(tmp_path / others[1], "") as (manifest, _):
        assert manifest.version == __version__
    with pytest.raises(CommandError, match="from 1 on"):
        call_command("backup", tmp_path, "--keep=0")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match=r"There is no folder .*/nowhere\.$"):
        back_up(tmp_path / "nowhere" / "backup")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(stream: Any, *_: Any) -> None:
        os.dup2(os.open("/dev/full", os.O_WRONLY), stream.fileno())
        stream.write(b"x")

    monkeypatch.setattr(backups, "_write_archive", write)
    with pytest.raises(BackupError, match="The disk is full"):
        back_up(tmp_path / "backup")
    assert not list(tmp_path.iterdir())
    assert not Backup.objects.exists()


def test_a_full_disk_under_pg_dump_is_the_same_sentence() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite is copied without another program")
    with pytest.raises(BackupError, match=r"^The disk is full\. Nothing was changed\.$"):
        backups._run_postgres("pg_dump", "--format=custom", "--file=/dev/full")


def test_a_database_with_tables_is_not_replaced(voted: Arena, made: Path) -> None:
    with pytest.raises(BackupError, match="not empty"):
        backups.restore_backup(source=made, passphrase="")
    assert Vote.objects.exists()


def test_every_short_file_is_refused_with_a_reason(made: Path) -> None:
    whole = made.read_bytes()
    short = made.with_name("short")
    for length in [0, 10, 500, len(whole) // 2, len(whole) - 9, len(whole) - 1]:
        short.write_bytes(whole[:length])
        with pytest.raises(BackupError, match="truncated or damaged"):
            check(short)


def test_an_encrypted_one_needs_its_passphrase(tmp_path: Path) -> None:
    path = back_up(tmp_path / "backup", "correct horse")
    with pytest.raises(BackupError, match="Give its passphrase"):
        check(path)
    with pytest.raises(BackupError, match="The passphrase is wrong"):
        check(path, "battery staple")


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Change a backup's manifest."""
    with tarfile.open(path, "r:gz") as archive:
        contents = [(member, archive.extractfile(member)) for member in archive.getmembers()]
        (first, text), (second, database) = contents
        manifest = json.load(text)  # type: ignore[arg-type]
        change(manifest)
        encoded = json.dumps(manifest).encode()
        first.size = len(encoded)
        with tarfile.open(path.with_name("changed"), "w:gz") as changed:
            changed.addfile(first, BytesIO(encoded))
            changed.addfile(second, database)
    return path.with_name("changed")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda manifest: manifest.update(format=2, more=1), "format 2"),
        (
            lambda manifest: manifest["migrations"].append("arena.9999_later"),
            rf"newer Ringside \({__version__}\), which has arena.9999_later",
        ),
        (lambda manifest: manifest.update(engine="oracle"), "The backup is from oracle"),
        (lambda manifest: manifest["tables"].update({'x"; --': 1}), "impossible table"),
        (
            lambda manifest: manifest["tables"].update(arena_vote=7),
            "arena_vote has 0 rows instead of 7",
        ),
        (lambda manifest: manifest["boards"].update(support="0"), "leaderboards of support differ"),
        (lambda manifest: manifest.pop("boards"), "truncated or damaged"),
    ],
)
def test_a_backup_that_is_not_what_it_says_is_refused(
    made: Path, change: Callable[[dict[str, Any]], Any], words: str
) -> None:
    with pytest.raises(BackupError, match=words):
        check(rewrite(made, change))


def test_a_manifest_with_less_or_more_of_another_version_is_read(made: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        del manifest["version"]
        manifest["more"] = 1

    with backups.open_backup(rewrite(made, change), "") as (manifest, _):
        assert manifest.version == ""


@pytest.mark.parametrize("table", ["arena_vote", "nowhere"])
def test_what_is_not_as_it_says_leaves_a_server_as_it_was(made: Path, table: str) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite's file is looked at before it is moved into place")
    changed = rewrite(made, lambda manifest: manifest["tables"].update({table: 7}))
    with backups._scratch_postgres() as name:
        with (
            pytest.raises(BackupError, match=table),
            backups.open_backup(changed, "") as (manifest, dump),
        ):
            backups._load_postgres(manifest, dump, name)
        with backups.open_backup(made, "") as (manifest, dump):
            backups._load_postgres(manifest, dump, name)


def test_an_archive_cannot_write_anywhere_else(tmp_path: Path) -> None:
    path = tmp_path / "hostile"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("../../outside")
        member.size = 1
        archive.addfile(member, BytesIO(b"x"))
    with pytest.raises(BackupError, match="not a backup"):
        check(path)
    assert not (tmp_path.parent / "outside").exists()


def test_the_command_encrypts_with_the_passphrase_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "correct horse")
    out = StringIO()
    call_command("backup", tmp_path / "backup", "--encrypt", stdout=out)
    assert "MB, encrypted." in out.getvalue()
    with backups.open_backup(tmp_path / "backup", "correct horse") as (manifest, _):
        assert manifest.engine == connection.vendor


def test_the_command_asks_nobody_where_nobody_sits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("sys.stdin", StringIO())
    with pytest.raises(CommandError, match=VARIABLE):
        call_command("backup", tmp_path / "backup", "--encrypt")


def test_a_restored_site_knows_how_old_its_last_backup_is(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with backups.open_backup(made, "") as (manifest, _):
        monkeypatch.setattr(restore, "restore_backup", lambda **_: manifest)
    Backup.objects.all().delete()  # a backup is made before its record
    call_command("restore", made, stdout=StringIO())
    record = Backup.objects.get()
    assert record.made_at.isoformat() == manifest.made_at
    assert (record.size, record.is_encrypted) == (made.stat().st_size, False)


def test_restore_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="missing: No such file"):
        call_command("restore", tmp_path / "missing")
