"""The audit log: who did what for a team."""

from typing import Any

from arena.actors import Actor
from arena.models import Arena, AuditEntry, Team

LONGEST_SUBJECT = 300


def record(
    *, team: Team | None, by: Actor, action: str, subject: object = "", **details: Any
) -> AuditEntry | None:
    """Record what `by` did for `team`, in the same transaction, and return the entry.

    `action` is in the past tense ("registered a candidate"); `details` must not contain secrets.
    Without a team nothing is recorded.
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


def record_in(
    arena: Arena,
    by: Actor,
    action: str,
    subject: object = None,
    *,
    team: Team | None = None,
    **details: Any,
) -> AuditEntry | None:
    """Record what `by` did in `arena`, by default to the arena itself and for its team."""
    return record(
        team=team or arena.team,
        by=by,
        action=action,
        subject=arena if subject is None else subject,
        arena=arena.slug,
        **details,
    )
