"""Rankings and ratings become the votes of one rater on one prompt."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.files.reader import FileError
from arena.files.rows import VoteRow
from arena.formats import find_files
from arena.formats.base import SourceRecord
from arena.formats.rankings import votes_of_ranking
from arena.validation import InputError


def write(path: Path, *rows: object) -> Path:
    path.write_text(
        "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    )
    return path


def read(path: Path, **options: Any) -> dict[str, list[Any]]:
    """The rows of a file by kind; none may be bad."""
    found: dict[str, list[Any]] = {}
    for file in find_files([path], **options):
        contents = [row.content for row in file.rows()]
        assert not [content for content in contents if isinstance(content, InputError)]
        found[file.kind] = contents
    return found


def results(votes: list[VoteRow]) -> set[tuple[str, str]]:
    """The pairs of winners and losers, and ties both ways round."""
    won = set()
    for vote in votes:
        if vote.outcome != "right":
            won.add((vote.left, vote.right))
        if vote.outcome != "left":
            won.add((vote.right, vote.left))
    return won


PLACES = st.dictionaries(
    st.sampled_from("abcdefgh"), st.one_of(st.none(), st.integers(0, 4).map(float)), min_size=1
)


@given(PLACES)
def test_a_ranking_is_the_votes_between_all_that_have_a_place(
    places: dict[str, float | None],
) -> None:
    record = SourceRecord({}, {}, Path("x"), line=7)
    made = list(votes_of_ranking(record, places, {"prompt": "p", "rater": "r"}, "answers"))
    placed = {name: place for name, place in places.items() if place is not None}
    expected = {(a, b) for a, b in itertools.permutations(placed, 2) if placed[a] >= placed[b]}
    votes = [VoteRow(one.fields["a"], one.fields["b"], one.fields["outcome"]) for one in made]
    assert results(votes) == expected
    assert len(votes) == len(placed) * (len(placed) - 1) // 2
    assert all(one.details == {"line": 7} and one.fields["rater"] == "r" for one in made)


def test_more_than_fifty_answers_are_no_ranking() -> None:
    record = SourceRecord({}, {}, Path("x"))
    places = {f"m{n}": float(n) for n in range(51)}
    with pytest.raises(InputError, match="ranks 51 answers; at most 50"):
        list(votes_of_ranking(record, places, {}, "answers"))


@pytest.mark.parametrize(
    "rows",
    [
        ["prompt,rater,ranking", "q1,r1,oak > elm = fir"],
        ["prompt,rater,1st choice,2nd choice,3rd choice", "q1,r1,oak,elm=fir,"],
        ["prompt,rater,rank of oak,rank of elm,rank of fir", "q1,r1,1,2,2"],
        ["prompt,rater,rating of oak,Rating: elm,score fir", "q1,r1,9,7,7"],
        ["prompt,rater,model,rank", "q1,r1,oak,1st", "q1,r1,elm,2", "q1,r1,fir,2"],
        ["prompt,rater,model,score", "q1,r1,oak,9", 'q1,r1,elm,"7,5"', "q1,r1,fir,7.5"],
    ],
)
def test_a_table_of_rankings_or_ratings(tmp_path: Path, rows: list[str]) -> None:
    votes = read(write(tmp_path / "ranked.csv", *rows))["votes"]
    assert results(votes) == {("oak", "elm"), ("oak", "fir"), ("elm", "fir"), ("fir", "elm")}
    assert {(vote.prompt, vote.rater) for vote in votes} == {("q1", "r1")}


def test_columns_of_numbers_are_ratings_once_somebody_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "question,oak,elm", "q1,9,7", "q2,5,")
    chosen = {"rating:oak": "oak", "rating:elm": "elm"}
    assert results(read(path, columns=chosen)["votes"]) == {("oak", "elm")}
    assert read(path, format_name="prompts").keys() == {"prompts"}


@pytest.mark.parametrize("winner", ["X", "answer of X", "x"])
def test_a_column_of_answers_for_each_candidate(tmp_path: Path, winner: str) -> None:
    head = "Question,answer of X,Answer of Y,Response by Z,Who won?,Rater"
    rows = read(write(tmp_path / "w.csv", head, f"Why?,So.,,No.,{winner},ann"))
    assert results(rows["votes"]) == {("X", "Y"), ("X", "Z")}
    assert {vote.rater for vote in rows["votes"]} == {"ann"}
    assert {(one.candidate, one.text) for one in rows["responses"]} == {
        *[("X", "So."), ("Y", ""), ("Z", "No.")]
    }
    assert [prompt.text for prompt in rows["prompts"]] == ["Why?"]


def test_codes_of_more_than_two_candidates_are_named_by_whoever_knows(tmp_path: Path) -> None:
    head = "question,answer of X,answer of Y,answer of Z,winner"
    path = write(tmp_path / "w.csv", head, "Why?,So.,Thus.,No.,3", "How?,So.,Thus.,No.,0")
    rows = read(path, values={"3": "Z", "0": "skip"})
    assert results(rows["votes"]) == {("Z", "X"), ("Z", "Y")}


def test_two_answers_without_models_are_called_what_their_columns_are(tmp_path: Path) -> None:
    path = write(tmp_path / "w.csv", "question,answer_a,answer_b,winner", "Why?,So.,No.,B")
    rows = read(path)
    assert results(rows["votes"]) == {("answer_b", "answer_a")}
    assert len(rows["responses"]) == 2


def test_games_of_arena_hard_are_votes_against_the_baseline(tmp_path: Path) -> None:
    games = [{"score": "A>B"}, {"score": "B>>A"}, {"score": ""}]
    row = {"uid": "q1", "model": "oak", "judge": "gpt", "baseline": "base", "games": games}
    votes = read(write(tmp_path / "j.jsonl", row))["votes"]
    assert [(v.left, v.right, v.preference) for v in votes] == [
        ("base", "oak", 0.75),
        ("oak", "base", 0.0),
    ]
    assert {(v.rater, v.rater_kind, v.prompt) for v in votes} == {("gpt", "judge", "q1")}


def test_feedback_of_open_webui_is_a_vote_against_each_sibling(tmp_path: Path) -> None:
    data = {"rating": 1, "model_id": "oak", "sibling_model_ids": ["elm", "fir"]}
    row = {"id": "f1", "user_id": "u", "type": "rating", "data": data, "meta": {"message_id": "m"}}
    down = row | {"id": "f2", "data": data | {"rating": -1}, "meta": {"message_id": "n"}}
    alone = row | {"id": "f3", "data": {"rating": 1, "model_id": "oak"}}
    votes = read(write(tmp_path / "f.jsonl", row, down, alone))["votes"]
    of = {name: results([v for v in votes if v.prompt == name]) for name in ("m", "n")}
    assert of == {"m": {("oak", "elm"), ("oak", "fir")}, "n": {("elm", "oak"), ("fir", "oak")}}
    assert {vote.rater for vote in votes} == {"u"}


def test_replies_of_open_assistant_are_ranked_under_their_message(tmp_path: Path) -> None:
    asked = {"message_id": "a", "parent_id": None, "text": "Why?", "role": "prompter", "rank": None}
    replies = [
        {
            "message_id": f"r{n}",
            "parent_id": "a",
            "text": f"So {n}.",
            "role": "assistant",
            "rank": n,
        }
        for n in (1, 0, 2)
    ]
    rows = read(write(tmp_path / "o.jsonl", asked, *replies))
    assert results(rows["votes"]) == {
        *[("ranked 1", "ranked 2"), ("ranked 1", "ranked 3"), ("ranked 2", "ranked 3")]
    }
    assert [prompt.text for prompt in rows["prompts"]][:1] == ["Why?"]


DATA = {"prompt": "Why?", "answer1": "So.", "answer2": "No.", "model1": "oak", "model2": "elm"}


@pytest.mark.parametrize(
    ("data", "result", "won"),
    [
        (DATA, {"type": "pairwise", "value": {"selected": "right"}}, {("elm", "oak")}),
        (
            {"prompt": "Why?", "items": [{"id": "x", "body": "So."}, {"id": "y", "body": "No."}]},
            {"type": "ranker", "value": {"ranker": {"_": ["y", "x"]}}},
            {("y", "x")},
        ),
    ],
)
def test_annotations_of_label_studio(
    tmp_path: Path, data: dict[str, Any], result: dict[str, Any], won: set[tuple[str, str]]
) -> None:
    kept = {"completed_by": {"email": "a@example.org"}, "result": [result]}
    gone = {"completed_by": 2, "was_cancelled": True, "result": [result]}
    rows = read(write(tmp_path / "t.jsonl", {"id": 1, "data": data, "annotations": [kept, gone]}))
    assert results(rows["votes"]) == won
    assert {vote.rater for vote in rows["votes"]} == {"a@example.org"}
    assert len(rows["responses"]) == 2


def test_records_of_argilla_2(tmp_path: Path) -> None:
    ranking = [{"value": "response-2", "rank": 1}, {"value": "response-1", "rank": 2}]
    given = {"user_id": "u", "value": ranking, "status": "submitted"}
    draft = {"user_id": "v", "value": ranking[::-1], "status": "draft"}
    fields = {"prompt": "Why?", "response-1": "So.", "response-2": "No."}
    row = {"id": "r", "fields": fields, "metadata": {"model-1": "oak", "model-2": "elm"}}
    rows = read(write(tmp_path / "a.jsonl", row | {"responses": {"preference": [given, draft]}}))
    assert results(rows["votes"]) == {("elm", "oak")}
    assert [vote.rater for vote in rows["votes"]] == ["u"]


def test_a_leaderboard_is_not_taken_for_ratings(tmp_path: Path) -> None:

    with pytest.raises(FileError, match="for ratings, one in a row, there is no prompt or"):
        read(write(tmp_path / "b.csv", "model,score", "oak,1200", "elm,1100"))


def test_columns_of_answers_without_a_winner_are_answers_once_somebody_says_so(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "w.csv", "question,answer of X,answer of Y", "Why?,So.,No.")
    rows = read(path, columns={"answer:X": "answer of X", "answer:Y": "answer of Y"})
    assert {(one.candidate, one.text) for one in rows["responses"]} == {("X", "So."), ("Y", "No.")}
    assert "votes" not in rows
    with pytest.raises(FileError, match="'answer of X', 'answer of Y', which may be choices"):
        read(path)
