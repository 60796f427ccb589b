"""Notices to teams."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from arena.actors import Actor
from arena.models import Arena, Delivery, Membership, Notice, Team
from arena.services.audit import record

MAX_SENTENCE_LENGTH = 500


@transaction.atomic
def notify(
    *,
    team: Team,
    key: str,
    kind: str,
    sentence: str,
    path: str,
    arena: Arena | None = None,
    details: Mapping[str, Any] | None = None,
    by_email: bool = True,
    now: datetime,
) -> Notice | None:
    """Write a notice to `team` and queue it for its webhooks and for members who want email.

    `key` names the cause: if the team already has a notice with it, nothing is written and None is
    returned. `path` is the page with more; `details` are sent to webhooks.
    Without `by_email`, nobody is sent an email.
    """
    fields = {
        "kind": kind,
        "sentence": clip_sentence(sentence),
        "path": path,
        "arena": arena,
        "details": dict(details or {}),
        "created_at": now,
    }
    notice, is_new = Notice.objects.get_or_create(team=team, key=key, defaults=fields)
    if not is_new:
        return None
    webhooks = team.webhooks.live().order_by("pk")
    members = team.memberships.filter(notices_by_email=True, user__is_active=True)
    members = members.exclude(user__email="").order_by("pk") if by_email else members.none()
    Delivery.objects.bulk_create(
        [
            *(Delivery(notice=notice, webhook=webhook, due_at=now) for webhook in webhooks),
            *(Delivery(notice=notice, membership=member, due_at=now) for member in members),
        ]
    )
    return notice


def clip_sentence(sentence: str) -> str:
    """Return the sentence on one line, cut to the maximum length."""
    line = " ".join(sentence.split())
    return line if len(line) <= MAX_SENTENCE_LENGTH else f"{line[: MAX_SENTENCE_LENGTH - 1]}…"


@transaction.atomic
def set_notices_by_email(*, membership: Membership, wanted: bool, by: Actor) -> Membership:
    """Turn email for the team's notices on or off for this member."""
    changed = Membership.objects.filter(pk=membership.pk).exclude(notices_by_email=wanted)
    if changed.update(notices_by_email=wanted):
        action = "switched notices by e-mail on" if wanted else "switched notices by e-mail off"
        record(team=membership.team, by=by, action=action, subject=membership.user)
    membership.notices_by_email = wanted
    return membership
