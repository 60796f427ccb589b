"""Health checks, robots.txt, and the page for unexpected errors."""

import sys
from http import HTTPStatus

from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.defaults import server_error

RETRY_AFTER = "5"  # seconds


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Answer that this process is alive, without touching the database."""
    return JsonResponse({"status": "alive"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 if the database responds and is migrated, else 503 with the reason."""
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return JsonResponse({"status": "the database does not answer"}, status=503)
    if missing:
        return JsonResponse({"status": f"{len(missing)} migrations to apply"}, status=503)
    return JsonResponse({"status": "ready"})


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    """Keep crawlers off the voting pages, where each visit would take a pair from a rater."""
    return HttpResponse("User-agent: *\nDisallow: /*/vote/\n", content_type="text/plain")


def fault(request: HttpRequest) -> HttpResponse:
    """Answer 503 while the database is busy or unavailable, and 500 for all other errors.

    Django calls this while it handles the exception. The page must not use the database.
    """
    if not isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return server_error(request)
    return HttpResponse(
        render_to_string("503.html"),
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        headers={"Retry-After": RETRY_AFTER},
    )
