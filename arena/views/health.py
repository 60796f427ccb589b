"""What operators ask: is the process alive, can it serve."""

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Answer that this process is alive; asks nothing of anybody else."""
    return JsonResponse({"status": "alive"})


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    """Keep crawlers off the voting pages: each visit hands out a pair that somebody waits for."""
    return HttpResponse("User-agent: *\nDisallow: /*/vote/\n", content_type="text/plain")


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 when the database answers and is migrated, else 503 with the reason."""
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return JsonResponse({"status": "the database does not answer"}, status=503)
    if missing:
        return JsonResponse({"status": f"{len(missing)} migrations to apply"}, status=503)
    return JsonResponse({"status": "ready"})
