"""The page of an arena's checks."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_POST

from arena.forms.base import errors_in
from arena.forms.checks import CheckForm
from arena.services import checks
from arena.views.arena_context import HIDDEN_NAMES, READ_ONLY, ArenaContext, require_permission

MOST_CANDIDATES = 12  # whose answers are checked when the page is opened: the newest


@require_permission("can_read")
@require_http_methods(["GET", "HEAD", "POST"])
def manage_checks(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """List the checks with what they say of the answers there are, and add one."""
    if request.method == "POST" and not context.can_submit:
        raise PermissionDenied(READ_ONLY)
    arena = context.arena
    initial = {"prompt": request.GET.get("prompt", "")[:200]}
    form = CheckForm(request.POST or None, arena=arena, initial=initial)
    if request.method == "POST" and form.is_valid():
        with errors_in(form):
            added = checks.add_check(arena=arena, by=context.actor, **form.cleaned_data)
            messages.success(request, f"Check added: {added}.")
            return redirect("manage_checks", arena.slug)
    reports, more = [], False
    if not context.reader.is_blind:
        newest = context.readable_candidates().filter(retired_at=None).order_by("-pk")
        shown = [*newest[: MOST_CANDIDATES + 1]]
        more = len(shown) > MOST_CANDIDATES
        candidates = shown[:MOST_CANDIDATES][::-1]
        reports = checks.check_answers(arena=arena, candidates=candidates)
    by_check = {report.check.pk: report for report in reports}
    rows = arena.checks.revealed().select_related("prompt").order_by("prompt_id", "pk")
    rows = rows.defer("prompt__text", "prompt__html", "prompt__reference", "prompt__rubric")
    return context.render(
        "manage/checks.html",
        tab="checks",
        form=form,
        checks=[(check, by_check.get(check.pk)) for check in rows],
        counts=checks.count_passing(reports),
        most_candidates=MOST_CANDIDATES if more else 0,
        hidden=HIDDEN_NAMES if context.reader.is_blind else "",
    )


@require_permission("can_submit")
@require_POST
def delete_check(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    check = get_object_or_404(context.arena.checks.revealed(), pk=pk)
    checks.delete_check(check=check, by=context.actor)
    messages.success(request, f"Check deleted: {check}.")
    return redirect("manage_checks", context.arena.slug)
