"""The API of prompts and of the answers to them."""

import base64
from typing import Any

from django.db import transaction
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response as Answer

from arena.actors import TeamPermission
from arena.api.candidates import OfCandidates
from arena.api.checks import PromptCheckGiven
from arena.api.core.bodies import BULK_BODY
from arena.api.core.bulk import ATOMIC, Kind, ReportShown, bring_in
from arena.api.core.errors import Unprocessable
from arena.api.core.etags import check_match
from arena.api.core.model_fields import ModelChanges, ModelGiven, ModelShown, hidden
from arena.api.core.parameters import yes_or_no
from arena.api.core.permissions import refuse_unless
from arena.api.core.schema import operation
from arena.api.core.serializers import Dollars, MessagesField, RowsField, StrictSerializer, Text
from arena.api.core.views import ArenaEndpoint, ListEndpoint
from arena.files.tables import AT_MOST_BYTES, PROMPTS, RESPONSES
from arena.formats import FORMATS
from arena.models import Prompt, Response
from arena.permissions import FieldVisibility, can_read_texts
from arena.services import responses
from arena.services.prompts import (
    bring_back_prompt,
    delete_prompt,
    remove_from_showcase,
    retire_prompt,
    revise_prompt,
    showcase_prompt,
    upsert_prompts,
)
from arena.services.responses import upsert_responses
from arena.validation import MOST_VARIABLES

TAG = "Prompts"
KIND = Kind("prompts", PROMPTS)
VARIABLES_HELP = f"At most {MOST_VARIABLES}. Visible to teams that can add candidates."
ROW = {
    "external_id": "refund-1",
    "text": "How do I get my money back?",
    "category": "refunds",
    "document": "returns-policy",
    "reference": "Within 30 days, on the page Orders.",
}
STATE = {"retired_at": None, "showcased_at": None, "in_showcase": False}
SHOWN: dict[str, Any] = ROW | {"messages": None, "variables": {}, "rubric": ""} | STATE
REPORT = {
    "added": 9,
    "changed": 0,
    "unchanged": 0,
    "refused": [
        {"index": 3, "pointer": "#/prompts/3/text", "detail": "The member 'text' is empty."}
    ],
}
CONVERSATION_HELP = (
    "The conversation, as in OpenAI's chat API; null for a single text. `text` is its transcript."
)
STEPS_HELP = (
    "The steps of the answer, as in OpenAI's chat API; null for a single text. `text` is only "
    "what the assistant itself says."
)


class PromptShown(ModelShown):
    """A prompt. References and rubrics are null for everybody but the arena's team.

    Variables are null for all but that team and the teams that can add candidates. For tokens
    without the scope `read`, the text, the category and the document are null too.
    """

    messages = MessagesField(allow_null=True, help_text=CONVERSATION_HELP)
    variables = serializers.DictField(child=serializers.CharField(), allow_null=True)

    class Meta:
        model = Prompt
        fields = [
            *("external_id", *Prompt.SHOWN, "document", "variables", *Prompt.TEAM_ONLY),
            *("retired_at", "showcased_at", "in_showcase"),
        ]
        extra_kwargs = hidden("text", "category", "document", *Prompt.TEAM_ONLY) | {
            "showcased_at": {
                "help_text": "Since when everybody can read who wrote its answers. It can then "
                "never be voted on again."
            },
            "in_showcase": {"help_text": "Whether public pages show it with its answers."},
        }

    def to_representation(self, prompt: Prompt) -> dict[str, Any]:
        reader: FieldVisibility = self.context["view"].reader
        data: dict[str, Any] = super().to_representation(prompt)
        hidden = (
            *(() if reader.reads else (*Prompt.SHOWN, "document")),
            *(() if reader.sees_variables else ("variables",)),
            *(() if reader.is_of_arena else Prompt.TEAM_ONLY),
        )
        return data | dict.fromkeys(hidden)


class PromptRowGiven(ModelGiven):
    """A prompt to upload. Without an id, it is matched by its text or gets the next free id.

    `id` is another name for `external_id`, as in exports.
    """

    messages = MessagesField(required=False, help_text=CONVERSATION_HELP)
    variables = serializers.DictField(child=Text(), required=False, help_text=VARIABLES_HELP)
    retired = serializers.BooleanField(required=False, help_text="For new prompts only.")
    showcased = serializers.BooleanField(
        required=False, help_text="As in an export, and ignored: its answers are not here yet."
    )
    checks = PromptCheckGiven(
        many=True, required=False, help_text="Checks of its answers; those it has stay."
    )

    class Meta:
        model = Prompt
        fields = [
            *("text", "messages", "external_id", "category", "document"),
            *(*Prompt.TEAM_ONLY, "variables", "retired", "showcased", "checks"),
        ]
        extra_kwargs = {
            "text": {"allow_blank": False, "help_text": "Required without `messages`."},
            "external_id": {"required": False},
            "category": {"allow_blank": False},
            "document": {"allow_blank": False},
        }


@extend_schema_field(PromptRowGiven(many=True))
class PromptRows(RowsField):
    pass


class PromptsGiven(StrictSerializer):
    """Up to 10,000 prompts."""

    prompts = PromptRows()


class PromptChanges(ModelChanges):
    """Changes to a prompt that has not been used yet; `document`, `retired` and `in_showcase` can
    be changed at any time."""

    messages = MessagesField(allow_null=True, help_text=CONVERSATION_HELP)
    variables = serializers.DictField(child=Text(), help_text=VARIABLES_HELP)
    retired = serializers.BooleanField()
    in_showcase = serializers.BooleanField(
        help_text="True shows visitors who wrote which answer and ends voting for good. At least "
        "40 other prompts must remain in voting; at most two per category, none held out."
    )

    class Meta:
        model = Prompt
        fields = [*Prompt.CONTENT, "retired", "in_showcase"]
        extra_kwargs = {"text": {"allow_blank": False}}


class PromptFilters(filters.FilterSet):
    category = filters.CharFilter(help_text="A category.")
    external_id = filters.CharFilter(help_text="The id of a prompt.")
    retired = filters.BooleanFilter(
        field_name="retired_at",
        lookup_expr="isnull",
        exclude=True,
        help_text="Archived, or not.",
    )

    class Meta:
        model = Prompt
        fields = ["category", "external_id", "retired"]


class OfPrompts(ArenaEndpoint):
    """The base of all endpoints about an arena's prompts."""

    tag = TAG

    def prompts(self) -> Any:
        return Prompt.objects.revealed().filter(arena=self.arena)


class Prompts(OfPrompts, ListEndpoint):
    permissions = {"POST": TeamPermission.SUBMIT}
    body_limit = BULK_BODY
    filterset_class = PromptFilters

    @operation(
        "list_prompts",
        "List the prompts of an arena",
        answer=PromptShown(many=True),
        shown=SHOWN,
    )
    def get(self, request: Request, slug: str) -> Answer:
        return self.page(self.prompts().defer("html"), PromptShown)

    @operation(
        "upsert_prompts",
        "Upload up to 10,000 prompts",
        body=PromptsGiven,
        sent={"prompts": [ROW]},
        answer=ReportShown,
        shown=REPORT,
        parameters=[ATOMIC],
        description="New prompts are added. Existing ones, matched by id or text, are changed if "
        "they have not been used yet. Rows with errors are listed; all others are saved together.",
    )
    def post(self, request: Request, slug: str) -> Answer:
        self.require(TeamPermission.SUBMIT, self.arena.team_id)
        rows, atomic = self.validated(PromptsGiven)["prompts"], yes_or_no(request, "atomic")
        report = bring_in(
            KIND,
            rows,
            upsert=lambda good, bad: upsert_prompts(
                arena=self.arena, rows=good, unread=bad, by=self.actor, atomic=atomic
            ),
        )
        return Answer(ReportShown(report).data)


class OnePrompt(OfPrompts):
    permissions = {"PATCH": TeamPermission.SUBMIT, "DELETE": TeamPermission.SUBMIT}
    has_match = True

    @operation("retrieve_prompt", "Retrieve a prompt by its id", answer=PromptShown, shown=SHOWN)
    def get(self, request: Request, slug: str, external_id: str) -> Answer:
        return Answer(self._shown(self._find(external_id)))

    @operation(
        "update_prompt",
        "Change, archive, restore or showcase a prompt",
        body=PromptChanges,
        sent={"retired": True},
        answer=PromptShown,
        shown=SHOWN | {"retired_at": "2026-11-22T09:00:00Z"},
        description="A prompt that has answers or comparisons can be archived but not changed.",
    )
    def patch(self, request: Request, slug: str, external_id: str) -> Answer:
        self.require(TeamPermission.SUBMIT, self.arena.team_id)
        changes = self.validated(PromptChanges, partial=True)
        with transaction.atomic():
            # The services lock the arena first; a different order could deadlock.
            arenas = self.arenas().select_for_update(of=("self",), no_key=True)
            get_object_or_404(arenas, pk=self.arena.pk)
            prompt = self._find(external_id, lock=True)
            check_match(request, self._shown(prompt))
            self._change(prompt, changes)
            changed = self._find(external_id)
        return Answer(self._shown(changed))

    @operation(
        "delete_prompt",
        "Delete a prompt, for good",
        answer=None,
        shown=None,
        status=204,
        description="The answers to it are deleted with it. A prompt with votes cannot be "
        "deleted; archive it instead. Only owners who are signed in can delete; tokens cannot.",
    )
    def delete(self, request: Request, slug: str, external_id: str) -> Answer:
        self.require(TeamPermission.MANAGE, self.arena.team_id)
        delete_prompt(prompt=self._find(external_id), by=self.actor)
        return Answer(status=204)

    def _change(self, prompt: Prompt, changes: dict[str, Any]) -> None:
        retired, showcased = changes.pop("retired", None), changes.pop("in_showcase", None)
        if changes:
            revise_prompt(prompt=prompt, by=self.actor, **changes)
        if retired:
            retire_prompt(prompt=prompt, by=self.actor, now=timezone.now())
        elif retired is not None:
            bring_back_prompt(prompt=prompt, by=self.actor)
        if showcased:
            showcase_prompt(prompt=prompt, by=self.actor, now=timezone.now())
        elif showcased is not None:
            remove_from_showcase(prompt=prompt, by=self.actor)

    def _find(self, external_id: str, *, lock: bool = False) -> Prompt:
        rows = self.prompts()
        if lock:
            # NO KEY: a comparison being issued refers to the prompt while it locks a pair, and
            # pairs are locked here next.
            rows = rows.select_for_update(of=("self",), no_key=True)
        prompt: Prompt = get_object_or_404(rows, external_id=external_id)
        return prompt

    def _shown(self, prompt: Prompt) -> Any:
        return PromptShown(prompt, context=self.get_serializer_context()).data


RESPONSE_KIND = Kind("responses", RESPONSES)
RESPONSE_ROW = {
    "prompt_id": "refund-1",
    "text": "On the page Orders, within 30 days.",
    "tokens_out": 9,
}
RESPONSE_SHOWN = RESPONSE_ROW | {"messages": None, "tokens_in": None, "seconds": None, "cost": None}
RESPONSE_REPORT = {
    "added": 10,
    "changed": 0,
    "unchanged": 0,
    "refused": [],
    "missing": ["refund-7"],
}


class ResponseShown(serializers.ModelSerializer[Response]):
    """An answer; `cost` is in dollars. Unknown values are null."""

    prompt_id = serializers.CharField(source="prompt.external_id")
    messages = MessagesField(allow_null=True, help_text=STEPS_HELP)
    cost = Dollars(allow_null=True)

    class Meta:
        model = Response
        fields = ["prompt_id", "text", "messages", "tokens_in", "tokens_out", "seconds", "cost"]


class ResponseRowGiven(serializers.Serializer[Any]):
    """An answer to upload; its prompt is found by `prompt_id`, or else by the prompt's text."""

    text = Text(allow_blank=False, required=False, help_text="Required without `messages`.")
    messages = MessagesField(required=False, help_text=STEPS_HELP)
    prompt_id = serializers.CharField(max_length=200, required=False)
    prompt = Text(required=False)
    tokens_in = serializers.IntegerField(min_value=0, required=False)
    tokens_out = serializers.IntegerField(min_value=0, required=False)
    seconds = serializers.FloatField(min_value=0, required=False)
    cost = Dollars(required=False)
    candidate = serializers.CharField(
        max_length=200,
        required=False,
        help_text="As in an export; rows that name another candidate are left out.",
    )


@extend_schema_field(ResponseRowGiven(many=True))
class ResponseRows(RowsField):
    pass


class ResponsesGiven(StrictSerializer):
    """Up to 10,000 answers."""

    responses = ResponseRows()


class ResponseReportShown(ReportShown):
    """The result of each row; `missing` lists the ids of the prompts still without an answer."""

    missing = serializers.ListField(child=serializers.CharField())


class ResponseFilters(filters.FilterSet):
    prompt_id = filters.CharFilter(
        field_name="prompt__external_id", help_text="The id of a prompt."
    )

    class Meta:
        model = Response
        fields = ["prompt_id"]


class Responses(OfCandidates, ListEndpoint):
    tag = "Responses"
    is_open = False
    permissions = {"POST": TeamPermission.SUBMIT}
    body_limit = BULK_BODY
    filterset_class = ResponseFilters

    @operation(
        "list_responses",
        "List the answers of a candidate",
        answer=ResponseShown(many=True),
        shown=RESPONSE_SHOWN,
        description="Available to the candidate's team and, once the candidate is disclosed, to "
        "the arena's team.",
    )
    def get(self, request: Request, slug: str, pk: int) -> Answer:
        refuse_unless(self.actor, can_read_texts(self.actor, self.candidate))
        rows = Response.objects.revealed().filter(candidate=self.candidate)
        return self.page(rows.select_related("prompt").defer("html"), ResponseShown)

    @operation(
        "upsert_responses",
        "Upload up to 10,000 of a candidate's answers",
        body=ResponsesGiven,
        sent={"responses": [RESPONSE_ROW]},
        answer=ResponseReportShown,
        shown=RESPONSE_REPORT,
        parameters=[ATOMIC],
        description="New answers are added. Existing ones are changed if not yet compared. "
        "Rows with errors are listed; all others are saved together.",
    )
    def post(self, request: Request, slug: str, pk: int) -> Answer:
        self.require_change()
        candidate, rows = self.candidate, self.validated(ResponsesGiven)["responses"]
        atomic = yes_or_no(request, "atomic")
        report = bring_in(
            RESPONSE_KIND,
            rows,
            upsert=lambda good, bad: upsert_responses(
                candidate=candidate, rows=good, unread=bad, by=self.actor, atomic=atomic
            ),
        )
        return Answer(ResponseReportShown(report).data)


IMPORT_SENT = {
    "file_name": "answers.csv",
    "content": "prompt,response,model\nWhy is the sky blue?,Because of scattering.,amber-7b\n",
    "preview": True,
}
IMPORT_SHOWN = {
    "written": False,
    "files": [
        {
            "name": "answers.csv",
            "format": "answers",
            "title": "answers of one model (AutoArena)",
            "columns": {"prompt": "prompt", "response": "response", "model": "model"},
            "samples": {
                "prompt": ["Why is the sky blue?"],
                "response": ["Because of scattering."],
                "model": ["amber-7b"],
            },
            "values": {},
            "rows": {"prompts": 1, "candidates": 1, "responses": 1},
            "bad": 0,
            "unread": [],
        }
    ],
    "rows": {"prompts": 1, "candidates": 1, "responses": 1},
    "bad": 0,
    "problems": [],
    "warnings": [],
}


class ImportGiven(StrictSerializer):
    """A file of any format that Ringside reads, as text or, if it is binary, in Base64."""

    file_name = serializers.CharField(max_length=200)
    content = Text(required=False, max_length=AT_MOST_BYTES)
    content_base64 = Text(required=False, max_length=AT_MOST_BYTES * 4 // 3 + 4)
    preview = serializers.BooleanField(
        default=True, help_text="Return what the file would add, and write nothing."
    )
    format = serializers.ChoiceField(choices=["auto", *FORMATS], default="auto")
    columns = serializers.DictField(
        child=serializers.CharField(allow_blank=True),
        required=False,
        help_text="The column to read each field from, if it is not the usual one; '' for none. "
        "A column of one candidate is the field `answer:NAME`, `rating:NAME` or `rank:NAME`. A "
        "preview lists fields and columns.",
    )
    values = serializers.DictField(
        child=serializers.CharField(),
        required=False,
        help_text="What values of the winner's column mean: `left`, `right`, `tie`, `both_bad`, "
        "`skip` (no vote), or a preference for left from 0 to 1. A preview lists the values.",
    )
    skip_bad = serializers.BooleanField(
        default=False, help_text="Import the good rows even if others are bad."
    )

    def validate(self, attrs: Any) -> Any:
        given = [name for name in ("content", "content_base64") if name in attrs]
        if len(given) != 1:
            raise serializers.ValidationError({"content": "Send content or content_base64."})
        try:
            text = attrs.get("content")
            data = base64.b64decode(attrs["content_base64"]) if text is None else text.encode()
        except (ValueError, UnicodeEncodeError):
            raise serializers.ValidationError({given[0]: "This cannot be decoded."}) from None
        return attrs | {"data": data}


class ImportedFileShown(serializers.Serializer[Any]):
    """One file: its detected format, the columns of its fields, and its rows by kind."""

    name = serializers.CharField()
    format = serializers.CharField(source="format_name")
    title = serializers.CharField()
    columns = serializers.DictField(child=serializers.CharField())
    samples = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        help_text="The first values of each column.",
    )
    values = serializers.DictField(
        child=serializers.CharField(),
        help_text="What each value of the winner's column means; '' if that has to be said.",
    )
    rows = serializers.DictField(child=serializers.IntegerField())
    bad = serializers.IntegerField()
    unread = serializers.ListField(
        child=serializers.CharField(), help_text="Columns that were not used, quoted."
    )


class ImportShown(serializers.Serializer[Any]):
    """What a file would add, or has added if `written`; `problems` lists the first bad rows, and
    `warnings` says what is odd about the others: near-equal names, and repeated votes."""

    written = serializers.BooleanField()
    files = ImportedFileShown(many=True)
    rows = serializers.DictField(child=serializers.IntegerField())
    bad = serializers.IntegerField(source="rejected.count")
    problems = serializers.ListField(child=serializers.CharField(), source="rejected.lines")
    warnings = serializers.ListField(child=serializers.CharField())


class Imports(OfPrompts):
    permissions = {"POST": TeamPermission.SUBMIT}
    body_limit = BULK_BODY

    @operation(
        "import_file",
        "Preview or import a file of any format",
        body=ImportGiven,
        sent=IMPORT_SENT,
        answer=ImportShown,
        shown=IMPORT_SHOWN,
        description="Files from LMArena, AutoArena, AlpacaEval, MT-Bench, promptfoo, Langfuse, "
        "LangSmith, OpenAI and others are recognised by their content. Nothing is written unless "
        "`preview` is false. Bad rows cause a 422 unless they are skipped.",
    )
    def post(self, request: Request, slug: str) -> Answer:
        self.require(TeamPermission.SUBMIT, self.arena.team_id)
        data = self.validated(ImportGiven)
        upload = responses.Upload(
            data["file_name"],
            data["data"],
            data["format"],
            data.get("columns", {}),
            data.get("values", {}),
            skip_bad=data["skip_bad"],
        )
        try:
            preview = responses.preview_upload(arena=self.arena, upload=upload)
            if not data["preview"]:
                responses.import_upload(
                    arena=self.arena, upload=upload, by=self.actor, now=timezone.now()
                )
        except responses.BadUploadError as error:
            errors = [{"pointer": "#/content", "detail": line} for line in error.rejected.first]
            raise Unprocessable(error.message, errors) from None
        shown = ("files", "rows", "rejected", "warnings")
        result = {name: getattr(preview, name) for name in shown}
        return Answer(ImportShown(result | {"written": not data["preview"]}).data)
