"""How few votes decide who is first, compared with trying every set of votes."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.robustness import (
    Influence,
    Kinds,
    Robustness,
    Stability,
    least,
    measure_robustness,
)
from tests.ranking.stats.helpers import SOFT, votes


def drawn(seed, n, strengths, ties=0.2):
    rng = np.random.default_rng(seed)
    truth = np.array(strengths)
    left = rng.integers(0, len(truth), n)
    right = (left + rng.integers(1, len(truth), n)) % len(truth)
    p = 1 / (1 + np.exp(truth[right] - truth[left]))
    score = np.where(rng.random(n) < ties, 0.5, rng.random(n) < p)
    return Battles.from_arrays(left, right, score, n_candidates=len(truth))


def without(battles, dropped):
    return Battles.from_arrays(
        battles.first,
        battles.second,
        battles.score,
        battles.weight,
        battles.cluster,
        battles.n_candidates,
        battles.count - dropped,
    )


def changes(battles, dropped, top):
    model = BradleyTerry().fit(without(battles, dropped))
    return bool(model.ranked_.all()) and model.theta_.max() - model.theta_[top] > 1e-9


def by_trial(battles, top, most):
    """The smallest number of votes, by trying every set of them."""
    rows = np.repeat(np.arange(len(battles.count)), battles.count)
    for n in range(1, most + 1):
        for chosen in set(itertools.combinations(rows.tolist(), n)):
            if changes(battles, np.bincount(chosen, minlength=len(battles.count)), top):
                return n
    return None


def dropped(found, battles):
    counts = np.zeros(len(battles.count), int)
    counts[found.rows] = found.counts
    return counts


def check(found, battles):
    """Exactly these votes change number one, and their number is as reported."""
    counts = dropped(found, battles)
    assert counts.sum() == found.votes
    assert (counts <= battles.count).all()
    assert (found.counts > 0).all()
    theta = BradleyTerry().fit(without(battles, counts)).theta_
    assert theta[found.rival] == pytest.approx(np.nanmax(theta), abs=1e-8)
    assert theta[found.rival] > theta[found.top]
    assert found.confirmed


def test_between_two_it_is_the_majority_and_one_more():
    battles = Battles.from_arrays([0] * 8, [1] * 8, [1, 1, 1, 1, 0, 0, 0, 0.5])
    found = measure_robustness(battles)
    assert (found.votes, found.of, found.top, found.rival) == (2, 8, 0, 1)
    assert found.words == "2 of 8 votes would change number one"
    check(found, battles)


@pytest.mark.parametrize("seed", range(12))
def test_no_set_of_votes_is_smaller(seed):
    battles = drawn(seed, 18, [0.8, 0.3, 0, -0.3])
    model = BradleyTerry().fit(battles)
    assert model.ranked_.all()
    found = measure_robustness(battles, model)
    best = by_trial(battles, found.top, most=3)
    if best is None:
        assert found.votes is None or found.votes > 3
    else:
        assert found.votes == best
        check(found, battles)


@given(votes(scores=SOFT, max_candidates=5))
def test_what_is_found_is_confirmed_by_a_fit_of_one_s_own(v):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    found = measure_robustness(battles)
    assert found.stability is not Stability.NOTHING_RANKED
    assert bool(found.votes) == (found.stability is Stability.CHANGES)
    if found.votes:
        check(found, battles)


def test_the_one_who_profits_need_not_be_number_two():
    # 1 is close behind 0 by very many votes, 2 further behind by few: few votes move 2 past 0.
    left = [0] * 1000 + [1] * 1000 + [0] * 10
    right = [1] * 1000 + [0] * 1000 + [2] * 10
    score = [1] * 530 + [0] * 470 + [1] * 470 + [0] * 530 + [1] * 6 + [0] * 4
    battles = Battles.from_arrays(left, right, score)
    found = measure_robustness(battles)
    ratings = BradleyTerry().fit(battles).ratings_
    assert ratings[0] > ratings[1] > ratings[2]
    assert (found.rival, found.votes) == (2, 3)
    check(found, battles)


def test_far_ahead_it_takes_many_and_they_are_found():
    battles = drawn(3, 3000, [1.5, 0.2, 0.1, 0, -0.4])
    found = measure_robustness(battles)
    assert found.votes > 100
    check(found, battles)
    fewer = measure_robustness(battles, most=found.votes - 1)
    assert (fewer.stability, fewer.votes) == (Stability.HOLDS, None)
    assert measure_robustness(battles, most=found.votes).votes == found.votes


def test_folding_over_clusters_and_weights_finds_the_rows():
    rng = np.random.default_rng(4)
    plain = drawn(5, 400, [0.3, 0.2, 0, -0.1])
    rows = np.repeat(np.arange(len(plain.count)), plain.count)
    columns = plain.first[rows], plain.second[rows], plain.score[rows]
    cluster = rng.integers(0, 50, 400)
    clustered = Battles.from_arrays(*columns, cluster=cluster)
    found, known = measure_robustness(clustered), measure_robustness(plain)
    assert found.votes == known.votes > 1
    check(found, clustered)
    weighted = Battles.from_arrays(*columns, weight=rng.choice([1, 2.5], 400), cluster=cluster)
    found = measure_robustness(weighted)
    assert found.votes
    check(found, weighted)


def test_no_vote_is_dropped_that_ties_the_rest_together():
    # 0 leads by two wins, 1 has a single one: without it (or them) nobody could be compared.
    battles = Battles.from_arrays([0, 0, 1], [1, 1, 0], [1, 1, 1])
    found = measure_robustness(battles, most=3)
    assert (found.stability, found.votes, found.confirmed) == (Stability.HOLDS, None, False)
    assert "within the bound" in found.words


@pytest.mark.parametrize("seed", [311, 346, 398])
def test_past_a_vote_that_cannot_be_spared_the_search_continues(seed):
    # Here the votes of greatest effect are an opponent's only wins: they are left, others taken.
    battles = drawn(seed, 16, [1, 0.5, 0, 0])
    found = measure_robustness(battles)
    check(found, battles)
    assert found.votes == by_trial(battles, found.top, most=3) == 3


def test_a_bridge_of_one_tie_is_left_alone():
    battles = Battles.from_arrays(
        [0] * 12 + [1] + [2] * 8,
        [1] * 12 + [2] + [3] * 8,
        [1] * 8 + [0] * 4 + [0.5] + [1] * 2 + [0] * 6,
    )
    found = measure_robustness(battles, most=21)
    check(found, battles)
    assert found.votes == by_trial(battles, found.top, most=3) == 2


def test_the_unranked_play_no_part_and_numbers_are_the_callers():
    inner = drawn(7, 60, [0.3, 0.2, 0])
    battles = Battles.from_arrays(
        np.r_[inner.first + 1, 0],
        np.r_[inner.second + 1, 1],
        np.r_[inner.score, 1],
        count=np.r_[inner.count, 1],
    )
    found, known = measure_robustness(battles), measure_robustness(inner)
    assert (found.votes, found.of) == (known.votes, 60)
    assert (found.top, found.rival) == (known.top + 1, known.rival + 1)
    check(found, battles)


@pytest.mark.parametrize(
    ("rows", "stability"),
    [
        (([], [], []), Stability.NOTHING_RANKED),
        (([0, 0], [1, 1], [1, 1]), Stability.NOTHING_RANKED),
        (([0, 1, 2], [1, 2, 0], [0.5, 0.5, 0.5]), Stability.LEVEL),
    ],
)
def test_without_a_first_place_there_is_nothing_to_change(rows, stability):
    found = measure_robustness(Battles.from_arrays(*rows, n_candidates=3))
    assert found.stability is stability
    assert found.words == stability.reason != ""
    assert not found.votes


def test_three_hundred_candidates_with_five_votes():
    battles = Battles.from_arrays(
        [0, 1, 2, 3, 250], [1, 0, 0, 2, 251], [1, 1, 0.5, 1, 1], n_candidates=300
    )
    assert isinstance(measure_robustness(battles), Robustness)


def test_bad_arguments_are_refused_by_name():
    battles = drawn(1, 30, [0.1, 0, 0])
    with pytest.raises(ValueError, match=r"^most must"):
        measure_robustness(battles, most=-1)
    with pytest.raises(ValueError, match=r"^model must"):
        measure_robustness(battles, BradleyTerry().fit(drawn(1, 30, [0, 0])))


def test_the_influence_of_a_vote_is_the_derivative_by_its_weight():
    battles = drawn(2, 200, [0.5, 0.2, 0, -0.3])
    theta = BradleyTerry().fit(battles).theta_
    effect = Influence(Kinds.of(battles), battles.pairs, theta).on_lead(0, 2)

    def lead(row, weight):
        weights = np.ones(len(battles.count) + 1)
        weights[-1] = weight
        rows = np.r_[np.arange(len(battles.count)), row]
        more = Battles.from_arrays(
            battles.first[rows],
            battles.second[rows],
            battles.score[rows],
            weights,
            count=np.r_[battles.count, 1],
        )
        found = BradleyTerry().fit(more).theta_
        return found[0] - found[2]

    for row in range(len(battles.count)):
        derivative = (lead(row, 1e-4) - lead(row, 0)) / 1e-4
        assert effect[row] == pytest.approx(derivative, rel=0.08, abs=1e-4)  # 1 - h is .93 to 1


@given(votes(scores=SOFT))
def test_the_greatest_influence_per_rival_is_that_of_some_vote(v):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    influence = Influence(Kinds.of(battles), battles.pairs, BradleyTerry().fit(battles).theta_)
    greatest = influence.greatest_on_lead(0)
    for rival in range(1, v.n):
        assert greatest[rival] == pytest.approx(influence.on_lead(0, rival).max())


@pytest.mark.parametrize("guess", [1, 7, 40, 100])
@pytest.mark.parametrize("truth", [1, 2, 39, 40, 41, 100, 101])
def test_the_least_number_is_found_from_any_guess(guess, truth):
    assert least(lambda n: n >= truth, guess, 100) == (truth if truth <= 100 else None)


@pytest.mark.data
def test_thirteen_votes_of_a_real_crowd_decide(crowd):
    battles = Battles.from_arrays(crowd.left, crowd.right, crowd.score)
    start = time.thread_time()
    found = measure_robustness(battles)
    assert time.thread_time() - start < 2  # a hundredth of it, on a machine at rest
    assert found.words == "13 of 8,931 votes would change number one"
    assert crowd.names[found.top] == "GPT 4"
    assert crowd.names[found.rival] == "Platypus-2 Instruct (70B)"
    check(found, battles)
