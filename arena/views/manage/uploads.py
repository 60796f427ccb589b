"""Answers that a team brings itself."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from arena.forms.blaming import blame
from arena.forms.prompts import UploadAnswersForm
from arena.services.candidate_checks import CandidateRefused
from arena.services.uploads import upsert_responses
from arena.uploads import RESPONSES, UploadRefused, read_table
from arena.views.manage.desk import Desk, at_desk, desk_page, visits
from arena.views.manage.sizes import told_if_too_large


@told_if_too_large
@at_desk(visits)
@require_http_methods(["GET", "HEAD", "POST"])
def upload_answers(request: HttpRequest, desk: Desk, pk: int) -> HttpResponse:
    """Upload a file of answers, and read what became of each row."""
    candidate = desk.candidate_to_change(pk)
    form = (
        UploadAnswersForm(request.POST, request.FILES)
        if request.method == "POST"
        else UploadAnswersForm()
    )
    context: dict[str, Any] = {"candidate": candidate, "form": form}
    if form.is_bound and form.is_valid():
        try:
            table = read_table(form.data_of_file(), columns=RESPONSES)
            report = upsert_responses(
                candidate=candidate,
                rows=table.rows,
                unread=table.problems,
                by=desk.actor,
                atomic=form.cleaned_data["atomic"],
            )
        except UploadRefused as refusal:
            form.add_error("file" if form.cleaned_data["file"] else "pasted", str(refusal))
        except CandidateRefused as refusal:
            blame(form, refusal)
        else:
            if report.written and not report.problems:
                context["form"] = UploadAnswersForm()
            context |= {"report": report, "notices": table.notices}
    return desk_page(request, desk, "manage/upload_answers.html", "candidates", context)
