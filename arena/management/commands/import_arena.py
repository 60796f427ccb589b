"""`manage.py import_arena SLUG PATH...`: take files into an arena."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from tqdm import tqdm

from arena.importers import IMPORTERS
from arena.importers.base import FileProblem
from arena.services.import_check import Progress
from arena.services.import_lock import ImportRefused
from arena.services.imports import BadRows, FileReport, ImportReport, Options, import_files

INTERRUPTED = "Interrupted. What was written stays hidden; the same command goes on from there."


class Command(BaseCommand):
    help = (
        "Import prompts, candidates, responses and votes into an arena, which is made when it is "
        "new. Nothing is shown until all of it is in; the same command resumes a broken import."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the arena's name in addresses: /a/SLUG/")
        parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="file or folder")
        parser.add_argument("--format", choices=["auto", *IMPORTERS], default="auto")
        parser.add_argument("--name", default="", help="the arena's title, if it is new")
        parser.add_argument(
            "--skip-bad",
            action="store_true",
            help="import the other rows where some are bad, and copy those to <file>.rejects.<ext>",
        )
        parser.add_argument(
            "--rejects", type=Path, metavar="DIR", help="folder for the rejected rows"
        )
        parser.add_argument("--quiet", action="store_true", help="no progress bar, no report")

    def handle(self, *args: Any, **options: Any) -> None:
        report = run_import(
            options["slug"],
            options["paths"],
            Options(
                format_name=options["format"],
                name=options["name"],
                skip_bad=options["skip_bad"],
                rejects_folder=options["rejects"],
            ),
            quiet=options["quiet"],
        )
        if not options["quiet"]:
            self.stdout.write(in_words(report))
        if report.problems.count:
            self.stderr.write(str(report.problems))


def run_import(slug: str, paths: list[Path], options: Options, *, quiet: bool) -> ImportReport:
    """Import with a progress bar; every refusal becomes a CommandError."""
    with _Bars(quiet=quiet) as progress:
        try:
            return import_files(
                slug=slug,
                paths=paths,
                now=timezone.now(),
                options=Options(**{**vars(options), "progress": progress}),
            )
        except BadRows as refused:
            problems = refused.problems
            advice = (
                "No row is left." if options.skip_bad else "With --skip-bad the rest is imported."
            )
            raise CommandError(
                f"{problems}\nNothing was imported: {problems.count:,} bad rows. {advice}"
            ) from None
        except (FileProblem, ImportRefused, OSError) as refused:
            raise CommandError(str(refused)) from None
        except KeyboardInterrupt:
            raise CommandError(INTERRUPTED) from None


def in_words(report: ImportReport) -> str:
    """Say what became of each file."""
    lines = [f"Arena {report.arena.slug} ({report.arena.name}):", *map(_line, report.files)]
    added = sum(file.added for file in report.files if file.kind == "votes" and not file.known)
    votes = report.arena.votes.live().count()
    if 0 < added < votes:
        lines.append(
            f"The arena had {votes - added:,} votes before. If one of these files is an earlier"
            " one that has grown, its old votes now count twice."
        )
    return "\n".join(lines)


def _line(file: FileReport) -> str:
    if file.known:
        return f"  {file.path.name}: imported before, nothing to add"
    line = f"  {file.path.name}: {file.added:,} {file.kind} added"
    if file.rejected:
        line += f", {file.rejected:,} rows rejected (copied to {file.rejects})"
    return line


class _Bars:
    """One bar for each file and stage, with rows, rate and time left; none without a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self.disable = True if quiet else None
        self.shown: tuple[str, Path] | None = None
        self.bar: tqdm[Any] | None = None

    def __enter__(self) -> Progress:
        return self._tell

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def _tell(self, stage: str, path: Path, done: int, total: int) -> None:
        if self.shown != (stage, path) or self.bar is None:
            self.__exit__()
            self.shown = (stage, path)
            words = f"{stage} {path.name}"
            self.bar = tqdm(total=total, desc=words, unit=" rows", disable=self.disable)
        self.bar.update(done - self.bar.n)
