"""Filters of lists, by django-filter; what is wrong with one is said by its name."""

from typing import Any

from django_filters import rest_framework as filters
from rest_framework.request import Request

from arena.api.core.problems import BadParameter


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
