"""`import_arena`: files become an arena, whole or not at all, and once."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from threading import Event, Thread

import pyarrow
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pyarrow import parquet

from arena.models import Arena, Candidate, Comparison, Import, Pair, Prompt, Rater, Response, Vote
from arena.services import imports
from arena.services.imports import Options, exclusive_import, import_files
from arena.signals import arena_created, votes_changed

pytestmark = pytest.mark.django_db

PROMPTS = [{"id": "p1", "category": "code", "text": "One?", "reference": "1", "rubric": "Right?"}]
PROMPTS += [{"id": "p2", "text": "Two?"}]
CANDIDATES = [{"name": "A", "model": "m1", "parameters": {"temperature": 0}}, {"name": "B"}]
RESPONSES = [
    {"candidate": name, "prompt": prompt, "text": f"{name} says {prompt}"}
    for name in "AB"
    for prompt in ("p1", "p2")
]
VOTES = [
    {"prompt": "p1", "a": "A", "b": "B", "outcome": "left", "rater": "r1", "kind": "person"},
    {"prompt": "p2", "a": "B", "b": "A", "preference_b": 0.25, "judge": "J", "cost_usd": 0.5},
    {"prompt": "p1", "a": "A", "b": "B", "outcome": "left", "rater": "r1", "kind": "person"},
]


def write(path: Path, lines: list[dict]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "native"
    folder.mkdir()
    write(folder / "prompts.jsonl", PROMPTS)
    write(folder / "candidates.jsonl", CANDIDATES)
    write(folder / "responses.jsonl", RESPONSES)
    write(folder / "judge_votes.jsonl", VOTES)
    return folder


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.csv"
    lines = [f"{i % 3},A{i % 5},B{i % 7},left,w{i % 4},{i}" for i in range(200)]
    path.write_text("prompt,left,right,winner,worker,id\n" + "\n".join(lines) + "\n")
    return path


def run(*arguments: object) -> str:
    out = StringIO()
    call_command("import_arena", *map(str, arguments), stdout=out, stderr=StringIO())
    return out.getvalue()


def counts() -> list[int]:
    models = (Arena, Import, Prompt, Candidate, Response, Comparison, Vote, Rater)
    return [model.objects.count() for model in models]


def test_a_folder_becomes_an_arena(folder):
    said = run("mine", folder, "--name", "My arena")
    assert "3 votes added" in said
    assert f"Vote at {settings.SITE_URL}/a/mine/vote/" in said
    arena = Arena.objects.revealed().get(slug="mine")
    assert arena.name == "My arena"
    assert sorted(arena.prompts.active().values_list("external_id", "reference", "rubric")) == [
        ("p1", "1", "Right?"),
        ("p2", "", ""),
    ]
    assert arena.candidates.active().get(name="A").parameters == {"temperature": 0}
    first, soft, third = arena.votes.live().order_by("pk")
    assert (first.outcome, first.preference, first.rater.name) == ("left", None, "r1")
    assert (soft.outcome, soft.preference, soft.details) == ("left", 0.75, {"cost_usd": 0.5})
    assert (soft.rater.kind, soft.rater.name) == ("judge", "J")
    assert third.comparison_id != first.comparison_id
    assert first.comparison.left_response.text == "A says p1"
    assert (first.comparison.issued_at, first.comparison.draw_probability) == (None, None)
    assert Pair.objects.get(arena=arena).shared_prompts == 2


def test_an_arena_in_which_nobody_can_vote_says_what_that_takes(tmp_path):
    path = write(tmp_path / "amber.jsonl", [{"prompt": "Why?", "response": "So."}])
    said = run("mine", path)
    assert "Nobody can vote yet: that takes answers of two candidates" in said
    assert f"See it at {settings.SITE_URL}/a/mine/\n" in said
    other = write(tmp_path / "birch.jsonl", [{"prompt": "Why?", "response": "Thus."}])
    said = run("mine", other)
    assert "Nobody" not in said
    assert f"Vote at {settings.SITE_URL}/a/mine/vote/" in said


def test_what_is_not_used_is_named(folder, tmp_path):
    write(folder / "prompts.jsonl", [*PROMPTS, {"id": "p3", "text": "Three?", "note": 1}])
    assert "prompts.jsonl: not used: 'note'\n" in run("mine", folder)
    path = write(
        tmp_path / "questions.jsonl", [{"question": "Why?", "comment": "So.", "x\u202e": 1}]
    )
    unread = "not used: 'comment', 'x\\u202e'\n"
    assert unread in run("other", path, "--preview")
    assert f"questions.jsonl: {unread}" in run("other", path)
    assert "not used" not in run("other", path)  # nothing was read again
    sample = Path(__file__).parent.parent / "files" / "langsmith-download.csv"
    assert "not used: 'metadata', 'created_at'\n" in run("dataset", sample)


@pytest.mark.parametrize("many", [1, 10_000])
def test_postgresql_counts_the_rows_of_a_large_import(pairs, monkeypatch, many):
    monkeypatch.setattr(imports, "MANY_ROWS", many)
    with CaptureQueriesContext(connection) as queries:
        run("duels", pairs)
    counted = [query for query in queries if query["sql"].startswith("ANALYZE")]
    assert len(counted) == (many == 1 and connection.vendor == "postgresql")


def test_pairs_become_a_board_without_texts(pairs):
    run("board", pairs)
    arena = Arena.objects.revealed().get()
    assert (arena.votes.live().count(), arena.candidates.count(), arena.prompts.count()) == (
        200,
        12,
        3,
    )
    assert arena.name == "board"
    assert Response.objects.count() == arena.pairs.count() == 0
    vote = arena.votes.order_by("pk")[7]
    assert (str(vote.comparison.left), str(vote.comparison.right)) == ("A2", "B0")
    assert (vote.rater.name, vote.details, vote.source_row) == ("w3", {"id": "7"}, 8)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_a_file_in_another_unicode_encoding_is_taken(tmp_path, encoding):
    path = tmp_path / "votes.csv"
    path.write_bytes("left,right,winner\nÄ,B,left\nÄ,Ä,tie\nB,Ä,tie".encode(encoding))
    assert "2 votes added, 1 row rejected" in run("board", path, "--skip-bad")
    names = set(Candidate.objects.values_list("name", flat=True))
    assert names == {"Ä", "B"}
    rejects = (tmp_path / "votes.rejects.csv").read_text("utf-8-sig")
    assert rejects == "left,right,winner\nÄ,Ä,tie\n"


def test_parquet_is_imported_and_its_bad_rows_are_kept_as_csv(tmp_path):
    path = tmp_path / "votes.parquet"
    table = {"model_a": ["A", "A", "B"], "model_b": ["B", "A", "A"], "winner": ["model_a"] * 3}
    parquet.write_table(pyarrow.table(table | {"id": [1, 2, 3]}), path)
    assert "2 votes added, 1 row rejected" in run("board", path, "--skip-bad")
    assert [vote.details for vote in Vote.objects.order_by("pk")] == [{"id": "1"}, {"id": "3"}]
    rejects = tmp_path / "votes.rejects.csv"
    assert rejects.read_text() == '"model_a","model_b","winner","id"\n"A","A","model_a",2\n'
    assert "already imported" in run("board", path, "--skip-bad")


def test_votes_keep_the_order_of_the_file(pairs):
    run("board", pairs)
    rows = list(Vote.objects.order_by("pk").values_list("source_row", flat=True))
    assert rows == list(range(1, 201))


def test_rows_without_a_worker_have_one_rater_without_a_name(tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("left,right,winner\nA,B,left\nA,B,left\n")
    run("board", path)
    assert Rater.objects.get().name == ""
    assert Vote.objects.count() == 2


def test_the_same_files_again_add_nothing(folder, pairs):
    run("mine", folder, pairs)
    before = counts()
    assert run("mine", folder, pairs).count("already imported, nothing to add") == 5
    assert counts() == before


def test_a_second_votes_file_adds_to_existing_votes(folder, tmp_path):
    run("mine", folder)
    more = write(tmp_path / "more_votes.jsonl", [VOTES[0] | {"outcome": "tie"}])
    run("mine", more)
    assert Vote.objects.live().count() == 4
    assert Candidate.objects.count() == 2


def test_the_same_content_in_another_file_is_used_again(folder, tmp_path):
    run("mine", folder)
    again = tmp_path / "again"
    again.mkdir()
    write(again / "prompts.jsonl", [*PROMPTS, {"id": "p3", "text": "Three?"}])
    write(again / "responses.jsonl", [*RESPONSES, RESPONSES[0] | {"prompt": "p3"}])
    run("mine", again)
    assert Prompt.objects.count() == 3
    assert Response.objects.count() == 5


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("prompts", {"id": "p1", "text": "Other?"}, "already in the arena, with other content"),
        ("candidates", {"name": "A", "model": "m2"}, "already in the arena, with other content"),
        ("responses", RESPONSES[0] | {"text": "other"}, "differs from this candidate's answer"),
    ],
)
def test_an_existing_name_with_other_content_is_a_bad_row(folder, tmp_path, name, line, words):
    run("mine", folder)
    with pytest.raises(CommandError, match=words):
        run("mine", write(tmp_path / f"{name}.jsonl", [line]))
    assert Import.objects.count() == 4


def test_rows_are_hidden_until_the_reveal(folder):
    seen = []

    def look(*told):
        seen.append(told[0])
        assert not Arena.objects.revealed().exists()
        assert not Prompt.objects.revealed().exists()
        assert not Response.objects.revealed().exists()
        assert not Vote.objects.live().exists()

    options = Options(progress=look)
    import_files(slug="mine", paths=[folder], now=timezone.now(), options=options)
    assert {"checking", "writing"} == set(seen)
    assert Vote.objects.live().count() == 3


class Killed(BaseException):
    """Stands for the end of the process."""


def kill_after(rows: int) -> Options:
    def progress(stage, path, done, total):
        if stage == "writing" and path.suffix == ".csv" and done >= rows:
            raise Killed

    return Options(progress=progress)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr("arena.services.imports.FIRST_BATCH", 30)
    monkeypatch.setattr("arena.services.imports.LARGEST_BATCH", 30)


def test_a_broken_import_continues_where_it_stopped(pairs, small_batches):
    with pytest.raises(Killed):
        import_files(slug="b", paths=[pairs], now=timezone.now(), options=kill_after(90))
    assert Vote.objects.count() == 90
    assert not Arena.objects.revealed().exists()
    assert not Vote.objects.live().exists()
    run("b", pairs)
    assert Vote.objects.live().count() == Comparison.objects.count() == 200
    assert list(Vote.objects.order_by("pk").values_list("source_row", flat=True)) == list(
        range(1, 201)
    )
    assert Arena.objects.revealed().count() == 1


def test_an_abandoned_import_leaves_nothing_behind(folder, pairs, small_batches):
    with pytest.raises(Killed):
        import_files(slug="b", paths=[pairs], now=timezone.now(), options=kill_after(90))
    run("b", folder)
    assert Arena.objects.revealed().get().candidates.count() == 2
    assert counts() == [1, 4, 2, 2, 4, 3, 3, 2]


def test_an_arena_that_is_open_stays_open_while_more_comes_in(folder, pairs, small_batches):
    run("b", folder)
    with pytest.raises(Killed):
        import_files(slug="b", paths=[pairs], now=timezone.now(), options=kill_after(90))
    assert Arena.objects.revealed().exists()
    assert Vote.objects.live().count() == 3
    assert Candidate.objects.revealed().count() == 2


def test_a_file_that_changes_under_the_import_is_not_shown(pairs):
    def change(stage, path, done, total):
        if stage == "writing":
            path.write_text(path.read_text() + "1,A1,B1,left,w1,201\n")

    with pytest.raises(Exception, match="changed while it was being imported"):
        import_files(slug="b", paths=[pairs], now=timezone.now(), options=Options(progress=change))
    assert not Vote.objects.live().exists()


def test_two_imports_into_one_arena_do_not_meet(pairs):
    held, done = Event(), Event()

    def hold():
        with exclusive_import("b"):
            held.set()
            done.wait(10)
        connection.close()

    thread = Thread(target=hold)
    thread.start()
    try:
        assert held.wait(10)
        with pytest.raises(CommandError, match="Another import into this arena is running"):
            run("b", pairs)
        run("other", pairs)
    finally:
        done.set()
        thread.join()
    run("b", pairs)
    assert Vote.objects.live().count() == 400


def test_other_apps_hear_of_an_import_after_its_reveal(
    folder, pairs, django_capture_on_commit_callbacks
):
    told = []

    def hear(signal, arena_id, **kwargs):
        told.append((signal is arena_created, Arena.objects.revealed().get().pk == arena_id))

    for signal in (arena_created, votes_changed):
        signal.connect(hear)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            run("mine", folder)
        with django_capture_on_commit_callbacks(execute=True):
            run("mine", pairs)
    finally:
        for signal in (arena_created, votes_changed):
            signal.disconnect(hear)
    # The reveal, and once more when the pairs are there; by the second import too.
    assert told == [(True, True), *[(False, True)] * 4]


def test_the_reveal_is_stamped_when_it_happens_as_an_import(
    folder, django_capture_on_commit_callbacks
):
    began = timezone.now() - timedelta(minutes=10)
    reasons = []

    def hear(signal, reason, **kwargs):
        reasons.append(reason)

    votes_changed.connect(hear)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            import_files(slug="mine", paths=[folder], now=began)
    finally:
        votes_changed.disconnect(hear)
    assert reasons == ["import", "import"]
    for one in Import.objects.all():
        assert one.started_at == began
        assert one.revealed_at > began + timedelta(minutes=9)


def test_answers_are_read_before_the_database_is_locked(folder, monkeypatch):
    depth, seen = len(connection.savepoint_ids), []

    def look(text, names):
        seen.append(len(connection.savepoint_ids))
        return False

    monkeypatch.setattr("arena.services.import_rows.self_identifies", look)
    run("mine", folder)
    assert seen == [depth] * 4


def test_an_answer_that_names_its_model_flags_the_comparison(folder):
    write(folder / "candidates.jsonl", [{"name": "Claude 2", "model": "claude-2.1"}, CANDIDATES[1]])
    answers = [
        {"candidate": "Claude 2", "prompt": "p1", "text": "As Claude, made by Anthropic, I say 1."},
        {"candidate": "B", "prompt": "p1", "text": "It is 1."},
    ]
    write(folder / "responses.jsonl", answers)
    write(folder / "judge_votes.jsonl", [VOTES[0] | {"a": "Claude 2"}])
    run("mine", folder)
    assert Response.objects.get(candidate__name="Claude 2").names_itself
    assert not Response.objects.get(candidate__name="B").names_itself
    assert Comparison.objects.get().names_itself


def test_more_votes_for_an_arena_with_votes_come_with_a_warning(pairs):
    assert "before" not in run("grown", pairs)
    with pairs.open("a") as file:
        file.write("0,A1,B1,left,w1,200\n")
    assert "already had 200 votes" in run("grown", pairs)


PAIRS = "left,right,winner,other\nA,B,left,right\nB,A,tie,left\n"


def test_the_same_bytes_read_in_another_way_are_refused_and_again_in_the_same_way_add_nothing(
    tmp_path,
):
    path = tmp_path / "votes.csv"
    path.write_text(PAIRS)
    run("mine", path)
    with pytest.raises(CommandError, match=r"votes.csv is already in this arena, read in another"):
        run("mine", path, "--column", "winner=other")
    run("other", path, "--column", "winner=other")
    out = run("other", path, "--column", "winner=other")
    assert "already imported, nothing to add" in out
    with pytest.raises(CommandError, match="read in another way"):
        run("other", path)
    assert Vote.objects.filter(arena__slug="other").count() == 2
    # The usual column, said aloud, is no other way.
    out = run("mine", path, "--column", "winner=winner")
    assert "already imported, nothing to add" in out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--column", "winner=left"), "for votes as a table, there is no left"),
        (("--column", "winner=nobody"), "It has no column 'nobody'. It has the columns 'left'"),
        (
            ("--column", "winner=other", "--column", "model_a=other"),
            "The column 'other' cannot be both",
        ),
        (("--format", "pairs", "--column", "moon=other"), "have no field 'moon'"),
        (("--column", "moon=other"), "No format has all the chosen fields: moon."),
        (("--value", "left=moon"), "is read as 'moon', which is not one of left, right, tie"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(tmp_path, options, says):
    path = tmp_path / "votes.csv"
    path.write_text(PAIRS)
    with pytest.raises(CommandError) as refused:
        run("mine", path, *options)
    assert says in str(refused.value)
    assert not Arena.objects.exists()


def test_columns_that_differ_in_letters_alone_are_refused_until_one_is_chosen(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("left,right,Winner,winner\nA,B,left,right\n")
    with pytest.raises(CommandError, match=r"has the columns 'Winner' and 'winner', which are the"):
        run("mine", path)
    run("mine", path, "--column", "winner=winner")
    assert Vote.objects.get().outcome == "right"


def test_a_count_repeats_a_vote_and_is_refused_by_line_if_it_is_none(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("left,right,winner,count\nA,B,left,3\nB,A,tie,1.5\nB,A,tie,10001\n")
    with pytest.raises(CommandError, match=r"line 3, column count: is '1.5', not a whole number"):
        run("mine", path)
    run("mine", path, "--skip-bad")
    assert [*Vote.objects.order_by("source_row").values_list("source_row", "details")] == [
        (n, {"line": 2}) for n in (1, 2, 3)
    ]


def test_votes_of_raters_who_saw_the_names_do_not_count(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner,anony\nA,B,model_a,False\nA,B,model_a,True\n")
    run("mine", path)
    assert [*Vote.objects.order_by("pk").values_list("uncounted", flat=True)] == ["chosen", None]
    run("other", path, "--column", "blind=")
    assert not Vote.objects.filter(arena__slug="other").exclude(uncounted=None).exists()


def test_a_time_that_cannot_be_read_costs_the_time_and_is_said(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("left,right,winner,cast_at\nA,B,left,yesterday\n")
    out = run("mine", path)
    assert "not used: 'cast_at (where the time cannot be read)'" in out
    assert Vote.objects.count() == 1
