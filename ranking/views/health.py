"""Health, readiness and metrics, for programs."""

from dataclasses import asdict
from http import HTTPStatus

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client.exposition import choose_encoder

from ranking.health import check_health, registry

BEARER = "Bearer "
TEAMS_LISTED = 200


def require_operator(request: HttpRequest) -> None:
    """Raise PermissionDenied unless the bearer token is METRICS_TOKEN, or staff is signed in."""
    given = request.headers.get("Authorization", "")
    if given.startswith(BEARER):
        token = settings.METRICS_TOKEN
        is_allowed = bool(token) and constant_time_compare(given.removeprefix(BEARER), token)
    else:
        is_allowed = request.user.is_active and request.user.is_staff
    if not is_allowed:
        raise PermissionDenied


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Answer that this process is alive, touching nothing; `?full` shows operators the rest."""
    if "full" not in request.GET:
        return JsonResponse({"status": "alive"})
    require_operator(request)
    health = check_health(timezone.now())
    status = HTTPStatus.SERVICE_UNAVAILABLE if health.findings else HTTPStatus.OK
    word = "trouble" if health.findings else "well"
    return JsonResponse({"status": word, **asdict(health)}, status=status)


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 if this process can serve: the database responds and is migrated; else 503.

    Broker and workers do not matter here: pages are served and votes accepted without them.
    """
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except (DatabaseError, InterfaceError):
        return JsonResponse({"status": "the database does not answer"}, status=503)
    if missing:
        return JsonResponse({"status": f"{len(missing)} migrations to apply"}, status=503)
    return JsonResponse({"status": "ready"})


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The metrics, in the format that the scraper prefers."""
    require_operator(request)
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(registry(timezone.now())), content_type=content_type)
