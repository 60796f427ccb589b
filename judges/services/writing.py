"""Writing what a run asks for: comparisons, calls and judgements, in small transactions."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from arena.calls.models import Call
from arena.calls.services import create_calls
from arena.models import Arena, Comparison, PairDemand, Rater, Response, Run
from arena.services.deadlocks import hold_arena, tried_twice
from arena.services.pairing import take_side
from judges.core.scanning import scan
from judges.models import Epoch, Judgement, JuryVerdict
from judges.services import subjects
from judges.services.adopting import adopt, adopt_verdicts, drop_other_words, take_over
from judges.services.orders import Member, calls_for, shown_in
from judges.services.planning import Pick


@dataclass(frozen=True)
class Writing:
    """A run that is being written: who judges it, and when it was ordered."""

    run: Run
    arena: Arena
    members: list[tuple[Member, Epoch]]
    jury: Epoch | None
    shares: Mapping[int, float]
    now: datetime


@tried_twice
@transaction.atomic
def write_picks(*, writing: Writing, picks: Sequence[Pick]) -> None:
    """Write comparisons, calls and judgements of some picks, while the run is not cancelled."""
    run = writing.run
    # Sides are taken of many pairs: whoever counts pairs waits its turn, and so does this.
    hold_arena(writing.arena.pk)
    locked = Run.objects.select_for_update(of=("self",), no_key=True)
    if locked.get(pk=run.pk).state != Run.State.ORDERED:
        return
    flagged = _speaking_to_judges(picks)
    for member, epoch in writing.members:
        mine = {pick.responses for pick in member.picks}
        _write_member(writing, member, epoch, [p for p in picks if p.responses in mine], flagged)
    if writing.jury is not None:
        _write_jury(writing, writing.jury, picks)
    _show_to_people(writing.arena, [pick for pick in picks if pick.responses in flagged])


def _write_member(
    writing: Writing, member: Member, epoch: Epoch, picks: Sequence[Pick], flagged: set[str]
) -> None:
    run, now = writing.run, writing.now
    drop_other_words(epoch=epoch, picks=picks, mark=member.mark)
    adopt(run=run, epoch=epoch, picks=picks, shares=writing.shares, now=now)
    taken = set(
        epoch.judgements.filter(
            sample=0, responses__in=[pick.responses for pick in picks]
        ).values_list("responses", flat=True)
    )
    fresh = [pick for pick in picks if pick.responses not in taken]
    wanted = calls_for(member.spec, fresh, member.mark)
    calls = write_calls(run=run, epoch=epoch, wanted=wanted, now=now)
    comparisons = _comparisons(writing, epoch.rater, fresh)
    drafts = []
    for pick, comparison in zip(fresh, comparisons, strict=True):
        forward, reverse = _two_calls(member, pick, comparison)
        drafts.append(
            Judgement(
                epoch=epoch,
                run=run,
                comparison=comparison,
                responses=pick.responses,
                forward=calls[forward],
                reverse=calls[reverse],
                flagged=pick.responses in flagged,
            )
        )
    Judgement.objects.bulk_create(drafts)


def _two_calls(member: Member, pick: Pick, comparison: Comparison) -> tuple[str, str]:
    """Return the subjects of a comparison's two calls, the one that starts with its left first.

    For a list there is no such one: `forward` is the list as it was drawn.
    """
    first, second = shown_in(member.spec, pick)
    if member.spec.protocol != "listwise" and first[0] != comparison.left_response_id:
        first, second = second, first
    mark = member.mark
    return subjects.of_responses(first, mark), subjects.of_responses(second, mark)


def write_calls(
    *, run: Run, epoch: Epoch, wanted: Mapping[str, str | None], now: datetime, sample: int = 0
) -> dict[str, Call]:
    """Write the calls that are not there yet, those that others need first; map subject to call.

    `wanted` maps each subject to the subject whose reply it needs, or None.
    """
    first = [subject for subject, needed in wanted.items() if needed is None]
    then = [subject for subject, needed in wanted.items() if needed is not None]
    found = _calls(run, epoch, first, {}, now, sample)
    needed_by = {subject: found[needed] for subject in then if (needed := wanted[subject])}
    return found | _calls(run, epoch, then, needed_by, now, sample)


def _calls(
    run: Run,
    epoch: Epoch,
    wanted: Sequence[str],
    needed_by: Mapping[str, Call],
    now: datetime,
    sample: int,
) -> dict[str, Call]:
    drafts = [
        Call(
            run=run,
            asker=epoch.asker,
            subject=subject,
            sample=sample,
            endpoint=epoch.judge.endpoint,
            model=epoch.judge.model,
            needs=needed_by.get(subject),
            nonce=secrets.token_hex(8),
            due_at=now,
            ring_after=now,
        )
        for subject in wanted
    ]
    found = create_calls(drafts=drafts)
    # An answer's score may be wanted by two runs: of one at rest this one takes it over.
    elsewhere = [call.pk for call in found.values() if call.run_id != run.pk]
    take_over(run=run, calls=Call.objects.filter(pk__in=elsewhere), now=now)
    return {subject: found[epoch.asker, subject, sample] for subject in wanted}


def _comparisons(writing: Writing, rater: Rater, picks: Sequence[Pick]) -> list[Comparison]:
    ids = [pk for pick in picks for pk in (pick.low_response, pick.high_response)]
    named = set(Response.objects.filter(pk__in=ids, names_itself=True).values_list("pk", flat=True))
    drafts = []
    for pick in picks:
        sides = [(pick.pair.low_id, pick.low_response), (pick.pair.high_id, pick.high_response)]
        if not take_side(pair=pick.pair):
            sides.reverse()
        (left, left_response), (right, right_response) = sides
        drafts.append(
            Comparison(
                arena=writing.arena,
                rater=rater,
                run=writing.run,
                prompt_id=pick.prompt_id,
                left_id=left,
                right_id=right,
                left_response_id=left_response,
                right_response_id=right_response,
                draw_probability=writing.shares[pick.pair.pk],
                names_itself=bool(named & {left_response, right_response}),
                issued_at=writing.now,
            )
        )
    return Comparison.objects.bulk_create(drafts)


def _write_jury(writing: Writing, jury: Epoch, picks: Sequence[Pick]) -> None:
    """Write what the jury is to decide, beside the judgements of its members, old and new."""
    adopt_verdicts(run=writing.run, jury=jury, picks=picks)
    responses = [pick.responses for pick in picks]
    found = jury.jury_verdicts.filter(responses__in=responses)
    taken = set(found.values_list("responses", flat=True))
    fresh = [pick for pick in picks if pick.responses not in taken]
    comparisons = _comparisons(writing, jury.rater, fresh)
    JuryVerdict.objects.bulk_create(
        JuryVerdict(epoch=jury, run=writing.run, comparison=comparison, responses=pick.responses)
        for pick, comparison in zip(fresh, comparisons, strict=True)
    )
    verdict_of = {verdict.responses: verdict for verdict in found.filter(run=writing.run)}
    of_members = Judgement.objects.filter(
        epoch__in=[epoch for _, epoch in writing.members], responses__in=verdict_of, sample=0
    )
    through = JuryVerdict.judgements.through
    through.objects.bulk_create(
        [
            through(juryverdict=verdict_of[judgement.responses], judgement=judgement)
            for judgement in of_members
        ],
        ignore_conflicts=True,  # what was taken over knows some of its members already
    )


# -- Answers that speak to the judge ---------------------------------------------------------------


def _speaking_to_judges(picks: Sequence[Pick]) -> set[str]:
    """Return the pairs of responses of which one looks as if it told the judge what to say."""
    ids = {pk for pick in picks for pk in (pick.low_response, pick.high_response)}
    rows = Response.objects.filter(pk__in=ids).values_list("pk", "text")
    hit = {pk for pk, text in rows if scan(text)}
    return {pick.responses for pick in picks if hit & {pick.low_response, pick.high_response}}


def _show_to_people(arena: Arena, picks: Iterable[Pick]) -> None:
    """Ask for one vote of people on each flagged pair, unless somebody was asked already."""
    for pick in picks:
        PairDemand.objects.get_or_create(
            arena=arena,
            pair=pick.pair,
            prompt_id=pick.prompt_id,
            run=None,
            defaults={"remaining": 1},
        )
