"""`export_arena`: importing it elsewhere gives the same votes, and identifies nobody."""

import json
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from arena.models import Arena, Candidate, Hold, Import, Rater, Reason, Vote
from arena.services.voting import apply_rules
from ranking.models import Standing
from ranking.votes import BOTH_BAD, read_file
from tests.factories import make_arena, make_candidate, make_person, make_team, make_vote

pytestmark = pytest.mark.django_db


def export(*arguments: object) -> str:
    out = StringIO()
    call_command("export_arena", *map(str, arguments), stdout=out)
    return out.getvalue()


def load(*arguments: object) -> None:
    call_command("import_arena", *map(str, arguments), "--quiet")


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def votes_of(slug: str) -> list[tuple]:
    fields = (
        *("comparison__prompt__external_id", "comparison__left__name", "comparison__right__name"),
        *("outcome", "preference", "rater__kind", "rater__name", "cast_at", "details"),
    )
    rows = Vote.objects.live().filter(arena__slug=slug).order_by("pk")
    return [(*row[:-1], json.dumps(row[-1])) for row in rows.values_list(*fields)]


@pytest.fixture
def voted_arena():
    arena = make_arena(slug="mine")
    a, b, c = arena.candidates.order_by("pk")
    prompt = arena.prompts.first()
    rater = make_person(arena=arena, name="worker 7")
    judge = Rater.objects.create(kind="judge", name="a judge", arena=arena)
    make_vote(arena, a, b, "left", prompt, rater, cast_at=datetime(2026, 1, 2, 3, tzinfo=UTC))
    soft = 1 - 0.123456789
    make_vote(arena, b, c, "left", prompt, judge, preference=soft, details={"cost_usd": 0.1})
    make_vote(arena, c, a, "both_bad", None, rater, details={"id": "12"})
    return arena


def test_a_round_trip_keeps_every_vote_to_the_last_bit(voted_arena, tmp_path):
    words = export("mine", tmp_path / "out")
    assert "4 prompts, 3 candidates, 12 responses, 3 votes" in words
    load("copy", tmp_path / "out")
    assert votes_of("copy") == votes_of("mine")
    copy = Arena.objects.get(slug="copy")
    for name in ("prompts", "candidates"):
        assert getattr(copy, name).count() == getattr(voted_arena, name).count()
    assert copy.votes.earliest("pk").comparison.left_response is not None


def test_a_jurys_votes_come_back_as_a_jurys(voted_arena, tmp_path):
    a, b, _ = voted_arena.candidates.order_by("pk")
    jury = Rater.objects.create(kind="jury", name="a jury")
    make_vote(voted_arena, a, b, "tie", voted_arena.prompts.first(), jury)
    export("mine", tmp_path / "out")
    load("copy", tmp_path / "out")
    assert votes_of("copy") == votes_of("mine")
    assert votes_of("copy")[-1][5:7] == ("jury", "a jury")


def test_exporting_the_copy_writes_the_same_files(voted_arena, tmp_path):
    export("mine", tmp_path / "one")
    load("copy", tmp_path / "one", "--visibility", "public")
    export("copy", tmp_path / "two")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_hidden_votes_stay_at_home(voted_arena, tmp_path):
    hidden = Import.objects.create(arena=voted_arena, sha256="0", started_at=timezone.now())
    first, second, _ = voted_arena.votes.order_by("pk")
    Vote.objects.filter(pk__in=[first.pk, second.pk]).update(source=hidden, logged=True)
    export("mine", tmp_path / "out")
    assert [line["outcome"] for line in lines(tmp_path / "out" / "votes.jsonl")] == ["both_bad"]


def test_votes_that_do_not_count_come_back_with_their_state(voted_arena, tmp_path):
    a, b, _ = voted_arena.candidates.order_by("pk")
    for number, fields in enumerate(
        (
            {"voided_at": timezone.now(), "void_reason": "undone by the rater"},
            {"rushed": True, "uncounted": "rushed", "seconds": 0.2, "channel": "browser"},
            {"uncounted": "tier", "channel": "signed_in", "network": "abc"},
            {"verified": True, "channel": "invited", "network": "def"},
        )
    ):
        rater = make_person(arena=voted_arena, name=f"rater {number}")
        vote = make_vote(voted_arena, a, b, "right", None, rater)
        Vote.objects.filter(pk=vote.pk).update(**fields)
    export("mine", tmp_path / "out.zip")
    load("copy", tmp_path / "out.zip")
    fields = ("rater__name", "outcome", "voided_at", "void_reason", "channel", "verified")
    fields += ("rushed", "seconds", "uncounted")
    states = [
        list(Vote.objects.filter(arena__slug=slug).order_by("pk").values_list(*fields))
        for slug in ("mine", "copy")
    ]
    assert states[1] == states[0]
    copied = Vote.objects.filter(arena__slug="copy")
    networks = {vote.network for vote in voted_arena.votes.all()}
    assert len({vote.network for vote in copied}) == len(networks) == 3
    assert networks & {vote.network for vote in copied} == {""}
    export("copy", tmp_path / "again.zip")
    with ZipFile(tmp_path / "again.zip") as again, ZipFile(tmp_path / "out.zip") as first:
        assert again.read("votes.jsonl") == first.read("votes.jsonl")
    apply_rules(arena=Arena.objects.get(slug="copy"))
    assert copied.get(rater__name="rater 1").uncounted == "rushed"


def test_a_held_vote_counts_nowhere_and_its_hold_stays_behind(voted_arena, tmp_path):
    vote = voted_arena.votes.order_by("pk")[0]
    hold = Hold.objects.create(
        arena=voted_arena,
        rater=vote.rater,
        test="pairs",
        evidence={},
        last_vote_id=vote.pk,
        held_at=timezone.now(),
    )
    Vote.objects.filter(pk=vote.pk).update(hold=hold, uncounted="held")
    export("mine", tmp_path / "out")
    load("copy", tmp_path / "out")
    copy = Vote.objects.filter(arena__slug="copy").order_by("pk")[0]
    assert (copy.uncounted, copy.void_reason) == (None, "held for review when it was exported")
    assert votes_of("copy") == votes_of("mine")


def test_the_settings_of_an_arena_come_back(tmp_path):
    arena = make_arena(
        slug="mine",
        question="Which is kinder?",
        criteria="Kind words.",
        strengths="kind",
        voters="signed_in",
        open_to_teams=True,
        held_out=35,
        counts="verified",
        self_identifying="keep",
    )
    team = make_team(name="Ours")
    export("mine", tmp_path / "out.zip")
    load("copy", tmp_path / "out.zip", "--team", team.slug)
    copy = Arena.objects.get(slug="copy")
    kept = set(Arena.SETTINGS) - {"visibility", "open_to_teams"}
    assert {name: getattr(copy, name) for name in kept} == {
        name: getattr(arena, name) for name in kept
    }
    # Imports are private until somebody publishes them.
    assert (copy.team, copy.visibility, copy.open_to_teams) == (team, "private", False)
    entry = team.audit_entries.latest("pk")
    assert (entry.action, entry.subject) == ("imported an arena", copy.name)


@pytest.mark.parametrize(("given", "stored"), [((), "unlisted"), (("public",), "public")])
def test_an_import_without_a_team_is_not_listed(voted_arena, tmp_path, given, stored):
    export("mine", tmp_path / "out")
    load("copy", tmp_path / "out", *(f"--visibility={name}" for name in given))
    assert Arena.objects.get(slug="copy").visibility == stored


def test_the_copy_of_the_sample_has_the_same_boards(tmp_path):
    call_command("load_sample", "--quiet")
    original = Arena.objects.get(slug="sample")
    left_out = list(original.votes.order_by("pk").values_list("pk", flat=True)[:200:10])
    original.votes.filter(pk__in=left_out[:10]).update(voided_at=timezone.now(), void_reason="x")
    original.votes.filter(pk__in=left_out[10:]).update(uncounted="tier", channel="browser")
    call_command("refresh_boards", "sample")
    export("sample", tmp_path / "out.zip")
    load("copy", tmp_path / "out.zip")
    copy = Arena.objects.get(slug="copy")
    call_command("refresh_boards", "copy")
    assert copy.votes.count() == original.votes.count() > 2240
    boards = boards_of(copy)
    assert len(boards) > 3
    assert boards == boards_of(original)
    with ZipFile(tmp_path / "out.zip") as archive:
        archive.extractall(tmp_path / "out")
    for raters in ("people", "juries"):
        assert_rank_agrees(tmp_path / "out", original, raters)
    assert Reason.objects.filter(vote__arena=copy).count() == (
        Reason.objects.filter(vote__arena=original).count()
    )


def assert_rank_agrees(folder, arena, raters):
    """`rank` prints the numbers of the leaderboard for its exported votes."""
    out = StringIO()
    call_command("rank", str(folder), f"--raters={raters}", "--json", stdout=out)
    ranked = json.loads(out.getvalue())
    standings = {
        row.candidate.name: row
        for row in Standing.objects.filter(
            snapshot__board__arena=arena,
            snapshot__board__raters=raters,
            snapshot__board__category="",
            snapshot__is_current=True,
        ).select_related("candidate", "snapshot")
    }
    assert len(ranked["standings"]) == len(standings) == 8
    for row in ranked["standings"]:
        standing = standings[row["candidate"]]
        for name in ("rank", "votes", "rank_low", "rank_high", "sure_rank_low", "sure_rank_high"):
            assert row[name] == getattr(standing, name), name
        for name in ("score", "low", "high", "elo"):
            assert row[name] == pytest.approx(getattr(standing, name), abs=2e-6), name
        assert row["se"] == pytest.approx(standing.standard_error, abs=2e-6)
    published = standings[ranked["standings"][0]["candidate"]].snapshot.findings
    for name, value in (published["agreement"] or {}).items():
        assert ranked["agreement"][name] == pytest.approx(value, abs=1e-6), name
    assert bool(ranked["agreement"]) == bool(published["agreement"])
    assert ranked["fragility"]["words"] == published["fragility"]["words"]
    assert [pair["votes"] for pair in ranked["neighbours"]] == [
        pair["votes"] for pair in published["neighbours"]
    ]


def boards_of(arena):
    """Every number of every current standing, by board and candidate."""
    own = {"id", "snapshot", "candidate"}
    names = [field.name for field in Standing._meta.concrete_fields if field.name not in own]
    rows = Standing.objects.filter(snapshot__board__arena=arena, snapshot__is_current=True)
    rows = rows.values_list(
        *("snapshot__board__raters", "snapshot__board__category", "candidate__name"),
        *("snapshot__n_votes", "snapshot__n_raters", "snapshot__n_prompts", *names),
    )
    return {row[:3]: row[3:] for row in rows}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no zip", "cannot be unpacked"),
        ({"arena.json": "[1]", "prompts.jsonl": '{"id": "a", "text": "b"}'}, "this version"),
        ({"arena.json": "{", "prompts.jsonl": '{"id": "a", "text": "b"}'}, "is not JSON"),
        (
            {"arena.json": '{"ringside": 1, "x": 2}', "prompts.jsonl": '{"id": "a", "text": "b"}'},
            "unknown settings: x",
        ),
        (
            {"arena.json": '{"ringside": 1, "held_out": 101}', "prompts.jsonl": '{"id": "a"}'},
            "held_out|text",
        ),
        ({"readme.txt": "nothing"}, "has no file of a known format"),
    ],
)
def test_a_bad_archive_changes_nothing(tmp_path, content, words):
    path = tmp_path / "bad.zip"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with ZipFile(path, "w") as archive:
            for name, text in content.items():
                archive.writestr(name, text)
    with pytest.raises(CommandError, match=words):
        load("copy", path)
    assert not Arena.objects.exists()


def test_a_votes_provenance_is_checked(tmp_path):
    make_arena(slug="mine")
    vote = {"a": "candidate-0", "b": "candidate-1", "outcome": "left"}
    for provenance, words in (
        ("browser", "is text, not an object"),
        ({"channel": "radio"}, "column provenance.channel"),
        ({"seconds": -1}, "column provenance.seconds"),
        ({"rushed": True}, "column provenance.uncounted"),
        ({"colour": 1}, "column provenance.colour"),
    ):
        (tmp_path / "votes.jsonl").write_text(json.dumps(vote | {"provenance": provenance}))
        with pytest.raises(CommandError, match=words):
            load("mine", tmp_path / "votes.jsonl")
    assert not Vote.objects.exists()


def test_rank_leaves_out_what_does_not_count(voted_arena, tmp_path):
    first = voted_arena.votes.filter(rater__kind="person").order_by("pk")[0]
    Vote.objects.filter(pk=first.pk).update(voided_at=timezone.now(), void_reason="wrong")
    export("mine", tmp_path / "out")
    votes, _ = read_file(tmp_path / "out")
    assert votes.counted.of("people").outcome.tolist() == [BOTH_BAD]


def test_no_account_and_no_address_leaves_the_house(voted_arena, tmp_path):
    user = get_user_model().objects.create_user("mary", "mary@example.org", "s3cret-words")
    a, b, _ = voted_arena.candidates.order_by("pk")
    for fields in (
        {"user": user, "name": "mary"},
        {"arena": voted_arena, "name": "joe@example.org"},
    ):
        rater = make_person(**fields)
        make_vote(voted_arena, a, b, "tie", None, rater, details={"by": "joe@example.org", "n": 1})
    export("mine", tmp_path / "out")
    text = "".join(path.read_text() for path in (tmp_path / "out").iterdir())
    assert "mary" not in text
    assert "example.org" not in text
    raters = [line["rater"] for line in lines(tmp_path / "out" / "votes.jsonl")]
    assert raters == ["worker 7", "a judge", "worker 7", "rater-3", "rater-4"]


def test_a_raters_number_is_no_other_raters_name(voted_arena, tmp_path):
    a, b, _ = voted_arena.candidates.order_by("pk")
    named = make_person(arena=voted_arena, name="rater-7")
    make_vote(voted_arena, a, b, "left", None, named)
    for _ in range(3):
        make_vote(voted_arena, a, b, "left", None, make_person())
    export("mine", tmp_path / "out")
    names = [line["rater"] for line in lines(tmp_path / "out" / "votes.jsonl")]
    assert names == [
        "worker 7",
        "a judge",
        "worker 7",
        "rater-7",
        "rater-11",
        "rater-12",
        "rater-13",
    ]


def test_no_query_of_an_export_grows_with_its_raters(voted_arena, tmp_path):
    a, b, _ = voted_arena.candidates.order_by("pk")
    longest = []
    for name in ("few", "many"):
        with CaptureQueriesContext(connection) as queries:
            export("mine", tmp_path / name)
        # Reasons are read for at most 2,000 votes at a time.
        longest.append(max(len(q["sql"]) for q in queries if "arena_reason" not in q["sql"]))
        for _ in range(50):
            make_vote(voted_arena, a, b, "left", None, make_person())
    assert longest[1] < longest[0] + 10


def test_versions_of_a_candidate_get_names_of_their_own(tmp_path):
    arena = make_arena(n_candidates=1, slug="mine")
    first = arena.candidates.get()
    second = make_candidate(arena, first.name, version=2)
    make_vote(arena, first, second, "right")
    export("mine", tmp_path / "out")
    load("copy", tmp_path / "out")
    names = Candidate.objects.filter(arena__slug="copy").order_by("pk").values_list("name")
    assert [name for (name,) in names] == ["candidate-0", "candidate-0 v2"]


def test_retired_entries_come_back_retired(voted_arena, tmp_path):
    voted_arena.candidates.filter(name="candidate-0").update(retired_at=timezone.now())
    export("mine", tmp_path / "out")
    load("copy", tmp_path / "out")
    copy = Arena.objects.get(slug="copy")
    assert copy.candidates.active().count() == 2
    assert copy.pairs.filter(shared_prompts__gt=0).count() == 1


def test_details_do_not_replace_a_votes_own_fields(tmp_path):
    arena = make_arena(slug="mine")
    a, b, _ = arena.candidates.all()
    make_vote(arena, a, b, "left", details={"outcome": "right", "judge": "x"})
    export("mine", tmp_path / "out")
    [line] = lines(tmp_path / "out" / "votes.jsonl")
    assert (line["outcome"], line["outcome_"], line["judge_"]) == ("left", "right", "x")
    assert line["kind"] == "person"


def test_no_address_leaves_from_anywhere_in_the_details(tmp_path):
    arena = make_arena(slug="mine")
    a, b, _ = arena.candidates.all()
    details = {
        "annotator": {"email": "ann@example.org", "age": 30, "ann@example.org": 1},
        "seen_by": ["joe@example.org", {"mail": "joe@example.org"}, "nobody", ["x@example.org"]],
        "ann@example.org": 1,
        "cost": 0.5,
    }
    make_vote(arena, a, b, "left", details=details)
    export("mine", tmp_path / "out")
    [line] = lines(tmp_path / "out" / "votes.jsonl")
    assert "example.org" not in json.dumps(line)
    assert line["annotator"] == {"age": 30}
    assert line["seen_by"] == [{}, "nobody", []]
    assert line["cost"] == 0.5


def test_a_folder_with_something_in_it_is_left_alone(voted_arena, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CommandError, match="is not empty"):
        export("mine", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_overwrite_replaces_an_earlier_export_and_nothing_else(voted_arena, tmp_path):
    out = tmp_path / "out"
    export("mine", out)
    (out / "notes.txt").write_text("mine")
    Vote.objects.all().delete()
    export("mine", out, "--overwrite")
    assert (out / "notes.txt").read_text() == "mine"
    assert not (out / "votes.jsonl").exists()
    assert len(lines(out / "responses.jsonl")) == 12
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_export_that_fails_leaves_nothing(voted_arena, tmp_path, monkeypatch):
    def fail(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr("arena.services.exports.responses", fail)
    with pytest.raises(CommandError, match="No space left"):
        export("mine", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("slug", "words"), [("none", "no arena 'none'"), ("bare", "is empty")])
def test_what_cannot_be_exported_is_reported(tmp_path, slug, words):
    make_arena(n_candidates=0, n_prompts=0, slug="bare")
    with pytest.raises(CommandError, match=words):
        export(slug, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_undisclosed_candidate_is_exported_masked(voted_arena, tmp_path):
    secret = voted_arena.candidates.order_by("pk")[0]
    secret.name, secret.model, secret.notes = "Top secret", "the-model", "a note"
    secret.disclosed_at, secret.private_until = None, timezone.now()
    secret.save()
    export("mine", tmp_path / "out")
    written = "".join(path.read_text() for path in (tmp_path / "out").iterdir())
    assert f"Undisclosed {secret.pk}" in written
    assert [
        told for told in ("Top secret", "the-model", "a note", "Answer 0-0") if told in written
    ] == []
    load("copy", tmp_path / "out")
    assert Vote.objects.filter(arena__slug="copy").count() == 3
