"""What several commands share. Every command loads it, so it imports little."""

import sys
from argparse import ArgumentParser, ArgumentTypeError
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
    add_choices(parser)


def add_choices(parser: ArgumentParser) -> None:
    """Add the options that say how columns and values are read."""
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        type=_column_choice,
        metavar="FIELD=NAME",
        help="read a field from another column, as in --column prompt=question; FIELD= reads none",
    )
    parser.add_argument(
        "--value",
        action="append",
        default=[],
        type=_value_choice,
        metavar="VALUE=OUTCOME",
        help="what a winner's value means, as in --value 0=left: left, right, tie, both_bad, skip, "
        "or a preference for left from 0 to 1",
    )


def _column_choice(written: str) -> tuple[str, str]:
    return _two_sides(written, *written.partition("="))


def _value_choice(written: str) -> tuple[str, str]:
    return _two_sides(written, *written.rpartition("="))  # a value may have the sign, as in A=B


def _two_sides(written: str, name: str, equals: str, chosen: str) -> tuple[str, str]:
    if not (name and equals):
        raise ArgumentTypeError(f"must be NAME=NAME, not {written!r}")
    return name, chosen
