"""Runs of human votes of an arena: their progress, ordering one, and cancelling it."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from arena.errors import ServiceError
from arena.forms.arenas import VoteOrderForm
from arena.models import Run, RunRater
from arena.services import orders, voting
from arena.validation import numbered
from arena.views.arena_context import (
    READ_ONLY,
    ArenaContext,
    render_in_context,
    require_permission,
)

RUNS_PER_PAGE = 10


@dataclass(frozen=True)
class ListedRun:
    """A run of human votes with its named raters; it has none if anybody can vote for it."""

    run: Run
    raters: Sequence[RunRater]

    @property
    def repeats_done(self) -> int:
        return sum(named.repeats_done for named in self.raters)

    @property
    def repeats_same(self) -> int:
        return sum(named.repeats_same for named in self.raters)

    @property
    def self_agreement(self) -> int | None:
        """The percentage of pairs asked twice on which both votes were the same."""
        return round(100 * self.repeats_same / self.repeats_done) if self.repeats_done else None


@require_permission("can_read")
@require_http_methods(["GET", "HEAD", "POST"])
def vote_orders(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """List the runs of human votes, and order one."""
    arena = context.arena
    form = VoteOrderForm(request.POST or None, team=arena.team)
    if request.method == "POST":
        if not context.can_judge:
            raise PermissionDenied(READ_ONLY)
        if form.is_valid():
            fields = form.cleaned_data
            raters = [voting.rater_of_person(user_id=int(pk)) for pk in fields.pop("raters")]
            try:
                run = orders.order_people_run(
                    arena=arena, by=context.actor, raters=raters, **fields
                )
            except ValidationError as error:
                form.add_error(None, error)
            else:
                messages.success(request, f"{numbered(run.votes_wanted, 'vote')} requested.")
                return redirect("vote_orders", arena.slug)
    runs = (
        arena.runs.of_people().select_related("created_by").prefetch_related("raters__rater__user")
    )
    page = Paginator(runs.order_by("-pk"), RUNS_PER_PAGE).get_page(request.GET.get("page"))
    return render_in_context(
        request,
        context,
        "manage/votes.html",
        tab="votes",
        form=form,
        page=page,
        listed=[
            ListedRun(run, sorted(run.raters.all(), key=lambda named: named.pk)) for run in page
        ],
    )


@require_permission("can_judge")
@require_POST
def cancel_order(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Cancel a run of human votes; the votes cast so far stay."""
    run = get_object_or_404(Run.objects.of_people(), pk=pk, arena=context.arena)
    try:
        orders.cancel_people_run(run=run, by=context.actor, now=timezone.now())
    except ServiceError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, "Request cancelled. Votes cast so far still count.")
    return redirect("vote_orders", context.arena.slug)
