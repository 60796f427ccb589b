"""What a team is told, once, and to whom it is delivered besides its page."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from arena.access import Actor
from arena.models import Arena, Delivery, Membership, Notice, Team
from arena.services.audit import record

LONGEST_SENTENCE = 500


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
    now: datetime,
) -> Notice | None:
    """Tell `team` something, and queue it for its webhooks and for members who want e-mail.

    `key` says what it is about: a second notice with the same one is none, and None is returned.
    `path` is the page to read more on; `details` go out with webhooks.
    """
    fields = {
        "kind": kind,
        "sentence": clipped(sentence),
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
    members = members.exclude(user__email="").order_by("pk")
    Delivery.objects.bulk_create(
        [
            *(Delivery(notice=notice, webhook=one, due_at=now) for one in webhooks),
            *(Delivery(notice=notice, membership=one, due_at=now) for one in members),
        ]
    )
    return notice


def clipped(sentence: str) -> str:
    """The sentence on one line, no longer than is kept."""
    line = " ".join(sentence.split())
    return line if len(line) <= LONGEST_SENTENCE else f"{line[: LONGEST_SENTENCE - 1]}…"


@transaction.atomic
def set_notices_by_email(*, membership: Membership, wanted: bool, by: Actor) -> Membership:
    """Send the team's notices to this member by e-mail too, or stop that."""
    changed = Membership.objects.filter(pk=membership.pk).exclude(notices_by_email=wanted)
    if changed.update(notices_by_email=wanted):
        action = "switched notices by e-mail on" if wanted else "switched notices by e-mail off"
        record(team=membership.team, by=by, action=action, subject=membership.user)
    membership.notices_by_email = wanted
    return membership
