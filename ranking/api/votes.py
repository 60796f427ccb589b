"""The votes that boards count, as battles, and their exports."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import FileResponse, StreamingHttpResponse
from django_filters import rest_framework as filters
from django_filters.fields import IsoDateTimeField
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_field,
)
from rest_framework import serializers
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import TeamPermission
from arena.api.core.errors import BadParameter, Conflict
from arena.api.core.schema import operation
from arena.api.core.serializers import check_names, yes_or_no
from arena.api.core.views import ArenaEndpoint, ListEndpoint
from arena.models import Outcome, Rater, Uncounted, Vote
from arena.permissions import FieldVisibility, is_blind
from arena.services.exports import ExportError, ExportPlace, open_archive
from ranking.board_data import LARGEST_ID
from ranking.exports import (
    CSV,
    DATASET,
    DECIDED_BY,
    EXPORTS,
    FORMATS,
    JSONL,
    PARQUET,
    ZIP,
    Export,
    battle,
    file_names,
    texts_of,
    with_battles,
    with_texts,
    write_dataset,
    write_file,
)
from ranking.log.file import as_jsonl as log_as_jsonl
from ranking.log.file import write_lines
from ranking.models import Raters
from ranking.raters import NamedReason, count_reasons
from ranking.record import ON_THE_LEFT, ON_THE_RIGHT, RESULTS
from ranking.results import EXPORTS as PROMPT_SETS
from ranking.results import write_copy
from ranking.votes import RATERS as KIND_OF_RATERS

HTML = "text/html"
TAG = "Battles"
SHOWN = {
    "comparison": "1b671a64-40d5-491e-99b0-da01ff1f3341",
    "prompt": "p-7",
    "category": "refunds",
    "left_id": 17,
    "left": "short-answers",
    "right_id": 12,
    "right": "long-answers",
    "outcome": "left",
    "preference": None,
    "rater_kind": "person",
    "rater": "rater-4f1c09ab52d3e871",
    "cast_at": "2026-11-22T09:00:00+00:00",
    "texts": {
        "prompt": "How do I get my money back?",
        "left": "Ask on the page Orders within 30 days.",
        "right": "That depends.",
    },
}
TEXTS = OpenApiParameter(
    "texts",
    bool,
    description="Include the prompt and both answers. An answer is null if you may not know who "
    "wrote it. Unless the arena's answers are open, only the arena's team, the candidate's team "
    "and the vote's rater may, until the prompt is archived.",
)
NO_CANDIDATE = "Add candidate=<id> to the query."
SAME_CANDIDATE = "The opponent must be another candidate."


class TextsShown(serializers.Serializer[Any]):
    """The prompt and both answers, in Markdown."""

    prompt = serializers.CharField(allow_null=True)
    left = serializers.CharField(allow_null=True)
    right = serializers.CharField(allow_null=True)


class BattleShown(serializers.Serializer[Vote]):
    """One vote that counts. People have a different pseudonym in each arena."""

    comparison = serializers.UUIDField(help_text="The key in the address of its page.")
    prompt = serializers.CharField(allow_null=True, help_text="Its id, as set by the team.")
    category = serializers.CharField()
    left_id = serializers.IntegerField()
    left = serializers.CharField()
    right_id = serializers.IntegerField()
    right = serializers.CharField()
    outcome = serializers.ChoiceField(choices=Outcome.choices)
    preference = serializers.FloatField(
        allow_null=True, help_text="A soft verdict: the probability that the left answer is better."
    )
    rater_kind = serializers.ChoiceField(choices=Rater.Kind.choices)
    rater = serializers.CharField()
    cast_at = serializers.DateTimeField()
    texts = TextsShown(allow_null=True, help_text="Null without texts=true.")

    def to_representation(self, vote: Vote) -> dict[str, Any]:
        reader: FieldVisibility | None = self.context["view"].text_reader
        return battle(vote) | {"texts": texts_of(vote, reader) if reader else None}


class IdFilter(filters.Filter):
    """An id within the range of the database."""

    field_class = forms.IntegerField

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=1, max_value=LARGEST_ID, **options)


class UtcDateTimeField(IsoDateTimeField):
    """A time that can be converted to UTC, unlike some near the ends of the calendar."""

    def clean(self, value: Any) -> datetime | None:
        at: datetime | None = super().clean(value)
        try:
            return at and at.astimezone(UTC)
        except OverflowError:
            raise forms.ValidationError("This time is out of range in UTC.") from None


class UtcDateTimeFilter(filters.IsoDateTimeFilter):
    field_class = UtcDateTimeField


class BattleForm(forms.Form):
    """Requires a candidate for filters that depend on one."""

    def clean(self) -> dict[str, Any]:
        data = self.cleaned_data
        for name in ("opponent", "result"):
            if data.get(name) and not data.get("candidate") and "candidate" not in self.errors:
                self.add_error(name, NO_CANDIDATE)
        if data.get("opponent") and data.get("opponent") == data.get("candidate"):
            self.add_error("opponent", SAME_CANDIDATE)
        return data


class BattleFilters(filters.FilterSet):
    category = filters.CharFilter(
        field_name="comparison__prompt__category",
        help_text="Only votes on prompts of this category.",
    )
    candidate = IdFilter(method="of_candidate", help_text="Only votes with this candidate, by id.")
    opponent = IdFilter(
        method="of_candidate", help_text="Only votes between `candidate` and this one, by id."
    )
    result = filters.ChoiceFilter(
        choices=list(RESULTS.items()),
        method="of_result",
        help_text="Only votes with this result for `candidate`.",
    )
    raters = filters.ChoiceFilter(
        choices=Raters.choices,
        method="of_raters",
        help_text="Only votes by people, judges or juries.",
    )
    since = UtcDateTimeFilter(
        field_name="cast_at", lookup_expr="gte", help_text="Only votes cast at this time or later."
    )

    class Meta:
        model = Vote
        form = BattleForm
        fields = ["category", "candidate", "opponent", "result", "raters", "since"]

    @extend_schema_field(OpenApiTypes.INT64)
    def of_candidate(self, rows: QuerySet[Vote], field: str, value: int) -> QuerySet[Vote]:
        return rows.filter(Q(comparison__left=value) | Q(comparison__right=value))

    def of_result(self, rows: QuerySet[Vote], field: str, value: str) -> QuerySet[Vote]:
        candidate = self.form.cleaned_data["candidate"]
        sides = (("left", ON_THE_LEFT), ("right", ON_THE_RIGHT))
        left, right = (
            Q(**{f"comparison__{side}": candidate})
            & Q(outcome__in=[outcome for outcome, result in results.items() if result == value])
            for side, results in sides
        )
        return rows.filter(left | right)

    def of_raters(self, rows: QuerySet[Vote], field: str, value: str) -> QuerySet[Vote]:
        return rows.filter(rater__kind=KIND_OF_RATERS[value])


class BattleList(ArenaEndpoint, ListEndpoint):
    tag = TAG
    filterset_class = BattleFilters
    other_parameters = ("texts",)

    @operation(
        "list_battles",
        "List the votes that count in an arena, in the order they were cast",
        answer=BattleShown(many=True),
        shown=SHOWN,
        parameters=[TEXTS],
        description="All boards are computed from these. Skips and voided votes are left out.",
    )
    def get(self, request: Request, slug: str) -> Response:
        votes = self.arena.votes.live().listed()
        rows = with_texts(votes) if self.text_reader else with_battles(votes)
        return self.page(rows, BattleShown)

    @cached_property
    def text_reader(self) -> FieldVisibility | None:
        """Which texts the caller may read; None unless texts are requested."""
        has_texts = yes_or_no(self.request, "texts")
        return self.reader if has_texts else None


# -- Reasons ---------------------------------------------------------------------------------------

REASON: dict[str, Any] = {
    "candidate_id": 17,
    "candidate": "short-answers",
    "category": "refunds",
    "tag": "missing step",
    "is_strength": False,
    "named": 12,
    "explained": 40,
    "elsewhere": 0.08,
    "odds": 0.96,
    "q": 0.02,
    "stands_out": True,
}


class ReasonShown(serializers.Serializer[Any]):
    """How often raters named a reason for or against a candidate."""

    candidate_id = serializers.IntegerField(source="candidate")
    candidate = serializers.SerializerMethodField()
    category = serializers.CharField(help_text="Empty for all prompts.")
    tag = serializers.CharField()
    is_strength = serializers.BooleanField(help_text="Whether it is a strength of the candidate.")
    named = serializers.IntegerField(help_text="Votes that named it.")
    explained = serializers.IntegerField(
        help_text="Votes with reasons that could have named it: for a strength, those the "
        "candidate did not lose; for a fault, those it did not win."
    )
    elsewhere = serializers.FloatField(
        allow_null=True,
        help_text="The share among the other candidates' votes in the category; null if there are "
        "none.",
    )
    odds = serializers.FloatField(help_text="The logarithm of the odds ratio.")
    q = serializers.FloatField(help_text="The false discovery rate of the difference.")
    stands_out = serializers.BooleanField()

    def get_candidate(self, reason: NamedReason) -> str:
        return str(self.context["names"][reason.candidate])


class ReasonsShown(serializers.Serializer[Any]):
    reasons = ReasonShown(many=True, help_text="The most striking first.")


class Reasons(ArenaEndpoint):
    tag = TAG

    @operation(
        "list_reasons",
        "List the reasons that people named for and against candidates",
        answer=ReasonsShown,
        shown={"reasons": [REASON]},
        description="Reasons in a category are listed if they stand out, or if you may know who "
        "wrote the answers to all of its prompts.",
    )
    def get(self, request: Request, slug: str) -> Response:
        candidates = self.arena.candidates.revealed()
        names = {candidate.pk: candidate for candidate in candidates}
        blind = {
            prompt.category
            for prompt in self.arena.prompts.only("arena", "category", "external_id", "retired_at")
            if prompt.category and not self.reader.reads_authors(prompt)
        }
        reasons = [
            reason
            for reason in count_reasons(self.arena)
            if reason.candidate in names and (reason.stands_out or reason.category not in blind)
        ]
        return Response(ReasonsShown({"reasons": reasons}, context={"names": names}).data)


# -- Exports ---------------------------------------------------------------------------------------

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
