"""Votes as rows that leave the house: who won, and nothing that names a person."""

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet
from django.utils.crypto import salted_hmac

from arena.api.reading import Reader
from arena.models import Rater, Vote
from arena.models.voting import VoteQuerySet

PEOPLE = Rater.Kind.PERSON
NAME_LENGTH = 16
AT_ONCE = 1000
CANDIDATE = ("name", "version", "disclosed_at")
READ = (
    "arena",
    "comparison",
    "outcome",
    "preference",
    "cast_at",
    "rater",
    "rater__kind",
    "rater__name",
    "comparison__key",
    "comparison__prompt",
    "comparison__prompt__external_id",
    "comparison__prompt__category",
    "comparison__left",
    "comparison__right",
    *(f"comparison__left__{name}" for name in CANDIDATE),
    *(f"comparison__right__{name}" for name in CANDIDATE),
)
SIDES = ("left", "right")
TEXTS = (
    "comparison__prompt__text",
    *(f"comparison__{side}__team" for side in SIDES),
    *(f"comparison__{side}_response__text" for side in SIDES),
)
COLUMNS = (
    "comparison",
    "prompt",
    "category",
    "left_id",
    "left",
    "right_id",
    "right",
    "outcome",
    "preference",
    "rater_kind",
    "rater",
    "cast_at",
)


def with_battles(votes: VoteQuerySet) -> VoteQuerySet:
    """Read with each vote all that its row says, and no text."""
    joined = votes.select_related(
        "rater", "comparison__prompt", "comparison__left", "comparison__right"
    )
    return joined.only(*READ)


def with_texts(votes: VoteQuerySet) -> VoteQuerySet:
    """Read besides what was asked and answered, and whose the candidates are."""
    joined = with_battles(votes).select_related(
        "comparison__left_response", "comparison__right_response"
    )
    return joined.only(*READ, *TEXTS)


def battle(vote: Vote) -> dict[str, Any]:
    """Return a vote as a row. Where it is not known which prompt it was, there is null."""
    shown = vote.comparison
    prompt = shown.prompt
    return {
        "comparison": str(shown.key),
        "prompt": prompt.external_id if prompt else None,
        "category": prompt.category if prompt else "",
        "left_id": shown.left_id,
        "left": str(shown.left),
        "right_id": shown.right_id,
        "right": str(shown.right),
        "outcome": vote.outcome,
        "preference": vote.preference,
        "rater_kind": vote.rater.kind,
        "rater": rater_name(vote),
        "cast_at": vote.cast_at.isoformat(),
    }


def texts_of(vote: Vote, reader: Reader) -> dict[str, str | None]:
    """Return the prompt and both answers; null is what is not known here, or not `reader`'s to see:
    what a candidate answered that is not disclosed yet."""
    shown = vote.comparison
    sides = ((shown.left, shown.left_response), (shown.right, shown.right_response))
    left, right = (
        response.text if response and reader.knows(candidate) else None
        for candidate, response in sides
    )
    return {"prompt": shown.prompt.text if shown.prompt else None, "left": left, "right": right}


def rater_name(vote: Vote) -> str:
    """Return the name of a judge or a jury; a person has another pseudonym in each arena.

    It stays the same from page to page and from export to export, and leads back to nobody.
    """
    if vote.rater.kind != PEOPLE:
        return str(vote.rater)
    who = salted_hmac("ringside.rater", f"{vote.arena_id}:{vote.rater_id}", algorithm="sha256")
    return f"rater-{who.hexdigest()[:NAME_LENGTH]}"


def one_by_one(rows: QuerySet[Any]) -> Iterator[Any]:
    """Yield all rows by id, reading a thousand at a time.

    No cursor stays open while a client is slow, and the first rows come at once.
    """
    last = 0
    while batch := list(rows.filter(pk__gt=last).order_by("pk")[:AT_ONCE]):
        yield from batch
        last = batch[-1].pk
