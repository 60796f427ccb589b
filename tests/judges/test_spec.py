"""What identifies a judge."""

from dataclasses import replace
from typing import Any

import pytest

from judges.core.parsing import reader_digest
from judges.core.rubric import Scale, load_rubric
from judges.core.spec import (
    PROMPT_VERSION,
    Example,
    JudgeSpec,
    SpecError,
    check_pinned,
    family_of,
)

PAIRWISE = load_rubric("pairwise")
SPEC = JudgeSpec("local", "qwen2.5-7b-instruct", PAIRWISE)
EXAMPLE = Example("Why?", ("So.", "No."), "left", "It says so.")
SHOWN = replace(SPEC, examples=(EXAMPLE, replace(EXAMPLE, verdict="tie")))


def test_the_digest_is_stable() -> None:
    assert SPEC.digest == replace(SPEC).digest
    assert len(SPEC.digest) == 64


# The digests of judges that an earlier release registered, with its reader of replies.
KEPT = {
    "additive": "fd24287c5d3cc091",
    "additive-points": "69a0817b6dd82d77",
    "checklist": "4a2f0cf868ce7ea3",
    "listwise": "00c27706dbad99bf",
    "pairwise": "854fbb74caddaae0",
    "pairwise-note": "eddbbacca02ec66e",
    "pairwise-reference": "b92cfe0646db53c1",
    "prometheus-absolute": "8131929936a0b5e8",
    "prometheus-absolute-reference": "b738ffb98809d9b5",
    "prometheus-relative": "fe5de24eab32364b",
    "prometheus-relative-reference": "bfcd7a2f2e477958",
    "score-1-4": "218e15489322477e",
}
EARLIER = replace(SPEC, schema=False)


@pytest.mark.parametrize("slug", KEPT)
def test_digests_of_earlier_judges_are_recognised(slug: str) -> None:
    spec = replace(EARLIER, rubric=load_rubric(slug))
    assert spec.digest_with("", 1)[:16] == KEPT[slug]
    assert (
        spec.digest == spec.digest_with(reader_digest(), PROMPT_VERSION) != spec.digest_with("", 1)
    )


@pytest.mark.parametrize(
    ("option", "digest"),
    [
        ({"soft": True}, "f27ad9e5005df65f"),
        ({"swap_policy": "average"}, "dc35092801eb4a45"),
    ],
)
def test_options_of_earlier_judges_keep_their_digests(option: dict[str, Any], digest: str) -> None:
    assert replace(EARLIER, **option).digest_with("", 1)[:16] == digest


@pytest.mark.parametrize(("slug", "readings"), [("pairwise", 0), ("pairwise", 10), ("listwise", 3)])
def test_how_often_a_judge_may_be_asked(slug: str, readings: int) -> None:
    with pytest.raises(SpecError, match=r"times|once"):
        replace(SPEC, rubric=load_rubric(slug), readings=readings)


def test_limit_and_effort_replace_the_rubrics_parameters() -> None:
    own = replace(SPEC, output_limit=4096, effort="low")
    assert SPEC.parameters == {"temperature": 0, "max_tokens": 1024}
    assert own.parameters == SPEC.parameters | {"max_tokens": 4096, "reasoning_effort": "low"}
    assert own.label.endswith("@pairwise+limit4096+effort-low")


@pytest.mark.parametrize("option", [{"output_limit": 10}, {"output_limit": 10**6}, {"effort": "x"}])
def test_a_limit_or_an_effort_that_makes_no_sense_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"output limit is|Unknown effort"):
        replace(SPEC, **option)


@pytest.mark.parametrize(
    "other",
    [
        replace(SPEC, endpoint="elsewhere"),
        replace(SPEC, model="qwen2.5-14b-instruct"),
        replace(SPEC, swap_policy="tie"),
        replace(SPEC, swap_policy="average"),
        replace(SPEC, length_neutral=False),
        replace(SPEC, soft=True),
        replace(SPEC, readings=3),
        replace(SPEC, schema=False),
        replace(SPEC, output_limit=4096),
        replace(SPEC, effort="low"),
        SHOWN,
        *(
            replace(SPEC, rubric=replace(PAIRWISE, **change))
            for change in (
                {"slug": "other"},
                {"digest": "0"},
                {"parameters": {"temperature": 1}},
                {"verdict": "prometheus"},
                {"reference": "required"},
                {"note": "Write a note."},
                {"scale": Scale.integers(1, 5)},
                {"scale": Scale.integers(1, 4)},
            )
        ),
    ],
)
def test_digest_covers_all_that_could_change_a_verdict(other: JudgeSpec) -> None:
    assert other.digest != SPEC.digest


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "How?"},
        {"answers": ("So.", "Yes.")},
        {"answers": ("No.", "So.")},
        {"verdict": "right"},
        {"reason": ""},
        {"reference": "So."},
    ],
)
def test_each_part_of_an_example_changes_the_digest(change: dict[str, Any]) -> None:
    changed = replace(SHOWN, examples=(replace(EXAMPLE, **change), SHOWN.examples[1]))
    assert changed.digest != SHOWN.digest


def test_the_order_of_the_examples_changes_the_digest() -> None:
    assert replace(SHOWN, examples=SHOWN.examples[::-1]).digest != SHOWN.digest


def test_the_protocol_changes_the_digest() -> None:
    listwise = replace(SPEC, rubric=replace(PAIRWISE, protocol="listwise"))
    assert listwise.digest != SPEC.digest


@pytest.mark.parametrize(
    "same", [replace(SPEC, unpinned=True), replace(SPEC, length_neutral=True), replace(SPEC)]
)
def test_what_changes_no_verdict_leaves_the_digest(same: JudgeSpec) -> None:
    assert same.digest == SPEC.digest


def test_the_reader_and_the_version_of_the_prompts_are_in_the_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert SPEC.digest_with("another reader", PROMPT_VERSION) != SPEC.digest
    before = SPEC.digest
    monkeypatch.setattr("judges.core.spec.PROMPT_VERSION", 1000)
    assert SPEC.digest != before


@pytest.mark.parametrize(
    ("spec", "suffix"),
    [
        (SPEC, ""),
        (replace(SPEC, length_neutral=True, unpinned=True), ""),
        (replace(SPEC, length_neutral=False), "+anylength"),
        (replace(SPEC, swap_policy="tie"), "/tie"),
        (replace(SPEC, soft=True, swap_policy="tie"), "+soft/tie"),
        (
            replace(SHOWN, length_neutral=False, swap_policy="average"),
            "+examples2+anylength/average",
        ),
    ],
)
def test_the_label_names_what_was_switched(spec: JudgeSpec, suffix: str) -> None:
    assert spec.label == f"local:qwen2.5-7b-instruct@pairwise{suffix}"


def test_the_prometheus_formats_are_as_trained_unless_switched() -> None:
    spec = JudgeSpec("local", "prometheus-7b-v2.0", load_rubric("prometheus-relative"))
    assert not spec.is_length_neutral
    assert not spec.takes_schema
    switched = replace(spec, length_neutral=True)
    assert switched.label.endswith("@prometheus-relative+evenlength")
    assert switched.digest != spec.digest


@pytest.mark.parametrize(
    ("slug", "example", "says"),
    [
        ("pairwise", replace(EXAMPLE, answers=("one",)), "cannot show an example with 1 answers"),
        ("pairwise", replace(EXAMPLE, verdict="A"), "no verdict 'A'"),
        ("pairwise", replace(EXAMPLE, verdict="both_bad"), "no verdict 'both_bad'"),
        ("prometheus-relative", replace(EXAMPLE, verdict="tie"), "no verdict 'tie'"),
        ("pairwise-reference", EXAMPLE, "needs a reference"),
        ("score-1-4", EXAMPLE, "cannot show an example with 2 answers"),
        ("score-1-4", Example("Why?", ("So.",), "5"), "no verdict '5'"),
        ("score-1-4", Example("Why?", ("So.",), "left"), "no verdict 'left'"),
        ("listwise", Example("Why?", ("a", "b", "c"), "A > B"), "no verdict 'A > B'"),
        ("listwise", Example("Why?", ("a", "b", "c"), "A > B > B"), "no verdict"),
        ("listwise", Example("Why?", ("a", "b", "c"), "A > B < C"), "no verdict"),
    ],
)
def test_an_example_that_the_rubric_could_not_judge_is_refused(
    slug: str, example: Example, says: str
) -> None:
    with pytest.raises(SpecError, match=says):
        JudgeSpec("local", "m-1", load_rubric(slug), examples=(example,))


def test_examples_that_fit_are_taken() -> None:
    ordered = Example("Why?", ("a", "b", "c"), "C = A > B")
    assert JudgeSpec("local", "m-1", load_rubric("listwise"), examples=(ordered,)).examples
    rated = Example("Why?", ("a",), "4")
    assert JudgeSpec("local", "m-1", load_rubric("score-1-4"), examples=(rated,)).examples


def test_an_unknown_order_policy_is_refused() -> None:
    with pytest.raises(SpecError, match="Unknown order policy 'coin'; known: abstain, tie"):
        replace(SPEC, swap_policy="coin")


def test_a_direct_assessment_has_no_orders() -> None:
    with pytest.raises(SpecError, match="no order policy"):
        JudgeSpec("local", "m-1", load_rubric("score-1-4"), swap_policy="tie")


ALIASES = [
    "latest",
    "qwen2.5:latest",
    "chatgpt-4o-latest",
    "x/auto",
    "claude-3-5-sonnet-latest",
    "claude-sonnet-4-5",
    "anthropic/claude-3.5-sonnet",
    "gpt-4o",
    "openai/gpt-4o-mini",
    "gpt-4",
    "gpt-3.5-turbo",
    "gpt-4-turbo-preview",
    "o1-preview",
    "o3-mini",
    "gemini-1.5-pro",
    "gemini-flash-latest",
    "gemini-2.5-flash-preview",
    "deepseek-chat",
    "mistral-large-latest",
    "mistral-large",
]
PINNED = [
    "gpt-4o-2024-08-06",
    "gpt-4-0613",
    "gpt-4-0125-preview",
    "o1-preview-2024-09-12",
    "claude-3-5-sonnet-20241022",
    "gemini-1.5-pro-002",
    "gemini-2.5-pro-preview-05-06",
    "mistral-large-2411",
    "mistralai/Mistral-7B-Instruct-v0.2",
    "prometheus-eval/prometheus-7b-v2.0",
    "openai/gpt-oss-20b",
    "Qwen/QwQ-32B-Preview",
    "qwen2.5:7b",
    "latestage-1",
    "autoj-13b",
    "scripted-1",
]


@pytest.mark.parametrize("model", ALIASES)
def test_an_alias_is_refused_with_a_sentence(model: str) -> None:
    with pytest.raises(SpecError, match="pinned version"):
        check_pinned(model)


@pytest.mark.parametrize("model", ALIASES + PINNED)
def test_anyone_who_says_unpinned_gets_any_model(model: str) -> None:
    check_pinned(model, unpinned=True)


@pytest.mark.parametrize("model", PINNED)
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


def test_soft_scores_are_another_judge_and_no_other_digest_knows_of_them() -> None:
    direct = replace(SPEC, rubric=load_rubric("score-1-4"))
    assert "scores" not in direct._own_facts()
    assert "scores" not in replace(SPEC, soft=True)._own_facts()
    assert replace(direct, soft=True)._own_facts()["scores"] == "expected"
