"""Juries: from their members' verdicts to the jury's vote."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef

from arena.outcomes import mirror
from judges.core.calibration.panels import weigh
from judges.models import Judgement, JuryVerdict
from judges.services.judge_votes import try_to_vote

JuryState = JuryVerdict.State


@transaction.atomic
def settle_juries_of(*, judgement_id: int, now: datetime) -> None:
    """Decide the pairs on which juries waited only for this member's judgement."""
    waiting = JuryVerdict.objects.filter(judgements=judgement_id, state=JuryState.WAITING)
    for pk in waiting.values_list("pk", flat=True):
        settle_jury(verdict_id=pk, now=now)


def settle_waiting_juries(*, now: datetime) -> None:
    """Decide the pairs that all members have judged."""
    waiting_members = Judgement.objects.waiting().filter(jury_verdicts=OuterRef("pk"))
    ready = JuryVerdict.objects.filter(
        ~Exists(waiting_members), state=JuryState.WAITING, run__state="open"
    )
    for pk in ready.values_list("pk", flat=True):
        settle_jury(verdict_id=pk, now=now)


def settle_jury(*, verdict_id: int, now: datetime) -> None:
    """Turn the members' verdicts into the jury's vote, or into the reason why there is none.

    Two members may settle at the same moment: the lock on the verdict's row makes the second one
    see what the first has written.
    """
    try:
        _settle_jury(verdict_id, now)
    except IntegrityError:  # another run's same verdict became the one that votes
        _settle_jury(verdict_id, now)


@transaction.atomic
def _settle_jury(verdict_id: int, now: datetime) -> None:
    verdict = (
        JuryVerdict.objects.select_for_update(of=("self",))
        .select_related("epoch__judge", "epoch__rater", "comparison__arena", "comparison__prompt")
        .filter(pk=verdict_id, state=JuryState.WAITING)
        .first()
    )
    if verdict is None:
        return
    members = list(
        verdict.judgements.values_list(
            "epoch__requester", "state", "outcome", "comparison__left_response"
        )
    )
    if any(state == Judgement.State.WAITING for _, state, _, _ in members):
        return
    left = verdict.comparison.left_response_id
    outcomes = {
        requester: orient_outcome(left, outcome, members_left)
        for requester, state, outcome, members_left in members
        if state == Judgement.State.VOTED
    }
    verdict.counts = dict(Counter(outcomes.values()))
    jury, preference = verdict.epoch.judge, None
    assert jury.quorum is not None, "a jury has a quorum"
    if jury.weights:
        prompt = verdict.comparison.prompt
        category = prompt.category if prompt else ""
        verdict.state, outcome, preference = weighted(outcomes, jury.quorum, jury.weights, category)
        verdict.outcome = outcome
    else:
        verdict.state, outcome = majority(outcomes.values(), jury.quorum)
    same = JuryVerdict.objects.filter(epoch=verdict.epoch_id, responses=verdict.responses)
    verdict.casts_vote = not same.filter(casts_vote=True).exists()
    verdict.settled_at = now
    verdict.save(update_fields=["state", "counts", "outcome", "casts_vote", "settled_at"])
    if not outcome or not verdict.casts_vote:
        return
    rater, comparison = verdict.epoch.rater, verdict.comparison
    if not try_to_vote(rater, comparison, outcome, now, preference=preference):
        verdict.state, verdict.casts_vote = JuryState.FAILED, False
        verdict.save(update_fields=["state", "casts_vote"])


def orient_outcome(left: int | None, outcome: str, members_left: int | None) -> str:
    """Translate a member's outcome to a comparison whose left response is `left`.

    Every member has a comparison of its own, with its own sides.
    """
    return outcome if left == members_left else mirror(outcome)


def majority(outcomes: Iterable[str], quorum: int) -> tuple[str, str]:
    """Return the jury's state, and the outcome of more than half of the verdicts, or ''.

    `outcomes` are the members' settled ones; fewer than `quorum` decide nothing.
    """
    counts = Counter(outcomes)
    total = sum(counts.values())
    if total < quorum:
        return JuryState.NO_QUORUM, ""
    outcome, most = counts.most_common(1)[0]
    if 2 * most <= total:
        return JuryState.NO_MAJORITY, ""
    return JuryState.VOTED, outcome


def weighted(
    outcomes: Mapping[str, str], quorum: int, weights: Mapping[str, Any], category: str
) -> tuple[str, str, float | None]:
    """Return the state of a jury that weighs its members, its outcome, and the probability that
    a person prefers left. `outcomes` maps the members' requesters to their settled verdicts."""
    if len(outcomes) < quorum:
        return JuryState.NO_QUORUM, "", None
    log_odds = weights["categories"].get(category, weights["general"])
    own = [log_odds[requester] for requester in outcomes]
    outcome, preference = weigh(own, list(outcomes.values()))
    assert outcome is not None, "a quorum has a verdict"
    return JuryState.VOTED, outcome, preference
