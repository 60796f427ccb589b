"""E-values of rigged voting: high for rigged votes, low where raters merely differ."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from ranking.stats import anomalies
from tests.ranking.stats.attacks import Attack, cast_board, found_in

ONE = np.array([0])


def by_one_rater(scores: list[float], left: int = 0, n_candidates: int = 2) -> anomalies.Cast:
    n = len(scores)
    return anomalies.Cast(
        rater=np.zeros(n, np.int64),
        network=np.full(n, -1),
        left=np.full(n, left),
        right=np.arange(n) % (n_candidates - 1) + 1,
        score=np.array(scores),
        rushed=np.zeros(n, np.bool_),
    )


def test_the_likelihood_of_honest_votes_is_the_integral_over_tastes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(anomalies, "TYPICAL", 1e12)  # tastes are TASTE, whatever was measured
    scores = [1.0, 1.0, 0.0, 1.0, 0.5]
    ratios, wins, met = anomalies.favour_ratios(by_one_rater(scores), np.array([0.3, -0.4]))

    def likelihood(shift: float) -> float:
        p = expit(0.7 + shift)
        return float(p**3.5 * (1 - p) ** 1.5 * norm.pdf(shift, scale=anomalies.TASTE))

    honest, _ = quad(likelihood, -10, 10)
    rigged = 3.5 * np.log(anomalies.ALWAYS) + 1.5 * np.log(1 - anomalies.ALWAYS)
    assert ratios[0, 0] == pytest.approx(rigged - np.log(honest), abs=1e-4)
    assert (wins[0].tolist(), met[0].tolist()) == ([3.5, 1.5], [5, 5])


def test_e_values_of_honest_raters_average_at_most_one() -> None:
    rng = np.random.default_rng(3)
    n_raters, each = 4000, 12
    theta = np.array([0.0, 0.5, -0.5])
    shift = rng.normal(0, anomalies.TASTE, n_raters).repeat(each)
    rater = np.arange(n_raters).repeat(each)
    right = rng.integers(1, 3, len(rater))
    score = (rng.random(len(rater)) < expit(theta[0] - theta[right] + shift)).astype(float)
    zeros = np.zeros(len(rater), np.int64)
    votes = anomalies.Cast(rater, zeros - 1, zeros, right, score, zeros > 0)
    ratios, *_ = anomalies.favour_ratios(votes, theta)
    values = np.exp(ratios[:, 0])
    assert values.mean() < 1.35
    assert (values > 100).mean() <= 0.01


@pytest.mark.parametrize(("n_left", "n", "is_found"), [(30, 30, True), (18, 30, False)])
def test_whoever_chooses_one_side_only_is_found(n_left: int, n: int, is_found: bool) -> None:
    votes = by_one_rater([1.0] * n_left + [0.0] * (n - n_left))
    assert bool(anomalies._sides(votes)) == is_found


def test_votes_without_reading_are_found_and_a_slip_is_not() -> None:
    for n_rushed, is_found in ((15, True), (2, False)):
        votes = by_one_rater([0.5] * 20)
        votes.rushed[:n_rushed] = True
        assert bool(anomalies._speeds(votes)) == is_found


def test_whoever_skips_all_but_one_candidate_s_pairs_is_found() -> None:
    rng = np.random.default_rng(1)
    left, right = np.array([rng.choice(8, 2, replace=False) for _ in range(80)]).T
    with_it = (left == 3) | (right == 3)
    rater = np.zeros(80, np.int64)
    found = anomalies.skips(rater, left, right, with_it, 8)
    assert [(s.test, s.candidate) for s in found] == [("skips", 3)]
    assert anomalies.skips(rater, left, right, rng.permutation(with_it), 8) == []


def test_of_all_raters_the_most_certain_are_held_within_the_bound() -> None:
    rigged = np.r_[np.full(20, 0.98), np.full(5, 0.8), np.full(100, 0.01)]
    chosen = anomalies._most_certain(rigged)
    assert chosen[:20].all()
    assert chosen[20:25].sum() == 2  # 0.4 + 0.4: at most 1 % of 120.4, times 120.4 / 150.4
    assert not chosen[25:].any()


def test_few_honest_raters_among_many_rigged_ones_are_not_held() -> None:
    """A newcomer who never saw the target was held as likely as the others who came then."""
    boards = [cast_board(Attack.TARGET_ONLY, seed, n_honest=3, each=10) for seed in range(20)]
    held, honest = np.mean([found_in(board) for board in boards], axis=0)
    assert held >= 0.95
    assert honest <= 0.05  # of three raters on 20 boards


@pytest.mark.parametrize("attack", Attack)
def test_whoever_makes_one_candidate_always_lose_is_held_like_whoever_makes_it_win(
    attack: Attack,
) -> None:
    """Votes against number one moved the scores, and by these the honest ones looked rigged."""
    for seed in range(3):
        board = cast_board(attack, seed, n_honest=25)
        against = replace(board, votes=board.votes.turned())
        assert found_in(against) == found_in(board)


def test_honest_raters_whom_a_candidate_divides_are_not_held() -> None:
    """Half of them like it much more than the others do: 16 % were held."""
    honest = []
    for seed in range(4):
        board, rng = cast_board(Attack.NONE, seed), np.random.default_rng(seed)
        own = board.theta + rng.normal(0, 0.7, (board.n_honest, len(board.theta)))
        own[:, 4] += rng.choice([-3, 3], board.n_honest)
        votes = board.votes
        gap = own[votes.rater, votes.left] - own[votes.rater, votes.right]
        score = np.where(votes.score == 0.5, 0.5, rng.random(len(gap)) < expit(gap))
        honest.append(found_in(replace(board, votes=replace(votes, score=score)))[1])
    assert np.mean(honest) <= 0.03


def test_honest_raters_who_all_reject_one_candidate_are_not_held() -> None:
    """Of 14 raters whom a broken candidate never convinced, ten were held as newcomers in a row."""
    n_raters, n_votes, n_boards = 14, 11, 12
    theta, n_held = np.array([1.0, 0.5, 0.0, -0.5, -5.0]), 0
    for seed in range(n_boards):
        rng = np.random.default_rng(seed)
        likes = theta + rng.normal(0, 0.7, (n_raters, 5))
        rater = np.arange(n_raters).repeat(n_votes)
        left, right = np.array([rng.choice(5, 2, replace=False) for _ in rater]).T
        chance = expit(likes[rater, left] - likes[rater, right])
        score = (rng.random(len(rater)) < chance).astype(float)
        votes = anomalies.Cast(rater, rater, left, right, score, np.zeros(len(rater), np.bool_))
        n_held += len(anomalies.held_raters(anomalies.find(votes, 5)))
    assert n_held <= 0.01 * n_raters * n_boards


def test_nobody_gets_honest_raters_held_by_carefully_voting_against_what_they_like() -> None:
    """20 raters with 50 votes each, who let number one win one vote in eight, got 15 % held."""
    honest, rng = [], np.random.default_rng(1)
    for seed in range(6):
        board = cast_board(Attack.TARGET_ONLY, seed, n_honest=30)
        votes = board.votes.turned()
        wins = (votes.rater >= 30) & (rng.random(len(votes.rater)) < 1 / 8)
        framing = replace(votes, score=np.where(wins, 1 - votes.score, votes.score))
        honest.append(found_in(replace(board, votes=framing))[1])
    assert np.mean(honest) <= 0.05


def test_where_most_votes_are_rigged_honest_raters_do_not_seem_to_vote_against_the_target() -> None:
    boards = [cast_board(Attack.BURST, seed, n_honest=12) for seed in range(6)]
    assert np.mean([found_in(board)[1] for board in boards]) <= 0.03


@pytest.mark.slow
@pytest.mark.parametrize("attack", [Attack.OMNIPRESENT, Attack.BURST_ON_TARGET, Attack.BURST])
def test_the_documented_bounds_are_kept(attack: Attack) -> None:
    """90 % of concentrated votes held, and 1 % of honest raters."""
    held, honest = np.mean([found_in(cast_board(attack, seed)) for seed in range(20)], axis=0)
    assert held >= 0.9
    assert honest <= 0.01


@pytest.mark.parametrize("attack", Attack)
def test_attacks_are_held_and_honest_raters_are_not(attack: Attack) -> None:
    held, honest = np.mean([found_in(cast_board(attack, seed)) for seed in range(2)], axis=0)
    assert honest <= 0.03
    if attack.is_concentrated:
        assert held >= 0.85


def test_of_many_networks_one_may_be_one_sided_by_chance() -> None:
    """Of 800 honest raters, two on one network were alike on a third of the boards."""
    members, ratios = np.arange(2), np.full((2, 8), -5.0)
    ratios[:, 3] = 5.5
    assert anomalies._group("network", members, ratios, tries=1) is not None
    assert anomalies._group("network", members, ratios, tries=600) is None
