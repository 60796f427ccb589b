"""Real replies of real judges are read correctly."""

import json
from pathlib import Path

import pytest

from judges.core.parsing import parse_ordered_models, parse_prometheus_score
from tests.judges.helpers import read_jsonl

pytestmark = pytest.mark.data


def test_every_real_feedback_with_its_result_gives_the_score(data_dir: Path) -> None:
    wrong, seen = [], 0
    for row in read_jsonl(data_dir / "judge-replies" / "vicuna_bench_gpt4_direct.jsonl"):
        runs = zip(row["gpt4_feedback"], row["gpt4_scores_3_runs"], strict=True)
        for feedback, score in runs:
            read = parse_prometheus_score(f"Feedback: {feedback} [RESULT] {score}", tuple("12345"))
            seen += 1
            if (read.state, read.label) != ("done", str(score)):
                wrong.append((row["idx"], read))
    assert (seen, wrong) == (960, [])


def test_no_real_feedback_without_its_result_gives_a_score(data_dir: Path) -> None:
    for row in read_jsonl(data_dir / "judge-replies" / "vicuna_bench_gpt4_direct.jsonl"):
        for feedback in row["gpt4_feedback"]:
            read = parse_prometheus_score(f"Feedback: {feedback}", tuple("12345"))
            assert read.state == "unreadable"


def test_every_real_function_call_gives_the_recorded_preference(data_dir: Path) -> None:
    """One judge ranked both models equal; its file records a win, and it is read as a tie."""
    ties, seen = [], 0
    for row in read_jsonl(data_dir / "judge-replies" / "alpaca_eval_cot_fn.jsonl"):
        by_output = {output: model for model, output in row["referenced_models"].items()}
        models = (by_output["output_1"], by_output["output_2"])
        for reply in (row["raw_reply"], json.dumps(row["raw_reply"])):
            read = parse_ordered_models(reply, models)
            assert read.state == "done"
            assert read.order is not None
            seen += 1
            if len(read.order) == 1:
                ties.append(row["raw_reply"]["concise_explanation"])
            else:
                assert read.order[0][0] + 1 == row["preference"]
    assert seen == 800
    assert len(ties) == 2
    assert all("equally" in explanation for explanation in ties)
