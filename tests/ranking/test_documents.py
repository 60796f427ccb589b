"""Prompts of one document are alike: they count as one group, wherever votes are counted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, Prompt
from arena.services.imports import import_files
from arena.services.prompts import revise_prompt, use_categories_as_documents
from ranking.log.file import read_log, votes_at
from ranking.models import ArenaRefresh
from ranking.question import Evidence, Question
from ranking.services.votes import read
from ranking.stats.claim import Unit, claim
from ranking.votes import read_file
from tests.factories import make_arena, make_person, make_votes
from tests.ranking.helpers import get_page, publish, words
from tests.ranking.test_log_file import write

pytestmark = pytest.mark.django_db


@pytest.fixture
def arena(db: None) -> Arena:
    """60 prompts of six documents; the first candidate wins on four of them."""
    arena = make_arena(2, 60, slug="documents")
    for number, prompt in enumerate(arena.prompts.order_by("pk")):
        Prompt.objects.filter(pk=prompt.pk).update(document=f"doc-{number % 6}")
    a, b = arena.candidates.order_by("pk")
    raters = [make_person() for _ in range(10)]
    for turn, prompt in enumerate(arena.prompts.order_by("pk")):
        outcome = "left" if turn % 6 < 4 else "right"
        make_votes(arena, [(a, b, outcome, prompt)], raters[turn % 10])
    publish(arena)
    return arena


def evidence_of(arena: Arena) -> Evidence:
    return Evidence.of(read(arena), Question())


def test_votes_on_one_document_are_one_group(arena: Arena) -> None:
    evidence = evidence_of(arena)
    assert evidence.by_prompt.n_clusters == 60
    assert evidence.by_document.n_clusters == 6
    assert evidence.groups.effective["prompts"] == 6
    a, b = arena.candidates.order_by("pk").values_list("pk", flat=True)
    found = claim(evidence.between(a, b))
    assert (found.n_prompts, found.n_documents) == (60, 6)
    assert found.missing is not None
    assert found.missing.unit is Unit.DOCUMENTS


def test_without_documents_nothing_changes(arena: Arena) -> None:
    digest = evidence_of(arena).digest
    Prompt.objects.update(document="")
    evidence = evidence_of(arena)
    assert evidence.by_document is evidence.by_prompt
    assert evidence.digest != digest
    assert evidence.n_documents == 0


def test_a_prompt_without_a_document_is_a_group_of_its_own(arena: Arena) -> None:
    first = arena.prompts.order_by("pk")[0]
    Prompt.objects.filter(pk=first.pk).update(document="")
    evidence = evidence_of(arena)
    assert evidence.by_document.n_clusters == 7
    assert evidence.n_documents == 7
    assert list(evidence.table.documents_of(np.array([first.pk, -3, 0]))) == [first.pk, -3, 0]


def test_the_log_numbers_documents_and_names_none(arena: Arena, tmp_path: Path) -> None:
    path = write(arena, tmp_path / "log.jsonl")
    text = path.read_text()
    assert "doc-1" not in text
    file = read_log(path)
    votes = votes_at(file, file.n_links)
    assert len(set(votes.documents.values())) == 6
    assert Evidence.of(votes, Question()).by_document.n_clusters == 6


def test_intervals_by_document_are_reproduced_from_the_log(
    arena: Arena, tmp_path: Path, capsys: Any
) -> None:
    for number, prompt in enumerate(arena.prompts.order_by("pk")):
        Prompt.objects.filter(pk=prompt.pk).update(document=f"doc-{-number % 13}")
    snapshot = publish(arena)
    assert (snapshot.n_prompts, snapshot.settings["documents"]) == (60, 13)
    assert snapshot.standings.exclude(low=None).count() == 2
    call_command("verify", write(arena, tmp_path / "log.jsonl"))
    assert "numbers match the published" in capsys.readouterr().out


def test_pages_count_documents(arena: Arena, client: Client) -> None:
    about = words(get_page(client, f"/a/{arena.slug}/about/"))
    assert "60 prompts from 6 documents are worth 6 with equally many votes" in about
    assert "grouped by the prompt’s document, and by the rater" in about
    board = words(get_page(client, f"/a/{arena.slug}/"))
    assert "60 prompts 6 documents" in board


@pytest.mark.parametrize("name", ["battles.csv", "battles.jsonl", "lmarena.csv", "lmarena.parquet"])
def test_files_of_votes_keep_documents(arena: Arena, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    call_command("export", arena.slug, str(path), verbosity=0)
    table, rejected = read_file(path)
    assert rejected.count == 0
    evidence = Evidence.of(table, Question(rater_share=1.0))
    assert (evidence.by_prompt.n_clusters, evidence.by_document.n_clusters) == (60, 6)
    import_files(slug="copy", paths=[path], now=timezone.now())
    copy = Arena.objects.get(slug="copy")
    assert sorted(copy.prompts.values_list("document", flat=True)) == sorted(
        arena.prompts.values_list("document", flat=True)
    )
    publish(copy)
    again = Evidence.of(read(copy), Question(rater_share=1.0))
    assert again.unit.argsort().tolist() == evidence.unit.argsort().tolist()


def test_a_table_of_votes_has_a_column_for_documents(tmp_path: Path) -> None:
    lines = ["left,right,winner,prompt,document"]
    lines += [f"A,B,left,p{n},{'' if n == 4 else f'd{n % 2}'}" for n in range(8)]
    (tmp_path / "votes.csv").write_text("\n".join(lines) + "\n")
    table, _ = read_file(tmp_path / "votes.csv")  # by column
    assert table.documents == {n + 1: f"d{n % 2}" for n in range(8) if n != 4}
    assert Evidence.of(table, Question()).n_documents == 3
    import_files(slug="copy", paths=[tmp_path / "votes.csv"], now=timezone.now())  # row by row
    prompts = Prompt.objects.filter(arena__slug="copy").order_by("pk")
    assert [prompt.document for prompt in prompts] == [
        table.documents.get(n + 1, "") for n in range(8)
    ]


def test_a_column_of_whole_documents_is_no_name_of_one(tmp_path: Path) -> None:
    rows = [{"text": f"Question {n}?", "document": "All of it. " * 40} for n in range(3)]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    import_files(slug="copy", paths=[path], now=timezone.now())
    assert set(Prompt.objects.filter(arena__slug="copy").values_list("document")) == {("",)}


def test_an_export_keeps_documents(arena: Arena, tmp_path: Path) -> None:
    from arena.services.exports import prompts

    lines = list(prompts(arena))
    assert lines[0]["document"] == "doc-0"
    folder = tmp_path / "arena"
    folder.mkdir()
    rows = "\n".join(
        f'{{"id": "{line["id"]}", "text": "{line["text"]}", "document": "{line["document"]}"}}'
        for line in lines
    )
    (folder / "prompts.jsonl").write_text(rows + "\n")
    (folder / "votes.jsonl").write_text(
        f'{{"a": "A", "b": "B", "outcome": "left", "prompt": "{lines[0]["id"]}"}}\n'
        f'{{"a": "B", "b": "A", "outcome": "left", "prompt": "{lines[6]["id"]}"}}\n'
    )
    table, _ = read_file(folder)
    assert sorted(set(table.documents.values())) == [f"doc-{n}" for n in range(6)]
    assert Evidence.of(table, Question()).by_document.n_clusters == 1


@pytest.mark.parametrize("how", ["form", "service", "upload"])
def test_another_document_makes_the_leaderboards_anew(
    arena: Arena, admin_client: Client, how: str, django_capture_on_commit_callbacks: Any
) -> None:
    ArenaRefresh.objects.filter(arena=arena).update(is_stale=False)
    prompt = arena.prompts.order_by("pk")[0]
    page = reverse("edit_prompt", args=[arena.slug, prompt.pk])
    assert "only its document can change" in admin_client.get(page).text
    with django_capture_on_commit_callbacks(execute=True):
        if how == "form":
            assert admin_client.post(page, {"document": "manual"}).status_code == 302
        elif how == "service":
            revise_prompt(prompt=prompt, by=CLI, document="manual")
        else:
            data = {"pasted": prompt.text, "document": "manual"}
            answer = admin_client.post(reverse("add_prompts", args=[arena.slug]), data)
            assert "1 changed" in answer.text
    prompt.refresh_from_db()
    assert prompt.document == "manual"
    assert ArenaRefresh.objects.get(arena=arena).is_stale
    assert evidence_of(arena).n_documents == 7
    listed = admin_client.get(reverse("manage_prompts", args=[arena.slug])).text
    assert '<td data-label="Document">manual</td>' in listed


def test_a_form_from_before_a_prompt_was_used_is_not_saved_in_part(
    arena: Arena, admin_client: Client
) -> None:
    prompt = arena.prompts.order_by("pk")[0]
    page = reverse("edit_prompt", args=[arena.slug, prompt.pk])
    answer = admin_client.post(page, {"text": "Other?", "document": "manual"})
    assert "only its document can be changed" in answer.text
    prompt.refresh_from_db()
    assert prompt.document == "doc-0"


def test_categories_are_offered_as_documents(
    arena: Arena, admin_client: Client, django_capture_on_commit_callbacks: Any
) -> None:
    Prompt.objects.update(document="")
    ArenaRefresh.objects.filter(arena=arena).update(is_stale=False)
    page = admin_client.get(reverse("manage_prompts", args=[arena.slug])).text
    assert "Use categories as documents" in page
    with django_capture_on_commit_callbacks(execute=True):
        answer = admin_client.post(reverse("use_categories", args=[arena.slug]), follow=True)
    assert "60 prompts now have their category as the document." in answer.text
    assert "Use categories as documents" not in answer.text
    assert set(arena.prompts.values_list("document", flat=True)) == set(
        arena.prompts.values_list("category", flat=True)
    )
    assert ArenaRefresh.objects.get(arena=arena).is_stale
    assert use_categories_as_documents(arena=arena, by=CLI) == 0
    outsider: Any = Client()
    assert outsider.post(reverse("use_categories", args=[arena.slug])).status_code in (
        302,
        403,
        404,
    )
