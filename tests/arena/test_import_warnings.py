"""What is odd about the good rows of a file is said before an import, after it, and by `rank`."""

import csv
import json
import shlex
from io import StringIO
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from arena.files.reader import Row
from arena.files.rows import VoteRow
from arena.formats import find_files
from arena.formats import warnings as warnings_of_files
from arena.formats.warnings import Warnings
from arena.near_names import near_names
from arena.services.imports import import_files, preview_files
from tests.arena.rest import token_of
from tests.factories import make_arena, make_candidate, make_member, make_team

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]

SPELLINGS = """model_a,model_b,winner
fir,elm,model_b
oak ,fir,model_b
OAK,Elm,model_a
Oak,fir,model_a
openai/oak,elm,tie
"""
REPEATS = """model_a,model_b,winner,prompt,worker
fir,elm,model_b,q0,r0
elm,fir,model_b,q0,r0
fir,elm,model_a,q0,r1
fir,elm,model_a,q1,r0
fir,elm,model_a,q1,r0
fir,elm,model_a,,r0
fir,elm,model_a,,r0
fir,elm,model_a,q1,
fir,elm,model_a,q1,
"""
TWO_REPEATS = (
    "2 votes repeat an earlier one by the same rater on the same prompt and pair (lines 3, 6); "
    "they count too."
)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def previewed(path: Path, slug: str = "mine") -> list[str]:
    return preview_files(slug=slug, paths=[path]).warnings


@pytest.mark.parametrize(
    "names",
    [
        ["oak", "Oak", "OAK", "openai/oak"],
        ["gpt-4", "gpt 4", "GPT_4", " gpt4 "],
        ["oak", "acme/labs/oak"],
        ["straße", "STRASSE"],
    ],
)
def test_names_that_differ_in_case_separators_or_vendor_are_near(names: list[str]) -> None:
    [group] = near_names([*names, "elm", "oak v2", "oak2"])
    assert sorted(group) == sorted(names)


def test_other_names_are_not_near() -> None:
    assert near_names(["gpt-4", "gpt-4.1", "gpt-41", "-", "_", "a/", "b/", "", "oak"]) == []


def test_a_preview_names_the_spellings_of_a_name_and_how_to_merge_them(tmp_path: Path) -> None:
    about_elm, about_oak = previewed(write(tmp_path / "v.csv", SPELLINGS))
    assert about_elm.startswith("Near-equal names: elm and Elm. If they are one, merge them")
    assert about_oak.startswith("Near-equal names: oak, Oak, OAK and openai/oak. If they are one")
    assert about_oak.endswith("manage.py merge_candidates mine Oak OAK openai/oak --into oak")


def test_a_name_is_near_to_one_in_the_arena_which_is_kept(tmp_path: Path) -> None:
    arena = make_arena(0, 0)
    make_candidate(arena, "Big Oak")
    make_candidate(arena, "ash")
    make_candidate(arena, "ASH")  # neither is in the file
    make_candidate(arena, "f-i-r", disclosed_at=None, private_until_votes=5)
    path = write(tmp_path / "v.csv", "model_a,model_b,winner\nbigoak,fir,model_a\n")
    [sentence] = previewed(path, arena.slug)
    command = sentence.partition("manage.py ")[2]
    assert shlex.split(command) == ["merge_candidates", arena.slug, "bigoak", "--into", "Big Oak"]
    [sentence] = import_files(slug=arena.slug, paths=[path], now=timezone.now()).warnings
    assert "bigoak --into 'Big Oak'" in sentence


def test_repeated_votes_are_named_by_line_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", REPEATS)
    assert previewed(path) == [TWO_REPEATS]
    report = import_files(slug="mine", paths=[path], now=timezone.now())
    assert report.warnings == [TWO_REPEATS]
    assert report.arena.votes.live().count() == 9


def test_repeats_in_another_file_are_named_with_it(tmp_path: Path) -> None:
    vote = "model_a,model_b,winner,prompt,worker\nfir,elm,tie,q0,r0\n"
    files = [
        write(tmp_path / "a.csv", vote),
        write(tmp_path / "b.csv", f"{vote}fir,elm,tie,q1,r0\n"),
    ]
    [sentence] = preview_files(slug="mine", paths=files).warnings
    assert sentence.startswith("1 vote repeats an earlier one")
    assert "(b.csv line 2); it counts too" in sentence


def test_a_vote_that_does_not_count_repeats_none(tmp_path: Path) -> None:
    vote = {"a": "fir", "b": "elm", "outcome": "tie", "prompt": "q", "rater": "r"}
    asked_twice = vote | {"provenance": {"uncounted": "repeat"}}
    path = tmp_path / "votes.jsonl"
    write(path, "".join(json.dumps(row) + "\n" for row in (vote, asked_twice)))
    write(tmp_path / "prompts.jsonl", '{"id": "q", "text": "Why?"}\n')
    write(tmp_path / "candidates.jsonl", '{"name": "fir"}\n{"name": "elm"}\n')
    assert previewed(tmp_path) == []


def test_a_judge_is_asked_about_both_orders_and_each_turn(tmp_path: Path) -> None:
    votes = [
        VoteRow(*sides, "tie", prompt="q", rater="judge", rater_kind=kind, details={"turn": turn})
        for kind in ("judge", "person")
        for sides in (("fir", "elm"), ("elm", "fir"))
        for turn in (1, 2)
    ]
    warnings = Warnings()
    for line, vote in enumerate(votes, start=1):
        warnings.add(tmp_path, line, vote)
    assert warnings.sentences("")[0].startswith("3 votes repeat")
    assert "(lines 6, 7, 8)" in warnings.sentences("")[0]
    warnings.add(tmp_path, 9, votes[0])
    assert "(lines 6, 7, 8, 9)" in warnings.sentences("")[0]


def test_only_the_first_votes_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings_of_files, "MOST_VOTES", 3)
    path = write(tmp_path / "v.csv", REPEATS)
    [sentence] = previewed(path)
    assert sentence.startswith("1 vote repeats")
    assert "Only the first 3 votes were compared." in sentence


VOTES = st.lists(
    st.tuples(*(st.sampled_from(["", "x", "y", "z"]) for _ in range(2)), st.booleans()),
    min_size=1,
    max_size=40,
)


@given(VOTES)
def test_repeats_are_those_of_an_oracle(
    tmp_path_factory: pytest.TempPathFactory, votes: list[tuple[str, str, bool]]
) -> None:
    """The oracle compares every vote with all before it."""
    path = tmp_path_factory.mktemp("votes") / "v.csv"
    with path.open("w", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(["model_a", "model_b", "winner", "prompt", "worker"])
        for prompt, rater, swapped in votes:
            table.writerow([*(("oak", "elm")[:: -1 if swapped else 1]), "tie", prompt, rater])
    [file] = find_files([path])
    found = Warnings()
    for row in file.rows():
        assert isinstance(row, Row)
        assert isinstance(row.content, VoteRow)
        found.add(path, row.line, row.content)
    known = [(number, vote[:2]) for number, vote in enumerate(votes, start=2) if all(vote[:2])]
    expected = [
        number
        for place, (number, vote) in enumerate(known)
        if vote in [earlier for _, earlier in known[:place]]
    ]
    sentences = found.sentences("")
    assert bool(sentences) == bool(expected)
    for sentence in sentences:
        assert sentence.startswith(f"{len(expected)} vote")
        assert ", ".join(map(str, expected[:10])) in sentence


def test_the_commands_say_the_same(tmp_path: Path) -> None:
    path, out, err = write(tmp_path / "v.csv", REPEATS), StringIO(), StringIO()
    call_command("import_arena", "mine", path, "--preview", stdout=out)
    assert TWO_REPEATS in out.getvalue()
    call_command("import_arena", "mine", path, stdout=(out := StringIO()), stderr=StringIO())
    assert TWO_REPEATS in out.getvalue()
    call_command("rank", path, stdout=StringIO(), stderr=err)
    assert TWO_REPEATS in err.getvalue()


def test_rank_names_near_names_on_stderr(tmp_path: Path) -> None:
    path, err = write(tmp_path / "v.csv", SPELLINGS), StringIO()
    call_command("rank", path, stdout=StringIO(), stderr=err)
    assert "Near-equal names: oak, Oak, OAK and openai/oak. They are ranked" in err.getvalue()


def test_the_pages_and_the_api_show_the_warnings(client: Client) -> None:
    arena = make_arena(0, 0, team=make_team(), visibility="unlisted")
    client.force_login(make_member(arena.team).user)
    page = reverse("import_file", args=[arena.slug])
    file = SimpleUploadedFile("v.csv", REPEATS.encode())
    shown = client.post(page, {"file": file, "do": "preview"})
    assert TWO_REPEATS in shown.content.decode()
    kept = {name: shown.context["form"].initial[name] for name in ("kept", "format")}
    assert TWO_REPEATS in client.post(page, kept | {"do": "import"}).content.decode()
    body = {"file_name": "v.csv", "content": REPEATS, "preview": True}
    answer = token_of(arena.team).post(f"arenas/{arena.slug}/imports/", body)
    assert answer.json()["warnings"] == [TWO_REPEATS]
