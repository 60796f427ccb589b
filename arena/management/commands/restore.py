"""`manage.py restore FROM`: fill an empty database from a backup, or check one."""

from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.management.commands.backup import read_passphrase
from arena.services.backups import (
    MAGIC,
    BackupError,
    check_backup,
    remember_restored,
    restore_backup,
)


class Command(BaseCommand):
    help = "Restore a backup into an empty database, or check one without touching the database."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", type=Path, metavar="FROM", help="a file made by backup")
        parser.add_argument(
            "--check",
            action="store_true",
            help="only restore into a scratch database and verify it there",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        source: Path = options["source"]
        try:
            passphrase = read_passphrase() if _is_encrypted(source) else ""
            if options["check"]:
                manifest = check_backup(
                    source=source, passphrase=passphrase, report=self.stdout.write
                )
                by = f", made by Ringside {manifest.version}," if manifest.version else ""
                self.stdout.write(f"The backup of {manifest.made_at}{by} is good.")
                return
            manifest = restore_backup(source=source, passphrase=passphrase)
        except BackupError as error:
            raise CommandError(str(error)) from None
        call_command("migrate", verbosity=0, interactive=False)
        remember_restored(source=source, manifest=manifest, is_encrypted=bool(passphrase))
        rows = sum(manifest.tables.values())
        self.stdout.write(f"Restored the backup of {manifest.made_at}: {rows:,} rows.")


def _is_encrypted(source: Path) -> bool:
    try:
        with source.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise BackupError(f"{source}: {error.strerror}.") from None
