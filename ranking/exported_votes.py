"""Votes as rows of exports, without anything that identifies a person."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from django.db.models import QuerySet
from django.db.models.fields.json import KT

from arena.actors import Actor
from arena.models import Arena, Outcome, Prompt, Rater, Response, Vote
from arena.models.votes import VoteQuerySet
from arena.permissions import FieldVisibility
from arena.services.exports import network_number
from arena.services.raters import pseudonym
from ranking.models import Counted, Snapshot
from ranking.streamed_files import AT_ONCE, Row

PEOPLE = Rater.Kind.PERSON
CANDIDATE = ("name", "version", "disclosed_at")
READ = (
    "arena",
    "comparison",
    "outcome",
    "preference",
    "cast_at",
    "names_withheld",
    "rater",
    "rater__kind",
    "rater__name",
    "rater__user",
    "comparison__key",
    "comparison__prompt",
    "comparison__prompt__external_id",
    "comparison__prompt__category",
    "comparison__prompt__document",
    "comparison__left",
    "comparison__right",
    *(f"comparison__left__{name}" for name in CANDIDATE),
    *(f"comparison__right__{name}" for name in CANDIDATE),
)
SIDES = ("left", "right")
TEXTS = (
    "comparison__prompt__text",
    "comparison__prompt__messages",
    "comparison__prompt__retired_at",
    *(f"comparison__{side}__team" for side in SIDES),
    *(f"comparison__{side}_response__text" for side in SIDES),
    *(f"comparison__{side}_response__messages" for side in SIDES),
)
# Kinds of columns: "name" is a short text, "text" may be long, "messages" are those of a chat.
COLUMNS = {
    "comparison": "name",
    "prompt": "name",
    "category": "name",
    "document": "name",
    "left_id": "integer",
    "left": "name",
    "right_id": "integer",
    "right": "name",
    "outcome": "name",
    "preference": "number",
    "rater_kind": "name",
    "rater": "name",
    "cast_at": "name",
}
STYLE = ("words", "headings", "list_items", "bold")
# Of all votes: how each came in, whether it counts, and how its answers are written.
ALL_VOTES = {
    **COLUMNS,
    "channel": "name",
    "seconds": "number",
    "network": "integer",
    "state": "name",
    **{f"{side}_{name}": "integer" for side in SIDES for name in STYLE},
}
ORIGIN = ("channel", "seconds", "network", "voided_at", "uncounted")
STYLES = (
    "comparison__prompt__retired_at",
    *(f"comparison__{side}__team" for side in SIDES),
    *(f"comparison__{side}_response__style__{name}" for side in SIDES for name in STYLE),
)


def with_battles(votes: VoteQuerySet) -> VoteQuerySet:
    """Load the columns that rows of votes need, without texts."""
    joined = votes.select_related(
        "rater", "comparison__prompt", "comparison__left", "comparison__right"
    )
    return joined.only(*READ)


def with_texts(votes: VoteQuerySet) -> VoteQuerySet:
    """Load prompts, answers and the candidates' teams too."""
    joined = with_battles(votes).select_related(
        "comparison__left_response", "comparison__right_response"
    )
    return joined.only(*READ, *TEXTS)


def with_styles(votes: VoteQuerySet) -> VoteQuerySet:
    """Load how votes came in, and how their answers are written."""
    joined = with_battles(votes).select_related(
        *(f"comparison__{side}_response__style" for side in SIDES)
    )
    return joined.only(*READ, *ORIGIN, *STYLES)


def battle(vote: Vote) -> dict[str, Any]:
    """A vote as a row; `prompt` is null if unknown."""
    comparison = vote.comparison
    prompt = comparison.prompt
    return {
        "comparison": vote.public_key,
        "prompt": prompt.external_id if prompt else None,
        "category": prompt.category if prompt else "",
        "document": prompt.document if prompt else "",
        "left_id": comparison.left_id,
        "left": str(comparison.left),
        "right_id": comparison.right_id,
        "right": str(comparison.right),
        "outcome": vote.outcome,
        "preference": vote.preference,
        "rater_kind": vote.rater.kind,
        "rater": rater_name(vote),
        "cast_at": vote.cast_at.isoformat(),
    }


def texts_of(vote: Vote, reader: FieldVisibility) -> dict[str, str | None]:
    """The prompt and both answers; null for texts that are not stored, and for answers whose
    authors `reader` may not know."""
    comparison = vote.comparison
    prompt = comparison.prompt
    sides = (
        (comparison.left, comparison.left_response),
        (comparison.right, comparison.right_response),
    )
    left, right = (
        response.text if response and reader.reads_answer(candidate, prompt, vote) else None
        for candidate, response in sides
    )
    return {"prompt": prompt.text if prompt else None, "left": left, "right": right}


def rater_name(vote: Vote) -> str:
    """The name of a judge or a jury, or a person's pseudonym."""
    if vote.rater.kind != PEOPLE:
        return str(vote.rater)
    return pseudonym(arena_id=vote.arena_id, rater_id=vote.rater_id)


def one_by_one(rows: QuerySet[Any]) -> Iterator[Any]:
    """Yield all rows by id, reading a thousand at a time.

    No cursor stays open while a client is slow, and the first rows arrive at once.
    """
    last = 0
    while batch := list(rows.filter(pk__gt=last).order_by("pk")[:AT_ONCE]):
        yield from batch
        last = batch[-1].pk


def battles(arena: Arena, actor: Actor) -> Iterator[Row]:
    """Yield all votes in the order in which they were cast, and whether each of them counts."""
    reader, capped = FieldVisibility(actor, arena), capped_raters(arena)
    for vote in one_by_one(with_styles(arena.votes.cast().listed())):
        row = battle(vote) | origin(vote)
        if row["state"] == "counted" and vote.rater_id in capped:
            row["state"] = "capped"
        yield row | styles_of(vote, reader)


def origin(vote: Vote) -> dict[str, Any]:
    """How a vote came in, and whether it counts."""
    return {
        "channel": vote.channel,
        "seconds": vote.seconds,
        "network": network_number(vote),
        "state": vote.state,
    }


def capped_raters(arena: Arena) -> frozenset[int]:
    """The raters whose votes weigh less on the leaderboard of all human votes."""
    snapshots = Snapshot.objects.current().filter(
        board__arena=arena, board__raters=Counted.PEOPLE, board__category=""
    )
    findings = snapshots.values_list("findings", flat=True).first() or {}
    return frozenset(member for member, _ in findings.get("capped", []))


def styles_of(vote: Vote, reader: FieldVisibility) -> dict[str, int | None]:
    """The style of both answers; null if it is unknown, or would reveal who wrote which."""
    comparison = vote.comparison
    styles: dict[str, int | None] = {}
    for side in SIDES:
        candidate, response = getattr(comparison, side), getattr(comparison, f"{side}_response")
        style = getattr(response, "style", None)
        if not reader.reads_answer(candidate, comparison.prompt, vote):
            style = None
        styles |= {f"{side}_{name}": getattr(style, name, None) for name in STYLE}
    return styles


# The layout of LMArena's published votes (chatbot_arena_conversations).
LMARENA = {
    "question_id": "name",
    "model_a": "name",
    "model_b": "name",
    "winner": "name",
    "judge": "name",
    "conversation_a": "messages",
    "conversation_b": "messages",
    "turn": "integer",
    "anony": "flag",
    "language": "name",
    "tstamp": "number",
    # Only in our files: an import keeps a jury's votes a jury's, and groups as they are.
    "rater_kind": "name",
    "document": "name",
}
WINNERS = {
    Outcome.LEFT: "model_a",
    Outcome.RIGHT: "model_b",
    Outcome.TIE: "tie",
    Outcome.BOTH_BAD: "tie (bothbad)",
}


def lmarena_battles(arena: Arena, actor: Actor) -> Iterator[Row]:
    """Yield the votes that count in LMArena's columns; a conversation is null if `actor` may not
    know who wrote its answer, or if no text is stored.
    """
    reader = FieldVisibility(actor, arena)
    votes = arena.votes.live().listed().filter(outcome__in=WINNERS)
    for vote in one_by_one(with_texts(votes).annotate(question_id=KT("details__question_id"))):
        texts, comparison = texts_of(vote, reader), vote.comparison
        own_id = vote.question_id  # of a file in these columns
        asked = None if comparison.prompt is None else asked_of(comparison.prompt)
        if comparison.prompt and not comparison.left_response_id:  # or its prompt would be lost
            own_id = own_id or comparison.prompt.external_id
        yield {
            "question_id": str(own_id or vote.public_key),
            "model_a": str(vote.comparison.left),
            "model_b": str(vote.comparison.right),
            "winner": WINNERS[vote.outcome],
            "judge": rater_name(vote),
            "conversation_a": _conversation(asked, comparison.left_response, texts["left"]),
            "conversation_b": _conversation(asked, comparison.right_response, texts["right"]),
            "turn": sum(message["role"] == "user" for message in asked or []) or 1,
            "anony": True,
            "language": (comparison.prompt and comparison.prompt.category) or "unknown",
            "tstamp": vote.cast_at.timestamp(),
            "rater_kind": vote.rater.kind,
            "document": comparison.prompt.document if comparison.prompt else "",
        }


Chat = list[dict[str, str]]


def _conversation(asked: Chat | None, response: Response | None, text: str | None) -> Chat | None:
    """A prompt and an answer to it; None if its text is unknown, or hidden."""
    if asked is None or response is None or text is None:
        return None
    return [*messages_before(asked, answer_of(response)), *answer_of(response)]


def messages_before(asked: Chat, answer: Chat) -> Chat:
    """What was asked before the answer, which has the later turns too if it answers them all."""
    turns = list(takewhile(lambda message: message["role"] == "user", reversed(asked)))
    n_later = sum(message["role"] == "user" for message in answer)
    return asked[: len(asked) - min(n_later, len(turns) - 1)] if turns else asked


def asked_of(prompt: Prompt) -> Chat:
    return _plain(prompt.messages) or [{"role": "user", "content": prompt.text}]


def answer_of(response: Response) -> Chat:
    return _plain(response.messages) or assistant(response.text)


def assistant(text: str) -> Chat:
    return [{"role": "assistant", "content": text}]


def _plain(messages: Sequence[Mapping[str, Any]] | None) -> Chat:
    """Messages with only role and content, which every format has."""
    return [{name: message[name] for name in ("role", "content")} for message in messages or ()]
