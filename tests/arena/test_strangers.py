"""Files as other people's tools, forms and spreadsheets write them, each in several variations."""

import csv
import io
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arena.files.reader import FileError
from arena.formats import find_files, opened
from arena.formats.base import RejectedRows
from arena.validation import InputError
from tests.environment import data_folder

STRANGERS = data_folder() / "strangers"
pytestmark = pytest.mark.data
# What each becomes: the votes, and the rows that are bad or None for a file that is refused.
EXPECTED: dict[str, tuple[int, int]] = {
    "01-winner-is-name.csv": (25, 0),
    "02-labels-012.csv": (0, 25),
    "04-winner-loser.csv": (24, 0),
    "05-model-chosen-rejected.csv": (24, 0),
    "06-crowdkit-label.csv": (24, 0),
    "07-item-x-item-y.csv": (24, 0),
    "07b-model-x-model-y.csv": (24, 0),
    "10-answer-is-json.csv": (2, 0),
    "10b-answer-is-json-list.csv": (1, 0),
    "11b-labelstudio.csv": (6, 0),
    "12-argilla-ranking.json": (4, 0),
    "13-nectar.jsonl": (18, 0),
    "14-ultrafeedback.jsonl": (12, 0),
    "15-shp.jsonl": (4, 0),
    "16-helpsteer3.jsonl": (7, 0),
    "17-likert-margin.csv": (24, 0),
    "17b-slightly.csv": (24, 0),
    "18-scores-not-winners.csv": (24, 0),
    "19-ratings-long.csv": (18, 0),
    "22-fastchat-conv-log.json": (5, 0),
    "25-language-nan.csv": (24, 0),
    "25c-language-nan-texts.csv": (2, 0),
    "27-two-spellings.csv": (24, 0),
    "28-duplicate-votes.csv": (48, 0),
    "29-missing-winner.csv": (20, 4),
    "29b-winner-nan.csv": (20, 4),
    "30-google-forms-times.csv": (24, 0),
    "30b-us-times.csv": (24, 0),
    "30c-german-times.csv": (24, 0),
    "30e-milliseconds.csv": (24, 0),
    "31b-battles.csv.zip": (24, 0),
    "31c-pairs.csv.gz": (4, 0),
    "32b-qualtrics-preview.csv": (24, 0),
    "33-surveymonkey.csv": (24, 1),
    "36-comparia-votes.jsonl": (24, 0),
    "37-conv-with-system.jsonl": (2, 0),
    "38-image-part.jsonl": (1, 1),
    "39b-alpaca-cross-no-generator.json": (6, 0),
    "42-wildchat.jsonl": (0, 0),
    "45b-only-wins.csv": (32, 0),
    "47-utf16.csv": (24, 0),
    "47b-bom-semicolon.csv": (24, 0),
    "47d-header-spaces.csv": (24, 0),
    "47e-answer-a.csv": (24, 0),
    "47f-assistant-a.csv": (25, 0),
    "48-pandas-index.csv": (24, 0),
    "49-one-hot-floats.csv": (24, 0),
    "49b-one-hot-soft.csv": (0, 24),
    "52-deepeval-arena.json": (12, 0),
    "53b-pgn-results.csv": (25, 0),
    "54-gradio-flag-log.csv": (2, 0),
    "55-winner-case.csv": (24, 0),
    "55b-winner-model-space-a.csv": (24, 0),
    "56-tie-spellings.csv": (11, 0),
    "56b-more-tie-spellings.csv": (9, 1),
    "57-pairs.jsonl": (24, 0),
    "57b-left-right.jsonl": (24, 0),
    "57c-pairs-array.json": (24, 0),
    "58-folder-of-pairs": (24, 0),
    "59-empty-answers.csv": (4, 0),
    "59b-nan-response.csv": (2, 0),
    "60-text-quirks.jsonl": (23, 0),
    "61-votes.xlsx": (6, 0),
    "62-big-base64.jsonl": (1, 0),
    "63-kto-strings.csv": (0, 0),
    "65-odd-names.csv": (4, 0),
    "66-numeric-names.csv": (3, 0),
    "67-count-column.csv": (45, 0),
    "68b-ranking-string.csv": (6, 0),
    "71-skip.csv": (19, 0),
    "72-dpo-identical.jsonl": (1, 1),
    "72b-dpo-empty-rejected.jsonl": (2, 0),
    "73-answers-json": (0, 0),
    "74-model-and-human.csv": (24, 0),
    "75d-braintrust.json": (0, 0),
    "75f-kto.jsonl": (0, 0),
    "75g-prometheus.jsonl": (1, 0),
    "75j-prompts-json.csv": (0, 0),
    "75l-lmarena-plain.jsonl": (1, 0),
}
REFUSED = {
    "19b-ratings-wide.csv": "has columns of numbers: 'oak', 'elm', 'fir'. If each is a candidate",
    "35-google-forms-wide.csv": "None of them says who won",
    "70-no-header.csv": "If this row is data, name the columns in a row above it",
}


def read(path: Path) -> tuple[list[Any], int]:
    """The votes in a file, as what an arena would have, and the number of its bad rows."""
    votes, bad = [], 0
    with opened([path]) as places:
        for file in find_files([*places.values()]):
            for row in file.rows():
                if isinstance(row.content, InputError):
                    bad += 1
                elif file.kind == "votes":
                    vote = row.content
                    votes.append((vote.left, vote.right, vote.outcome, vote.preference, vote.rater))
    return votes, bad


@pytest.mark.parametrize("name", EXPECTED)
def test_a_strangers_file_is_read(name: str) -> None:
    votes, bad = read(STRANGERS / name)
    assert (len(votes), bad) == EXPECTED[name]


@pytest.mark.parametrize("name", REFUSED)
def test_a_strangers_file_is_refused_with_what_is_missing(name: str) -> None:
    with pytest.raises(FileError, match=REFUSED[name]) as refused:
        read(STRANGERS / name)
    assert len(str(refused.value)) < 600


Table = list[list[str]]
# Without one that has a second header, and one whose candidates are called what its columns are.
NOT_VARIED = {"33-surveymonkey.csv", "54-gradio-flag-log.csv"}
TABLES = [name for name in EXPECTED if name.endswith(".csv") and name not in NOT_VARIED]


def table_of(name: str) -> tuple[Table, str]:
    data = (STRANGERS / name).read_bytes()
    text = data.decode("utf-16" if data[:2] == b"\xff\xfe" else "utf-8-sig")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    return list(csv.reader(io.StringIO(text), delimiter=delimiter)), delimiter


def write_table(path: Path, table: Table, delimiter: str = ",") -> Path:
    with path.open("w", newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(table)
    return path


def shuffled(table: Table, draw: random.Random) -> Table:
    order = draw.sample(range(len(table[0])), len(table[0]))
    return [[row[n] for n in order] for row in table]


def renamed(table: Table, draw: random.Random) -> Table:
    folds: list[Callable[[str], str]] = [
        str.upper,
        str.title,
        lambda name: name.replace("_", " "),
        lambda name: name.replace("_", "-"),
        lambda name: f" {name} ",
    ]
    return [[draw.choice(folds)(name) for name in table[0]], *table[1:]]


@pytest.mark.parametrize("name", TABLES)
def test_columns_may_be_in_any_order_and_in_other_letters(name: str, tmp_path: Path) -> None:
    usual, (table, delimiter) = read(STRANGERS / name), table_of(name)
    for seed in range(5):
        draw = random.Random(seed)
        for change in (shuffled, renamed):
            path = write_table(tmp_path / name, change(table, draw), delimiter)
            assert read(path) == usual


@pytest.mark.parametrize("name", TABLES)
def test_fewer_rows_are_fewer_votes_and_nothing_else(name: str, tmp_path: Path) -> None:
    table, delimiter = table_of(name)
    if len(table) < 8:
        return
    draw = random.Random(name)
    gone = {*draw.sample(range(1, len(table)), 3)}
    rest = [row for n, row in enumerate(table) if n not in gone]
    votes, bad = read(write_table(tmp_path / name, rest, delimiter))
    before, before_bad = read(STRANGERS / name)
    assert len(votes) + bad <= len(before) + before_bad
    assert len(votes) + bad > 0
    if "ratings" not in name and len(before) + before_bad == len(table) - 1:  # a vote a row
        assert len(votes) + bad == len(rest) - 1


@pytest.mark.parametrize("ending", ["tsv", "jsonl", "json", "csv.gz", "folder", "zip"])
def test_the_plainest_votes_are_read_from_every_container(ending: str, tmp_path: Path) -> None:
    usual, (table, _) = read(STRANGERS / "01-winner-is-name.csv"), table_of("01-winner-is-name.csv")
    path = tmp_path / f"votes.{ending}"
    objects = [dict(zip(table[0], row, strict=True)) for row in table[1:]]
    if ending == "tsv":
        write_table(path, table, "\t")
    elif ending == "jsonl":
        path.write_text("\n".join(map(json.dumps, objects)))
    elif ending == "json":
        path.write_text(json.dumps(objects))
    elif ending == "csv.gz":
        import gzip

        path.write_bytes(gzip.compress(write_table(tmp_path / "v.csv", table).read_bytes()))
    else:
        folder = tmp_path / "all"
        folder.mkdir()
        write_table(folder / "votes.csv", table)
        path = folder
        if ending == "zip":
            path = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", folder))
    assert read(path) == usual


@pytest.mark.parametrize("orient", ["columns", "split", "list", "named", "records"])
def test_the_plainest_votes_are_read_however_json_holds_them(orient: str, tmp_path: Path) -> None:
    usual, (head, *rows) = (
        read(STRANGERS / "01-winner-is-name.csv"),
        table_of("01-winner-is-name.csv")[0],
    )
    records = [dict(zip(head, row, strict=True)) for row in rows]
    document: Any = {
        "columns": {
            name: {str(n): row[i] for n, row in enumerate(rows)} for i, name in enumerate(head)
        },
        "split": {"columns": head, "index": [*range(len(rows))], "data": rows},
        "list": {name: [row[i] for row in rows] for i, name in enumerate(head)},
        "named": {"version": 2, "battles": records},
        "records": records,
    }[orient]
    path = tmp_path / "votes.json"
    for indent in (None, 1):
        path.write_text(json.dumps(document, indent=indent))
        assert read(path) == usual


@pytest.mark.parametrize(
    "head",
    [
        "Input.model_a,Input.model_b,Answer.winner,WorkerId",
        "INPUT:left,INPUT:right,OUTPUT:result,ASSIGNMENT:worker_id",
        "left_model,right_model,chosen_model,annotator_id",
        "modelA,modelB,Preferred model,userId",
        "model_name_1,model_name_2,which model is better?,user",
    ],
)
def test_other_names_of_the_same_columns(head: str, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(f"{head}\noak,elm,elm,ann\nelm,oak,tie,bob\n")
    assert read(path) == (
        [("oak", "elm", "right", None, "ann"), ("elm", "oak", "tie", None, "bob")],
        0,
    )


@pytest.mark.parametrize(
    ("rows", "votes"),
    [
        # A winner counts before scores beside it.
        (["model_a,model_b,winner,score_a,score_b", "oak,elm,B,9,1"], ["right"]),
        (["model_a,model_b,rank_a,rank_b", "oak,elm,1,2"], ["left"]),
        (["model_a,model_b,a_wins,b_wins,ties", "oak,elm,2,1,1"], ["left", "left", "right", "tie"]),
        # The text of an answer comes before a code that it looks like.
        (["prompt,response_a,response_b,winner", "q,B,A,A"], ["right"]),
        (["model_a,model_b,winner,loser", "oak,elm,A,B"], ["left"]),
    ],
)
def test_what_says_most_decides(rows: list[str], votes: list[str], tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("\n".join(rows))
    assert [vote[2] for vote in read(path)[0]] == votes


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["model_a,model_b,score_a,score_b", "oak,elm,nan,1"], "is missing for one of the two"),
        (["model_a,model_b,score_a,score_b", 'oak,elm,"1,250",980'], "the comma is ambiguous"),
        (["prompt,rank_1,rank_2", "q,1,2"], "has numbers; name the candidates"),
        (["model_a,model_b,winner", f"oak,elm,{'a (' * 20_000}"], "60,000 characters long"),
        (["item1,item2,item3,best", "oak,elm,fir,oak"], "more than two candidates in a row"),
        (
            [
                "question,left,right,winner",
                *(f"q{n},A long answer {n},Yet another {n} one,A" for n in range(5)),
            ],
            "look like answers, not like names of models",
        ),
        (["prompt,better,oak rating", "q,x,Good"], "'better', 'oak rating', which may be choices"),
    ],
)
def test_what_is_not_certain_is_refused(rows: list[str], says: str, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("\n".join(rows))
    reasons = []
    try:
        [file] = [file for file in find_files([path]) if file.kind == "votes"]
        reasons = [row.content.reason for row in file.rows()]
    except FileError as error:
        reasons = [str(error)]
    assert [reason for reason in reasons if says in reason]


def test_equal_faults_are_counted_in_one_line() -> None:
    rejected = RejectedRows()
    for line in range(2, 30):
        rejected.add(Path("v.csv"), line, InputError("is empty", "winner"))
    assert rejected.lines == [
        "v.csv, lines 2, 3, 4, 5, 6 and 23 more, column winner: is empty; fill it in, or leave the "
        "row out"
    ]
