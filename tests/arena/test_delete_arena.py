"""Deleting an arena deletes all of it, and nothing else."""

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command

from arena.actors import CLI
from arena.models import Arena, Candidate, Comparison, Import, Prompt, Response, Vote
from arena.services import arenas
from tests.factories import make_arena, make_vote

pytestmark = pytest.mark.django_db


@pytest.fixture
def voted():
    arena = make_arena(slug="gone")
    left, right, _ = arena.candidates.order_by("pk")
    make_vote(arena, left, right, "left", prompt=arena.prompts.first())
    return arena


def test_nothing_of_it_is_left_and_others_stay(voted):
    other = make_arena(slug="stays")
    call_command("delete_arena", "gone", yes=True)
    assert list(Arena.objects.all()) == [other]
    assert not Vote.objects.exists()
    assert not Comparison.objects.exists()
    assert not Import.objects.exists()
    assert {c.arena for c in Candidate.objects.all()} == {other}
    assert {p.arena for p in Prompt.objects.all()} == {other}
    assert Response.objects.count() == 12


def test_an_imported_and_judged_arena_goes_too(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("left,right,winner,worker\na,b,left,w\nb,a,tie,w\n")
    call_command("import_arena", "gone", str(path), quiet=True)
    call_command("refresh_boards", "gone")
    call_command("delete_arena", "gone", yes=True)
    left = {m._meta.label: m.objects.count() for m in apps.get_app_config("ranking").get_models()}
    assert not any(left.values()), left
    assert not Arena.objects.exists()


def test_it_is_hidden_first_and_a_second_call_continues(voted, monkeypatch):
    def killed(rows):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(arenas, "_delete_all", killed)
        with pytest.raises(KeyboardInterrupt):
            arenas.delete_arena(arena=voted, by=CLI)
    assert not Arena.objects.revealed().exists()
    call_command("delete_arena", "gone", yes=True)
    assert not Arena.objects.exists()


def test_an_unknown_arena_is_reported():
    with pytest.raises(CommandError, match="no arena"):
        call_command("delete_arena", "nowhere", yes=True)


def test_nothing_is_imported_into_what_is_being_deleted(voted, tmp_path, monkeypatch):
    path = tmp_path / "pairs.csv"
    path.write_text("left,right,winner\na,b,left\n")
    with monkeypatch.context() as patch:
        patch.setattr(arenas, "_delete_all", lambda rows: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            arenas.delete_arena(arena=voted, by=CLI)
    with pytest.raises(CommandError, match="gone is being deleted"):
        call_command("import_arena", "gone", str(path), quiet=True)
    call_command("delete_arena", "gone", yes=True)
    call_command("import_arena", "gone", str(path), quiet=True)
    assert Vote.objects.count() == 1
