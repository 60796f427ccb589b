"""Votes of judges and juries, cast inside the transaction that settles their verdicts."""

from datetime import datetime

from arena.db import sql
from arena.models import Comparison, Rater
from arena.services.comparisons import VoteError
from arena.services.voting import cast_vote

# Whether the rater has a vote on the same two answers: deleting a run deletes its judgements, but
# not its votes.
HAS_VOTED = """
    SELECT 1 FROM arena_comparison c
    JOIN arena_vote v ON v.comparison_id = c.id AND v.rater_id = c.rater_id AND v.voided_at IS NULL
    WHERE c.rater_id = %s AND c.left_response_id IN (%s, %s) AND c.right_response_id IN (%s, %s)
    LIMIT 1
"""


def try_to_vote(
    rater: Rater,
    comparison: Comparison,
    outcome: str,
    now: datetime,
    *,
    preference: float | None = None,
) -> bool:
    """Cast a vote inside the caller's transaction, unless it exists; False if it is refused.

    A refusal is not a database error, so it needs no savepoint.
    """
    answers = (comparison.left_response_id, comparison.right_response_id)
    if sql.one(HAS_VOTED, rater.pk, *answers, *answers):
        return True
    try:
        cast_vote(
            comparison=comparison, rater=rater, outcome=outcome, now=now, preference=preference
        )
    except VoteError:
        return False
    return True
