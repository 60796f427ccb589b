"""People and teams for tests, made through the services."""

from itertools import count
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client

from arena.actors import Actor
from arena.models import Membership, Role, Team
from arena.services import teams

PASSWORD = "s3cret-words"
_numbers = count(1)


def person(name: str = "", **fields: Any) -> Any:
    name = name or f"person{next(_numbers)}"
    return get_user_model().objects.create_user(name, f"{name}@example.org", PASSWORD, **fields)


def make_team(owner: Any = None, name: str = "") -> Team:
    """A team whose owner is `owner`, or somebody new."""
    by = Actor(user=owner or person())
    return teams.create_team(name=name or f"Team {next(_numbers)}", by=by)


def join(team: Team, role: str = Role.MEMBER, user: Any = None) -> Membership:
    return Membership.objects.create(team=team, user=user or person(), role=role)


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def everybody(team: Team) -> dict[str, Client]:
    """A browser for each kind of reader that a page of `team` may have."""
    members = {role: signed_in(join(team, role).user) for role in Role.values}
    return {
        "nobody": Client(),
        "stranger": signed_in(make_team().memberships.get().user),
        **members,
        "operator": signed_in(person(is_staff=True)),
    }
