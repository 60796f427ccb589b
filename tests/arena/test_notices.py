"""A team is notified of each event once, and so is each member who wants email."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from arena.actors import Actor
from arena.models import AuditEntry, Delivery, Membership, Notice, Team, Webhook
from arena.services.notices import MAX_SENTENCE_LENGTH, notify, set_notices_by_email
from tests.factories import make_empty_team, make_member, make_user

pytestmark = pytest.mark.django_db


def join(team: Team, name: str, **fields: Any) -> Membership:
    return make_member(team, user=make_user(name), **fields)


def tell(team: Team, **fields: Any) -> Notice | None:
    told = {"key": "k", "kind": "test.kind", "sentence": "It is done.", "path": "/x/"}
    return notify(team=team, **{**told, "now": timezone.now()} | fields)


def test_it_goes_to_live_webhooks_and_to_members_who_want_mail(empty_team: Team) -> None:
    now = timezone.now()
    wants = join(empty_team, "wants")
    join(empty_team, "does-not", notices_by_email=False)
    gone = join(empty_team, "gone")
    get_user_model().objects.filter(pk=gone.user.pk).update(is_active=False)
    silent = join(empty_team, "silent")
    get_user_model().objects.filter(pk=silent.user.pk).update(email="")
    live = Webhook.objects.create(team=empty_team, url="https://a.example.com/", salt="1")
    Webhook.objects.create(team=empty_team, url="https://b.example.com/", salt="2", removed_at=now)
    other = make_empty_team(name="Other", slug="other")
    join(other, "stranger")
    notice = tell(empty_team, now=now, details={"a": 1})
    assert notice is not None
    assert (notice.created_at, notice.details) == (now, {"a": 1})
    found = Delivery.objects.values_list("webhook", "membership", "state", "due_at")
    assert set(found) == {
        (live.pk, None, "waiting", now),
        (None, wants.pk, "waiting", now),
    }


def test_a_second_notice_of_the_same_key_is_none(empty_team: Team) -> None:
    join(empty_team, "ann")
    assert tell(empty_team) is not None
    assert tell(empty_team, sentence="Again.", now=timezone.now() + timedelta(days=1)) is None
    assert Notice.objects.get().sentence == "It is done."
    assert Delivery.objects.count() == 1
    assert tell(make_empty_team(name="Other", slug="other")) is not None


def test_a_long_sentence_is_cut_where_it_ends_to_be_kept(empty_team: Team) -> None:
    notice = tell(empty_team, sentence="long\n" * 400)
    assert notice is not None
    notice.refresh_from_db()
    assert len(notice.sentence) == MAX_SENTENCE_LENGTH
    assert notice.sentence.startswith("long long")
    assert notice.sentence.endswith("…")


def test_mail_can_be_stopped_and_the_audit_log_says_so_once(empty_team: Team) -> None:
    member = join(empty_team, "ann")
    by = Actor(user=member.user)
    for wanted in (False, False, True):
        set_notices_by_email(membership=member, wanted=wanted, by=by)
    member.refresh_from_db()
    assert member.notices_by_email
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["switched notices by e-mail off", "switched notices by e-mail on"]
