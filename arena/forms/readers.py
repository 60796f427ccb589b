"""Who may read a candidate's prompts, said where they are typed in."""

from datetime import UTC, datetime

from arena.models import Arena

_WHO = {
    Arena.Visibility.PUBLIC: "In this public arena everybody can read",
    Arena.Visibility.UNLISTED: "In this unlisted arena everybody who has a link can read",
    Arena.Visibility.PRIVATE: "In this private arena its team alone can read",
}


def who_reads(arena: Arena, what: str, when: str = "") -> str:
    """Say who can read `what`, and from when on."""
    if arena.visibility == Arena.Visibility.PRIVATE:
        return f"{_WHO[Arena.Visibility.PRIVATE]} {what}."
    when = when or "at once, or as soon as the candidate is no longer hidden"
    return f"{_WHO[Arena.Visibility(arena.visibility)]} {what}: {when}."


def from_when(votes: int | None, until: datetime | None) -> str:
    """Say when a candidate that is hidden by this rule is hidden no more."""
    counted = "" if votes is None else f"once the candidate has {votes:,} vote{'s'[: votes != 1]}"
    if until is None:
        return counted or "at once"
    day = until.astimezone(UTC)
    dated = f"from {day.day} {day:%B %Y} on"
    return f"{counted}, or {dated}, whichever comes first" if counted else dated
