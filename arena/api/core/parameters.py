"""Query parameters, filters and pages of lists."""

from collections.abc import Iterable
from typing import Any

from django_filters import rest_framework as filters
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

from arena.api.core.errors import BadParameter

YES_OR_NO = {"true": True, "1": True, "false": False, "0": False, "": False}


def yes_or_no(request: Any, parameter: str) -> bool:
    """Return the value of a boolean query parameter, False by default; raises BadParameter."""
    value = request.query_params.get(parameter, "").lower()
    if value not in YES_OR_NO:
        raise BadParameter(parameter, "Must be true or false.")
    return YES_OR_NO[value]


PAGE_PARAMETERS = ("cursor", "page_size")
LONGEST_POSITION = 18  # digits that always fit into a database's integer


def check_names(request: Request, names: Iterable[str]) -> None:
    """Raise BadParameter for any parameter except `names` and those for pagination.

    If misspelt filters were ignored, they would return everything.
    """
    known = {*names, *PAGE_PARAMETERS}
    for name in request.query_params:
        if name not in known:
            raise BadParameter(
                name, f"Unknown parameter. Known parameters: {', '.join(sorted(known))}."
            )


class StrictFilterBackend(filters.DjangoFilterBackend):
    """Applies the endpoint's `filterset_class`; raises BadParameter."""

    def filter_queryset(self, request: Request, queryset: Any, view: Any) -> Any:
        filterset = self.get_filterset(request, queryset, view)
        if filterset is None:
            return queryset
        if not filterset.is_valid():
            name, errors = next(iter(filterset.errors.items()))
            choices = dict(filterset.filters[name].extra.get("choices", ()))
            known = f"{name} must be one of: {', '.join(map(str, choices))}." if choices else ""
            raise BadParameter(name, known or str(errors[0]))
        return filterset.qs


class Pages(CursorPagination):
    """Cursor pages by id, oldest first unless the endpoint sets `newest_first`."""

    page_size = 100
    max_page_size = 1000
    page_size_query_param = "page_size"
    page_size_query_description = "Rows per page, from 1 to 1,000; 100 by default."
    cursor_query_description = "The start of the page, taken from `next` or `previous`."

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> tuple[str, ...]:
        return ("-id",) if getattr(view, "newest_first", False) else ("id",)

    def get_page_size(self, request: Request) -> int:
        size = request.query_params.get(self.page_size_query_param, str(self.page_size))
        # The length is checked first, so that thousands of digits are never converted.
        if not size.isdecimal() or len(size) > 4 or not 1 <= int(size) <= self.max_page_size:
            detail = f"Must be a whole number from 1 to {self.max_page_size:,}."
            raise BadParameter(self.page_size_query_param, detail)
        return int(size)

    def decode_cursor(self, request: Request) -> Any:
        """Decode the cursor; raise BadParameter for one that no page could have returned."""
        try:
            cursor: Any = super().decode_cursor(request)
        except NotFound:
            raise self._unreadable_cursor() from None
        position = cursor.position if cursor else None
        if position is None or (position.isdecimal() and len(position) <= LONGEST_POSITION):
            return cursor
        raise self._unreadable_cursor()

    def _unreadable_cursor(self) -> BadParameter:
        detail = "Invalid cursor. Take it from a page's next or previous."
        return BadParameter(self.cursor_query_param, detail)

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
