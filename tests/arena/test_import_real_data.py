"""All the real data: every vote and every answer is imported, exported and imported again."""

import csv
import json
from io import StringIO

import pytest
from django.core.management import call_command

from arena.actors import CLI
from arena.models import Arena, Comparison, Rater, Response, Vote
from arena.services.arenas import update_arena

pytestmark = [pytest.mark.django_db, pytest.mark.data]


def load(*arguments: object) -> str:
    out = StringIO()
    call_command("import_arena", *map(str, arguments), stdout=out)
    return out.getvalue()


def votes_of(slug: str) -> list[tuple]:
    fields = (
        *("comparison__prompt__external_id", "comparison__left__name", "comparison__right__name"),
        *("outcome", "preference", "rater__kind", "rater__name", "cast_at"),
    )
    rows = Vote.objects.live().filter(arena__slug=slug).order_by("pk")
    return list(rows.values_list(*fields))


@pytest.mark.slow
def test_all_crowd_votes_arrive_in_their_order(data_dir, tmp_path):
    path = data_dir / "crowd-votes" / "llmfao.csv"
    load("llmfao", path)
    arena = Arena.objects.get()
    raters = Rater.objects.filter(arena=arena).count()
    assert (arena.candidates.count(), arena.prompts.count(), raters) == (59, 13, 124)
    with path.open(newline="") as stream:
        wanted = [
            (row["prompt"], row["left"], row["right"], row["winner"], row["worker"])
            for row in csv.DictReader(stream)
        ]
    assert [(*row[:4], row[6]) for row in votes_of("llmfao")] == wanted
    assert len(wanted) == 8931
    assert len(set(arena.votes.values_list("details__id", flat=True))) == 2139

    assert "nothing to add" in load("llmfao", path)
    call_command("export_arena", "llmfao", str(tmp_path / "out"), stdout=StringIO())
    load("again", tmp_path / "out")
    assert votes_of("again") == votes_of("llmfao")


def keep_all_votes(slug):
    """Count the votes on answers that name their model, too."""
    arena = Arena.objects.get(slug=slug)
    return update_arena(arena=arena, by=CLI, self_identifying="keep")


@pytest.mark.slow
def test_all_answers_and_judge_votes_of_prompt_variants_arrive(data_dir, tmp_path):
    folder = data_dir / "prompt-variants"
    load("variants", folder)
    arena = keep_all_votes("variants")
    assert (arena.prompts.count(), arena.candidates.count()) == (805, 12)
    assert Response.objects.filter(candidate__arena=arena).count() == 9660
    assert arena.votes.live().filter(rater__kind="judge").count() == 4830
    assert not Comparison.objects.filter(left_response=None).exists()
    texts: dict[int, list[str]] = {}
    for answer in Response.objects.filter(candidate__arena=arena).order_by("prompt"):
        texts.setdefault(answer.candidate_id, []).append(answer.text)
    pairs = list(arena.pairs.all())
    assert len(pairs) == 66
    for pair in pairs:  # equal answers are shown to nobody
        both = zip(texts[pair.low_id], texts[pair.high_id], strict=True)
        assert pair.shared_prompts == sum(low != high for low, high in both)
    with (folder / "judge_votes.jsonl").open() as stream:
        wanted = [1 - json.loads(line)["preference_b"] for line in stream]
    assert [row[4] for row in votes_of("variants")] == wanted

    call_command("export_arena", "variants", str(tmp_path / "out"), stdout=StringIO())
    load("again", tmp_path / "out")
    keep_all_votes("again")
    assert votes_of("again") == votes_of("variants")


def test_the_sample_loads_once_and_says_that_it_is_one():
    for _ in range(2):
        call_command("load_sample", stdout=StringIO())
    arena = Arena.objects.revealed().get(slug="sample")
    assert arena.is_sample
    assert arena.name == "Support desk (sample)"
    assert "seeded script" in arena.description
    votes = arena.votes.live().count()
    assert votes == Vote.objects.count() > 0
    assert arena.pairs.filter(shared_prompts__gt=0).exists()
