"""Successors: what becomes of a judge whose replies this release reads in another way, or that it
shows texts in another way.

The reader and the version of the prompts are part of a judge's digest, so a judge that was
registered with others gets a new digest and its next epoch. Every recorded reply is read again,
without a call: the next epoch takes over calls, judgements and votes, all of them read by one
reader, and is measured anew. Where a verdict changes, its vote is voided and the new one is cast.
Where a reply was not kept, verdicts of two readers would be mixed, so the next epoch begins with
nothing, and untrusted. So it does where the judge has seen a text that it would be shown in another
way today.
"""

from collections.abc import Collection
from datetime import datetime
from itertools import chain
from uuid import uuid4

from django.db import transaction
from django.db.models import Q, QuerySet

from arena.calls.models import Call, RunRequester
from arena.calls.providers.base import Reply
from arena.models import Run, Vote
from arena.services.voting import void
from arena.shown_text import as_read, name_pictures
from judges.core.parsing import reader_digest
from judges.core.rubric import RubricError
from judges.core.spec import PROMPT_VERSION, JudgeSpec
from judges.models import (
    Calibration,
    DriftCheck,
    Epoch,
    Judge,
    Judgement,
    JuryVerdict,
    LabelSet,
    RunJudge,
)
from judges.services.calibration import measure_arena, measure_labels
from judges.services.calls import JudgeCallHandler
from judges.services.honeypots import measure_honeypots
from judges.services.juries import settle_jury
from judges.services.registry import (
    JudgeError,
    begin_next_epoch,
    jury_digest,
    spec_of,
    take_over_rater,
)
from judges.services.settlement import settle
from judges.services.subjects import texts_as_given
from judges.services.trust import settle_trust

REASON = "This release reads replies in another way; the recorded ones were read again."
SAME_TEXTS = "This release shows some texts in another way, but none that this judge has seen."
OTHER_TEXTS = "This release shows some of the texts that this judge has seen in another way."
NOT_KEPT = "This release reads replies in another way, and not every reply was kept."
VOIDED = "The reply was read again, with another result"
READ = (Call.State.DONE, Call.State.UNREADABLE, Call.State.REFUSED)


def succeed_judges(*, now: datetime) -> int:
    """Give every judge that was registered with another reader or other prompts its successor;
    return how many.

    One transaction each; after an interruption, call it again.
    """
    current = {"reader": reader_digest(), "prompt_version": PROMPT_VERSION}
    stale = Epoch.objects.open().exclude(**current).select_related("judge", "rater").order_by("pk")
    judges = [epoch for epoch in stale if not epoch.judge.is_jury]
    return sum(_succeed(epoch, now) for epoch in judges)


@transaction.atomic
def _succeed(epoch: Epoch, now: datetime) -> bool:
    """Return False for a judge that nobody can ask any more, because its rubric has changed."""
    judge = epoch.judge
    try:
        spec = spec_of(judge)
    except (RubricError, ValueError):
        return False
    if spec.digest_with(epoch.reader, epoch.prompt_version) != judge.digest:
        return False
    juries = list(Epoch.objects.open().filter(judge__members=judge).select_related("judge"))
    former = {jury.pk: _requesters_of(jury.judge) for jury in juries}
    Judge.objects.filter(pk=judge.pk).update(digest=spec.digest)
    judge.refresh_from_db()
    reason, kept = _reason_to_follow(epoch, spec)
    successor = begin_next_epoch(epoch=epoch, reason=reason, now=now)
    if kept:
        _take_over(epoch, successor)
    changed = _read_again(successor) if kept else []
    followers = [
        (jury, _succeed_jury(jury, former[jury.pk], epoch, successor, kept=kept, now=now))
        for jury in juries
        if epoch.requester in former[jury.pk]
    ]
    _settle_again(_judgements_about(changed), now)
    for before, after in [(epoch, successor), *followers]:
        _measure_again(before, after, now)
    return True


def _reason_to_follow(epoch: Epoch, spec: JudgeSpec) -> tuple[str, bool]:
    """Return why the next epoch begins, and whether it takes over what this one has."""
    if epoch.prompt_version != PROMPT_VERSION and _has_seen_otherwise(epoch, spec):
        return OTHER_TEXTS, False
    if epoch.reader == reader_digest():
        return SAME_TEXTS, True
    if _own_calls(epoch).filter(state=Call.State.DONE, reply="").exists():
        return NOT_KEPT, False
    return REASON, True


def _has_seen_otherwise(epoch: Epoch, spec: JudgeSpec) -> bool:
    """Whether a thought or a picture was in the examples or in any text of this epoch's calls."""
    shown = [(example.prompt, "", example.answers) for example in spec.examples]
    calls = _own_calls(epoch).values_list("subject", flat=True).distinct()
    return any(
        name_pictures(f"{prompt}\n{reference}") != f"{prompt}\n{reference}"
        or any(as_read(answer) != answer for answer in answers)
        for prompt, reference, answers in chain(shown, texts_as_given(calls))
    )


def _take_over(epoch: Epoch, successor: Epoch) -> None:
    take_over_rater(epoch=epoch, successor=successor)
    _own_calls(epoch).update(requester=successor.requester)
    RunRequester.objects.filter(requester=epoch.requester).update(requester=successor.requester)
    for model in (Judgement, JuryVerdict, RunJudge, DriftCheck):
        model._default_manager.filter(epoch=epoch).update(epoch=successor)


def _own_calls(epoch: Epoch) -> QuerySet[Call]:
    return Call.objects.filter(requester=epoch.requester)


def _read_again(epoch: Epoch) -> list[int]:
    """Read all recorded replies of an epoch; return the ids of calls that mean something else."""
    changed = []
    notes_first = _own_calls(epoch).filter(state__in=READ).select_related("needs").order_by("pk")
    for call in notes_first.iterator(chunk_size=500):
        before = (call.state, call.verdict)
        for turn, text in enumerate(filter(None, (call.reply, call.repair_reply))):
            call.turn = turn
            # Whether a reply was cut off is not recorded, but what was made of it then is.
            reply = Reply(text=text, cut_off="cut off" in call.error)
            reading = JudgeCallHandler().read(call, reply)
            if reading.state == Call.State.DONE:
                break
        else:
            if not call.reply:
                continue
        verdict = reading.verdict
        if before[0] == reading.state and _same_verdict(before[1], verdict):
            continue
        Call.objects.filter(pk=call.pk).update(
            state=reading.state, verdict=verdict, error=reading.note, turn=call.turn
        )
        changed.append(call.pk)
    return changed


def _same_verdict(before: dict[str, object] | None, now: dict[str, object] | None) -> bool:
    """Compare verdicts without their probabilities, which came with the reply and are not kept."""
    if before is None or now is None:
        return before == now
    return all(before.get(name) == value for name, value in now.items())


def _judgements_about(calls: Collection[int]) -> list[Judgement]:
    about = Q(forward__in=calls) | Q(reverse__in=calls)
    direct = Judgement.objects.filter(about)
    # A further reading belongs to no judgement of its own, so all of its judge's are settled again.
    further = Call.objects.filter(pk__in=calls, subject__contains="~").values("requester", "run")
    several = Judgement.objects.none()
    for own in further.distinct():
        several |= Judgement.objects.filter(epoch__requester=own["requester"], run=own["run"])
    return list((direct | several).exclude(state__in=Judgement.UNSETTLED).distinct())


def _settle_again(judgements: Collection[Judgement], now: datetime) -> None:
    """Settle judgements whose calls mean something else, votes and juries included."""
    ids = [judgement.pk for judgement in judgements]
    Judgement.objects.filter(pk__in=ids).update(
        state=Judgement.State.WAITING, casts_vote=False, settled_at=None
    )
    for judgement in judgements:
        _void_vote(judgement, now)
    of_juries = JuryVerdict.objects.filter(judgements__in=ids).exclude(
        state__in=JuryVerdict.UNSETTLED
    )
    verdicts = list(of_juries.distinct())
    JuryVerdict.objects.filter(pk__in=[verdict.pk for verdict in verdicts]).update(
        state=JuryVerdict.State.WAITING, counts={}, casts_vote=False, outcome=""
    )
    for verdict in verdicts:
        _void_vote(verdict, now)
    for pk in ids:
        settle(judgement_id=pk, now=now)
    for verdict in verdicts:
        settle_jury(verdict_id=verdict.pk, now=now)
    for run in Run.objects.filter(judgements__in=ids).distinct():
        voted = run.judgements.filter(sample=0, casts_vote=True, state=Judgement.State.VOTED)
        if not run.jury_verdicts.exists():
            Run.objects.filter(pk=run.pk).update(votes_done=voted.count())


def _void_vote(verdict: Judgement | JuryVerdict, now: datetime) -> None:
    """Void a verdict's vote, and issue the comparison again: a voided one takes no second vote."""
    votes = Vote.objects.filter(comparison=verdict.comparison_id, voided_at=None)
    if void(votes=dict(votes.values_list("pk", "arena")), reason=VOIDED, now=now):
        again = verdict.comparison
        assert again is not None, "it had a vote"
        # The way in which Django's documentation copies a row.
        again.pk, again.key, again._state.adding = None, uuid4(), True
        again.save()
        type(verdict)._default_manager.filter(pk=verdict.pk).update(comparison=again)


def _requesters_of(jury: Judge) -> list[str]:
    """Return the requesters of a jury's members, in the epochs of which it was formed, or []."""
    members = Epoch.objects.open().filter(judge__juries=jury)
    requesters = sorted(members.values_list("requester", flat=True))
    is_current = jury_digest(requesters, jury.quorum or 0, jury.weights) == jury.digest
    return requesters if is_current else []


def _succeed_jury(
    epoch: Epoch,
    requesters: Collection[str],
    member: Epoch,
    successor: Epoch,
    *,
    kept: bool,
    now: datetime,
) -> Epoch:
    """Let a jury follow a member into its next epoch, with its weights, and with all its verdicts
    if the member has `kept` its own."""
    jury, weights = epoch.judge, epoch.judge.weights
    if weights:
        named = {"general": weights["general"]} | weights["categories"]
        for log_odds in named.values():
            log_odds[successor.requester] = log_odds.pop(member.requester)
    members = [successor.requester if own == member.requester else own for own in requesters]
    digest = jury_digest(members, jury.quorum or 0, weights)
    Judge.objects.filter(pk=jury.pk).update(digest=digest, weights=weights)
    jury.refresh_from_db()
    following = begin_next_epoch(epoch=epoch, reason=successor.reason, now=now)
    if kept:
        _take_over(epoch, following)
    return following


def _measure_again(epoch: Epoch, successor: Epoch, now: datetime) -> None:
    """Measure a successor on everything that its predecessor was measured on, oldest first."""
    newest: dict[tuple[int | None, int | None], Calibration] = {}
    for earlier in Calibration.objects.filter(epoch=epoch).order_by("made_at", "pk"):
        newest[earlier.label_set_id, earlier.arena_id] = earlier
    for earlier in newest.values():
        try:
            _measure(earlier, successor, now)
        except JudgeError:  # it has settled none of the items
            continue
    settle_trust(epoch=epoch, now=now)
    settle_trust(epoch=successor, now=now)


def _measure(earlier: Calibration, epoch: Epoch, now: datetime) -> None:
    if earlier.arena is not None:
        measure_arena(epoch=epoch, arena=earlier.arena, now=now)
    elif earlier.label_set is not None and earlier.kind == LabelSet.Kind.HONEYPOTS:
        measure_honeypots(epoch=epoch, labels_in=earlier.label_set, now=now)
    elif earlier.label_set is not None:
        people = earlier.report.get("scale", {}).get("people")
        measure_labels(
            epoch=epoch,
            labels_in=earlier.label_set,
            now=now,
            everywhere=earlier.everywhere,
            scale=tuple(people) if people else None,
        )
