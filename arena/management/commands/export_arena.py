"""`manage.py export_arena SLUG TO`: export an arena in the native format."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.management.terminal import find_arena
from arena.services.exports import ExportError, export_arena


class Command(BaseCommand):
    help = "Export a whole arena, as a folder of JSON files or as a zip file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the arena's slug")
        parser.add_argument("target", type=Path, metavar="TO", help="a folder, or a .zip file")
        parser.add_argument("--overwrite", action="store_true", help="replace an earlier export")

    def handle(self, *args: Any, **options: Any) -> None:
        arena = find_arena(options["slug"])
        try:
            counts = export_arena(
                arena=arena, target=options["target"], overwrite=options["overwrite"]
            )
        except (ExportError, OSError) as error:
            raise CommandError(str(error)) from None
        lines = ", ".join(f"{count:,} {name.split('.')[0]}" for name, count in counts.items())
        self.stdout.write(f"{options['target']}: {lines}.")
