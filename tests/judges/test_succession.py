"""Another reader of replies gives every judge a successor, which has read everything itself."""

from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.utils import timezone

from arena.calls.models import Call, RunRequester
from arena.models import Prompt, Rater, Response, Run, Vote
from judges.core.parsing import reader_digest
from judges.core.spec import PROMPT_VERSION
from judges.models import Calibration, DriftCheck, Epoch, Judge, Judgement, JuryVerdict
from judges.services.calibration import measure_arena, measure_labels
from judges.services.calls import _epoch_of
from judges.services.drift import DAILY_ITEMS, start_drift_checks
from judges.services.honeypots import make_honeypots, measure_honeypots
from judges.services.registry import Switches, jury_digest, register_judge, spec_named, spec_of
from judges.services.succession import (
    NOT_KEPT,
    OTHER_TEXTS,
    REASON,
    SAME_TEXTS,
    VOIDED,
    succeed_judges,
)
from judges.services.trust import problems_of, trust_places
from tests.factories import make_arena, make_person
from tests.judges.fake_server import FakeServer, prefers
from tests.judges.helpers import (
    LOCAL,
    ask_about,
    check_drift,
    issue_pair,
    order,
    pair_row,
    store_labels,
    vote_on,
    work_off,
)

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
NOW = timezone.now()
FIRST = "scripted:scripted-1"
SECOND = "scripted:scripted-2"


def of_earlier_release() -> None:
    """Turn all judges into ones of the release before readers had digests."""
    renamed = {}
    for judge in Judge.objects.exclude(protocol="jury"):
        Judge.objects.filter(pk=judge.pk).update(schema=False)
        judge.refresh_from_db()
        digest = spec_of(judge).digest_with("", 1)
        Judge.objects.filter(pk=judge.pk).update(digest=digest)
        renamed[judge.epochs.get().requester] = digest
    for former, digest in renamed.items():
        Epoch.objects.filter(requester=former).update(
            requester=digest, digest=digest, reader="", prompt_version=1
        )
        for model in (Call, RunRequester):
            model._default_manager.filter(requester=former).update(requester=digest)
    for jury in Judge.objects.filter(protocol="jury"):
        members = Epoch.objects.filter(judge__juries=jury).values_list("requester", flat=True)
        weights = jury.weights
        if weights:
            weights["general"] = {renamed[old]: odds for old, odds in weights["general"].items()}
        digest = jury_digest(members, jury.quorum or 0, weights)
        Judge.objects.filter(pk=jury.pk).update(digest=digest, weights=weights)
        Epoch.objects.filter(judge=jury).update(
            requester=digest, digest=digest, reader="", prompt_version=1
        )
    _epoch_of.cache_clear()


def live_votes() -> list[tuple[int, int, str]]:
    return sorted(Vote.objects.live().values_list("pk", "rater", "outcome"))


def judged_arena(*judges: str) -> Run:
    arena = make_arena(3, 4)
    person = make_person()
    for number in range(4):
        vote_on(issue_pair(arena, person, number), person, "left")
    return work_off(order(arena, *judges or (FIRST,), per_pair=4))


def test_a_successor_takes_over_what_it_reads_in_the_same_way() -> None:
    run = judged_arena()
    assert run.arena is not None
    measure_arena(epoch=Epoch.objects.get(), arena=run.arena, now=NOW)
    of_earlier_release()
    before, name, digest = live_votes(), Judge.objects.get().name, Judge.objects.get().digest
    requests = sum(Call.objects.values_list("requests", flat=True))
    assert succeed_judges(now=NOW) == 1
    former, successor = Epoch.objects.order_by("number")
    judge = Judge.objects.get()
    assert (judge.name, judge.digest) == (name, spec_of(judge).digest)
    assert (former.ended_at, successor.ended_at, successor.reason) == (NOW, None, REASON)
    assert live_votes() == before
    assert sum(Call.objects.values_list("requests", flat=True)) == requests
    assert not Call.objects.filter(requester=former.requester).exists()
    assert set(Judgement.objects.values_list("epoch", flat=True)) == {successor.pk}
    epochs = set(Calibration.objects.values_list("epoch", flat=True))
    assert epochs == {former.pk, successor.pk}
    reports = [Calibration.objects.get(epoch=epoch).report for epoch in (former, successor)]
    assert reports[0]["against_all"] == reports[1]["against_all"]
    assert (spec_named(digest), spec_named(name)) == (spec_of(judge), spec_of(judge))
    assert register_judge(spec=spec_named(name)) == successor
    assert succeed_judges(now=NOW) == 0


def test_where_a_reply_is_read_in_another_way_the_vote_is_another(local: FakeServer) -> None:
    local.otherwise = prefers("-0 of")
    run = work_off(order(make_arena(3, 2), per_pair=2))
    of_earlier_release()
    first, second = (
        Judgement.objects.filter(state="voted").exclude(outcome="tie").order_by("pk")[:2]
    )
    for call in (first.forward, first.reverse):
        Call.objects.filter(pk=call.pk).update(reply=f"{call.reply}\nActually, I take that back.")
    for call in (second.forward, second.reverse):
        swapped = call.reply.replace(": A", ": X").replace(": B", ": A").replace(": X", ": B")
        Call.objects.filter(pk=call.pk).update(reply=swapped)
    other = "right" if second.outcome == "left" else "left"
    before = {vote.comparison_id: vote for vote in Vote.objects.live()}
    succeed_judges(now=NOW)
    for judgement in (first, second):
        vote = before.pop(judgement.comparison_id)
        vote.refresh_from_db()
        assert (vote.voided_at, vote.void_reason) == (NOW, VOIDED)
        judgement.refresh_from_db()
    assert (first.state, second.state, second.outcome) == ("unreadable", "voted", other)
    votes = Vote.objects.live().filter(comparison=second.comparison_id)
    assert [(vote.outcome, vote.rater.epoch.number) for vote in votes] == [(other, 2)]
    assert not Vote.objects.live().filter(comparison=first.comparison_id).exists()
    assert set(before) == set(
        Vote.objects.live()
        .exclude(comparison=second.comparison_id)
        .values_list("comparison", flat=True)
    )
    run.refresh_from_db()
    assert run.votes_done == Vote.objects.live().count()


def test_without_a_recorded_reply_nothing_is_mixed_and_nothing_trusted() -> None:
    run = judged_arena()
    assert run.arena is not None
    measure_arena(epoch=Epoch.objects.get(), arena=run.arena, now=NOW)
    of_earlier_release()
    before = live_votes()
    Call.objects.filter(pk=Call.objects.filter(state="done").values("pk")[:1]).update(reply="")
    succeed_judges(now=NOW)
    former, successor = Epoch.objects.order_by("number")
    assert successor.reason == NOT_KEPT
    assert (former.judgements.count(), successor.judgements.count()) == (12, 0)
    assert live_votes() == before
    assert "has not been calibrated" in problems_of(trust_places(successor))[0]
    assert not Rater.objects.exclude(trusted_at=None).exists()


def test_juries_follow_their_members_into_the_next_epoch() -> None:
    judged_arena(FIRST, SECOND)
    jury = Judge.objects.get(protocol="jury")
    requesters = sorted(Epoch.objects.exclude(judge=jury).values_list("requester", flat=True))
    Judge.objects.filter(pk=jury.pk).update(
        weights={
            "general": dict(zip(requesters, [0.5, 1.5], strict=True)),
            "categories": {},
            "arena": 0,
            "fitted_until": 0,
        }
    )
    of_earlier_release()
    before = live_votes()
    assert succeed_judges(now=NOW) == 2
    jury.refresh_from_db()
    members = Epoch.objects.open().filter(judge__juries=jury)
    requesters = sorted(members.values_list("requester", flat=True))
    assert sorted(jury.weights["general"]) == requesters
    assert jury_digest(requesters, jury.quorum or 0, jury.weights) == jury.digest
    assert live_votes() == before
    current = jury.epochs.get(ended_at=None)
    assert set(JuryVerdict.objects.values_list("epoch", flat=True)) == {current.pk}
    assert sorted(members.values_list("number", flat=True)) == [2, 2]


def test_an_open_run_goes_on_with_one_reader_for_all_of_it(local: FakeServer) -> None:
    local.otherwise = prefers("-0 of")
    run = order(make_arena(3, 2), per_pair=2)
    of_earlier_release()
    succeed_judges(now=NOW)
    work_off(run)
    assert (run.state, run.votes_done) == ("done", 6)
    assert set(Vote.objects.values_list("rater__epoch__number", flat=True)) == {2}


def test_drift_checks_follow_with_their_baseline(local: FakeServer, tmp_path: Path) -> None:
    local.otherwise = prefers("GOOD")
    epoch = register_judge(spec=spec_named(LOCAL))
    labels_in = store_labels(tmp_path, [pair_row(i) for i in range(40)])
    [run] = ask_about(epoch, labels_in)
    measure_labels(epoch=epoch, labels_in=labels_in, now=NOW, everywhere=True)
    start_drift_checks(epoch=epoch, labels_in=labels_in, cap=0, now=NOW)
    baseline = check_drift(NOW)
    assert baseline.why == DriftCheck.Why.BASELINE
    of_earlier_release()
    succeed_judges(now=NOW)
    successor = Epoch.objects.get(ended_at=None)
    assert list(run.run_judges.values_list("epoch", flat=True)) == [successor.pk]
    assert successor.rater.trusted_at is not None
    check = check_drift(NOW + timedelta(days=1))
    assert (check.epoch, check.alarm) == (successor, False)
    assert check.why != DriftCheck.Why.BASELINE
    assert check.n == DAILY_ITEMS


def test_results_on_honeypots_follow(local: FakeServer) -> None:
    local.otherwise = prefers("-0 of")
    epoch = register_judge(spec=spec_named(LOCAL))
    honeypots = make_honeypots(arena=make_arena(2, 3), seed="1")
    ask_about(epoch, honeypots)
    measured = measure_honeypots(epoch=epoch, labels_in=honeypots, now=NOW)
    of_earlier_release()
    succeed_judges(now=NOW)
    again = Calibration.objects.get(epoch__ended_at=None)
    assert again.report["traps"] == measured.report["traps"]
    assert again.trusted == measured.trusted


def test_an_earlier_judge_can_be_registered_with_the_new_schemas() -> None:
    judged_arena()
    of_earlier_release()
    succeed_judges(now=NOW)
    judge = Judge.objects.get()
    assert not spec_named(judge.name).schema
    renewed = spec_named(judge.name, Switches(schema=True))
    assert renewed.schema
    assert register_judge(spec=renewed).judge.name == f"{judge.name} v2"


def test_a_judge_whose_rubric_has_changed_since_is_left_alone() -> None:
    judged_arena()
    of_earlier_release()
    Judge.objects.update(digest="0" * 64)
    assert succeed_judges(now=NOW) == 0
    assert Epoch.objects.get().ended_at is None


def of_earlier_prompts() -> None:
    """Turn all judges into ones of the release that showed thought and pictures as they are."""
    for judge in Judge.objects.exclude(protocol="jury"):
        digest = spec_of(judge).digest_with(reader_digest(), 1)
        Judge.objects.filter(pk=judge.pk).update(digest=digest)
        Epoch.objects.filter(judge=judge).update(digest=digest)
    Epoch.objects.update(prompt_version=1)
    _epoch_of.cache_clear()


def test_where_no_text_looks_different_a_successor_takes_over_everything() -> None:
    judged_arena()
    of_earlier_prompts()
    before = live_votes()
    assert succeed_judges(now=NOW) == 1
    former, successor = Epoch.objects.order_by("number")
    judge = Judge.objects.get()
    assert judge.digest == spec_of(judge).digest
    assert (successor.reason, successor.prompt_version) == (SAME_TEXTS, PROMPT_VERSION)
    assert (former.judgements.count(), successor.judgements.count()) == (0, 12)
    assert live_votes() == before
    assert succeed_judges(now=NOW) == 0


@pytest.mark.parametrize(
    ("column", "text"),
    [("answer", "<think>Hm.</think>Yes."), ("prompt", "What is data:image/png;base64,AAAA?")],
)
def test_a_judge_that_has_seen_a_thought_or_a_picture_begins_with_nothing(
    column: str, text: str
) -> None:
    judged_arena(FIRST, SECOND)
    jury = Epoch.objects.get(judge__protocol="jury")
    if column == "answer":
        Response.objects.filter(pk=Response.objects.values("pk")[:1]).update(text=text)
    else:
        Prompt.objects.filter(pk=Prompt.objects.values("pk")[:1]).update(text=text)
    of_earlier_prompts()
    before = live_votes()
    assert succeed_judges(now=NOW) == 2
    for successor in Epoch.objects.open().exclude(judge__protocol="jury"):
        assert (successor.reason, successor.judgements.count()) == (OTHER_TEXTS, 0)
        assert successor.rater.trusted_at is None
    assert set(JuryVerdict.objects.values_list("epoch", flat=True)) == {jury.pk}
    assert live_votes() == before


def test_migrating_to_a_release_with_another_reader_is_enough() -> None:
    judged_arena()
    of_earlier_release()
    call_command("migrate", stdout=StringIO())
    assert Epoch.objects.filter(ended_at=None).get().number == 2
