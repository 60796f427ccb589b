"""One verdict to be read, marked, and voted on by whoever reads it."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from arena.access import actor_of, may_read_references, may_read_spending
from arena.models import Arena, Comparison, Rater, Run
from arena.services.issuing import VoteRefused, issue_this_pair
from arena.services.voting import Blocked
from arena.views import visitors
from judges.models import Judgement, Mark
from judges.pages.addresses import marks_url, verdict_url
from judges.pages.listing import NoSuchFilter, Shown, neighbours
from judges.pages.verdicts import (
    conclusion,
    has_public_page,
    has_secrets,
    juries_of,
    may_repeat_secrets,
    readings_of,
    texts_of,
)
from judges.services.marking import MarkRefused, mark_reasoning
from judges.views.access import (
    check_steering,
    find_run,
    find_trial,
    operators_only,
)
from judges.views.names import NamesSeen, knows_names, remember_names

TOO_MANY = "Too many new voters from your address. Wait a while, then try again."


@require_safe
@vary_on_headers("HX-Request")
def judge_verdict(request: HttpRequest, slug: str, pk: int, judgement: int) -> HttpResponse:
    """Both answers, and beside them what the judge said of them in each order."""
    return _verdict_page(request, find_run(request, slug, pk), judgement)


@require_safe
@vary_on_headers("HX-Request")
@operators_only
def trial_verdict(request: HttpRequest, pk: int, judgement: int) -> HttpResponse:
    """The same for a labelled item."""
    return _verdict_page(request, find_trial(pk), judgement)


def _verdict_page(request: HttpRequest, run: Run, judgement: int) -> HttpResponse:
    """Names are sent only to whoever asks for them, so that everybody else can still vote blind."""
    one, query = _settled(run, judgement), _shown(request).query()
    context: dict[str, Any] = {"arena": run.arena, "run": run, "judgement": one, "query": query}
    context["here"] = verdict_url(run, one.pk, query)
    if with_names := "names" in request.GET and one.comparison is not None:
        remember_names(request, one.responses)
        context["has_page"] = has_public_page(one)
    if with_names and request.headers.get("HX-Request"):
        context["names_seen"] = NamesSeen.sentence
        return render(request, "judges/_names_asked_for.html", context)
    actor = actor_of(request)
    is_told = may_read_references(actor, run.arena)
    is_silent = not is_told and may_repeat_secrets(one)
    context |= _neighbours(request, run, one) | {
        "with_names": with_names,
        "names_seen": NamesSeen.sentence if knows_names(request, one.responses) else "",
        "conclusion": conclusion(one),
        "texts": texts_of(one),
        "readings": readings_of(one),
        "juries": juries_of(one),
        "is_told": is_told,
        "has_secrets": has_secrets(one),
        "is_silent": is_silent,
        "sees_money": may_read_spending(actor, run.arena),
        "marks": [] if is_silent else _marks(request.user, one),
        "marks_url": marks_url(run, one.pk),
    }
    return render(request, "judges/verdict.html", context)


def _settled(run: Run, judgement: int) -> Judgement:
    settled = Judgement.objects.exclude(state=Judgement.State.WAITING).with_texts()
    calls = settled.select_related("forward__needs", "reverse")
    return get_object_or_404(calls, run=run, pk=judgement)


def _shown(request: HttpRequest) -> Shown:
    try:
        return Shown.of(request.GET.dict())
    except NoSuchFilter:
        raise Http404("There is no such state or judge.") from None


def _neighbours(request: HttpRequest, run: Run, one: Judgement) -> dict[str, str | None]:
    shown = _shown(request)
    before, after = neighbours(shown.of_run(run), one)
    return {
        "before": verdict_url(run, before, shown.query()) if before else None,
        "after": verdict_url(run, after, shown.query()) if after else None,
    }


# -- Voting on the same two ------------------------------------------------------------------------


@require_POST
def vote_on_verdict(request: HttpRequest, slug: str, pk: int, judgement: int) -> HttpResponse:
    """Give the reader a comparison of these two answers, on the ordinary voting page."""
    run = find_run(request, slug, pk)
    one = _settled(run, judgement)
    open_to_all = run.in_arena.voters == Arena.Voters.ANYONE
    if not open_to_all and not request.user.is_authenticated:
        return redirect_to_login(verdict_url(run, one.pk))
    try:
        rater, comparison = _issue(request, one)
    except (VoteRefused, visitors.TooManyRaters) as refusal:
        messages.warning(request, str(refusal) or TOO_MANY)
        return redirect(verdict_url(run, one.pk))
    query = urlencode({"pair": str(comparison.key)})
    response = redirect(f"{reverse('vote', args=[slug])}?{query}")
    visitors.remember(response, rater)
    return response


def _issue(request: HttpRequest, one: Judgement) -> tuple[Rater, Comparison]:
    judged = one.comparison
    if judged is None or judged.left_response_id is None or judged.right_response_id is None:
        raise Http404("There are no two answers of an arena here.")
    if knows_names(request, one.responses):
        raise NamesSeen
    rater = visitors.find_or_make_rater(request)
    if rater.blocked_at:
        raise Blocked
    comparison = issue_this_pair(
        arena=judged.arena,
        rater=rater,
        responses=(judged.left_response_id, judged.right_response_id),
        now=timezone.now(),
    )
    return rater, comparison


# -- Marks -----------------------------------------------------------------------------------------


def _marks(user: Any, one: Judgement) -> list[dict[str, Any]]:
    """The three kinds of marks, with what this person has said of each."""
    if not user.is_authenticated:
        return []
    made = dict(one.marks.filter(user=user).values_list("kind", "holds"))
    return [
        {"kind": kind.value, "label": kind.label, "holds": made.get(kind.value)}
        for kind in Mark.Kind
    ]


@require_POST
def mark_verdict(request: HttpRequest, slug: str, pk: int, judgement: int) -> HttpResponse:
    """Take what a signed-in person says of a judge's reasoning."""
    run = find_run(request, slug, pk)
    if not request.user.is_authenticated:
        raise PermissionDenied("Sign in to say what you think of a judge’s reasoning.")
    return _mark(request, run, judgement)


@require_POST
def mark_trial(request: HttpRequest, pk: int, judgement: int) -> HttpResponse:
    """The same for a labelled item, of operators."""
    check_steering(request, None)
    return _mark(request, find_trial(pk), judgement)


def _mark(request: HttpRequest, run: Run, judgement: int) -> HttpResponse:
    one = get_object_or_404(Judgement.objects.with_texts(), run=run, pk=judgement)
    if may_repeat_secrets(one) and not may_read_references(actor_of(request), run.arena):
        raise PermissionDenied("What this judge wrote is for the arena’s team alone.")
    kind, _, said = request.POST.get("mark", "").partition(":")
    try:
        mark_reasoning(
            judgement=one, user=request.user, kind=kind, holds=said == "yes", now=timezone.now()
        )
    except MarkRefused as refusal:
        messages.warning(request, str(refusal))
    if request.headers.get("HX-Request"):
        context = {"marks": _marks(request.user, one), "marks_url": marks_url(run, one.pk)}
        return render(request, "judges/_marks.html", context)
    return redirect(verdict_url(run, one.pk) + "#marks")
