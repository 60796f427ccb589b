"""`manage.py canary` waits for the first check, so that it can report the result."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from arena.models import Run
from judges.models import DriftCheck
from tests.judges.fake_server import FakeServer, fails, prefers
from tests.judges.helpers import LOCAL, answer_verdicts, pair_row, run_command, write_labels

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick")]


def canary(folder: Path, *arguments: str) -> str:
    path = write_labels(folder, [pair_row(i) for i in range(10)])
    return run_command("canary", LOCAL, "--labels", path, "--cap=1", *arguments)


@pytest.mark.usefixtures("worker")
def test_the_first_check_is_awaited_and_reported(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = answer_verdicts(prefers("GOOD"))
    assert "(baseline), 10 verdicts." in canary(tmp_path)
    assert DriftCheck.objects.get().evaluated_at is not None


@pytest.mark.usefixtures("worker")
def test_the_same_command_again_asks_nothing_more(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = answer_verdicts(prefers("GOOD"))
    canary(tmp_path)
    assert "(baseline), 10 verdicts." in canary(tmp_path)
    assert Run.objects.count() == 1


@pytest.mark.usefixtures("local", "no_worker")
def test_no_wait_leaves_it_under_way(tmp_path: Path) -> None:
    assert "in progress" in canary(tmp_path, "--no-wait")
    with pytest.raises(CommandError, match="No worker is answering"):
        canary(tmp_path)
    assert Run.objects.get().state == "open"


@pytest.mark.usefixtures("worker")
def test_a_paused_first_check_resumes_with_the_same_command(
    tmp_path: Path, local: FakeServer, settings: Any
) -> None:
    local.otherwise = answer_verdicts(prefers("GOOD"))
    run_command("calibrate", LOCAL, "--labels", write_labels(tmp_path, [pair_row(99)]))
    local.otherwise = fails(401, "who are you")
    with pytest.raises(CommandError, match=r"paused: .*401"):
        canary(tmp_path)
    local.otherwise = answer_verdicts(prefers("GOOD"))
    assert "(baseline), 10 verdicts." in canary(tmp_path)
