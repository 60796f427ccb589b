"""From a typed name to a judge."""

from dataclasses import replace
from typing import Any

import pytest

from arena.endpoints import Endpoint
from arena.models import Rater
from judges.models import Judge
from judges.services import rubrics
from judges.services.registry import JudgeError, register_judge, spec_named

pytestmark = pytest.mark.django_db


def test_scripted_needs_neither_key_nor_model() -> None:
    epoch = register_judge(spec=spec_named("scripted"))
    judge = epoch.judge
    assert (judge.name, judge.family) == ("scripted:scripted-1@pairwise", "scripted")
    assert judge.is_scripted
    assert epoch.rater.kind == Rater.Kind.JUDGE


def test_any_name_of_a_judge_is_one_judge_with_one_rater() -> None:
    first = register_judge(spec=spec_named("scripted"))
    for name in ("scripted:scripted-1", "scripted:scripted-1@pairwise", str(first)):
        assert register_judge(spec=spec_named(name)) == first
    assert Rater.objects.filter(kind="judge").count() == 1


@pytest.mark.usefixtures("local")
def test_an_endpoint_with_a_model_is_a_judge() -> None:
    judge = register_judge(spec=spec_named("local:qwen2.5-7b-instruct")).judge
    assert (judge.endpoint, judge.model, judge.family) == ("local", "qwen2.5-7b-instruct", "qwen")
    assert not judge.is_scripted


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere:m-1", "Choose from: local, scripted"),
        ("nobody", "no judge called 'nobody'"),
        ("local", "Add a pinned model: local:MODEL"),
        ("local:qwen2.5:latest", "alias"),
        ("local:m-1@nothing", "Known: .*pairwise"),
        ("", "no judge called ''"),
    ],
)
def test_what_cannot_be_a_judge_is_refused_with_a_sentence(name: str, says: str) -> None:
    with pytest.raises(JudgeError, match=says):
        spec_named(name)
    assert not Judge.objects.exists()


def test_a_missing_key_is_reported_before_anything_is_ordered(settings: Any) -> None:
    paid = Endpoint("paid", "openai", base_url="http://127.0.0.1:9/v1", key_env="NOT_SET_ANYWHERE")
    settings.MODEL_ENDPOINTS = {"paid": paid}
    with pytest.raises(JudgeError, match="NOT_SET_ANYWHERE is empty"):
        spec_named("paid:m-1")


def test_other_rubric_files_make_another_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    first = register_judge(spec=spec_named("scripted"))
    load = rubrics.load_rubric
    monkeypatch.setattr(rubrics, "load_rubric", lambda slug: replace(load(slug), digest="new"))
    second = register_judge(spec=spec_named("scripted"))
    assert str(second) == "scripted:scripted-1@pairwise v2"
    assert second.rater != first.rater
    assert register_judge(spec=spec_named(str(second))) == second
    monkeypatch.setattr(rubrics, "load_rubric", lambda slug: replace(load(slug), digest="x"))
    with pytest.raises(JudgeError, match="changed since judge"):
        spec_named(str(second))


def test_a_judge_is_immutable() -> None:
    judge = register_judge(spec=spec_named("scripted")).judge
    judge.model = "other"
    with pytest.raises(ValueError, match="immutable"):
        judge.save()
