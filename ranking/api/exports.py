"""The files of an arena in the API."""

from collections.abc import Callable, Iterator
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import FileResponse, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request

from arena.actors import TeamPermission
from arena.api.core.errors import BadParameter, Conflict, Unprocessable
from arena.api.core.parameters import check_names
from arena.api.core.views import ArenaEndpoint
from arena.files.copies import HAS_PYARROW, NEEDS_PYARROW
from arena.outcomes import Uncounted
from arena.permissions import is_blind
from arena.services.exports import ExportError, ExportPlace, open_archive
from ranking.api.votes import HTML
from ranking.exports import (
    CSV,
    DATASET,
    EXPORTS,
    FORMATS,
    JSONL,
    PARQUET,
    ZIP,
    Export,
    file_names,
    write_dataset,
    write_file,
)
from ranking.leaderboard_copy import write_copy
from ranking.log.file import as_jsonl as log_as_jsonl
from ranking.log.file import write_lines
from ranking.preferences import DECIDED_BY
from ranking.prompt_sets import EXPORTS as PROMPT_SETS

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
    "`dataset.zip`: a dataset folder for the Hugging Face Hub, with its card and Parquet files. "
    "All are streamed."
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


class ExportResponse(StreamingHttpResponse):
    """A download that keeps its place until it is sent, fails, or its client hangs up."""

    def __init__(self, write: Callable[[], Iterator[Any]], **about: Any) -> None:
        self.place = ExportPlace()
        try:
            super().__init__(write(), **about)
        except BaseException:
            self.place.close()
            raise

    def close(self) -> None:
        super().close()
        self.place.close()


class ExportEndpoint(ArenaEndpoint):
    tag = "Exports"
    content_negotiation_class = FixedFormat

    def send(
        self, name: str, content_type: str, write: Callable[[], Iterator[Any]]
    ) -> StreamingHttpResponse:
        """Stream what `write` yields as a download named after the arena."""
        slug = self.arena.slug  # a 404 must come before the first byte
        if content_type in (PARQUET, ZIP) and not HAS_PYARROW:
            raise Unprocessable(NEEDS_PYARROW)
        is_text = content_type in (CSV, JSONL, HTML)
        kind = f"{content_type}; charset=utf-8" if is_text else content_type
        response = (
            StreamingHttpResponse((), content_type=kind)
            if self.request.method == "HEAD"
            else ExportResponse(write, content_type=kind)
        )
        response.headers["Content-Disposition"] = f'attachment; filename="{slug}-{name}"'
        return response

    def send_file(self, exports: dict[str, Export], file: str) -> StreamingHttpResponse:
        """Stream one of `exports` by its file's name, such as battles.csv."""
        name, _, ending = file.rpartition(".")
        export, raters = exports[name], self.request.query_params.get("raters", "people")
        check_names(self.request, ["raters"] if export.takes_raters else [])
        if raters not in DECIDED_BY:
            raise BadParameter("raters", f"Must be one of: {', '.join(DECIDED_BY)}.")
        return self.send(
            file if raters == "people" else f"{name}-{raters}.{ending}",
            FORMATS[ending][1],
            lambda: write_file(export, ending, self.arena, self.actor, raters),
        )


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
) -> Callable[[Callable[..., StreamingHttpResponse]], Any]:
    """Describe a method that answers with a file, of the types that are separated by commas."""
    answers = {}
    for media_type in content_types.split(","):
        is_text = media_type in (CSV, JSONL, HTML)
        value = example if is_text else "The bytes of the file."
        answers[200, media_type] = OpenApiResponse(
            str if is_text else OpenApiTypes.BINARY,
            description="",
            examples=[OpenApiExample("An answer", value=value, response_only=True)],
        )
    decorator: Callable[[Callable[..., StreamingHttpResponse]], Any] = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=description,
        parameters=parameters,
        responses=answers,
    )
    return decorator


class BattlesCsv(ExportEndpoint):
    @streamed("export_battles_csv", "Export the votes as CSV", CSV, BATTLES, BATTLES_CSV_EXAMPLE)
    def get(self, request: Request, slug: str) -> StreamingHttpResponse:
        return self.send_file(EXPORTS, "battles.csv")


class BattlesJsonl(ExportEndpoint):
    @streamed(
        "export_battles_jsonl",
        "Export the votes as JSON lines",
        JSONL,
        BATTLES,
        BATTLES_JSONL_EXAMPLE,
    )
    def get(self, request: Request, slug: str) -> StreamingHttpResponse:
        return self.send_file(EXPORTS, "battles.jsonl")


class Preferences(ExportEndpoint):
    @streamed(
        "export_preferences",
        "Export preferences for training (DPO)",
        JSONL,
        PREFERENCES,
        PREFERENCES_EXAMPLE,
        [RATERS],
    )
    def get(self, request: Request, slug: str) -> StreamingHttpResponse:
        return self.send_file(EXPORTS, "dpo.jsonl")


class LogOfVotes(ExportEndpoint):
    @streamed(
        "export_log",
        "Export the signed vote log",
        JSONL,
        "Every vote that counts or once counted, link by link, with the published leaderboards. "
        "`manage.py verify FILE` checks it offline and refits the leaderboards.",
        LOG_EXAMPLE,
    )
    def get(self, request: Request, slug: str) -> StreamingHttpResponse:
        return self.send("log.jsonl", JSONL, lambda: log_as_jsonl(write_lines(self.arena)))


class LeaderboardCopy(ExportEndpoint):
    @streamed(
        "export_leaderboard",
        "Export the leaderboard of all human votes as one HTML file",
        HTML,
        "It works offline, refits the scores from the votes it contains, and shows the head of "
        "the signed log. Above 100,000 votes, it contains counts per pair instead.",
        "<!DOCTYPE html>",
    )
    def get(self, request: Request, slug: str) -> StreamingHttpResponse:
        return self.send("leaderboard.html", HTML, lambda: iter([write_copy(self.arena)]))


class ExportFile(ExportEndpoint):
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
    def get(self, request: Request, slug: str, file: str) -> StreamingHttpResponse:
        if file == DATASET:
            return self.send(file, ZIP, lambda: write_dataset(self.arena, self.actor))
        return self.send_file(EXPORTS, file)


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
    def get(self, request: Request, slug: str) -> StreamingHttpResponse:
        self.require(TeamPermission.MANAGE, self.arena.team_id)
        if is_blind(self.actor, self.arena):
            raise PermissionDenied("The names are hidden from you until everyone has voted.")
        try:
            archive = open_archive(self.arena)
        except ExportError as error:
            raise Conflict(str(error)) from None
        return FileResponse(archive, as_attachment=True, filename=f"{self.arena.slug}.zip")


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
    def get(self, request: Request, slug: str, file: str) -> StreamingHttpResponse:
        self.require(TeamPermission.READ, self.arena.team_id)
        return self.send_file(PROMPT_SETS, file)
