"""Real replies and real labels, through files, calls and a stored report."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from arena.models import Run
from judges.models import Epoch, LabelSet
from judges.services.calibration import measure_labels
from ranking.stats.agreement import krippendorff_alpha
from tests.judges.fake_server import FakeServer, completion
from tests.judges.helpers import LOCAL, ask_about, epoch_of, read_jsonl, store_labels

pytestmark = [pytest.mark.slow, pytest.mark.any_database, pytest.mark.data, pytest.mark.django_db]
PROMETHEUS = f"{LOCAL}@prometheus-absolute-reference"
HEADINGS = {
    "prompt": "###The instruction to evaluate:\n",
    "response": "\n\n###Response to evaluate:\n",
    "reference": "\n\n###Reference Answer (Score 5):\n",
    "rubric": "\n\n###Score Rubrics:\n",
}


@pytest.fixture
def assessed(data_dir: Path) -> list[dict[str, Any]]:
    return read_jsonl(data_dir / "judge-replies" / "vicuna_bench_gpt4_direct.jsonl")


@pytest.fixture
def labelled(data_dir: Path) -> list[dict[str, Any]]:
    rows = read_jsonl(data_dir / "human-labelled-pairs" / "autoj_eval.jsonl")
    return [row for row in rows if row["response_1"].strip() and row["response_2"].strip()]


def taken_apart(row: dict[str, Any]) -> dict[str, Any]:
    """The parts of a stored prompt, as a label; the score is the mean of the three runs."""
    rest, parts = row["prometheus_prompt"], {}
    for name, heading in reversed(HEADINGS.items()):
        rest, parts[name] = rest.rsplit(heading, 1)
    parts["rubric"] = parts["rubric"].rsplit("\n\n###Feedback:", 1)[0]
    score = sum(row["gpt4_scores_3_runs"]) / 3
    return parts | {"score": score, "category": str(row["category"]), "rater": "mean"}


class Replay:
    """Answers each stored prompt with its next stored reply."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = {row["prometheus_prompt"].strip(): row for row in rows}
        self.told: Counter[str] = Counter()

    def __call__(self, body: dict[str, Any]) -> Any:
        asked = body["messages"][-1]["content"].strip()
        row, run = self.rows[asked], self.told[asked]
        self.told[asked] += 1
        feedback, score = row["gpt4_feedback"][run], row["gpt4_scores_3_runs"][run]
        return completion(f"Feedback: {feedback} [RESULT] {score}")


def measured(rows: list[dict[str, Any]], folder: Path, local: FakeServer) -> dict[str, Any]:
    local.otherwise = Replay(rows)
    labels_in, epoch = (
        store_labels(folder, [taken_apart(row) for row in rows]),
        epoch_of(PROMETHEUS),
    )
    ask_about(epoch, labels_in, samples=(0, 1, 2))
    assert len(local.requests) == 3 * len(rows)
    return measure_labels(epoch=epoch, labels_in=labels_in, now=timezone.now()).report


def alphas(report: dict[str, Any]) -> dict[str, float]:
    return {name: report["repeats"][name]["value"] for name in ("nominal", "ordinal", "interval")}


def test_replayed_runs_have_the_alpha_of_their_scores(
    assessed: list[dict[str, Any]], tmp_path: Path, local: FakeServer
) -> None:
    rows = assessed[:40]
    report = measured(rows, tmp_path, local)
    unit = [i for i in range(len(rows)) for _ in range(3)]
    values = [float(score) for row in rows for score in row["gpt4_scores_3_runs"]]
    expected = {level: krippendorff_alpha(unit, values, level) for level in alphas(report)}
    assert alphas(report) == pytest.approx(expected)
    assert (report["states"]["done"], report["n_labels"]) == (40, 40)
    assert report["against_all"]["pearson"]["value"] > 0.8


@pytest.mark.slow
def test_all_replayed_runs_have_the_published_alphas(
    assessed: list[dict[str, Any]], tmp_path: Path, local: FakeServer
) -> None:
    report = measured(assessed, tmp_path, local)
    found = {name: round(value, 4) for name, value in alphas(report).items()}
    assert found == {"nominal": 0.5822, "ordinal": 0.7234, "interval": 0.8075}
    assert report["n_items"] == 320


def against_length(rows: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    labels_in, epoch = store_labels(folder, rows), epoch_of("scripted")
    ask_about(epoch, labels_in)
    return measure_labels(epoch=epoch, labels_in=labels_in, now=timezone.now()).report


def plain_count(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """How often the longer answer has the label, of how many that choose a side."""
    met = Counter((row["label"], _longer(row)) for row in rows)
    decided = sum(n for both, n in met.items() if "tie" not in both)
    return met["1", "1"] + met["2", "2"], decided


def _longer(row: dict[str, Any]) -> str:
    first, second = len(row["response_1"]), len(row["response_2"])
    return "1" if first > second else "2" if second > first else "tie"


def check_lengths(report: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    hits, decided = plain_count(rows)
    assert report["n_labels"] == len(rows)
    assert report["by_length"]["n"] == decided
    assert report["by_length"]["value"] == pytest.approx(hits / decided)
    assert report["against_length"]["n"] == decided - hits
    assert {one["category"] for one in report["categories"]} == {row["scenario"] for row in rows}


def test_share_won_by_the_longer_equals_a_plain_count(
    labelled: list[dict[str, Any]], tmp_path: Path
) -> None:
    check_lengths(against_length(labelled[:60], tmp_path), labelled[:60])


@pytest.mark.slow
def test_longer_wins_in_the_whole_file_as_a_plain_count_says(
    labelled: list[dict[str, Any]], tmp_path: Path
) -> None:
    assert len(labelled) == 733
    check_lengths(against_length(labelled, tmp_path), labelled)
    assert Run.objects.get().state == "done"
    assert LabelSet.objects.get().calibrations.get().epoch == Epoch.objects.get()
