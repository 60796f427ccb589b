"""The files of an arena in the API."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    inline_serializer,
)
from rest_framework import serializers
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request

from arena.actors import TeamPermission
from arena.api.core.errors import BadParameter, Conflict, Unprocessable
from arena.api.core.parameters import check_names
from arena.api.core.views import ArenaEndpoint
from arena.files.copies import HAS_PYARROW, NEEDS_PYARROW
from arena.outcomes import Uncounted
from arena.permissions import is_blind
from arena.site import absolute_url
from ranking.exports import (
    CSV,
    DATASET,
    EXPORTS,
    HTML,
    JSONL,
    PARQUET,
    PROMPT_SETS,
    ZIP,
    export_kinds,
    file_names,
    named,
)
from ranking.models import Audience, ExportFile
from ranking.preferences import DECIDED_BY
from ranking.services import exports
from ranking.stored_files import OUTDATED, send_stored

LEFT_OUT = "`, `".join(Uncounted)
BATTLES = (
    "All votes, in the order they were cast. People have pseudonyms. `state` says whether a vote "
    "counts: `counted`; `capped`, which counts less, because its rater or network has reached "
    f"its share; `voided`; or why it is left out (`{LEFT_OUT}`). `channel` and `seconds` say how "
    "it was cast; `network` is a number for the network, which means nothing outside the arena. "
    "The style of an answer is null where its author is not shown: otherwise, counting the words "
    "on a ballot would reveal who wrote it."
)
PREFERENCES = (
    "For each prompt and two answers to it, `chosen` is the one that more raters preferred: "
    "people by default; juries with `raters=juries`; with `both`, juries where people do not "
    "decide. Ties and “both bad” count for neither, and an even split yields no line. Single "
    "judges' votes do not count, and candidates that are not disclosed yet are left out. Unless "
    "the arena's answers are open, everyone outside its team gets only archived prompts: anyone "
    "who knows the authors cannot vote blind."
)
FILES = (
    "`battles`: all votes, with their state. `lmarena`: those that count, in the columns of "
    "LMArena's published votes, with conversations where you may know who wrote the answers. "
    "`dpo`: preferences for training, and `dpo-messages` the same as chat messages. "
    "`dataset.zip`: a dataset folder for the Hugging Face Hub, with its card and Parquet files."
)
BEING_BUILT = (
    "The file is large and being built: request its `address` (also in `Location`) after "
    "`Retry-After` seconds."
)
BUILDING = inline_serializer(
    "ExportProgress",
    {
        "state": serializers.ChoiceField(["waiting", "building"]),
        "rows_done": serializers.IntegerField(),
        "rows_total": serializers.IntegerField(help_text="0 if it is not known yet."),
        "address": serializers.URLField(),
    },
)
RETRY_AFTER = "5"  # seconds: many may wait for the same file
FILE_ADDRESS = "https://arena.example.org/api/v1/arenas/support/exports/files/0b6c…"
IN_PROGRESS = OpenApiResponse(
    BUILDING,
    BEING_BUILT,
    [
        OpenApiExample(
            "In progress",
            {
                "state": "building",
                "rows_done": 7_000,
                "rows_total": 200_000,
                "address": FILE_ADDRESS,
            },
            response_only=True,
        )
    ],
)
BATTLES_CSV_EXAMPLE = ",".join(EXPORTS["battles"].columns) + "\r\n"
BATTLES_JSONL_EXAMPLE = '{"prompt": "p-7", "left": "short-answers", "outcome": "left"}\n'
PREFERENCES_EXAMPLE = '{"prompt": "May I return it?", "chosen": "Yes.", "rejected": "No."}\n'
LMARENA_EXAMPLE = '{"model_a": "short-answers", "model_b": "long", "winner": "model_a"}\n'
LOG_EXAMPLE = '{"type": "vote", "id": 7, "outcome": "left", "verified": false, "counts": true}\n'
RATERS = OpenApiParameter(
    "raters", str, enum=list(DECIDED_BY), description="Whose votes decide; by default people."
)


class FixedFormat(BaseContentNegotiation):
    """The address determines the format, whatever the client accepts; errors are JSON."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class ExportEndpoint(ArenaEndpoint):
    tag = "Exports"
    content_negotiation_class = FixedFormat

    def send_votes(self, file: str) -> HttpResponseBase:
        """Send a file of votes by its name, such as dpo.jsonl, and the parameter `raters`."""
        takes_raters = file.startswith("dpo")
        check_names(self.request, ["raters"] if takes_raters else [])
        raters = self.request.query_params.get("raters", "people")
        if raters not in DECIDED_BY:
            raise BadParameter("raters", f"Must be one of: {', '.join(DECIDED_BY)}.")
        return self.send_kind(named(file, raters))

    def send_kind(self, name: str) -> HttpResponseBase:
        """Send one of the files that are kept, or 202 while it is being built."""
        kind = export_kinds()[name]
        if kind.content_type in (PARQUET, ZIP) and name != "arena.zip" and not HAS_PYARROW:
            raise Unprocessable(NEEDS_PYARROW)
        audience = kind.audience or exports.audience_of(self.actor, self.arena)
        return self.send_kept(exports.request(arena=self.arena, name=name, audience=audience))

    def send_kept(self, file: ExportFile) -> HttpResponseBase:
        if file.state == ExportFile.State.FAILED:
            raise Conflict(file.problem)
        if not file.is_ready:
            return self.send_progress(file)
        slug = self.arena.slug
        response = send_stored(
            self.request._request,
            file,
            content_type=with_charset(export_kinds()[file.name].content_type),
            name=f"{slug}.zip" if file.name == "arena.zip" else f"{slug}-{file.name}",
        )
        is_public = file.audience == Audience.PUBLIC and not self.arena.is_private
        response.headers["Cache-Control"] = "no-cache" if is_public else "private, no-cache"
        return response

    def send_progress(self, file: ExportFile) -> HttpResponseBase:
        """Tell where the file will be: as JSON, or as a page to whoever has followed a link."""
        address = reverse("api_exported_file", args=[self.arena.slug, file.key])
        response: HttpResponseBase
        if "text/html" in self.request.headers.get("Accept", ""):
            context = {"arena": self.arena, "file": file}
            response = render(self.request._request, "ranking/export_started.html", context)
        else:
            progress = {
                "state": file.state,
                "rows_done": file.rows_done,
                "rows_total": file.rows_total,
                "address": absolute_url(address),
            }
            response = JsonResponse(progress)
        response.status_code = HTTPStatus.ACCEPTED
        response.headers["Location"] = address
        response.headers["Retry-After"] = RETRY_AFTER
        return response


def with_charset(content_type: str) -> str:
    is_text = content_type in (CSV, JSONL, HTML)
    return f"{content_type}; charset=utf-8" if is_text else content_type


def named_file(names: list[str]) -> OpenApiParameter:
    says = "The file's name determines the content and the format."
    return OpenApiParameter("file", str, OpenApiParameter.PATH, enum=names, description=says)


def streamed(
    operation_id: str,
    summary: str,
    content_types: str,
    description: str,
    example: str,
    parameters: list[OpenApiParameter] | None = None,
) -> Callable[[Callable[..., HttpResponseBase]], Any]:
    """Describe a method that answers with a file, of the types that are separated by commas."""
    answers: dict[Any, Any] = {202: IN_PROGRESS}
    for media_type in content_types.split(","):
        is_text = media_type in (CSV, JSONL, HTML)
        value = example if is_text else "The bytes of the file."
        answers[200, media_type] = OpenApiResponse(
            str if is_text else OpenApiTypes.BINARY,
            description="",
            examples=[OpenApiExample("An answer", value=value, response_only=True)],
        )
    decorator: Callable[[Callable[..., HttpResponseBase]], Any] = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=description,
        parameters=parameters,
        responses=answers,
    )
    return decorator


class BattlesCsv(ExportEndpoint):
    @streamed("export_battles_csv", "Export the votes as CSV", CSV, BATTLES, BATTLES_CSV_EXAMPLE)
    def get(self, request: Request, slug: str) -> HttpResponseBase:
        return self.send_votes("battles.csv")


class BattlesJsonl(ExportEndpoint):
    @streamed(
        "export_battles_jsonl",
        "Export the votes as JSON lines",
        JSONL,
        BATTLES,
        BATTLES_JSONL_EXAMPLE,
    )
    def get(self, request: Request, slug: str) -> HttpResponseBase:
        return self.send_votes("battles.jsonl")


class Preferences(ExportEndpoint):
    @streamed(
        "export_preferences",
        "Export preferences for training (DPO)",
        JSONL,
        PREFERENCES,
        PREFERENCES_EXAMPLE,
        [RATERS],
    )
    def get(self, request: Request, slug: str) -> HttpResponseBase:
        return self.send_votes("dpo.jsonl")


class LogOfVotes(ExportEndpoint):
    @streamed(
        "export_log",
        "Export the signed vote log",
        JSONL,
        "Every vote that counts or once counted, link by link, with the published leaderboards. "
        "`manage.py verify FILE` checks it offline and refits the leaderboards.",
        LOG_EXAMPLE,
    )
    def get(self, request: Request, slug: str) -> HttpResponseBase:
        return self.send_kind("log.jsonl")


class LeaderboardCopy(ExportEndpoint):
    @streamed(
        "export_leaderboard",
        "Export the leaderboard of all human votes as one HTML file",
        HTML,
        "It works offline, refits the scores from the votes it contains, and shows the head of "
        "the signed log. Above 100,000 votes, it contains counts per pair instead.",
        "<!DOCTYPE html>",
    )
    def get(self, request: Request, slug: str) -> HttpResponseBase:
        return self.send_kind("leaderboard.html")


class OtherFile(ExportEndpoint):
    @streamed(
        "export_file",
        "Export votes, preferences or a dataset as a file",
        ",".join([JSONL, CSV, PARQUET, ZIP]),
        FILES,
        LMARENA_EXAMPLE,
        [
            named_file([*file_names(EXPORTS), DATASET]),
            RATERS,
        ],
    )
    def get(self, request: Request, slug: str, file: str) -> HttpResponseBase:
        return self.send_votes(file)


class WholeArena(ExportEndpoint):
    is_open = False

    @streamed(
        "export_arena",
        "Export the whole arena as a zip file",
        ZIP,
        "Settings, prompts, candidates, answers and all votes, in Ringside's own format: another "
        "Ringside imports it as the same arena. Only owners of the team get it, signed in, because "
        "no token can do what they can.",
        "",
    )
    def get(self, request: Request, slug: str) -> HttpResponseBase:
        self.require(TeamPermission.MANAGE, self.arena.team_id)
        if is_blind(self.actor, self.arena):
            raise PermissionDenied("The names are hidden from you until everyone has voted.")
        return self.send_kind("arena.zip")


class ExportedFile(ExportEndpoint):
    @streamed(
        "get_exported_file",
        "Get a file that was requested",
        ",".join([JSONL, CSV, PARQUET, ZIP, HTML]),
        "The address that a large export answers with (status 202). It answers 202 until the file "
        "is there, 409 if it could not be built, and 404 once the file is outdated: then request "
        "the export again.",
        LMARENA_EXAMPLE,
    )
    def get(self, request: Request, slug: str, key: UUID) -> HttpResponseBase:
        file = exports.find(actor=self.actor, arena=self.arena, key=key)
        if file is None:
            raise Http404(OUTDATED)
        return self.send_kept(file)


class PromptSet(ExportEndpoint):
    is_open = False

    @streamed(
        "export_prompts",
        "Export prompts as the test set of another tool",
        f"{JSONL},{CSV}",
        "`promptfoo-tests`: tests for promptfoo. `langfuse-items`: items of a Langfuse dataset. "
        "Only the arena's team gets them, because they contain references and rubrics.",
        '{"description": "refund-1", "vars": {"prompt": "How long?"}, "assert": []}\n',
        [named_file(file_names(PROMPT_SETS))],
    )
    def get(self, request: Request, slug: str, file: str) -> HttpResponseBase:
        self.require(TeamPermission.READ, self.arena.team_id)
        check_names(request, [])
        return self.send_kind(file)
