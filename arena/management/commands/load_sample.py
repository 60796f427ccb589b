"""`manage.py load_sample`: the sample arena that shows a fresh installation what it does."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

import arena
from arena.management.commands.import_arena import in_words, run_import
from arena.services.imports import Options

SLUG = "sample"
FOLDER = Path(arena.__file__).parent / "sample"
OPTIONS = Options(
    format_name="native",
    name="Support desk (sample)",
    description=(
        "A sample, for demonstration only: the prompts and the answers were written for it, and "
        "its votes were made by a seeded script, not by people. Vote here to try Ringside out."
    ),
    is_sample=True,
)


class Command(BaseCommand):
    help = "Load the sample arena. Where it is loaded already, nothing is added."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--quiet", action="store_true", help="no progress bar, no report")

    def handle(self, *args: Any, **options: Any) -> None:
        report = run_import(SLUG, [FOLDER], OPTIONS, quiet=options["quiet"])
        if not options["quiet"]:
            self.stdout.write(in_words(report))
