"""`manage.py backup TO`: write the whole database to one file."""

import getpass
import os
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from arena.services.backups import BackupError, make_backup

VARIABLE = "RINGSIDE_BACKUP_PASSPHRASE"


class Command(BaseCommand):
    help = "Back up the whole database to one file while Ringside keeps running."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("target", type=Path, metavar="TO", help="a new file")
        parser.add_argument(
            "--encrypt",
            action="store_true",
            help=f"encrypt with the passphrase in {VARIABLE}, or ask for one",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        passphrase = read_passphrase(repeat=True) if options["encrypt"] else ""
        if options["encrypt"] and not passphrase:
            raise CommandError("An empty passphrase protects nothing.")
        try:
            manifest = make_backup(
                target=options["target"], passphrase=passphrase, now=timezone.now()
            )
        except BackupError as error:
            raise CommandError(str(error)) from None
        size = options["target"].stat().st_size
        self.stdout.write(
            f"{options['target']}: {sum(manifest.tables.values()):,} rows,"
            f" arenas with leaderboards: {len(manifest.boards):,}, {size / 1e6:.1f} MB,"
            f" {'encrypted' if passphrase else 'not encrypted'}."
        )


def read_passphrase(*, repeat: bool = False) -> str:
    """The passphrase, from the environment or typed at the terminal."""
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    if not sys.stdin.isatty():
        raise CommandError(f"Set {VARIABLE} to the passphrase.")
    passphrase = getpass.getpass("Passphrase: ")
    if repeat and getpass.getpass("Once more: ") != passphrase:
        raise CommandError("The two passphrases differ.")
    return passphrase
