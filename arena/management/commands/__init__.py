"""What several commands share. Every command loads it, so it imports little."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser


class ProgressBars:
    """One progress bar for each file and stage; none without a terminal."""

    def __init__(self, *, quiet: bool, unit: str = " rows") -> None:
        self.is_hidden = quiet or not sys.stderr.isatty()
        self.unit = unit
        self.current: tuple[str, Path] | None = None
        self.bar: Any = None

    def __enter__(self) -> Callable[[str, Path, int, int], None]:
        return self._update

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def _update(self, stage: str, path: Path, done: int, total: int) -> None:
        if self.is_hidden:
            return
        from tqdm import tqdm  # noqa: PLC0415  (few commands show bars)

        if self.current != (stage, path) or self.bar is None:
            self.__exit__()
            self.current = (stage, path)
            title = f"{stage} {path.name}"
            scale = self.unit == "B"
            self.bar = tqdm(total=total, desc=title, unit=self.unit, unit_scale=scale)
        self.bar.update(done - self.bar.n)


def add_format(parser: CommandParser) -> None:
    from arena.formats import FORMATS  # noqa: PLC0415  (few commands read files)

    parser.add_argument(
        "--format",
        choices=["auto", *sorted(FORMATS)],
        default="auto",
        metavar="NAME",
        help=f"read the files as: {', '.join(sorted(FORMATS))}; auto detects it from their content",
    )
