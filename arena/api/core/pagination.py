"""Lists come in pages with a cursor: rows that arrive meanwhile neither repeat nor hide others."""

from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

from arena.api.core.problems import BadParameter

LONGEST_POSITION = 18  # digits that a database's whole number holds for certain


class Pages(CursorPagination):
    """By id, oldest first; an endpoint that wants newest first sets `newest_first`."""

    page_size = 100
    max_page_size = 1000
    page_size_query_param = "page_size"
    page_size_query_description = "How many rows a page has, from 1 to 1,000; 100 unless said."
    cursor_query_description = "Where the page begins: take it from `next` or `previous`."

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> tuple[str, ...]:
        return ("-id",) if getattr(view, "newest_first", False) else ("id",)

    def get_page_size(self, request: Request) -> int:
        """Return the size asked for; raises BadParameter for one that is not 1 to 1,000."""
        said = request.query_params.get(self.page_size_query_param, str(self.page_size))
        # Digits are counted first: a number of thousands of digits is not even converted.
        if not said.isdecimal() or len(said) > 4 or not 1 <= int(said) <= self.max_page_size:
            sentence = f"It is a whole number from 1 to {self.max_page_size:,}."
            raise BadParameter(self.page_size_query_param, sentence)
        return int(said)

    def decode_cursor(self, request: Request) -> Any:
        """Return the cursor; raises BadParameter for one that no page of ours gave out."""
        try:
            cursor: Any = super().decode_cursor(request)
        except NotFound:
            raise self._unreadable() from None
        position = cursor.position if cursor else None
        if position is None or (position.isdecimal() and len(position) <= LONGEST_POSITION):
            return cursor
        raise self._unreadable()

    def _unreadable(self) -> BadParameter:
        sentence = "It cannot be read. Take it from a page's next or previous."
        return BadParameter(self.cursor_query_param, sentence)

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri"}
        names = ["next", "previous", "results"]
        example = "https://arena.example/api/v1/arenas/?cursor=cD0xMDA%3D"
        properties = {
            "next": link | {"example": example},
            "previous": link | {"example": None},
            "results": schema,
        }
        return {"type": "object", "required": names, "properties": properties}

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        cursor, size = super().get_schema_operation_parameters(view)
        bounds = {"minimum": 1, "maximum": self.max_page_size, "default": self.page_size}
        return [cursor, size | {"schema": size["schema"] | bounds}]
