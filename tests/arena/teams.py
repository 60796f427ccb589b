"""People's browsers, and checks of what they see."""

import re
from typing import Any

from django.conf import settings
from django.test import Client

from arena.models import Role, Team
from tests.factories import make_member, make_team, make_user

person = make_user  # the name that tests of other apps know


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def link_in(message: Any) -> str:
    """The path of the link in a mail."""
    found = re.search(f"{settings.SITE_URL}(\\S+)", message.body)
    assert found is not None
    return found[1]


def everybody(team: Team) -> dict[str, Client]:
    """A browser for each kind of reader that a page of `team` may have."""
    members = {role: signed_in(make_member(team, role).user) for role in Role.values}
    return {
        "nobody": Client(),
        "stranger": signed_in(make_team().memberships.get().user),
        **members,
        "operator": signed_in(make_user(is_staff=True)),
    }
