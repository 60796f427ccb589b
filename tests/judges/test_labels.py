"""Label files: their formats, their errors, and what is stored."""

import csv
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from statistics import correlation
from tempfile import TemporaryDirectory
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.files import reader
from arena.files.reader import FileError
from judges.models import Label, LabelItem, LabelSet
from judges.services.label_files import LabelFile, LabelsError, read_labels
from judges.services.labels import add_labels, agreement_of_raters, drawn, items_of, selected
from tests.judges.helpers import write_labels

PAIR = {"prompt": "Why?", "response_1": "Because.", "response_2": "No idea.", "label": "1"}
SCORE = {"prompt": "Why?", "response": "Because.", "score": 4}


def jsonl(folder: Path, *rows: Any, start: str = "") -> Path:
    path = folder / "labels.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text(start + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def table(folder: Path, *rows: dict[str, Any], start: str = "", delimiter: str = ",") -> Path:
    path = folder / "labels.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(start)
        writer = csv.DictWriter(stream, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def verdicts_of(file: LabelFile) -> list[dict[str, Any]]:
    return [item.labels for item in file.items]


def test_several_raters_label_one_item(tmp_path: Path) -> None:
    file = read_labels(
        jsonl(
            tmp_path,
            PAIR | {"rater": "ann"},
            PAIR | {"rater": "bob", "label": "tie"},
            PAIR | {"prompt": "How?"},
        )
    )
    assert file.kind == "pairs"
    assert verdicts_of(file) == [{"ann": "left", "bob": "tie"}, {"": "left"}]


@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_says_the_same_as_json_lines(tmp_path: Path, start: str, delimiter: str) -> None:
    rows = [
        PAIR | {"response_1": 'Two\nlines, with "quotes"; and more', "rater": "ann"},
        PAIR | {"rater": "bob"},
    ]
    one = read_labels(jsonl(tmp_path, *rows, start=start))
    other = read_labels(table(tmp_path, *rows, start=start, delimiter=delimiter))
    assert verdicts_of(one) == verdicts_of(other)
    assert one.digest == other.digest
    assert [item.key for item in one.items] == [item.key for item in other.items]


@pytest.mark.parametrize(
    ("label", "outcome"),
    [
        ("1", "left"),
        (1, "left"),
        ("2", "right"),
        (2, "right"),
        ("A", "left"),
        ("b", "right"),
        ("LEFT", "left"),
        (" Right ", "right"),
        ("Tie", "tie"),
        ("both_bad", "both_bad"),
    ],
)
def test_each_spelling_of_a_label(tmp_path: Path, label: Any, outcome: str) -> None:
    assert verdicts_of(read_labels(jsonl(tmp_path, PAIR | {"label": label}))) == [{"": outcome}]


def test_what_one_rater_says_twice_counts_once(tmp_path: Path) -> None:
    rows = [PAIR | {"rater": "ann"}, PAIR | {"rater": "ann"}]
    assert verdicts_of(read_labels(jsonl(tmp_path, *rows))) == [{"ann": "left"}]


def test_swapped_answers_are_the_same_item(tmp_path: Path) -> None:
    turned = PAIR | {"response_1": PAIR["response_2"], "response_2": PAIR["response_1"]}
    rows = [PAIR | {"rater": "ann"}, turned | {"rater": "bob", "label": "2"}]
    assert verdicts_of(read_labels(jsonl(tmp_path, *rows))) == [{"ann": "left", "bob": "left"}]


def test_raters_without_a_name_are_persons_of_their_own(tmp_path: Path) -> None:
    found = verdicts_of(read_labels(jsonl(tmp_path, PAIR, PAIR | {"label": "2"})))
    assert [sorted(labels.values()) for labels in found] == [["left", "right"]]


def test_scores_with_optional_columns(tmp_path: Path) -> None:
    more = {"scenario": "code", "reference": "So.", "rubric": "Is it right?", "id": 7}
    file = read_labels(table(tmp_path, SCORE | more | {"score": "3.5"}))
    item = file.items[0]
    assert (file.kind, item.labels) == ("scores", {"": 3.5})
    assert (item.category, item.reference, item.rubric) == ("code", "So.", "Is it right?")


FILES = Path(__file__).parent.parent / "files"


def test_preference_pairs_are_labels_for_the_chosen_answer() -> None:
    for name in ("preferences.jsonl", "preferences-implicit.jsonl", "rewardbench.csv"):
        file = read_labels(FILES / name)
        assert file.kind == "pairs"
        assert file.items
        for item in file.items:
            better = item.response_1 if item.labels == {"": "left"} else item.response_2
            assert better in ("Hello!", "Goodbye!", "Blue.", "5", "6")
    item = read_labels(FILES / "rewardbench.csv").items[0]
    assert (item.prompt, item.category) == ("Add 2 and 3.", "math")
    assert sorted(zip((item.response_1, item.response_2), item.models, strict=True)) == [
        ("5", "amber-7b"),
        ("6", "basalt-13b"),
    ]


def test_the_better_answer_is_evenly_left_and_always_on_the_same_side(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}?", "chosen": f"{n}.", "rejected": "No."} for n in range(400)]
    file = read_labels(jsonl(tmp_path, *rows))
    n_left = sum(item.labels == {"": "left"} for item in file.items)
    assert 160 < n_left < 240
    more = [row | {"id": 7, "subset": ""} for row in reversed(rows)]
    assert read_labels(jsonl(tmp_path, *more)).digest == file.digest


def test_two_answers_by_one_author_are_accepted(tmp_path: Path) -> None:
    row = {"prompt": "Why?", "chosen": "So.", "rejected": "No."}
    models = {"chosen_model": "human", "rejected_model": "human", "subset": "hep", "id": 1}
    file = read_labels(jsonl(tmp_path, row | models, row | {"chosen": " "}))
    assert (len(file.items), file.empty, file.items[0].models) == (1, 1, ("human", "human"))


def test_prometheus_files_are_labels_with_rubric_and_reference() -> None:
    pairs = read_labels(FILES / "prometheus.jsonl")
    item = pairs.items[0]
    assert (pairs.kind, item.labels) == ("pairs", {"Prometheus feedback": "left"})
    assert (item.reference, item.rubric) == ("Gravity of moon and sun.", "Is the explanation true?")
    scores = read_labels(FILES / "labels" / "prometheus-scores.json")
    assert scores.kind == "scores"
    assert verdicts_of(scores) == [{"Prometheus feedback": 3.0}, {"Prometheus feedback": 1.0}]
    item = scores.items[0]
    assert (item.prompt, item.response_1) == ("Explain tides.", "The moon pulls the sea.")
    assert item.rubric.splitlines()[:2] == ["Is the explanation true?", "Score 1: It is false."]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"chosen": None}, "line 2, chosen: is empty"),
        ({"chosen": [{"role": "user"}]}, "line 2, chosen: has a message 1 that is empty"),
        (
            {"chosen": [{"role": "king", "content": "x"}]},
            "line 2, chosen: .*'king'.*not one of system",
        ),
        ({"chosen": "x" * 1_000_001}, "line 2, chosen: .*the limit is 1,000,000"),
    ],
)
def test_a_bad_preference_is_named_by_its_own_column(tmp_path: Path, row: Any, says: str) -> None:
    good = {"prompt": "Why?", "chosen": "So.", "rejected": "No."}
    with pytest.raises(LabelsError, match=says):
        read_labels(jsonl(tmp_path, good, good | row))


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [("orig_score", "many", "orig_score: is 'many', not a number"),
     ("orig_response", None, "orig_response: is empty")],
)  # fmt: skip
def test_a_bad_prometheus_score_is_named_by_its_own_column(
    tmp_path: Path, field: str, value: Any, says: str
) -> None:
    rows = json.loads((FILES / "labels" / "prometheus-scores.json").read_text())
    with pytest.raises(LabelsError, match=says):
        read_labels(jsonl(tmp_path, rows[0], rows[1] | {field: value}))


REQUEST = (
    "###Task Description:\nScore it.\n\n###The instruction to evaluate:\nWhy?\n\n"
    "###Response to evaluate:\n{answer}\n\n{reference}###Score Rubrics:\n[Is it kind?]\n"
    "Score 1: no\n\n###Feedback: "
)
PUBLISHED = {  # as their authors publish them
    "LLMBar": ({"input": "Why?", "output_1": "So.", "output_2": "No.", "label": 2}, "right"),
    "JudgeBench": (
        {"pair_id": "x", "source": "math", "question": "Why?", "response_model": "m"}
        | {"response_A": "So.", "response_B": "No.", "label": "B>A"},
        "right",
    ),
    "HelpSteer3": (
        {"context": [{"role": "user", "content": "Why?"}], "response1": "So.", "response2": "No."}
        | {"overall_preference": -2},
        "left",
    ),
    "SHP": (
        {"history": "Why?", "human_ref_A": "So.", "human_ref_B": "No.", "labels": 0},
        "right",
    ),
    "HHH": (
        {"input": "Why?", "targets": {"choices": ["So.", "No."], "labels": [1, 0]}},
        "left",
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_labels_are_read_as_they_are_published(tmp_path: Path, name: str) -> None:
    row, outcome = PUBLISHED[name]
    [item] = read_labels(jsonl(tmp_path, row)).items
    assert (item.prompt, item.response_1, item.response_2) == ("Why?", "So.", "No.")
    assert item.labels == {"": outcome}


def test_benchmarks_of_prometheus_are_taken_apart(tmp_path: Path) -> None:
    chosen, rejected = (REQUEST.format(answer=text, reference="") for text in ("So.", "No."))
    row = {"source": "kind", "chosen_instruction": chosen, "rejected_instruction": rejected}
    [item] = read_labels(jsonl(tmp_path, row)).items
    better = item.response_1 if item.labels == {"": "left"} else item.response_2
    assert (item.prompt, better, item.category) == ("Why?", "So.", "kind")
    assert item.rubric == "[Is it kind?]\nScore 1: no"
    asked = REQUEST.format(answer="So.", reference="###Reference Answer (Score 5):\nYes.\n\n")
    [item] = read_labels(jsonl(tmp_path, {"instruction": asked, "gpt4_score": [3, 2, 3]})).items
    assert (item.response_1, item.reference) == ("So.", "Yes.")
    assert [*item.labels.values()] == [3.0, 2.0, 3.0]
    with pytest.raises(LabelsError, match="instruction: is not a request to Prometheus"):
        read_labels(jsonl(tmp_path, {"instruction": "Why?", "gpt4_score": [3]}))


def test_labels_of_other_files_are_read_from_chosen_columns(tmp_path: Path) -> None:
    auto_j = {"scenario": "code", "prompt": "Why?", "response 1": "So.", "response 2": "No."}
    path = jsonl(tmp_path, auto_j | {"label": 0}, auto_j | {"label": 2, "prompt": "How?"})
    with pytest.raises(LabelsError, match=r"line 1, label: is '0', a code that could mean"):
        read_labels(path)
    file = read_labels(path, values={"0": "left", "1": "right", "2": "tie"})
    assert verdicts_of(file) == [{"": "left"}, {"": "tie"}]
    panda = {"instruction": "Add.", "input": "1, 2", "response1": "3", "response2": "4"}
    path = jsonl(tmp_path, panda | {"annotator1": 1, "annotator2": 0, "annotator3": 1})
    chosen = {"winner": "annotator2", "rater": ""}
    file = read_labels(path, columns=chosen, values={"0": "tie"})
    assert (file.items[0].prompt, verdicts_of(file)) == ("Add.\n\n1, 2", [{"": "tie"}])
    with pytest.raises(FileError, match="has no column 'nobody'"):
        read_labels(path, columns={"winner": "nobody"})


def test_labels_come_from_a_spreadsheet(tmp_path: Path) -> None:
    sheet = openpyxl.Workbook()
    sheet.active.append(["Question", "Answer A", "Answer B", "Winner"])
    sheet.active.append(["Why?", "So.", "No.", "Answer B"])
    sheet.save(tmp_path / "labels.xlsx")
    assert verdicts_of(read_labels(tmp_path / "labels.xlsx")) == [{"": "right"}]


def test_blank_answers_are_left_out_and_counted(tmp_path: Path) -> None:
    file = read_labels(jsonl(tmp_path, PAIR, PAIR | {"response_2": " \n"}))
    assert (len(file.items), file.empty) == (1, 1)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (PAIR | {"label": "C"}, r"line 2, label: is 'C', which is not one of left, right"),
        (PAIR | {"label": True}, "line 2, label: is 'True'"),
        (PAIR | {"label": None}, "line 2, label: is empty"),
        ({"prompt": "?"}, "line 2, response_1: is missing"),
        (PAIR | {"prompt": ["?"]}, "line 2, prompt: is a list, not text"),
        (PAIR | {"prompt": "\0"}, "line 2, prompt: contains a NUL"),
        (SCORE, "line 2, response_1: is missing"),
        ("{", "line 2: is not JSON"),
        ("[1]", "line 2: is a list, not a JSON object"),
        (PAIR | {"rater": "ann", "label": "2"}, "rater 'ann', who gave the same item left"),
        (PAIR | {"response_1": "x" * 1_000_001}, "the limit is 1,000,000"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named_by_line_column_and_reason(tmp_path: Path, row: Any, says: str) -> None:
    with pytest.raises(LabelsError, match=says) as refused:
        read_labels(jsonl(tmp_path, PAIR | {"rater": "ann"}, row))
    assert "Nothing was read: 1 bad row." in str(refused.value)


@pytest.mark.parametrize(
    ("score", "says"),
    [("many", "is 'many', not a number"), (True, "is true or false"), ("inf", "not a finite")],
)
def test_a_bad_score_is_named_by_line_and_reason(tmp_path: Path, score: Any, says: str) -> None:
    with pytest.raises(LabelsError, match=f"line 2, score: .*{says}"):
        read_labels(jsonl(tmp_path, SCORE, SCORE | {"score": score}))


def test_all_bad_rows_are_counted_and_the_first_listed(tmp_path: Path) -> None:
    with pytest.raises(LabelsError) as refused:
        read_labels(jsonl(tmp_path, PAIR, *["{}"] * 25))
    assert str(refused.value).count("line ") == 20
    assert "and 5 more" in str(refused.value)
    assert "25 bad rows" in str(refused.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \n", "is empty"),
        (b"a,b,c\n1,2,3\n", "has no labels that are read"),
        (b"prompt,response,score,score\n", "names the column 'score' twice"),
        (b"prompt,response,score\n", "no label"),
    ],
)
def test_a_file_that_holds_no_labels_is_reported(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(content)
    with pytest.raises(FileError, match=says):
        read_labels(path)


def test_a_missing_file_or_a_folder_is_reported(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(FileError, match=r"cannot be read|no file"):
            read_labels(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("prompt,response,score\n" + "Où ?,Là.,4\n" * 3, "line 2 is not UTF-8.*CSV UTF-8"),
        ("prompt,response,score,café\n", "line 1 is not UTF-8"),
        ("\xff\xfeabc", "is not valid UTF-16"),
    ],
)
def test_an_unusual_encoding_is_reported_once_per_file(
    tmp_path: Path, content: str, says: str
) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(content.encode("cp1252"))
    with pytest.raises(FileError, match=says):
        read_labels(path)


def test_line_cut_within_a_character_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("prompt,response,score\nWhy?,So.,3\n" + "é" * 30 + "x\n", encoding="utf-8")
    monkeypatch.setattr(reader, "LINE_LIMIT", 41)
    with pytest.raises(LabelsError, match="line 3: is longer than"):
        read_labels(path)


def test_a_broken_table_is_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text('prompt,response,score\nWhy?,Because.,4\nWhy?,"x" y,4\nWhy?,4\n')
    with pytest.raises(LabelsError, match=r"line 3: is not CSV[\s\S]*line 4: has 2 fields"):
        read_labels(path)


@given(st.binary(max_size=200))
def test_whatever_a_file_holds_it_is_read_or_refused(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "labels"
        for start in (b"", b'{"prompt":', b"prompt,response,score\n"):
            path.write_bytes(start + content)
            with suppress(LabelsError, FileError):
                assert read_labels(path).items


@pytest.mark.django_db
def test_a_set_is_its_content_and_the_same_again_adds_nothing(tmp_path: Path) -> None:
    rows = [PAIR | {"rater": "ann"}, PAIR | {"rater": "bob", "label": 2}, PAIR | {"prompt": "How?"}]
    first = add_labels(file=read_labels(jsonl(tmp_path, *rows)), name="labels.jsonl")
    same = add_labels(file=read_labels(jsonl(tmp_path, *rows[::-1])), name="turned.jsonl")
    assert (same, LabelSet.objects.count()) == (first, 1)
    assert LabelItem.objects.filter(labels_in=first).count() == 2
    assert Label.objects.filter(item__labels_in=first).count() == 3


@pytest.mark.django_db
def test_another_set_of_the_same_name_is_distinguished(tmp_path: Path) -> None:
    names = [
        add_labels(file=read_labels(jsonl(tmp_path, PAIR | {"label": label})), name="labels").name
        for label in ("1", "2")
    ]
    assert names == ["labels", "labels (2)"]


def test_a_draw_is_the_same_whatever_the_order_of_the_items(tmp_path: Path) -> None:
    rows = [PAIR | {"prompt": f"Question {i}"} for i in range(30)]
    items = items_of(read_labels(jsonl(tmp_path, *rows)))
    chosen = {item.key for item in drawn(items, 5, "1")}
    assert chosen == {item.key for item in drawn(items[::-1], 5, "1")}
    assert len(chosen) == 5
    assert chosen != {item.key for item in drawn(items, 5, "2")}
    assert len(drawn(items, None, "1")) == 30


def test_the_first_category_of_an_item_counts_and_another_is_a_note(tmp_path: Path) -> None:
    rows = [PAIR | {"category": "code"}, PAIR | {"rater": "bob", "category": "poems"}]
    file = read_labels(write_labels(tmp_path, rows))
    (item,) = file.items
    assert (item.category, len(item.labels)) == ("code", 2)
    (note,) = file.notes
    assert note == (
        "Line 2: the category is 'poems', but the same item has 'code' in line 1; the first "
        "category counts."
    )


def test_bad_rows_may_be_skipped_and_are_named(tmp_path: Path) -> None:
    path = write_labels(tmp_path, [PAIR, PAIR | {"rater": "bob", "label": "C"}])
    with pytest.raises(LabelsError, match="Nothing was read: 1 bad row"):
        read_labels(path)
    file = read_labels(path, skip_bad=True)
    assert file.labels == 1
    (note,) = file.notes
    assert "line 2, label: is 'C'" in note
    assert note.endswith("Skipped: 1 bad row.")


@pytest.mark.django_db
def test_the_models_that_wrote_the_answers_go_with_them(tmp_path: Path) -> None:
    named = PAIR | {"model_1": "gpt-4-0613", "model_2": "claude-2.1"}
    turned = named | {"response_1": PAIR["response_2"], "response_2": PAIR["response_1"]}
    file = read_labels(write_labels(tmp_path, [PAIR, turned | {"rater": "bob"}]))
    (item,) = file.items
    assert item.models == ("claude-2.1", "gpt-4-0613")
    plain = read_labels(write_labels(tmp_path, [PAIR, PAIR | {"rater": "bob", "label": "2"}]))
    assert plain.digest != file.digest
    stored = add_labels(file=file, name="named").items.get()
    assert (stored.model_1, stored.model_2) == item.models


def two_raters(folder: Path, *scores: tuple[int, int]) -> LabelFile:
    return read_labels(
        jsonl(
            folder,
            *(
                SCORE | {"response": f"Because {i}.", "score": score, "rater": rater}
                for i, both in enumerate(scores)
                for rater, score in zip("ab", both, strict=True)
            ),
        )
    )


def test_items_on_which_people_agree_are_selected_so_many_of_each_score(tmp_path: Path) -> None:
    """As the two raters of feedbackQA are: some pairs of scores differ."""
    file = two_raters(tmp_path, *[(1 + i % 4, 1 + (i % 4 + (i % 3 == 0)) % 4) for i in range(96)])
    agreed = selected(file, agreed=True)
    assert len(agreed.items) == 64
    assert all(len(set(item.labels.values())) == 1 for item in agreed.items)
    seven = selected(file, agreed=True, per_score=7, seed="1214")
    assert Counter(item.labels["a"] for item in seven.items) == dict.fromkeys((1, 2, 3, 4), 7)
    assert seven.digest == selected(file, agreed=True, per_score=7, seed="1214").digest
    assert seven.digest != selected(file, agreed=True, per_score=7, seed="2").digest
    assert len(selected(file, agreed=True, per_score=99).items) == 64


def test_people_s_agreement_is_that_of_the_whole_file(tmp_path: Path) -> None:
    scores = [(1, 2), (2, 2), (4, 3), (3, 3), (1, 1), (4, 4)]
    found = agreement_of_raters(two_raters(tmp_path, *scores))
    both_ways = scores + [(second, first) for first, second in scores]
    expected = correlation(*zip(*both_ways, strict=True))
    assert (found.value, found.n) == (pytest.approx(expected), 6)
    pairs = jsonl(tmp_path, PAIR | {"rater": "a"}, PAIR | {"rater": "b"})
    assert agreement_of_raters(read_labels(pairs)).value == 1


def test_nothing_is_left_where_nobody_agrees(tmp_path: Path) -> None:
    with pytest.raises(LabelsError, match="No item is left"):
        selected(two_raters(tmp_path, (1, 2), (3, 4)), agreed=True)
    one_rater = read_labels(jsonl(tmp_path, SCORE))
    with pytest.raises(LabelsError, match="No item is left"):
        selected(one_rater, agreed=True)
    assert len(selected(one_rater, per_score=7).items) == 1
