"""What the migrations do to existing rows."""

from datetime import UTC, datetime
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from arena.models import ApiToken, Arena, Response, Team
from arena.validation import name_key
from tests.factories import make_arena, make_empty_team


@pytest.mark.django_db
def test_candidates_of_before_are_as_old_as_their_arenas() -> None:
    arena = make_arena(2, 0)
    made = datetime(2026, 1, 1, tzinfo=UTC)
    Arena.objects.filter(pk=arena.pk).update(created_at=made)
    import_module("arena.migrations.0011_voters_of_arenas").date_candidates(apps, None)
    assert set(arena.candidates.values_list("created_at", flat=True)) == {made}


@pytest.mark.django_db
def test_live_tokens_of_one_name_are_distinguished() -> None:
    team, other = (make_empty_team(slug=slug, name=slug) for slug in ("a", "b"))
    long = "x" * 100
    names = ["CI", "CI 2", "CI", "CI", "Desk", long, long]
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX token_name_once_per_team")
    for number, name in enumerate(names):
        ApiToken.objects.create(team=team, name=name, prefix="rs", digest=str(number))
    gone = ApiToken.objects.create(
        team=team, name="CI", prefix="rs", digest="gone", revoked_at=datetime.now(UTC)
    )
    theirs = ApiToken.objects.create(team=other, name="CI", prefix="rs", digest="theirs")
    import_module("arena.migrations.0014_token_name_once_per_team").tell_apart(apps, None)
    kept = list(team.tokens.live().order_by("pk").values_list("name", flat=True))
    assert kept == ["CI", "CI 2", "CI 3", "CI 4", "Desk", long, "x" * 98 + " 2"]
    for token in (gone, theirs):
        token.refresh_from_db()
        assert token.name == "CI"


@pytest.mark.django_db
def test_teams_named_alike_stay_and_the_first_has_the_key() -> None:
    names = ["Team A", "Zenith", "team a", "ＴＥＡＭ A", "\ufdfa" * 120]
    for number, name in enumerate(names):
        make_empty_team(slug=f"t{number}", name=name)
    import_module("arena.migrations.0015_team_name_once").key_names(apps, None)
    teams = Team.objects.order_by("pk")
    assert list(teams.values_list("name", flat=True)) == names
    keys = list(teams.values_list("name_key", flat=True))
    assert keys == [name_key("team a"), name_key("zenith"), None, None, name_key(names[-1])]


@pytest.mark.django_db
def test_an_answer_whose_thought_alone_names_its_author_is_not_flagged_any_more() -> None:
    arena = make_arena(1, 3)
    texts = ["<think>I am Claude.</think>Hello!", "<think>Hm.</think>I am Claude.", "I am Claude."]
    for response, text in zip(Response.objects.filter(candidate__arena=arena), texts, strict=True):
        Response.objects.filter(pk=response.pk).update(text=text, names_itself=True)
    import_module("arena.migrations.0056_names_in_thought").flag_again(apps, None)
    assert set(Response.objects.filter(names_itself=True).values_list("text", flat=True)) == {
        *texts[1:]
    }
