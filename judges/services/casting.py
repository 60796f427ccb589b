"""A judge or a jury casts its vote."""

from datetime import datetime

from arena.models import Comparison, Rater
from arena.services.voting import VoteRefused, cast_vote


def vote_as(
    rater: Rater,
    comparison: Comparison,
    outcome: str,
    now: datetime,
    *,
    preference: float | None = None,
) -> bool:
    """Cast a vote inside the caller's transaction; False when it is refused.

    A refusal is no error of the database, so it needs no savepoint.
    """
    try:
        cast_vote(
            comparison=comparison,
            rater=rater,
            outcome=outcome,
            now=now,
            preference=preference,
        )
    except VoteRefused:
        return False
    return True
