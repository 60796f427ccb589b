"""`manage.py move postgres://...`: move everything from SQLite to PostgreSQL."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.services.backups import BackupError, move_to_postgres


class Command(BaseCommand):
    help = "Copy the SQLite database into an empty PostgreSQL database, and compare the two."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("url", metavar="URL", help="postgres://user:password@host/name")

    def handle(self, *args: Any, url: str, **options: Any) -> None:
        try:
            moved = move_to_postgres(url=url, report=self.stdout.write)
        except BackupError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(
            f"{sum(moved.tables.values()):,} rows moved; all leaderboards are the same."
            " Stop Ringside, set DATABASE_URL to this address, and start it again."
        )
