"""The list of an arena's files that have been built, as a part of pages."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from arena.actors import actor_of
from ranking.board_data import find_arena
from ranking.models import ExportFile
from ranking.services.exports import files_for


@never_cache
@require_safe
def export_files(request: HttpRequest, slug: str) -> HttpResponse:
    """The newest of each, with its size and age, its progress, or why it could not be built."""
    actor = actor_of(request)
    arena = find_arena(slug, actor)
    newest: dict[tuple[str, str, bool], ExportFile] = {}
    for file in files_for(actor, arena).order_by("name", "audience", "built_at", "pk"):
        newest[file.name, file.audience, file.is_ready] = file
    files = list(newest.values())
    goes_on = any(file.is_in_progress for file in files)
    context = {"arena": arena, "files": files, "goes_on": goes_on}
    return render(request, "ranking/_export_files.html", context)
