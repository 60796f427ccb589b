"""Rubrics are checked at start."""

from pathlib import Path

import pytest

from judges.checks import check_rubrics
from judges.core.rubric import RubricError, load_rubric, rubric_slugs

GOOD = {
    "rubric.toml": 'title = "Mine"\nprotocol = "pairwise"\n[parameters]\ntemperature = 0\n',
    "system.md": "Judge. {nonce}",
    "user.md": "{question} {prompt} {answer_a} {answer_b}",
}


def write(folder: Path, **changes: str) -> Path:
    (folder / "mine").mkdir(exist_ok=True)
    for name, text in (GOOD | {k.replace("_", "."): v for k, v in changes.items()}).items():
        (folder / "mine" / name).write_text(text)
    return folder


def test_every_shipped_rubric_loads() -> None:
    assert rubric_slugs() == ["pairwise"]
    assert load_rubric("pairwise").parameters == {"temperature": 0, "max_tokens": 1024}
    assert check_rubrics(None) == []


def test_a_copied_folder_is_a_rubric(tmp_path: Path) -> None:
    assert load_rubric("mine", write(tmp_path)).title == "Mine"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"user_md": "{prompt} {answer_a}"}, "missing placeholders answer_b"),
        ({"user_md": GOOD["user.md"] + " {answer_c}"}, "unknown placeholders answer_c"),
        ({"system_md": "Judge."}, "missing placeholders nonce"),
        ({"rubric_toml": 'title = "Mine"'}, "lacks protocol"),
        ({"rubric_toml": "title = "}, "not TOML"),
        ({"rubric_toml": 'title = "M"\nprotocol = "pairwise"\ncolour = 1'}, "unknown colour"),
        ({"rubric_toml": 'title = "M"\nprotocol = "dice"'}, "unknown protocol"),
        (
            {"rubric_toml": GOOD["rubric.toml"] + "temprature = 1\n"},
            "unknown parameters temprature",
        ),
    ],
)
def test_a_rubric_that_cannot_work_is_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, str], says: str
) -> None:
    with pytest.raises(RubricError, match=says):
        load_rubric("mine", write(tmp_path, **changes))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    (write(tmp_path) / "mine" / "user.md").unlink()
    with pytest.raises(RubricError, match=r"user\.md cannot be read"):
        load_rubric("mine", tmp_path)


def test_an_unknown_slug_names_the_known_ones() -> None:
    with pytest.raises(RubricError, match="Known: pairwise"):
        load_rubric("../pairwise")


def test_any_change_to_a_file_changes_the_digest(tmp_path: Path) -> None:
    before = load_rubric("mine", write(tmp_path)).digest
    after = load_rubric("mine", write(tmp_path, system_md="Judge! {nonce}")).digest
    assert before != after


def test_the_check_at_start_reports_a_broken_rubric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, user_md="nothing")
    monkeypatch.setattr("judges.checks.rubric_slugs", lambda: rubric_slugs(tmp_path))
    monkeypatch.setattr("judges.checks.load_rubric", lambda slug: load_rubric(slug, tmp_path))
    (error,) = check_rubrics(None)
    assert "missing placeholders" in error.msg
