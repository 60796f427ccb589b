"""`manage.py export SLUG FILE`: votes, preferences, judgements, prompts or a dataset."""

import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from arena.actors import CLI
from arena.files.copies import HAS_PYARROW, NEEDS_PYARROW
from arena.management.terminal import find_arena
from arena.models import Arena
from judges.exports import EXPORTS as JUDGEMENTS
from ranking.exports import (
    DATASET,
    EXPORTS,
    FORMATS,
    PROMPT_SETS,
    file_names,
    rows_of,
    write_dataset,
)
from ranking.preferences import DECIDED_BY

OF_TEAM = {**JUDGEMENTS, **PROMPT_SETS}
KNOWN = [*file_names(EXPORTS), DATASET, *file_names(OF_TEAM)]


class Command(BaseCommand):
    help = (
        "Export votes, preferences, judgements, prompts or a dataset; the file name decides which."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the arena's slug")
        parser.add_argument("file", type=Path, metavar="FILE", help=", ".join(KNOWN))
        parser.add_argument(
            "--raters", choices=list(DECIDED_BY), default="people", help="who decides preferences"
        )
        parser.add_argument("--overwrite", action="store_true", help="replace an existing file")

    def handle(self, *args: Any, **options: Any) -> None:
        arena = find_arena(options["slug"])
        path: Path = options["file"]
        if path.name not in KNOWN:
            raise CommandError(f"Unknown file name {path.name}. Choose one of: {', '.join(KNOWN)}.")
        if path.suffix in (".parquet", ".zip") and not HAS_PYARROW:
            raise CommandError(NEEDS_PYARROW)
        if path.exists() and not options["overwrite"]:
            raise CommandError(f"{path} already exists. Use --overwrite to replace it.")
        try:
            size = _write(path, _content(path.name, arena, options["raters"]))
        except OSError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{path}: {size:,} bytes.")


def _content(name: str, arena: Arena, raters: str) -> Iterator[bytes]:
    if name == DATASET:
        return write_dataset(arena, CLI)
    stem, _, ending = name.rpartition(".")
    export = {**EXPORTS, **OF_TEAM}[stem]
    rows = rows_of(export, arena, CLI, raters)
    if (first := next(rows, None)) is None:  # no tool can load a file without rows
        raise CommandError(f"{arena.slug} has nothing to write to {name} yet.")
    return FORMATS[ending][0](chain([first], rows), export.columns)


def _write(path: Path, content: Iterator[bytes]) -> int:
    """Write a file that appears complete or not at all; return its size."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as out:
        draft = Path(out.name)
        try:
            with tqdm(unit="B", unit_scale=True, file=sys.stderr, disable=None) as bar:
                for chunk in content:
                    bar.update(out.write(chunk))
            out.close()
            draft.chmod(0o644)
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    return path.stat().st_size
