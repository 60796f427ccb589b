"""The outcomes of a comparison of two answers, their labels and their points; and why votes do not
count. Pure.

Votes are counted in columns of this order (`ranking.votes.COUNTS`), so to add a counted outcome,
start there.
"""

from enum import StrEnum

LEFT, RIGHT, TIE, BOTH_BAD = "left", "right", "tie", "both_bad"
# In the order of arrays and lists.
OUTCOMES = (LEFT, RIGHT, TIE, BOTH_BAD)
# The outcomes that leaderboards and labels count; any other is only stored and shown.
COUNTED = OUTCOMES
MIRRORED = {outcome: outcome for outcome in OUTCOMES} | {LEFT: RIGHT, RIGHT: LEFT}
# Points of the left answer, from 0 to 1. "Both bad" prefers neither side and has none.
PREFERENCES = {LEFT: 1.0, TIE: 0.5, RIGHT: 0.0}
VOTES_IN_A_ROUND = 10  # of a rater, who then sees what they moved
VOTES_PER_CANDIDATE = 10  # on average; fewer make no ranking
# As choices to vote for, and as verdicts in a sentence.
LABELS = {
    LEFT: "Left is better",
    RIGHT: "Right is better",
    TIE: "Tie",
    BOTH_BAD: "Both are bad",
}
VERDICTS = {
    LEFT: "Left answer is better",
    RIGHT: "Right answer is better",
    TIE: "Tie",
    BOTH_BAD: "Both are bad",
}


def choices() -> list[tuple[str, str]]:
    """Return the outcomes as choices of a field; migrations refer to this function by name."""
    return list(LABELS.items())


def mirror(outcome: str) -> str:
    """Return the same outcome with left and right exchanged."""
    return MIRRORED[outcome]


def outcome_of_lead(lead: float, *, tolerance: float = 0.0) -> str:
    """Return the outcome for the left answer's lead; a lead within `tolerance` is a tie."""
    if abs(lead) <= tolerance:
        return TIE
    return LEFT if lead > 0 else RIGHT


class Uncounted(StrEnum):
    """Why a vote that is not voided does not count.

    The log signs numbers in this order, so a new reason comes last.
    """

    RUSHED = "rushed"
    CHANNEL = "channel"
    NAMED = "named"
    TIER = "tier"
    HELD = "held"
    REPEAT = "repeat"
    CHOSEN = "chosen"


MERGED = (
    "merged"  # of a vote between candidates that are one now: no vote's own, and not in the log
)
# Of one vote; and of several, after "12 votes", in the order in which pages list them.
UNCOUNTED_LABELS = {
    Uncounted.RUSHED: "Cast faster than anyone can read",
    Uncounted.CHANNEL: "Cast with a team's token",
    Uncounted.NAMED: "An answer reveals its author",
    Uncounted.TIER: "Its rater’s votes do not count here",
    Uncounted.HELD: "Held for review",
    Uncounted.REPEAT: "Asked twice",
    Uncounted.CHOSEN: "Its rater chose the pair",
}
UNCOUNTED_VOTES: dict[str, str] = {
    Uncounted.HELD: "held for review",
    Uncounted.NAMED: "on pairs in which an answer reveals its author",
    Uncounted.RUSHED: "cast faster than anyone can read",
    Uncounted.TIER: "by raters whose votes do not count here",
    Uncounted.CHANNEL: "cast by programs with the team’s token",
    Uncounted.REPEAT: "cast on pairs asked twice, to measure raters’ agreement with themselves",
    Uncounted.CHOSEN: "on pairs that their raters chose, perhaps knowing the names",
    MERGED: "between candidates that were merged",
}
