"""A repeatedly checked difference: conclusive, or how many more votes until it is."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t

from ranking.stats.differences import TYPICAL, CompleteSeparation, SequentialTest, burdens
from ranking.stats.intervals import critical_value

gaps = st.floats(-3, 3)
errors = st.floats(0.01, 3)
clusters = st.none() | st.integers(5, 500)


def test_a_clear_difference_is_known() -> None:
    assert SequentialTest(0.5, 0.1).is_decided
    assert SequentialTest(-0.5, 0.1).is_decided
    assert not SequentialTest(0.1, 0.1).is_decided


def test_the_ratio_is_that_of_a_normal_mixture() -> None:
    """L is the density of the gap where differences are spread by tau, over that with none."""
    error = 0.2
    for gap in (0.3, 0.55, 0.6, 0.7):
        mixed = norm(0, math.hypot(error, TYPICAL)).pdf(gap)
        assert SequentialTest(gap, error).is_decided == (mixed / norm(0, error).pdf(gap) >= 20)


@given(gap=gaps, error=errors, n_clusters=clusters)
def test_what_is_known_lies_outside_the_usual_interval(
    gap: float, error: float, n_clusters: int | None
) -> None:
    if SequentialTest(gap, error, n_clusters).is_decided:
        assert abs(gap) > critical_value(0.95, n_clusters) * error


@given(gap=gaps, error=errors, n_clusters=clusters)
def test_it_is_the_same_seen_from_the_other_side(
    gap: float, error: float, n_clusters: int | None
) -> None:
    one, other = SequentialTest(gap, error, n_clusters), SequentialTest(-gap, error, n_clusters)
    assert one.is_decided == other.is_decided
    assert one.chance_ahead == pytest.approx(1 - other.chance_ahead)


@given(
    st.floats(-3, 3),
    st.floats(0.02, 2),
    st.none() | st.integers(2, 500),
    st.floats(-6, 6),
    st.sampled_from([0.9, 0.95, 0.99]),
)
def test_the_interval_holds_all_differences_that_are_not_ruled_out(
    gap: float, error: float, n_clusters: int | None, difference: float, confidence: float
) -> None:
    test = SequentialTest(gap, error, n_clusters, confidence)
    if abs(abs(gap - difference) - test.radius) > 1e-6:
        rest = SequentialTest(gap - difference, error, n_clusters, confidence)
        assert rest.is_decided == (abs(gap - difference) > test.radius)


def test_the_interval_is_wider_than_that_for_one_look() -> None:
    for n_clusters in (None, 10, 40):
        test = SequentialTest(0.3, 0.1, n_clusters)
        assert test.radius > critical_value(0.95, n_clusters) * 0.1


def test_the_chance_is_that_of_students_t_or_the_normal_curve() -> None:
    assert SequentialTest(0.3, 0.2, 12).chance_ahead == pytest.approx(t(11).cdf(1.5))
    assert SequentialTest(0.3, 0.2).chance_ahead == pytest.approx(norm.cdf(1.5))
    assert SequentialTest(0.0, 0.2, 12).chance_ahead == 0.5


def test_few_clusters_make_it_harder_to_know() -> None:
    assert SequentialTest(0.66, 0.2).is_decided
    assert not SequentialTest(0.66, 0.2, 9).is_decided


@given(gap=gaps, error=errors, n_clusters=st.integers(2, 30))
def test_too_few_clusters_decide_nothing(gap: float, error: float, n_clusters: int) -> None:
    watched = SequentialTest(gap, error, n_clusters)
    assert watched.clusters_to_go == max(0, 8 - n_clusters)
    if n_clusters < 8:
        assert not watched.is_decided
        assert not CompleteSeparation(n_clusters).is_decided


def test_under_twenty_clusters_error_is_at_least_independent() -> None:
    assert SequentialTest.measured(0.8, 0.01, 0.25, 19) == SequentialTest(0.8, 0.5, 19)
    assert SequentialTest.measured(0.8, 0.6, 0.25, 19) == SequentialTest(0.8, 0.6, 19)
    assert SequentialTest.measured(0.8, 0.1, 0.25, 20) == SequentialTest(0.8, 0.1, 20)
    assert SequentialTest.measured(0.8, 0.1, 0.25, None) == SequentialTest(0.8, 0.1)


def test_a_vote_is_missing_for_each_cluster_that_is() -> None:
    assert SequentialTest(3.0, 0.1, 5).votes_to_go(0.01) == 3
    assert SequentialTest(3.0, 0.1, 8).votes_to_go(0.01) == 0


@given(gap=st.floats(0.02, 2), error=errors, n_clusters=clusters, naive=st.floats(0.001, 4))
def test_after_so_many_votes_it_is_known_and_not_before(
    gap: float, error: float, n_clusters: int | None, naive: float
) -> None:
    votes = SequentialTest(gap, error, n_clusters).votes_to_go(naive)
    if not votes or SequentialTest(gap, error, n_clusters).clusters_to_go:
        return
    p = 1 / (1 + math.exp(-gap))

    def after(n: float) -> SequentialTest:
        return SequentialTest(gap, error / math.sqrt(1 + n * p * (1 - p) * naive), n_clusters)

    assert after(votes * (1 + 1e-9)).is_decided
    assert not after((votes - 1) * (1 - 1e-9)).is_decided


def test_decided_needs_no_votes_and_level_needs_unknowably_many() -> None:
    assert SequentialTest(0.5, 0.1).votes_to_go(0.01) == 0
    assert SequentialTest(0.0, 0.1).votes_to_go(0.01) is None
    assert SequentialTest(0.1, 0.2).votes_to_go(0.04, most=10) is None


def test_equals_are_rarely_called_different_when_watched() -> None:
    rng = np.random.default_rng(8)
    votes = np.arange(20, 2001, 20)
    walks = rng.choice([-1.0, 1.0], (400, 2000)).cumsum(axis=1)[:, votes - 1] * 2 / votes
    errors = 2 / np.sqrt(votes)  # of log-odds near a half
    naive = (np.abs(walks) > 1.96 * errors).any(axis=1).mean()
    known = np.mean(
        [
            any(SequentialTest(g, e).is_decided for g, e in zip(walk, errors.tolist(), strict=True))
            for walk in walks.tolist()
        ]
    )
    assert naive > 0.2
    assert known < 0.05


@pytest.mark.parametrize(
    ("gap", "error", "name"),
    [(math.nan, 1.0, "gap"), (0.1, 0.0, "error"), (0.1, math.inf, "error")],
)
def test_numbers_that_make_no_sense_are_named(gap: float, error: float, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        SequentialTest(gap, error)
    with pytest.raises(ValueError, match="independent"):
        SequentialTest(0.1, 0.1).votes_to_go(0.0)


@pytest.mark.parametrize(("confidence", "enough"), [(0.95, 8), (0.99, 11), (0.6, 4)])
def test_so_many_prompts_in_a_row_are_enough(confidence: float, enough: int) -> None:
    assert [CompleteSeparation(n, confidence).is_decided for n in (enough - 1, enough)] == [
        False,
        True,
    ]
    assert [CompleteSeparation(n, confidence).prompts_to_go for n in (0, enough)] == [enough, 0]
    # A run from the first prompt on, to either side, is all that can err.
    assert 2 * 0.5**enough <= 1 - confidence


def test_the_ratio_is_that_of_all_shares_alike() -> None:
    n = 6
    shares = (np.arange(100_000) + 0.5) / 100_000
    ratio = float(np.mean(shares**n) / 0.5**n)
    assert ratio < 1 / (1 - 0.95) < ratio * 3
    assert not CompleteSeparation(n).is_decided
    assert CompleteSeparation(n, 1 - 1 / ratio * 1.001).is_decided
    assert not CompleteSeparation(n, 1 - 1 / ratio * 0.999).is_decided


def test_the_chance_of_the_winner_is_what_is_left_of_all_shares() -> None:
    shares = (np.arange(100_000) + 0.5) / 100_000
    for n in (0, 1, 5):
        weights = shares**n
        left = weights[shares > 0.5].sum() / weights.sum()
        assert CompleteSeparation(n).chance == pytest.approx(left, abs=1e-4)


def test_the_sign_test_asked_once_needs_six() -> None:
    assert [CompleteSeparation(n).is_beyond_chance for n in (5, 6)] == [False, True]
    with pytest.raises(ValueError, match="n_prompts"):
        CompleteSeparation(-1)


log_evidence = st.lists(st.floats(-5, 12) | st.just(-math.inf), min_size=1, max_size=9)


@given(log_evidence)
def test_a_family_decides_what_e_bh_decides(logs: list[float]) -> None:
    m, e_values = len(logs), np.exp(logs)
    chosen: set[int] = set()
    for size in range(1, m + 1):  # the largest set whose members are all large enough
        above = {i for i in range(m) if e_values[i] >= 20 * m / size}
        if len(above) >= size:
            chosen = above
    needed = burdens(logs)
    assert {i for i in range(m) if logs[i] >= math.log(20 * needed[i])} == chosen
    assert burdens(logs[:1]) == [1.0]


@given(st.lists(st.tuples(gaps, errors), min_size=2, max_size=9), clusters)
def test_intervals_of_a_family_hold_0_where_nothing_is_decided(
    pairs: list[tuple[float, float]], n_clusters: int | None
) -> None:
    alone = [SequentialTest(gap, error, n_clusters) for gap, error in pairs]
    needed = burdens([test.log_evidence for test in alone])
    for (gap, error), burden in zip(pairs, needed, strict=True):
        test = SequentialTest(gap, error, n_clusters, burden=burden)
        if not test.clusters_to_go and abs(abs(gap) - test.radius) > 1e-9:
            assert test.is_decided == (abs(gap) > test.radius)


def test_one_against_nine_equals_is_rarely_wrong_when_watched() -> None:
    rng = np.random.default_rng(3)
    votes = np.arange(40, 1001, 40)
    steps = rng.normal(0, 1, (200, 10, 1000)).cumsum(axis=2)[:, :, votes - 1] / votes
    gaps = (steps[:, 1:] - steps[:, :1]).transpose(0, 2, 1)  # all share their baseline's chance
    errors = np.sqrt(2 / votes)
    alone, family = 0, 0
    for looks in gaps.tolist():
        tests = [
            [SequentialTest(gap, error) for gap in nine]
            for nine, error in zip(looks, errors.tolist(), strict=True)
        ]
        alone += any(test.is_decided for nine in tests for test in nine)
        evidence = [[test.log_evidence for test in nine] for nine in tests]
        family += any(max(nine) >= math.log(20 * min(burdens(nine))) for nine in evidence)
    assert alone / 200 > 0.08
    assert family / 200 < 0.05
