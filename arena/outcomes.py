"""The outcomes of a comparison of two answers, their labels and their points.

Votes are counted in columns of this order (`ranking.votes.COUNTS`), so to add a counted outcome,
start there.
"""

LEFT, RIGHT, TIE, BOTH_BAD = "left", "right", "tie", "both_bad"
# In the order of arrays and lists.
OUTCOMES = (LEFT, RIGHT, TIE, BOTH_BAD)
# The outcomes that leaderboards and labels count; any other is only stored and shown.
COUNTED = OUTCOMES
MIRRORED = {outcome: outcome for outcome in OUTCOMES} | {LEFT: RIGHT, RIGHT: LEFT}
# Points of the left answer, from 0 to 1. "Both bad" prefers neither side and has none.
PREFERENCES = {LEFT: 1.0, TIE: 0.5, RIGHT: 0.0}
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
