"""A CSV file ranked by a command: ours with intervals and ranks, evalica's with scores only."""

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from benchmarks.statistics.contest import Call, Contest, Contestant, Rival
from benchmarks.statistics.votes import votes

REPOSITORY = Path(__file__).resolve().parents[3]
OUTCOMES = ("right", "tie", "left")
# The minimum for any reader of columns: reading the file and doing the necessary counting.
COLUMNAR = """
import sys
import pyarrow
from pyarrow import csv
texts = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
names = ("left", "right", "winner")
options = csv.ConvertOptions(column_types=dict.fromkeys(names, texts))
table = csv.read_csv(sys.argv[1], convert_options=options).unify_dictionaries()
table.group_by(list(names)).aggregate([([], "count_all")])
"""


@cache
def file() -> tuple[Path, tempfile.TemporaryDirectory[str]]:
    """The votes as `left,right,winner`; the folder is removed with this process."""
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "votes.csv"
    left, right, _ = votes().names()
    outcome = (2 * votes().score).astype(int).tolist()
    with path.open("w") as stream:
        stream.write("left,right,winner\n")
        rows = zip(left, right, outcome, strict=True)
        stream.writelines(f"{a},{b},{OUTCOMES[o]}\n" for a, b, o in rows)
    return path, folder


def command(*words: str) -> Call:
    environment = os.environ | {"SECRET_KEY": "benchmarks-only-" + "k" * 50}
    environment = {
        name: value for name, value in environment.items() if not name.endswith("_NUM_THREADS")
    }

    def run() -> None:
        subprocess.run(
            words, cwd=REPOSITORY, env=environment, check=True, stdout=subprocess.DEVNULL
        )

    return run


def ours() -> Call:
    python = str(REPOSITORY / ".venv" / "bin" / "python")
    return command(python, "manage.py", "rank", str(file()[0]))


def columnar() -> Call:
    python = str(REPOSITORY / ".venv" / "bin" / "python")
    return command(python, "-c", COLUMNAR, str(file()[0]))


def evalica() -> Call:
    program = str(Path(sys.executable).with_name("evalica"))
    return command(program, "-i", str(file()[0]), "pairwise", "bradley-terry")


CONTESTS = [
    Contest(
        "`manage.py rank` on a CSV file, with 1,000 replicates",
        Contestant("manage.py rank", ours),
        (
            Rival("pyarrow: the file read and its rows counted", columnar, faster=1 / 4),
            Rival("evalica: its command, without intervals", evalica, faster=1),
        ),
        rounds=3,
    )
]
