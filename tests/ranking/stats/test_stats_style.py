"""Style control: against a general optimiser, the formulas vote by vote and a linear program."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, linprog, minimize

from ranking.stats import style
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.intervals import NoInterval
from ranking.stats.style import NoStyle, StyledBradleyTerry, StyledVotes, style_differences

K, TRUTH = 5, np.array([0.8, -0.3])


@dataclass
class Votes:
    left: np.ndarray
    right: np.ndarray
    score: np.ndarray
    features: np.ndarray
    weight: np.ndarray
    cluster: np.ndarray


def styled_votes(n=300, ties=0.2):
    rng = np.random.default_rng(5)
    left = rng.integers(0, K, n)
    right = (left + rng.integers(1, K, n)) % K
    features = style_differences(*rng.integers(0, 30, (2, n, 2)))
    gap = np.linspace(-1, 1, K)[left] - np.linspace(-1, 1, K)[right] + features @ TRUTH
    score = (rng.random(n) < 1 / (1 + np.exp(-gap))).astype(float)
    score[rng.random(n) < ties] = 0.5
    return Votes(left, right, score, features, rng.integers(1, 4, n), rng.integers(0, 40, n))


def fitted(v, **columns):
    return StyledBradleyTerry().fit(v.left, v.right, v.score, v.features, **columns)


def design(v, model):
    """(n, K + F): what each vote adds up its log-odds from."""
    return np.hstack([np.eye(K)[v.left] - np.eye(K)[v.right], v.features / model.deviations_])


def parameters(model):
    return np.concatenate([model.theta_, model.coefficients_])


def likelihood(x, rows, score, weight):
    gap = rows @ x
    return weight @ (score * gap - np.logaddexp(0, gap))


def test_a_general_optimiser_finds_the_same():
    v = styled_votes()
    model = fitted(v, weight=v.weight)
    rows = design(v, model)

    def loss(x):
        return -likelihood(x, rows, v.score, v.weight) + x[:K].sum() ** 2

    def slope(x):
        residual = v.weight * (v.score - 1 / (1 + np.exp(-rows @ x)))
        return -rows.T @ residual + 2 * x[:K].sum() * (np.arange(K + 2) < K)

    found = minimize(loss, np.zeros(K + 2), jac=slope, method="BFGS", options={"gtol": 1e-8})
    assert parameters(model) == pytest.approx(found.x, abs=1e-6)
    assert model.log_likelihood_ == pytest.approx(-found.fun, abs=1e-8)
    assert model.ratings_ == pytest.approx(1000 + 400 / math.log(10) * model.theta_)
    assert (model.reason_, model.coefficient_status_) == (None, (None, None))
    assert model.n_iter_ < 8


def test_deviations_are_those_about_zero():
    v = styled_votes()
    expected = np.sqrt(np.average(v.features**2, axis=0, weights=v.weight))
    assert fitted(v, weight=v.weight).deviations_ == pytest.approx(expected)


def test_derivatives_are_those_of_finite_differences(monkeypatch):
    monkeypatch.setattr(style, "CHUNK", 64)  # so that chunks must add up
    v = styled_votes()
    everyone = np.ones(K, bool)
    votes = StyledVotes.between(everyone, v.left, v.right, v.score, v.features, v.weight)
    x = np.array([0.3, -0.2, 0.9, -1.5, 0.5, 0.7, -2])
    gradient, information = votes.derivatives(x)
    assert gradient == pytest.approx(approx_fprime(x, votes.log_likelihood, 1e-6), abs=1e-3)
    bends = approx_fprime(x, lambda y: votes.derivatives(y)[0], 1e-6)
    assert information == pytest.approx(-bends, abs=1e-3)


def written_out(v, model, weight, cluster):
    """The clustered covariance, vote by vote."""
    rows = design(v, model)
    p = 1 / (1 + np.exp(-rows @ parameters(model)))
    bread = np.linalg.pinv((rows.T * (weight * p * (1 - p))) @ rows)
    each = rows * (weight * (v.score - p))[:, None]
    groups = [each[cluster == g].sum(axis=0) for g in np.unique(cluster)]
    return bread @ sum(np.outer(u, u) for u in groups) @ bread * len(groups) / (len(groups) - 1)


@pytest.mark.parametrize("dense", [0, 1000])
def test_clusters_are_summed_before_they_are_squared(monkeypatch, dense):
    monkeypatch.setattr(style, "DENSE", dense)
    monkeypatch.setattr(style, "BLOCK", 7)
    monkeypatch.setattr(style, "CHUNK", 64)
    v = styled_votes()
    model = fitted(v, weight=v.weight, cluster=v.cluster - 3)
    errors = np.sqrt(np.diag(written_out(v, model, v.weight, v.cluster)))
    assert model.covariance_ == pytest.approx(
        written_out(v, model, v.weight, v.cluster)[:K, :K], rel=1e-6, abs=1e-10
    )
    assert model.standard_errors_ == pytest.approx(errors[:K] * 400 / math.log(10))
    assert model.coefficient_errors_ == pytest.approx(errors[K:])
    assert model.n_clusters_ == 40


def test_without_clusters_each_vote_is_its_own():
    v = styled_votes()
    model = fitted(v, weight=v.weight)
    expected = written_out(v, model, v.weight, np.arange(len(v.left)))
    assert model.coefficient_errors_ == pytest.approx(np.sqrt(np.diag(expected))[K:])
    assert model.n_clusters_ == len(v.left)


def test_the_interval_is_t_quantiles_wide():
    v = styled_votes()
    model = fitted(v, cluster=v.cluster)
    t = 2.022691  # 39 degrees of freedom
    assert model.high_ - model.ratings_ == pytest.approx(t * model.standard_errors_, rel=1e-6)
    assert model.ratings_ - model.low_ == pytest.approx(t * model.standard_errors_, rel=1e-6)
    reach = t * model.coefficient_errors_
    assert model.coefficient_high_ - model.coefficients_ == pytest.approx(reach, rel=1e-6)
    assert model.coefficients_ - model.coefficient_low_ == pytest.approx(reach, rel=1e-6)


def test_the_truth_is_inside_and_style_is_taken_from_the_scores():
    v = styled_votes(20_000, ties=0)
    model = fitted(v)
    truth = TRUTH * model.deviations_
    assert (np.abs(model.coefficients_ - truth) < 4 * model.coefficient_errors_).all()
    strengths = np.linspace(-1, 1, K) * 400 / math.log(10) + 1000
    assert (np.abs(model.ratings_ - strengths) < 4 * model.standard_errors_).all()


@st.composite
def small_votes(draw):
    """A few connected votes with one or two features of few values: often without a maximum."""
    n = draw(st.integers(2, 4))
    side, style = st.integers(0, n - 1), st.sampled_from([-1.0, 0.0, 0.5, 1.0])
    row = st.tuples(side, st.integers(1, n - 1), st.sampled_from([0.0, 0.5, 1.0]), style, style)
    rows = [(a, (a + step) % n, *rest) for a, step, *rest in draw(st.lists(row, max_size=25))]
    rows += [(i, (i + 1) % n, 1.0, draw(style), draw(style)) for i in range(n)]
    left, right, score, *features = (np.array(column) for column in zip(*rows, strict=True))
    return Votes(left, right, score, np.stack(features, axis=1), np.ones(len(rows)), left * 0)


def separated(v, model):
    """Whether some parameters side with every vote, with some beyond doubt: no maximum then."""
    n = int(max(v.left.max(), v.right.max())) + 1
    varies = np.ptp(v.features, axis=0) > 0
    rows = np.hstack([np.eye(n)[v.left] - np.eye(n)[v.right], v.features[:, varies]])
    won, lost, tied = (rows[v.score == s] for s in (1, 0, 0.5))
    sided = np.vstack([won, -lost])
    bounds = {"A_ub": -sided, "b_ub": np.zeros(len(sided)), "bounds": (-1, 1)}
    if len(tied):
        bounds |= {"A_eq": tied, "b_eq": np.zeros(len(tied))}
    return -linprog(-sided.sum(axis=0), **bounds).fun > 1e-6


@given(small_votes())
def test_a_fit_is_reported_exactly_when_a_maximum_exists(v):
    model = fitted(v)
    if separated(v, model):
        assert model.reason_ is NoStyle.SEPARATED
        numbers = [*parameters(model), *model.standard_errors_, model.log_likelihood_]
        assert np.isnan(numbers).all()
    else:
        assert model.reason_ is not NoStyle.SEPARATED
        varies = np.ptp(v.features, axis=0) > 0
        rows = np.hstack(
            [
                np.eye(len(model.theta_))[v.left] - np.eye(len(model.theta_))[v.right],
                v.features[:, varies],
            ]
        )
        beside = np.linalg.matrix_rank(rows) == len(model.theta_) - 1 + varies.sum()
        assert beside == (np.isfinite(model.theta_).all() and known(model) == varies.sum())
        if beside:
            x = np.nan_to_num(
                np.concatenate(
                    [
                        model.theta_,
                        model.coefficients_ / np.where(model.deviations_ > 0, model.deviations_, 1),
                    ]
                )
            )
            gap = np.hstack([rows[:, : len(model.theta_)], v.features]) @ x
            residual = v.score - 1 / (1 + np.exp(-gap))
            assert rows.T @ residual == pytest.approx(0, abs=1e-6)


def known(model):
    return np.isfinite(model.coefficients_).sum()


@given(small_votes(), st.randoms(use_true_random=False))
def test_sides_and_names_are_symmetric_and_weights_repeat(v, random):
    n = int(max(v.left.max(), v.right.max())) + 1
    order = list(range(n))
    random.shuffle(order)
    place = np.array(order)
    model = fitted(v)
    turned = StyledBradleyTerry().fit(place[v.right], place[v.left], 1 - v.score, -v.features)
    assert turned.ratings_[place] == pytest.approx(model.ratings_, abs=1e-5, nan_ok=True)
    assert turned.coefficients_ == pytest.approx(model.coefficients_, abs=1e-6, nan_ok=True)
    assert turned.reason_ == model.reason_
    weighted = fitted(v, weight=np.full(len(v.left), 2.0))
    assert weighted.ratings_ == pytest.approx(model.ratings_, abs=1e-5, nan_ok=True)
    counted = fitted(v, count=np.full(len(v.left), 2))
    twice = np.tile(np.arange(len(v.left)), 2)
    repeated = StyledBradleyTerry().fit(
        v.left[twice], v.right[twice], v.score[twice], v.features[twice]
    )
    for name in ("ratings_", "standard_errors_", "coefficients_", "coefficient_errors_"):
        # An error next to 0 is rounding, and unknown on one side of the threshold.
        known = np.nan_to_num(getattr(repeated, name))
        expected = pytest.approx(known, rel=1e-5, abs=1e-5)
        assert np.nan_to_num(getattr(counted, name)) == expected
    assert counted.n_clusters_ == repeated.n_clusters_


def test_features_without_information_are_reported_and_the_rest_is_fitted():
    v = styled_votes()
    alone = fitted(v)
    length, bold = v.features.T
    v.features = np.stack([length, np.zeros(300), bold, np.full(300, 0.3)], axis=1)
    model = fitted(v)
    expected = (None, NoStyle.CONSTANT, None, NoStyle.CONSTANT)
    assert model.coefficient_status_ == expected
    assert model.coefficients_[[0, 2]] == pytest.approx(alone.coefficients_)
    assert np.isnan(model.coefficients_[[1, 3]]).all()
    assert model.standard_errors_ == pytest.approx(alone.standard_errors_)


def test_collinear_features_leave_the_scores_alone():
    v = styled_votes()
    alone = fitted(v)
    length, bold = v.features.T
    v.features = np.stack([length, bold, 2 * length], axis=1)
    model = fitted(v)
    assert model.coefficient_status_ == (NoStyle.COLLINEAR, None, NoStyle.COLLINEAR)
    assert model.coefficients_[1] == pytest.approx(alone.coefficients_[1])
    assert np.isnan(model.coefficients_[[0, 2]]).all()
    assert np.isnan(model.coefficient_high_[[0, 2]]).all()
    assert model.ratings_ == pytest.approx(alone.ratings_)
    assert model.standard_errors_ == pytest.approx(alone.standard_errors_)
    assert model.reason_ is None


def test_a_style_determined_by_the_candidate_leaves_no_scores():
    v = styled_votes()
    alone = fitted(v)
    habit = np.array([0.1, 0.4, 0.2, 0.9, 0.3])
    v.features = np.column_stack([habit[v.left] - habit[v.right], v.features])
    model = fitted(v)
    assert model.coefficient_status_ == (NoStyle.OF_CANDIDATES, None, None)
    assert model.reason_ is NoStyle.OF_CANDIDATES
    assert np.isnan([model.ratings_, model.low_, model.standard_errors_]).all()
    assert model.coefficients_[1:] == pytest.approx(alone.coefficients_)
    assert model.coefficient_high_[1:] == pytest.approx(alone.coefficient_high_)


def test_style_that_explains_all_votes_has_no_coefficient():
    model = StyledBradleyTerry().fit([0, 0] * 5, [1, 1] * 5, [1, 0] * 5, [[1.0], [-1.0]] * 5)
    assert model.reason_ is NoStyle.SEPARATED
    assert np.isnan([*model.ratings_, *model.coefficients_]).all()
    assert all(reason.reason.endswith(".") for reason in NoStyle)


def test_missing_maximum_is_detected_early(monkeypatch):
    passes, derivatives = [], StyledVotes.derivatives

    def counted(self, x):
        passes.append(x)
        return derivatives(self, x)

    monkeypatch.setattr(StyledVotes, "derivatives", counted)
    StyledBradleyTerry().fit([0, 0] * 5, [1, 1] * 5, [1, 0] * 5, [[1.0], [-1.0]] * 5)
    assert len(passes) < 32


def test_without_features_it_is_bradley_terry():
    v = styled_votes()
    v.features = np.zeros((300, 0))
    model = fitted(v)
    plain = BradleyTerry().fit(Battles.from_arrays(v.left, v.right, v.score))
    assert model.ratings_ == pytest.approx(plain.ratings_)
    assert model.log_likelihood_ == pytest.approx(plain.log_likelihood_)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_callers_features_stay_as_they_are(order):
    v = styled_votes()
    v.features = np.array(v.features, order=order)
    before = v.features.copy()
    fitted(v)
    assert (v.features == before).all()


def test_votes_with_the_unranked_and_of_no_weight_change_nobody():
    v = styled_votes()
    alone = fitted(v, cluster=v.cluster)
    more = StyledBradleyTerry().fit(
        [*v.left, 5, 0],
        [*v.right, 0, 1],
        [*v.score, 1, 1],
        [*v.features, [1.0, 0], [0, 1.0]],
        weight=[*np.ones(300), 1, 0],
        cluster=[*v.cluster, 77, 78],
    )
    assert more.ratings_[:5] == pytest.approx(alone.ratings_)
    assert more.high_[:5] == pytest.approx(alone.high_)
    assert more.deviations_ == pytest.approx(alone.deviations_)
    assert (more.status_[5], math.isnan(more.ratings_[5])) == ("undefeated", True)


NONE = [
    ([0, 1] * 3, [1, 2] * 3, [0.5] * 6, NoInterval.NO_DECISIVE_VOTE),
    ([0], [1], [1], NoInterval.NOTHING_RANKED),
    ([], [], [], NoInterval.NOTHING_RANKED),
]


@pytest.mark.parametrize(("left", "right", "score", "reason"), NONE)
def test_where_there_is_no_interval_there_is_a_reason(left, right, score, reason):
    features = np.array([0.5, 0.5, -0.5, -0.5, 0.5, -0.5])[: len(left), None]
    model = StyledBradleyTerry().fit(left, right, score, features, n_candidates=300)
    assert model.reason_ is reason
    assert np.isnan([*model.low_, *model.coefficient_high_, *model.standard_errors_]).all()


def test_three_clusters_carry_scores_but_no_interval():
    v = styled_votes()
    model = fitted(v, cluster=v.cluster % 3)
    assert model.reason_ is NoInterval.FEW_CLUSTERS
    assert model.ratings_ == pytest.approx(fitted(v).ratings_)
    assert np.isnan([*model.low_, *model.coefficient_high_, *model.standard_errors_]).all()


GOOD = ([0, 1], [1, 0], [1, 1])
BAD = [
    (lambda: StyledBradleyTerry().fit(*GOOD, [1, 2]), "features must be of shape"),
    (lambda: StyledBradleyTerry().fit(*GOOD, [[1], [math.nan]]), "features must be finite; row 1"),
    (lambda: StyledBradleyTerry().fit(*GOOD, [[1], [math.inf]]), "features must be finite; row 1"),
    (lambda: StyledBradleyTerry().fit(*GOOD, [["a"], ["b"]]), "features must hold numbers"),
    (lambda: StyledBradleyTerry().fit(*GOOD, [[1.0]]), "features has 1 entries"),
    (lambda: StyledBradleyTerry().fit(*GOOD, [[1], [2]], cluster=[1]), "cluster has 1"),
    (lambda: StyledBradleyTerry().fit(*GOOD, [[1], [2]], weight=[1, -1]), "weight must be"),
    (lambda: StyledBradleyTerry().fit([0, 1], [1, 0], [1, 2], [[1], [2]]), "score must be"),
    (lambda: StyledBradleyTerry(scale=0).fit(*GOOD, [[1], [2]]), "scale must be"),
    (lambda: StyledBradleyTerry(confidence=1).fit(*GOOD, [[1], [2]]), "confidence must be"),
    (lambda: style_differences([[1, 2]], [[1]]), "of_right is of shape"),
    (lambda: style_differences([[1]], [[-1]]), "of_right must not be negative"),
    (lambda: style_differences([[math.nan]], [[1]]), "of_left must be finite"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_differences_are_shares_of_the_sum():
    found = style_differences([[3, 0, 1e308]], [[1, 0, 1e308]])
    assert found.tolist() == [[0.5, 0, 0]]
