"""`manage.py export_arena SLUG DIR`: write an arena in the native format."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.exporters import ExportRefused, export_arena
from arena.models import Arena


class Command(BaseCommand):
    help = "Write an arena's prompts, candidates, responses and live votes as JSON Lines."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("folder", type=Path, metavar="DIR")
        parser.add_argument("--overwrite", action="store_true", help="replace an earlier export")

    def handle(self, *args: Any, **options: Any) -> None:
        arena = Arena.objects.revealed().filter(slug=options["slug"]).first()
        if arena is None:
            raise CommandError(f"There is no arena {options['slug']}.")
        try:
            counts = export_arena(
                arena=arena, folder=options["folder"], overwrite=options["overwrite"]
            )
        except (ExportRefused, OSError) as refused:
            raise CommandError(str(refused)) from None
        lines = ", ".join(f"{count:,} {name.split('.')[0]}" for name, count in counts.items())
        self.stdout.write(f"{options['folder']}: {lines}.")
