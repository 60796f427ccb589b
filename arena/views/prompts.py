"""The pages of an arena's prompts: list, add, edit, archive."""

from dataclasses import replace

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.files.reader import FileError
from arena.files.tables import PROMPTS, parse_pasted, read_table
from arena.forms.base import add_service_error
from arena.forms.prompts import AddPromptsForm, FilterForm, PromptForm
from arena.models import Arena, Prompt, Response
from arena.services import prompts
from arena.views.arena_context import (
    READ_ONLY,
    ArenaContext,
    render_in_context,
    require_permission,
)
from arena.views.responses import limit_upload

PROMPTS_PER_PAGE = 50


@require_permission("can_visit")
@require_safe
def manage_prompts(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    form = FilterForm(request.GET, arena=context.arena)
    answers = Response.objects.filter(prompt=OuterRef("pk"), candidate__retired_at=None)
    count = answers.order_by().values("prompt").annotate(n=Count("pk")).values("n")
    rows = _filtered(context.arena, form).annotate(n_answers=Coalesce(Subquery(count), 0))
    query = request.GET.copy()
    query.pop("page", None)
    return render_in_context(
        request,
        context,
        "manage/prompts.html",
        tab="prompts",
        form=form,
        page=Paginator(rows, PROMPTS_PER_PAGE).get_page(request.GET.get("page")),
        query=query.urlencode(),
    )


def _filtered(arena: Arena, form: FilterForm) -> QuerySet[Prompt]:
    rows = arena.prompts.revealed().order_by("pk").defer("html", "reference", "rubric")
    filters = form.cleaned_data if form.is_valid() else {"q": "", "category": "", "state": ""}
    if filters["state"] != "all":
        rows = rows.filter(retired_at__isnull=filters["state"] != "retired")
    if filters["category"]:
        rows = rows.filter(category=filters["category"])
    if words := filters["q"]:
        rows = rows.filter(Q(text__icontains=words) | Q(external_id__icontains=words))
    return rows


@limit_upload
@require_permission("can_submit")
@require_http_methods(["GET", "HEAD", "POST"])
def add_prompts(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """Add pasted or uploaded prompts, and report the outcome of each row."""
    form = AddPromptsForm()
    report, notices = None, None
    if request.method == "POST":
        form = AddPromptsForm(request.POST, request.FILES)
        if form.is_valid():
            fields = form.cleaned_data
            try:
                if data := form.file_bytes():
                    table = read_table(data, columns=PROMPTS)
                else:
                    table = parse_pasted(fields["pasted"])
            except FileError as error:
                form.add_error("file" if fields["file"] else "pasted", str(error))
            else:
                category = fields["category"]
                report = prompts.upsert_prompts(
                    arena=context.arena,
                    rows=[replace(row, category=row.category or category) for row in table.rows],
                    unread=table.problems,
                    by=context.actor,
                    atomic=fields["atomic"],
                )
                notices = table.notices
                if report.written and not report.problems:
                    form = AddPromptsForm()
    return render_in_context(
        request,
        context,
        "manage/add_prompts.html",
        tab="prompts",
        form=form,
        report=report,
        notices=notices,
    )


@limit_upload
@require_permission("can_read")
@require_http_methods(["GET", "HEAD", "POST"])
def edit_prompt(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Show a prompt to the arena's team, or change it until it is in use."""
    if request.method == "POST" and not context.can_submit:
        raise PermissionDenied(READ_ONLY)
    prompt = _find_prompt(context, pk)
    fixed = bool(prompts.prompts_in_use(context.arena, [prompt.pk]))
    form = PromptForm(request.POST) if request.method == "POST" else PromptForm.of(prompt)
    if form.is_bound and form.is_valid():
        try:
            prompts.revise_prompt(prompt=prompt, by=context.actor, **form.cleaned_data)
        except prompts.PromptError as error:
            add_service_error(form, error)
        else:
            messages.success(request, f"Prompt {prompt} saved.")
            return redirect("manage_prompts", context.arena.slug)
    return render_in_context(
        request,
        context,
        "manage/prompt.html",
        tab="prompts",
        prompt=prompt,
        fixed=fixed,
        form=form,
    )


@require_permission("can_submit")
@require_POST
def retire_prompt(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Archive a prompt, or restore it."""
    prompt = _find_prompt(context, pk)
    if request.POST.get("do") == "bring_back":
        prompts.bring_back_prompt(prompt=prompt, by=context.actor)
        messages.success(request, f"Prompt {prompt} restored.")
    else:
        prompts.retire_prompt(prompt=prompt, by=context.actor, now=timezone.now())
        messages.success(
            request,
            f"Prompt {prompt} archived. Raters no longer see it; its votes still count.",
        )
    return redirect("edit_prompt", context.arena.slug, prompt.pk)


def _find_prompt(context: ArenaContext, pk: int) -> Prompt:
    return get_object_or_404(context.arena.prompts.revealed(), pk=pk)
