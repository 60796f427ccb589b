"""`manage.py rank FILE`: rank a file of votes without a database."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.files.reader import FileError
from arena.formats import opened, renamed
from arena.formats.base import RejectedRows
from arena.formats.warnings import Warnings
from arena.management.commands import ProgressBars, add_format
from arena.validation import join_names
from ranking.anchor import Anchor
from ranking.votes import RATERS, BadFileError, VoteTable, read_file

FURTHEST = 1_000_000  # from 0; beyond, the digits of a score would not tell two candidates apart
MERGE = "They are ranked apart. If they are one, name them {into} throughout."
CLUSTERS = ("auto", "prompt", "prompt_pair", "unit", "rater", "none")


class Command(BaseCommand):
    help = "Rank a file, folder or zip archive of votes, without a database."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path, metavar="FILE", help="file, folder or zip archive")
        add_format(parser)
        parser.add_argument(
            "--raters",
            choices=["auto", *RATERS],
            default="auto",
            help="whose votes to count; auto: people's, or judges' if no person has voted",
        )
        parser.add_argument(
            "--cluster",
            choices=list(CLUSTERS),
            default="auto",
            help="which votes to treat as dependent; unit: by prompt and pair; auto: as on the"
            " leaderboards, people's by prompt (or its document) and rater, others' by prompt",
        )
        parser.add_argument(
            "--bootstrap", type=_at_least(2), default=1000, metavar="N", help="replicates (1000)"
        )
        parser.add_argument(
            "--seed", type=_at_least(0), default=0, metavar="S", help="random seed (0)"
        )
        parser.add_argument(
            "--skip-bad", action="store_true", help="skip bad rows, and list the first of them"
        )
        asked = parser.add_mutually_exclusive_group()
        asked.add_argument(
            "--anchor",
            type=_anchored,
            metavar="NAME=SCORE",
            help="give this candidate this score; all others move with it, and no difference"
            " changes (otherwise the mean is 1000)",
        )
        asked.add_argument(
            "--compare",
            nargs=2,
            metavar=("B", "A"),
            help="say whether candidate B is better than candidate A, instead of ranking all",
        )
        parser.add_argument(
            "--margin",
            type=_percentage,
            metavar="PERCENT",
            help="with --compare: a win rate above it, below 50, is no worse",
        )
        parser.add_argument("--json", action="store_true", help="print JSON instead of a table")

    def handle(self, *args: Any, path: Path, **options: Any) -> None:
        places, warnings = {path: path}, Warnings()
        try:
            with opened([path]) as places, ThreadPoolExecutor(1) as pool:
                reading = pool.submit(_read_votes, places[path], options, warnings)
                # Loading SciPy takes as long as reading a million votes.
                from ranking import rank_file  # noqa: PLC0415  (meanwhile)
                from ranking.question import Question  # noqa: PLC0415  (as above)

                votes, rejected = reading.result()
            question = Question(
                options["raters"],
                n_resamples=options["bootstrap"],
                seed=options["seed"],
                cluster=options["cluster"],
            )
            if anchor := options["anchor"]:
                name, score = anchor
                chosen = Anchor(rank_file.find_candidate(votes, name), score)
                question = replace(question, anchor=chosen)
            if pair := options["compare"]:
                b, a = pair
                compared = rank_file.compare_two(
                    places[path], votes, question, b, a, options["margin"]
                )
                text = compared.json if options["json"] else compared.sentence
            else:
                board = rank_file.rank_votes(places[path], votes, question)
                text = (rank_file.as_json if options["json"] else rank_file.as_table)(board)
        except (BadFileError, FileError) as problem:
            raise CommandError(renamed(str(problem), places)) from None
        self.stdout.write(text)
        if bad := rejected.count:
            lines = renamed(str(rejected), places)
            self.stderr.write(f"{lines}\n{bad:,} bad row{'s' * (bad > 1)} skipped.")
        if unread := list(warnings.unread):
            self.stderr.write(f"Not used: {join_names(unread)}.")
        for sentence in warnings.sentences(MERGE):
            self.stderr.write(sentence)


def _read_votes(
    path: Path, options: dict[str, Any], warnings: Warnings
) -> tuple[VoteTable, RejectedRows]:
    with ProgressBars(quiet=False, unit="B") as progress:
        return read_file(
            path,
            options["format"],
            columns=dict(options["column"]),
            values=dict(options["value"]),
            skip_bad=options["skip_bad"],
            progress=lambda *told: progress("reading", *told),
            warnings=warnings,
        )


def _percentage(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 50:
        raise ArgumentTypeError(f"must be a number between 0 and 50, not {text!r}")
    return number / 100


def _anchored(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        score = float(number)
    except ValueError:
        score = inf
    if not abs(score) <= FURTHEST:  # NaN neither
        raise ArgumentTypeError(
            f"must be NAME=SCORE, with a number of at most {FURTHEST:,} as the score, not {text!r}"
        )
    return name, score


def _at_least(least: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise ArgumentTypeError(f"must be a whole number of at least {least}, not {text!r}")
        return int(text)

    return whole
