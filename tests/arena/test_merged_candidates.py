"""A candidate that was merged into another one is an alias: dated, reversible, in the audit log."""

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.test import Client
from django.urls import reverse

from arena.actors import CLI
from arena.models import Arena, AuditEntry, Candidate, Import, Response
from arena.services import arenas, import_rows
from arena.services.arenas import delete_arena
from arena.services.candidate_checks import CandidateError
from arena.services.candidates import (
    delete_candidate,
    merge_candidates,
    retire_candidate,
    undo_merges,
)
from arena.services.pairs import sync_pairs
from tests.factories import NOW, make_arena, make_candidate, make_team, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def arena() -> Arena:
    """Four candidates answered every prompt."""
    return make_arena(4, 3, team=make_team())


def first(arena: Arena, n: int = 2) -> list[Candidate]:
    return list(arena.candidates.order_by("pk")[:n])


def merge(into: Candidate, *aliases: Candidate, **fields: Any) -> int:
    return merge_candidates(**{"candidates": aliases, "into": into, "by": CLI, "now": NOW} | fields)


def ballots(arena: Arena) -> set[int]:
    """The candidates that a pair can be drawn of."""
    drawable = arena.pairs.filter(shared_prompts__gt=0)
    return {pk for pair in drawable.values_list("low", "high") for pk in pair}


def test_a_merge_is_dated_and_audited_and_undone(arena: Arena) -> None:
    oak, alias, *others = arena.candidates.order_by("pk")
    assert merge(oak, alias) == 1
    alias.refresh_from_db()
    assert (alias.merged_into, alias.merged_at, alias.retired_at) == (oak, NOW, NOW)
    entry = AuditEntry.objects.get(team=arena.team, action="merged a candidate")
    assert (entry.by, entry.subject) == (CLI.name, str(alias))
    assert entry.details["into"] == str(oak)
    assert ballots(arena) == {oak.pk, *(other.pk for other in others)}
    assert alias not in arena.candidates.active()
    assert undo_merges(candidates=[alias], by=CLI) == 1
    alias.refresh_from_db()
    assert (alias.merged_into, alias.merged_at, alias.retired_at) == (None, None, None)
    assert AuditEntry.objects.get(action="undid a merge of candidates").subject == str(alias)
    assert ballots(arena) == {one.pk for one in arena.candidates.all()}


def test_answers_stay_with_the_alias(arena: Arena) -> None:
    oak, alias = first(arena)
    before = list(Response.objects.order_by("pk").values())
    merge(oak, alias)
    assert list(Response.objects.order_by("pk").values()) == before


def test_what_was_archived_before_stays_archived(arena: Arena) -> None:
    oak, alias = first(arena)
    before = NOW - timedelta(days=1)
    retire_candidate(candidate=alias, by=CLI, now=before)
    merge(oak, alias)
    undo_merges(candidates=[alias], by=CLI)
    alias.refresh_from_db()
    assert alias.retired_at == before


def test_doing_or_undoing_it_twice_changes_nothing(arena: Arena) -> None:
    oak, alias = first(arena)
    assert merge(oak, alias) == 1
    assert merge(oak, alias, now=NOW + timedelta(days=1)) == 0
    alias.refresh_from_db()
    assert alias.merged_at == NOW
    assert undo_merges(candidates=[oak, alias], by=CLI) == 1
    assert undo_merges(candidates=[alias], by=CLI) == undo_merges(candidates=[], by=CLI) == 0


def test_chains_are_refused(arena: Arena) -> None:
    oak, alias, third, fourth = first(arena, 4)
    merge(oak, alias)
    with pytest.raises(CandidateError, match=f"{alias} is merged into {oak}.*Merge into {oak} "):
        merge(alias, third)
    with pytest.raises(CandidateError, match=f"{alias} is merged into {oak}. Undo that first"):
        merge(third, oak)
    with pytest.raises(CandidateError, match=f"{alias} is merged into {oak} already. Undo"):
        merge(fourth, third, alias)
    assert arena.candidates.merged().get() == alias
    assert merge(oak, third, fourth) == 2


def test_others_than_two_public_candidates_of_one_arena_are_refused(arena: Arena) -> None:
    oak, alias = first(arena)
    elsewhere = make_candidate(make_arena(1, 1))
    secret = make_candidate(arena, "secret", disclosed_at=None, private_until_votes=9)
    for into, aliases in [(oak, [oak]), (oak, [alias, oak]), (oak, [elsewhere]), (oak, [])]:
        with pytest.raises(CandidateError, match="other candidates of the same arena"):
            merge(into, *aliases)
    for into, one in [(oak, secret), (secret, oak)]:
        with pytest.raises(CandidateError, match="is not public yet"):
            merge(into, one)
    assert not Candidate.objects.merged().exists()


@pytest.mark.parametrize(
    ("constraint", "fields"),
    [
        ("candidate_not_merged_into_itself", {"to_itself": True}),
        ("candidate_merged_at_a_time", {"merged_at": None}),
        ("candidate_merged_is_archived", {"retired_at": None}),
    ],
)
def test_the_database_refuses(arena: Arena, constraint: str, fields: dict[str, Any]) -> None:
    oak, alias = first(arena)
    target = alias if fields.pop("to_itself", False) else oak
    values = {"merged_into": target, "merged_at": NOW, "retired_at": NOW} | fields
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        Candidate.objects.filter(pk=alias.pk).update(**values)
    with pytest.raises(IntegrityError, match="candidate_merged_at_a_time"), transaction.atomic():
        Candidate.objects.filter(pk=alias.pk).update(merged_at=NOW)


def test_what_others_are_merged_into_cannot_be_deleted_but_its_arena_can(arena: Arena) -> None:
    oak, alias = first(arena)
    merge(oak, alias)
    with pytest.raises(CandidateError, match=f"{alias} is merged into this candidate"):
        delete_candidate(candidate=oak, by=CLI)
    with pytest.raises(ProtectedError):
        oak.delete()
    delete_arena(arena=arena, by=CLI)
    assert not Candidate.objects.exists()


def test_rows_are_deleted_in_batches_whatever_they_are_merged_into(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Import.objects.create(arena=arena, sha256="0" * 64, started_at=NOW)
    into = make_candidate(arena, "oak", source=source, source_row=1)
    merged = {"merged_into": into, "merged_at": NOW, "retired_at": NOW}
    make_candidate(arena, "Oak", source=source, source_row=2, **merged)
    for module in (arenas, import_rows):
        monkeypatch.setattr(module, "DELETED_AT_ONCE", 1)
    import_rows.discard(arena, [source])
    assert arena.candidates.count() == 4
    merge(*first(arena))
    delete_arena(arena=arena, by=CLI)
    assert not Candidate.objects.exists()


def test_an_alias_without_votes_can_be_deleted(arena: Arena) -> None:
    oak, alias = first(arena)
    merge(oak, alias)
    delete_candidate(candidate=alias, by=CLI)
    delete_candidate(candidate=oak, by=CLI)
    assert arena.candidates.count() == 2


def test_pairs_stay_out_of_the_draw_when_answers_change(arena: Arena) -> None:
    oak, alias = first(arena)
    merge(oak, alias)
    sync_pairs(arena=arena)
    assert alias.pk not in ballots(arena)


def test_the_command_merges_and_undoes(arena: Arena) -> None:
    oak = make_candidate(arena, "oak")
    second = make_candidate(arena, "oak", version=2)
    loud = make_candidate(arena, "OAK")
    out = StringIO()
    call_command("merge_candidates", arena.slug, "OAK", "oak v2", "--into", "oak", stdout=out)
    assert out.getvalue() == "2 candidates merged into oak.\n"
    assert set(oak.aliases.all()) == {second, loud}
    call_command("merge_candidates", arena.slug, str(loud.pk), "--undo", stdout=out)
    assert out.getvalue().endswith("1 candidate no longer merged.\n")
    assert oak.aliases.get() == second
    with pytest.raises(CommandError, match=r"oak v2 is merged into oak already\. Merge into oak"):
        call_command("merge_candidates", arena.slug, "OAK", "--into", "oak v2")
    with pytest.raises(CommandError, match="no candidate 'ash'"):
        call_command("merge_candidates", arena.slug, "ash", "--into", "oak")


def test_administrators_merge_and_undo_in_the_admin(arena: Arena, admin_client: Client) -> None:
    oak, alias = make_candidate(arena, "oak"), make_candidate(arena, "Oak")
    page = admin_client.get(reverse("admin:arena_candidate_change", args=[oak.pk]))
    assert f"Oak ({alias.pk})" in page.text
    address = reverse("admin:arena_candidate_changelist")
    chosen = {"_selected_action": [alias.pk]}
    asked = chosen | {"action": "merge", "into": oak.pk}
    assert "1 candidate merged into oak." in admin_client.post(address, asked, follow=True).text
    assert oak.aliases.get() == alias
    assert AuditEntry.objects.get(action="merged a candidate").by == "admin"
    wrong = admin_client.post(address, asked | {"into": alias.pk}, follow=True)
    assert "Merge other candidates" in wrong.text
    for into in ("", "999999"):
        page = admin_client.post(address, asked | {"into": into}, follow=True)
        assert "Enter the id of the candidate" in page.text
    admin_client.post(address, chosen | {"action": "undo_merge"})
    assert not oak.aliases.exists()


def test_staff_who_may_only_look_cannot_merge(arena: Arena, client: Client) -> None:
    oak, alias = first(arena)
    user = make_user(is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_candidate"))
    client.force_login(user)
    asked = {"action": "merge", "into": oak.pk, "_selected_action": [alias.pk]}
    client.post(reverse("admin:arena_candidate_changelist"), asked)
    assert not oak.aliases.exists()
