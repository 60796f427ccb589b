"""Backups: one file with the whole database, which says what it must contain.

A backup is a tar archive, compressed, and encrypted if a passphrase is given. Its manifest counts
the rows of each table and holds a digest of every leaderboard, taken from the same moment as the
data, so that a restore can prove that nothing is missing.

Encryption is AES-256-GCM over chunks of 1 MiB, with a key that scrypt derives from the passphrase.
The nonce of a chunk is its number and whether it is the last, so that chunks can be neither
exchanged nor cut off (the STREAM construction: Hoang, Reyhanitabar, Rogaway and Vizar 2015).
"""

import errno
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import psycopg
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from django.apps import apps
from django.conf import settings
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import AutoField, JSONField, Model
from django.utils import timezone
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from arena import __version__
from arena.models import Backup

MAGIC = b"ringside-encrypted-1\n"
SALT, TAG, CHUNK = 16, 16, 1 << 20
SCRYPT_N, SCRYPT_R, SCRYPT_P = 1 << 16, 8, 1  # 64 MB for a tenth of a second


class DecryptionError(OSError):
    """The data is not what was encrypted; the message is a sentence for people."""


def _cipher(passphrase: str, salt: bytes) -> AESGCM:
    derive = Scrypt(salt=salt, length=32, n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P)
    return AESGCM(derive.derive(passphrase.encode()))


def _nonce(number: int, is_last: bool) -> bytes:
    return struct.pack(">QI", number, is_last)


class EncryptedWriter(io.RawIOBase):
    """Writes to `stream`, which stays open. Without `close()` the result cannot be read."""

    def __init__(self, stream: IO[bytes], passphrase: str) -> None:
        salt = os.urandom(SALT)
        self._stream, self._cipher = stream, _cipher(passphrase, salt)
        self._waiting, self._number = bytearray(), 0
        stream.write(MAGIC + salt)

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._waiting += data
        while len(self._waiting) > CHUNK:  # the last chunk waits for close()
            self._put(bytes(self._waiting[:CHUNK]), is_last=False)
            del self._waiting[:CHUNK]
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._put(bytes(self._waiting), is_last=True)
        super().close()

    def _put(self, chunk: bytes, *, is_last: bool) -> None:
        self._stream.write(self._cipher.encrypt(_nonce(self._number, is_last), chunk, None))
        self._number += 1


class EncryptedReader(io.RawIOBase):
    """Reads what `EncryptedWriter` wrote. Raises DecryptionError at the first wrong byte."""

    def __init__(self, stream: IO[bytes], passphrase: str) -> None:
        header = stream.read(len(MAGIC) + SALT)
        if len(header) < len(MAGIC) + SALT or not header.startswith(MAGIC):
            raise DecryptionError("The file was not encrypted by Ringside, or is truncated.")
        self._stream, self._cipher = stream, _cipher(passphrase, header[len(MAGIC) :])
        self._next, self._plain, self._number = stream.read(CHUNK + TAG), b"", 0
        if not self._next:  # even an empty stream has a last chunk
            raise DecryptionError("The file is truncated.")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._plain and self._next:
            self._plain = self._take()
        size = min(len(buffer), len(self._plain))
        buffer[:size], self._plain = self._plain[:size], self._plain[size:]
        return size

    def _take(self) -> bytes:
        chunk, self._next = self._next, self._stream.read(CHUNK + TAG)
        try:
            plain = self._cipher.decrypt(_nonce(self._number, not self._next), chunk, None)
        except InvalidTag:
            raise DecryptionError(
                "The file is truncated or damaged."
                if self._number
                else "The passphrase is wrong, or the file is damaged."
            ) from None
        self._number += 1
        return plain


FORMAT = 1
MANIFEST, DATABASE = "manifest.json", "database"
PIECE = 1 << 20
ROWS_AT_ONCE = 2000
LONGEST_MANIFEST = 50 * PIECE
FULL = "The disk is full. Nothing was changed."
# By names of tables: the database in question may be a file of an earlier version.
BOARDS = """
    SELECT a.slug, n.id, s.candidate_id, s.rank, s.score, s.low, s.high, s.votes
    FROM ranking_standing s JOIN ranking_snapshot n ON n.id = s.snapshot_id AND n.is_current
    JOIN ranking_board b ON b.id = n.board_id JOIN arena_arena a ON a.id = b.arena_id
    ORDER BY a.slug, n.id, s.candidate_id
"""
ENGINES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
DAMAGED = (
    *(tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error),
    *(ValueError, TypeError, KeyError),
)
Execute = Callable[[str], Iterable[tuple[Any, ...]]]


class BackupError(Exception):
    """A backup that was not made or not restored; the message is a sentence for people."""


@dataclass(frozen=True)
class Manifest:
    """The manifest of a backup: how it was made, and what it must contain."""

    format: int
    made_at: str
    engine: str
    migrations: list[str]
    tables: dict[str, int]  # number of rows
    boards: dict[str, str]  # a digest of each arena's current leaderboards
    version: str = ""  # of Ringside; backups made before 0.1.0 do not say it

    @classmethod
    def parse(cls, text: bytes) -> "Manifest":
        """Read a manifest. What a newer version adds to it is ignored, unless its format differs.

        Raises BackupError for another format.
        """
        members = json.loads(text)
        if members["format"] != FORMAT:
            raise BackupError(
                f"This version of Ringside cannot read backups of format {members['format']}."
            )
        names = {member.name for member in fields(cls)}
        return cls(**{name: value for name, value in members.items() if name in names})

    def differences(self, other: "Manifest") -> list[str]:
        """One sentence for each table and arena that differs in `other`."""
        return [
            *(
                f"The table {name} has {other.tables.get(name, 0):,} rows instead of {count:,}."
                for name, count in self.tables.items()
                if other.tables.get(name, 0) != count
            ),
            *(
                f"The leaderboards of {slug} differ."
                for slug in sorted({*self.boards, *other.boards})
                if self.boards.get(slug) != other.boards.get(slug)
            ),
        ]


def describe(execute: Execute, engine: str, tables: Collection[str], made_at: str) -> Manifest:
    """Describe the database in which `execute` runs a statement, with the same migrations as this
    one.
    """
    counts = {name: n for name in sorted(tables) for (n,) in execute(_count(name))}
    digests: dict[str, Any] = {}
    for slug, *standing in execute(BOARDS):
        digests.setdefault(slug, hashlib.sha256()).update(repr(standing).encode())
    boards = {slug: digest.hexdigest() for slug, digest in digests.items()}
    applied = MigrationRecorder(connection).applied_migrations()
    migrations = sorted(f"{app}.{name}" for app, name in applied)
    return Manifest(FORMAT, made_at, engine, migrations, counts, boards, __version__)


def table_names() -> list[str]:
    models = apps.get_models(include_auto_created=True)
    return sorted({model._meta.db_table for model in models if model._meta.managed})


def _count(table: str) -> str:
    if not re.fullmatch(r"\w+", table, re.ASCII):
        raise BackupError(f"The manifest names an impossible table: {table!r}.")
    return f'SELECT count(*) FROM "{table}"'  # noqa: S608  (checked in the line above)


def make_backup(*, target: Path, passphrase: str, now: datetime) -> Manifest:
    """Write a backup to `target`, which appears complete or not at all, readable by its owner.

    Raises BackupError.
    """
    if target.exists():
        raise BackupError(f"{target} exists. Choose another name.")
    if not target.parent.is_dir():
        raise BackupError(f"There is no folder {target.parent}.")
    with _errors_in_words(), tempfile.TemporaryDirectory(dir=target.parent) as folder:
        dump, draft = Path(folder, DATABASE), Path(folder, "backup")
        copy = _copy_postgres if connection.vendor == "postgresql" else _copy_sqlite
        manifest = copy(dump, now.isoformat())
        with draft.open("xb") as stream:
            draft.chmod(0o600)
            _write_archive(stream, passphrase, manifest, dump)
            stream.flush()
            os.fsync(stream.fileno())
        size = draft.stat().st_size
        draft.rename(target)
    Backup.objects.create(made_at=now, size=size, is_encrypted=bool(passphrase))
    return manifest


def _write_archive(stream: IO[bytes], passphrase: str, manifest: Manifest, dump: Path) -> None:
    text = json.dumps(asdict(manifest), indent=1).encode()
    with ExitStack() as stack:
        if passphrase:
            writer: Any = EncryptedWriter(stream, passphrase)
            stream = stack.enter_context(closing(writer))
        archive = stack.enter_context(tarfile.open(fileobj=stream, mode="w|gz"))
        member = tarfile.TarInfo(MANIFEST)
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
        archive.add(dump, arcname=DATABASE)


def _copy_sqlite(path: Path, made_at: str) -> Manifest:
    """Copy the database as it is at one moment, without stopping writers.

    It uses its own connection, because one with an open transaction would wait for itself.
    """
    source = Path(connection.settings_dict["NAME"]).absolute().as_uri()
    with (
        closing(sqlite3.connect(f"{source}?mode=ro", uri=True)) as original,
        closing(sqlite3.connect(path)) as copy,
    ):
        original.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
        return describe(copy.execute, "sqlite", table_names(), made_at)


def _copy_postgres(path: Path, made_at: str) -> Manifest:
    """Dump the database as the transaction sees it in which its rows are counted."""
    with _connect_postgres(_postgres()["dbname"]) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.read_only = True
        ((snapshot,),) = reader.execute("SELECT pg_export_snapshot()")
        options = ["--format=custom", "--compress=0", "--no-owner", "--no-privileges"]
        _run_postgres("pg_dump", *options, f"--snapshot={snapshot}", f"--file={path}")
        return describe(reader.execute, "postgresql", table_names(), made_at)


@contextmanager
def open_backup(source: Path, passphrase: str) -> Iterator[tuple[Manifest, Path]]:
    """Unpack and check a backup; give its manifest and its database. Raises BackupError."""
    with _errors_in_words(), tempfile.TemporaryDirectory(dir=_scratch_folder()) as folder:
        dump = Path(folder, DATABASE)
        try:
            with source.open("rb") as stream:
                manifest = _read_archive(stream, passphrase, dump)
        except DecryptionError as error:
            raise BackupError(f"{source}: {error}") from None
        except DAMAGED:
            raise BackupError(f"{source} is not a backup, or it is truncated or damaged.") from None
        _check_versions(manifest)
        yield manifest, dump


def _read_archive(stream: IO[bytes], passphrase: str, dump: Path) -> Manifest:
    is_encrypted = stream.read(len(MAGIC)) == MAGIC
    stream.seek(0)
    if is_encrypted and not passphrase:
        raise DecryptionError("The file is encrypted. Give its passphrase.")
    plain = io.BufferedReader(EncryptedReader(stream, passphrase)) if is_encrypted else stream
    with gzip.open(plain) as unpacked, dump.open("xb") as copy:
        with tarfile.open(fileobj=unpacked, mode="r|") as archive:
            manifest = Manifest.parse(_member(archive, MANIFEST).read(LONGEST_MANIFEST))
            shutil.copyfileobj(_member(archive, DATABASE), copy, PIECE)
        while unpacked.read(PIECE):  # to the end, where the checksum is
            pass
    return manifest


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    """The content of the next file in the archive. The paths in the archive are ignored."""
    member = archive.next()
    content = archive.extractfile(member) if member and member.name == name else None
    if content is None:
        raise KeyError(name)
    return content


def _check_versions(manifest: Manifest) -> None:
    if manifest.engine != connection.vendor:
        raise BackupError(
            f"The backup is from {ENGINES.get(manifest.engine, manifest.engine)}, but "
            f"DATABASE_URL is {ENGINES[connection.vendor]}. Restore it into the same kind of "
            "database, then use manage.py move."
        )
    migrations = {f"{app}.{name}" for app, name in MigrationLoader(None).disk_migrations or {}}
    if unknown := sorted(set(manifest.migrations) - migrations):
        version = f" ({manifest.version})" if manifest.version else ""
        raise BackupError(
            f"The backup is from a newer Ringside{version}, which has {unknown[-1]}. Install that"
            " version first."
        )


def restore_backup(*, source: Path, passphrase: str) -> Manifest:
    """Fill the empty database with a backup, whole or not at all. Raises BackupError."""
    if has_tables():
        raise BackupError("The database is not empty. Restore a backup into a new one.")
    with open_backup(source, passphrase) as (manifest, dump):
        if manifest.engine == "postgresql":
            _load_postgres(manifest, dump, _postgres()["dbname"])
        else:
            _check_sqlite(manifest, dump)
            connection.close()
            target = Path(connection.settings_dict["NAME"])
            for leftover in ("-wal", "-shm"):
                Path(f"{target}{leftover}").unlink(missing_ok=True)
            dump.chmod(0o600)
            dump.replace(target)
        return manifest


def remember_restored(*, source: Path, manifest: Manifest, is_encrypted: bool) -> None:
    """Record the restored backup as the last one: it does not contain its own record."""
    made_at = datetime.fromisoformat(manifest.made_at)
    size = source.stat().st_size
    Backup.objects.create(made_at=made_at, size=size, is_encrypted=is_encrypted)


def check_backup(*, source: Path, passphrase: str, report: Callable[[str], Any]) -> Manifest:
    """Restore a backup into a scratch database and verify it there. Raises BackupError."""
    with open_backup(source, passphrase) as (manifest, dump), ExitStack() as stack:
        if manifest.engine == "postgresql":
            name = stack.enter_context(_scratch_postgres())
            _load_postgres(manifest, dump, name)
            url = _postgres_url(name)
        else:
            _check_sqlite(manifest, dump)
            url = f"sqlite:///{dump}"
        report(f"{sum(manifest.tables.values()):,} rows and all leaderboards were restored.")
        for command in (["migrate", "--verbosity=0"], ["verify_log"]):
            report(_run_command(command, url))
        return manifest


def has_tables() -> bool:
    with connection.cursor() as cursor:
        return bool(connection.introspection.get_table_list(cursor))


def _check_sqlite(manifest: Manifest, path: Path) -> None:
    with closing(sqlite3.connect(path)) as copy:
        _compare(manifest, copy.execute)


def _load_postgres(manifest: Manifest, dump: Path, name: str) -> None:
    options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
    _run_postgres("pg_restore", *options, str(dump), database=name)
    with _connect_postgres(name) as loaded:
        try:
            _compare(manifest, loaded.execute)
        except BackupError:
            loaded.rollback()
            tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
            names = ", ".join(f'"{name}"' for (name,) in loaded.execute(tables))
            if names:
                loaded.execute(f"DROP TABLE {names} CASCADE")
            loaded.commit()  # as empty as before
            raise


def _compare(manifest: Manifest, execute: Execute) -> None:
    try:
        restored = describe(execute, manifest.engine, manifest.tables, manifest.made_at)
    except (sqlite3.Error, psycopg.Error) as error:
        raise BackupError(f"The backup's database is damaged: {error}.") from None
    if differences := manifest.differences(restored):
        raise BackupError("The backup does not match its manifest: " + " ".join(differences))


def _run_command(command: list[str], database_url: str) -> str:
    """Run a command of manage.py on another database; return its output."""
    environment = os.environ | {"DATABASE_URL": database_url, "SECRET_KEY": settings.SECRET_KEY}
    manage = settings.BASE_DIR / "manage.py"
    result = subprocess.run(  # noqa: S603  (our own command)
        [sys.executable, str(manage), *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise BackupError(f"{command[0]}: {(result.stderr or result.stdout).strip()}")
    return result.stdout.strip()


def move_to_postgres(*, url: str, report: Callable[[str], Any]) -> Manifest:
    """Copy the SQLite database into the empty PostgreSQL database at `url`, whole or not at all.

    Nobody can write meanwhile. Raises BackupError.
    """
    if connection.vendor != "sqlite":
        raise BackupError("DATABASE_URL is not SQLite: there is nothing to move.")
    with _errors_in_words():
        with psycopg.connect(url) as target:
            tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
            if next(iter(target.execute(tables)))[0]:
                raise BackupError("The PostgreSQL database is not empty. Create a new one.")
        report(_run_command(["migrate", "--verbosity=0"], url))
        with transaction.atomic(), connection.cursor() as source, psycopg.connect(url) as target:
            names = ", ".join(f'"{name}"' for name in table_names())
            target.execute(f"TRUNCATE {names}")  # what the migrations have written
            for model in apps.get_models(include_auto_created=True):
                if model._meta.managed and not model._meta.proxy:
                    _copy_rows(model, target)
            engine = connection.vendor
            before = describe(source.execute, engine, table_names(), timezone.now().isoformat())
            after = describe(target.execute, engine, table_names(), before.made_at)
            if differences := before.differences(after):
                raise BackupError("The copy is not the same: " + " ".join(differences))
    return before


def _copy_rows(model: type[Model], target: psycopg.Connection) -> None:
    table = model._meta.db_table
    fields = [field for field in model._meta.local_concrete_fields if not field.generated]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    rows = model._base_manager.values_list(*(field.attname for field in fields))
    is_json = [isinstance(field, JSONField) for field in fields]
    try:
        with target.cursor().copy(f'COPY "{table}" ({columns}) FROM STDIN') as copy:
            for row in rows.order_by("pk").iterator(ROWS_AT_ONCE):
                values = zip(row, is_json, fields, strict=True)
                copy.write_row(
                    [
                        Jsonb(value) if json and not (value is None and field.null) else value
                        for value, json, field in values
                    ]
                )
    except psycopg.DataError as error:
        raise BackupError(f"A row of {table} does not fit: {error}") from None
    if isinstance(model._meta.pk, AutoField):
        key = model._meta.pk.column
        last = f'SELECT max("{key}") FROM "{table}"'  # noqa: S608  (names of a model)
        target.execute(
            f"SELECT setval(pg_get_serial_sequence(%s, %s), ({last})) WHERE ({last}) > 0",
            [f'"{table}"', key],
        )


def _postgres() -> dict[str, Any]:
    """The parameters of the connection, with libpq's names."""
    options = connection.settings_dict.get("OPTIONS", {})
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST"}
    parameters = {
        name: connection.settings_dict[key] for name, key in (names | {"port": "PORT"}).items()
    }
    parameters |= {name: value for name, value in options.items() if name.startswith("ssl")}
    return {name: value for name, value in parameters.items() if value}


def _connect_postgres(name: str) -> psycopg.Connection:
    return psycopg.connect(**_postgres() | {"dbname": name})


def _postgres_url(name: str) -> str:
    parameters = _postgres()
    who = ":".join(
        quote(parameters[key], safe="") for key in ("user", "password") if key in parameters
    )
    where = (
        f"{parameters.get('host', '')}:{parameters['port']}"
        if "port" in parameters
        else parameters.get("host", "")
    )
    options = urlencode({key: value for key, value in parameters.items() if key.startswith("ssl")})
    return f"postgres://{who}@{where}/{name}" + (f"?{options}" if options else "")


@contextmanager
def _scratch_postgres() -> Iterator[str]:
    name = f"ringside_check_{uuid4().hex[:12]}"
    with closing(_connect_postgres(_postgres()["dbname"])) as server:
        server.autocommit = True
        try:
            server.execute(f"CREATE DATABASE {name}")
        except psycopg.errors.InsufficientPrivilege:
            raise BackupError(
                "The database user is not allowed to create the scratch database for the check."
            ) from None
        try:
            yield name
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _run_postgres(program: str, *options: str, database: str = "") -> None:
    parameters = _postgres()
    password = parameters.pop("password", None)
    target = make_conninfo(**parameters | ({"dbname": database} if database else {}))
    try:
        result = subprocess.run(  # noqa: S603  (PostgreSQL's own programs, no shell)
            [program, f"--dbname={target}", *options],
            env=os.environ | ({"PGPASSWORD": password} if password else {}),
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise BackupError(f"{program} is missing. Install PostgreSQL's client programs.") from None
    if result.returncode:
        reason = result.stderr.strip().removeprefix(f"{program}: ")
        raise BackupError(FULL if os.strerror(errno.ENOSPC) in reason else f"{program}: {reason}")


def _scratch_folder() -> Path:
    """Where a backup is unpacked: beside the database's file, so that it can be moved into
    place."""
    if connection.vendor == "sqlite":
        return Path(connection.settings_dict["NAME"]).absolute().parent
    return Path(tempfile.gettempdir())


@contextmanager
def _errors_in_words() -> Iterator[None]:
    try:
        yield
    except psycopg.OperationalError as error:
        raise BackupError(f"PostgreSQL: {error}") from None
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise BackupError(FULL) from None
        raise BackupError(f"{error.filename or 'File'}: {error.strerror or error}.") from None
    except sqlite3.OperationalError as error:
        if "full" in str(error):
            raise BackupError(FULL) from None
        raise BackupError(f"SQLite: {error}.") from None
