"""Real replies of real judges are read correctly."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from judges.core.parsing import parse_pairwise, parse_prometheus_score, parse_structured
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


def test_every_real_preference_is_read_as_an_order(data_dir: Path) -> None:
    for reply, best, _ in explained_choices(data_dir):
        verdict = [[best], ["A" if best == "B" else "B"]]
        content = json.dumps({"reasoning": reply, "verdict": verdict})
        read = parse_structured(content, "listwise", n=2)
        assert read.order == (((0,), (1,)) if best == "A" else ((1,), (0,)))


def test_real_explanations_below_a_verdict_support_it_or_refuse_it(data_dir: Path) -> None:
    """None is read below the verdict that it contradicts, and most are below their own."""
    outcomes = Counter()
    for explanation, best, other in explained_choices(data_dir):
        if "Answer" not in explanation:  # it prefers neither
            continue
        for letter in (best, other):
            read = parse_pairwise(f"VERDICT-0f1e: {letter}\n\n{explanation}", "0f1e")
            outcomes[letter == best, read.state] += 1
    assert outcomes[False, "done"] == 0
    assert outcomes[True, "done"] >= 0.95 * (outcomes[True, "done"] + outcomes[True, "unreadable"])


def explained_choices(data_dir: Path) -> Iterator[tuple[str, str, str]]:
    """Yield real judges' explanations with the better and the worse of the answers A and B."""
    for row in read_jsonl(data_dir / "judge-replies" / "alpaca_eval_cot_fn.jsonl"):
        ranks = {item["model"]: item["rank"] for item in row["raw_reply"]["ordered_models"]}
        if ranks["m"] != ranks["M"]:
            text = re.sub(
                r"(?i:\b(?:the )?model )?(['\"]?)(?<!\w)([mM])(?!\w)\1",
                lambda name: "Answer A" if name[2] == "m" else "Answer B",
                row["raw_reply"]["concise_explanation"],
            )
            best, other = ("A", "B") if ranks["m"] < ranks["M"] else ("B", "A")
            yield re.sub("(?i)models", "answers", text), best, other
