"""Files that leave an arena: LMArena's columns, Parquet, training pairs, a dataset."""

import csv
import io
import json
import re
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from arena.actors import ANONYMOUS
from arena.models import Arena, Comparison, Prompt, Rater, Response, Vote
from arena.services.imports import Options, import_files, preview_files
from ranking.exports import EXPORTS, file_names, write_file
from ranking.leaderboard import leaderboard
from ranking.leaderboard_copy import read_votes
from ranking.question import Question
from ranking.services.votes import read
from ranking.votes import read_file
from tests.arena.rest import token_of, undisclosed
from tests.factories import known, make_arena, make_person, make_team, make_vote
from tests.ranking.helpers import publish
from tests.ranking.test_api_battles import lines, vote_on

pytestmark = pytest.mark.django_db


@pytest.fixture
def empty_arena() -> Arena:
    return make_arena(slug="support")


@pytest.fixture
def jury() -> Rater:
    return Rater.objects.create(kind=Rater.Kind.JURY, name="Three judges")


def content(client: Client, name: str, **asked: str) -> bytes:
    answer = client.get(f"/api/v1/arenas/support/exports/{name}", asked)
    assert answer.status_code == 200, name
    return bytes(answer.getvalue())  # type: ignore[attr-defined]  # it is streamed


def table(client: Client, name: str, **asked: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(
        io.BytesIO(content(client, name, **asked))
    ).to_pylist()
    return rows


def test_parquet_holds_what_the_lines_hold(client: Client, empty_arena: Arena) -> None:
    for outcome in ("left", "tie", "both_bad"):
        vote_on(empty_arena, 0, 1, outcome)
    vote_on(empty_arena, 1, 2, "right", prompt=2)
    for name in EXPORTS:
        assert table(client, f"{name}.parquet") == lines(client, f"{name}.jsonl"), name
        assert table(client, f"{name}.parquet"), name


@pytest.mark.parametrize("name", ["battles.parquet", "dataset.zip"])
def test_without_pyarrow_an_export_says_what_it_needs(
    client: Client, empty_arena: Arena, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setattr("ranking.api.exports.HAS_PYARROW", False)
    monkeypatch.setattr("judges.management.commands.export.HAS_PYARROW", False)
    refused = client.get(f"/api/v1/arenas/support/exports/{name}")
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith("Parquet files need pyarrow: pip install ")
    with pytest.raises(CommandError, match="Parquet files need pyarrow"):
        call_command("export", "support", str(tmp_path / name))
    assert client.get("/api/v1/arenas/support/exports/battles.csv").status_code == 200


def test_a_ranked_export_draws_other_weights_and_has_the_scores_and_covariance_of_the_arena(
    client: Client, empty_arena: Arena, tmp_path: Path
) -> None:
    people = [make_person() for _ in range(9)]
    candidates = list(empty_arena.candidates.order_by("pk"))
    prompts = list(empty_arena.prompts.order_by("pk"))
    prompts += [
        Prompt.objects.create(arena=empty_arena, external_id=f"q{i}", text="?") for i in range(8)
    ]
    for turn in range(180):  # the last prompts and raters are the first to be voted with
        left, right = candidates[turn % 3], candidates[(turn + 1) % 3]
        outcome = ("left", "right", "left", "tie", "left")[turn % 5]
        prompt, rater = prompts[-1 - turn * 7 % 12], people[-1 - (turn * 5 + turn // 9) % 9]
        make_vote(empty_arena, left, right, outcome, prompt, rater)
    standings = publish(empty_arena).standings.order_by("candidate__name")
    stored = np.array(list(standings.values_list("score", "low", "high")))
    path = tmp_path / "battles.csv"
    path.write_bytes(content(client, "battles.csv"))

    exported, _ = read_file(path)
    of_file, of_arena = (
        leaderboard(votes, Question(n_resamples=20)) for votes in (exported, read(empty_arena))
    )
    ends = [
        np.array([[row.score, row.low, row.high] for row in made.rows])
        for made in (of_file, of_arena)
    ]
    assert ends[1] == pytest.approx(stored, abs=1e-6)
    assert ends[0][:, 0] == pytest.approx(stored[:, 0], abs=1e-6)
    covariances = [made.measured.covariance for made in (of_file, of_arena)]
    assert covariances[0] == pytest.approx(covariances[1], abs=1e-6)
    assert np.abs(ends[0] - stored).max() > 0.1


@pytest.mark.parametrize("most", [100, 0], ids=["vote by vote", "counted"])
def test_the_copy_of_a_leaderboard_fits_soft_verdicts_as_the_leaderboard_does(
    empty_arena: Arena, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    left, right, _ = empty_arena.candidates.order_by("pk")
    for outcome, preference in (("left", 0.75), ("right", 0.25), ("tie", None), ("right", None)):
        make_vote(empty_arena, left, right, outcome, preference=preference)
    snapshot = publish(empty_arena)
    monkeypatch.setattr("ranking.leaderboard_copy.MOST_VOTES", most)
    rows = read_votes(empty_arena, snapshot)
    assert sorted(row[2] for row in rows) == [0, 0.25, 0.5, 0.75]
    assert {tuple(row[:2]) for row in rows} == {(left.pk, right.pk)}


def results(arena: Arena) -> list[tuple[Any, ...]]:
    """Each counted and uncounted vote of an arena, without what a file renumbers."""
    votes = arena.votes.cast().select_related("rater", "comparison__left", "comparison__right")
    return sorted(
        (
            str(vote.comparison.left),
            str(vote.comparison.right),
            vote.outcome,
            str(vote.preference),
            vote.rater.kind,
            vote.cast_at.isoformat(),
            vote.state,
            vote.channel,
            str(vote.seconds),
        )
        for vote in votes
    )


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_exported_votes_come_back_as_they_were(
    client: Client, empty_arena: Arena, jury: Rater, tmp_path: Path, ending: str
) -> None:
    for outcome in ("left", "tie", "both_bad"):
        vote_on(empty_arena, 0, 1, outcome)
    vote_on(empty_arena, 2, 1, "left", prompt=1, rater=jury)
    votes = empty_arena.votes.all()
    votes.filter(outcome="tie").update(channel="signed_in", seconds=2.5, uncounted="rushed")
    votes.filter(rater=jury).update(preference=0.75)
    votes.filter(outcome="both_bad").update(voided_at=timezone.now(), void_reason="A script.")
    path = tmp_path / f"anything.{ending}"
    path.write_bytes(content(client, f"battles.{ending}"))
    preview = preview_files(slug="back", paths=[path])
    assert (preview.rows["votes"], preview.rejected.count) == (4, 0)
    for slug in ("back", "back"):  # a second time adds nothing
        import_files(slug=slug, paths=[path], now=timezone.now(), options=Options())
    back = Arena.objects.get(slug="back")
    changed = [(*row[:7], row[7] or "file" * (row[4] == "person"), row[8])
               for row in results(empty_arena)]  # fmt: skip
    assert results(back) == sorted(changed)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_votes_in_lmarenas_columns_come_back_with_their_texts(
    client: Client, empty_arena: Arena, tmp_path: Path, ending: str
) -> None:
    for outcome in ("left", "tie", "both_bad"):
        vote_on(empty_arena, 0, 1, outcome)
    path = tmp_path / f"anything.{ending}"
    path.write_bytes(content(client, f"lmarena.{ending}"))
    import_files(slug="back", paths=[path], now=timezone.now(), options=Options())
    back = Arena.objects.get(slug="back")
    assert [row[:3] for row in results(back)] == [row[:3] for row in results(empty_arena)]
    assert "Question 0?" in back.prompts.values_list("text", flat=True)


@pytest.mark.parametrize("name", ["dpo", "dpo-messages"])
def test_preferences_come_back_with_their_prompts_candidates_and_juries(
    client: Client, empty_arena: Arena, jury: Rater, tmp_path: Path, name: str
) -> None:
    vote_on(empty_arena, 0, 1, "left")
    vote_on(empty_arena, 0, 2, "left")
    vote_on(empty_arena, 2, 1, "left", rater=jury)
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(content(client, f"{name}.jsonl", raters="both"))
    import_files(slug="back", paths=[path], now=timezone.now(), options=Options())
    back = Arena.objects.get(slug="back")
    ours, theirs = (
        sorted(
            (
                vote.comparison.prompt.external_id,
                vote.rater.kind,
                str(getattr(vote.comparison, vote.outcome)),
            )
            for vote in arena.votes.all()
        )
        for arena in (empty_arena, back)
    )
    assert theirs == ours


def test_a_bad_row_of_exported_votes_is_named_by_its_column(
    client: Client, empty_arena: Arena, tmp_path: Path
) -> None:
    vote_on(empty_arena, 0, 1, "left")
    [row] = lines(client, "battles.jsonl")
    odd = {"state": "lost", "seconds": "soon", "rater_kind": "cat", "outcome": "win", "left": None}
    for column, value in odd.items():
        path = tmp_path / "votes.jsonl"
        path.write_text(json.dumps(row) + "\n" + json.dumps(row | {column: value}) + "\n")
        [bad] = preview_files(slug="back", paths=[path]).rejected.first
        assert column in str(bad), column


def test_an_arena_without_votes_gives_valid_files(client: Client, empty_arena: Arena) -> None:
    assert [table(client, f"{name}.parquet") for name in EXPORTS] == [[], [], [], []]
    archive = zipfile.ZipFile(io.BytesIO(content(client, "dataset.zip")))
    assert archive.namelist() == ["README.md"]
    assert "configs" not in yaml.safe_load(archive.read("README.md").decode().split("---\n")[1])


def test_lmarenas_votes_leave_as_they_came_with_one_more(tmp_path: Path, client: Client) -> None:
    given = Path(__file__).parent.parent / "files" / "lmarena.jsonl"
    import_files(slug="there", paths=[given], now=timezone.now())
    key = re.search(r'data-key="([0-9a-f-]{36})"', known(client).get("/a/there/vote/").text)[1]
    hour_ago = timezone.now() - timedelta(hours=1)  # whoever votes at once has not read them
    Comparison.objects.filter(key=key).update(issued_at=hour_ago)
    client.post(reverse("cast_vote", args=["there", key]), {"outcome": "left"})
    call_command("export", "there", str(tmp_path / "lmarena.jsonl"), verbosity=0)
    *written, new = map(json.loads, (tmp_path / "lmarena.jsonl").read_text().splitlines())
    came = list(map(json.loads, given.read_text().splitlines()))
    for row in written:
        assert row.pop("judge").startswith("rater-")
        assert (row.pop("rater_kind"), row.pop("document")) == ("person", "")
    assert written == [{name: row[name] for name in row if name != "judge"} for row in came]
    assert new["winner"] == "model_a"
    assert set(new) == {*came[0], "rater_kind", "document"}


def test_votes_without_texts_keep_their_prompts_in_lmarenas_columns(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("left,right,winner,prompt\n" + "A,B,left,p1\nA,B,tie,p1\nB,A,tie,p2\n")
    import_files(slug="there", paths=[path], now=timezone.now())
    call_command("export", "there", str(tmp_path / "lmarena.csv"), verbosity=0)
    import_files(slug="back", paths=[tmp_path / "lmarena.csv"], now=timezone.now())
    votes = Vote.objects.filter(arena__slug="back").order_by("pk")
    assert list(votes.values_list("comparison__prompt__external_id", flat=True)) == [
        *("p1", "p1", "p2")
    ]


def test_later_turns_are_in_the_answers_alone(tmp_path: Path) -> None:
    given = Path(__file__).parent.parent / "files" / "lmarena.jsonl"
    import_files(slug="there", paths=[given], now=timezone.now())
    Vote.objects.update(outcome="left")
    call_command("export", "there", str(tmp_path / "dpo-messages.jsonl"), verbosity=0)
    *_, row = map(json.loads, (tmp_path / "dpo-messages.jsonl").read_text().splitlines())
    assert row["prompt"] == [{"role": "user", "content": "Wie spät ist es?"}]
    assert [message["role"] for message in row["chosen"]] == ["assistant", "user", "assistant"]


def test_the_language_of_lmarenas_prompts_goes_back_and_forth(tmp_path: Path) -> None:
    file = Path(__file__).parent.parent / "files" / "lmarena.jsonl"
    text = file.read_text().replace("English", "unknown")
    file = tmp_path / "given.jsonl"
    file.write_text(text)
    import_files(slug="there", paths=[file], now=timezone.now())
    assert set(Prompt.objects.values_list("category", flat=True)) == {"", "German"}
    call_command("export", "there", str(tmp_path / "lmarena.jsonl"), verbosity=0)
    written = (tmp_path / "lmarena.jsonl").read_text().splitlines()
    given = file.read_text().splitlines()
    names = [[json.loads(line)["language"] for line in lines] for lines in (given, written)]
    assert names[0] == names[1]


def test_lmarena_columns_name_winners_and_conversations(client: Client, empty_arena: Arena) -> None:
    vote = vote_on(empty_arena, 0, 1, "both_bad")
    [row] = lines(client, "lmarena.jsonl")
    assert row["question_id"] == str(vote.comparison.key)
    assert (row["model_a"], row["model_b"]) == ("candidate-0", "candidate-1")
    assert (row["winner"], row["anony"], row["turn"]) == ("tie (bothbad)", True, 1)
    assert row["tstamp"] == vote.cast_at.timestamp()
    assert row["conversation_b"] == [
        {"role": "user", "content": "Question 0?"},
        {"role": "assistant", "content": "Answer 0-1 of somebody."},
    ]
    [in_csv] = csv.DictReader(io.StringIO(content(client, "lmarena.csv").decode()))
    assert json.loads(in_csv["conversation_a"]) == row["conversation_a"]


def test_lmarena_hides_answers_of_undisclosed_candidates(
    client: Client, empty_arena: Arena
) -> None:
    hidden = undisclosed(empty_arena)
    answer = Response.objects.create(
        candidate=hidden, prompt=empty_arena.prompts.earliest("pk"), text="The secret."
    )
    vote_on(empty_arena, 0, 3, "right")
    [row] = lines(client, "lmarena.jsonl")
    assert row["model_b"] == f"Undisclosed {hidden.pk}"
    assert (row["conversation_b"], row["conversation_a"] is None) == (None, False)
    assert answer.text.encode() not in content(client, "lmarena.parquet")


def test_juries_decide_where_people_do_not(
    client: Client, empty_arena: Arena, jury: Rater, judge: Rater
) -> None:
    vote_on(empty_arena, 0, 1, "left", prompt=0)
    vote_on(empty_arena, 0, 1, "right", prompt=0, rater=jury)
    vote_on(empty_arena, 0, 1, "right", prompt=1, rater=jury)
    vote_on(empty_arena, 0, 1, "right", prompt=2, rater=judge)

    def chosen(raters: str) -> list[tuple[str, str, str]]:
        rows = table(client, "dpo.parquet", raters=raters)
        return [(row["prompt_id"], row["chosen_candidate"], row["decided_by"]) for row in rows]

    assert chosen("people") == [("p0", "candidate-0", "people")]
    assert chosen("juries") == [
        ("p0", "candidate-1", "juries"),
        ("p1", "candidate-1", "juries"),
    ]
    assert chosen("both") == [("p0", "candidate-0", "people"), ("p1", "candidate-1", "juries")]


def test_preferences_come_as_messages(client: Client, empty_arena: Arena) -> None:
    vote_on(empty_arena, 0, 1, "right")
    [row] = lines(client, "dpo-messages.jsonl")
    assert row["prompt"] == [{"role": "user", "content": "Question 0?"}]
    assert row["chosen"] == [{"role": "assistant", "content": "Answer 0-1 of somebody."}]
    assert row["rejected"] == [{"role": "assistant", "content": "Answer 0-0 of somebody."}]


def test_conversations_leave_with_all_their_turns(client: Client, empty_arena: Arena) -> None:
    asked = [
        {"role": "system", "content": "You sell tea."},
        {"role": "user", "content": "Black or green?"},
        {"role": "assistant", "content": "Green."},
        {"role": "user", "content": "Why?"},
    ]
    call = {"id": "1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    answer = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "Fresh.", "tool_call_id": "1"},
        {"role": "assistant", "content": "It is fresh."},
    ]
    vote_on(empty_arena, 0, 1, "left")
    Prompt.objects.filter(external_id="p0").update(messages=asked)
    Response.objects.filter(candidate__name="candidate-0").update(messages=answer)
    plain = [{"role": one["role"], "content": one["content"]} for one in answer]
    [row] = table(client, "lmarena.parquet")
    assert (row["conversation_a"], row["turn"]) == ([*asked, *plain], 2)
    assert row["conversation_b"][-1]["content"] == "Answer 0-1 of somebody."
    [pair] = lines(client, "dpo-messages.jsonl")
    assert (pair["prompt"], pair["chosen"]) == (asked, plain)
    assert lines(client, "dpo.jsonl")[0]["prompt"] == "Question 0?"


def test_files_of_other_deciders_have_other_names(client: Client, empty_arena: Arena) -> None:
    names = set()
    for raters in ("people", "juries", "both"):
        answer = client.get("/api/v1/arenas/support/exports/dpo.jsonl", {"raters": raters})
        names.add(answer["Content-Disposition"].rpartition("filename=")[2])
        answer.getvalue()
    assert names == {f'"support-dpo{end}.jsonl"' for end in ("", "-juries", "-both")}


def test_texts_take_no_query_of_their_own(empty_arena: Arena) -> None:
    counts = []
    for more in (1, 9):
        for _ in range(more):
            vote_on(empty_arena, 0, 1, "left")
        with CaptureQueriesContext(connection) as queries:
            list(write_file(EXPORTS["lmarena"], "jsonl", empty_arena, ANONYMOUS))
        counts.append(len(queries))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("dpo.parquet?raters=cats", 400),
        ("battles.parquet?raters=people", 400),
        ("dpo.csv", 404),
        ("battles.parquet.exe", 404),
    ],
)
def test_what_cannot_be_exported_is_refused(
    client: Client, empty_arena: Arena, address: str, status: int
) -> None:
    assert client.get(f"/api/v1/arenas/support/exports/{address}").status_code == status


def test_a_dataset_has_a_card_and_the_tables_it_names(
    client: Client, empty_arena: Arena, jury: Rater
) -> None:
    Arena.objects.update(name='Support: "short" answers & more')
    vote_on(empty_arena, 0, 1, "left")
    vote_on(empty_arena, 0, 1, "left", prompt=1, rater=jury)
    archive = zipfile.ZipFile(io.BytesIO(content(client, "dataset.zip")))
    assert archive.testzip() is None
    card = archive.read("README.md").decode()
    facts = yaml.safe_load(card.split("---\n")[1])
    assert facts["pretty_name"] == 'Support: "short" answers & more'
    assert facts["size_categories"] == ["n<1K"]
    assert [one["config_name"] for one in facts["configs"]] == [
        "battles",
        "lmarena",
        "dpo-messages",
    ]
    for config in facts["configs"]:
        rows = pq.read_table(io.BytesIO(archive.read(config["data_files"]))).to_pylist()
        assert len(rows) == 2, config
    assert "| 2 | 4 | 3 |" in card
    assert "candidate-0, candidate-1, candidate-2" in card


def test_a_private_arenas_files_are_its_teams(client: Client, empty_arena: Arena) -> None:
    team = make_team()
    Arena.objects.update(team=team, visibility="private")
    vote_on(empty_arena, 0, 1, "left")
    for name in [*file_names(EXPORTS), "dataset.zip"]:
        path = f"arenas/support/exports/{name}"
        assert client.get(f"/api/v1/{path}").status_code == 404
        answer = token_of(team).get(path)
        assert answer.status_code == 200
        assert answer.getvalue()
