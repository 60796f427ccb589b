"""Baseline views, which do as little as a view can behind the same middleware."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from benchmarks.models import BareVote


@require_POST
def insert(request: HttpRequest) -> HttpResponse:
    with transaction.atomic():
        row = BareVote.objects.create(outcome=request.POST["outcome"], cast_at=timezone.now())
    return HttpResponse(f"<p>Row {row.pk} is there.</p>")


@require_safe
def constant(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<p>Hello.</p>")
