"""Replies become answers, pairs hear of them, and a run that is through is closed.

A worker may die at any line: what it left behind is found by the sweep. A reply is kept by one
insert, which the database takes once. Pairs are counted anew every few seconds rather than with
each answer; `Run.votes_done` is how many answers of a run they know of, and a run closes only when
that is all of them.
"""

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

from arena.answers.subjects import SUBJECT, candidate_of, prompt_of
from arena.blinding import names_itself
from arena.calls.models import Call
from arena.models import Candidate, Response, Run
from arena.models.runs import RunQuerySet
from arena.services.pairing import sync_pairs

AT_MOST = 500

# -- Reading ---------------------------------------------------------------------------------------


def without_answer(calls: "QuerySet[Call]") -> "QuerySet[Call]":
    """Those of answers' calls to whose prompt the candidate has no answer, from wherever.

    Each has its `prompt_id`. Subjects of other calls are no numbers, so they are never cast.
    """
    number = Cast(Substr("subject", len(SUBJECT) + 1), BigIntegerField())
    about = Case(When(subject__startswith=SUBJECT, then=number), output_field=BigIntegerField())
    answers = Response.objects.filter(
        candidate=OuterRef("run__candidate"), prompt=OuterRef("prompt_id")
    )
    return calls.annotate(prompt_id=about).filter(~Exists(answers))


def _done() -> "QuerySet[Call]":
    return Call.objects.filter(run__kind=Run.Kind.ANSWERS, state=Call.State.DONE)


def _with_kept(runs: RunQuerySet) -> Any:
    """Runs of answers; `kept` is how many each has brought."""
    brought = Response.objects.filter(call__run=OuterRef("pk")).order_by().values("call__run")
    count = brought.annotate(n=Count("pk")).values("n")
    return runs.annotate(kept=Coalesce(Subquery(count), 0))


# -- Keeping ---------------------------------------------------------------------------------------


def keep_answer(*, call: Call) -> bool:
    """Turn the reply of a call that is done into its candidate's answer; say whether it became it.

    Where the candidate has an answer already, because one was uploaded while the model was asked,
    that stays: what somebody brought is never replaced. The reply remains in the ledger, paid.
    """
    candidate = Candidate.objects.only("name", "model").get(pk=candidate_of(call.asker))
    _, kept = Response.objects.get_or_create(
        candidate=candidate,
        prompt_id=prompt_of(call.subject),
        defaults={
            "text": call.reply,
            "call": call,
            "tokens_in": call.tokens_in,
            "tokens_out": call.tokens_out,
            "seconds": call.seconds,
            "cost": call.cost,
            "names_itself": names_itself(call.reply, names=(candidate.name, candidate.model)),
        },
    )
    return kept


def keep_left_behind(*, candidate: Candidate | None = None) -> None:
    """Keep the replies whose worker died before it could; those of one candidate, or of all.

    A run that is done has none: it closed when all were kept.
    """
    calls = _done().exclude(run__state=Run.State.DONE)
    if candidate is not None:
        calls = calls.filter(asker=candidate.asker)
    for call in without_answer(calls).order_by("pk")[:AT_MOST]:
        keep_answer(call=call)


# -- Tending ---------------------------------------------------------------------------------------


def tend_runs(*, now: datetime) -> None:
    """Keep what was left behind, let pairs know of new answers, close what is through."""
    keep_left_behind()
    runs = _with_kept(Run.objects.of_answers().exclude(state=Run.State.DONE))
    for run in runs.filter(Q(state=Run.State.OPEN) | ~Q(kept=F("votes_done"))).order_by("pk"):
        tend_run(run_id=run.pk, now=now)


def tend_run(*, run_id: int, now: datetime) -> None:
    """Let pairs know of a run's new answers, and close it if it is through."""
    note_answers(run_id=run_id)
    _close_if_through(run_id, now)


@transaction.atomic
def note_answers(*, run_id: int) -> None:
    """Make pairs of the answers that a run has brought since this was done last."""
    run = _with_kept(Run.objects.of_answers()).select_related("arena", "candidate").get(pk=run_id)
    if run.kept == run.votes_done:
        return
    sync_pairs(arena=run.in_arena, touched=run.candidate)
    Run.objects.filter(pk=run.pk).update(votes_done=run.kept)


def _close_if_through(run_id: int, now: datetime) -> None:
    """Close an open run of which nothing waits any more. One statement: a run that goes on puts
    calls back to waiting while it opens."""
    own = Call.objects.filter(run=OuterRef("pk"))
    through = _with_kept(Run.objects.filter(pk=run_id, state=Run.State.OPEN)).filter(
        ~Exists(own.filter(state__in=Call.GOING_ON)),
        ~Exists(without_answer(own.filter(state=Call.State.DONE))),
        kept=F("votes_done"),
    )
    through.update(state=Run.State.DONE, closed_at=now)


def nothing_waits(run_id: int) -> bool:
    """Has every call of the run ended?"""
    return not Call.objects.filter(run=run_id, state__in=Call.GOING_ON).exists()
