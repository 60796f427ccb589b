"""API tokens: shown once, found by their digest, of one team, revocable."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from arena.actors import Actor, TeamPermission
from arena.models import ApiToken
from arena.services import tokens
from tests.factories import make_team, make_user

pytestmark = pytest.mark.django_db
NOW = timezone.now()
MINUTE = timedelta(minutes=1)


def make(team=None, name="CI", scopes=("read",)):
    return tokens.create_token(
        team=team or make_team(), name=name, scopes=scopes, by=Actor(user=make_user())
    )


def test_a_token_is_found_by_its_secret_and_by_nothing_else():
    token, secret = make()
    make()
    assert tokens.find_token(secret, NOW) == token
    wrong = [
        secret[:-1],
        secret + "0",
        secret.upper(),
        token.digest,
        token.prefix,
        "",
        "\0",
        "\ud800",
    ]
    assert [tokens.find_token(text, NOW) for text in wrong] == [None] * len(wrong)


def test_a_secret_has_256_random_bits_behind_its_prefix():
    made = [make() for _ in range(3)]
    for token, secret in made:
        assert re.fullmatch(r"rs_[a-z0-9]{8}_[0-9a-f]{64}", secret)
        assert secret.startswith(f"{token.prefix}_")
    assert len({secret[-64:] for _, secret in made}) == 3


def test_only_the_digest_is_kept():
    token, secret = make()
    kept = str(ApiToken.objects.values().get(pk=token.pk))
    assert secret not in kept
    assert secret[12:] not in kept


def test_finding_a_token_takes_one_query(django_assert_num_queries):
    token, secret = make()
    tokens.find_token(secret, NOW)
    with django_assert_num_queries(1):
        found = tokens.find_token(secret, NOW)
        assert found.team == token.team
    with django_assert_num_queries(1):
        tokens.find_token("rs_nothing", NOW)


def test_use_is_noted_once_a_minute_at_most(django_assert_num_queries):
    token, secret = make()
    assert token.last_used_at is None
    for later, noted in [(0, 0), (59, 0), (60, 60), (61, 60)]:
        found = tokens.find_token(secret, NOW + timedelta(seconds=later))
        token.refresh_from_db()
        assert token.last_used_at == found.last_used_at == NOW + timedelta(seconds=noted)


@pytest.mark.parametrize(
    "scopes", [["read"], ["submit"], ["read", "judge"], ["read", "submit", "judge"]]
)
def test_a_token_may_do_what_was_chosen_and_in_its_team_alone(scopes):
    team, other = make_team(), make_team()
    token, secret = make(team, scopes=scopes)
    assert token.scopes == scopes
    actor = Actor(token=tokens.find_token(secret, NOW))
    for ability in TeamPermission:
        assert actor.may(ability, team) == (ability in scopes)
        assert not actor.may(ability, other)


def test_a_revoked_token_is_found_no_more_and_stays_on_record():
    token, secret = make()
    by = Actor(user=make_user("boss"))
    assert tokens.revoke_token(token=token, by=by, now=NOW)
    assert tokens.find_token(secret, NOW) is None
    assert not tokens.revoke_token(token=token, by=by, now=NOW + MINUTE)
    token.refresh_from_db()
    assert token.revoked_at == NOW
    done = token.team.audit_entries.order_by("pk").values_list("by", "action", "subject")
    assert list(done)[-1] == ("boss", "revoked a token", str(token))
    assert len(done) == 3


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"name": " "}, "Enter a name that says where"),
        ({"name": "x" * 101}, "at most 100"),
        ({"scopes": []}, "at least one scope"),
        ({"scopes": ["read", "manage"]}, "Unknown scope “manage”"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(fields, says):
    with pytest.raises(tokens.TokenError, match=says):
        make(**fields)
    assert not ApiToken.objects.exists()


def test_a_team_has_a_limited_number_of_live_tokens(monkeypatch):
    monkeypatch.setattr(tokens, "MOST_TOKENS", 2)
    team = make_team()
    first, _ = make(team, "1")
    make(team, "2")
    make(make_team())
    with pytest.raises(tokens.TokenError, match="can have 2 tokens"):
        make(team, "3")
    tokens.revoke_token(token=first, by=Actor(user=make_user()), now=NOW)
    make(team, "3")


def test_a_name_is_taken_until_its_token_is_revoked():
    team = make_team()
    first, _ = make(team, "CI")
    with pytest.raises(tokens.TokenError, match="A token with this name already exists") as refused:
        make(team, " CI ")
    assert refused.value.field == "name"
    make(make_team(), "CI")
    tokens.revoke_token(token=first, by=Actor(user=make_user()), now=NOW)
    make(team, "CI")
    assert team.tokens.filter(name="CI").count() == 2
