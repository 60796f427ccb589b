"""What a team's program does through the client: candidates, rows, runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from arena.validation import TEXT_LIMIT
from clients.python import ringside_client
from clients.python.ringside_client import Ringside, RingsideError, read_answers
from tests.clients.fake_ringside import FakeRingside, Said, listed, problem

ME = Said({"teams": [{"slug": "search"}]})
CONTENT = {
    "system_prompt": "Be brief.",
    "user_template": "",
    "endpoint": "scripted",
    "model": "scripted-1",
    "parameters": {},
}
SHORT = {"id": 17, "name": "short", "version": 1, "notes": "Ours.", **CONTENT}
MADE_OF = {"system_prompt": "Be brief.", "endpoint": "scripted", "model": "scripted-1"}
REPORT: dict[str, Any] = {"added": 0, "changed": 0, "unchanged": 0, "refused": [], "missing": []}
RUN = {"id": 4, "candidate": 17, "state": "open", "pause_reason": "", "wanted": 2, "done": 0}


def test_a_candidate_that_is_not_there_is_registered() -> None:
    with FakeRingside(ME, listed(), Said(SHORT, 201)) as server:
        found = Ringside(server.url).ensure_candidate("a", "short", **MADE_OF)

    assert found["id"] == 17
    assert server.asked[1].path.endswith("?page_size=1000&name=short&team=search")
    assert server.asked[2].said == {"name": "short", "team": "search", **CONTENT}


def test_the_same_content_is_the_same_version() -> None:
    with FakeRingside(ME, listed(SHORT)) as server:
        assert Ringside(server.url).ensure_candidate("a", "short", **MADE_OF) == SHORT
    assert [asked.method for asked in server.asked] == ["GET", "GET"]


def test_other_content_is_the_next_version_of_the_newest() -> None:
    newest = SHORT | {"id": 21, "version": 10}
    old = SHORT | {"id": 18, "version": 9, "system_prompt": "Be long."}
    with FakeRingside(ME, listed(old, newest), Said(SHORT | {"id": 22}, 201)) as server:
        wanted = MADE_OF | {"system_prompt": "Be long."}
        assert Ringside(server.url).ensure_candidate("a", "short", **wanted)["id"] == 22

    asked = server.asked[2]
    assert asked.path == "/api/v1/arenas/a/candidates/21/versions/"
    assert asked.said == CONTENT | {"system_prompt": "Be long."}


def test_the_next_version_of_a_private_one_is_as_private() -> None:
    until = {"private_until_votes": 200, "private_until": None}
    private = SHORT | until | {"disclosed_at": None}
    with FakeRingside(ME, listed(private), Said(SHORT | {"id": 22}, 201)) as server:
        Ringside(server.url).ensure_candidate("a", "short", **MADE_OF, notes="Theirs.")
    assert server.asked[2].said == CONTENT | until | {"notes": "Theirs."}


def test_notes_count_only_where_they_are_named() -> None:
    with FakeRingside(ME, listed(SHORT), Said(SHORT, 200)) as server:
        Ringside(server.url).ensure_candidate("a", "short", **MADE_OF, notes="Theirs.")
    assert server.asked[2].said["notes"] == "Theirs."


def keys_of(*answers: Said, **made_of: Any) -> str:
    """The key of the request that ensures a candidate, for these answers before it."""
    with FakeRingside(ME, *answers, Said(SHORT, 201)) as server:
        Ringside(server.url).ensure_candidate("a", "short", **made_of)
    assert server.asked[-1].method == "POST"
    return server.asked[-1].key


def test_a_script_that_starts_again_sends_the_same_key() -> None:
    other = MADE_OF | {"model": "m"}
    assert keys_of(listed(), **MADE_OF) == keys_of(listed(), **MADE_OF)
    assert keys_of(listed(), **MADE_OF) != keys_of(listed(), **other)
    assert keys_of(listed(SHORT), **other) == keys_of(listed(SHORT), **other)
    assert keys_of(listed(SHORT), **other) != keys_of(listed(), **other)


def test_going_back_to_what_was_before_is_another_request() -> None:
    back = SHORT | {"model": "m"}
    forth = keys_of(listed(SHORT | {"model": "m2"}), **MADE_OF)
    assert forth != keys_of(listed(back), **MADE_OF)


RETIRED = SHORT | {"id": 21, "version": 2, "retired_at": "2026-11-22T09:00:00Z"}
OTHER = MADE_OF | {"system_prompt": "Be long."}


def test_a_name_that_is_retired_gets_its_next_version() -> None:
    with FakeRingside(ME, listed(RETIRED), Said(SHORT | {"id": 22}, 201)) as server:
        assert Ringside(server.url).ensure_candidate("a", "short", **OTHER)["id"] == 22
    assert server.asked[2].path == "/api/v1/arenas/a/candidates/21/versions/"


def test_what_is_retired_is_not_entered_again() -> None:
    told = pytest.raises(RingsideError, match="short v2 has this configuration and is archived")
    with FakeRingside(ME, listed(RETIRED)) as server, told:
        Ringside(server.url).ensure_candidate("a", "short", **MADE_OF)
    assert {asked.method for asked in server.asked} == {"GET"}


def test_the_version_that_is_not_retired_counts() -> None:
    first = SHORT | {"system_prompt": "Be long."}
    there = listed(RETIRED, first)
    with FakeRingside(ME, there, there, Said(SHORT | {"id": 22}, 201)) as server:
        client = Ringside(server.url)
        assert client.ensure_candidate("a", "short", **OTHER) == first
        assert client.ensure_candidate("a", "short", **MADE_OF)["id"] == 22
    assert server.asked[3].path == "/api/v1/arenas/a/candidates/17/versions/"


def test_a_retired_candidate_gets_another_idempotency_key() -> None:
    """The same key would repeat the old answer, in which it is not archived."""
    first = SHORT | {"system_prompt": "Be long."}
    assert keys_of(listed(first), **MADE_OF) != keys_of(listed(first, RETIRED), **MADE_OF)


def test_a_candidate_is_found_by_its_id() -> None:
    gone = problem(404, "Not here.")
    with FakeRingside(Said(SHORT), gone, problem(403, "No.")) as server:
        client = Ringside(server.url)
        assert client.candidate("a", 17) == SHORT
        assert client.candidate("a", 18) is None
        with pytest.raises(RingsideError, match=r"No\."):
            client.candidate("a", 19)
    assert server.asked[0].path == "/api/v1/arenas/a/candidates/17/"


def test_unknown_fields_are_refused_before_anything_is_sent() -> None:
    with FakeRingside(ME) as server, pytest.raises(RingsideError, match="no member called prompt"):
        Ringside(server.url).ensure_candidate("a", "short", prompt="Be brief.")
    assert not server.asked


def test_what_is_there_is_found_and_nothing_is_written() -> None:
    with FakeRingside(ME, listed(SHORT)) as server:
        client = Ringside(server.url)
        assert client.find_candidate("a", "short", **MADE_OF) == SHORT
        assert client.find_candidate("a", "short", **MADE_OF | {"model": "m"}) is None
    assert {asked.method for asked in server.asked} == {"GET"}


def test_answers_are_sent_in_batches_and_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ringside_client, "ROWS_AT_ONCE", 2)
    bad = {"index": 1, "pointer": "#/responses/1/text", "detail": "The member 'text' is empty."}
    answers = [
        Said(REPORT | {"added": 2, "missing": ["p3"]}),
        Said(REPORT | {"added": 1, "refused": [bad], "missing": []}),
        Said(REPORT | {"unchanged": 1, "missing": ["p9"]}),
    ]
    rows = [{"prompt_id": f"p{i}", "text": "x"} for i in range(5)]
    with FakeRingside(*answers) as server:
        report = Ringside(server.url).upload_answers("a", 17, iter(rows))

    assert [len(asked.said["responses"]) for asked in server.asked] == [2, 2, 1]
    assert {asked.path for asked in server.asked} == {"/api/v1/arenas/a/candidates/17/responses/"}
    assert (report["added"], report["unchanged"], report["missing"]) == (3, 1, ["p9"])
    assert report["refused"] == [bad | {"index": 3, "pointer": "#/responses/3/text"}]


PROMPTS = [
    {"external_id": "p1", "text": "Why?\r\nHow?", "category": "", "retired_at": None},
    {"external_id": "p2", "text": "When?", "category": "", "retired_at": None},
    {"external_id": "p3", "text": "When?", "category": "", "retired_at": None},
    {"external_id": "old", "text": "Who?", "category": "", "retired_at": "2026-11-22T09:00:00Z"},
    {"external_id": "7", "text": "Where?", "category": "", "retired_at": None},
]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt_id": "p1", "text": "x"},
        {"prompt_id": 7, "text": 7},
        {"prompt": "Why?\nHow? ", "text": "x"},
        {"prompt": "p2", "text": "x"},
        {"prompt_id": "p1", "prompt": "Never mind.", "text": "x"},
        {"prompt_id": "p1", "text": "x", "tokens_in": "12", "seconds": "1,5", "cost": 2e-05},
        {"prompt_id": "p1", "text": "x", "tokens_out": None, "seconds": " "},
    ],
)
def test_usable_answers_are_told_before_anything_is_written(row: dict[str, Any]) -> None:
    with FakeRingside(listed(*PROMPTS)) as server:
        assert Ringside(server.url).check_answers("a", [row]) == []
    assert [asked.method for asked in server.asked] == ["GET"]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"prompt_id": "p9", "text": "x"}, "There is no prompt 'p9' in this arena."),
        ({"prompt": "Whence?", "text": "x"}, "There is no prompt 'Whence?' in this arena."),
        ({"prompt_id": "Why?\nHow?", "text": "x"}, "There is no prompt"),
        ({"prompt": "When?", "text": "x"}, "There is more than one prompt 'When?'"),
        ({"prompt_id": "old", "text": "x"}, "The prompt 'old' is archived."),
        ({"prompt_id": "p2", "text": "x"}, "It answers 'p2' again, after row 1."),
        ({"prompt_id": " ", "text": "x"}, "It needs prompt_id or prompt"),
        ({"prompt_id": "p1", "text": " "}, "The text is empty."),
        (
            {"prompt_id": "p1", "answer": "x"},
            "An answer has no member 'answer'. Its members",
        ),
        ({"prompt_id": "p1", "text": "x", "cost": "free"}, "cost is 'free', which is not allowed."),
        ({"prompt_id": "p1", "text": "x", "tokens_in": 1.5}, "tokens_in is 1.5"),
        ({"prompt_id": "p1", "text": "x", "seconds": "1,500"}, "seconds is '1,500'"),
        ({"prompt_id": "p1", "text": "x", "seconds": True}, "seconds is True"),
        ({"prompt_id": "p1", "text": "x", "cost": 1_000_001}, "cost is 1000001"),
    ],
)
def test_unusable_answers_are_told_before_anything_is_written(
    row: dict[str, Any], why: str
) -> None:
    with FakeRingside(listed(*PROMPTS)) as server:
        found = Ringside(server.url).check_answers("a", [{"prompt_id": "p2", "text": "y"}, row])
    assert [(one["index"], one["pointer"]) for one in found] == [(1, "#/responses/1")]
    assert found[0]["detail"].startswith(f"Row 2: {why}")


def test_a_batch_is_no_larger_than_a_request_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ringside_client, "BYTES_AT_ONCE", 1000)
    rows = [{"prompt_id": f"p{i}", "text": "x" * 400} for i in range(5)] + [{"text": "y" * 2000}]
    with FakeRingside(Said(REPORT)) as server:
        Ringside(server.url).upload_answers("a", 17, rows)
    assert [len(asked.said["responses"]) for asked in server.asked] == [2, 2, 1, 1]


def test_no_rows_make_no_request() -> None:
    with FakeRingside(Said(REPORT)) as server:
        assert Ringside(server.url).upload_answers("a", 17, [])["added"] == 0
    assert not server.asked


def test_the_same_rows_may_be_brought_again() -> None:
    """There may be newer rows: a key made from content would hide them."""
    rows = [{"prompt_id": "p1", "text": "x"}]
    with FakeRingside(Said(REPORT)) as server:
        client = Ringside(server.url)
        client.upload_answers("a", 17, rows, atomic=True)
        client.upload_answers("a", 17, rows, atomic=True)
    assert server.asked[0].key != server.asked[1].key
    assert server.asked[0].path.endswith("/responses/?atomic=true")


def test_prompts_have_no_missing_answers() -> None:
    said = {name: value for name, value in REPORT.items() if name != "missing"}
    with FakeRingside(Said(said | {"added": 1})) as server:
        report = Ringside(server.url).upsert_prompts("a", [{"text": "Why?"}])
    assert (report["added"], report["missing"]) == (1, [])


def test_answers_are_ordered_once() -> None:
    done = RUN | {"id": 3, "state": "done"}
    keys = []
    for before in (listed(done), listed(done), listed(), listed(RUN | {"state": "cancelled"})):
        with FakeRingside(before, Said(RUN, 201)) as server:
            Ringside(server.url).generate_answers("a", 17, cap=0.5)
        keys.append(server.asked[1].key)
        assert server.asked[1].said == {"cap": 0.5}
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_a_quote_of_answers_orders_nothing() -> None:
    said = {"calls": 3, "tokens_in": 90, "tokens_out": 900, "expected_cost": 0.1, "worst_cost": 1.0}
    nothing = problem(422, "This candidate has answered every prompt.", "nothing-to-do")
    with FakeRingside(Said(said), nothing) as server:
        assert Ringside(server.url).quote_answers("a", 17) == said
        assert Ringside(server.url).quote_answers("a", 17) is None
    assert [asked.said for asked in server.asked] == [{"dry_run": True}] * 2
    assert server.asked[0].path == "/api/v1/arenas/a/candidates/17/answers/"


@pytest.mark.parametrize("state", ["ordered", "open", "paused"])
def test_an_unfinished_run_of_answers_is_not_ordered_again(state: str) -> None:
    with FakeRingside(listed(RUN | {"state": state})) as server:
        found = Ringside(server.url).generate_answers("a", 17)
    assert found is not None
    assert found["state"] == state
    assert len(server.asked) == 1


def test_where_every_prompt_is_answered_there_is_no_run() -> None:
    said = problem(422, "This candidate has answered every prompt.", "nothing-to-do")
    with FakeRingside(listed(), said) as server:
        assert Ringside(server.url).generate_answers("a", 17) is None


def test_a_refused_order_of_answers_is_an_error() -> None:
    server = FakeRingside(listed(), problem(422, "The budget is used up."))
    with server, pytest.raises(RingsideError, match="budget"):
        Ringside(server.url).generate_answers("a", 17)


def test_a_run_of_answers_is_waited_for() -> None:
    ended = RUN | {"state": "done", "done": 2}
    with FakeRingside(listed(RUN), listed(ended)) as server:
        client = Ringside(server.url)
        assert client.wait_for_answers("a", RUN, patience=60) == ended


TABLE = 'prompt_id,text,tokens_out\np1,"Two\nlines, one comma",\np2,Über uns,9\n'
ROWS = [
    {"prompt_id": "p1", "text": "Two\nlines, one comma"},
    {"prompt_id": "p2", "text": "Über uns", "tokens_out": "9"},
]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_is_read_whatever_saved_it(encoding: str, delimiter: str, tmp_path: Path) -> None:
    head, _, rest = TABLE.partition("\n")
    rest = rest.replace('"Two\nlines, one comma",', f'"Two\nlines, one comma"{delimiter}')
    rest = rest.replace("p1,", f"p1{delimiter}").replace("p2,", f"p2{delimiter}")
    rest = rest.replace("uns,9", f"uns{delimiter}9")
    path = tmp_path / "answers.csv"
    path.write_bytes(f"{head.replace(',', delimiter)}\n{rest}".encode(encoding))
    assert read_answers(str(path)) == ROWS


def test_json_lines_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"prompt_id": "p1", "text": "x", "cost": 0.1}\n\n{"prompt": "Why?"}\n')
    assert read_answers(str(path)) == [
        {"prompt_id": "p1", "text": "x", "cost": 0.1},
        {"prompt": "Why?"},
    ]


@pytest.mark.parametrize("text", ["a\u2028b", "a\u2029b", "a\x85b"])
def test_json_lines_end_at_line_feeds_alone(text: str, tmp_path: Path) -> None:
    path, row = tmp_path / "answers.jsonl", {"prompt_id": "p1", "text": text}
    line = json.dumps(row, ensure_ascii=False)
    path.write_bytes(f"{line}\r\n{line}\n".encode())
    assert read_answers(str(path)) == [row, row]


def test_a_table_has_room_for_the_longest_answer(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(f"prompt_id,text\np1,{'x' * TEXT_LIMIT}\n")
    assert len(read_answers(str(path))[0]["text"]) == TEXT_LIMIT


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", b"prompt_id,text\np1,\xff\n", "not UTF-8 text"),
        ("a.csv", b"prompt_id,text\np1,x,y\n", "line 2, has more cells"),
        ("a.csv", b'prompt_id,text\np1,"x\n', "is not CSV"),
        ("a.jsonl", b'["p1"]\n', "not a JSON object"),
        ("a.jsonl", b"p1\n", "not a JSON object"),
        ("a.jsonl", b'{"prompt_id": "p1", "text": "x", "cost": NaN}\n', "not a JSON object"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    name: str, content: bytes, told: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(RingsideError, match=told) as caught:
        read_answers(str(path))
    assert str(path) in str(caught.value)
