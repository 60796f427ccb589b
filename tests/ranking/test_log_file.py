"""A log as a file: it proves its leaderboards without a database, and no other file does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from arena.models import Arena, Rater, Vote
from ranking.log import file as log_file
from ranking.log import links, verification
from ranking.log.file import votes_at
from ranking.models import Snapshot, boards
from ranking.services.votes import read
from tests.factories import make_person, make_vote, void_vote
from tests.ranking.helpers import (
    cast,
    claim,
    fill,
    hidden_import,
    make_voted_arena,
    publish,
    reveal,
    update_log,
)

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


@pytest.fixture
def arena(db: None) -> Arena:
    """Six people and a judge voted on eight prompts; some votes are soft, voided, or imported."""
    arena = make_voted_arena(3, 8)
    for _ in range(5):
        fill(arena, rounds=1, rater=make_person())
    fill(arena, rounds=1, rater=Rater.objects.create(kind=Rater.Kind.JUDGE, name="A judge"))
    left, right = arena.candidates.order_by("pk")[:2]
    make_vote(arena, left, right, "both_bad", arena.prompts.first(), make_person())
    make_vote(arena, left, right, "left", None, make_person(), preference=1 / 3)
    publish(arena)
    reveal(hidden_import(arena))
    void_vote(cast(arena))
    first = arena.votes.first()
    assert first is not None
    void_vote(first)
    publish(arena)
    return arena


def write(arena: Arena, path: Path) -> Path:
    call_command("verify_log", arena.slug, export=path)
    return path


def test_every_number_of_every_leaderboard_is_reproduced(
    arena: Arena, tmp_path: Path, capsys: Any, django_assert_num_queries: Any
) -> None:
    path = write(arena, tmp_path / "log.jsonl")
    cast(arena)  # not in the file
    with django_assert_num_queries(0):
        call_command("verify", path)
    printed = capsys.readouterr().out
    assert printed.count("numbers match the published") == 6  # people and judges, in two categories
    assert "The log is unbroken" in printed
    assert "A file cannot show" in printed


def test_the_verified_leaderboard_is_reproduced(tmp_path: Path, capsys: Any) -> None:
    arena = make_voted_arena(3, 8)
    for number in range(9):
        rater = make_person()
        fill(arena, rounds=1, rater=rater)
        Vote.objects.filter(rater=rater).update(verified=number % 2 == 0)
    snapshot = publish(arena)
    assert Snapshot.objects.current().filter(board__raters="verified").count() == 3
    path = write(arena, tmp_path / "log.jsonl")
    call_command("verify", path)
    printed = capsys.readouterr().out
    assert "Verified people, all categories" in printed
    assert printed.count("numbers match the published") == 6

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["type"] == "vote":
            line["verified"] = True
    path.write_text("".join(log_file.as_jsonl(lines)))
    with pytest.raises(CommandError, match="failed the check"):
        call_command("verify", path)
    assert snapshot.settings["log"]["digest"] in path.read_text()  # the marks are not chained


@pytest.mark.parametrize("channel", ["browser", "signed_in"])
def test_the_cap_of_a_network_is_reproduced(tmp_path: Path, capsys: Any, channel: str) -> None:
    arena = make_voted_arena(3, 8)
    for number in range(9):
        rater = make_person()
        fill(arena, rounds=1, rater=rater)
        network = "crowd" if number < 5 else f"home {number}"
        Vote.objects.filter(rater=rater).update(channel=channel, network=network)
    roaming = Vote.objects.filter(rater=rater, comparison__prompt__category="category-1")
    assert roaming.exists()
    roaming.update(network="train")
    snapshot = publish(arena)
    assert snapshot.settings["capped_networks"] == 1
    # A board whose own votes are old keeps the networks of its time.
    make_vote(arena, *arena.candidates.order_by("pk")[:2], "left", None, rater, network="crowd")
    publish(arena)
    path = write(arena, tmp_path / "log.jsonl")
    call_command("verify", path)
    assert capsys.readouterr().out.count("numbers match the published") == 3
    assert "crowd" not in path.read_text()

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.pop("network", None)
    path.write_text("".join(log_file.as_jsonl(lines)))
    with pytest.raises(CommandError, match="failed the check"):
        call_command("verify", path)


def test_numbers_of_networks_do_not_reveal_the_order_of_their_hashes(tmp_path: Path) -> None:
    arena = make_voted_arena(3, 8)
    raters = [make_person() for _ in range(3)]
    for rater in raters:
        fill(arena, rounds=1, rater=rater)
    publish(arena)
    files = []
    # The hashes of a network are equal in all arenas of a month.
    for names in (("a", "b", "c"), ("c", "a", "b")):
        for rater, network in zip(raters, names, strict=True):
            Vote.objects.filter(rater=rater).update(channel="browser", network=network)
        files.append(write(arena, tmp_path / f"{names[0]}.jsonl").read_text())
    assert files[0] == files[1]
    assert '"network":2' in files[0]


@pytest.mark.parametrize(("sent", "last"), [("ab", "b"), ("abba", "a")])
def test_of_two_networks_with_as_many_votes_of_a_rater_the_one_of_the_last_vote_counts(
    tmp_path: Path, sent: str, last: str
) -> None:
    arena = make_voted_arena(2, 4)
    rater = make_person()
    for network in sent:
        make_vote(arena, *arena.candidates.all(), "left", None, rater, network=network)
    Vote.objects.filter(rater=rater).update(channel="browser")
    update_log(arena)
    number = sorted(set(sent)).index(last) + 1
    assert read(arena).networks == {rater.pk: number}
    file = log_file.read_log(write(arena, tmp_path / "log.jsonl"))
    assert list(votes_at(file, file.n_links).networks.values()) == [number]


def test_a_leaderboard_with_older_intervals_is_checked_without_them(
    arena: Arena, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "QUICK_SECONDS", 0)
    monkeypatch.setattr(boards, "REST_FACTOR", 10_000)
    cast(arena)
    snapshot = publish(arena)
    assert snapshot.measured_digest != snapshot.digest
    assert snapshot.findings["capped"]
    call_command("verify", write(arena, tmp_path / "log.jsonl"))
    assert "from an earlier refresh or release, so they are not checked" in capsys.readouterr().out


def test_leaderboards_are_those_of_their_own_heads(
    arena: Arena, tmp_path: Path, capsys: Any
) -> None:
    """As if a refresh had been killed between the log and its leaderboards."""
    cast(arena)
    update_log(arena)
    call_command("verify", write(arena, tmp_path / "log.jsonl"))
    assert "match the published" in capsys.readouterr().out


def test_the_file_names_nobody_and_shows_what_counts(arena: Arena, client: Client) -> None:
    answer = client.get(f"/api/v1/arenas/{arena.slug}/exports/log.jsonl")
    lines = [json.loads(line) for line in answer.getvalue().decode().splitlines()]
    votes = [line for line in lines if line["type"] == "vote"]
    counted = {line["id"] for line in votes if line["counts"]}
    assert counted == set(Vote.objects.live().values_list("pk", flat=True))
    assert len(votes) == len(counted) + 1
    assert "A judge" not in str(lines)
    ids = {str(pk) for pk in Rater.objects.values_list("pk", flat=True)}
    assert not ids & {line["rater"] for line in votes}


Rewrite = Callable[[list[dict[str, Any]]], Any]
HEADER = '{"type": "log", "version": 4, "arena": {}, "key": "", "links": 0}\n'


def first(lines: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(line for line in lines if line["type"] == kind)


REWRITES: list[tuple[Rewrite, str]] = [
    (
        lambda lines: first(lines, "vote").update(outcome="tie"),
        "differ from those that were",
    ),
    (lambda lines: first(lines, "vote").update(counts=True), "marked as counted"),
    (lambda lines: lines.remove(first(lines, "vote")), "differ from those that were"),
    (lambda lines: first(lines, "link").update(digest="0" * 64), "Link 1 of the log was"),
    (lambda lines: first(lines, "link").update(signature="00"), "no valid signature"),
    (lambda lines: lines.remove(first(lines, "link")), "Link 1 of the log is missing"),
    (
        lambda lines: first(lines, "leaderboard")["standings"][0].update(score=1200.0),
        "score is 1200.0, but its votes give",
    ),
    (lambda lines: first(lines, "leaderboard")["findings"].update(ties={}), "“ties”"),
    (lambda lines: first(lines, "leaderboard")["findings"].pop("neighbours"), "“neighbours”"),
    (lambda lines: first(lines, "leaderboard")["standings"].pop(), ""),
    (lambda lines: lines.remove(first(lines, "rater")), ""),
    (lambda lines: first(lines, "leaderboard").update(n_votes=1), "n_votes is 1"),
    (lambda lines: first(lines, "vote").update(id=10**40), ""),
    (lambda lines: first(lines, "rater").update(place=10**40), ""),
    (
        lambda lines: first(lines, "leaderboard")["head"].update(digest="1" * 64),
        "its head is not in the log",
    ),
    (
        lambda lines: first(lines, "leaderboard")["head"].update(signature="1" * 128),
        "its head is not in the log",
    ),
]


def test_a_rewritten_file_does_not_check_out(arena: Arena, tmp_path: Path, capsys: Any) -> None:
    path = write(arena, tmp_path / "log.jsonl")
    text = path.read_text()
    for rewrite, words in REWRITES:
        lines = [json.loads(line) for line in text.splitlines()]
        rewrite(lines)
        path.write_text("".join(log_file.as_jsonl(lines)))
        with pytest.raises(CommandError, match="failed the check"):
            call_command("verify", path)
        assert words in capsys.readouterr().out


def test_names_in_a_file_do_not_rewrite_the_terminal(
    arena: Arena, tmp_path: Path, capsys: Any
) -> None:
    path = write(arena, tmp_path / "log.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    name = "\x1b[8m\nThe log is unbroken: 9 signed links.\x1b]0;x\x07"
    lines[0]["arena"]["name"] = first(lines, "candidate")["name"] = name
    path.write_text("".join(log_file.as_jsonl(lines)))
    call_command("verify", path)
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "\nThe log is unbroken: 9" not in said


def test_a_file_that_asks_for_too_many_replicates_is_refused(arena: Arena, tmp_path: Path) -> None:
    path = write(arena, tmp_path / "log.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    first(lines, "leaderboard")["settings"]["n_resamples"] = 20_001
    path.write_text("".join(log_file.as_jsonl(lines)))
    with pytest.raises(CommandError, match="has 20,001 bootstrap replicates; at most 20,000"):
        call_command("verify", path)


def test_another_key_is_refused(arena: Arena, tmp_path: Path, capsys: Any) -> None:
    path = write(arena, tmp_path / "log.jsonl")
    call_command("verify", path, key=links.signer().public)
    with pytest.raises(CommandError, match="1 fault"):
        call_command("verify", path, key="00" * 32)
    assert "a key other than" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "not a vote log"),
        ("{}\n", "Line 1 is not a line"),
        ("no JSON\n", "Line 1 is not JSON"),
        ('{"type": "log", "version": 7}\n', "not a vote log"),
        (f'{HEADER}{{"type": "leaderboard", "raters": "nobody"}}\n', "'nobody' is not a valid"),
        ("[" * 100_000, "failed the check"),
    ],
)
def test_an_invalid_log_is_refused(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "log.jsonl").write_text(content)
    with pytest.raises(CommandError, match=words):
        call_command("verify", tmp_path / "log.jsonl")


def test_a_file_without_a_link_says_after_which_one_it_is_missing(
    arena: Arena, tmp_path: Path
) -> None:
    path = write(arena, tmp_path / "log.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    removal = next(n for n, line in enumerate(lines) if '"type":"removal"' in line)
    del lines[removal - 1]
    path.write_text("".join(lines))
    with pytest.raises(CommandError, match=r"After link \d+, .* a link is missing: it has no '"):
        call_command("verify", path)


def test_votes_rewritten_in_the_database_are_not_in_its_file(arena: Arena, tmp_path: Path) -> None:
    """The file has the votes as they were signed, so the check of changed leaderboards fails."""
    Vote.objects.filter(arena=arena, outcome="left").update(outcome="right")
    file = log_file.read_log(write(arena, tmp_path / "log.jsonl"))
    assert log_file.check_log(file) == []
    assert verification.verify(arena_id=arena.pk, token=claim(arena)).sentences
