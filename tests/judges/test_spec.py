"""What identifies a judge."""

from dataclasses import replace

import pytest

from judges.core.rubric import load_rubric
from judges.core.spec import JudgeSpec, SpecError, check_pinned, family_of

SPEC = JudgeSpec("local", "qwen2.5-7b-instruct", load_rubric("pairwise"))


def test_the_digest_is_stable() -> None:
    assert SPEC.digest == replace(SPEC).digest
    assert len(SPEC.digest) == 64


@pytest.mark.parametrize(
    "other",
    [
        replace(SPEC, endpoint="elsewhere"),
        replace(SPEC, model="qwen2.5-14b-instruct"),
        replace(SPEC, order_policy="tie"),
        replace(SPEC, rubric=replace(SPEC.rubric, digest="0")),
        replace(SPEC, rubric=replace(SPEC.rubric, parameters={"temperature": 1})),
    ],
)
def test_everything_that_could_change_a_verdict_changes_the_digest(other: JudgeSpec) -> None:
    assert other.digest != SPEC.digest


def test_the_parsers_version_is_part_of_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = SPEC.digest
    monkeypatch.setattr("judges.core.spec.PARSER_VERSION", 1000)
    assert SPEC.digest != before


@pytest.mark.parametrize("model", ["latest", "qwen2.5:latest", "chatgpt-4o-latest", "x/auto"])
def test_an_alias_is_refused_with_a_sentence(model: str) -> None:
    with pytest.raises(SpecError, match="Name a pinned version"):
        check_pinned(model)


@pytest.mark.parametrize("model", ["gpt-4o-2024-08-06", "qwen2.5:7b", "latestage-1", "scripted-1"])
def test_a_pinned_model_is_taken(model: str) -> None:
    check_pinned(model)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("gpt-4o-2024-08-06", "openai"),
        ("openai/o3-mini", "openai"),
        ("claude-3-5-sonnet-20241022", "anthropic"),
        ("meta-llama/Llama-3.1-8B-Instruct", "meta"),
        ("qwen2.5-7b-instruct", "qwen"),
        ("prometheus-eval/prometheus-7b-v2.0", "mistral"),
        ("judge-7b", "judge"),
        ("7b", "7b"),
    ],
)
def test_the_family_is_the_models_maker(model: str, family: str) -> None:
    assert family_of(model) == family
