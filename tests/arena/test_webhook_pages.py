"""Owners add, try and remove webhooks."""

from typing import Any

import pytest
from django.db import IntegrityError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import Actor
from arena.models import AuditEntry, Delivery, Role, Team, Webhook
from arena.services.webhooks import (
    MAX_TESTS,
    MAX_WEBHOOKS,
    add_webhook,
    remove_webhook,
    send_test,
    signing_secret,
)
from tests.arena.teams import signed_in
from tests.factories import make_empty_team, make_member, make_user

pytestmark = pytest.mark.django_db

URL = "https://hooks.example.com/ringside"


def somebody(team: Team | None, role: str = Role.OWNER) -> Client:
    user = make_user(f"{role}-{team}")
    if team is not None:
        make_member(team, role, user)
    return signed_in(user)


def page_of(team: Team) -> str:
    return reverse("team_webhooks", args=[team.slug])


def act(client: Client, action: str, webhook: Webhook, team: Team | None = None) -> Any:
    slug = (team or webhook.team).slug
    return client.post(reverse(action, args=[slug, webhook.pk]), follow=True)


def test_an_owner_adds_a_webhook_and_reads_its_secret(empty_team: Team) -> None:
    owner = somebody(empty_team)
    sent = {"url": f" {URL} ", "format": "ringside"}
    html = owner.post(page_of(empty_team), sent, follow=True).content.decode()
    webhook = Webhook.objects.get()
    assert (webhook.url, webhook.team) == (URL, empty_team)
    assert signing_secret(webhook) in html
    assert signing_secret(webhook).startswith("whsec_")
    entry = AuditEntry.objects.get()
    assert entry.action == "added a webhook"


def test_an_owner_chooses_slacks_format(empty_team: Team) -> None:
    owner = somebody(empty_team)
    sent = {"url": URL, "format": "slack"}
    html = owner.post(page_of(empty_team), sent, follow=True).content.decode()
    assert Webhook.objects.get().format == "slack"
    assert "A message for Slack · added" in html
    refused = owner.post(page_of(empty_team), {"url": f"{URL}2", "format": "teams"})
    assert "Select a valid choice" in refused.content.decode()
    assert Webhook.objects.count() == 1


def test_the_database_refuses_an_unknown_format(empty_team: Team) -> None:
    with pytest.raises(IntegrityError, match="webhook_format_known"):
        Webhook.objects.create(team=empty_team, url=URL, salt="s", format="teams")


def test_the_audit_log_that_viewers_read_has_no_path_of_a_webhook(empty_team: Team) -> None:
    """Anyone who knows the full address of a chat's webhook can write to that chat."""
    webhook = add_webhook(team=empty_team, url="https://chat.example.org/T0/s3cret", by=Actor())
    send_test(webhook=webhook, by=Actor(), now=timezone.now())
    remove_webhook(webhook=webhook, by=Actor(), now=timezone.now())
    subjects = AuditEntry.objects.values_list("subject", flat=True)
    assert list(subjects) == ["https://chat.example.org"] * 3


def test_each_webhooks_secret_is_derived_from_the_sites_key(
    empty_team: Team, settings: Any
) -> None:
    one, two = (Webhook(team=empty_team, url=URL, salt=salt) for salt in "ab")
    secret = signing_secret(one)
    assert secret == signing_secret(one)
    assert secret != signing_secret(two)
    settings.SECRET_KEY = "another key of this site"
    assert secret != signing_secret(one)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "Enter the address"),
        ("http://hooks.example.com/", "must begin with https://."),
        ("https://10.0.0.1/", "private or special network"),
        ("https://localhost/", "private or special network"),
        ("https://hooks.example.com/" + "x" * 480, "longer than 500 characters"),
        ("javascript:alert(1)", "must begin with https://"),
    ],
)
def test_an_invalid_address_is_refused_with_a_reason(
    empty_team: Team, url: str, sentence: str
) -> None:
    html = somebody(empty_team).post(page_of(empty_team), {"url": url}).content.decode()
    assert sentence in html
    assert not Webhook.objects.exists()


def test_an_address_is_added_once_until_it_is_removed(empty_team: Team) -> None:
    owner = somebody(empty_team)
    for _ in range(2):
        html = owner.post(page_of(empty_team), {"url": URL}, follow=True).content.decode()
    assert "This webhook already exists." in html
    act(owner, "remove_webhook", Webhook.objects.get())
    owner.post(page_of(empty_team), {"url": URL})
    assert (Webhook.objects.count(), Webhook.objects.live().count()) == (2, 1)


def test_a_team_has_so_many_webhooks_and_no_more(empty_team: Team) -> None:
    for n in range(MAX_WEBHOOKS):
        Webhook.objects.create(team=empty_team, url=f"{URL}/{n}", salt="s")
    html = somebody(empty_team).post(page_of(empty_team), {"url": URL}).content.decode()
    assert f"A team can have {MAX_WEBHOOKS} webhooks." in html


def test_a_removed_one_is_gone_from_the_page_and_on_the_audit_log(empty_team: Team) -> None:
    owner = somebody(empty_team)
    webhook = Webhook.objects.create(team=empty_team, url=URL, salt="s")
    html = act(owner, "remove_webhook", webhook).content.decode()
    assert "Nothing more is sent there" in html
    assert signing_secret(webhook) not in html
    assert AuditEntry.objects.get().action == "removed a webhook"
    assert "already removed" in act(owner, "remove_webhook", webhook).content.decode()
    assert act(owner, "test_webhook", webhook).status_code == 404


def test_a_test_goes_to_that_webhook_alone_and_so_often_an_hour(empty_team: Team) -> None:
    owner = somebody(empty_team)
    webhook = Webhook.objects.create(team=empty_team, url=URL, salt="s")
    Webhook.objects.create(team=empty_team, url=f"{URL}/other", salt="s")
    for _ in range(MAX_TESTS):
        html = act(owner, "test_webhook", webhook).content.decode()
        assert "Test sent." in html
    html = act(owner, "test_webhook", webhook).content.decode()
    assert f"A team can send {MAX_TESTS} tests an hour." in html
    assert set(Delivery.objects.values_list("webhook", flat=True)) == {webhook.pk}
    assert Delivery.objects.count() == MAX_TESTS
    assert "Webhook test, requested by owner-Help centre." in html
    assert "waiting" in html


def test_what_became_of_deliveries_is_reported(empty_team: Team) -> None:
    owner = somebody(empty_team)
    webhook = Webhook.objects.create(team=empty_team, url=URL, salt="s")
    act(owner, "test_webhook", webhook)
    Delivery.objects.update(state="failed", attempts=6, error="The receiver <b> said no.")
    html = owner.get(page_of(empty_team)).content.decode()
    assert "after 6 attempts" in html
    assert "The receiver &lt;b&gt; said no." in html


def test_only_owners_come_in_and_only_to_their_own(empty_team: Team) -> None:
    webhook = Webhook.objects.create(team=empty_team, url=URL, salt="s")
    other = make_empty_team(name="Other", slug="other")
    stranger = somebody(other)
    for role in (Role.MEMBER, Role.VIEWER):
        client = somebody(empty_team, role)
        assert client.get(page_of(empty_team)).status_code == 403
        assert act(client, "remove_webhook", webhook).status_code == 403
        assert act(client, "test_webhook", webhook).status_code == 403
    assert stranger.get(page_of(empty_team)).status_code == 404
    assert act(stranger, "remove_webhook", webhook).status_code == 404
    assert act(stranger, "remove_webhook", webhook, team=other).status_code == 404
    assert act(stranger, "test_webhook", webhook, team=other).status_code == 404
    webhook.refresh_from_db()
    assert (webhook.removed_at, Delivery.objects.count()) == (None, 0)
