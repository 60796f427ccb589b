"""Reasons that stand out: planted ones are found, and chance seldom is."""

import numpy as np

from ranking.stats.agreement import over_named

CANDIDATES, CATEGORIES, TAGS = 8, 5, 10
SHAPE = (CANDIDATES, CATEGORIES, TAGS)


def compared(named, explained):
    """Every candidate against the others, in the same category."""
    votes = np.broadcast_to(explained, SHAPE)
    elsewhere = named.sum(axis=0) - named
    result = over_named(
        named.ravel(),
        votes.ravel(),
        elsewhere.ravel(),
        (votes.sum(axis=0) - votes).ravel(),
    )
    return result.q.reshape(SHAPE) <= 0.1


def test_planted_reasons_are_found_and_few_others_are():
    random = np.random.default_rng(7)
    found, planted, false, all_found = 0, 0, 0, 0
    for _ in range(60):
        rate = np.broadcast_to(random.uniform(0.04, 0.15, TAGS), SHAPE).copy()
        is_planted = np.zeros(SHAPE, bool)
        is_planted.flat[random.choice(rate.size, 6, replace=False)] = True
        rate[is_planted] += 0.3
        flagged = compared(random.binomial(40, rate), np.full((CANDIDATES, 1, 1), 40))
        found += (flagged & is_planted).sum()
        planted += is_planted.sum()
        false += (flagged & ~is_planted).sum()
        all_found += flagged.sum()
    assert found / planted >= 0.8
    assert false / all_found <= 0.1


def test_without_differences_hardly_any_set_of_votes_has_a_finding():
    random = np.random.default_rng(8)
    alarms = [
        compared(random.binomial(25, np.full(SHAPE, 0.1)), np.full((CANDIDATES, 1, 1), 25)).any()
        for _ in range(100)
    ]
    assert np.mean(alarms) <= 0.1


def test_the_log_odds_are_those_of_the_paper_with_counts_far_above_the_prior():
    result = over_named(
        np.array([3_000_000]), np.array([10_000_000]), np.array([1_000_000]), np.array([10_000_000])
    )
    assert np.isclose(result.log_odds[0], np.log(3 / 7) - np.log(1 / 9), atol=1e-4)
    expected = np.sqrt(1 / 3e6 + 1 / 7e6 + 1 / 1e6 + 1 / 9e6)
    assert np.isclose(result.standard_error[0], expected, rtol=1e-3)


def test_a_reason_named_once_is_no_evidence():
    result = over_named(np.array([1]), np.array([1]), np.array([0]), np.array([1]))
    assert result.q[0] > 0.1


def test_no_reasons_give_no_findings():
    empty = np.zeros(0, np.int64)
    assert len(over_named(empty, empty, empty, empty).q) == 0
