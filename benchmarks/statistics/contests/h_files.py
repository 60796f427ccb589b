"""A CSV file ranked by a command: ours with intervals and ranks, evalica's with scores only."""

import os
import subprocess
import sys
import tempfile
from functools import cache, partial
from pathlib import Path

import numpy as np

from benchmarks.statistics.contest import Call, Contest, Contestant, Rival
from benchmarks.statistics.votes import SEED, votes

REPOSITORY = Path(__file__).resolve().parents[3]
PYTHON = str(REPOSITORY / ".venv" / "bin" / "python")
OUTCOMES = ("right", "tie", "left")
N_RATERS = 10_000  # some cast a hundred times as many votes as others
COLUMNS = ("left", "right", "winner", "prompt", "rater")
# The minimum for any reader of columns: reading the file and doing the necessary counting.
COLUMNAR = """
import sys
import pyarrow
from pyarrow import csv
path, *names = sys.argv[1:]
texts = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
options = csv.ConvertOptions(column_types=dict.fromkeys(names, texts))
table = csv.read_csv(path, convert_options=options).unify_dictionaries()
table.group_by(names).aggregate([([], "count_all")])
"""


@cache
def file(n_columns: int) -> tuple[str, tempfile.TemporaryDirectory[str]]:
    """The votes with the first of COLUMNS; the folder is removed with this process."""
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "votes.csv"
    left, right, _ = votes().names()
    outcome = (OUTCOMES[o] for o in (2 * votes().score).astype(int).tolist())
    prompt = (f"prompt-{number:05d}" for number in votes().prompt.tolist())
    activity = 1 / np.sqrt(np.arange(1, N_RATERS + 1))
    draw = np.random.default_rng(SEED)
    cast_by = draw.choice(N_RATERS, len(left), p=activity / activity.sum()).tolist()
    rater = (f"rater-{number:05d}" for number in cast_by)
    columns = (left, right, outcome, prompt, rater)[:n_columns]
    with path.open("w") as stream:
        stream.write(",".join(COLUMNS[:n_columns]) + "\n")
        stream.writelines(",".join(row) + "\n" for row in zip(*columns, strict=True))
    return str(path), folder


def command(*words: str) -> Call:
    environment = os.environ | {"SECRET_KEY": "benchmarks-only-" + "k" * 50}
    environment = {
        name: value
        for name, value in environment.items()
        if not name.endswith(("_NUM_THREADS", "DONTWRITEBYTECODE"))  # as users run a command
    }

    def run() -> None:
        subprocess.run(
            words, cwd=REPOSITORY, env=environment, check=True, stdout=subprocess.DEVNULL
        )

    return run


def ours(n_columns: int) -> Call:
    return command(PYTHON, "manage.py", "rank", file(n_columns)[0])


def columnar(n_columns: int) -> Call:
    return command(PYTHON, "-c", COLUMNAR, file(n_columns)[0], *COLUMNS[:n_columns])


def evalica(n_columns: int) -> Call:
    program = str(Path(sys.executable).with_name("evalica"))
    return command(program, "-i", file(n_columns)[0], "pairwise", "bradley-terry")


def contest(n_columns: int, what: str) -> Contest:
    return Contest(
        f"`manage.py rank` on a CSV file {what}, with 1,000 replicates",
        Contestant("manage.py rank", partial(ours, n_columns)),
        (
            Rival(
                "pyarrow: the file read and its rows counted",
                partial(columnar, n_columns),
                faster=1 / 4,
            ),
            Rival("evalica: its command, without intervals", partial(evalica, n_columns), faster=1),
        ),
        rounds=7,
    )


CONTESTS = [contest(3, "of results"), contest(5, "with prompts and raters")]
