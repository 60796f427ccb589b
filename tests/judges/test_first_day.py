"""The operators' first day: what is missing until it is there, and where a sign-in leads."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import Actor
from arena.models import Backup, Capability, Team
from arena.services.teams import create_team
from judges.first_day import first_day
from tests.factories import PASSWORD, make_arena, make_team, make_user
from tests.judges import helpers
from tests.judges.fake_server import MODEL, FakeServer

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


def missing() -> list[str]:
    day = first_day(timezone.now())
    return [step.title for step in (*day.steps, *day.later) if not step.is_done]


def test_what_a_site_needs_is_listed_until_it_is_there(settings: Any) -> None:
    settings.SITE_URL, settings.TEAM_BUDGET = "http://127.0.0.1:8000", 0
    first = ["Add a model", "Test it", "Start a judge run"]
    assert missing() == [
        *first,
        *("Address of the site", "HTTPS", "Mail", "Budget of new teams", "Backup"),
    ]
    settings.SITE_URL, settings.TEAM_BUDGET = "https://arena.example.org", 10**9
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    backup = Backup.objects.create(made_at=timezone.now(), size=1, is_encrypted=False)
    assert missing() == first
    Backup.objects.filter(pk=backup.pk).update(made_at=timezone.now() - timedelta(days=4))
    assert "Backup" in missing()


def test_the_way_to_the_first_run(local: FakeServer, settings: Any) -> None:
    arena = make_arena(2, 2, slug="sample")
    helpers.price_local(settings, 10**9)
    assert missing()[:2] == ["Test it", "Start a judge run"]
    step = first_day(timezone.now()).steps[-1]
    assert step.link.startswith(reverse("order_run", args=["sample"]))
    assert "model=local%3A" in step.link
    Capability.objects.create(endpoint="local", model=MODEL, probed_at=timezone.now())
    helpers.work_off(helpers.order(arena, "scripted:scripted-1", per_pair=1))
    assert missing()[:1] == ["Start a judge run"]  # a stand-in's verdicts are no model's
    helpers.work_off(helpers.order(arena, f"local:{MODEL}", per_pair=1, cap=10**9))
    assert first_day(timezone.now()).is_over


def test_an_operators_first_sign_in_leads_there(client: Client) -> None:
    make_user("root", is_staff=True)
    typed = {"login": "root", "password": PASSWORD}
    assert client.post(reverse("sign_in"), typed).url == reverse("operators")
    client.logout()
    helpers.work_off(helpers.order(make_arena(2, 2), "scripted", per_pair=1))
    assert client.post(reverse("sign_in"), typed).url == reverse("index")


def test_others_are_led_to_the_arenas(client: Client) -> None:
    make_user("ann")
    typed = {"login": "ann", "password": PASSWORD}
    assert client.post(reverse("sign_in"), typed).url == reverse("index")


def test_a_new_team_gets_the_default_budget(settings: Any) -> None:
    settings.TEAM_BUDGET = 25 * 10**9
    assert Team.objects.get(pk=make_team(name="Fresh").pk).budget == 25 * 10**9


def test_the_default_budget_is_for_a_persons_first_team(settings: Any) -> None:
    settings.TEAM_BUDGET = 5 * 10**9
    by = Actor(user=make_user("ann"))
    budgets = [create_team(name=f"Team {number}", by=by).budget for number in range(3)]
    assert budgets == [5 * 10**9, 0, 0]
