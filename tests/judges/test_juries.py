"""A jury casts one vote of its own, by majority of its members' consistent verdicts."""

from collections import Counter

import pytest
from django.utils import timezone

from arena.db.sql import MOST_UNEVEN
from arena.models import Comparison, Rater, Run, Vote
from arena.services.runs import cancel_run
from judges.models import Calibration, Epoch, Judgement, JuryVerdict
from judges.run_reports import jury_kappa, report_on
from judges.services.juries import majority, orient_outcome
from judges.services.registry import (
    JudgeError,
    begin_next_epoch,
    register_judge,
    register_jury,
    spec_named,
)
from judges.services.settlement import settle_ready
from judges.services.trust import problems_of, settle_juries_with, settle_trust, trust_places
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer
from tests.judges.helpers import LOCAL, epoch_of, order, work_off

pytestmark = pytest.mark.django_db
JURY = ("scripted:scripted-1", "scripted:scripted-2", "scripted:scripted-3")


@pytest.mark.parametrize(
    ("outcomes", "quorum", "expected"),
    [
        (["left", "left", "right"], 2, ("voted", "left")),
        (["tie", "tie"], 2, ("voted", "tie")),
        (["left", "right"], 2, ("no_majority", "")),
        (["left", "right", "tie"], 2, ("no_majority", "")),
        (["left", "left", "right", "right"], 3, ("no_majority", "")),
        (["left"], 2, ("no_quorum", "")),
        ([], 1, ("no_quorum", "")),
        (["right"], 1, ("voted", "right")),
    ],
)
def test_more_than_half_of_a_quorum_decides(
    outcomes: list[str], quorum: int, expected: tuple[str, str]
) -> None:
    assert majority(outcomes, quorum) == expected


def test_members_see_a_pair_from_either_side() -> None:
    assert orient_outcome(1, "left", 1) == "left"
    assert orient_outcome(1, "left", 2) == "right"
    assert orient_outcome(1, "tie", 2) == "tie"


def test_every_pair_is_judged_by_each_member_and_decided_once() -> None:
    arena = make_arena(3, 6)
    run = work_off(order(arena, *JURY, per_pair=6))
    assert (run.state, run.votes_wanted) == ("done", 18)
    assert Judgement.objects.filter(run=run).count() == 54
    verdicts = JuryVerdict.objects.filter(run=run)
    assert verdicts.count() == 18
    voted = verdicts.filter(state="voted").count()
    assert voted == Vote.objects.filter(rater__kind=Rater.Kind.JURY).count() == run.votes_done > 5


def test_jury_votes_as_most_of_its_members() -> None:
    work_off(order(make_arena(3, 6), *JURY, per_pair=6))
    for verdict in JuryVerdict.objects.filter(state="voted").select_related("comparison"):
        said = verdict.judgements.filter(state="voted").values_list(
            "outcome", "comparison__left_response"
        )
        left = verdict.comparison.left_response_id
        seen = [orient_outcome(left, *one) for one in said]
        vote = Vote.objects.get(comparison=verdict.comparison)
        assert 2 * seen.count(vote.outcome) > len(seen) >= 2
        assert verdict.counts[vote.outcome] == seen.count(vote.outcome)


def test_what_a_member_was_asked_before_is_not_paid_again() -> None:
    arena = make_arena(2, 4)
    work_off(order(arena, JURY[0], per_pair=4))
    before = arena.votes.count()
    run = work_off(order(arena, *JURY[:2], per_pair=4))
    assert run.state == "done"
    assert run.calls.filter(copied=True, requests=0).count() == 8
    assert run.judgements.filter(casts_vote=False).count() == 4
    assert arena.votes.filter(rater__kind="judge").count() == before + 4
    assert all(one.judgements.count() == 2 for one in run.jury_verdicts.all())


def test_same_jury_gets_new_pairs_until_none_are_left() -> None:
    arena = make_arena(2, 3)
    order(arena, *JURY[:2], per_pair=2)
    assert order(arena, *JURY[:2], per_pair=2).votes_wanted == 1
    with pytest.raises(JudgeError, match="still judging"):
        order(arena, *JURY[:2], per_pair=2)
    for run in Run.objects.all():
        work_off(run)
    with pytest.raises(JudgeError, match="already judged"):
        order(arena, *JURY[:2], per_pair=2)


def test_agreement_within_the_jury_is_reported() -> None:
    run = work_off(order(make_arena(3, 8), *JURY, per_pair=8))
    report = report_on(run.pk, timezone.now())
    assert report.kappa is not None
    assert -1 <= report.kappa <= 1
    assert sum(count for _, _, count in report.jury_rows) == 24
    assert len(report.judges) == 3


def test_agreement_within_a_jury_does_not_depend_on_which_answer_is_left() -> None:
    run = work_off(order(make_arena(3, 8), *JURY, per_pair=8))
    before = jury_kappa(run)
    for verdict in list(run.jury_verdicts.order_by("pk"))[::2]:
        shown = verdict.comparison
        Comparison.objects.filter(pk=shown.pk).update(
            left=shown.right_id,
            right=shown.left_id,
            left_response=shown.right_response_id,
            right_response=shown.left_response_id,
        )
    assert jury_kappa(run) == before


def test_a_jury_member_skips_its_own_family_by_default(local: FakeServer) -> None:
    arena = make_arena(3, 2)
    arena.candidates.filter(pk=arena.candidates.earliest("pk").pk).update(model="judge-3b-writer")
    assert order(arena, LOCAL, per_pair=2).votes_wanted == 2
    told = order(arena, f"{LOCAL}@pairwise-note", per_pair=2, own_family=True)
    assert told.votes_wanted == 6


def test_a_judge_may_compare_two_answers_of_its_own_family(local: FakeServer) -> None:
    """It favours neither: most teams compare two prompts for one model."""
    arena = make_arena(3, 2)
    writers = arena.candidates.order_by("pk")[:2]
    arena.candidates.filter(pk__in=[one.pk for one in writers]).update(model="judge-3b-writer")
    assert order(arena, LOCAL, per_pair=2).votes_wanted == 2
    two = make_arena(2, 2)
    two.candidates.filter(pk=two.candidates.earliest("pk").pk).update(model="judge-3b-writer")
    with pytest.raises(JudgeError, match="one answer is by the judge's own model family") as caught:
        order(two, LOCAL, per_pair=2)
    assert "--own-family" in str(caught.value)


def test_a_jury_is_one_judge_with_a_rater_of_its_own_kind() -> None:
    members = [register_judge(spec=spec_named(name)) for name in JURY]
    jury = register_jury(members=members)
    assert register_jury(members=members[::-1]) == jury
    assert (jury.rater.kind, jury.judge.quorum) == (Rater.Kind.JURY, 2)
    assert set(jury.judge.members.all()) == {one.judge for one in members}
    assert register_jury(members=members, quorum=3) != jury
    assert Epoch.objects.filter(judge__protocol="jury").count() == 2


@pytest.mark.parametrize(
    ("count", "quorum", "says"), [(1, None, "two different"), (2, 3, "quorum of 3")]
)
def test_an_invalid_jury_is_refused(count: int, quorum: int | None, says: str) -> None:
    members = [register_judge(spec=spec_named(name)) for name in JURY[:count]]
    with pytest.raises(JudgeError, match=says):
        register_jury(members=members, quorum=quorum)


def test_every_member_has_its_own_comparison_with_balanced_sides() -> None:
    order(make_arena(2, 6), *JURY[:2], per_pair=6)
    assert Comparison.objects.count() == 18
    lefts = Counter(Comparison.objects.values_list("left", flat=True))
    assert max(lefts.values()) - min(lefts.values()) <= MOST_UNEVEN


def test_jury_of_members_that_judged_decides_at_once() -> None:
    arena = make_arena(2, 4)
    for name in JURY[:2]:
        work_off(order(arena, name, per_pair=4))
    run = order(arena, *JURY[:2], per_pair=4)
    settle_ready(now=timezone.now(), run=run)
    run.refresh_from_db()
    assert not run.calls.filter(copied=False).exists()
    assert run.state == "done"
    assert run.votes_done == arena.votes.filter(rater__kind="jury").count() > 0
    assert not run.jury_verdicts.filter(state="waiting").exists()


def test_next_run_decides_what_a_cancelled_one_left_open() -> None:
    arena = make_arena(2, 3)
    cancelled = order(arena, *JURY[:2], per_pair=3)
    cancel_run(run_id=cancelled.pk, now=timezone.now())
    run = work_off(order(arena, *JURY[:2], per_pair=3))
    assert (run.state, run.jury_verdicts.count()) == ("done", 3)
    assert set(cancelled.jury_verdicts.values_list("state", flat=True)) == {"cancelled"}
    assert run.comparisons.count() == 9
    assert all(one.judgements.count() == 2 for one in run.jury_verdicts.all())


NOW = timezone.now()
MEMBERS = ("scripted:scripted-1", "scripted:scripted-2")


def formed(*members: str) -> Epoch:
    """A trusted jury."""
    jury = register_jury(members=[epoch_of(member) for member in members])
    Calibration.objects.create(
        epoch=jury,
        arena=make_arena(2, 1),
        kind="pairs",
        report={"trust": {"trusted": True, "reasons": []}},
        trusted=True,
        made_at=NOW,
    )
    assert settle_trust(epoch=jury, now=NOW)
    return jury


def is_trusted(jury: Epoch) -> bool:
    return jury.rater.trust.filter(trusted=True).exists()


def test_a_jury_loses_its_trust_with_the_epoch_of_a_member() -> None:
    jury = formed(*MEMBERS)
    other = formed("scripted:scripted-2", "scripted:scripted-3")
    begun = begin_next_epoch(epoch=epoch_of(MEMBERS[0]), reason="It changed.", now=NOW)
    settle_juries_with(judge=begun.judge, now=NOW)
    assert (is_trusted(jury), is_trusted(other)) == (False, True)
    (problem,) = problems_of(trust_places(jury))
    assert "A member has changed since this jury was formed" in problem


def test_re_formed_jury_is_trusted_once_measured() -> None:
    before = formed(*MEMBERS)
    begin_next_epoch(epoch=epoch_of(MEMBERS[0]), reason="It changed.", now=NOW)
    after = formed(*MEMBERS)
    assert after.judge != before.judge
    assert is_trusted(after)
    assert not settle_trust(epoch=before, now=NOW)
