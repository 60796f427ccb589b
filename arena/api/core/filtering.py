"""Filters of lists, by django-filter; what is wrong with one is said by its name."""

from collections.abc import Iterable
from typing import Any

from django_filters import rest_framework as filters
from rest_framework.request import Request

from arena.api.core.problems import BadParameter

OF_PAGES = ("cursor", "page_size")


def check_names(request: Request, names: Iterable[str]) -> None:
    """Refuse a parameter that a list does not have: left aside, a misspelt filter finds all.

    `names` are its own, besides those of all lists. Raises BadParameter.
    """
    known = {*names, *OF_PAGES}
    for name in request.query_params:
        if name not in known:
            there = ", ".join(sorted(known))
            raise BadParameter(name, f"There is no such parameter here. There are: {there}.")


class Filters(filters.DjangoFilterBackend):
    """Applies the endpoint's `filterset_class`; raises BadParameter."""

    def filter_queryset(self, request: Request, queryset: Any, view: Any) -> Any:
        filterset = self.get_filterset(request, queryset, view)
        if filterset is None:
            return queryset
        if not filterset.is_valid():
            name, errors = next(iter(filterset.errors.items()))
            raise BadParameter(name, str(errors[0]))
        return filterset.qs
