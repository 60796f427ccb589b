"""The audit trail: who did what for a team."""

from typing import Any

from arena.access import Actor
from arena.models import AuditEntry, Team

LONGEST_SUBJECT = 300


def record(
    *, team: Team | None, by: Actor, action: str, subject: object = "", **details: Any
) -> AuditEntry | None:
    """Note what `by` did for `team`, in the transaction that does it, and return the entry.

    `action` is a verb in the past ("registered a candidate"); no secret is ever in `details`.
    What has no team is the operators' own, and leaves no trail here.
    """
    if team is None:
        return None
    return AuditEntry.objects.create(
        team=team,
        user=by.user,
        token=by.token,
        by=by.name[:200],
        action=action,
        subject=str(subject)[:LONGEST_SUBJECT],
        details=details,
    )
