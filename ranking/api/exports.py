"""A whole arena's votes as files, sent while they are written."""

from collections.abc import Callable, Iterator
from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request

from arena.api.core.endpoint import ArenaEndpoint
from ranking.api.streams import as_csv, as_jsonl, battles, preferences

CSV, JSONL = "text/csv", "application/jsonl"
BATTLES = "The votes that count, in the order in which they came. People have pseudonyms."
PREFERENCES = (
    "For each prompt and two answers to it, the one that more people preferred is `chosen`. Ties "
    "and “both are bad” count for neither, and where opinions are level there is no line. Judges’ "
    "votes do not count, and candidates that are not disclosed yet are left out."
)
OF_BATTLES_CSV = (
    "comparison,prompt,category,left_id,left,right_id,right,outcome,preference,rater_kind,rater,"
    "cast_at\r\n"
)
OF_BATTLES_JSONL = '{"prompt": "p-7", "left": "short-answers", "outcome": "left"}\n'
OF_PREFERENCES = '{"prompt": "May I return it?", "chosen": "Yes.", "rejected": "No."}\n'
Described = Callable[[Callable[..., StreamingHttpResponse]], Any]


class OneForm(BaseContentNegotiation):
    """The address says the form, whatever else a client would take; problems are JSON."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class Export(ArenaEndpoint):
    tag = "Exports"
    content_negotiation_class = OneForm

    def send(
        self, name: str, content_type: str, write: Callable[[], Iterator[str]]
    ) -> StreamingHttpResponse:
        """Answer with what `write` yields, to be saved under the arena's name."""
        slug = self.arena.slug  # found before the first byte, or not at all
        lines = iter(()) if self.request.method == "HEAD" else write()
        response = StreamingHttpResponse(lines, content_type=f"{content_type}; charset=utf-8")
        response.headers["Content-Disposition"] = f'attachment; filename="{slug}-{name}"'
        return response


def _streamed(
    operation_id: str, summary: str, content_type: str, description: str, shown: str
) -> Described:
    """Describe a method that answers with a file of text."""
    examples = [OpenApiExample("An answer", value=shown, response_only=True)]
    answer = OpenApiResponse(str, description="", examples=examples)
    described: Described = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=description,
        responses={(200, content_type): answer},
    )
    return described


class BattlesCsv(Export):
    @_streamed("export_battles_csv", "Export the votes as CSV", CSV, BATTLES, OF_BATTLES_CSV)
    def get(self, request: Request, slug: str) -> StreamingHttpResponse:
        return self.send("battles.csv", CSV, lambda: as_csv(battles(self.arena)))


class BattlesJsonl(Export):
    @_streamed(
        "export_battles_jsonl", "Export the votes as JSON lines", JSONL, BATTLES, OF_BATTLES_JSONL
    )
    def get(self, request: Request, slug: str) -> StreamingHttpResponse:
        return self.send("battles.jsonl", JSONL, lambda: as_jsonl(battles(self.arena)))


class Preferences(Export):
    @_streamed(
        "export_preferences",
        "Export what people prefer, for training (DPO)",
        JSONL,
        PREFERENCES,
        OF_PREFERENCES,
    )
    def get(self, request: Request, slug: str) -> StreamingHttpResponse:
        return self.send("dpo.jsonl", JSONL, lambda: as_jsonl(preferences(self.arena)))
