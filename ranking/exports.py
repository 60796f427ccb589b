"""Exports of votes and preferences, without anything that identifies a person.

Every export is rows with named columns, written as CSV, JSON Lines or Parquet while they are read.
"""

import csv
import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from typing import Any

from django.db.models import Count, Max, Min, QuerySet
from django.db.models.fields.json import KT
from django.template.loader import render_to_string
from django.utils.crypto import salted_hmac

from arena.actors import Actor
from arena.models import Arena, Outcome, Prompt, Rater, Response, Vote
from arena.models.voting import VoteQuerySet
from arena.permissions import FieldVisibility
from arena.services.exports import network_number
from arena.validation import escape_cells
from ranking.models import Counted, Snapshot

PEOPLE = Rater.Kind.PERSON
NAME_LENGTH = 16
AT_ONCE = 1000
LINES_AT_ONCE = 500
PROMPTS_AT_ONCE, PAIRS_AT_ONCE = 50, 20_000
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
    "rater__user",
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
Row = Mapping[str, Any]
Columns = Mapping[str, str]
Votes = Counter[tuple[int, int]]


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
        "comparison": str(comparison.key),
        "prompt": prompt.external_id if prompt else None,
        "category": prompt.category if prompt else "",
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
        response.text if response and reader.reads_answer(candidate, prompt, vote.rater) else None
        for candidate, response in sides
    )
    return {"prompt": prompt.text if prompt else None, "left": left, "right": right}


def rater_name(vote: Vote) -> str:
    """The name of a judge or a jury; for a person, a pseudonym that differs between arenas.

    It is stable across pages and exports, and cannot be traced back to the person.
    """
    if vote.rater.kind != PEOPLE:
        return str(vote.rater)
    digest = salted_hmac("ringside.rater", f"{vote.arena_id}:{vote.rater_id}", algorithm="sha256")
    return f"rater-{digest.hexdigest()[:NAME_LENGTH]}"


def one_by_one(rows: QuerySet[Any]) -> Iterator[Any]:
    """Yield all rows by id, reading a thousand at a time.

    No cursor stays open while a client is slow, and the first rows arrive at once.
    """
    last = 0
    while batch := list(rows.filter(pk__gt=last).order_by("pk")[:AT_ONCE]):
        yield from batch
        last = batch[-1].pk


# -- Rows ------------------------------------------------------------------------------------------


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
        if not reader.reads_answer(candidate, comparison.prompt, vote.rater):
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
    "rater_kind": "name",  # only in our files: a jury's votes stay a jury's when they are imported
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
            "question_id": str(own_id or comparison.key),
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
        }


Chat = list[dict[str, str]]


def _conversation(asked: Chat | None, response: Response | None, text: str | None) -> Chat | None:
    """A prompt and an answer to it; None if its text is unknown, or hidden."""
    if asked is None or response is None or text is None:
        return None
    return [*_before(asked, answer_of(response)), *answer_of(response)]


def _before(asked: Chat, answer: Chat) -> Chat:
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


# -- Preferences, for training ---------------------------------------------------------------------

PREFERENCES = {
    "prompt": "text",
    "chosen": "text",
    "rejected": "text",
    "prompt_id": "name",
    "category": "name",
    "chosen_candidate": "name",
    "rejected_candidate": "name",
    "votes_for": "integer",
    "votes_against": "integer",
    "decided_by": "name",
}
CHATS = PREFERENCES | dict.fromkeys(("prompt", "chosen", "rejected"), "messages")
# Whose votes decide, in this order.
DECIDED_BY = {
    "people": [Rater.Kind.PERSON],
    "juries": [Rater.Kind.JURY],
    "both": [Rater.Kind.PERSON, Rater.Kind.JURY],
}
KIND_NAMES = {Rater.Kind.PERSON: "people", Rater.Kind.JURY: "juries"}


def readable_prompts(arena: Arena, actor: Actor, size: int) -> Iterator[dict[int, Prompt]]:
    """Yield the prompts, by id and a few at a time, whose answers' authors `actor` may know."""
    reader = FieldVisibility(actor, arena)
    for prompts in batches(one_by_one(arena.prompts.revealed().defer("html")), size):
        yield {prompt.pk: prompt for prompt in prompts if reader.reads_authors(prompt)}


def preferences(
    arena: Arena, actor: Actor, raters: str = "people", *, as_chats: bool = False
) -> Iterator[Row]:
    """Yield, for each prompt and two answers to it, which one more raters preferred.

    Only decisive votes count; if they are level, there is no row. With "both", juries decide if
    people do not. Answers of undisclosed candidates, and those whose authors `actor` may not know,
    are left out.
    """
    n_pairs = arena.candidates.count() ** 2
    size = min(PROMPTS_AT_ONCE, PAIRS_AT_ONCE // n_pairs + 1) if n_pairs else 1
    for prompts in readable_prompts(arena, actor, size):
        decided: set[frozenset[int]] = set()
        for kind in DECIDED_BY[raters]:
            votes = count_preferences(arena, prompts, kind)
            pairs = [pair for pair, n in votes.items() if n > votes[pair[::-1]]]
            pairs = [pair for pair in pairs if frozenset(pair) not in decided]
            decided |= {frozenset(pair) for pair in pairs}
            for prompt, chosen, rejected in _texts_of_pairs(prompts, pairs):
                pair = chosen.pk, rejected.pk
                yield {
                    "prompt": _before(asked_of(prompt), answer_of(chosen))
                    if as_chats
                    else prompt.text,
                    "chosen": answer_of(chosen) if as_chats else chosen.text,
                    "rejected": answer_of(rejected) if as_chats else rejected.text,
                    "prompt_id": prompt.external_id,
                    "category": prompt.category,
                    "chosen_candidate": str(chosen.candidate),
                    "rejected_candidate": str(rejected.candidate),
                    "votes_for": votes[pair],
                    "votes_against": votes[pair[::-1]],
                    "decided_by": KIND_NAMES[kind],
                }


def chat_preferences(arena: Arena, actor: Actor, raters: str = "people") -> Iterator[Row]:
    """Yield preferences whose texts are messages of a chat."""
    return preferences(arena, actor, raters, as_chats=True)


def _texts_of_pairs(
    prompts: Mapping[int, Prompt], pairs: Iterable[tuple[int, int]]
) -> Iterator[tuple[Prompt, Response, Response]]:
    ids = {response for pair in pairs for response in pair}
    texts = Response.objects.select_related("candidate").defer("html").in_bulk(sorted(ids))
    for better, worse in sorted(pairs):
        yield prompts[texts[better].prompt_id], texts[better], texts[worse]


def count_preferences(arena: Arena, prompts: Mapping[int, Prompt], kind: str) -> Votes:
    """How often raters of a kind preferred one answer to another, by (preferred id, other id)."""
    rows = (
        arena.votes.live()
        .filter(
            rater__kind=kind,
            outcome__in=[Outcome.LEFT, Outcome.RIGHT],
            comparison__prompt__in=list(prompts),
            comparison__left_response__isnull=False,
            comparison__left__disclosed_at__isnull=False,
            comparison__right__disclosed_at__isnull=False,
        )
        .values_list("comparison__left_response", "comparison__right_response", "outcome")
        .annotate(n=Count("pk"))
        .order_by()
    )
    counted: Votes = Counter()
    for left, right, outcome, n in rows:
        counted[(left, right) if outcome == Outcome.LEFT else (right, left)] += n
    return counted


# -- Streamed files, in constant memory ------------------------------------------------------------

# Of a Parquet file a group is held in memory, and 25 kB about each group until the file is closed.
ROWS_IN_GROUP, BYTES_IN_GROUP = 20_000, 8_000_000


class _Chunks(io.RawIOBase):
    """Keeps what is written to it until it is taken out."""

    def __init__(self) -> None:
        super().__init__()
        self._chunks: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._chunks.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        taken = b"".join(self._chunks)
        self._chunks.clear()
        return taken


def as_jsonl(rows: Iterable[Row], columns: Columns | None = None) -> Iterator[bytes]:
    """Yield rows as lines of JSON, many at a time."""
    for batch in batches(rows, LINES_AT_ONCE):
        yield "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in batch).encode()


def as_csv(rows: Iterable[Row], columns: Columns = COLUMNS) -> Iterator[bytes]:
    """Yield rows as CSV with a header line: messages as JSON, and no text that a spreadsheet would
    run as a formula."""
    yield _csv_lines([columns])
    for batch in batches(rows, LINES_AT_ONCE):
        yield _csv_lines(escape_cells(_cell(row[name]) for name in columns) for row in batch)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _csv_lines(rows: Iterable[Iterable[Any]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def as_parquet(rows: Iterable[Row], columns: Columns) -> Iterator[bytes]:
    """Yield rows as a Parquet file, a group of rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    types = {
        "name": pa.string(),
        "text": pa.large_string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "flag": pa.bool_(),
        "messages": pa.list_(message),
    }
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    chunks = _Chunks()
    with pq.ParquetWriter(pa.PythonFile(chunks, mode="w"), schema, compression="zstd") as file:
        group: list[Any] = []
        for batch in batches(rows, AT_ONCE):
            group.append(pa.RecordBatch.from_pylist(batch, schema=schema))
            n_bytes = sum(part.nbytes for part in group)
            if len(group) * AT_ONCE >= ROWS_IN_GROUP or n_bytes >= BYTES_IN_GROUP:
                file.write_table(pa.Table.from_batches(group))
                group.clear()
                yield chunks.take()
        if group:
            file.write_table(pa.Table.from_batches(group))
    yield chunks.take()


def as_zip(members: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[bytes]:
    """Yield a zip archive of these members, each written while it is read."""
    chunks = _Chunks()
    with zipfile.ZipFile(chunks, "w") as archive:
        for name, content in members:
            with archive.open(name, "w", force_zip64=True) as member:
                for chunk in content:
                    member.write(chunk)
                    yield chunks.take()
    yield chunks.take()


def batches(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    source = iter(rows)
    while batch := list(islice(source, size)):
        yield batch


# -- Files, by name --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Export:
    """Rows that can be exported; `takes_raters`: the caller chooses whose votes decide."""

    columns: Columns
    rows: Callable[..., Iterable[Row]]
    formats: Sequence[str] = ("jsonl", "parquet")
    takes_raters: bool = False


CSV, JSONL, PARQUET, ZIP = (
    *("text/csv", "application/jsonl"),
    *("application/vnd.apache.parquet", "application/zip"),
)
FORMATS = {"csv": (as_csv, CSV), "jsonl": (as_jsonl, JSONL), "parquet": (as_parquet, PARQUET)}
EXPORTS = {
    "battles": Export(ALL_VOTES, battles, tuple(FORMATS)),
    "lmarena": Export(LMARENA, lmarena_battles, tuple(FORMATS)),
    "dpo": Export(PREFERENCES, preferences, takes_raters=True),
    "dpo-messages": Export(CHATS, chat_preferences, takes_raters=True),
}
DATASET = "dataset.zip"


def file_names(exports: Mapping[str, Export]) -> list[str]:
    return [f"{name}.{ending}" for name, export in exports.items() for ending in export.formats]


def write_file(
    export: Export, ending: str, arena: Arena, actor: Actor, raters: str = "people"
) -> Iterator[bytes]:
    """Yield an export as a file, as much of it as `actor` may read."""
    return FORMATS[ending][0](rows_of(export, arena, actor, raters), export.columns)


def rows_of(export: Export, arena: Arena, actor: Actor, raters: str) -> Iterator[Row]:
    return iter(export.rows(arena, actor, **({"raters": raters} if export.takes_raters else {})))


def write_dataset(arena: Arena, actor: Actor) -> Iterator[bytes]:
    """Yield a dataset folder for the Hugging Face Hub as a zip: a card, and Parquet files."""
    return as_zip(_members(arena, actor))


def _members(arena: Arena, actor: Actor) -> Iterator[tuple[str, Iterable[bytes]]]:
    """The tables that have rows, and last the card that describes them."""
    configs = []
    for name, export in EXPORTS.items():
        if name == "dpo":  # `dpo-messages` has the same rows
            continue
        rows = rows_of(export, arena, actor, "both")
        if (first := next(rows, None)) is not None:
            configs.append(name)
            yield f"data/{name}.parquet", as_parquet(chain([first], rows), export.columns)
    yield "README.md", [dataset_card(arena, configs).encode()]


SIZES = {
    10**3: "n<1K",
    10**4: "1K<n<10K",
    10**5: "10K<n<100K",
    10**6: "100K<n<1M",
    10**7: "1M<n<10M",
}


def dataset_card(arena: Arena, configs: Sequence[str]) -> str:
    """The card of a dataset with these tables: what it holds, and how it is loaded."""
    votes = arena.votes.live()
    counts = dict(votes.order_by().values_list("rater__kind").annotate(n=Count("pk")))
    n_votes = sum(counts.values())
    size = next((size for most, size in SIZES.items() if n_votes < most), "10M<n<100M")
    candidates = arena.candidates.revealed().order_by("name", "version", "pk")
    context = {
        "arena": arena,
        "title": json.dumps(arena.name, ensure_ascii=False),
        "size": size,
        "configs": configs,
        "n_votes": n_votes,
        "counts": {str(Rater.Kind(kind).label): n for kind, n in sorted(counts.items())},
        "n_prompts": arena.prompts.revealed().count(),
        "candidates": [str(candidate) for candidate in candidates],
        **votes.aggregate(first=Min("cast_at"), last=Max("cast_at")),
    }
    return render_to_string("ranking/dataset_card.md", context)
