"""Secrets of tokens and invitations appear in one response, and nowhere else."""

import io
import logging
import re

import pytest
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from arena.services import tokens
from tests.arena.teams import signed_in
from tests.factories import make_team, make_user

pytestmark = pytest.mark.django_db


def dump():
    """Everything in the database, with sessions as they are read."""
    out = io.StringIO()
    call_command("dumpdata", stdout=out)
    sessions = [str(session.get_decoded()) for session in Session.objects.all()]
    return out.getvalue() + "".join(sessions)


def secret_in(page, pattern):
    return re.search(pattern, page.text)[1]


def test_no_secret_is_in_the_database_the_logs_or_the_audit_log(caplog):
    caplog.set_level(logging.DEBUG)
    team = make_team()
    owner, eve = signed_in(team.memberships.get().user), signed_in(make_user())
    members, made = (reverse(name, args=[team.slug]) for name in ("team_members", "team_tokens"))
    token = secret_in(owner.post(made, {"name": "CI", "scopes": ["read"]}), r'value="(rs_[^"]+)"')
    links = [
        secret_in(owner.post(members, {"role": "member"}), r'/invitations/([^"/]+)/"')
        for _ in range(3)
    ]
    tokens.find_token(token, timezone.now())
    tokens.find_token(token + "0", timezone.now())
    for link in links:
        eve.get(reverse("invitation", args=[link]), follow=True)
        eve.post("/invitations/")
    eve.get(reverse("invitation", args=[links[0]]), follow=True)
    owner.get(members)
    owner.get(made)
    owner.get(reverse("team_audit", args=[team.slug]))
    kept, said = dump(), caplog.text
    assert token[:11] in kept
    for secret in [token[12:], *links]:
        assert secret not in kept
        assert secret not in said


def test_a_link_that_does_not_work_is_not_in_the_logs_either(client, caplog):
    client.get("/invitations/made-up-canary/", follow=True)
    assert "Gone: /invitations/" in caplog.text
    assert "canary" not in caplog.text
