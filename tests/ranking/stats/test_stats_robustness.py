"""How few votes decide who is first, compared with trying every set of votes."""

import itertools

import numpy as np
import pytest
from hypothesis import given

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.robustness import Robustness, Stability, leave_one_out, measure_robustness
from tests.ranking.stats.helpers import SOFT, votes


def drawn(seed, n, strengths, ties=0.2, n_clusters=0):
    rng = np.random.default_rng(seed)
    truth = np.array(strengths)
    left = rng.integers(0, len(truth), n)
    right = (left + rng.integers(1, len(truth), n)) % len(truth)
    p = 1 / (1 + np.exp(truth[right] - truth[left]))
    score = np.where(rng.random(n) < ties, 0.5, rng.random(n) < p)
    cluster = rng.integers(0, n_clusters, n) if n_clusters else None
    return Battles.from_arrays(left, right, score, cluster=cluster, n_candidates=len(truth))


def changes(battles, dropped, top):
    rest = Battles.from_arrays(
        *(battles.first, battles.second, battles.score, battles.weight, battles.cluster),
        battles.n_candidates,
        battles.count - dropped,
    )
    model = BradleyTerry().fit(rest)
    return bool(model.ranked_.all()) and model.theta_.max() - model.theta_[top] > 1e-9


def by_trial(battles, top, most):
    """The smallest number of votes, by trying every set of them."""
    rows = np.repeat(np.arange(len(battles.count)), battles.count)
    for n in range(1, most + 1):
        for chosen in set(itertools.combinations(rows.tolist(), n)):
            if changes(battles, np.bincount(chosen, minlength=len(battles.count)), top):
                return n
    return None


def test_between_two_it_is_the_majority_and_one_more():
    battles = Battles.from_arrays([0] * 8, [1] * 8, [1, 1, 1, 1, 0, 0, 0, 0.5])
    found = measure_robustness(battles)
    assert (found.votes, found.of, found.top, found.rival) == (2, 8, 0, 1)
    assert found.words == "2 of 8 votes would change number one"
    assert found.confirmed


def test_it_is_an_upper_bound_and_rarely_far_from_the_smallest_set():
    exact = found_any = 0
    for seed in range(30):
        battles = drawn(seed, 18, [0.8, 0.3, 0, -0.3])
        model = BradleyTerry().fit(battles)
        if not model.ranked_.all():
            continue
        found = measure_robustness(battles, model)
        best = by_trial(battles, found.top, most=3)
        if found.votes:
            assert best is None or found.votes >= best
            found_any += 1
            exact += best is None or found.votes == best
    assert found_any > 8
    assert exact > 0.7 * found_any


@given(votes(scores=SOFT, max_candidates=5))
def test_a_number_is_given_only_where_a_fit_confirms_it(v):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    found = measure_robustness(battles)
    assert found.stability is not Stability.NOTHING_RANKED
    assert bool(found.votes) == (found.stability is Stability.CHANGES)
    if found.votes:
        assert found.confirmed
        assert found.rival != found.top
        assert found.votes <= found.of // 2


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


def test_far_ahead_it_takes_many():
    found = measure_robustness(drawn(3, 3000, [1.5, 0.2, 0.1, 0, -0.4]))
    assert found.votes is None or found.votes > 100


def test_folding_over_clusters_changes_nothing():
    plain, clustered = (drawn(5, 400, [0.3, 0.2, 0, -0.1], n_clusters=n) for n in (0, 40))
    unfolded = Battles.from_arrays(
        clustered.first, clustered.second, clustered.score, count=clustered.count
    )
    assert measure_robustness(clustered).votes == measure_robustness(unfolded).votes
    assert measure_robustness(plain).of == 400


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


@pytest.mark.parametrize("seed", range(6))
def test_leaving_one_out_is_what_fitting_without_it_says(seed):
    battles = drawn(seed, 160, [0.3, 0.2, 0, -0.1], n_clusters=8)
    model = BradleyTerry().fit(battles)
    found = leave_one_out(battles, model)
    top = int(np.argmax(model.theta_))
    winners = []
    for cluster in range(battles.n_clusters):
        kept = battles.cluster != cluster
        rest = Battles.from_arrays(
            *(battles.first[kept], battles.second[kept], battles.score[kept]),
            n_candidates=4,
            count=battles.count[kept],
        )
        winners.append(int(np.argmax(BradleyTerry().fit(rest).theta_)))
    changed = [winner for winner in winners if winner != top]
    assert found.groups == 8
    assert abs(found.changes - len(changed)) <= 1
    assert found.rival is None or found.rival in changed


def test_one_group_cannot_be_left_out():
    battles = drawn(1, 60, [0.3, 0], n_clusters=1)
    assert leave_one_out(battles, BradleyTerry().fit(battles)) is None
    alone = drawn(1, 60, [0.3, 0])
    assert leave_one_out(alone, BradleyTerry().fit(alone)) is None


@pytest.mark.data
def test_thirteen_votes_of_a_real_crowd_decide(crowd):
    battles = Battles.from_arrays(crowd.left, crowd.right, crowd.score)
    found = measure_robustness(battles)
    assert found.words == "13 of 8,931 votes would change number one"
    assert crowd.names[found.top] == "GPT 4"
    assert crowd.names[found.rival] == "Platypus-2 Instruct (70B)"
