"""A jury decides a pair once all its members have: by majority of their consistent verdicts."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef

from judges.models import Judgement, JuryVerdict
from judges.services.casting import vote_as
from judges.services.verdicts import SWAPPED

State = JuryVerdict.State


@transaction.atomic
def settle_juries_of(*, judgement_id: int, now: datetime) -> None:
    """Decide the pairs of juries that waited for this member's verdict last."""
    waiting = JuryVerdict.objects.filter(judgements=judgement_id, state=State.WAITING)
    for pk in waiting.values_list("pk", flat=True):
        settle_jury(verdict_id=pk, now=now)


def settle_waiting_juries(*, now: datetime) -> None:
    """Decide the pairs of which no member is waited for any more."""
    waited_for = Judgement.objects.waiting().filter(jury_verdicts=OuterRef("pk"))
    ready = JuryVerdict.objects.filter(~Exists(waited_for), state=State.WAITING, run__state="open")
    for pk in ready.values_list("pk", flat=True):
        settle_jury(verdict_id=pk, now=now)


@transaction.atomic
def settle_jury(*, verdict_id: int, now: datetime) -> None:
    """Turn the members' verdicts into one vote of the jury, or into the reason why there is none.

    Two members may settle at the same moment: the lock on the verdict's row lets the second one
    see what the first has written.
    """
    verdict = (
        JuryVerdict.objects.select_for_update(of=("self",))
        .select_related("epoch__judge", "epoch__rater", "comparison__arena")
        .filter(pk=verdict_id, state=State.WAITING)
        .first()
    )
    if verdict is None:
        return
    members = list(verdict.judgements.values_list("state", "outcome", "comparison__left_response"))
    if any(state == Judgement.State.WAITING for state, _, _ in members):
        return
    left = verdict.comparison.left_response_id
    outcomes = [
        seen_from(left, outcome, members_left)
        for state, outcome, members_left in members
        if state == Judgement.State.VOTED
    ]
    verdict.counts = dict(Counter(outcomes))
    quorum = verdict.epoch.judge.quorum
    assert quorum is not None, "a jury has a quorum"
    verdict.state, outcome = majority(outcomes, quorum)
    if outcome and not vote_as(verdict.epoch.rater, verdict.comparison, outcome, now):
        verdict.state = State.FAILED
    verdict.settled_at = now
    verdict.save(update_fields=["state", "counts", "settled_at"])


def seen_from(left: int | None, outcome: str, members_left: int | None) -> str:
    """Say a member's outcome in the sides of whoever has the response `left` on the left.

    Every member has a comparison of its own, on which the pair may stand the other way round.
    """
    return outcome if left == members_left else SWAPPED[outcome]


def majority(outcomes: Iterable[str], quorum: int) -> tuple[str, str]:
    """Return the jury's state, and the outcome that more than half of the verdicts agree on.

    `outcomes` are those of members who stood by them in both orders; fewer than `quorum` decide
    nothing, and neither does a jury that is split.
    """
    counts = Counter(outcomes)
    total = sum(counts.values())
    if total < quorum:
        return State.NO_QUORUM, ""
    outcome, most = counts.most_common(1)[0]
    if 2 * most <= total:
        return State.NO_MAJORITY, ""
    return State.VOTED, outcome
