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
NAMED_AFTER_THE_TIME = "ringside-????-??-??T??????Z"


class Command(BaseCommand):
    help = "Back up the whole database to one file while Ringside keeps running."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("target", type=Path, metavar="TO", help="a new file")
        parser.add_argument(
            "--keep",
            type=int,
            metavar="N",
            help="TO is a folder: name the file after the time, and delete all but the newest N",
        )
        parser.add_argument(
            "--encrypt",
            action="store_true",
            help=f"encrypt with the passphrase in {VARIABLE}, or ask for one",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        now, keep = timezone.now(), options["keep"]
        target: Path = options["target"]
        if keep is not None:
            if keep < 1:
                raise CommandError("--keep takes a number from 1 on.")
            target /= f"ringside-{now:%Y-%m-%dT%H%M%SZ}"
        passphrase = read_passphrase(repeat=True) if options["encrypt"] else ""
        if options["encrypt"] and not passphrase:
            raise CommandError("An empty passphrase protects nothing.")
        try:
            manifest = make_backup(target=target, passphrase=passphrase, now=now)
        except BackupError as error:
            raise CommandError(str(error)) from None
        size = target.stat().st_size
        self.stdout.write(
            f"{target}: {sum(manifest.tables.values()):,} rows,"
            f" arenas with leaderboards: {len(manifest.boards):,}, {size / 1e6:.1f} MB,"
            f" {'encrypted' if passphrase else 'not encrypted'}."
        )
        if keep is not None:
            for old in sorted(target.parent.glob(NAMED_AFTER_THE_TIME))[:-keep]:
                old.unlink()


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
