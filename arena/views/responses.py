"""Uploading a candidate's answers, and the size limit of all forms in the workspace."""

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods

from arena.files.reader import FileError
from arena.files.tables import AT_MOST_BYTES, RESPONSES, read_table
from arena.forms.base import add_service_error
from arena.forms.prompts import UploadAnswersForm
from arena.prompting.templates import TEXT_LIMIT
from arena.services.candidate_checks import CandidateError
from arena.services.responses import upsert_responses
from arena.views.arena_context import ArenaContext, render_in_context, require_permission

MAX_FORM_BYTES = AT_MOST_BYTES + 2_000_000  # a file and the fields around it
MAX_DRAINED_BYTES = 64_000_000
CHUNK = 1 << 16
View = Callable[..., HttpResponse]


# -- Size limits -----------------------------------------------------------------------------------

# Django limits the size of a form's fields, but not of its files.


class BoundedForms(FileUploadHandler):
    """The first upload handler, which refuses too large a form before any of it is stored."""

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


def limit_upload(view: View) -> View:
    """Answer a form that is too large with a page that explains it, instead of a bare error.

    The CSRF check reads the whole form, so it has to come after the size check.
    """
    protected = csrf_protect(view)

    @csrf_exempt
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if _content_length(request) > MAX_FORM_BYTES:
            return _too_large(request, is_file=True)
        try:
            request.POST  # noqa: B018  (reading it is the check)
        except RequestDataTooBig:
            return _too_large(request, is_file=False)
        return protected(request, *args, **kwargs)

    return guarded


def _content_length(request: HttpRequest) -> int:
    header = request.META.get("CONTENT_LENGTH") or "0"
    return int(header) if header.isdecimal() else 0


def _too_large(request: HttpRequest, *, is_file: bool) -> HttpResponse:
    """Show the error page, which names no arena, so as not to reveal whether one exists."""
    length = _content_length(request)
    context = {
        "is_file": is_file,
        "size": f"{length / 1e6:,.1f}",
        "max_file_size": f"{AT_MOST_BYTES // 1_000_000:,}",
        "max_characters": f"{TEXT_LIMIT:,}",
    }
    if length <= MAX_DRAINED_BYTES:
        # A browser that is cut off while still sending would show no page at all.
        with suppress(UnreadablePostError):
            while request.read(CHUNK):
                pass
    return render(request, "413.html", context, status=413)


# -- Uploading answers -----------------------------------------------------------------------------


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
            except FileError as error:
                form.add_error("file" if form.cleaned_data["file"] else "pasted", str(error))
            except CandidateError as error:
                add_service_error(form, error)
            else:
                notices = table.notices
                if report.written and not report.problems:
                    form = UploadAnswersForm()
    return render_in_context(
        request,
        context,
        "manage/upload_answers.html",
        tab="candidates",
        candidate=candidate,
        form=form,
        report=report,
        notices=notices,
    )
