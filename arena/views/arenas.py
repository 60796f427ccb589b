"""An arena's workspace: its overview with the next step, its creation, settings and
deletion, and its orders for human votes.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.actors import TeamPermission, actor_of
from arena.files.reader import FileError
from arena.forms.arenas import ArchiveForm, ArenaForm, VoteOrderForm
from arena.forms.base import errors_as_messages, errors_in
from arena.models import Arena, Candidate, Rater, Response, Run, RunRater, Team
from arena.outcomes import BOTH_BAD, VOTES_PER_CANDIDATE
from arena.permissions import can_change, is_blind, is_open_to
from arena.services import orders
from arena.services.arenas import (
    create_raters_link,
    create_team_arena,
    delete_arena,
    revoke_raters_link,
    update_arena,
)
from arena.services.imports import ArenaImportError, import_archive
from arena.services.raters import rater_of_person
from arena.validation import join_names, numbered
from arena.views.arena_context import HIDDEN_NAMES, READ_ONLY, ArenaContext, require_permission
from arena.views.prompts import limit_upload
from arena.views.teams import for_team

VOTERS = {Rater.Kind.PERSON: "human", Rater.Kind.JUDGE: "LLM-judge", Rater.Kind.JURY: "jury"}
MIN_CANDIDATES = 2  # with answers, before anything can be compared


@dataclass(frozen=True)
class Voters:
    """One kind of raters, with their votes as leaderboards count them: “both bad” apart."""

    kind: str
    votes: int
    both_bad: int


@dataclass(frozen=True)
class Overview:
    """The content of an arena; `candidates` are those of the reader's teams."""

    prompts: int
    retired_prompts: int
    candidates: Sequence[Candidate]
    others: int
    others_with_answers: int
    voters: Sequence[Voters]
    runs: Sequence[Run]

    @property
    def active(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.retired_at is None]

    @property
    def comparable(self) -> bool:
        """Whether there is anything to vote on; candidates of other teams count."""
        own_with_answers = sum(1 for candidate in self.active if answer_count(candidate))
        return own_with_answers + self.others_with_answers >= MIN_CANDIDATES

    @property
    def unanswered(self) -> list[tuple[Candidate, int]]:
        """Candidates with unanswered prompts and the number of these, largest first."""
        missing = [(candidate, self.prompts - answer_count(candidate)) for candidate in self.active]
        lacking = [(candidate, count) for candidate, count in missing if count > 0]
        return sorted(lacking, key=lambda row: -row[1])

    @property
    def votes_needed(self) -> int:
        """The votes of one kind of rater without which no leaderboard ranks the candidates."""
        with_answers = sum(1 for candidate in self.active if answer_count(candidate))
        candidates = with_answers + self.others_with_answers
        return -(-VOTES_PER_CANDIDATE * max(candidates, MIN_CANDIDATES) // 2)

    @property
    def most_votes(self) -> int:
        return max((voters.votes for voters in self.voters), default=0)

    @property
    def to_answer(self) -> list[Candidate]:
        """Candidates with unanswered prompts that no run is generating answers to."""
        generating = {run.candidate_id for run in self.runs}
        return [candidate for candidate, _ in self.unanswered if candidate.pk not in generating]

    @property
    def paused(self) -> Run | None:
        """The oldest run that waits for somebody to resume or cancel it."""
        return next((run for run in self.runs if run.state == Run.State.PAUSED), None)

    @property
    def collecting(self) -> Run | None:
        """The oldest unfinished run that collects votes."""
        voting = (run for run in self.runs if run.kind not in (Run.Kind.ANSWERS, Run.Kind.LIVE))
        return next((run for run in voting if run.state != Run.State.PAUSED), None)

    @property
    def step(self) -> str:
        """The next thing to do, or to wait for: prompts, candidates, paused, answers, generating,
        votes, collecting or decide."""
        few_candidates = len(self.active) + self.others < MIN_CANDIDATES or not self.active
        steps = {
            "prompts": not self.prompts,
            "candidates": few_candidates,
            "paused": self.paused is not None,
            "answers": bool(self.to_answer) or not (self.comparable or self.unanswered),
            "generating": bool(self.unanswered),
            "decide": self.most_votes >= self.votes_needed,
            "collecting": self.collecting is not None,
        }
        return next((step for step, is_next in steps.items() if is_next), "votes")


def overview_of(arena: Arena, own_candidates: QuerySet[Candidate]) -> Overview:
    prompts = arena.prompts.revealed().aggregate(
        active=Count("pk", filter=Q(retired_at=None)),
        retired=Count("pk", filter=~Q(retired_at=None)),
    )
    candidates = list(with_answer_counts(own_candidates))
    others = arena.candidates.active().exclude(pk__in=[candidate.pk for candidate in candidates])
    answers = Response.objects.filter(candidate=OuterRef("pk"))
    kinds = arena.votes.live().order_by().values("rater__kind")
    both_bad = Q(outcome=BOTH_BAD)
    votes = {
        row["rater__kind"]: row
        for row in kinds.annotate(
            votes=Count("pk", filter=~both_bad), both_bad=Count("pk", filter=both_bad)
        )
    }
    own_answers = Q(candidate=None) | Q(candidate__in=[candidate.pk for candidate in candidates])
    runs = arena.runs.not_over().filter(own_answers).select_related("candidate").order_by("pk")
    return Overview(
        prompts=prompts["active"],
        retired_prompts=prompts["retired"],
        candidates=candidates,
        others=others.count(),
        others_with_answers=others.filter(Exists(answers)).count(),
        voters=[
            Voters(name, votes[kind]["votes"], votes[kind]["both_bad"])
            for kind, name in VOTERS.items()
            if kind in votes
        ],
        runs=list(runs),
    )


def with_answer_counts(candidates: QuerySet[Candidate]) -> QuerySet[Candidate]:
    """Annotate `n_answers`, the number of active prompts answered; active candidates come first."""
    answers = Response.objects.filter(candidate=OuterRef("pk"), prompt__retired_at=None)
    count = answers.order_by().values("candidate").annotate(n=Count("pk")).values("n")
    return (
        candidates.annotate(n_answers=Coalesce(Subquery(count), 0))
        .select_related("team", "created_by")
        .order_by(F("retired_at").asc(nulls_first=True), "name", "version")
    )


def answer_count(candidate: Candidate) -> int:
    """Return the annotation of `with_answer_counts`; 0 without one."""
    return int(getattr(candidate, "n_answers", 0))


@limit_upload
@for_team(TeamPermission.SUBMIT)
@require_http_methods(["GET", "HEAD", "POST"])
def new_arena(request: HttpRequest, team: Team) -> HttpResponse:
    form = ArenaForm(request.POST) if request.method == "POST" else ArenaForm()
    if form.is_bound and form.is_valid():
        with errors_in(form):
            arena = create_team_arena(team=team, by=actor_of(request), **form.cleaned_data)
            messages.success(request, f"{arena} has been created.")
            return redirect("manage_arena", arena.slug)
    return render(request, "manage/arena_form.html", {"team": team, "form": form})


@require_permission("can_visit")
@require_safe
def manage_arena(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    arena, actor = context.arena, context.actor
    overview = overview_of(arena, context.own_candidates())
    to_answer = [
        candidate
        for candidate in overview.to_answer
        if is_open_to(actor, arena, candidate.team_id) and can_change(actor, candidate)
    ]
    return context.render(
        "manage/arena.html",
        tab="overview",
        overview=overview,
        to_answer=to_answer,
        decision_url=_decision_url(context),
    )


def _decision_url(context: ArenaContext) -> str:
    """Return the decision page of the arena's team, or for guests of their own team; else ''."""
    team = context.arena.team if context.can_read else None
    if team is None:
        own_teams = context.actor.teams_with(TeamPermission.READ)
        team = own_teams.filter(candidates__arena=context.arena).order_by("pk").first()
    # The page belongs to the judges app, which this app must not import.
    return reverse("decision", args=[team.slug, context.arena.slug]) if team else ""


@limit_upload
@require_permission("can_manage")
@require_http_methods(["GET", "HEAD", "POST"])
def arena_settings(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    arena = context.arena
    posted = request.POST if request.method == "POST" else None
    form = ArenaForm(posted, instance=arena)
    if form.is_bound and form.is_valid():
        with errors_in(form):
            update_arena(arena=arena, by=context.actor, **form.cleaned_data)
            messages.success(request, "Settings saved.")
            return redirect("arena_settings", arena.slug)
    return context.render(
        "manage/arena_form.html",
        tab="settings",
        form=form,
        n_votes=arena.votes.count(),
    )


@limit_upload
@for_team(TeamPermission.SUBMIT)
@require_http_methods(["GET", "HEAD", "POST"])
def import_arena(request: HttpRequest, team: Team) -> HttpResponse:
    """Import an exported arena as a private one of the team."""
    form = ArchiveForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        uploaded = form.cleaned_data["file"]
        with tempfile.TemporaryDirectory(prefix="import-") as folder:
            path = Path(folder) / (Path(uploaded.name).stem + ".zip")
            with path.open("wb") as file:
                for chunk in uploaded.chunks():
                    file.write(chunk)
            try:
                arena = import_archive(
                    team=team, by=actor_of(request), path=path, now=timezone.now()
                )
            except (FileError, ArenaImportError) as error:
                form.add_error("file", str(error))
            else:
                messages.success(
                    request,
                    f"{arena} has been imported. It is private until you change its settings.",
                )
                return redirect("manage_arena", arena.slug)
    return render(request, "manage/import_arena.html", {"team": team, "form": form})


@require_permission("can_manage")
@require_safe
def download_arena(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """Lead to the whole arena as a zip file."""
    if is_blind(context.actor, context.arena):
        raise PermissionDenied(HIDDEN_NAMES)
    arena = context.arena
    if not (arena.prompts.exists() or arena.candidates.exists() or arena.votes.exists()):
        messages.error(request, "The arena is empty: there is nothing to export.")
        return redirect("arena_settings", arena.slug)
    return redirect("api_export_arena", arena.slug)


@require_permission("can_manage")
@require_POST
def remove_arena(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """Delete the arena with everything in it, if its address was typed to confirm."""
    arena = context.arena
    if request.POST.get("slug", "").strip() != arena.slug:
        messages.error(request, f"Nothing was deleted. Type {arena.slug} to delete the arena.")
        return redirect("arena_settings", arena.slug)
    delete_arena(arena=arena, by=context.actor)
    messages.success(request, f"{arena} has been deleted.")
    return redirect(arena.team) if arena.team else redirect("teams")


RUNS_PER_PAGE = 10


@dataclass(frozen=True)
class ListedRun:
    """A run of human votes with its named raters; it has none if anybody can vote for it.

    `among`: the names of the candidates that it asks about, or "" for all.
    """

    run: Run
    raters: Sequence[RunRater]
    among: str

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
    form = VoteOrderForm(request.POST or None, arena=arena)
    if request.method == "POST":
        if not context.can_judge:
            raise PermissionDenied(READ_ONLY)
        if form.is_valid():
            fields = form.cleaned_data
            raters = [rater_of_person(user_id=int(pk)) for pk in fields.pop("raters")]
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
    names = _names_asked_about(context, list(page))
    return context.render(
        "manage/votes.html",
        tab="votes",
        form=form,
        page=page,
        listed=[
            ListedRun(
                run,
                sorted(run.raters.all(), key=lambda named: named.pk),
                join_names(names.get(run.pk, ())),
            )
            for run in page
        ],
    )


def _names_asked_about(context: ArenaContext, listed: Sequence[Run]) -> dict[int, list[str]]:
    """The candidates that each run asks about, where these are not all of the arena's."""
    rows = context.arena.candidates.revealed().only("name", "version", "team", "disclosed_at")
    known = {row.pk: row for row in rows.order_by("pk")}
    active = set(context.arena.candidates.active().values_list("pk", flat=True))
    return {
        run_id: [context.reader.name_of(row) for pk, row in known.items() if pk in asked]
        for run_id, asked in orders.candidates_asked_about(listed).items()
        if not active <= asked
    }


@require_permission("can_judge")
@require_POST
def cancel_order(request: HttpRequest, context: ArenaContext, pk: int) -> HttpResponse:
    """Cancel a run of human votes; the votes cast so far stay."""
    run = get_object_or_404(Run.objects.of_people(), pk=pk, arena=context.arena)
    with errors_as_messages(request):
        orders.cancel_people_run(run=run, by=context.actor, now=timezone.now())
        messages.success(request, "Request cancelled. Votes cast so far still count.")
    return redirect("vote_orders", context.arena.slug)


@require_permission("can_manage")
@require_POST
def change_raters_link(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """Create or revoke the link with which raters vote in a private arena."""
    if request.POST.get("action") == "revoke":
        revoke_raters_link(arena=context.arena, by=context.actor)
        messages.success(request, "Link revoked. Votes cast with it still count.")
    else:
        create_raters_link(arena=context.arena, by=context.actor)
        messages.success(request, "Link created.")
    return redirect("vote_orders", context.arena.slug)
