"""An alarm ends an epoch: its votes stay, its trust does not, and nothing is mixed silently."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from arena.calls.models import Call
from arena.models import Rater, Vote
from judges.models import Calibration, DriftCheck, Epoch
from judges.services.calibration import measure_labels
from judges.services.drift import evaluate, run_drift_checks, start_drift_checks
from judges.services.registry import register_jury
from judges.services.trust import problems_of, settle_trust, trust_places
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, prefers, with_faults
from tests.judges.helpers import (
    LOCAL,
    ask_about,
    check_drift,
    epoch_of,
    order,
    pair_row,
    store_labels,
    work_off,
)
from tests.rows import written_once

pytestmark = [pytest.mark.any_database, pytest.mark.slow, pytest.mark.django_db]
NOW = timezone.now()
TOMORROW = NOW + timedelta(days=1)


@pytest.fixture
def trusted(tmp_path: Path, local: FakeServer) -> Epoch:
    """A judge that agrees with people's labels, with a canary."""
    local.otherwise = prefers("GOOD")

    def write() -> Epoch:
        epoch, labels_in = epoch_of(), store_labels(tmp_path, [pair_row(i) for i in range(40)])
        ask_about(epoch, labels_in)
        measure_labels(epoch=epoch, labels_in=labels_in, now=NOW, everywhere=True)
        start_drift_checks(epoch=epoch, labels_in=labels_in, cap=0, now=NOW)
        check_drift(NOW)
        epoch.rater.refresh_from_db()
        assert epoch.rater.trusted_at is not None
        return epoch

    return written_once("trusted judge", write)


def sounded(local: FakeServer) -> DriftCheck:
    """The check that finds a judge with reversed verdicts."""
    local.otherwise = prefers(", in my view")
    return check_drift(TOMORROW)


def test_an_alarm_ends_the_epoch_and_all_trust(trusted: Epoch, local: FakeServer) -> None:
    check = sounded(local)
    assert check.alarm
    assert (check.n, check.only_now) == (20, 0)
    assert check.p < 0.01
    old, new = Epoch.objects.order_by("number")
    assert (old.pk, new.number, old.ended_at, new.ended_at) == (trusted.pk, 2, TOMORROW, None)
    assert f"on {check.only_before} only before and on 0 only now" in new.reason
    assert "The server names judge-7b-2024-07-01" in new.reason
    assert not Rater.objects.exclude(trusted_at=None).exists()
    assert "has not been calibrated" in problems_of(trust_places(new))[0]


def test_an_alarm_ends_the_trust_of_juries_with_the_judge(
    trusted: Epoch, local: FakeServer
) -> None:
    jury = register_jury(members=[trusted, epoch_of("scripted")])
    Calibration.objects.create(
        epoch=jury, arena=make_arena(2, 1), kind="pairs", report={}, trusted=True, made_at=NOW
    )
    assert settle_trust(epoch=jury, now=NOW)
    assert sounded(local).alarm
    jury.rater.refresh_from_db()
    assert jury.rater.trusted_at is None


def test_the_new_epoch_has_a_baseline_of_its_own(trusted: Epoch, local: FakeServer) -> None:
    sounded(local)
    check = check_drift(TOMORROW)
    assert (check.why, check.sample, check.epoch.number, check.n) == ("baseline", 1000, 2, 40)
    assert not check_drift(TOMORROW + timedelta(days=1)).alarm
    assert Epoch.objects.count() == 2


def test_next_run_votes_as_the_new_epoch_and_asks_all_again(
    trusted: Epoch, local: FakeServer
) -> None:
    arena = make_arena(2, 3)
    local.otherwise = prefers("-0 of")
    work_off(order(arena, LOCAL, per_pair=3))
    sounded(local)
    local.otherwise = prefers("-0 of")
    work_off(order(arena, LOCAL, per_pair=3))
    raters = Vote.objects.values_list("rater__epoch__number", flat=True)
    assert sorted(raters) == [1, 1, 1, 2, 2, 2]
    asked = Call.objects.filter(run__arena=arena).values_list("requester", flat=True)
    assert len(set(asked)) == 2


def test_a_new_epoch_is_trusted_once_it_is_measured_itself(
    trusted: Epoch, tmp_path: Path, local: FakeServer
) -> None:
    sounded(local)
    local.otherwise = prefers("GOOD")
    epoch, labels_in = epoch_of(), store_labels(tmp_path, [pair_row(i) for i in range(40)])
    assert epoch.number == 2
    ask_about(epoch, labels_in)
    measure_labels(epoch=epoch, labels_in=labels_in, now=TOMORROW, everywhere=True)
    assert list(Rater.objects.exclude(trusted_at=None)) == [epoch.rater]


def test_an_epoch_that_ended_is_never_trusted_again(trusted: Epoch, local: FakeServer) -> None:
    sounded(local)
    trusted.refresh_from_db()
    assert not settle_trust(epoch=trusted, now=TOMORROW)
    assert problems_of(trust_places(trusted)) == ["This epoch has ended."]


def test_a_check_is_evaluated_once(trusted: Epoch, local: FakeServer) -> None:
    check = sounded(local)
    evaluate(check=check, now=TOMORROW)
    evaluate(check=check, now=TOMORROW)
    assert Epoch.objects.count() == 2


def test_a_few_other_verdicts_are_no_alarm(trusted: Epoch, local: FakeServer) -> None:
    local.otherwise = with_faults([prefers(", in my view")], 0.1, prefers("GOOD"), seed=2)
    check = check_drift(TOMORROW)
    assert not check.alarm
    assert check.only_before + check.changed > 0
    assert Epoch.objects.count() == 1


def test_an_outage_does_not_count_as_a_changed_verdict(trusted: Epoch, local: FakeServer) -> None:
    run_drift_checks(now=TOMORROW)
    check = DriftCheck.objects.order_by("pk").last()
    assert check is not None
    check.run.judgements.update(state="failed")
    check.run.calls.update(state="failed")
    run_drift_checks(now=TOMORROW)
    check.refresh_from_db()
    assert (check.n, check.alarm, check.p) == (0, False, 1)
