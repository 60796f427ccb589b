"""Exact tests of counts, against SciPy's tests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from ranking.stats.agreement import binomial_excess, mcnemar

COUNT = st.integers(0, 200)


@given(COUNT, COUNT)
def test_mcnemar_is_a_binomial_test_of_the_discordant_items(b, c):
    expected = binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
    assert mcnemar(b, c) == pytest.approx(expected, abs=1e-12)
    assert mcnemar(b, c) == mcnemar(c, b)


def test_nothing_that_differs_is_no_evidence():
    assert mcnemar(0, 0) == 1
    assert mcnemar(0, 8) == pytest.approx(2 / 2**8)


@given(COUNT, COUNT, st.floats(0, 1))
def test_an_excess_is_the_upper_tail(few, more, share):
    expected = binomtest(few, few + more, share, "greater").pvalue if few + more else 1.0
    assert binomial_excess(few, few + more, share) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mcnemar(-1, 2), "must be 0 or more, not -1 and 2"),
        (lambda: binomial_excess(3, 2, 0.5), "successes must be from 0 to 2"),
        (lambda: binomial_excess(1, 2, 1.5), "share must be from 0 to 1"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
