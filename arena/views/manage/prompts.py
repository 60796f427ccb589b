"""The prompts of an arena: listed, added, changed, retired."""

from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.forms.blaming import blame
from arena.forms.prompts import AddPromptsForm, FilterForm, PromptForm
from arena.models import Prompt, Response
from arena.services import prompts
from arena.services.reports import UploadReport
from arena.uploads import PROMPTS, PromptRow, Table, UploadRefused, parse_pasted, read_table
from arena.views.manage.desk import READS_ONLY, Desk, at_desk, desk_page, reads, submits, visits
from arena.views.manage.sizes import told_if_too_large

ROWS_OF_A_PAGE = 50


@at_desk(visits)
@require_safe
def manage_prompts(request: HttpRequest, desk: Desk) -> HttpResponse:
    """The prompts, as the filter wants them."""
    form = FilterForm(request.GET, arena=desk.arena)
    found = _filtered(desk, form)
    page = Paginator(_with_answers(found), ROWS_OF_A_PAGE).get_page(request.GET.get("page"))
    asked = request.GET.copy()
    asked.pop("page", None)
    context = {"form": form, "page": page, "asked": asked.urlencode()}
    return desk_page(request, desk, "manage/prompts.html", "prompts", context)


def _filtered(desk: Desk, form: FilterForm) -> QuerySet[Prompt]:
    found = desk.arena.prompts.revealed().order_by("pk").defer("html", "reference", "rubric")
    chosen = form.cleaned_data if form.is_valid() else {"q": "", "category": "", "state": ""}
    if chosen["state"] != "all":
        found = found.filter(retired_at__isnull=chosen["state"] != "retired")
    if chosen["category"]:
        found = found.filter(category=chosen["category"])
    if words := chosen["q"]:
        found = found.filter(Q(text__icontains=words) | Q(external_id__icontains=words))
    return found


def _with_answers(found: QuerySet[Prompt]) -> QuerySet[Prompt]:
    answers = Response.objects.filter(prompt=OuterRef("pk"), candidate__retired_at=None)
    number = answers.order_by().values("prompt").annotate(n=Count("pk")).values("n")
    return found.annotate(n_answers=Coalesce(Subquery(number), 0))


@told_if_too_large
@at_desk(submits)
@require_http_methods(["GET", "HEAD", "POST"])
def add_prompts(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Paste prompts or upload a file of them, and read what became of each."""
    form = (
        AddPromptsForm(request.POST, request.FILES)
        if request.method == "POST"
        else AddPromptsForm()
    )
    context: dict[str, Any] = {"form": form}
    if form.is_bound and form.is_valid():
        try:
            table = _read(form)
        except UploadRefused as refusal:
            form.add_error("file" if form.cleaned_data["file"] else "pasted", str(refusal))
        else:
            report = _bring_in(desk, form, table)
            if report.written and not report.problems:
                context["form"] = AddPromptsForm()
            context |= {"report": report, "notices": table.notices}
    return desk_page(request, desk, "manage/add_prompts.html", "prompts", context)


def _read(form: AddPromptsForm) -> Table[PromptRow]:
    if data := form.data_of_file():
        return read_table(data, columns=PROMPTS)
    return parse_pasted(form.cleaned_data["pasted"])


def _bring_in(desk: Desk, form: AddPromptsForm, table: Table[PromptRow]) -> UploadReport:
    category = form.cleaned_data["category"]
    return prompts.upsert_prompts(
        arena=desk.arena,
        rows=[replace(row, category=row.category or category) for row in table.rows],
        unread=table.problems,
        by=desk.actor,
        atomic=form.cleaned_data["atomic"],
    )


@told_if_too_large
@at_desk(reads)
@require_http_methods(["GET", "HEAD", "POST"])
def edit_prompt(request: HttpRequest, desk: Desk, pk: int) -> HttpResponse:
    """One prompt; its team reads it, and who brings prompts changes it until something was made."""
    if request.method == "POST" and not desk.submits:
        raise PermissionDenied(READS_ONLY)
    prompt = _prompt(desk, pk)
    fixed = bool(prompts.fixed_prompts(desk.arena, [prompt.pk]))
    form = PromptForm(request.POST) if request.method == "POST" else PromptForm.of(prompt)
    if form.is_bound and form.is_valid():
        try:
            prompts.revise_prompt(prompt=prompt, by=desk.actor, **form.cleaned_data)
        except prompts.PromptRefused as refusal:
            blame(form, refusal)
        else:
            messages.success(request, f"The prompt {prompt} is saved.")
            return redirect("manage_prompts", desk.arena.slug)
    context = {"prompt": prompt, "fixed": fixed, "form": form}
    return desk_page(request, desk, "manage/prompt.html", "prompts", context)


@at_desk(submits)
@require_POST
def retire_prompt(request: HttpRequest, desk: Desk, pk: int) -> HttpResponse:
    """Retire a prompt, or bring it back."""
    prompt = _prompt(desk, pk)
    if request.POST.get("do") == "bring_back":
        prompts.bring_back_prompt(prompt=prompt, by=desk.actor)
        messages.success(request, f"The prompt {prompt} is back.")
    else:
        prompts.retire_prompt(prompt=prompt, by=desk.actor, now=timezone.now())
        messages.success(
            request, f"The prompt {prompt} is retired: nobody is shown it any more. Its votes stay."
        )
    return redirect("edit_prompt", desk.arena.slug, prompt.pk)


def _prompt(desk: Desk, pk: int) -> Prompt:
    return get_object_or_404(desk.arena.prompts.revealed(), pk=pk)
