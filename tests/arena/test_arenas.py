"""Teams' arenas: created with their own address, and changed only as far as is fair."""

import re
from typing import Any

import pytest
from django.utils import timezone

from arena.actors import Actor
from arena.errors import ServiceError
from arena.forms.arenas import ArenaForm
from arena.models import Arena, AuditEntry, Run
from arena.permissions import visible_arenas
from arena.services.arenas import (
    ArenaError,
    CriteriaError,
    create_team_arena,
    set_criteria,
    update_arena,
)
from arena.services.candidates import retire_candidate
from arena.validation import CRITERIA_LIMIT, DESCRIPTION_LIMIT
from ranking.models import Board
from tests.arena.rest import Caller
from tests.factories import make_arena, make_candidate, make_team, make_vote

pytestmark = pytest.mark.django_db


def create(**fields: Any) -> Arena:
    fields = {"team": make_team(name="Makers"), "by": Actor(), "name": "Refunds"} | fields
    return create_team_arena(**fields)


def update(arena: Arena, **fields: Any) -> Arena:
    return update_arena(arena=arena, by=Actor(), **fields)


def test_no_arena_name_contains_invisible_characters() -> None:
    with pytest.raises(ArenaError, match=r"contains an invisible character \(U\+202E\)"):
        create(name="abc\u202edef")


def test_an_arena_is_made_and_announced(
    django_capture_on_commit_callbacks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ranking.signals.schedule_refresh", lambda arena_id: None)
    with django_capture_on_commit_callbacks(execute=True):
        arena = create(
            name="Which refund?", visibility="private", voters="members", criteria=" Short. "
        )
    arena.refresh_from_db()
    assert (arena.team.name, arena.criteria) == ("Makers", "Short.")
    assert (arena.visibility, arena.voters) == ("private", "members")
    assert Board.objects.filter(arena=arena).exists()
    assert AuditEntry.objects.latest("pk").action == "made an arena"


@pytest.mark.parametrize(
    ("name", "slug"), [("Refunds", "refunds-2"), ("日本", "arena"), ("New", "new-2")]
)
def test_an_address_is_found_for_any_name(name: str, slug: str) -> None:
    make_arena(0, 0, slug="refunds")
    assert create(name=name).slug == slug


@pytest.mark.parametrize(
    ("fields", "slug"),
    [
        ({"visibility": "private"}, r"refunds-[a-z0-9]{8}"),
        ({"visibility": "private", "name": "x" * 60}, r"x{51}-[a-z0-9]{8}"),
        ({"visibility": "private", "slug": "chosen"}, "chosen"),
        ({"visibility": "private", "name": "日本"}, r"arena-[a-z0-9]{8}"),
        ({"visibility": "unlisted"}, r"refunds-[a-z0-9]{8}"),
        ({"visibility": "unlisted", "slug": "chosen"}, "chosen"),
        ({"visibility": "public"}, "refunds"),
    ],
)
def test_an_address_that_is_not_public_cannot_be_guessed_unless_it_was_chosen(
    fields: dict[str, str], slug: str
) -> None:
    assert re.fullmatch(slug, create(**fields).slug)


def test_the_name_of_a_private_arena_is_free_for_everybody() -> None:
    """Otherwise "taken" would reveal to outsiders what it is called."""
    wanted: dict[str, Any] = {"by": Actor(), "name": "Secret plan"}
    create_team_arena(team=make_team(), visibility="private", **wanted)
    assert create_team_arena(team=make_team(), slug="secret-plan", **wanted).slug == "secret-plan"
    assert create_team_arena(team=make_team(), visibility="private", **wanted).pk


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"name": " "}, "name", "is empty"),
        ({"question": "x" * 201}, "question", "201 characters"),
        ({"slug": "taken"}, "slug", "Another arena already has this address."),
        ({"slug": "new"}, "slug", "is reserved"),
        ({"slug": "a b"}, "slug", "valid"),
        ({"slug": "a b", "visibility": "private"}, "slug", "valid"),
        ({"visibility": "secret"}, "visibility", "not a valid choice"),
        (
            {"visibility": "private", "open_to_teams": True},
            "open_to_teams",
            "cannot see a private arena",
        ),
        ({"criteria": "x" * 4001}, "criteria", "4,001 characters"),
        ({"description": "x" * 20_001}, "description", "20,001 characters long; the limit is 20"),
        ({"description": "日" * 20_001}, "description", "20,001 characters"),
        ({"description": "a\0b"}, "description", "NUL"),
    ],
)
def test_what_cannot_be_is_reported_at_its_field(
    fields: dict[str, Any], field: str, words: str
) -> None:
    make_arena(0, 0, slug="taken")
    with pytest.raises(ArenaError) as refused:
        create(**fields)
    assert (refused.value.field, words in refused.value.message) == (field, True)
    assert Arena.objects.count() == 1


def test_a_limit_counts_characters_at_every_door() -> None:
    arena = create(description="日" * DESCRIPTION_LIMIT)
    assert len(arena.description) == DESCRIPTION_LIMIT
    owner = Caller(user=arena.team.memberships.get().user)
    form = {"name": "A", "question": "Q?", "visibility": "public", "voters": "anyone"}
    form |= {"held_out": "20", "rater_cap": "10", "network_share": "10"}
    form |= {"self_identifying": "drop", "counts": "anyone"}
    for description, by_api, is_valid in (
        ("字" * DESCRIPTION_LIMIT, 200, True),
        ("x" * (DESCRIPTION_LIMIT + 1), 400, False),
    ):
        said = {"description": description}
        assert owner.patch(f"arenas/{arena.slug}/", said).status_code == by_api
        assert ArenaForm(form | said).is_valid() == is_valid


def test_settings_are_changed_and_noted() -> None:
    arena = update(create(), name="Returns", criteria="Kind.", visibility="unlisted")
    arena.refresh_from_db()
    assert (arena.name, arena.slug, arena.criteria) == ("Returns", "refunds", "Kind.")
    entry = AuditEntry.objects.latest("pk")
    assert entry.details["fields"] == ["criteria", "name", "visibility"]


def test_what_changes_nothing_is_not_noted() -> None:
    arena = create()
    before = AuditEntry.objects.count()
    update(arena, name="Refunds")
    assert AuditEntry.objects.count() == before


def test_stored_pages_go_when_settings_change() -> None:
    arena = create()
    with pytest.MonkeyPatch.context() as patch:
        dropped: list[int] = []
        patch.setattr(
            "ranking.services.leases.drop_pages",
            lambda arena_id, is_stale: dropped.append(arena_id) if is_stale else None,
        )
        update(arena, visibility="private")
    assert dropped == [arena.pk]


def test_a_question_that_was_voted_on_stays() -> None:
    arena = make_arena(2, 1, team=make_team())
    update(arena, question="Which is shorter?")
    make_vote(arena, *arena.candidates.all(), "left")
    with pytest.raises(ArenaError, match="already has votes"):
        update(arena, question="Which is longer?")
    assert update(arena, name="Other").name == "Other"


def test_an_arena_with_guests_does_not_become_private() -> None:
    arena = create(open_to_teams=True)
    make_candidate(arena, "ours", team=arena.team)
    guest = make_candidate(arena, "theirs", team=make_team(name="Guests"))
    with pytest.raises(ArenaError, match="could no longer see them") as refused:
        update(arena, visibility="private", open_to_teams=False)
    assert refused.value.field == "visibility"
    retire_candidate(candidate=guest, by=Actor(), now=timezone.now())
    assert update(arena, visibility="private", open_to_teams=False).visibility == "private"
    theirs = Actor(user=guest.team.memberships.get().user)
    assert not visible_arenas(theirs).exists()


def test_what_has_no_team_cannot_be_private() -> None:
    with pytest.raises(ArenaError, match="no team"):
        update(make_arena(0, 0), visibility="private")


def test_criteria_are_stored_without_the_space_around_them() -> None:
    arena = make_arena()
    set_criteria(arena=arena, criteria="  Short and true.\n")
    arena.refresh_from_db()
    assert arena.criteria == "Short and true."
    set_criteria(arena=arena, criteria="")
    arena.refresh_from_db()
    assert arena.criteria == ""


def test_too_long_criteria_are_refused() -> None:
    with pytest.raises(CriteriaError, match="4,001 characters") as refused:
        set_criteria(arena=make_arena(), criteria="x" * (CRITERIA_LIMIT + 1))
    assert isinstance(refused.value, ServiceError)
    assert refused.value.field == "criteria"


@pytest.mark.parametrize("state", ["ordered", "open", "paused"])
def test_criteria_cannot_change_while_judges_are_at_work(state: str) -> None:
    arena = make_arena()
    run = Run.objects.create(arena=arena, kind="judge", per_pair=1, state=state)
    with pytest.raises(CriteriaError, match=f"Run {run.pk}"):
        set_criteria(arena=arena, criteria="Other words.")
    set_criteria(arena=arena, criteria="")  # the same as before
    run.state = "done"
    run.save()
    set_criteria(arena=arena, criteria="Other words.")


def test_criteria_change_during_runs_of_human_votes() -> None:
    arena = make_arena()
    Run.objects.create(arena=arena, kind="person", per_pair=1, state="open")
    set_criteria(arena=arena, criteria="Other words.")
    assert arena.criteria == "Other words."


def test_only_a_candidate_of_the_arena_fixes_its_scale() -> None:
    arena, other = make_arena(2, 1, team=make_team()), make_arena(1, 1)
    chosen = arena.candidates.earliest("pk")
    update(arena, anchor=chosen, anchor_score=1114)
    arena.refresh_from_db()
    assert (arena.anchor, arena.anchor_score) == (chosen, 1114)
    assert AuditEntry.objects.latest("pk").details["fields"] == ["anchor", "anchor_score"]
    with pytest.raises(ArenaError, match="candidate of this arena") as refused:
        update(arena, anchor=other.candidates.get())
    assert refused.value.field == "anchor"
    update(arena, anchor=None)
    arena.refresh_from_db()
    assert arena.anchor is None


def test_the_form_offers_the_candidates_that_can_fix_the_scale() -> None:
    arena = make_arena(3, 1)
    first, second, third = arena.candidates.order_by("pk")
    retire_candidate(candidate=second, by=Actor(), now=timezone.now())
    retire_candidate(candidate=third, by=Actor(), now=timezone.now())
    arena.anchor = second
    shown = str(ArenaForm(instance=arena)["anchor"])
    assert "None: the mean score is 1000" in shown
    assert f">{first}<" in shown
    assert f'value="{second.pk}" selected>{second}<' in shown  # or saving would drop it
    assert str(third) not in shown
    sent = {"name": "A", "question": "Q?", "visibility": "public", "voters": "anyone"}
    for chosen, score, errors in (
        (first, "1114", set()),
        (second, "", set()),
        (third, "1114", {"anchor"}),
        (make_arena(1, 1).candidates.get(), "1114", {"anchor"}),
        (first, "-1", {"anchor_score"}),
        (first, "10001", {"anchor_score"}),
        (first, "nan", {"anchor_score"}),
    ):
        form = ArenaForm(sent | {"anchor": chosen.pk, "anchor_score": score}, instance=arena)
        assert set(form.errors) == errors, (chosen, score)
    assert "anchor" not in ArenaForm().fields  # a new arena has no candidates
