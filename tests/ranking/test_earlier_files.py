"""Of vote logs and HTML copies that earlier versions wrote, the scores are still checked."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry

# As Ringside itself wrote them: `log-N.jsonl` is of version N, the copy of the votes of log 3.
EARLIER = Path(__file__).parent / "earlier"
LOGS = sorted(EARLIER.glob("log-*.jsonl"))
Lines = list[dict[str, Any]]


def lines_of(path: Path) -> Lines:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_scores_of_an_earlier_log_are_checked_and_intervals_are_not(
    path: Path, capsys: Any
) -> None:
    lines = lines_of(path)
    assert lines[0]["version"] == int(path.stem[-1])
    boards = [line for line in lines if line["type"] == "leaderboard"]
    assert any(row["low"] is not None for board in boards for row in board["standings"])
    call_command("verify", path)
    printed = capsys.readouterr().out
    assert "The log is unbroken" in printed
    assert printed.count("numbers match the published") == len(boards) == 6
    assert printed.count("by an earlier rule, so they are not recomputed") == len(boards)


def scored(lines: Lines) -> dict[str, Any]:
    boards = (line["standings"] for line in lines if line["type"] == "leaderboard")
    return next(row for rows in boards for row in rows if row["score"] is not None)


def first_vote(lines: Lines) -> dict[str, Any]:
    return next(line for line in lines if line["type"] == "vote")


REWRITES: list[Callable[[Lines], Any]] = [
    lambda lines: scored(lines).update(score=1200.0),
    lambda lines: scored(lines).update(wins=99),
    lambda lines: first_vote(lines).update(outcome="tie"),
]


@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_rewritten_earlier_log_does_not_check_out(
    path: Path, rewrite: Callable[[Lines], Any], tmp_path: Path
) -> None:
    lines = lines_of(path)
    rewrite(lines)
    forged = tmp_path / path.name
    forged.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(CommandError, match="failed the check"):
        call_command("verify", forged)


def test_scores_of_an_earlier_copy_come_from_its_votes() -> None:
    page = (EARLIER / "copy-of-log-3.html").read_text()
    found = re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found
    data = json.loads(found[1])
    ids = [pk for pk, _ in data["candidates"]]
    left, right, share, weight, _ = zip(*data["votes"], strict=True)
    a, b = ([ids.index(pk) for pk in side] for side in (left, right))
    votes = Battles.from_arrays(a, b, share, weight, n_candidates=len(ids))
    scores = [score for _, score in data["candidates"]]
    np.testing.assert_allclose(BradleyTerry().fit(votes).ratings_, scores, atol=1e-6)
