"""Generated answers: what a candidate's model is sent, and how replies become responses.

A worker may die at any line; the sweep finishes its work. A reply is stored by one insert, which
the database accepts once. Pairs are recounted every few seconds rather than per answer:
`Run.votes_done` is the number of answers that they include, and a run closes when they include all
of them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    When,
)
from django.db.models.functions import Cast, Coalesce, Substr
from django.utils import timezone

from arena.calls.execution import CannotAskCallError, CannotAskError, ReplyReading
from arena.calls.leases import LONGEST_REPLY
from arena.calls.models import Call
from arena.calls.providers.base import Message, Reply, Request
from arena.errors import ServiceError
from arena.models import Candidate, Prompt, Response, Run
from arena.models.candidates import candidate_of
from arena.models.prompts import SUBJECT, prompt_of
from arena.models.runs import RunQuerySet
from arena.prompting.templates import TemplateError, render_messages
from arena.self_identification import self_identifies
from arena.services.pairs import sync_pairs


class GenerationError(ServiceError):
    """Answers cannot be generated as requested."""


class NothingToAskError(GenerationError):
    """No answer is missing."""

    kind = "nothing-to-do"


EMPTY = "The model returned an empty answer."
CUT_OFF = "The answer was cut off."
OVERLONG = f"The answer is longer than {LONGEST_REPLY:,} characters."
RETIRED = "The candidate is archived, so no more answers are generated for it."
GONE = "The prompt was deleted."
UPLOADED = "An answer to this prompt was uploaded before the model was called."


class AnswerHandler:
    """Builds the request for an answer and reads the reply; there is no repair turn.

    An answer that is still cut off with more room is too long; an empty one failed and may be
    retried.
    """

    kind = Run.Kind.ANSWERS

    def render(self, call: Call) -> Request:
        candidate = Candidate.objects.get(pk=candidate_of(call.requester))
        if candidate.retired_at is not None:
            raise CannotAskError(RETIRED)
        prompt = Prompt.objects.filter(pk=prompt_of(call.subject)).first()
        if prompt is None:
            raise CannotAskCallError(GONE)
        if Response.objects.filter(candidate=candidate, prompt=prompt).exists():
            raise CannotAskCallError(UPLOADED)
        try:
            return request_for(candidate, prompt)
        except TemplateError as error:
            raise CannotAskCallError(str(error)) from None

    def read(self, call: Call, reply: Reply) -> ReplyReading:
        if reply.cut_off:
            return ReplyReading(Call.State.TOO_LONG, note=CUT_OFF)
        if not reply.text.strip():
            return ReplyReading(Call.State.FAILED, note=EMPTY)
        if len(reply.text) > LONGEST_REPLY:
            return ReplyReading(Call.State.TOO_LONG, note=OVERLONG)
        return ReplyReading(Call.State.DONE)

    def repair(self, call: Call) -> str | None:
        return None

    def settle(self, call: Call) -> None:
        """Store the answer, and close a finished run."""
        if call.state == Call.State.DONE:
            save_response(call=call)
        if call.run_id is not None and nothing_waits(call.run_id):
            reconcile_run(run_id=call.run_id, now=timezone.now())


def messages_for(
    prompt: Prompt,
    *,
    system_prompt: str,
    user_template: str,
    messages: Sequence[Mapping[str, Any]] | None = None,
) -> list[tuple[str, str]]:
    """Return the (role, text) messages that ask for an answer to `prompt`. Raises TemplateError.

    Without a template a conversation is sent turn by turn, after the system prompt; one with tools,
    or inside a template, is sent as its transcript.
    """
    rendered = render_messages(
        system_prompt=system_prompt,
        user_template=user_template,
        messages=messages,
        prompt=prompt.text,
        variables=prompt.variables,
        prompt_id=prompt.external_id,
    )
    turns = prompt.messages or []
    has_tools = any(turn["role"] == "tool" or turn.get("tool_calls") for turn in turns)
    if not turns or has_tools or user_template.strip() or messages:
        return rendered
    return [*rendered[:-1], *((turn["role"], turn["content"]) for turn in turns)]


def request_for(candidate: Candidate, prompt: Prompt) -> Request:
    """Return the request for `candidate`'s answer to `prompt`. Raises TemplateError."""
    messages = messages_for(
        prompt,
        system_prompt=candidate.system_prompt,
        user_template=candidate.user_template,
        messages=candidate.messages,
    )
    turns = tuple(Message(role, text) for role, text in messages)
    return Request(candidate.model, turns, candidate.parameters)


AT_MOST = 500


def without_answer(calls: "QuerySet[Call]") -> "QuerySet[Call]":
    """Calls for answers whose candidate has no answer to the prompt yet, annotated `prompt_id`.

    Subjects of other calls are not numbers, so they are never cast.
    """
    number = Cast(Substr("subject", len(SUBJECT) + 1), BigIntegerField())
    about = Case(When(subject__startswith=SUBJECT, then=number), output_field=BigIntegerField())
    answers = Response.objects.filter(
        candidate=OuterRef("run__candidate"), prompt=OuterRef("prompt_id")
    )
    return calls.annotate(prompt_id=about).filter(~Exists(answers))


def _with_kept(runs: RunQuerySet) -> Any:
    """Annotate `kept`: the number of answers from each run."""
    brought = Response.objects.filter(call__run=OuterRef("pk")).order_by().values("call__run")
    count = brought.annotate(n=Count("pk")).values("n")
    return runs.annotate(kept=Coalesce(Subquery(count), 0))


def save_response(*, call: Call) -> bool:
    """Store the reply of a finished call as the candidate's answer; return whether it was new.

    An answer uploaded meanwhile stays; the reply remains in the ledger.
    """
    candidate = Candidate.objects.only("name", "model").get(pk=candidate_of(call.requester))
    _, is_new = Response.objects.get_or_create(
        candidate=candidate,
        prompt_id=prompt_of(call.subject),
        defaults={
            "text": call.reply,
            "call": call,
            "tokens_in": call.tokens_in,
            "tokens_out": call.tokens_out,
            "seconds": call.seconds,
            "cost": call.cost,
            "names_itself": self_identifies(call.reply, names=(candidate.name, candidate.model)),
        },
    )
    return is_new


def save_abandoned_responses(*, candidate: Candidate | None = None) -> None:
    """Store replies whose worker died before it could, of one candidate or of all."""
    calls = Call.objects.filter(run__kind=Run.Kind.ANSWERS, state=Call.State.DONE)
    calls = calls.exclude(run__state=Run.State.DONE)
    if candidate is not None:
        calls = calls.filter(requester=candidate.requester)
    for call in without_answer(calls).order_by("pk")[:AT_MOST]:
        save_response(call=call)


def reconcile_runs(*, now: datetime) -> None:
    """Store abandoned replies, count new answers into pairs, close finished runs."""
    save_abandoned_responses()
    runs = _with_kept(Run.objects.of_answers().exclude(state=Run.State.DONE))
    for run in runs.filter(Q(state=Run.State.OPEN) | ~Q(kept=F("votes_done"))).order_by("pk"):
        reconcile_run(run_id=run.pk, now=now)


def reconcile_run(*, run_id: int, now: datetime) -> None:
    """Count a run's new answers into pairs, and close the run if it is finished."""
    note_answers(run_id=run_id)
    # One statement, because a resumed run sets calls back to waiting while it opens.
    calls_of_run = Call.objects.filter(run=OuterRef("pk"))
    finished = _with_kept(Run.objects.filter(pk=run_id, state=Run.State.OPEN)).filter(
        ~Exists(calls_of_run.filter(state__in=Call.GOING_ON)),
        ~Exists(without_answer(calls_of_run.filter(state=Call.State.DONE))),
        kept=F("votes_done"),
    )
    finished.update(state=Run.State.DONE, closed_at=now)


@transaction.atomic
def note_answers(*, run_id: int) -> None:
    """Count a run's answers since the last time into pairs."""
    run = _with_kept(Run.objects.of_answers()).select_related("arena", "candidate").get(pk=run_id)
    if run.kept == run.votes_done:
        return
    sync_pairs(arena=run.in_arena, touched=run.candidate)
    Run.objects.filter(pk=run.pk).update(votes_done=run.kept)


def nothing_waits(run_id: int) -> bool:
    return not Call.objects.filter(run=run_id, state__in=Call.GOING_ON).exists()
