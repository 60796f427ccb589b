"""`manage.py load_sample`: load the sample arena of a new installation."""

import json
import shutil
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

import arena
from arena.actors import CLI
from arena.management.commands.import_arena import format_report, run_import
from arena.models import Arena, Candidate
from arena.services.imports import Options
from arena.services.live import set_up_live

SLUG = "sample"
FOLDER = Path(arena.__file__).parent / "sample"
VOTED_FOR = timedelta(weeks=4)
QUESTIONS = 200  # a day
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
        if Arena.objects.filter(slug=SLUG).exists():
            if not options["quiet"]:
                self.stdout.write("The sample arena is already loaded.")
            return
        with TemporaryDirectory() as name:
            folder = Path(shutil.copytree(FOLDER, name, dirs_exist_ok=True))
            date_votes(folder / "votes.jsonl")
            report = run_import(SLUG, [folder], OPTIONS, quiet=options["quiet"])
        open_live_questions()
        if not options["quiet"]:
            self.stdout.write(format_report(report))


def open_live_questions() -> None:
    """Let a script answer live questions, so that they can be tried without a key."""
    set_up_live(
        arena=Arena.objects.get(slug=SLUG),
        by=CLI,
        now=timezone.now(),
        limit=QUESTIONS,
        voters=Arena.Voters.ANYONE,
        refused_words="",
        candidates=[
            Candidate(name=model, endpoint="scripted", model=model, organisation="Example Labs")
            for model in (f"scripted-{n}" for n in range(1, 5))
        ],
    )


def date_votes(path: Path) -> None:
    """Spread the votes over the last weeks, so that the leaderboard has a history."""
    votes = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    now, step = timezone.now(), VOTED_FOR / len(votes)
    for n, vote in enumerate(reversed(votes)):
        vote["cast_at"] = (now - n * step).isoformat()
    lines = (json.dumps(vote, ensure_ascii=False) + "\n" for vote in votes)
    path.write_text("".join(lines), encoding="utf-8")
