"""Real replies of real judges are read correctly, as text and as JSON."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from judges.core.parsing import (
    LETTERS,
    Asked,
    ReadReply,
    last_named_winner,
    parse_prometheus_score,
    read_reply,
)
from tests.judges.helpers import read_jsonl

pytestmark = pytest.mark.data

NONCE = "0f1e2d3c4b5a6978"
FIVE = tuple("12345")


def rewritten(reasons: str, verdict: str) -> Iterator[tuple[str, bool]]:
    """Yield reasons and a verdict in both forms that judges are asked for."""
    yield f"{reasons}\n\nVERDICT-{NONCE}: {verdict}", False
    yield json.dumps({"reasoning": reasons, "verdict": verdict}, ensure_ascii=False), True


def test_real_reasons_with_their_verdicts_are_read_in_both_forms(data_dir: Path) -> None:
    outcomes: Counter[str] = Counter()

    def count(read: ReadReply, meant: str) -> None:
        outcomes["right" if (read.outcome or read.label) == meant else read.state] += 1

    for reasons, verdict in explained_choices(data_dir):
        for reply, structured in rewritten(reasons, verdict):
            asked = Asked("pairwise", NONCE, structured=structured)
            count(read_reply(reply, asked), LETTERS[verdict])
    for row in read_jsonl(data_dir / "judge-replies" / "vicuna_bench_gpt4_direct.jsonl"):
        reasons, score = row["gpt4_feedback"][0], str(row["gpt4_scores_3_runs"][0])
        for reply, structured in rewritten(reasons, score):
            asked = Asked("direct", NONCE, labels=FIVE, structured=structured)
            count(read_reply(reply, asked), score)
    assert outcomes.total() == 2 * 720
    assert outcomes["right"] >= 0.99 * outcomes.total()
    assert outcomes["done"] == 0, "one was read wrongly"


def test_every_real_feedback_with_its_result_gives_the_score(data_dir: Path) -> None:
    wrong, seen = [], 0
    for row in read_jsonl(data_dir / "judge-replies" / "vicuna_bench_gpt4_direct.jsonl"):
        runs = zip(row["gpt4_feedback"], row["gpt4_scores_3_runs"], strict=True)
        for feedback, score in runs:
            read = parse_prometheus_score(f"Feedback: {feedback} [RESULT] {score}", FIVE)
            seen += 1
            if (read.state, read.label) != ("done", str(score)):
                wrong.append((row["idx"], read))
            assert parse_prometheus_score(f"Feedback: {feedback}", FIVE).state == "unreadable"
    assert (seen, wrong) == (960, [])


def test_the_winner_that_real_reasons_name_last_is_nearly_always_the_verdict(
    data_dir: Path,
) -> None:
    named = [
        last_named_winner(reasons) == LETTERS[verdict]
        for reasons, verdict in explained_choices(data_dir)
        if last_named_winner(reasons) and verdict != "TIE"
    ]
    assert len(named) > 100
    assert sum(named) >= 0.97 * len(named)


def explained_choices(data_dir: Path) -> Iterator[tuple[str, str]]:
    """Yield real judges' explanations of answers A and B, and their verdicts."""
    for row in read_jsonl(data_dir / "judge-replies" / "alpaca_eval_cot_fn.jsonl"):
        ranks = {item["model"]: item["rank"] for item in row["raw_reply"]["ordered_models"]}
        text = re.sub(
            r"(?i:\b(?:the )?model )?(['\"]?)(?<!\w)([mM])(?!\w)\1",
            lambda name: "Answer A" if name[2] == "m" else "Answer B",
            row["raw_reply"]["concise_explanation"],
        )
        verdict = "A" if ranks["m"] < ranks["M"] else "B" if ranks["M"] < ranks["m"] else "TIE"
        yield re.sub("(?i)models", "answers", text), verdict
