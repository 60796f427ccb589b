"""Exports of votes and preferences, without anything that identifies a person."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from django.db.models import Count, QuerySet
from django.http import StreamingHttpResponse
from django.utils.crypto import salted_hmac
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request

from arena.actors import ANONYMOUS, Actor, TeamPermission, can_read_authors
from arena.api.core.serializers import FieldVisibility
from arena.api.core.views import ArenaEndpoint
from arena.models import Arena, Outcome, Prompt, Rater, Response, Vote
from arena.models.voting import VoteQuerySet
from ranking.log_file import as_jsonl as log_as_jsonl
from ranking.log_file import write_lines
from ranking.results import escape_cells

CSV, JSONL = "text/csv", "application/jsonl"
BATTLES = "The votes that count, in the order in which they were cast. People have pseudonyms."
PREFERENCES = (
    "For each prompt and two answers to it, the one that more people preferred is `chosen`. Ties "
    "and “both bad” count for neither, and where preferences are level there is no line. LLM-judge "
    "votes do not count, and candidates that are not disclosed yet are left out. Unless the "
    "arena's answers are open, everybody but its team gets archived prompts only: whoever knows "
    "the authors cannot vote blind."
)
BATTLES_CSV_EXAMPLE = (
    "comparison,prompt,category,left_id,left,right_id,right,outcome,preference,rater_kind,rater,"
    "cast_at\r\n"
)
BATTLES_JSONL_EXAMPLE = '{"prompt": "p-7", "left": "short-answers", "outcome": "left"}\n'
PREFERENCES_EXAMPLE = '{"prompt": "May I return it?", "chosen": "Yes.", "rejected": "No."}\n'
LOG_EXAMPLE = '{"type": "vote", "id": 7, "outcome": "left", "counts": true}\n'
Decorator = Callable[[Callable[..., StreamingHttpResponse]], Any]
PEOPLE = Rater.Kind.PERSON
NAME_LENGTH = 16
AT_ONCE = 1000
LINES_AT_ONCE = 500
PROMPTS_AT_ONCE = 50
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
    "comparison__prompt__retired_at",
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
Row = Mapping[str, Any]
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
    named = reader.reads_authors(prompt, vote.rater)
    left, right = (
        response.text
        if response and reader.knows(candidate) and (named or reader.is_of_team(candidate))
        else None
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


# -- Streamed files, in constant memory ------------------------------------------------------------


def battles(arena: Arena) -> Iterator[Row]:
    """Yield the votes that count, in the order in which they were cast."""
    return map(battle, one_by_one(with_battles(arena.votes.live())))


def as_jsonl(rows: Iterable[Row]) -> Iterator[str]:
    """Yield rows as lines of JSON, many at a time."""
    for batch in _batches(rows, LINES_AT_ONCE):
        yield "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in batch)


def as_csv(rows: Iterable[Row]) -> Iterator[str]:
    """Yield battles as CSV with a header line, and texts that spreadsheets do not run."""
    yield _csv_lines([COLUMNS])
    for batch in _batches(rows, LINES_AT_ONCE):
        yield _csv_lines(escape_cells(row[name] for name in COLUMNS) for row in batch)


def _csv_lines(rows: Iterable[Iterable[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def _batches(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    source = iter(rows)
    while batch := list(islice(source, size)):
        yield batch


# -- Preferences, for training ---------------------------------------------------------------------


def preferences(arena: Arena, actor: Actor) -> Iterator[Row]:
    """Yield, for each prompt and two answers to it, which one more people preferred.

    Only decisive human votes count; if they are level, there is no row. Answers of undisclosed
    candidates, and those whose authors `actor` may not know, are left out.
    """
    of_team = actor.may(TeamPermission.READ, arena.team_id)
    for prompts in _batches(one_by_one(arena.prompts.revealed().defer("html")), PROMPTS_AT_ONCE):
        readable = {
            prompt.pk: prompt
            for prompt in prompts
            if of_team or can_read_authors(ANONYMOUS, arena, prompt)
        }
        yield from _preferences_on(arena, readable)


def _preferences_on(arena: Arena, prompts: Mapping[int, Prompt]) -> Iterator[Row]:
    votes = _count_preferences(arena, prompts)
    chosen = [pair for pair, n in votes.items() if n > votes[pair[::-1]]]
    ids = {response for pair in chosen for response in pair}
    texts = Response.objects.select_related("candidate").defer("html").in_bulk(sorted(ids))
    for better, worse in sorted(chosen):
        chosen_response, rejected_response = texts[better], texts[worse]
        prompt = prompts[chosen_response.prompt_id]
        yield {
            "prompt": prompt.text,
            "chosen": chosen_response.text,
            "rejected": rejected_response.text,
            "prompt_id": prompt.external_id,
            "category": prompt.category,
            "chosen_candidate": str(chosen_response.candidate),
            "rejected_candidate": str(rejected_response.candidate),
            "votes_for": votes[better, worse],
            "votes_against": votes[worse, better],
        }


def _count_preferences(arena: Arena, prompts: Mapping[int, Prompt]) -> Votes:
    """How often people preferred one answer to another, by (preferred id, other id)."""
    rows = (
        arena.votes.live()
        .of_people()
        .filter(
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


# -- Endpoints -------------------------------------------------------------------------------------


class FixedFormat(BaseContentNegotiation):
    """The address determines the format, whatever the client accepts; errors are JSON."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class Export(ArenaEndpoint):
    tag = "Exports"
    content_negotiation_class = FixedFormat

    def send(
        self, name: str, content_type: str, write: Callable[[], Iterator[str]]
    ) -> StreamingHttpResponse:
        """Stream what `write` yields as a download named after the arena."""
        slug = self.arena.slug  # a 404 must come before the first byte
        lines = iter(()) if self.request.method == "HEAD" else write()
        response = StreamingHttpResponse(lines, content_type=f"{content_type}; charset=utf-8")
        response.headers["Content-Disposition"] = f'attachment; filename="{slug}-{name}"'
        return response


def _streamed(
    operation_id: str, summary: str, content_type: str, description: str, example: str
) -> Decorator:
    """Describe a method that answers with a text file."""
    examples = [OpenApiExample("An answer", value=example, response_only=True)]
    answer = OpenApiResponse(str, description="", examples=examples)
    decorator: Decorator = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=description,
        responses={(200, content_type): answer},
    )
    return decorator


class BattlesCsv(Export):
    @_streamed("export_battles_csv", "Export the votes as CSV", CSV, BATTLES, BATTLES_CSV_EXAMPLE)
    def get(self, request: Request, slug: str) -> StreamingHttpResponse:
        return self.send("battles.csv", CSV, lambda: as_csv(battles(self.arena)))


class BattlesJsonl(Export):
    @_streamed(
        "export_battles_jsonl",
        "Export the votes as JSON lines",
        JSONL,
        BATTLES,
        BATTLES_JSONL_EXAMPLE,
    )
    def get(self, request: Request, slug: str) -> StreamingHttpResponse:
        return self.send("battles.jsonl", JSONL, lambda: as_jsonl(battles(self.arena)))


class Preferences(Export):
    @_streamed(
        "export_preferences",
        "Export human preferences for training (DPO)",
        JSONL,
        PREFERENCES,
        PREFERENCES_EXAMPLE,
    )
    def get(self, request: Request, slug: str) -> StreamingHttpResponse:
        return self.send("dpo.jsonl", JSONL, lambda: as_jsonl(preferences(self.arena, self.actor)))


class LogOfVotes(Export):
    @_streamed(
        "export_log",
        "Export the signed log of votes",
        JSONL,
        "Every vote that counts or did, link by link, with the published leaderboards. "
        "`manage.py verify FILE` checks it offline, and fits the leaderboards again.",
        LOG_EXAMPLE,
    )
    def get(self, request: Request, slug: str) -> StreamingHttpResponse:
        return self.send("log.jsonl", JSONL, lambda: log_as_jsonl(write_lines(self.arena)))
