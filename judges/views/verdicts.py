"""The page of one verdict, with its answers, replies and cost.

Answers are called left and right throughout, as the comparison fixes them. A judge knows them by
other names: A is the one that it was shown first.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from arena.actors import actor_of
from arena.markup.answers import render_answer
from arena.markup.markdown import render_markdown
from arena.models import Arena, Comparison, Rater, Run, Vote
from arena.outcomes import VERDICTS
from arena.permissions import can_read_references, can_read_spending
from arena.services.ballots import prompt_html, response_html
from arena.services.comparisons import VoteError, issue_pair
from arena.services.voting import BlockedError
from arena.views import raters
from judges.models import Epoch, Judgement, LabelItem, Mark
from judges.permissions import can_read_answers, can_read_reply, has_secrets
from judges.services.feedback import FeedbackError, give_feedback
from judges.services.juries import orient_outcome
from judges.views.access import check_steering, find_run, find_trial, operators_only
from judges.views.addresses import marks_url, run_url, verdict_url
from judges.views.verdict_calls import calls_of
from judges.views.verdict_list import VerdictFilter, neighbours

SESSION_KEY = "names_seen"
MOST_REMEMBERED = 500  # a session is one row; of more pairs the oldest are forgotten
TOO_MANY_VOTERS = "Too many new voters from your address. Try again later."
INCONSISTENT = "Inconsistent when swapped, so no vote"


class NamesSeenError(VoteError):
    message = "You’ve seen which candidates these are, so you can’t vote blind on this pair."


class HiddenAnswersError(VoteError):
    message = "People still vote on these answers blind, so this pair can’t be chosen."


def remember_names(request: HttpRequest, *pairs: str) -> None:
    """Record that this browser was sent the names behind pairs (their judgements' `responses`)."""
    seen = _names_seen(request)
    latest = [*(pair for pair in seen if pair not in pairs), *pairs][-MOST_REMEMBERED:]
    if latest != seen:  # else a list that is polled would write the session each time
        request.session[SESSION_KEY] = latest


def knows_names(request: HttpRequest, responses: str) -> bool:
    return responses in _names_seen(request)


def _names_seen(request: HttpRequest) -> list[str]:
    pairs: list[str] = request.session.get(SESSION_KEY, [])
    return pairs


@dataclass(frozen=True)
class Texts:
    """What was judged, as safe HTML; `right` is None for an item with one answer."""

    prompt: SafeString
    left: SafeString
    right: SafeString | None
    reference: SafeString | None = None


def texts_of(judgement: Judgement) -> Texts:
    """Return the texts of a judgement that was loaded with them."""
    if judgement.item is not None:
        return _texts_of_item(judgement.item)
    comparison = judgement.comparison
    assert comparison is not None, "a judgement is about a comparison or an item"
    prompt = comparison.prompt
    return Texts(
        prompt_html(prompt),
        response_html(comparison.left_response),
        response_html(comparison.right_response),
        _rendered_text(prompt.reference) if prompt and prompt.reference else None,
    )


def _texts_of_item(item: LabelItem) -> Texts:
    has_one_answer = not item.response_2 and not item.trap
    return Texts(
        _rendered_text(item.prompt),
        _rendered_answer(item.response_1),
        None if has_one_answer else _rendered_answer(item.response_2),
        _rendered_text(item.reference) if item.reference else None,
    )


def _rendered_text(text: str) -> SafeString:
    return mark_safe(render_markdown(text))  # noqa: S308  (sanitised by render_markdown)


def _rendered_answer(text: str) -> SafeString:
    return mark_safe(render_answer(text))  # noqa: S308  (sanitised by render_answer)


@dataclass(frozen=True)
class JuryResult:
    """What a jury made of its members' verdicts, in words and with the page's sides."""

    jury: Epoch
    state: str


def juries_of(judgement: Judgement) -> list[JuryResult]:
    """The juries that counted this verdict. Their own comparison may have the sides swapped."""
    left = judgement.comparison.left_response_id if judgement.comparison else None
    juries = []
    for verdict in judgement.jury_verdicts.select_related("epoch__judge", "comparison"):
        votes = {
            orient_outcome(left, outcome, verdict.comparison.left_response_id): count
            for outcome, count in verdict.counts.items()
        }
        counts = [
            f"{words.lower()}: {votes[outcome]}"
            for outcome, words in VERDICTS.items()
            if outcome in votes
        ]
        state = str(verdict.get_state_display()).lower()
        juries.append(
            JuryResult(verdict.epoch, f"{state} ({', '.join(counts)})" if counts else state)
        )
    return juries


def conclusion(judgement: Judgement) -> str:
    """The result of the judgement, in one line."""
    if judgement.score is not None:
        return f"Score {judgement.score:g}"
    if judgement.outcome:
        return VERDICTS[judgement.outcome]
    if judgement.state == Judgement.State.ABSTAINED:
        return INCONSISTENT
    return f"No verdict: {judgement.get_state_display().lower()}"


@require_safe
@vary_on_headers("HX-Request")
def judge_verdict(request: HttpRequest, slug: str, pk: int, judgement: int) -> HttpResponse:
    return _verdict_page(request, find_run(request, slug, pk), judgement)


@require_safe
@vary_on_headers("HX-Request")
@operators_only
def trial_verdict(request: HttpRequest, pk: int, judgement: int) -> HttpResponse:
    return _verdict_page(request, find_trial(pk), judgement)


def _verdict_page(request: HttpRequest, run: Run, pk: int) -> HttpResponse:
    """Names are sent only to those who ask for them, so that everyone else can still vote blind."""
    chosen = VerdictFilter.of(request.GET.dict())
    judgement, query = _find_settled(run, pk), chosen.query()
    context: dict[str, Any] = {
        "arena": run.arena,
        "run": run,
        "judgement": judgement,
        "list_url": f"{run_url(run)}?{query}" if query else run_url(run),
        "names_url": verdict_url(run, pk, f"{query}&names=1" if query else "names=1"),
    }
    if with_names := "names" in request.GET and judgement.comparison is not None:
        remember_names(request, judgement.responses)
        votes = Vote.objects.live().filter(comparison=judgement.comparison_id)
        context["has_page"] = votes.exists()  # the comparison's own page, which shows the names
    if with_names and request.headers.get("HX-Request"):
        context["names_seen"] = NamesSeenError.message
        return render(request, "judges/_names.html", context)
    actor = actor_of(request)
    rater = raters.find_rater(request)
    hides_replies = not can_read_reply(actor, rater, judgement)
    before, after = neighbours(chosen.verdicts_of(run), judgement)
    context |= {
        "before": verdict_url(run, before, query) if before else None,
        "after": verdict_url(run, after, query) if after else None,
        "with_names": with_names,
        "names_seen": NamesSeenError.message if knows_names(request, judgement.responses) else "",
        "conclusion": conclusion(judgement),
        "texts": texts_of(judgement),
        "calls": calls_of(judgement),
        "juries": juries_of(judgement),
        "reads_secrets": can_read_references(actor, run.arena),
        "has_secrets": has_secrets(judgement),
        "hides_answers": hides_replies and not can_read_answers(actor, rater, judgement),
        "hides_replies": hides_replies,
        "sees_money": can_read_spending(actor, run.arena),
        "marks": [] if hides_replies else _own_marks(request.user, judgement),
        "marks_url": marks_url(run, pk),
    }
    return render(request, "judges/verdict.html", context)


def _find_settled(run: Run, pk: int) -> Judgement:
    settled = Judgement.objects.settled().with_texts()
    with_calls = settled.select_related("forward__needs", "reverse")
    return get_object_or_404(with_calls, run=run, pk=pk)


@require_POST
def vote_on_verdict(request: HttpRequest, slug: str, pk: int, judgement: int) -> HttpResponse:
    """Issue the reader a comparison of these two answers, on the ordinary voting page."""
    run = find_run(request, slug, pk)
    settled = _find_settled(run, judgement)
    here = verdict_url(run, settled.pk)
    open_to_all = run.in_arena.voters == Arena.Voters.ANYONE
    if not open_to_all and not request.user.is_authenticated:
        return redirect_to_login(here)
    try:
        rater, comparison = _issue_comparison(request, settled)
    except (VoteError, raters.TooManyRatersError) as error:
        messages.warning(request, str(error) or TOO_MANY_VOTERS)
        return redirect(here)
    query = urlencode({"pair": str(comparison.key)})
    response = redirect(f"{reverse('vote', args=[slug])}?{query}")
    raters.set_rater_cookie(request, response, rater)
    return response


def _issue_comparison(request: HttpRequest, judgement: Judgement) -> tuple[Rater, Comparison]:
    judged = judgement.comparison
    if judged is None or judged.left_response_id is None or judged.right_response_id is None:
        raise Http404("This verdict does not compare two answers in an arena.")
    if knows_names(request, judgement.responses):
        raise NamesSeenError
    # Else two browsers could learn the authors, one from the names and one from the answers.
    if not can_read_answers(actor_of(request), raters.find_rater(request), judgement):
        raise HiddenAnswersError
    rater = raters.find_or_create_rater(request)
    if rater.blocked_at:
        raise BlockedError
    comparison = issue_pair(
        arena=judged.arena,
        rater=rater,
        responses=(judged.left_response_id, judged.right_response_id),
        now=timezone.now(),
    )
    return rater, comparison


def _own_marks(user: Any, judgement: Judgement) -> list[dict[str, Any]]:
    """The three kinds of marks, with this person's own; none without an account."""
    if not user.is_authenticated:
        return []
    own = dict(judgement.marks.filter(user=user).values_list("kind", "holds"))
    return [
        {"kind": kind.value, "label": kind.label, "holds": own.get(kind.value)}
        for kind in Mark.Kind
    ]


@require_POST
def mark_verdict(request: HttpRequest, slug: str, pk: int, judgement: int) -> HttpResponse:
    run = find_run(request, slug, pk)
    if not request.user.is_authenticated:
        raise PermissionDenied(gettext_lazy("Sign in to rate a judge’s reasoning."))
    return _give_feedback(request, run, judgement)


@require_POST
def mark_trial(request: HttpRequest, pk: int, judgement: int) -> HttpResponse:
    check_steering(request, None)
    return _give_feedback(request, find_trial(pk), judgement)


def _give_feedback(request: HttpRequest, run: Run, pk: int) -> HttpResponse:
    judgement = get_object_or_404(Judgement.objects.with_texts(), run=run, pk=pk)
    if not can_read_reply(actor_of(request), raters.find_rater(request), judgement):
        raise PermissionDenied(gettext_lazy("Only the arena’s team can read this judge’s replies."))
    kind, _, answer = request.POST.get("mark", "").partition(":")
    holds, now = answer == "yes", timezone.now()
    try:
        give_feedback(judgement=judgement, user=request.user, kind=kind, holds=holds, now=now)
    except FeedbackError as error:
        messages.warning(request, str(error))
    if request.headers.get("HX-Request"):
        context = {
            "marks": _own_marks(request.user, judgement),
            "marks_url": marks_url(run, pk),
        }
        return render(request, "judges/_marks.html", context)
    return redirect(verdict_url(run, pk) + "#marks")
