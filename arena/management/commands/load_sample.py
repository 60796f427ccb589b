"""`manage.py load_sample`: load the sample arena of a new installation."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

import arena
from arena.management.commands.import_arena import format_report, run_import
from arena.models import Arena
from arena.services.imports import Options

SLUG = "sample"
FOLDER = Path(arena.__file__).parent / "sample"
OPTIONS = Options(
    format_name="native",
    name="Support desk (sample)",
    description=(
        "For demonstration only: the prompts and answers were written for this sample, and a "
        "seeded script, not people or models, generated the votes and reasons. Vote here to try "
        "Ringside."
    ),
    is_sample=True,
    visibility=Arena.Visibility.PUBLIC,
)


class Command(BaseCommand):
    help = "Load the sample arena. If it is already loaded, nothing is added."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--quiet", action="store_true", help="no progress bar, no report")

    def handle(self, *args: Any, **options: Any) -> None:
        report = run_import(SLUG, [FOLDER], OPTIONS, quiet=options["quiet"])
        if not options["quiet"]:
            self.stdout.write(format_report(report))
