"""Whether a judge is still the one that was calibrated."""

import pytest
from scipy.stats import binomtest

from judges.core.calibration.trust import count_changed, drift_alarm


def right(wrong, n=40):
    return {str(i): i not in wrong for i in range(n)}


def test_a_judge_that_stays_the_same_raises_no_alarm():
    found = drift_alarm(right({1, 2}), right({2, 3}))
    assert (found.n, found.only_before, found.only_now, found.alarm) == (40, 1, 1, False)
    assert found.p == 1


@pytest.mark.parametrize("worse", [True, False])
def test_worse_and_better_verdicts_both_raise_an_alarm(worse):
    before, now = right(set()), right(set(range(8)))
    found = drift_alarm(before, now) if worse else drift_alarm(now, before)
    assert found.alarm
    assert found.p == pytest.approx(binomtest(0, 8).pvalue)
    assert (found.only_before, found.only_now) == ((8, 0) if worse else (0, 8))


def test_seven_of_seven_are_not_yet_enough_at_one_percent():
    assert not drift_alarm(right(set()), right(set(range(7)))).alarm


def test_what_went_missing_is_no_evidence():
    now = {key: value for key, value in right(set()).items() if int(key) < 30}
    found = drift_alarm(right(set()), now | {"new": False})
    assert (found.n, found.alarm) == (30, False)
    assert drift_alarm({}, {}).to_json()["n"] == 0


def test_changes_that_mend_as_much_as_they_break_are_counted():
    before = dict.fromkeys(map(str, range(40)), "left")
    now = before | {str(i): "right" for i in range(10)} | {"39": None, "new": "tie"}
    assert count_changed(before, now) == 11
    assert count_changed({}, now) == 0
