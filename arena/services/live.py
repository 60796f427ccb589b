"""Live questions: asked, answered by two candidates at once, and paid for.

Each answer is a call in the ledger, of the run that has all of an arena's live calls of a day. It
is claimed, and the most it can cost reserved, before it is sent; it is settled when its stream
ends. While the stream goes on its lease is renewed. After a kill, the sweep of calls books what it
may have cost, and the conversation is void.
"""

import random
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unicodedata import category, normalize
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext

from arena.actors import Actor
from arena.calls import leases, money, paces
from arena.calls.execution import (
    CannotAskError,
    LeaseLostError,
    NoPriceError,
    ReplyReading,
    plan_request,
    record_outcome,
)
from arena.calls.models import Call, EndpointPace, RunRequester
from arena.calls.prices import price_of
from arena.calls.providers.base import (
    EndpointStoppedError,
    ProviderError,
    RejectedError,
    Reply,
    Request,
    RetryableError,
    TooLongError,
    UnsupportedParameterError,
)
from arena.conversations import Message, prompt_fields
from arena.db import sql
from arena.endpoints import UnknownEndpointError, all_endpoints
from arena.errors import ServiceError, checked_fields
from arena.generation import request_for
from arena.models import (
    Arena,
    Candidate,
    Comparison,
    LiveConversation,
    LiveTurn,
    Pair,
    Prompt,
    Rater,
    Reason,
    Run,
    Team,
    Vote,
)
from arena.models.live import MOST_TURNS
from arena.outcomes import BOTH_BAD, LEFT, RIGHT, TIE
from arena.prompting.templates import TemplateError
from arena.self_identification import asks_for_names, self_identifies
from arena.services import audit
from arena.services.arenas import LIVE_SETTINGS, create_arena, random_slug
from arena.services.budgets import BudgetError, reserve_new_cap
from arena.services.candidates import is_copy_of
from arena.services.comparisons import check_admission, draw_live_pair
from arena.services.locks import lock_arena, retry_on_deadlock
from arena.services.notices import notify
from arena.services.pairs import sync_pairs, take_side
from arena.services.raters import pseudonym
from arena.signals import announce, answers_changed
from arena.streams import LiveStream, StreamedAnswer
from arena.validation import InputError, clean_paragraphs

State, Problem = LiveConversation.State, LiveConversation.Problem
LONGEST_QUESTION = 8_000
ORDINARY = 300  # characters of a question
AT_ONCE = 100  # conversations that an export reads
MOST_QUESTIONS = 100_000
LEASE = timedelta(seconds=20)
RENEWED_EVERY = 5.0  # seconds
TIME_TO_VOTE = timedelta(days=1)
TIME_TO_OPEN = timedelta(minutes=1)  # from a question until its page asks for the answers
CLOSED_EARLY = "Closed before its end, so its tokens are estimated from what had arrived."
BY_NO_WORKER = timedelta(days=365)
draw = random.SystemRandom()


class LiveError(ServiceError):
    """A question that cannot be asked, or an action that a conversation does not allow."""


class LimitReachedError(LiveError):
    """The day's questions of an arena are used up."""


class AlreadyBegunError(LiveError):
    """Another page is reading the answers, or they have ended."""


# Turning it on


def can_answer_live(candidate: Candidate) -> bool:
    """Whether a candidate's endpoint, price and templates allow any question."""
    if candidate.endpoint not in all_endpoints() or candidate.disclosed_at is None:
        return False
    if price_of(candidate.endpoint, candidate.model) is None:
        return False
    try:
        request_for(candidate, Prompt(text="?"))
    except TemplateError:
        return False
    return True


@transaction.atomic
def set_up_live(
    *,
    arena: Arena,
    by: Actor,
    now: datetime,
    limit: int,
    voters: str,
    refused_words: str,
    candidates: Collection[Candidate],
) -> Arena:
    """Let raters of `arena` ask these candidates of it live questions, `limit` a day in all.

    The questions, their votes and their leaderboard are in an arena of their own, with copies of
    the candidates; a limit of 0 closes it. Raises LiveError.
    """
    if arena.live_of_id is not None or arena.origin_id is not None:
        raise LiveError("Live questions belong to an arena with prompts of its own.")
    if not 0 <= limit <= MOST_QUESTIONS:
        raise LiveError(f"Enter a number from 0 to {MOST_QUESTIONS:,}.", field="limit")
    if limit and len(candidates) < 2:
        raise LiveError("Choose at least two candidates.", field="candidates")
    for candidate in candidates:
        if not can_answer_live(candidate):
            raise LiveError(
                f"{candidate} cannot answer live: it needs an endpoint, a price, a public name and "
                "a template without variables.",
                field="candidates",
            )
    fields = {"voters": voters, "refused_words": refused_words}
    fields = checked_fields(Arena, fields, LiveError) | {"live_limit": limit}
    locked = lock_arena(arena.pk)
    live = Arena.objects.filter(live_of=locked).first()
    if live is None:
        live = create_arena(
            slug=random_slug(f"live-{locked.slug}"),
            name=f"{locked.name[:100]}: live questions",
            team=locked.team,
            is_sample=locked.is_sample,
            live_of=locked,
            held_out=0,
            **{name: getattr(locked, name) for name in LIVE_SETTINGS},
        )
    Arena.objects.filter(pk=live.pk).update(**fields)
    live.refresh_from_db()
    _copy_candidates(live, candidates, by, now)
    audit.record_in(locked, by, "changed live questions", limit=limit, voters=voters)
    announce(answers_changed, arena_id=locked.pk)  # its stored pages lead to them, or no longer
    return live


def _copy_candidates(live: Arena, chosen: Collection[Candidate], by: Actor, now: datetime) -> None:
    """Let exactly these answer. A copy that has answered keeps its content; another gets the new
    one."""
    copies = {one.pk: one for one in live.candidates.all()}
    versions = {(one.name, one.version) for one in copies.values()}
    kept = set()
    for candidate in chosen:
        usable = (one for one in copies.values() if one.merged_into_id is None)
        copy = next((one for one in usable if is_copy_of(one, candidate)), None)
        if copy is None:
            version = candidate.version
            while (candidate.name, version) in versions:
                version += 1
            versions.add((candidate.name, version))
            copy = Candidate.objects.create(
                arena=live,
                team=candidate.team,
                name=candidate.name,
                version=version,
                created_by=by.user,
                **candidate.content,
            )
        kept.add(copy.pk)
    Candidate.objects.filter(pk__in=kept).update(retired_at=None)
    gone = Candidate.objects.filter(arena=live, retired_at=None).exclude(pk__in=kept)
    gone.update(retired_at=now)
    sync_pairs(arena=live)


# Asking


def day_of(now: datetime) -> datetime:
    """The beginning of the day in UTC."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def questions_left(*, arena: Arena, now: datetime) -> int:
    """How many more may be asked today. Those count whose answers were asked for, or may be yet."""
    turns = LiveTurn.objects.filter(conversation__arena=arena, asked_at__gte=day_of(now))
    waiting = Q(conversation__state=State.WAITING)
    asked = turns.filter(Q(begun_at__isnull=False) | waiting).count()
    return max(arena.live_limit - asked, 0)


def find_refused(arena: Arena, question: str) -> str:
    """Return the first of the arena's refused words or phrases that is in the question, '' if none
    is; whatever its case and width, and with or without accents and characters that nobody sees.
    """
    asked = f" {_plain_words(question)} "
    words = map(str.strip, arena.refused_words.splitlines())
    return next((word for word in words if word and f" {_plain_words(word)} " in asked), "")


def _plain_words(text: str) -> str:
    letters = (c for c in normalize("NFKD", text) if category(c) not in ("Mn", "Cf"))
    return " ".join(re.findall(r"\w+", "".join(letters).casefold()))


@retry_on_deadlock
@transaction.atomic
def ask(
    *,
    arena: Arena,
    rater: Rater,
    question: str,
    key: UUID,
    shared: bool,
    now: datetime,
    also: int,
) -> LiveConversation:
    """Store a rater's question with the pair that will answer it; the same key again changes
    nothing. `also`: the other rater of the same browser. Raises LiveError and VoteError."""
    check_admission(arena, rater)
    lock_arena(arena.pk)
    sql.lock(sql.LOCK_RATER, rater.pk)
    if earlier := LiveConversation.objects.filter(key=key).first():
        if (earlier.rater_id, earlier.arena_id) != (rater.pk, arena.pk):
            raise LiveError(gettext("This is somebody else’s question."))
        return earlier
    text = _clean_question(arena, rater, question, now)
    drawn = draw_live_pair(arena, rater, now, also)
    if drawn is None:
        raise LiveError(gettext("Too few models can answer right now. Please try again later."))
    pair_id, low, high, probability = drawn
    reserves = _find_reserves(arena, rater, low, high, also)
    left, right = (low, high) if take_side(pair=Pair(pk=pair_id)) else (high, low)
    conversation = LiveConversation.objects.create(
        key=key,
        arena=arena,
        rater=rater,
        left_id=left,
        right_id=right,
        reserve_id=draw.choice(reserves) if reserves else None,
        reserves=len(reserves),
        draw_probability=probability,
        shared=shared,
        created_at=now,
    )
    LiveTurn.objects.create(conversation=conversation, number=1, question=text, asked_at=now)
    return conversation


@retry_on_deadlock
@transaction.atomic
def ask_again(*, conversation: LiveConversation, question: str, now: datetime) -> LiveConversation:
    """Ask both candidates one more question, which each reads after its own answers."""
    lock_arena(conversation.arena_id)
    sql.lock(sql.LOCK_RATER, conversation.rater_id)
    locked = LiveConversation.objects.select_related("arena", "rater").get(pk=conversation.pk)
    if locked.is_open:
        raise LiveError(gettext("Both answers must end before you ask again."))
    if locked.state != State.ANSWERED or not locked.can_be_voted_on(now):
        raise LiveError(gettext("This conversation has ended. Ask a new question."))
    number = locked.turns.count() + 1
    if number > MOST_TURNS:
        raise LiveError(gettext("A conversation has at most three questions. Please vote now."))
    text = _clean_question(locked.arena, locked.rater, question, now)
    kept = LiveConversation.objects.filter(pk=locked.pk, state=State.ANSWERED, deleted_at=None)
    if not kept.update(state=State.WAITING):
        raise LiveError(gettext("This conversation has ended. Ask a new question."))
    LiveTurn.objects.create(conversation=locked, number=number, question=text, asked_at=now)
    locked.state = State.WAITING
    return locked


def _clean_question(arena: Arena, rater: Rater, question: str, now: datetime) -> str:
    if rater.blocked_at:
        raise LiveError(gettext("The site’s administrators have closed voting for you."))
    try:
        text = clean_paragraphs(question)
    except InputError:
        raise LiveError(gettext("This question cannot be read as text.")) from None
    if not text:
        raise LiveError(gettext("Write a question first."))
    if len(text) > LONGEST_QUESTION:
        raise LiveError(
            gettext("A question has at most %(most)s characters; yours has %(length)s.")
            % {"most": f"{LONGEST_QUESTION:,}", "length": f"{len(text):,}"}
        )
    if find_refused(arena, text):
        raise LiveError(gettext("Your question contains a word that this arena does not allow."))
    if not questions_left(arena=arena, now=now):
        raise LimitReachedError(gettext("Today’s questions are used up."))
    settle_lost(now=now, of=rater)
    unopened = LiveConversation.objects.filter(rater=rater, state=State.WAITING)
    unopened.update(state=State.STOPPED)  # they have gone on
    if _is_writing(rater):
        raise LiveError(
            gettext("Your last question is still being answered. Stop it, or wait for its end.")
        )
    return text


def _is_writing(rater: Rater) -> bool:
    """Whether a rater is being answered: one conversation at a time."""
    return LiveConversation.objects.filter(rater=rater, state=State.WRITING).exists()


def _find_reserves(arena: Arena, rater: Rater, low: int, high: int, also: int) -> list[int]:
    """Who may answer if one of the two does not begin to; of the rater's team if these are."""
    own = {pk for (pk,) in sql.rows(sql.OWN, arena=arena.pk, rater=rater.pk, also=also)}
    paused = RunRequester.objects.filter(
        run__arena=arena, run__kind=Run.Kind.LIVE, run__state=Run.State.OPEN
    ).exclude(paused_at=None)
    left_out = set(paused.values_list("requester", flat=True))
    return [
        candidate.pk
        for candidate in Candidate.objects.active().filter(arena=arena).exclude(pk__in=[low, high])
        if (candidate.pk in own) == (low in own) and candidate.requester not in left_out
    ]


# Answering


class LiveCallHandler:
    """Plans and reads a live call: its request is made from the conversation so far, and its text
    is stored with the turn alone."""

    kind = Run.Kind.LIVE.value

    def __init__(self, request: Request, note: str = "") -> None:
        self.request = request
        self.note = note

    def render(self, call: Call) -> Request:
        return self.request

    def read(self, call: Call, reply: Reply) -> ReplyReading:
        return ReplyReading(Call.State.DONE, note=self.note)

    def repair(self, call: Call) -> str | None:
        return None

    def settle(self, call: Call) -> None:
        pass


def begin(*, conversation: LiveConversation, now: datetime) -> LiveStream:
    """Claim the answers to the newest question.

    Raises AlreadyBegunError, BudgetError, and VoteError for a rater who may vote no more.
    """
    whole = LiveConversation.objects.select_related("arena", "left", "right", "reserve", "rater")
    conversation = whole.get(pk=conversation.pk)
    turns = list(conversation.turns.all())
    sides = {"left": conversation.left, "right": conversation.right}
    # Requests are planned before anything is locked.
    answers = [_plan(conversation, turns, sides[side], side) for side in sides]
    _begin(conversation, turns[-1], answers, now)
    return LiveStream(conversation, turns[-1], answers)


@retry_on_deadlock
@transaction.atomic
def _begin(
    conversation: LiveConversation,
    turn: LiveTurn,
    answers: Sequence[StreamedAnswer],
    now: datetime,
) -> None:
    arena = lock_arena(conversation.arena_id)
    sql.lock(sql.LOCK_RATER, conversation.rater_id)
    check_admission(arena, conversation.rater)
    waiting = LiveConversation.objects.filter(pk=conversation.pk, state=State.WAITING)
    if _is_writing(conversation.rater) or not waiting.update(
        state=State.WRITING, lease_expires_at=now + LEASE
    ):
        raise AlreadyBegunError(gettext("These answers are being read in another tab."))
    LiveTurn.objects.filter(pk=turn.pk).update(begun_at=now)
    _claim(arena, answers, now)


def _plan(
    conversation: LiveConversation, turns: Sequence[LiveTurn], candidate: Candidate, side: str
) -> StreamedAnswer:
    """Plan a candidate's answer; one that cannot even be asked for has failed already."""
    answer = StreamedAnswer(candidate, masked_names=_names_to_mask(conversation.arena, candidate))
    if candidate.retired_at is not None or not conversation.arena.live_limit:
        answer.error = ProviderError("It answers no more live questions.")
        return answer
    answer.call = call = Call(
        requester=candidate.requester,
        subject=turns[-1].subject,
        endpoint=candidate.endpoint,
        model=candidate.model,
        requests_allowed=1,
    )
    try:
        request = request_for(candidate, _prompt_so_far(turns, side))
        answer.plan = plan_request(call, LiveCallHandler(request))
    except (TemplateError, CannotAskError, NoPriceError, UnknownEndpointError) as error:
        answer.error = ProviderError(str(error))
    except ProviderError as error:
        answer.error = error
    return answer


def _claim(arena: Arena, answers: Sequence[StreamedAnswer], now: datetime) -> None:
    """Write and claim the calls of planned answers, with the most they can cost. Raises
    BudgetError."""
    planned = []
    for answer in answers:
        if answer.plan is None or answer.call is None:
            continue
        endpoint, tokens = answer.plan.endpoint, answer.plan.tokens
        if paces.take_turn(endpoint=endpoint, tokens=tokens, now=now) is None:
            planned.append((answer.call, answer.plan.amount))
        else:
            answer.plan, answer.error = None, ProviderError("The limit per minute is reached.")
    if not planned:
        return
    run = _run_of_day(arena, now)
    _make_room(run, sum(amount for _, amount in planned))
    names = [call.endpoint for call, _ in planned]
    broken = dict(EndpointPace.objects.filter(endpoint__in=names).values_list("endpoint", "broken"))
    RunRequester.objects.bulk_create(
        [
            RunRequester(
                run=run, requester=call.requester, endpoint=call.endpoint, model=call.model
            )
            for call, _ in planned
        ],
        ignore_conflicts=True,
    )
    for call, amount in planned:
        call.pk, call.run, call.enqueue_after = None, run, now + BY_NO_WORKER
        call.state, call.attempts, call.requests = Call.State.WAITING, 0, 0
        call.save(force_insert=True)
        call.broken = broken.get(call.endpoint, 0)
        leases.claim(call=call, lease=LEASE, now=now, amount=amount)


def _names_to_mask(arena: Arena, candidate: Candidate) -> tuple[str, ...] | None:
    masks = arena.self_identifying == Arena.SelfIdentifying.MASK
    return (candidate.name, candidate.model) if masks else None


def _prompt_so_far(turns: Sequence[LiveTurn], side: str) -> Prompt:
    *messages, _ = _messages(turns, side)
    return Prompt(**prompt_fields(messages))


def _run_of_day(arena: Arena, now: datetime) -> Run:
    """The arena's open run of live calls, which is closed after its day in UTC."""
    mine = Run.objects.filter(arena=arena, kind=Run.Kind.LIVE, state=Run.State.OPEN)
    run = mine.filter(created_at__gte=day_of(now)).order_by("-pk").first()
    return run or Run.objects.create(
        arena=arena,
        kind=Run.Kind.LIVE,
        team=arena.team,
        state=Run.State.OPEN,
        cap=0,
        created_at=now,
    )


def _make_room(run: Run, amount: int) -> None:
    """Set the run's cap to what it has committed and this amount, if its team's budget covers it.
    Raises BudgetError."""
    if run.team_id is not None:
        Team.objects.select_for_update(no_key=True).get(pk=run.team_id)
    rows = Run.objects.select_related("team").select_for_update(of=("self",), no_key=True)
    run = rows.get(pk=run.pk)
    cap = money.committed(run) + amount
    reserve_new_cap(run, cap)
    run.cap = cap
    run.save(update_fields=["cap"])


def repair(*, stream: LiveStream, broken: StreamedAnswer, now: datetime) -> str:
    """Let the reserve answer instead of a candidate that failed before anything was shown.

    Returns '' or, if nobody can, why the conversation is void.
    """
    conversation = stream.conversation
    is_late = stream.pacer.began is not None or stream.turn.number > 1
    if is_late or conversation.reserve is None or conversation.was_replaced:
        return Problem.FAILED
    side = "left" if stream.answers[0] is broken else "right"
    answer = _plan(conversation, [stream.turn], conversation.reserve, side)
    try:
        if not _replace(conversation, side, answer, now):
            return Problem.LOST
    except (BudgetError, money.BudgetDeniedError):
        return Problem.BUDGET
    _settle(broken)
    conversation.was_replaced = True
    setattr(conversation, side, conversation.reserve)
    stream.answers[stream.answers.index(broken)] = answer
    answer.start()
    return ""


@retry_on_deadlock
@transaction.atomic
def _replace(
    conversation: LiveConversation, side: str, answer: StreamedAnswer, now: datetime
) -> bool:
    """Write the reserve in place of a candidate and claim its answer; False if the conversation is
    no longer this stream's."""
    arena = lock_arena(conversation.arena_id)
    rows = LiveConversation.objects.filter(pk=conversation.pk, state=State.WRITING)
    probability = conversation.draw_probability / max(conversation.reserves, 1)
    values = {side: conversation.reserve, "was_replaced": True, "draw_probability": probability}
    if not rows.update(**values):
        return False
    _claim(arena, [answer], now)
    return True


def renew(*, stream: LiveStream, now: datetime) -> bool:
    """Hold the calls of a stream for longer; False if the conversation is no longer its own."""
    calls = [answer.call.pk for answer in stream.answers if answer.call and not answer.has_ended]
    writing = LiveConversation.objects.filter(pk=stream.conversation.pk, state=State.WRITING)
    running = Call.objects.filter(pk__in=calls, state=Call.State.RUNNING)
    until = now + LEASE
    running.update(lease_expires_at=until, enqueue_after=until)
    return bool(writing.update(lease_expires_at=until))


def finish_answered(*, stream: LiveStream, now: datetime) -> None:
    """Both have ended: store them, and have the rater vote."""
    _finish(stream, State.ANSWERED, now)


def finish_stopped(*, stream: LiveStream, now: datetime) -> None:
    """The page was closed or the rater has stopped both: store what was shown."""
    _finish(stream, State.STOPPED, now)


def finish_void(*, stream: LiveStream, problem: str, now: datetime) -> None:
    """A model failed: nothing of the conversation counts."""
    _finish(stream, State.VOID, now, problem)


def _finish(stream: LiveStream, state: str, now: datetime, problem: str = "") -> None:
    """Close both requests, settle what they cost, and store what was shown."""
    stream.is_finished = True
    for answer in stream.answers:
        answer.close()
    for answer in stream.answers:
        _settle(answer)
    with suppress(Arena.DoesNotExist):  # it was deleted meanwhile
        _store(stream, state, now, problem)


@retry_on_deadlock
@transaction.atomic
def _store(stream: LiveStream, state: str, now: datetime, problem: str) -> None:
    arena = lock_arena(stream.conversation.arena_id)
    for run in Run.objects.filter(pk__in={a.call.run_id for a in stream.answers if a.call}):
        _make_room(run, 0)
    rows = LiveConversation.objects.filter(pk=stream.conversation.pk, state=State.WRITING)
    conversation = rows.select_related("left", "right").first()
    if conversation is None:
        return  # deleted meanwhile, or lost
    conversation.arena = arena
    conversation.state, conversation.problem = state, problem
    conversation.lease_expires_at = None
    if state == State.ANSWERED:
        conversation.names_itself = conversation.names_itself or _tells_names(stream)
        _issue_comparison(conversation, now)
    conversation.save()
    left, right = stream.texts
    LiveTurn.objects.filter(pk=stream.turn.pk).update(left_text=left, right_text=right)


def _tells_names(stream: LiveStream) -> bool:
    """Whether the question asks for names, or an answer tells its own."""
    return asks_for_names(stream.turn.question) or any(
        # While it was written, the thought was not folded.
        self_identifies(
            answer.text,
            names=(answer.candidate.name, answer.candidate.model),
            reads_thought=True,
        )
        for answer in stream.answers
    )


def _issue_comparison(conversation: LiveConversation, now: datetime) -> None:
    """Let the rater vote from now on. The prompt has no text: others must not read it."""
    until = now + TIME_TO_VOTE
    if conversation.comparison is not None:
        Comparison.objects.filter(pk=conversation.comparison.pk).update(
            issued_at=now, expires_at=until, names_itself=conversation.names_itself
        )
        return
    prompt, _ = Prompt.objects.get_or_create(
        arena=conversation.arena,
        external_id=str(conversation.key),
        defaults={"retired_at": now},
    )
    conversation.comparison = Comparison.objects.create(
        arena=conversation.arena,
        rater_id=conversation.rater_id,
        prompt=prompt,
        left=conversation.left,
        right=conversation.right,
        draw_probability=conversation.draw_probability,
        names_itself=conversation.names_itself,
        issued_at=now,
        expires_at=until,
    )


# A server may quote the question in its error, which the team and operators read.
FAULTS = {
    EndpointStoppedError: "The server refused the key, or has no such model.",
    TooLongError: "The conversation is too long for the model.",
    UnsupportedParameterError: "The server does not know one of the parameters.",
    RejectedError: "The server rejected the request.",
    RetryableError: "The server was busy, out of reach, or broke off.",
}


def _in_our_words(error: ProviderError) -> ProviderError:
    words = (said for kind, said in FAULTS.items() if isinstance(error, kind))
    error.args = (next(words, "The model gave no answer."),)
    return error


def _settle(answer: StreamedAnswer) -> None:
    """Book what an answer cost. What was cut off is estimated from what had arrived."""
    call, plan = answer.call, answer.plan
    if call is None or plan is None or call.has_ended:
        return
    note = ""
    result: Reply | ProviderError
    if answer.error is not None:
        result = _in_our_words(answer.error)
    elif answer.reply is not None:
        result = answer.reply
    else:
        note = CLOSED_EARLY
        written = -(-(len(answer.text) + answer.thought) // money.CHARACTERS_PER_TOKEN)
        tokens_in = money.expected_tokens_in(plan.request)
        result = Reply("", call.model, tokens_in=tokens_in, tokens_out=written)
    if isinstance(result, Reply):
        result = replace(result, text="")
    handler = LiveCallHandler(plan.request, note)
    with suppress(LeaseLostError):  # then the sweep has booked it
        record_outcome(call, plan, handler, result, answer.seconds)
        if not call.has_ended:  # nobody is to ask again
            ended = leases.ended(Call.State.FAILED, call.error, call.due_at)
            leases.write(call=call, now=call.due_at, **ended)


def settle_lost(*, now: datetime, of: Rater | None = None) -> int:
    """Void the conversations whose stream has died with its process, and stop those whose page
    never asked for the answers. Returns their number."""
    rows = LiveConversation.objects.filter(rater=of) if of else LiveConversation.objects.all()
    dead = rows.filter(state=State.WRITING, lease_expires_at__lte=now)
    unopened = rows.filter(state=State.WAITING).exclude(
        Exists(
            LiveTurn.objects.filter(conversation=OuterRef("pk"), asked_at__gt=now - TIME_TO_OPEN)
        )
    )
    lost = dead.update(state=State.VOID, problem=Problem.LOST, lease_expires_at=None)
    return lost + unopened.update(state=State.STOPPED)


def void_unpaid(*, conversation: LiveConversation) -> None:
    """End a conversation for whose answers there is no money."""
    rows = LiveConversation.objects.filter(pk=conversation.pk, state=State.WAITING)
    rows.update(state=State.VOID, problem=Problem.BUDGET)


def close_past_runs(*, now: datetime) -> int:
    """Close the runs of past days, once nothing of them is under way."""
    past = Run.objects.filter(
        kind=Run.Kind.LIVE, state=Run.State.OPEN, created_at__lt=day_of(now), reserved=0
    )
    return past.update(state=Run.State.DONE, closed_at=now, counted_at=now)


def most_of_a_question(*, arena: Arena) -> int | None:
    """Return the most that a first question of ordinary length can cost, in nano-dollars."""
    costs = []
    for candidate in Candidate.objects.active().filter(arena=arena):
        rate = price_of(candidate.endpoint, candidate.model)
        if rate is not None:
            prompt = Prompt(text="?" * ORDINARY)
            with suppress(TemplateError):
                request = money.limited(request_for(candidate, prompt))
                costs.append(money.worst_cost(rate, request))
    return sum(sorted(costs)[-2:]) if len(costs) > 1 else None


def newest_run(*, arena: Arena) -> Run | None:
    """The run that has the calls of the last day with a question."""
    return Run.objects.filter(arena=arena, kind=Run.Kind.LIVE).order_by("-pk").first()


# Care


def days_kept() -> int:
    """How many days a conversation is kept that is not shared; 0: for ever."""
    days: int = settings.LIVE_DAYS
    return days


@retry_on_deadlock
@transaction.atomic
def delete_texts(*, conversations: QuerySet[LiveConversation], now: datetime) -> None:
    """Delete what was asked, answered and said about it; votes stay. Whoever is still writing
    stores nothing."""
    ids = list(conversations.order_by("pk").values_list("pk", flat=True))
    # Conversations before their turns: the same order as in `_store`.
    rows = LiveConversation.objects.filter(pk__in=ids)
    unfinished = rows.filter(state__in=[State.WAITING, State.WRITING])
    unfinished.update(state=State.STOPPED, lease_expires_at=None)
    rows.update(deleted_at=now, shared=False, reported_at=None)
    LiveTurn.objects.filter(conversation__in=ids).update(question="", left_text="", right_text="")
    about = Reason.objects.filter(vote__comparison__conversation__in=ids, side=Reason.BOTH)
    about.delete()


def delete_old(*, now: datetime) -> None:
    """Delete what raters do not share once it is older than LIVE_DAYS; without a vote, the
    conversation itself."""
    if not days_kept():
        return
    before = now - timedelta(days=days_kept())
    old = LiveConversation.objects.filter(shared=False, created_at__lte=before)
    voted = Exists(Vote.objects.filter(comparison=OuterRef("comparison")))
    while keys := list(old.filter(~voted).values_list("arena", "key")[:AT_ONCE]):
        with transaction.atomic():
            old.filter(~voted, key__in=[key for _, key in keys]).delete()
            names = [str(key) for _, key in keys]
            arenas = {arena for arena, _ in keys}
            unvoted = ~Exists(Vote.objects.filter(comparison__prompt=OuterRef("pk")))
            Prompt.objects.filter(unvoted, arena__in=arenas, external_id__in=names).delete()
    while ids := list(old.filter(deleted_at=None).values_list("pk", flat=True)[:AT_ONCE]):
        delete_texts(conversations=LiveConversation.objects.filter(pk__in=ids), now=now)


def set_shared(*, conversation: LiveConversation, shared: bool) -> None:
    """Let others read a conversation, or no longer."""
    LiveConversation.objects.filter(pk=conversation.pk, deleted_at=None).update(shared=shared)


def report(*, conversation: LiveConversation, now: datetime) -> None:
    """Tell the arena's team that somebody finds a shared conversation improper."""
    new = LiveConversation.objects.filter(pk=conversation.pk, reported_at=None)
    arena = conversation.arena
    if new.update(reported_at=now) and arena.team is not None:
        notify(
            team=arena.team,
            key=f"live.reported:{conversation.pk}",
            kind="live.reported",
            sentence=f"Somebody reported a live question in {arena}.",
            path=conversation.get_absolute_url(),
            arena=arena,
            now=now,
        )


@transaction.atomic
def set_hidden(*, conversation: LiveConversation, hidden: bool, by: Actor, now: datetime) -> None:
    """Hide a shared conversation from everybody but its writer, or show it again."""
    values = {"hidden_at": now if hidden else None, "reported_at": None}
    LiveConversation.objects.filter(pk=conversation.pk).update(**values)
    action = "hid a live question" if hidden else "showed a live question"
    audit.record_in(conversation.arena, by, action, str(conversation.key))


WINNERS = {LEFT: "model_a", RIGHT: "model_b", TIE: "tie", BOTH_BAD: "tie (bothbad)"}


def exported_conversations(arena: Arena) -> Iterator[dict[str, Any]]:
    """Yield the shared conversations in LMArena's columns, oldest first.

    They are read a few at a time, so that one that is deleted meanwhile is not in the file.
    """
    rows = LiveConversation.objects.shared().filter(arena=arena, hidden_at=None).order_by("pk")
    rows = rows.select_related("left", "right").prefetch_related("turns", "comparison__votes")
    newest = 0
    while batch := list(rows.filter(pk__gt=newest)[:AT_ONCE]):
        for conversation in batch:
            if row := _exported(conversation):
                yield row
        newest = batch[-1].pk


def _exported(conversation: LiveConversation) -> dict[str, Any] | None:
    assert conversation.comparison is not None, "it was voted on"
    votes = conversation.comparison.votes.all()
    vote = next((one for one in votes if one.voided_at is None), None)
    if vote is None or vote.names_withheld:
        return None  # it was withdrawn a moment ago, or its rater would find the names here
    turns = list(conversation.turns.all())
    return {
        "question_id": str(conversation.key),
        "model_a": str(conversation.left),
        "model_b": str(conversation.right),
        "winner": WINNERS[vote.outcome],
        "judge": pseudonym(arena_id=vote.arena_id, rater_id=vote.rater_id),
        "conversation_a": _messages(turns, "left"),
        "conversation_b": _messages(turns, "right"),
        "turn": len(turns),
        "anony": not conversation.names_itself,
        "tstamp": vote.cast_at.timestamp(),
    }


def _messages(turns: Sequence[LiveTurn], side: str) -> list[Message]:
    return [
        message
        for turn in turns
        for message in (
            {"role": "user", "content": turn.question},
            {"role": "assistant", "content": getattr(turn, f"{side}_text")},
        )
    ]
