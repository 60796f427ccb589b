"""The voting page: show a pair, take the vote, undo it, fetch the next pair;
and the rater of a request, with the rater cookie.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.views import redirect_to_login
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST, require_safe
from django_htmx.middleware import HtmxDetails

from arena.actors import actor_of
from arena.db import sql
from arena.forms.base import errors_as_messages
from arena.language import translated
from arena.models import Arena, Comparison, LiveConversation, Rater, Vote
from arena.outcomes import LEFT, RIGHT
from arena.permissions import visible_arenas
from arena.services import comparisons, holds, orders, previews, reasons, voting
from arena.services.ballots import guide_html
from arena.services.candidates import with_ballots
from arena.services.comparisons import (
    MAX_EXCLUDED,
    MembersOnlyError,
    check_admission,
    find_issued_comparison,
)
from arena.services.locks import retry_on_deadlock
from arena.services.rate_limits import network_of
from arena.services.raters import allow_comparison
from arena.views.ballots import RoundProgress, ballot_of, reveal_of
from arena.views.choices import SKIP
from arena.views.raters import (
    LINK_COOKIE,
    TooManyRatersError,
    find_anonymous,
    find_arena_by_link,
    find_or_create_rater,
    find_rater,
    known_rater_id,
    other_rater_of_cookie,
    raters_in_cookie,
    set_rater_cookie,
)


class HtmxRequest(HttpRequest):
    """A request with the attribute that django-htmx's middleware adds."""

    htmx: HtmxDetails


def notice_of(error: type[Exception]) -> str:
    """The name of an error in the page's address."""
    return error.__name__.removesuffix("Error")


NOTICES = {notice_of(error): error.message for error in comparisons.VoteError.__subclasses__()}


@dataclass(frozen=True)
class NextPair:
    """The pair sent with a vote's response; `wanted` if the browser asks, `too_fast` if refused."""

    wanted: bool
    too_fast: bool = False
    comparison: Comparison | None = None


@translated
@never_cache
@require_safe
def vote(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the rater's current pair; with `after` in the address, the pair just voted on and who
    wrote its answers.

    A visitor becomes a rater by voting. Until then their pair is a preview, unless a run asks
    anybody who comes for votes.
    """
    arena = _find_arena(request, slug)
    if elsewhere := _to_another_page(request, arena):
        return elsewhere
    is_new = not request.user.is_authenticated and not any(raters_in_cookie(request))
    if is_new and request.GET.get("notice") == notice_of(TooManyRatersError):
        return _slow_down(request, arena, crowded=True)
    if is_new and not orders.is_anyone_asked(arena=arena):
        comparison, sealed = previews.preview_comparison(arena=arena, now=timezone.now())
        context = {"ballot": ballot_of(comparison), "sealed": sealed, "round": RoundProgress(0)}
        return render(request, "arena/vote.html", context | _page_context(request, arena))
    try:
        rater = find_or_create_rater(request)
        check_admission(arena, rater)
    except TooManyRatersError:
        return _slow_down(request, arena, crowded=True)
    except MembersOnlyError as error:
        return _slow_down(request, arena, not_admitted=str(error))
    return _show_pair(request, arena, rater)


def _to_another_page(request: HttpRequest, arena: Arena) -> HttpResponse | None:
    """Lead to where the reader signs in, or where live questions are asked and voted on."""
    if arena.live_of is None:
        is_shut = arena.voters != Arena.Voters.ANYONE and not request.user.is_authenticated
        return redirect_to_login(request.path) if is_shut else None
    after = _find_comparison(request.GET.get("after", ""), arena)
    conversation = LiveConversation.objects.filter(comparison=after).first() if after else None
    if conversation is None:
        return redirect("live", arena.live_of.slug)
    address = reverse("live_conversation", args=[arena.live_of.slug, conversation.key])
    return redirect(f"{address}?named=1" if "named" in request.GET else address)


def _show_pair(request: HttpRequest, arena: Arena, rater: Rater) -> HttpResponse:
    now, done = timezone.now(), rater.votes.filter(arena=arena, voided_at=None).count()
    context = {
        "hold": holds.find_newest(
            raters=[rater, *find_anonymous(request, rater)], arena=arena, now=now
        ),
        "progress": orders.progress_for(arena=arena, rater=rater),
        **_context_of_last_vote(request, rater, arena),
        **_page_context(request, arena),
    }
    if "reveal" in context:
        context["round"] = RoundProgress(done, is_revealing=True)
        return render(request, "arena/vote.html", context)
    if not _can_have_another(rater):
        return _slow_down(request, arena, blocked=bool(rater.blocked_at))
    comparison = _requested_pair(request, arena, rater) or comparisons.next_comparison(
        arena=arena, rater=rater, now=now, also=other_rater_of_cookie(request, rater)
    )
    progress = RoundProgress(done)
    has_news = context["notice"] or context["hold"] or "last" in context
    if comparison is None and done and not (has_news or arena.is_opened_by_link):
        return redirect("round", arena.slug, progress.number)  # which thanks for all of them
    context |= {"ballot": ballot_of(comparison), "round": progress}
    response = render(request, "arena/vote.html", context)
    set_rater_cookie(request, response, rater)
    return response


def _page_context(request: HttpRequest, arena: Arena) -> dict[str, Any]:
    guide = guide_html(arena)
    return {
        "arena": arena,
        "guide": guide,
        "guide_line": next(iter(strip_tags(guide).strip().splitlines()), ""),
        "notice": NOTICES.get(request.GET.get("notice", "")),
    }


@translated
@never_cache
@require_GET
def next_pair(request: HttpRequest, slug: str) -> HttpResponse:
    """Return the pair after the one on the screen, so that it can be shown without waiting.

    `besides` names the pair on the screen, then the pairs whose votes are still being sent.
    """
    arena = _find_arena(request, slug)
    rater = find_rater(request)
    if rater is None:
        return HttpResponse(status=204)
    keys = request.GET.getlist("besides")[:MAX_EXCLUDED]
    named = [_find_comparison(key, arena) for key in keys]
    excluded = [each for each in named if each and each.rater_id == rater.pk]
    if not excluded or not _can_have_another(rater):
        return HttpResponse(status=204)
    try:
        comparison = comparisons.next_comparison(
            arena=arena,
            rater=rater,
            now=timezone.now(),
            exclude=excluded,
            also=other_rater_of_cookie(request, rater),
        )
    except voting.VoteError:
        return HttpResponse(status=204)
    return _render_fragment(request, "arena/_ballot.html", comparison, {"arena": arena})


@translated
@require_POST
def cast_vote(request: HtmxRequest, slug: str, key: UUID) -> HttpResponse:
    """Record a vote or a skip; htmx requests get the names, and the next pair on request."""
    try:
        new_owner = _issue_previewed(request, slug, key) if "sealed" in request.POST else None
        comparison, vote, following = _vote_and_follow(request, slug, key, new_owner)
    except (TooManyRatersError, voting.VoteError) as error:
        return _refuse_vote(request, slug, error)
    response = _respond_with_pair(request, comparison, following, vote=vote, skipped=vote is None)
    if new_owner:
        set_rater_cookie(request, response, new_owner)
    return response


@retry_on_deadlock
def _vote_and_follow(
    request: HtmxRequest, slug: str, key: UUID, new_owner: Rater | None
) -> tuple[Any, Vote | None, NextPair]:
    """Record the vote or skip and issue the next pair, if it is wanted, in one commit."""
    outcome, now = request.POST.get("outcome", ""), timezone.now()
    network = network_of(request, now=now)
    comparison = _find_issued_pair(request, slug, key)
    rater = comparison.rater
    if new_owner is None:
        _check_owner(request, rater)
    with sql.turn(), transaction.atomic():
        if outcome == SKIP:
            vote = voting.skip_comparison(comparison=comparison, rater=rater, now=now)
        else:
            vote = voting.cast_vote(
                comparison=comparison,
                rater=rater,
                outcome=outcome,
                now=now,
                seconds=voting.seconds_open(comparison, now, request.POST.get("seconds", "")),
                network=network,
            )
        return comparison, vote, _following_pair(request, comparison)


@translated
@require_POST
def undo_vote(request: HtmxRequest, slug: str, key: UUID) -> HttpResponse:
    """Void the rater's last vote within thirty seconds."""
    comparison = _find_issued_pair(request, slug, key)
    try:
        _check_owner(request, comparison.rater)
        vote = voting.undo_vote(comparison=comparison, rater=comparison.rater, now=timezone.now())
    except voting.VoteError as error:
        return _refuse_vote(request, slug, error)
    following = _following_pair(request, comparison)
    return _respond_with_pair(request, comparison, following, vote=None, undone=vote)


@translated
@require_POST
def give_reasons(request: HtmxRequest, slug: str, key: UUID) -> HttpResponse:
    """Replace the reasons of the rater's vote; the response tells htmx that they are saved."""
    comparison = _find_issued_pair(request, slug, key)
    back = "vote" if comparison.arena.is_opened_by_link else "my_votes"
    try:
        _check_owner(request, comparison.rater)
        reasons.give_reasons(
            comparison=comparison,
            rater=comparison.rater,
            tags={
                side: [*request.POST.getlist(side), *request.POST.getlist(reasons.BOTH_SIDES)]
                for side in (LEFT, RIGHT)
            },
            comment=request.POST.get("comment", ""),
        )
    except voting.VoteError as error:
        return _refuse_vote(request, slug, error)
    if "show" in request.POST:
        if not request.htmx:
            return _to_vote_page(request, slug, after=key, named="1")
        vote = comparison.votes.get(rater=comparison.rater, voided_at=None)
        return _respond_with_pair(
            request, comparison, NextPair(wanted=False), vote=vote, has_explained=True
        )
    if request.htmx:
        return HttpResponse(gettext("Saved. Thank you."))
    return redirect(back, comparison.arena.slug)


@translated
@require_POST
def object_to_hold(request: HttpRequest, slug: str) -> HttpResponse:
    """Keep the rater's objection to the hold of their votes."""
    arena = _find_arena(request, slug)
    rater = find_rater(request)
    if rater is not None:
        raters, text = [rater, *find_anonymous(request, rater)], request.POST.get("objection", "")
        with errors_as_messages(request):
            holds.object_to(raters=raters, arena=arena, text=text, now=timezone.now())
    return redirect("vote", arena.slug)


def _find_arena(request: HttpRequest, slug: str) -> Arena:
    """Return an arena that the sender can see, or has the link to; else raise Http404."""
    visible = with_ballots(visible_arenas(actor_of(request)))
    arena = visible.filter(slug=slug).first() or find_arena_by_link(
        slug, request.COOKIES.get(LINK_COOKIE, "")
    )
    if arena is None:
        raise Http404("There is no such arena.")
    return arena


def _issue_previewed(request: HttpRequest, slug: str, key: UUID) -> Rater | None:
    """Issue a preview to the new rater who votes on it first; None if it was issued before."""
    arena = _find_arena(request, slug)
    preview = previews.open_preview(arena=arena, sealed=request.POST["sealed"])
    if preview is None or preview.key != key:
        raise Http404("There is no such comparison.")
    if _find_comparison(str(key), arena):
        return None
    if find_rater(request):  # who could choose among previews, which leave no trace when skipped
        raise voting.NotIssuedToYouError
    rater = find_or_create_rater(request)
    previews.issue_preview(arena=arena, rater=rater, preview=preview)
    return rater


def _find_issued_pair(request: HttpRequest, slug: str, key: UUID) -> Any:
    comparison = find_issued_comparison(slug=slug, key=key, actor=actor_of(request))
    if comparison is None and find_arena_by_link(slug, request.COOKIES.get(LINK_COOKIE, "")):
        comparison = find_issued_comparison(slug=slug, key=key, has_link=True)
    if comparison is None:
        raise Http404("There is no such comparison.")
    return comparison


def _find_comparison(key: str, arena: Arena) -> Comparison | None:
    try:
        return arena.comparisons.filter(key=UUID(key)).first()
    except ValueError:
        return None


def _check_owner(request: HttpRequest, rater: Rater) -> None:
    """Raise NotIssuedToYouError unless the signed-in person or the cookie belongs to `rater`."""
    if rater.user_id:
        is_owner = request.user.pk == rater.user_id
    else:
        is_owner = known_rater_id(request) == rater.pk
    if not is_owner:
        raise voting.NotIssuedToYouError


def _can_have_another(rater: Rater) -> bool:
    """Return whether the rater may get one more pair, which counts now."""
    return not rater.blocked_at and allow_comparison(rater=rater, now=timezone.now())


def _requested_pair(request: HttpRequest, arena: Arena, rater: Rater) -> Comparison | None:
    """Return the pair named in the address, if it is waiting for this rater's vote."""
    comparison = _find_comparison(request.GET.get("pair", ""), arena)
    if comparison is None or comparison.rater_id != rater.pk:
        return None
    return Comparison.objects.open(timezone.now()).with_texts().filter(pk=comparison.pk).first()


def _context_of_last_vote(request: HttpRequest, rater: Rater, arena: Arena) -> dict[str, Any]:
    """Return the result of the last vote, for the page that follows a POST without htmx."""
    last = _find_comparison(request.GET.get("after", ""), arena)
    if last is None or last.rater_id != rater.pk:
        return {}
    comparison = Comparison.objects.with_texts().get(pk=last.pk)
    comparison.arena = arena
    vote = comparison.votes.filter(voided_at=None).first()
    if vote is None:
        undone, skipped = comparison.votes.last(), comparison.skipped_at is not None
        return {"last": comparison, "undone": undone, "skipped": skipped}
    reveal = reveal_of(comparison, vote, has_explained="named" in request.GET)
    return {"last": comparison, "reveal": reveal, "ballot": ballot_of(comparison, reveal)}


def _following_pair(request: HtmxRequest, comparison: Comparison) -> NextPair:
    """Issue the next pair, for a browser that has not prefetched one."""
    if not request.htmx or "with_next" not in request.POST:
        return NextPair(wanted=False)
    if not _can_have_another(comparison.rater):
        return NextPair(wanted=True, too_fast=True)
    following = comparisons.next_comparison(
        arena=comparison.arena,
        rater=comparison.rater,
        now=timezone.now(),
        exclude=[comparison],
        also=other_rater_of_cookie(request, comparison.rater),
    )
    return NextPair(wanted=True, comparison=following)


def _respond_with_pair(
    request: HtmxRequest,
    comparison: Any,
    following: NextPair,
    *,
    vote: Vote | None,
    skipped: bool = False,
    undone: Vote | None = None,
    has_explained: bool = False,
) -> HttpResponse:
    if not request.htmx or following.too_fast:
        return _to_vote_page(request, comparison.arena.slug, after=comparison.key)
    context = {
        "arena": comparison.arena,
        "last": comparison,
        "reveal": reveal_of(comparison, vote, has_explained=has_explained) if vote else None,
        "skipped": skipped,
        "undone": undone,
        "round": RoundProgress(comparison.other_votes + bool(vote), is_revealing=bool(vote)),
        "with_next": following.wanted,
    }
    if comparison.run_id:
        context["progress"] = orders.progress_in(run=comparison.run, rater=comparison.rater)
    return _render_fragment(request, "arena/_after.html", following.comparison, context)


def _render_fragment(
    request: HttpRequest, template: str, comparison: Comparison | None, context: dict[str, Any]
) -> HttpResponse:
    """Render a part of a page, which depends on the request only for the CSRF token.

    A token sent with the form has been checked and goes back only to its sender, so it need not be
    masked again.
    """
    token = request.POST.get("csrfmiddlewaretoken") or get_token(request)
    context |= {"ballot": ballot_of(comparison), "csrf_token": token}
    return HttpResponse(render_to_string(template, context))


def _refuse_vote(request: HtmxRequest, slug: str, error: Exception) -> HttpResponse:
    """Redirect to a new voting page that shows why the vote does not count."""
    return _to_vote_page(request, slug, notice=notice_of(type(error)))


def _to_vote_page(request: HtmxRequest, slug: str, **query: Any) -> HttpResponse:
    url = f"{reverse('vote', args=[slug])}?{urlencode(query)}"
    if request.htmx:
        return HttpResponse(status=204, headers={"HX-Redirect": url})
    return redirect(url)


def _slow_down(
    request: HttpRequest,
    arena: Arena,
    *,
    blocked: bool = False,
    not_admitted: str = "",
    crowded: bool = False,
) -> HttpResponse:
    context = {"arena": arena, "blocked": blocked, "not_admitted": not_admitted, "crowded": crowded}
    status = 403 if blocked or not_admitted else 429
    return render(request, "arena/slow_down.html", context, status=status)
