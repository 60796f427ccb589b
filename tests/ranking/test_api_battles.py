"""The votes behind the boards, listed and exported: what a row contains, and what it never
contains."""

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from arena.actors import ANONYMOUS, CLI
from arena.models import Arena, Candidate, Comparison, Rater, Response, Vote
from arena.services.arenas import update_arena
from arena.services.exports import unheard
from arena.services.pairs import sync_pairs
from ranking import exported_votes
from ranking.exports import export_kinds
from ranking.models import ResponseStyle, Snapshot
from tests.arena.rest import Caller, token_of, undisclosed
from tests.arena.teams import make_team
from tests.factories import make_arena, make_person, make_vote
from tests.ranking.helpers import publish

pytestmark = pytest.mark.django_db

ROOT = "/api/v1/arenas/support/"


@pytest.fixture
def empty_arena() -> Arena:
    """Three candidates that answer four prompts, and no votes."""
    return make_arena(slug="support")


def vote_on(arena: Arena, left: int, right: int, outcome: str, prompt: int = 0, **who: Any) -> Vote:
    """A vote between two candidates, by their places, with their answers' texts."""
    asked = arena.prompts.order_by("pk")[prompt]
    pair = list(arena.candidates.order_by("pk"))
    answers = {r.candidate_id: r for r in Response.objects.filter(prompt=asked)}
    rater = who.get("rater") or make_person()
    comparison = Comparison.objects.create(
        arena=arena,
        rater=rater,
        prompt=asked,
        left=pair[left],
        right=pair[right],
        left_response=answers[pair[left].pk],
        right_response=answers[pair[right].pk],
    )
    return Vote.objects.create(
        arena=arena, comparison=comparison, rater=rater, outcome=outcome, cast_at=timezone.now()
    )


def listed(client: Client, **asked: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"{ROOT}battles/", asked).json()["results"]
    return found


def lines(client: Client, name: str) -> list[Any]:
    text = client.get(f"{ROOT}exports/{name}").getvalue().decode()
    return [json.loads(line) for line in text.splitlines()]


def preferred(client: Client) -> list[tuple[Any, ...]]:
    names = ("chosen_candidate", "rejected_candidate", "votes_for", "votes_against")
    return [tuple(row[name] for name in names) for row in lines(client, "dpo.jsonl")]


def test_a_battle_says_who_met_and_who_won(client: Client, empty_arena: Arena) -> None:
    vote = vote_on(empty_arena, 0, 2, "right")
    left, right = vote.comparison.left, vote.comparison.right
    [found] = listed(client)
    assert found == {
        "document": "",
        "comparison": str(vote.comparison.key),
        "prompt": "p0",
        "category": "category-0",
        "left_id": left.pk,
        "left": "candidate-0",
        "right_id": right.pk,
        "right": "candidate-2",
        "outcome": "right",
        "preference": None,
        "rater_kind": "person",
        "rater": exported_votes.rater_name(vote),
        "cast_at": vote.cast_at.isoformat(),
        "texts": None,
    }


def test_battles_are_filtered(client: Client, empty_arena: Arena, judge: Rater) -> None:
    old = vote_on(empty_arena, 0, 1, "left", prompt=0)
    Vote.objects.filter(pk=old.pk).update(cast_at=timezone.now() - timedelta(days=2))
    new = vote_on(empty_arena, 1, 2, "tie", prompt=1)
    judged = vote_on(empty_arena, 2, 0, "left", prompt=2, rater=judge)

    def keys(**asked: Any) -> set[str]:
        return {row["comparison"] for row in listed(client, **asked)}

    def key(vote: Vote) -> str:
        return str(vote.comparison.key)

    yesterday = (timezone.now() - timedelta(days=1)).isoformat()
    assert keys() == {key(old), key(new), key(judged)}
    assert keys(category="category-1") == {key(new)}
    assert keys(candidate=old.comparison.left_id) == {key(old), key(judged)}
    assert keys(raters="judges") == {key(judged)}
    assert keys(since=yesterday) == {key(new), key(judged)}


def test_losses_are_found_whichever_side_the_loser_had(client: Client, empty_arena: Arena) -> None:
    first, second, third = (one.pk for one in empty_arena.candidates.order_by("pk"))
    cast = {
        "lost on the left": vote_on(empty_arena, 0, 1, "right", prompt=0),
        "lost on the right": vote_on(empty_arena, 1, 0, "left", prompt=1),
        "won": vote_on(empty_arena, 0, 1, "left", prompt=2),
        "tie": vote_on(empty_arena, 1, 0, "tie", prompt=3),
        "both bad": vote_on(empty_arena, 0, 1, "both_bad", prompt=3),
        "lost to another": vote_on(empty_arena, 2, 0, "left"),
        "without it": vote_on(empty_arena, 1, 2, "left"),
    }
    names = {str(vote.comparison.key): name for name, vote in cast.items()}

    def found(**asked: Any) -> list[str]:
        return [names[row["comparison"]] for row in listed(client, candidate=first, **asked)]

    lost = ["lost on the left", "lost on the right"]
    assert found(result="lost", opponent=second) == lost
    assert found(result="lost") == [*lost, "lost to another"]
    assert found(opponent=third) == ["lost to another"]
    assert found(result="won") == ["won"]
    assert found(result="tie") == ["tie"]
    assert found(result="both_bad", opponent=second) == ["both bad"]


def test_battles_come_with_their_texts_if_requested(client: Client, empty_arena: Arena) -> None:
    left, right = empty_arena.candidates.order_by("pk")[:2]
    vote_on(empty_arena, 0, 1, "left")
    make_vote(empty_arena, left, right, "left")
    known, unknown = listed(client, texts="true")
    assert known["texts"] == {
        "prompt": "Question 0?",
        "left": "Answer 0-0 of somebody.",
        "right": "Answer 0-1 of somebody.",
    }
    assert unknown["texts"] == {"prompt": None, "left": None, "right": None}


def test_answers_of_undisclosed_candidates_are_hidden(empty_arena: Arena) -> None:
    owners, others = make_team(), make_team()
    Candidate.objects.filter(arena=empty_arena, name="candidate-1").update(
        team=owners, disclosed_at=None, private_until_votes=100
    )
    vote_on(empty_arena, 0, 1, "left")
    path = f"arenas/{empty_arena.slug}/battles/?texts=true"
    for caller, told in (
        (token_of(owners), "Answer 0-1 of somebody."),
        (token_of(others), None),
        (Caller(), None),
    ):
        [row] = caller.get(path).json()["results"]
        assert (row["texts"]["left"], row["texts"]["right"]) == ("Answer 0-0 of somebody.", told)
        assert row["right"].startswith("Undisclosed")


@pytest.mark.parametrize(
    "asked",
    [
        {"since": "0001-01-01T00:00:00+14:00"},
        {"since": "yesterday"},
        {"candidate": "9" * 30},
        {"candidate": "one"},
        {"raters": "cats"},
        {"opponent": "2"},
        {"result": "lost"},
        {"candidate": "2", "result": "beaten"},
        {"opponent": "2", "candidate": "2"},
        {"texts": "perhaps"},
        {"category": "\0"},
        {"cursor": "cD0xMDAwMDAwMDAwMDAwMDAwMDAwMDA="},
    ],
)
def test_filters_that_mean_nothing_are_reported(
    client: Client, empty_arena: Arena, asked: dict[str, str]
) -> None:
    answer = client.get(f"{ROOT}battles/", asked)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["parameter"] in asked


def test_pages_hold_every_battle_once(client: Client, empty_arena: Arena) -> None:
    votes = [vote_on(empty_arena, 0, 1, "left") for _ in range(7)]
    url, seen = f"{ROOT}battles/?page_size=3", []
    while url:
        page = client.get(url).json()
        seen += [row["comparison"] for row in page["results"]]
        url = page["next"]
    assert seen == [str(vote.comparison.key) for vote in votes]


def test_votes_that_do_not_count_are_not_found(client: Client, empty_arena: Arena) -> None:
    vote = vote_on(empty_arena, 0, 1, "left")
    Vote.objects.filter(pk=vote.pk).update(voided_at=timezone.now(), void_reason="a slip")
    assert listed(client) == []
    assert lines(client, "dpo.jsonl") == []


def test_an_export_says_how_each_vote_came_in_and_whether_it_counts(
    client: Client, empty_arena: Arena
) -> None:
    """A network has a number that tells nothing; no style reveals who wrote what on the ballot."""
    update_arena(arena=empty_arena, by=CLI, open_answers=False)
    sync_pairs(arena=empty_arena)
    for answer in Response.objects.filter(candidate__arena=empty_arena):
        ResponseStyle.objects.create(response=answer, words=7, headings=0, list_items=2, bold=1)
    origins = [
        {"channel": "browser", "seconds": 4.5, "network": "a" * 16},
        {"channel": "signed_in", "seconds": 9.0, "network": "b" * 16},
        {"channel": "browser", "network": "a" * 16, "rushed": True, "uncounted": "rushed"},
        {"voided_at": timezone.now(), "void_reason": "a slip"},
    ]
    for number, fields in enumerate(origins):
        vote = vote_on(empty_arena, 0, 1, "left", prompt=number)
        Vote.objects.filter(pk=vote.pk).update(**fields)
    empty_arena.prompts.filter(external_id="p1").update(retired_at=timezone.now())
    rows = lines(client, "battles.jsonl")
    names = ("channel", "seconds", "network", "state")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("browser", 4.5, rows[0]["network"], "counted"),
        ("signed_in", 9.0, rows[1]["network"], "counted"),
        ("browser", None, rows[0]["network"], "rushed"),
        ("", None, None, "voided"),
    ]
    assert 0 < rows[0]["network"] != rows[1]["network"] > 0
    assert [row["left_words"] for row in rows] == [None, 7, None, None]
    assert [rows[1][f"right_{name}"] for name in exported_votes.STYLE] == [7, 0, 2, 1]
    publish(empty_arena)
    snapshot = Snapshot.objects.current().get(board__raters="people", board__category="")
    snapshot.findings["capped"] = [[empty_arena.votes.earliest("pk").rater_id, 0.5]]
    snapshot.save()
    states = [row["state"] for row in lines(client, "battles.jsonl")]
    assert states == ["capped", "counted", "rushed", "voided"]


def test_people_have_pseudonyms_per_arena_and_judges_names(
    client: Client, empty_arena: Arena, judge: Rater
) -> None:
    user = get_user_model().objects.create_user("jane.doe", "jane@example.org")
    jane = make_person(user=user, name="Jane Doe")
    elsewhere = make_arena()
    first, second = (
        vote_on(empty_arena, 0, 1, "left", rater=jane),
        vote_on(empty_arena, 1, 2, "tie", rater=jane),
    )
    other = vote_on(elsewhere, 0, 1, "left", rater=jane)
    vote_on(empty_arena, 0, 1, "left", prompt=1, rater=judge)

    names = [row["rater"] for row in listed(client)]
    assert names == [
        exported_votes.rater_name(first),
        exported_votes.rater_name(second),
        "A strict judge",
    ]
    assert names[0] == names[1] != exported_votes.rater_name(other)
    everything = client.get(f"{ROOT}battles/").content + b"".join(
        client.get(f"{ROOT}exports/{name}").getvalue()
        for name in ("battles.csv", "battles.jsonl", "dpo.jsonl")
    )
    for told in ("jane", "Jane", "example.org"):
        assert told.encode() not in everything


def test_a_vote_whose_prompt_nobody_knows_has_null(client: Client, empty_arena: Arena) -> None:
    left, right = empty_arena.candidates.order_by("pk")[:2]
    make_vote(empty_arena, left, right, "left", preference=0.75)
    [found] = listed(client)
    assert (found["prompt"], found["category"], found["preference"]) == (None, "", 0.75)


def test_a_page_of_battles_takes_the_same_queries_however_long(
    client: Client, empty_arena: Arena
) -> None:
    counts = []
    for more in (1, 20):
        for _ in range(more):
            vote_on(empty_arena, 0, 1, "left")
        for asked in ({}, {"texts": "true"}):
            with CaptureQueriesContext(connection) as queries:
                listed(client, **asked)
            counts.append(len(queries))
    assert len(set(counts)) == 1


def test_both_exports_hold_what_the_list_holds(client: Client, empty_arena: Arena) -> None:
    for outcome in ("left", "tie", "both_bad"):
        vote_on(empty_arena, 0, 1, outcome)
    answer = client.get(f"{ROOT}exports/battles.csv")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="support-battles.csv"'
    table = list(csv.DictReader(io.StringIO(answer.getvalue().decode())))
    shown = [{name: row[name] for name in row if name != "texts"} for row in listed(client)]
    exported = lines(client, "battles.jsonl")
    assert [
        {name: row[name] for name in own} for row, own in zip(exported, shown, strict=True)
    ] == shown
    as_texts = [
        {name: "" if value is None else str(value) for name, value in row.items()}
        for row in exported
    ]
    assert table == as_texts


def test_a_spreadsheet_runs_no_name(client: Client, empty_arena: Arena) -> None:
    empty_arena.candidates.filter(name="candidate-0").update(name='=HYPERLINK("http://x")')
    empty_arena.prompts.update(category="@SUM(A1)")
    vote_on(empty_arena, 0, 1, "left")
    text = client.get(f"{ROOT}exports/battles.csv").getvalue().decode()
    [row] = csv.DictReader(io.StringIO(text))
    assert row["left"] == '\'=HYPERLINK("http://x")'
    assert row["category"] == "'@SUM(A1)"


def test_whatever_is_read_at_once_no_vote_is_lost_or_twice(
    client: Client, empty_arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exported_votes, "AT_ONCE", 3)
    votes = [vote_on(empty_arena, 0, 1, "left") for _ in range(7)]
    exported = [line["comparison"] for line in lines(client, "battles.jsonl")]
    assert exported == [str(vote.comparison.key) for vote in votes]


def test_the_address_says_the_form_and_nothing_is_sent_for_head(
    client: Client, empty_arena: Arena
) -> None:
    vote_on(empty_arena, 0, 1, "left")
    url = f"{ROOT}exports/battles.csv"
    assert client.get(url, headers={"Accept": "text/csv"}).status_code == 200
    head = client.head(url)
    assert (head.status_code, head.getvalue()) == (200, b"")
    problem = client.get("/api/v1/arenas/none/exports/battles.csv", headers={"Accept": "text/csv"})
    assert problem["Content-Type"] == "application/problem+json"


def test_the_answer_that_more_people_prefer_is_chosen(client: Client, empty_arena: Arena) -> None:
    vote_on(empty_arena, 0, 1, "left")
    vote_on(empty_arena, 1, 0, "right")  # the same answer, on the other side
    vote_on(empty_arena, 0, 1, "right")
    [row] = lines(client, "dpo.jsonl")
    assert row == {
        "prompt": "Question 0?",
        "chosen": "Answer 0-0 of somebody.",
        "rejected": "Answer 0-1 of somebody.",
        "prompt_id": "p0",
        "category": "category-0",
        "document": "",
        "chosen_candidate": "candidate-0",
        "rejected_candidate": "candidate-1",
        "votes_for": 2,
        "votes_against": 1,
        "decided_by": "people",
    }


def test_ties_level_opinions_and_judges_make_no_line(
    client: Client, empty_arena: Arena, judge: Rater
) -> None:
    vote_on(empty_arena, 0, 1, "tie", prompt=0)
    vote_on(empty_arena, 0, 1, "both_bad", prompt=0)
    vote_on(empty_arena, 0, 1, "left", prompt=1)
    vote_on(empty_arena, 0, 1, "right", prompt=1)
    vote_on(empty_arena, 0, 1, "left", prompt=2, rater=judge)
    assert preferred(client) == []
    vote_on(empty_arena, 1, 2, "right", prompt=3)
    assert preferred(client) == [("candidate-2", "candidate-1", 1, 0)]


def test_answers_of_undisclosed_candidates_stay_in_the_house(
    client: Client, empty_arena: Arena
) -> None:
    hidden = undisclosed(empty_arena)
    Response.objects.create(
        candidate=hidden, prompt=empty_arena.prompts.first(), text="The secret."
    )
    vote_on(empty_arena, 0, 3, "right")
    vote_on(empty_arena, 3, 0, "left")
    assert preferred(client) == []
    assert listed(client)[0]["right"] == f"Undisclosed {hidden.pk}"
    assert b"secret-recipe" not in client.get(f"{ROOT}battles/").content


@pytest.mark.slow
def test_exports_of_many_votes_begin_at_once_in_little_memory(
    client: Client, empty_arena: Arena
) -> None:
    n_votes = 50_000 if connection.vendor == "postgresql" else 20_000
    fill_with(empty_arena, n_votes)
    client.get(f"{ROOT}battles/?page_size=1")  # what is loaded once is loaded now
    lengths = {"battles.csv": n_votes + 1, "battles.jsonl": n_votes, "dpo.jsonl": 1}
    for name, expected in lengths.items():
        n_lines, first_after, grown = measured(empty_arena, name)
        assert first_after < 2.0, name
        assert n_lines == expected, name
        assert grown < 40 * 1024, (name, grown)  # kilobytes; the rows as a list take far more
    measured(empty_arena, "lmarena.parquet")  # pyarrow is loaded, and its pools are filled
    for name in ("battles.parquet", "lmarena.parquet", "lmarena.csv", "dataset.zip"):
        assert measured(empty_arena, name)[2] < 40 * 1024, name


def measured(arena: Arena, name: str) -> tuple[int, float, int]:
    """How many lines a file has, after how long it begins, and how much memory it takes in KB."""
    import resource
    import time

    began = time.thread_time()
    stream = export_kinds()[name].write(arena, ANONYMOUS, unheard)
    n_lines = sum(next(stream, b"").count(b"\n") for _ in range(2))
    first_after = time.thread_time() - began
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    n_lines += sum(chunk.count(b"\n") for chunk in stream)
    return n_lines, first_after, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def fill_with(arena: Arena, n: int) -> None:
    """Copy one vote and its comparison in the database: through models that takes half a minute."""
    asked, (left, right) = arena.prompts.order_by("pk")[0], arena.candidates.order_by("pk")[:2]
    first = make_vote(arena, left, right, "left", asked)
    answers = [Response.objects.get(prompt=asked, candidate=one) for one in (left, right)]
    Comparison.objects.filter(pk=first.comparison_id).update(
        left_response=answers[0], right_response=answers[1]
    )
    compared, voted = columns(Comparison, "key"), columns(Vote, "comparison_id")
    keys = "gen_random_uuid()" if connection.vendor == "postgresql" else "hex(randomblob(16))"
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < %s)"
            f" INSERT INTO arena_comparison ({', '.join(compared)}, key)"
            f" SELECT {', '.join(compared)}, {keys} FROM arena_comparison, n",
            [n],
        )
        cursor.execute(
            f"INSERT INTO arena_vote ({', '.join(voted)}, comparison_id)"
            f" SELECT v.{', v.'.join(voted)}, c.id FROM arena_vote v, arena_comparison c"
            " WHERE c.id <> v.comparison_id ORDER BY c.id"
        )
        cursor.execute("ANALYZE")  # autovacuum would, but not before the commit


def columns(model: type[Model], apart: str) -> list[str]:
    """The names of all columns but the primary key and `apart`."""
    fields = model._meta.concrete_fields
    return [one.column for one in fields if not one.primary_key and one.column != apart]
