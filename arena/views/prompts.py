"""The pages of an arena's prompts (list, add, edit, archive, showcase), and uploads of answers."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.core.files.uploadhandler import FileUploadHandler, TemporaryFileUploadHandler
from django.core.paginator import Paginator
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.api.core.bodies import BULK_BODY
from arena.files.reader import FileError
from arena.files.rows import PromptRow
from arena.files.tables import AT_MOST_BYTES, PROMPTS, RESPONSES, Table, parse_pasted, read_table
from arena.formats.winners import guesses
from arena.forms.base import add_service_error, errors_as_messages, errors_in
from arena.forms.prompts import (
    AddPromptsForm,
    DocumentForm,
    FilterForm,
    ImportForm,
    PromptForm,
    UploadAnswersForm,
)
from arena.language import translated
from arena.models import Arena, Prompt, Response
from arena.prompting.templates import TEXT_LIMIT
from arena.services import prompts, responses
from arena.services.candidate_checks import CandidateError
from arena.services.imports import ImportPreview
from arena.services.responses import upsert_responses
from arena.validation import numbered, quoted
from arena.views.arena_context import READ_ONLY, ArenaContext, require_permission

MAX_FORM_BYTES = AT_MOST_BYTES + 2_000_000  # a file and the fields around it
MOST_UNASKED = 3  # new variables; more are probably columns of another tool's file
View = Callable[..., HttpResponseBase]


# Django limits the size of a form's fields, but not of its files.


class BoundedForms(FileUploadHandler):
    """The first upload handler, which refuses a form that is too large before storing any of it."""

    def handle_raw_input(
        self,
        input_data: Any,
        META: Any,  # noqa: N803  (Django's name)
        content_length: int,
        boundary: Any,
        encoding: Any = None,
    ) -> None:
        if content_length > MAX_FORM_BYTES:
            raise RequestDataTooBig("The form is too large.")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        """Pass the data on to the handlers that store it."""
        return raw_data

    def file_complete(self, file_size: int) -> None:
        """Leave the file to the other handlers."""


class TemporaryFiles(TemporaryFileUploadHandler):
    """Removes what did not fit on the disk, which would stay as long as the request."""

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        try:
            super().receive_data_chunk(raw_data, start)
        except OSError:
            with suppress(OSError):
                self.file.close()
            raise


def limit_upload(view: View) -> View:
    """Answer a form that is too large with a page that explains it, instead of a bare error.

    The CSRF check reads the whole form, so it has to come after the size check. `arena.wsgi` reads
    no more than `body_limit`, and that of signed-in people only.
    """
    protected = csrf_protect(view)

    @csrf_exempt
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if _content_length(request) > MAX_FORM_BYTES:
            return _too_large(request, is_file=True)
        try:
            request.POST  # noqa: B018  (reading it is the check)
        except RequestDataTooBig:
            return _too_large(request, is_file=False)
        return protected(request, *args, **kwargs)

    guarded.body_limit = BULK_BODY  # type: ignore[attr-defined]
    return guarded


def _content_length(request: HttpRequest) -> int:
    header = request.META.get("CONTENT_LENGTH") or "0"
    return int(header) if header.isdecimal() else 0


@translated
def _too_large(request: HttpRequest, *, is_file: bool) -> HttpResponse:
    """Show the error page, which names no arena, so as not to reveal whether one exists."""
    length = _content_length(request)
    context = {
        "is_file": is_file,
        "size": f"{length / 1e6:,.1f}",
        "max_file_size": f"{AT_MOST_BYTES // 1_000_000:,}",
        "max_characters": f"{TEXT_LIMIT:,}",
    }
    return render(request, "413.html", context, status=413)


@limit_upload
@require_permission("can_visit")
@require_http_methods(["GET", "HEAD", "POST"])
def upload_answers(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Save uploaded or pasted answers, and report the outcome of each row."""
    candidate = context.find_candidate_to_change(pk)
    form = UploadAnswersForm()
    report, notices = None, None
    if request.method == "POST":
        form = UploadAnswersForm(request.POST, request.FILES)
        if form.is_valid():
            try:
                table = read_table(form.file_bytes(), columns=RESPONSES)
                report = upsert_responses(
                    candidate=candidate,
                    rows=table.rows,
                    unread=table.problems,
                    by=context.actor,
                    atomic=form.cleaned_data["atomic"],
                )
                notices = table.notices
            except FileError as error:
                form.add_error("file" if form.cleaned_data["file"] else "pasted", str(error))
            except CandidateError as error:
                add_service_error(form, error)
            else:
                if report.written and not report.problems:
                    form = UploadAnswersForm()
    return context.render(
        "manage/upload_answers.html",
        tab="candidates",
        candidate=candidate,
        form=form,
        report=report,
        notices=notices,
    )


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
    page = Paginator(rows, PROMPTS_PER_PAGE).get_page(request.GET.get("page"))
    return context.render(
        "manage/prompts.html",
        tab="prompts",
        form=form,
        page=page,
        some_active=any(prompt.retired_at is None for prompt in page),
        some_retired=any(prompt.retired_at is not None for prompt in page),
        without_document=context.arena.prompts.filter(document="").exclude(category="").count(),
        some_documents=any(prompt.document for prompt in page),
        some_variables=context.can_see_variables and any(prompt.variables for prompt in page),
        query=query.urlencode(),
        showcased=context.arena.prompts.filter(in_showcase=True).order_by("category", "pk"),
        suggested=prompts.suggest_for_showcase(context.arena) if context.can_submit else [],
        least_in_voting=prompts.LEAST_IN_VOTING,
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


@require_permission("can_submit")
@require_POST
def use_categories(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """Take categories as documents, for prompts that have none."""
    count = prompts.use_categories_as_documents(arena=context.arena, by=context.actor)
    has = "has its category" if count == 1 else "have their category"
    messages.success(request, f"{numbered(count, 'prompt')} now {has} as the document.")
    return redirect("manage_prompts", context.arena.slug)


@limit_upload
@require_permission("can_submit")
@require_http_methods(["GET", "HEAD", "POST"])
def add_prompts(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """Add pasted prompts, or those in a file once its preview is confirmed, and report each row."""
    form, page = AddPromptsForm(), dict[str, Any]()
    if request.method == "POST":
        form = AddPromptsForm(request.POST, request.FILES)
        if form.is_valid():
            try:
                page = _added_or_previewed(request, context, form)
            except FileError as error:
                form.add_error("pasted" if form.is_pasted else "file", str(error))
            except responses.UploadError as error:
                add_service_error(form, error)
    template = "manage/import.html" if "preview" in page else "manage/add_prompts.html"
    return context.render(template, tab="prompts", **{"form": form} | page)


def _added_or_previewed(
    request: HttpRequest, context: ArenaContext, form: AddPromptsForm
) -> dict[str, Any]:
    """Return what the page shows after this request. Raises FileError or UploadError."""
    arena, fields, do = context.arena, form.cleaned_data, request.POST.get("do")
    if form.is_pasted:
        return _added(context, fields, parse_pasted(fields["pasted"]))
    file, key, roles = fields["file"], "", form.chosen_roles()
    if file:
        name, data, roles = file.name, form.file_bytes(), {}
        if page := _of_another_tool(context, name, data):
            return page
    else:
        key = fields["kept"]
        name, data = responses.kept_upload(place=arena, key=key, by=context.actor)
    table = read_table(data, columns=PROMPTS, roles=roles)
    if not file and do == "confirm":
        return _added(context, fields, table)
    unasked = [] if roles else prompts.new_variables(arena, table.rows)
    key = key or responses.keep_upload(place=arena, name=name, data=data, by=context.actor)
    initial = {"kept": key} | {name: fields[name] for name in ("category", "document", "atomic")}
    unread = unasked if len(unasked) > MOST_UNASKED else []
    return {
        "form": AddPromptsForm(initial=initial, table=table, unread=unread),
        "table": table,
        "unread": unread,
    }


def _added(
    context: ArenaContext, fields: dict[str, Any], table: Table[PromptRow]
) -> dict[str, Any]:
    rows = [
        replace(
            row,
            category=row.category or fields["category"],
            document=row.document or fields["document"],
        )
        for row in table.rows
    ]
    report = prompts.upsert_prompts(
        arena=context.arena,
        rows=rows,
        unread=table.problems,
        by=context.actor,
        atomic=fields["atomic"],
    )
    is_done = report.written and not report.problems
    page = {"report": report, "notices": table.notices}
    return page | ({"form": AddPromptsForm()} if is_done else {})


def _of_another_tool(context: ArenaContext, name: str, data: bytes) -> dict[str, Any] | None:
    """What the page shows of a file that is more than a table of prompts; None for such a table."""
    try:
        page = _preview(context, responses.Upload(name, data))
    except responses.UploadError:
        if name.lower().endswith((".yaml", ".yml")):
            raise
        return None
    files = page["preview"].files
    is_table = all(file.format_name in ("native", "prompts") for file in files)
    return None if is_table and {*page["preview"].rows} == {"prompts"} else page


@limit_upload
@require_permission("can_read")
@require_http_methods(["GET", "HEAD", "POST"])
def edit_prompt(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Show a prompt to the arena's team, or change it; once it is in use, only its document."""
    if request.method == "POST" and not context.can_submit:
        raise PermissionDenied(READ_ONLY)
    prompt = _find_prompt(context, pk)
    fixed = bool(prompts.prompts_in_use(context.arena, [prompt.pk]))
    # A form that was opened before the prompt was in use is refused, not saved in part.
    form_class = DocumentForm if fixed and "text" not in request.POST else PromptForm
    form = form_class(request.POST) if request.method == "POST" else form_class(instance=prompt)
    if form.is_bound and form.is_valid():
        with errors_in(form):
            prompts.revise_prompt(prompt=prompt, by=context.actor, **form.cleaned_data)
            messages.success(request, f"Prompt {prompt} saved.")
            return redirect("manage_prompts", context.arena.slug)
    return context.render(
        "manage/prompt.html",
        tab="prompts",
        prompt=prompt,
        fixed=fixed,
        form=form,
    )


@require_permission("can_submit")
@require_POST
def retire_prompt(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    prompt = _find_prompt(context, pk)
    _archive_or_restore(request, context, Prompt.objects.filter(pk=prompt.pk), f"Prompt {prompt}")
    return redirect("edit_prompt", context.arena.slug, prompt.pk)


@require_permission("can_submit")
@require_POST
def showcase(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Show visitors the answers to a prompt with their authors, or stop showing them."""
    prompt = _find_prompt(context, pk)
    with errors_as_messages(request):
        if request.POST.get("action") == "remove":
            prompts.remove_from_showcase(prompt=prompt, by=context.actor)
            messages.success(request, f"Prompt {prompt} removed from the showcase.")
        else:
            prompts.showcase_prompt(prompt=prompt, by=context.actor, now=timezone.now())
            messages.success(request, f"Prompt {prompt} is in the showcase.")
    return redirect(f"{reverse('manage_prompts', args=[context.arena.slug])}#showcase")


@require_permission("can_submit")
@require_POST
def retire_prompts(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """Archive or restore the chosen prompts, or all that match the filter in the address."""
    rows = _filtered(context.arena, FilterForm(request.GET, arena=context.arena))
    if not request.POST.get("every"):
        rows = rows.filter(pk__in=filter(str.isdecimal, request.POST.getlist("prompt")))
    _archive_or_restore(request, context, rows)
    url = reverse("manage_prompts", args=[context.arena.slug])
    return redirect(f"{url}?{request.GET.urlencode()}")


def _archive_or_restore(
    request: HttpRequest, context: ArenaContext, rows: QuerySet[Prompt], name: str = ""
) -> None:
    """Do what the pressed button says, and say what became of the prompts."""
    arena, by = context.arena, context.actor
    if request.POST.get("do") == "bring_back":
        if named := rows.exclude(showcased_at=None).first():
            messages.warning(request, prompts.NAMED.format(id=quoted(named.external_id)))
            rows = rows.filter(showcased_at=None)
            if not rows.exists():
                return
        count = prompts.bring_back_prompts(arena=arena, prompts=rows, by=by)
        done = "restored."
    else:
        count = prompts.retire_prompts(arena=arena, prompts=rows, by=by, now=timezone.now())
        they = "it; its" if count == 1 else "them; their"
        done = f"archived. Raters no longer see {they} votes still count."
    if count or name:
        messages.success(request, f"{name or numbered(count, 'prompt')} {done}")
    else:
        messages.warning(request, f"Nothing was {done.split('.')[0]}: choose at least one prompt.")


@require_permission("can_manage")
@require_POST
def remove_prompt(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    prompt = _find_prompt(context, pk)
    with errors_as_messages(request):
        prompts.delete_prompt(prompt=prompt, by=context.actor)
        messages.success(request, f"Prompt {prompt} deleted.")
        return redirect("manage_prompts", context.arena.slug)
    return redirect("edit_prompt", context.arena.slug, pk)


def _find_prompt(context: ArenaContext, pk: int) -> Prompt:
    return get_object_or_404(context.arena.prompts.revealed(), pk=pk)


@limit_upload
@require_permission("can_submit")
@require_http_methods(["GET", "HEAD", "POST"])
def import_file(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """Preview a file of any format, and import it once that is confirmed."""
    form = ImportForm(request.POST or None, request.FILES or None)
    page = _of_file(request, context, form) if form.is_bound and form.is_valid() else {}
    return context.render("manage/import.html", tab="prompts", **{"form": form} | page)


def _of_file(request: HttpRequest, context: ArenaContext, form: ImportForm) -> dict[str, Any]:
    """Return what the page shows after this request."""
    arena, fields, key = context.arena, form.cleaned_data, form.cleaned_data["kept"]
    format_name, skip_bad = fields["format"] or "auto", fields["skip_bad"]
    try:
        if file := fields["file"]:
            upload = responses.Upload(file.name, file.read(AT_MOST_BYTES + 1), format_name)
            key = ""
        else:
            name, data = responses.kept_upload(place=arena, key=key, by=context.actor)
            values, roles = form.chosen_values(), form.chosen_roles()
            upload = responses.Upload(name, data, format_name, values=values, roles=roles)
    except responses.UploadError as error:
        add_service_error(form, error)
        return {}
    upload = replace(upload, skip_bad=skip_bad)
    try:
        if request.POST.get("do") == "import" and key:
            return _imported(context, upload)
        return _preview(context, upload, key)
    except responses.BadUploadError as error:
        form.add_error("skip_bad", error.message)
        again = responses.preview_upload(arena=arena, upload=upload)
        return {**_shown(form, again), "problems": error.rejected.lines}
    except responses.UploadError as error:
        return _columns_to_choose(context, upload, key, form, error)


def _imported(context: ArenaContext, upload: responses.Upload) -> dict[str, Any]:
    """Import the file; return what the page says of it. Raises UploadError."""
    arena = context.arena
    report = responses.import_upload(
        arena=arena, upload=upload, by=context.actor, now=timezone.now()
    )
    added: dict[str, int] = {}
    for file in report.files:
        if file.added and not file.known:
            added[file.kind] = added.get(file.kind, 0) + file.added
        if file.checks and not file.known:
            added["checks"] = added.get("checks", 0) + file.checks
    unread = dict.fromkeys(name for read in report.files for name in read.unread)
    shown = {"form": ImportForm(), "report": report, "added": added, "unread": unread}
    return shown | {"can_vote": arena.has_pairs, "has_votes": arena.votes.live().exists()}


def _preview(context: ArenaContext, upload: responses.Upload, key: str = "") -> dict[str, Any]:
    """Return what the page shows of a file that is not imported yet. Raises UploadError."""
    arena = context.arena
    preview = responses.preview_upload(arena=arena, upload=upload)
    asked = [value for file in preview.files for value, means in file.values.items() if not means]
    if guessed := guesses(asked):
        # What would be added is shown as it would be with the guesses that the page shows.
        guessing = replace(upload, values={**guessed, **upload.values})
        preview = responses.preview_upload(arena=arena, upload=guessing)
    form = ImportForm(initial=_initial(context, upload, key))
    return {"form": form, "asked": asked, **_shown(form, preview)}


def _initial(context: ArenaContext, upload: responses.Upload, key: str) -> dict[str, Any]:
    key = key or responses.keep_upload(
        place=context.arena, name=upload.name, data=upload.data, by=context.actor
    )
    format_name = upload.format_name
    return {"kept": key, "format": format_name, "of": format_name, "skip_bad": upload.skip_bad}


def _shown(form: ImportForm, preview: ImportPreview) -> dict[str, Any]:
    """What the page shows of a preview; columns of several files have nothing in common."""
    if len(preview.files) == 1:
        form.show(preview.files[0])
    return {"preview": preview, "problems": preview.rejected.lines}


def _columns_to_choose(
    context: ArenaContext,
    upload: responses.Upload,
    key: str,
    form: ImportForm,
    error: responses.UploadError,
) -> dict[str, Any]:
    """Return what the page shows of a file that cannot be read as it is: if it is a table, its
    columns, to choose what they are."""
    has_chosen = key and form.is_of_this_format
    table = None
    if has_chosen or isinstance(error, responses.UnknownUploadError):
        table = responses.table_of_upload(upload=upload)
    if table is None:
        add_service_error(form, error)
        return {}
    if has_chosen:
        form.add_error(None, error.message)
        form.show(table)
        return {}
    why = error.message if upload.format_name != "auto" else ""
    form = ImportForm(initial=_initial(context, upload, key), file=table)
    return {"form": form, "unknown": table, "why": why}
