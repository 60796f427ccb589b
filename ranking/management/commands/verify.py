"""`manage.py verify FILE`: check an exported vote log, without a database."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.validation import numbered
from ranking.leaderboard import CrossCheckError
from ranking.log.file import (
    CheckedBoard,
    LogFile,
    LogFileError,
    board_name,
    check_board,
    check_log,
    has_checked_intervals,
    is_under_review,
    read_log,
)
from ranking.management.commands.verify_log import list_faults
from ranking.stats.bradley_terry import NotConvergedError

NOT_CHECKED = (
    "A file cannot show that votes are honest, or that the server has no other log. Compare the "
    "key and the head with those published elsewhere. Style-controlled scores, costs, times, Elo "
    "intervals and combined leaderboards are not checked: they need more than votes."
)
EARLIER = "Its intervals were made by an earlier rule, so they are not recomputed."
UNNAMED = "Votes are under review: whom it names as first is not checked."
LATER = "Its intervals are from an earlier refresh or release, so they are not checked."


class Command(BaseCommand):
    help = "Check an exported vote log and refit its leaderboards, without a database."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path, metavar="FILE", help="a log.jsonl")
        parser.add_argument("--key", help="the public key that must have signed it")

    def handle(self, *args: Any, path: Path, key: str | None, **options: Any) -> None:
        try:
            file = read_log(path)
            faults = check_log(file, key)
            boards = [check_board(file, line) for line in file.boards]
        except (OSError, UnicodeError) as error:
            raise CommandError(f"{path} cannot be read: {error}.") from None
        except (LogFileError, NotConvergedError, CrossCheckError) as error:
            raise CommandError(_plain(str(error))) from None
        except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError):
            raise CommandError(f"{path} failed the check: lines are damaged or missing.") from None
        self._say(f"{file.arena['name']} ({file.arena['slug']})")
        for line in list_faults(faults):
            self._say(line)
        if not faults and file.links:
            head = file.links[-1]
            self._say(f"The log is unbroken: {len(file.links):,} signed links.")
            self._say(f"Head: {head.number} {head.digest}")
            self._say(f"Key:  {head.key}")
        for board in boards:
            self._print_board(file, board)
        self.stdout.write(f"\n{NOT_CHECKED}")
        n_wrong = len(faults) + sum(len(board.faults) for board in boards)
        if n_wrong:
            raise CommandError(f"{path} failed the check: {numbered(n_wrong, 'fault')}.")

    def _print_board(self, file: LogFile, board: CheckedBoard) -> None:
        line = board.line
        self.stdout.write("")
        self._say(f"{board_name(line)}: {line['n_votes']:,} votes")
        merged: dict[int, list[str]] = {}
        for alias, into in line.get("merged", ()):
            merged.setdefault(into, []).append(_name(file, alias))
        for into, aliases in merged.items():
            self._say(f"Counted as {_name(file, into)}: {', '.join(aliases)}.")
        for row in sorted(board.standings, key=lambda row: (row["rank"] is None, row["rank"])):
            interval = f"{_number(row['low'])} to {_number(row['high'])}"
            name = _name(file, row["candidate"])
            rank = "-" if row["rank"] is None else f"{row['rank']:.0f}"
            score = _number(row["score"])
            self._say(f"{rank:>4}  {score:>8}  {interval:<20}  {name}")
        if line["by_earlier_rule"]:
            self.stdout.write(EARLIER)
        elif not has_checked_intervals(line):
            self.stdout.write(LATER)
        if is_under_review(line):
            self.stdout.write(UNNAMED)
        for fault in list_faults(board.faults):
            self._say(fault)
        if not board.faults:
            self.stdout.write(f"All {board.n_numbers:,} numbers match the published ones.")

    def _say(self, line: str) -> None:
        self.stdout.write(_plain(line))


def _name(file: LogFile, candidate: int) -> str:
    return file.candidates.get(candidate, f"candidate {candidate}")


def _plain(line: str) -> str:
    """The line without what a forged file might hold to rewrite the reader's terminal."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
