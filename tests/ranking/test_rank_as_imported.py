"""`manage.py rank FILE` gives the scores that the leaderboard has after importing the file."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, Comparison, Rater, Response
from arena.services.imports import Options, import_files
from ranking.exports import EXPORTS, write_dataset, write_file
from ranking.models import Snapshot
from tests.arena.test_foreign_files import FILES, SAMPLES
from tests.factories import make_arena, make_person, make_vote
from tests.ranking.helpers import publish

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
VOTES_OF = {name: sample[-1] for name, sample in SAMPLES.items()}
FILES_OF_AN_ARENA = [
    f"{name}.{ending}" for name, export in EXPORTS.items() for ending in export.formats
]


def ranked(path: Path, raters: str = "auto") -> dict[str, float | None]:
    out = StringIO()
    call_command("rank", str(path), "--json", f"--raters={raters}", stdout=out, stderr=StringIO())
    standings = json.loads(out.getvalue())["standings"]
    return {row["candidate"]: row["score"] for row in standings}


def imported(path: Path, raters: str) -> dict[str, float | None]:
    import_files(slug="imported", paths=[path], now=timezone.now(), options=Options())
    arena = Arena.objects.get(slug="imported")
    publish(arena)
    board = Snapshot.objects.current().get(
        board__arena=arena, board__raters=raters, board__category=""
    )
    return dict(board.standings.values_list("candidate__name", "score"))


def assert_ranked_as_imported(path: Path, raters: str) -> None:
    scores, published = ranked(path, raters), imported(path, raters)
    assert len(scores) > 1
    assert {name: score for name, score in scores.items() if score is not None} == pytest.approx(
        {name: score for name, score in published.items() if score is not None}, abs=1e-3
    )


@pytest.mark.parametrize("name", [name for name, votes in VOTES_OF.items() if votes])
def test_every_sample_with_votes(name: str) -> None:
    judged = {"autoarena-judged", "alpaca-annotations.json", "mt-bench", "prometheus.jsonl"}
    assert_ranked_as_imported(FILES / name, "judges" if name in judged else "people")


@pytest.mark.parametrize("name", [name for name, votes in VOTES_OF.items() if not votes])
def test_a_sample_without_votes_is_refused_in_words(name: str) -> None:
    with pytest.raises(CommandError, match="has no votes"):
        ranked(FILES / name)


def contest() -> Arena:
    """Three candidates, each of whom wins and loses, on prompts with texts."""
    arena = make_arena(3, 8, name="Sample")
    judge = Rater.objects.create(kind="jury", name="panel", created_at=timezone.now())
    people = [make_person(), make_person()]
    candidates = list(arena.candidates.order_by("pk"))
    for number, prompt in enumerate(arena.prompts.order_by("pk")):
        for i, left in enumerate(candidates):
            right = candidates[(i + 1) % 3]
            outcome = ("left", "right", "left", "tie", "both_bad")[(number + 2 * i) % 5]
            for rater in (people[number % 2], judge):
                make_vote(arena, left, right, outcome, prompt=prompt, rater=rater)
    for comparison in Comparison.objects.filter(arena=arena):
        answers = Response.objects.filter(prompt=comparison.prompt)
        comparison.left_response = answers.get(candidate=comparison.left)
        comparison.right_response = answers.get(candidate=comparison.right)
        comparison.save()
    return arena


@pytest.mark.parametrize("name", FILES_OF_AN_ARENA)
def test_every_export_of_an_arena(name: str, tmp_path: Path) -> None:
    kind, _, ending = name.partition(".")
    path = tmp_path / name
    path.write_bytes(b"".join(write_file(EXPORTS[kind], ending, contest(), CLI)))
    assert_ranked_as_imported(path, "people")


def test_the_dataset_of_an_arena(tmp_path: Path) -> None:
    path = tmp_path / "dataset.zip"
    path.write_bytes(b"".join(write_dataset(contest(), CLI)))
    assert_ranked_as_imported(path, "people")


def test_the_folder_of_an_arena(tmp_path: Path) -> None:
    call_command("export_arena", contest().slug, str(tmp_path / "sample"), stdout=StringIO())
    assert_ranked_as_imported(tmp_path / "sample", "people")
