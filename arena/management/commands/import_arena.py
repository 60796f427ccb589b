"""`manage.py import_arena SLUG PATH...`: import files into an arena."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse
from django.utils import timezone

from arena.files.reader import FileError
from arena.formats.base import KINDS, MOST_UNREAD
from arena.management.commands import ProgressBars, add_format
from arena.models import Arena, Team
from arena.services.imports import (
    ArenaImportError,
    BadRowsError,
    ImportedFile,
    ImportPreview,
    ImportReport,
    Options,
    import_files,
    preview_files,
)
from arena.site import absolute_url
from arena.validation import join_names, numbered, quoted

INTERRUPTED = "Interrupted. Imported rows stay hidden; run the command again to continue."
NOUNS = KINDS | {"checks": "check"}


class Command(BaseCommand):
    requires_migrations_checks = True  # a first start may not have made the tables yet
    help = (
        "Import prompts, candidates, responses and votes into an arena, which is created if it is "
        "new. Nothing is visible until all files are imported; run the command again to resume an "
        "interrupted import."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the arena's slug, as in /a/SLUG/")
        parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="file or folder")
        add_format(parser)
        parser.add_argument("--name", default="", help="the name of a new arena")
        parser.add_argument(
            "--team", default="", help="the slug of the team that will own a new arena"
        )
        parser.add_argument(
            "--visibility",
            choices=Arena.Visibility.values,
            default="",
            help="of a new arena; by default private, or unlisted without a team",
        )
        parser.add_argument(
            "--skip-bad",
            action="store_true",
            help="skip bad rows and copy them to <file>.rejects.<ext>",
        )
        parser.add_argument(
            "--rejects", type=Path, metavar="DIR", help="folder for the rejected rows"
        )
        parser.add_argument(
            "--preview",
            "--dry-run",
            action="store_true",
            help="report the files' formats and any bad rows, and write nothing",
        )
        parser.add_argument("--quiet", action="store_true", help="no progress bar, no report")

    def handle(self, *args: Any, **options: Any) -> None:
        chosen = Options(
            format_name=options["format"],
            name=options["name"],
            team=_team_with_slug(options["team"]),
            visibility=options["visibility"],
            skip_bad=options["skip_bad"],
            rejects_folder=options["rejects"],
            columns=dict(options["column"]),
            values=dict(options["value"]),
        )
        if options["preview"]:
            slug = options["slug"]
            paths = options["paths"]
            try:
                preview = preview_files(slug=slug, paths=paths, options=chosen)
            except (FileError, ArenaImportError, OSError) as error:
                raise CommandError(str(error)) from None
            self.stdout.write(format_preview(preview))
            if preview.rejected.count:
                self.stderr.write(str(preview.rejected))
            return
        report = run_import(options["slug"], options["paths"], chosen, quiet=options["quiet"])
        if not options["quiet"]:
            self.stdout.write(format_report(report))
        if report.rejected.count:
            self.stderr.write(str(report.rejected))


def format_preview(preview: ImportPreview) -> str:
    lines = []
    for file in preview.files:
        rows = ", ".join(numbered(n_rows, NOUNS[kind]) for kind, n_rows in file.rows.items())
        bad = f"; {numbered(file.bad, 'bad row')}" if file.bad else ""
        lines.append(f"  {file.name}: {file.title} ({file.format_name}), {rows or 'no rows'}{bad}")
        used = {name: column for name, column in file.columns.items() if column}
        lines += [f"    {name} = {column}" for name, column in used.items()]
        lines += [
            f"    {file.columns['winner']} {quoted(value)} = {means or 'say what it means'}"
            for value, means in file.values.items()
        ]
        lines += _unread_columns(file.unread)
    return "\n".join(["Nothing was written. An import would add:", *lines, *preview.warnings])


def _team_with_slug(slug: str) -> Team | None:
    if not slug:
        return None
    team = Team.objects.filter(slug=slug).first()
    if team is None:
        raise CommandError(f"There is no team {slug}.")
    return team


def run_import(slug: str, paths: list[Path], options: Options, *, quiet: bool) -> ImportReport:
    """Import with a progress bar; every error becomes a CommandError."""
    with ProgressBars(quiet=quiet) as progress:
        try:
            return import_files(
                slug=slug,
                paths=paths,
                now=timezone.now(),
                options=replace(options, progress=progress),
            )
        except BadRowsError as error:
            rejected = error.rejected
            advice = (
                "No valid rows are left."
                if options.skip_bad
                else "Correct them, or use --skip-bad to import the rest."
            )
            raise CommandError(
                f"{rejected}\nNothing was imported: {numbered(rejected.count, 'bad row')}. {advice}"
            ) from None
        except (FileError, ArenaImportError, OSError) as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            raise CommandError(INTERRUPTED) from None


def format_report(report: ImportReport) -> str:
    arena = report.arena
    head = f"Arena {arena.slug} ({arena.name}), {arena.visibility}:"
    lines = [head, *map(_format_file, report.files)]
    for path, unread in {file.path: file.unread for file in report.files}.items():
        lines += [f"  {path.name}: {line.strip()}" for line in _unread_columns(unread)]
    lines += report.warnings
    added = sum(file.added for file in report.files if file.kind == "votes" and not file.known)
    votes = report.arena.votes.live().count()
    if 0 < added < votes:
        lines.append(
            f"The arena already had {votes - added:,} votes. If one of these files is a longer"
            " version of a file imported before, its old votes now count twice."
        )
    has_pairs = arena.has_pairs
    if not (has_pairs or votes):
        lines.append(
            "Nobody can vote yet: that takes answers of two candidates to the same prompt. Import "
            "them, or generate them (manage.py generate)."
        )
    address = reverse("vote" if has_pairs else "board", args=[arena.slug])
    lines.append(f"{'Vote' if has_pairs else 'See it'} at {absolute_url(address)}")
    return "\n".join(lines)


def _unread_columns(columns: list[str]) -> list[str]:
    return [f"    not used: {join_names(columns, MOST_UNREAD)}"] if columns else []


def _format_file(file: ImportedFile) -> str:
    if file.known:
        return f"  {file.path.name}: already imported, nothing to add"
    with_checks = f" with {numbered(file.checks, 'check')}" if file.checks else ""
    line = f"  {file.path.name}: {numbered(file.added, KINDS[file.kind])}{with_checks} added"
    if file.bad:
        copied = f" (copied to {file.rejects})" if file.rejects else ""
        line += f", {numbered(len(file.bad), 'row')} rejected{copied}"
    return line
