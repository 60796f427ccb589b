"""Rubrics are checked at start."""

from pathlib import Path

import pytest

from judges.apps import check_rubrics
from judges.core.rubric import Rubric, RubricError, Scale, load_rubric, rubric_slugs

GOOD = {
    "rubric.toml": (
        'title = "Mine"\nprotocol = "pairwise"\ncriteria = "Is it right?"\n'
        "[parameters]\ntemperature = 0\n"
    ),
    "system.md": "Judge. {nonce} {criteria} {how_to_reply}",
    "user.md": "{question} {prompt} {answer_a} {answer_b}",
}
DIRECT = {
    "rubric.toml": (
        'title = "Mine"\nprotocol = "direct"\ncriteria = "Is it right?"\n'
        'scale = {low = 1, high = 2}\nlevels = ["No.", "Yes."]\n'
    ),
    "system.md": "Rate. {nonce} {rubric} {how_to_reply}",
    "user.md": "{prompt} {answer}",
}
WITH_NOTE = {
    "rubric.toml": "note = true\n" + GOOD["rubric.toml"],
    "user.md": GOOD["user.md"] + " {note}",
    "note.md": "{prompt} {nonce}",
}
SHIPPED = [
    "additive",
    "additive-points",
    "checklist",
    "listwise",
    "pairwise",
    "pairwise-note",
    "pairwise-reference",
    "prometheus-absolute",
    "prometheus-absolute-reference",
    "prometheus-relative",
    "prometheus-relative-reference",
    "score-1-4",
]


def write(folder: Path, files: dict[str, str]) -> Path:
    (folder / "mine").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / "mine" / name).write_text(text, encoding="utf-8")
    return folder


def load(folder: Path, files: dict[str, str]) -> Rubric:
    return load_rubric("mine", write(folder, files))


def test_every_shipped_rubric_loads() -> None:
    assert rubric_slugs() == SHIPPED
    assert check_rubrics(None) == []


@pytest.mark.parametrize("slug", SHIPPED)
def test_temperature_is_zero_except_for_prometheus(slug: str) -> None:
    parameters = load_rubric(slug).parameters
    if slug.startswith("prometheus"):
        assert parameters == {"temperature": 1.0, "top_p": 0.9, "max_tokens": 1024}
    else:
        assert parameters["temperature"] == 0


@pytest.mark.parametrize("slug", SHIPPED)
def test_a_reference_is_required_where_the_name_says_so(slug: str) -> None:
    required = load_rubric(slug).reference == "required"
    assert required == slug.endswith("-reference")


@pytest.mark.parametrize("slug", SHIPPED)
def test_all_but_the_prometheus_formats_are_neutral_to_length(slug: str) -> None:
    assert load_rubric(slug).length_neutral != slug.startswith("prometheus")


def test_the_direct_rubrics_have_their_scales() -> None:
    assert load_rubric("score-1-4").scale == Scale.integers(1, 4)
    assert load_rubric("additive").scale == Scale.integers(0, 5)
    assert load_rubric("prometheus-absolute").scale == Scale.integers(1, 5)
    assert load_rubric("pairwise").scale is None


def test_a_copied_folder_is_a_rubric(tmp_path: Path) -> None:
    rubric = load(tmp_path, GOOD)
    assert (rubric.title, rubric.protocol, rubric.verdict) == ("Mine", "pairwise", "line")


def test_a_rubric_may_have_a_scale_of_labels(tmp_path: Path) -> None:
    toml = DIRECT["rubric.toml"].replace("{low = 1, high = 2}", '{labels = ["poor", "fine"]}')
    assert load(tmp_path, DIRECT | {"rubric.toml": toml}).scale == Scale.of_labels(("poor", "fine"))


def test_a_rubric_with_a_note_has_the_notes_text(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD | WITH_NOTE).note == "{prompt} {nonce}"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("user.md", "{prompt} {answer_a}", r"\{answer_b\} is missing from system.md and user.md"),
        (
            "user.md",
            GOOD["user.md"] + "{answer_c}",
            "user.md has the unknown .* .answer_c",
        ),
        ("user.md", GOOD["user.md"] + "{ question }", "unknown placeholder { question }"),
        ("user.md", GOOD["user.md"] + "{Question}", "unknown placeholder {Question}"),
        ("user.md", GOOD["user.md"] + "{question1}", "unknown placeholder {question1}"),
        ("user.md", GOOD["user.md"] + "{reference}", "unknown placeholder {reference}"),
        ("user.md", GOOD["user.md"] + "{note}", "unknown placeholder {note}"),
        ("user.md", GOOD["user.md"] + "{rubric}", "unknown placeholder {rubric}"),
        ("user.md", GOOD["user.md"] + "{how_to_reply}", "must appear exactly once, in system.md"),
        ("system.md", "Judge. {criteria} {how_to_reply}", r"\{nonce\} is missing"),
        ("system.md", "Judge. {nonce} {criteria}", r"\{how_to_reply\} is missing"),
        ("system.md", "Judge. {nonce} {how_to_reply}", "these use neither"),
        ("rubric.toml", 'title = "Mine"', "lacks protocol"),
        ("rubric.toml", "title = ", "not TOML"),
        ("rubric.toml", 'title = "M"\nprotocol = "pairwise"', "lacks criteria"),
        ("rubric.toml", 'colour = 1\ntitle = "M"\nprotocol = "pairwise"', "unknown colour"),
        ("rubric.toml", 'title = "M"\nprotocol = "dice"', "unknown protocol 'dice'"),
        ("rubric.toml", 'title = " "\nprotocol = "pairwise"', "title is empty"),
        ("rubric.toml", 'title = 3\nprotocol = "pairwise"', "title in rubric.toml is not text"),
        ("rubric.toml", GOOD["rubric.toml"] + "temprature = 1\n", "unknown parameters temprature"),
        ("rubric.toml", GOOD["rubric.toml"] + 'top_p = "high"\n', "top_p is not a number"),
        ("rubric.toml", GOOD["rubric.toml"] + "top_p = true\n", "top_p is not a number"),
        ("rubric.toml", 'verdict = "letter"\n' + GOOD["rubric.toml"], "unknown verdict 'letter'"),
        ("rubric.toml", 'reference = "maybe"\n' + GOOD["rubric.toml"], "unknown reference"),
        ("rubric.toml", 'reference = "required"\n' + GOOD["rubric.toml"], r"\{reference\} is miss"),
        ("rubric.toml", 'note = "yes"\n' + GOOD["rubric.toml"], "note .* not true or false"),
        ("rubric.toml", "note = true\n" + GOOD["rubric.toml"], "there is no note.md"),
        ("rubric.toml", "scale = {low=1, high=5}\n" + GOOD["rubric.toml"], "only a direct"),
        ("note.md", "{prompt} {nonce}", "does not say note = true"),
    ],
)
def test_a_rubric_that_cannot_work_is_refused_with_the_reason(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    with pytest.raises(RubricError, match=f"Rubric mine: .*{says}"):
        load(tmp_path, GOOD | {name: text})


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("scale = {low = 1, high = 2}\n", "", "lacks scale"),
        ("high = 2", "high = 1", "does not have 2 to 101 entries"),
        ("high = 2", "high = 3", "2 levels describe 3 entries"),
        ('levels = ["No.", "Yes."]\n', "", "levels if, and only if"),
        ('"No."', '" "', "not a list of texts"),
        ('"No."', "1", "not a list of texts"),
        ('criteria = "Is it right?"', "", "lacks criteria"),
    ],
)
def test_a_scale_and_its_levels_belong_together(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    changed = DIRECT["rubric.toml"].replace(old, new)
    assert changed != DIRECT["rubric.toml"]
    with pytest.raises(RubricError, match=says):
        load(tmp_path, DIRECT | {"rubric.toml": changed})


def test_a_note_may_not_show_the_answers(tmp_path: Path) -> None:
    shown = {"note.md": "{prompt} {nonce} {answer_a}"}
    with pytest.raises(RubricError, match=r"note\.md has the unknown placeholder {answer_a}"):
        load(tmp_path, GOOD | WITH_NOTE | shown)


def test_a_prometheus_format_has_neither_nonce_nor_lists(tmp_path: Path) -> None:
    toml = 'verdict = "prometheus"\n' + GOOD["rubric.toml"]
    with pytest.raises(RubricError, match=r"unknown placeholder \{nonce\}"):
        load(tmp_path, GOOD | {"rubric.toml": toml})
    with pytest.raises(RubricError, match="no listwise protocol"):
        load(tmp_path, GOOD | {"rubric.toml": toml.replace("pairwise", "listwise")})


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    (write(tmp_path, GOOD) / "mine" / "user.md").unlink()
    with pytest.raises(RubricError, match=r"user\.md cannot be read"):
        load_rubric("mine", tmp_path)


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (write(tmp_path, GOOD) / "mine" / "user.md").write_bytes(b"caf\xe9")
    with pytest.raises(RubricError, match=r"user\.md cannot be read as UTF-8"):
        load_rubric("mine", tmp_path)


def test_an_unknown_slug_names_the_known_ones() -> None:
    with pytest.raises(RubricError, match=r"Known: additive, .*score-1-4"):
        load_rubric("../pairwise")


@pytest.mark.parametrize("name", ["rubric.toml", "system.md", "user.md", "note.md"])
def test_any_byte_of_any_file_changes_the_digest(tmp_path: Path, name: str) -> None:
    files = GOOD | WITH_NOTE
    before = load(tmp_path, files).digest
    assert load(tmp_path, files).digest == before
    assert load(tmp_path, files | {name: files[name] + "\n"}).digest != before


def test_other_line_ends_change_digest_but_not_text(tmp_path: Path) -> None:
    files = GOOD | {"user.md": GOOD["user.md"].replace(" ", "\n")}
    plain = load(tmp_path, files)
    path = tmp_path / "mine" / "user.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    other = load_rubric("mine", tmp_path)
    assert other.user == plain.user
    assert other.digest != plain.digest


def test_the_check_at_start_warns_of_a_broken_rubric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, GOOD | {"user.md": "nothing"})
    monkeypatch.setattr(
        "judges.core.rubric.rubric_slugs", lambda folder=tmp_path: rubric_slugs(folder)
    )
    monkeypatch.setattr("judges.core.rubric.load_rubric", lambda slug: load_rubric(slug, tmp_path))
    (warning,) = check_rubrics(None)
    assert "the placeholder {answer_a} is missing" in warning.msg
    assert not warning.is_serious()  # it would stop every command
