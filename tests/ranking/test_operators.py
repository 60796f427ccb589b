"""The operators' page: what a new Ringside needs, and whether a model answers."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from arena.models import Backup, Team
from ranking.health import setup_steps
from tests.factories import make_team, make_user

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


def missing():
    return [step.title for step in setup_steps(timezone.now()) if not step.is_done]


def test_what_is_missing_is_listed_until_it_is_there(settings):
    settings.SITE_URL, settings.TEAM_BUDGET = "http://127.0.0.1:8000", 0
    assert missing() == [
        *("Address of the site", "Mail", "Model endpoints", "Prices", "Budget of new teams"),
        "Backup",
    ]
    settings.SITE_URL, settings.TEAM_BUDGET = "https://arena.example.org", 10**9
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    backup = Backup.objects.create(made_at=timezone.now(), size=1, is_encrypted=False)
    assert missing() == ["Model endpoints", "Prices"]
    Backup.objects.filter(pk=backup.pk).update(made_at=timezone.now() - timedelta(days=4))
    assert "Backup" in missing()


def test_operators_test_a_model_and_find_the_budgets(client):
    team = make_team(name="Ours")
    client.force_login(make_user("root", is_staff=True))
    page = client.get(reverse("operators")).content.decode()
    assert "Set up this site" in page
    assert f"{team.get_absolute_url()}#budget" in page
    answer = client.post(reverse("operators"), {"model": "scripted:scripted-1"}).content.decode()
    assert "scripted-1 at scripted answers" in answer
    answer = client.post(reverse("operators"), {"model": "nowhere:x"}).content.decode()
    assert "nowhere" in answer
    assert "answers." not in answer


def test_a_new_team_gets_the_default_budget(settings):
    settings.TEAM_BUDGET = 25 * 10**9
    assert Team.objects.get(pk=make_team(name="Fresh").pk).budget == 25 * 10**9
