"""Live questions: the page to ask, the two answers as they are written, the vote, and what the
team sees of it."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from threading import BoundedSemaphore
from typing import Any
from uuid import UUID, uuid4

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.db import transaction
from django.db.models import F
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.actors import actor_of
from arena.calls.execution import give_connection_back
from arena.calls.money import BudgetDeniedError
from arena.db import sql
from arena.errors import ServiceError
from arena.forms.base import errors_in
from arena.forms.live import LiveForm
from arena.language import translate_own_words, translated
from arena.markup.answers import render_answer
from arena.models import Arena, LiveConversation, LiveTurn
from arena.models.live import MOST_TURNS
from arena.outcomes import LEFT, RIGHT
from arena.permissions import visible_arenas
from arena.self_identification import mask_names
from arena.services import live, voting
from arena.services.budgets import BudgetError
from arena.services.comparisons import VoteError
from arena.services.rate_limits import network_of
from arena.services.raters import allow_comparison
from arena.streams import LiveStream
from arena.views.arena_context import ArenaContext, require_permission
from arena.views.ballots import Head, reveal_of
from arena.views.choices import CHOICES, SKIP
from arena.views.raters import (
    TooManyRatersError,
    find_or_create_rater,
    find_rater,
    other_rater_of_cookie,
    set_rater_cookie,
)

TICK = 0.1  # seconds
LONGEST_SILENCE = 0.4  # seconds between two writes: a closed page is noticed by writing to it
SHARED_SHOWN = 50
LONGEST_IN_ADDRESS = 1_500  # characters of a question
# Each keeps a thread of the web server, which has 256; pages need the others.
_streams = BoundedSemaphore(100)
State = LiveConversation.State


def examples() -> list[tuple[str, str, str]]:
    """Questions to begin with: a title, what follows it, and the question itself."""
    return [
        (
            gettext("Write to a customer"),
            gettext("whose parcel left on Monday instead of Friday"),
            gettext(
                "Write a short, honest message to a customer whose parcel left on Monday instead of"
                " Friday."
            ),
        ),
        (
            gettext("Explain to my mother"),
            gettext("what two-step sign-in is, in five sentences"),
            gettext("Explain to my mother what two-step sign-in is, in five sentences."),
        ),
        (
            gettext("Check this sum"),
            gettext("€5,000 at 3.6% a year, interest each month"),
            gettext(
                "I put €5,000 into an account at 3.6% a year, with interest added each month. My"
                " bank says that I have €5,183 after a year. Is that right?"
            ),
        ),
        (
            gettext("Shorten this notice"),
            gettext("to 20 words without losing a fact"),
            gettext(
                "Shorten to 20 words without losing a fact: “Please be aware that the lift in the"
                " north stairwell will be out of service on Tuesday from 9 to 11 while its yearly"
                " inspection takes place. Use the south stairwell instead.”"
            ),
        ),
    ]


@dataclass(frozen=True)
class ShownTurn:
    question: str
    left: SafeString
    right: SafeString
    is_first: bool
    is_last: bool

    @property
    def is_long(self) -> bool:
        """Whether its box has to be scrolled."""
        return len(self.question) > 600

    @property
    def sides(self) -> list[tuple[str, SafeString]]:
        return [(LEFT, self.left), (RIGHT, self.right)]


def _find_live(request: HttpRequest, slug: str) -> Arena:
    """The arena of the live questions of this arena, which its reader can see."""
    visible = visible_arenas(actor_of(request))
    beside = visible.filter(live_of__slug=slug, live_of__in=visible)
    found: Arena | None = beside.select_related("live_of", "team").first()
    if found is None:
        raise Http404("There are no live questions here.")
    return found


@translated
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def live_questions(request: HttpRequest, slug: str) -> HttpResponse:
    """The page to ask a question."""
    arena = _find_live(request, slug)
    if arena.voters != Arena.Voters.ANYONE and not request.user.is_authenticated:
        return redirect_to_login(request.path)
    if request.method != "POST":
        return _question_page(request, arena)
    try:
        rater = find_or_create_rater(request)
        if not allow_comparison(rater=rater, now=timezone.now()):
            raise live.LiveError(
                gettext("You’re asking faster than this arena allows. Try again in a minute.")
            )
        conversation = live.ask(
            arena=arena,
            rater=rater,
            question=request.POST.get("question", ""),
            key=_key_in(request),
            shared="shared" in request.POST,
            now=timezone.now(),
            also=other_rater_of_cookie(request, rater),
        )
    except (ServiceError, VoteError) as error:
        return _question_page(request, arena, problem=str(error))
    except TooManyRatersError:
        problem = gettext("Many people on your network have just begun. Sign in to ask now.")
        return _question_page(request, arena, problem=problem)
    response = redirect("live_conversation", slug, conversation.key)
    set_rater_cookie(request, response, rater)
    return response


def _key_in(request: HttpRequest) -> UUID:
    """The key that the form was given, so that a double click asks once."""
    with suppress(ValueError):
        return UUID(request.POST.get("key", ""))
    return uuid4()


def _question_page(request: HttpRequest, arena: Arena, *, problem: str = "") -> HttpResponse:
    now, rater = timezone.now(), find_rater(request)
    left = live.questions_left(arena=arena, now=now)
    mine = LiveConversation.objects.filter(arena=arena, rater=rater, deleted_at=None)
    context = {
        "arena": arena.live_of,
        "live": arena,
        "key": uuid4(),
        "question": request.POST.get("question", request.GET.get("question", "")),
        "shared": "shared" in request.POST,
        "problem": problem,
        "examples": examples(),
        "left": left,
        "opens_at": live.day_of(now) + timedelta(days=1),
        "days": live.days_kept(),
        "mine": mine.prefetch_related("turns").order_by("-pk")[:10] if rater else [],
        "shared_ones": LiveConversation.objects.shared()
        .filter(arena=arena, hidden_at=None)
        .prefetch_related("turns")
        .order_by("-pk")[:5],
    }
    return render(request, "arena/live.html", context, status=422 if problem else 200)


@translated
@never_cache
@require_safe
def live_conversation(request: HttpRequest, slug: str, key: UUID) -> HttpResponse:
    """A conversation, for the rater who asked; for others only once it is shared and voted on."""
    arena = _find_live(request, slug)
    rater = find_rater(request)
    if rater is not None:
        live.settle_lost(now=timezone.now(), of=rater)
    conversation = _find_conversation(arena, key)
    is_own = rater is not None and conversation.rater_id == rater.pk
    is_team = ArenaContext(request, arena, actor_of(request)).can_manage
    shared = LiveConversation.objects.shared()
    readable = shared if is_team else shared.filter(hidden_at=None)
    if not is_own and not readable.filter(pk=conversation.pk).exists():
        raise Http404("There is no such conversation.")
    context = _conversation_context(conversation, has_explained="named" in request.GET)
    context |= {"is_own": is_own, "is_others": not is_own}
    return render(request, "arena/live_conversation.html", context)


def _find_conversation(arena: Arena, key: UUID) -> LiveConversation:
    rows = LiveConversation.objects.select_related("arena", "left", "right", "comparison", "rater")
    conversation = get_object_or_404(rows, arena=arena, key=key)
    conversation.arena = arena
    return conversation


def _find_own(request: HttpRequest, slug: str, key: UUID) -> LiveConversation:
    conversation = _find_conversation(_find_live(request, slug), key)
    rater = find_rater(request)
    if rater is None or conversation.rater_id != rater.pk:
        raise Http404("There is no such conversation.")
    return conversation


def _conversation_context(conversation: LiveConversation, *, has_explained: bool) -> dict[str, Any]:
    arena, comparison = conversation.arena, conversation.comparison
    turns = list(conversation.turns.all())
    key = comparison.key if comparison else conversation.key
    reveal = vote = None
    if comparison is not None:
        comparison.arena = arena
        comparison.left, comparison.right = conversation.left, conversation.right
        vote = comparison.votes.filter(voided_at=None).first()
        if vote is not None:
            reveal = reveal_of(comparison, vote, has_explained=has_explained)
    now = timezone.now()
    can_vote = conversation.state == State.ANSWERED and conversation.can_be_voted_on(now)
    question = turns[0].question if turns else ""
    # Whoever got no names may ask the same again; a long one would not fit into an address.
    may_repeat = vote is None and not can_vote and 0 < len(question) <= LONGEST_IN_ADDRESS
    return {
        "arena": arena.live_of,
        "live": arena,
        "conversation": conversation,
        "turns": [] if conversation.deleted_at else _shown_turns(conversation, turns),
        "heads": reveal.heads if reveal else [Head(key, side) for side in (LEFT, RIGHT)],
        "last": comparison,
        "reveal": reveal,
        "skipped": comparison is not None and comparison.skipped_at is not None,
        "undone": vote is None and comparison is not None and comparison.votes.exists(),
        "can_vote": can_vote,
        "can_ask": can_vote and len(turns) < MOST_TURNS,
        "choices": CHOICES,
        "ask_query": f"?{urlencode({'question': question})}" if may_repeat else "",
    }


def _shown_turns(conversation: LiveConversation, turns: list[LiveTurn]) -> list[ShownTurn]:
    return [
        ShownTurn(
            question=turn.question,
            left=_answer_html(conversation, turn.left_text, "left"),
            right=_answer_html(conversation, turn.right_text, "right"),
            is_first=turn is turns[0],
            is_last=turn is turns[-1],
        )
        for turn in turns
    ]


def _answer_html(conversation: LiveConversation, text: str, side: str) -> SafeString:
    candidate = getattr(conversation, side)
    if conversation.arena.self_identifying == Arena.SelfIdentifying.MASK:
        text = mask_names(text, names=(candidate.name, candidate.model))
    html = mark_safe(render_answer(text))  # noqa: S308  (sanitised by render_answer)
    return translate_own_words(html)


def _event(name: str, **data: str) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


@never_cache
@require_safe
def stream_answers(request: HttpRequest, slug: str, key: UUID) -> HttpResponseBase:
    """Both answers as they are written, for the page's EventSource: `part`s, then `end`."""
    conversation = _find_own(request, slug, key)
    if request.method == "HEAD":
        return HttpResponse(content_type="text/event-stream")
    if not _streams.acquire(blocking=False):
        return HttpResponse(status=503, headers={"Retry-After": "5"})
    try:
        stream = live.begin(conversation=conversation, now=timezone.now())
    except Exception as error:
        _streams.release()
        return _not_begun(conversation, error)
    events = _counted_events(stream)
    next(events)  # once begun, it is closed in any case
    response = StreamingHttpResponse(events, content_type="text/event-stream")
    response["X-Accel-Buffering"] = "no"
    return response


def _counted_events(stream: LiveStream) -> Iterator[str]:
    try:
        yield from _events(stream)
    finally:
        _streams.release()


def _not_begun(conversation: LiveConversation, error: Exception) -> HttpResponse:
    if isinstance(error, BudgetError | BudgetDeniedError):
        live.void_unpaid(conversation=conversation)
        return HttpResponse(_event("end"), content_type="text/event-stream")
    if isinstance(error, live.AlreadyBegunError | VoteError):
        return HttpResponse(status=204)  # an EventSource does not come back after it
    raise error


def _events(stream: LiveStream) -> Iterator[str]:
    """Between two steps this thread has no connection to the database. When the browser goes away,
    the web server closes this generator, and with it both requests."""
    try:
        give_connection_back()
        stream.start()
        yield _event("alive")
        written_at = renewed_at = time.monotonic()
        while stream.broken() or not stream.is_all_shown:
            time.sleep(TICK)
            now = time.monotonic()
            if broken := stream.broken():
                problem = live.repair(stream=stream, broken=broken, now=timezone.now())
                give_connection_back()
                if problem:
                    live.finish_void(stream=stream, problem=problem, now=timezone.now())
                    break
                yield _event("replaced")
                continue
            left, right = stream.next_parts(now)
            if left or right:
                yield _event("part", left=left, right=right)
                written_at = now
            elif now - written_at > LONGEST_SILENCE:
                yield _event("alive")
                written_at = now
            if now - renewed_at > live.RENEWED_EVERY:
                renewed_at = now
                is_ours = live.renew(stream=stream, now=timezone.now())
                give_connection_back()
                if not is_ours:
                    break
        else:
            live.finish_answered(stream=stream, now=timezone.now())
        yield _event("end")
    finally:
        if not stream.is_finished:
            live.finish_stopped(stream=stream, now=timezone.now())
        give_connection_back()


@translated
@require_POST
def ask_again(request: HttpRequest, slug: str, key: UUID) -> HttpResponse:
    conversation = _find_own(request, slug, key)
    try:
        live.ask_again(
            conversation=conversation,
            question=request.POST.get("question", ""),
            now=timezone.now(),
        )
    except live.LiveError as error:
        messages.error(request, error.message)
    return redirect("live_conversation", slug, key)


@translated
@require_POST
def live_vote(request: HttpRequest, slug: str, key: UUID) -> HttpResponse:
    """Record the rater's vote on a conversation whose answers have both ended, or their skip."""
    conversation = _find_own(request, slug, key)
    comparison, now = conversation.comparison, timezone.now()
    outcome = request.POST.get("outcome", "")
    try:
        if comparison is None or conversation.state != State.ANSWERED or conversation.deleted_at:
            raise live.LiveError(gettext("You can vote when both answers are complete."))
        comparison.arena, rater = conversation.arena, conversation.rater
        with sql.turn(), transaction.atomic():
            if outcome == SKIP:
                voting.skip_comparison(comparison=comparison, rater=rater, now=now)
            else:
                voting.cast_vote(
                    comparison=comparison,
                    rater=rater,
                    outcome=outcome,
                    now=now,
                    seconds=voting.seconds_open(comparison, now),
                    network=network_of(request, now=now),
                )
    except (ServiceError, VoteError) as error:
        messages.error(request, str(error))
    return redirect("live_conversation", slug, key)


@translated
@require_POST
def change_conversation(request: HttpRequest, slug: str, key: UUID) -> HttpResponse:
    """Share a conversation or no longer, or delete its texts, as its rater wishes."""
    conversation = _find_own(request, slug, key)
    action = request.POST.get("action", "")
    if action == "delete":
        own = LiveConversation.objects.filter(pk=conversation.pk)
        live.delete_texts(conversations=own, now=timezone.now())
        messages.success(request, gettext("The question and both answers were deleted."))
        return redirect("live", slug)
    live.set_shared(conversation=conversation, shared=action == "share")
    return redirect("live_conversation", slug, key)


@translated
@require_POST
def report_conversation(request: HttpRequest, slug: str, key: UUID) -> HttpResponse:
    arena = _find_live(request, slug)
    shown = LiveConversation.objects.shared().filter(hidden_at=None)
    conversation = get_object_or_404(shown.select_related("arena__team"), arena=arena, key=key)
    live.report(conversation=conversation, now=timezone.now())
    messages.success(request, gettext("Reported. The arena’s team will look at it. Thank you."))
    return redirect("live_conversation", slug, key)


@never_cache
@require_safe
def export_conversations(request: HttpRequest, slug: str) -> HttpResponse:
    """The shared conversations and their votes, in the columns of LMArena's files."""
    arena = _find_live(request, slug)
    rows = (
        json.dumps(row, ensure_ascii=False) + "\n" for row in live.exported_conversations(arena)
    )
    # All at once: rows that are read as they are sent keep the database for a slow client.
    response = HttpResponse("".join(rows), content_type="application/jsonl")
    response["Content-Disposition"] = f'attachment; filename="{slug}-live.jsonl"'
    return response


@require_permission("can_manage")
@require_http_methods(["GET", "HEAD", "POST"])
def manage_live(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """Turn live questions on, for which candidates and whom; and what others have shared."""
    arena = context.arena
    running = Arena.objects.filter(live_of=arena).first()
    form = LiveForm(request.POST or None, arena=arena, live=running)
    if request.method == "POST" and form.is_valid():
        with errors_in(form):
            live.set_up_live(arena=arena, by=context.actor, now=timezone.now(), **form.cleaned_data)
            messages.success(request, "Live questions saved.")
            return redirect("manage_live", arena.slug)
    shared = LiveConversation.objects.shared().filter(arena=running).prefetch_related("turns")
    return context.render(
        "manage/live.html",
        tab="live",
        form=form,
        live=running,
        left=live.questions_left(arena=running, now=timezone.now()) if running else 0,
        quote=live.most_of_a_question(arena=running) if running else None,
        shared=shared.order_by(F("reported_at").desc(nulls_last=True), "-pk")[:SHARED_SHOWN],
        run=live.newest_run(arena=running) if running else None,
    )


@require_permission("can_manage")
@require_POST
def hide_conversation(request: HttpRequest, context: ArenaContext, key: UUID) -> HttpResponse:
    rows = LiveConversation.objects.shared().select_related("arena__team")
    conversation = get_object_or_404(rows, arena__live_of=context.arena, key=key)
    live.set_hidden(
        conversation=conversation,
        hidden=request.POST.get("action") != "show",
        by=context.actor,
        now=timezone.now(),
    )
    return redirect("manage_live", context.arena.slug)
