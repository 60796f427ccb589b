"""Whether a judge is still the one that was calibrated."""

import pytest
from scipy.stats import binomtest

from judges.core.calibration.trust import drift_alarm, verdict_drift


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
    assert drift_alarm(right(set()), right(set(range(7))), alpha=0.05).alarm


def test_what_went_missing_is_counted_and_no_evidence():
    now = {key: value for key, value in right(set()).items() if int(key) < 30}
    found = drift_alarm(right(set()), now | {"new": False})
    assert (found.n, found.missing, found.alarm) == (30, 10, False)
    assert drift_alarm({}, {}).to_json()["n"] == 0


def test_changes_that_mend_as_much_as_they_break_are_drift():
    before = dict.fromkeys(map(str, range(40)), "left")
    now = before | {str(i): "right" for i in range(10)} | {"39": None}
    quiet = verdict_drift(before, now)
    assert (quiet.n, quiet.changed, quiet.share, quiet.p, quiet.alarm) == (
        40,
        11,
        0.275,
        None,
        False,
    )
    usual = verdict_drift(before, now, usual_share=0.05)
    assert usual.alarm
    assert usual.p == pytest.approx(binomtest(11, 40, 0.05, "greater").pvalue)
    assert not verdict_drift(before, now, usual_share=0.2).alarm


def test_one_change_of_a_judge_that_never_changes_rings():
    found = verdict_drift({"a": "left", "b": "tie"}, {"a": "right", "b": "tie"}, usual_share=0.0)
    assert (found.p, found.alarm) == (0, True)


def test_no_items_have_no_share():
    assert verdict_drift({"a": "left"}, {}, usual_share=0.1).share is None
    assert not verdict_drift({}, {}, usual_share=0.1).alarm


@pytest.mark.parametrize("call", [drift_alarm, verdict_drift])
def test_an_alpha_out_of_range_is_refused(call):
    with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
        call({}, {}, alpha=1.0)
