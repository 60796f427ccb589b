"""The voting page: a pair, its vote, its undo, the next pair."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.views import redirect_to_login
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST, require_safe
from django_htmx.middleware import HtmxDetails

from arena.access import actor_of
from arena.models import Arena, Comparison, Rater, Vote
from arena.pages.ballots import with_ballots
from arena.services import voting
from arena.services.deadlocks import tried_twice
from arena.services.issuing import MembersOnly, check_admission, issued_comparison
from arena.services.raters import may_have_another
from arena.services.rendering import prompt_html, response_html
from arena.views import visitors

SKIP = "skip"
NOTICES = {refusal.__name__: refusal.sentence for refusal in voting.VoteRefused.__subclasses__()}


class HtmxRequest(HttpRequest):
    """A request as django-htmx's middleware leaves it."""

    htmx: HtmxDetails


@dataclass(frozen=True)
class Ballot:
    """What the page may show of a comparison before the vote: texts, and no name of anybody."""

    key: UUID
    prompt: SafeString
    left: SafeString
    right: SafeString


@dataclass(frozen=True)
class Following:
    """The pair that goes with an answer: not wanted, none left, or not yet, when it is too fast."""

    wanted: bool
    too_fast: bool = False
    comparison: Comparison | None = None


@never_cache
@require_safe
def vote(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the rater's current pair, with what became of the last one."""
    arena = get_object_or_404(with_ballots(Arena.objects.visible_to(actor_of(request))), slug=slug)
    if arena.voters != Arena.Voters.ANYONE and not request.user.is_authenticated:
        return redirect_to_login(request.path)
    try:
        rater = visitors.find_or_make_rater(request)
        check_admission(arena, rater)
    except visitors.TooManyRaters:
        return _slow_down(request, arena)
    except MembersOnly as refusal:
        return _slow_down(request, arena, not_admitted=str(refusal))
    if rater.blocked_at or not _may_have_another(rater):
        return _slow_down(request, arena, blocked=bool(rater.blocked_at))
    comparison = _asked_for(request, arena, rater) or voting.issue_comparison(
        arena=arena, rater=rater, now=timezone.now()
    )
    context = {
        "arena": arena,
        "ballot": _ballot(comparison),
        "done": _done(rater, arena),
        "run": arena.runs.of_people().unfinished().order_by("pk").first(),
        "notice": NOTICES.get(request.GET.get("notice", "")),
        **_aftermath(rater, arena, request.GET.get("after", "")),
    }
    response = render(request, "arena/vote.html", context)
    visitors.remember(response, rater)
    return response


@never_cache
@require_GET
def next_pair(request: HttpRequest, slug: str) -> HttpResponse:
    """Fetch the pair after the one on the screen, so that it is there at once."""
    arena = _arena(request, slug)
    rater = visitors.find_rater(request)
    on_screen = _comparison(request.GET.get("besides", ""), arena)
    if rater is None or on_screen is None or on_screen.rater_id != rater.pk:
        return HttpResponse(status=204)
    if not _may_have_another(rater):
        return HttpResponse(status=204)
    try:
        ahead = voting.issue_comparison(
            arena=arena, rater=rater, now=timezone.now(), besides=on_screen
        )
    except voting.VoteRefused:
        return HttpResponse(status=204)
    return _fragment(request, "arena/_ballot.html", {"arena": arena, "ballot": _ballot(ahead)})


@require_POST
def cast_vote(request: HtmxRequest, slug: str, key: UUID) -> HttpResponse:
    """Take one vote or skip; htmx gets the names back, and the next pair where it asks for it.

    A vote and the pair that follows it share one commit.
    """
    comparison = _issued(request, slug, key)
    try:
        _check_owner(request, comparison.rater)
        vote, following = _take_and_follow(request, comparison)
    except voting.VoteRefused as refusal:
        return _refuse(request, comparison, refusal)
    return _answer(request, comparison, following, vote=vote, skipped=vote is None)


@require_POST
def undo_vote(request: HtmxRequest, slug: str, key: UUID) -> HttpResponse:
    """Void the rater's last vote within its thirty seconds."""
    comparison = _issued(request, slug, key)
    try:
        _check_owner(request, comparison.rater)
        voting.undo_vote(comparison=comparison, rater=comparison.rater, now=timezone.now())
    except voting.VoteRefused as refusal:
        return _refuse(request, comparison, refusal)
    return _answer(request, comparison, _following(request, comparison), vote=None, undone=True)


def _arena(request: HttpRequest, slug: str) -> Arena:
    return get_object_or_404(Arena.objects.visible_to(actor_of(request)), slug=slug)


def _issued(request: HttpRequest, slug: str, key: UUID) -> Any:
    comparison = issued_comparison(slug=slug, key=key, actor=actor_of(request))
    if comparison is None:
        raise Http404("There is no such comparison.")
    return comparison


@tried_twice
def _take_and_follow(request: HtmxRequest, comparison: Comparison) -> tuple[Vote | None, Following]:
    with transaction.atomic() if _wants_next(request) else nullcontext():
        vote = _take(comparison, request.POST.get("outcome", ""))
        return vote, _following(request, comparison)


def _take(comparison: Comparison, outcome: str) -> Vote | None:
    """Record what the rater chose; a skip is no vote."""
    rater, now = comparison.rater, timezone.now()
    if outcome == SKIP:
        voting.skip_comparison(comparison=comparison, rater=rater, now=now)
        return None
    return voting.cast_vote(comparison=comparison, rater=rater, outcome=outcome, now=now)


def _check_owner(request: HttpRequest, rater: Rater) -> None:
    """Refuse somebody else's comparison. A browser proves itself by its cookie alone."""
    mine = (
        request.user.pk == rater.user_id
        if rater.user_id
        else visitors.known_rater_id(request) == rater.pk
    )
    if not mine:
        raise voting.NotIssuedToYou


def _may_have_another(rater: Rater) -> bool:
    return not rater.blocked_at and may_have_another(rater=rater, now=timezone.now())


def _ballot(comparison: Comparison | None) -> Ballot | None:
    if comparison is None:
        return None
    return Ballot(
        key=comparison.key,
        prompt=prompt_html(comparison.prompt),
        left=response_html(comparison.left_response),
        right=response_html(comparison.right_response),
    )


def _asked_for(request: HttpRequest, arena: Arena, rater: Rater) -> Comparison | None:
    """The pair that the rater asked for by name, as long as it waits for this rater's vote."""
    found = _comparison(request.GET.get("pair", ""), arena)
    if found is None or found.rater_id != rater.pk:
        return None
    return Comparison.objects.open(timezone.now()).with_texts().filter(pk=found.pk).first()


def _done(rater: Rater, arena: Arena) -> int:
    return rater.votes.filter(arena=arena, voided_at=None).count()


def _comparison(key: str, arena: Arena) -> Comparison | None:
    try:
        return arena.comparisons.filter(key=UUID(key)).first()
    except ValueError:
        return None


def _aftermath(rater: Rater, arena: Arena, key: str) -> dict[str, Any]:
    """What a page after a plain POST says of the pair before, if it was this rater's."""
    comparison = _comparison(key, arena)
    if comparison is None or comparison.rater_id != rater.pk:
        return {}
    vote = comparison.votes.filter(voided_at=None).first()
    return {
        "last": comparison,
        "vote": vote,
        "undone": vote is None and comparison.votes.exists(),
        "skipped": comparison.skipped_at is not None,
    }


def _answer(
    request: HtmxRequest,
    comparison: Any,
    following: Following,
    *,
    vote: Vote | None,
    skipped: bool = False,
    undone: bool = False,
) -> HttpResponse:
    if not request.htmx or following.too_fast:
        url = _page(comparison.arena, after=comparison.key)
        return _lead_to(url) if request.htmx else redirect(url)
    context = {
        "arena": comparison.arena,
        "last": comparison,
        "vote": vote,
        "skipped": skipped,
        "undone": undone,
        "done": comparison.other_votes + bool(vote),
        "with_next": following.wanted,
        "ballot": _ballot(following.comparison),
    }
    return _fragment(request, "arena/_after.html", context)


def _fragment(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    """Render a part of a page: nothing of the request is in it but the token of its forms.

    A token that came with a form has been checked, and goes back only to whoever knew it, so there
    is nothing to gain from disguising it anew.
    """
    token = request.POST.get("csrfmiddlewaretoken") or get_token(request)
    return HttpResponse(render_to_string(template, context | {"csrf_token": token}))


def _wants_next(request: HtmxRequest) -> bool:
    return bool(request.htmx) and "with_next" in request.POST


def _following(request: HtmxRequest, comparison: Comparison) -> Following:
    """The pair that follows, for a browser that has none fetched ahead."""
    if not _wants_next(request):
        return Following(wanted=False)
    if not _may_have_another(comparison.rater):
        return Following(wanted=True, too_fast=True)
    following = voting.issue_comparison(
        arena=comparison.arena, rater=comparison.rater, now=timezone.now(), besides=comparison
    )
    return Following(wanted=True, comparison=following)


def _refuse(
    request: HtmxRequest, comparison: Comparison, refusal: voting.VoteRefused
) -> HttpResponse:
    """Say why a vote does not count, on a fresh page."""
    url = _page(comparison.arena, notice=type(refusal).__name__)
    return _lead_to(url) if request.htmx else redirect(url)


def _page(arena: Arena, **query: Any) -> str:
    return f"{reverse('vote', args=[arena.slug])}?{urlencode(query)}"


def _lead_to(url: str) -> HttpResponse:
    return HttpResponse(status=204, headers={"HX-Redirect": url})


def _slow_down(
    request: HttpRequest, arena: Arena, *, blocked: bool = False, not_admitted: str = ""
) -> HttpResponse:
    context = {"arena": arena, "blocked": blocked, "not_admitted": not_admitted}
    status = 403 if blocked or not_admitted else 429
    return render(request, "arena/slow_down.html", context, status=status)
