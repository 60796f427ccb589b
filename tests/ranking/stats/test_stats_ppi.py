"""The combined board: its equations and errors, written out comparison by comparison."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, root

from benchmarks.simulations.prediction_powered import DESIGNS, JUDGES, simulate
from ranking.stats.judged import Labelled, Unlabelled, draw_weights
from ranking.stats.ppi import NoGain, PredictionPowered
from tests.ranking.stats.helpers import K, fit_combined, judged_votes, sigmoid


def equation(people, judge, weight):
    """The estimating function of the docstring, summed one comparison at a time, and the shares
    of it that each comparison has in the sandwich."""
    w = people["weight"] / people["weight"].mean()
    u = judge["weight"] / judge["weight"].mean()
    heard = ~np.isnan(people["predicted"])
    pair = [frozenset(p) for p in zip(people["left"], people["right"], strict=True)]
    judged = [frozenset(p) for p in zip(judge["left"], judge["right"], strict=True)]
    same = np.array([[a == b for b in judged] for a in pair])
    alike = np.array([[a == b for b in pair] for a in pair])
    theirs = same @ u
    ours = alike @ (w * heard)
    kappa = np.where(heard, theirs / np.where(heard, theirs + ours, 1), 0)
    v = u * (same.T @ (kappa * w * heard / np.where(theirs > 0, theirs, 1)))

    def gradient(side, score, theta):
        gap = theta[side["left"]] - theta[side["right"]]
        contrast = np.eye(K)[side["left"]] - np.eye(K)[side["right"]]
        return contrast * (score - sigmoid(gap))[:, None]

    def function(theta):
        said = np.where(heard, people["predicted"], 0)
        total = w @ gradient(people, people["score"], theta)
        total += weight * (v @ gradient(judge, judge["predicted"], theta))
        return total - weight * ((kappa * w * heard) @ gradient(people, said, theta))

    return function


@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_ratings_are_the_root_of_the_equation_written_out(weight):
    people, judge = judged_votes()
    model = fit_combined(people, judge, tuning=weight)
    function = equation(people, judge, weight)
    found = root(lambda theta: function(theta) + theta.sum(), np.zeros(K), tol=1e-12)
    assert model.lambda_ == weight
    assert model.theta_ == pytest.approx(found.x, abs=1e-8)


def test_the_equation_is_as_steep_as_that_of_human_votes_alone():
    """By finite differences: the expected scores drop out of the rectifier, so it is concave."""
    people, judge = judged_votes()
    theta = fit_combined(people, judge, tuning=0.7).theta_
    combined, alone = equation(people, judge, 0.7), equation(people, judge, 0.0)
    steep = [approx_fprime(theta, f, 1e-6) for f in (combined, alone)]
    assert steep[0] == pytest.approx(steep[1], abs=1e-5)


def written_out(people, judge, weight, theta, units, n_people_units):
    """The covariance, share by share. ``units``: the clusters of both samples, people's first."""
    n = len(people["left"])
    first, second = (np.concatenate([people[side], judge[side]]) for side in ("left", "right"))
    w = np.concatenate([s["weight"] / s["weight"].mean() for s in (people, judge)])
    f = np.concatenate([people["predicted"], judge["predicted"]])
    contrast = np.eye(K)[first] - np.eye(K)[second]
    p = sigmoid(contrast @ theta)
    shares = np.zeros((len(first), K))
    for i in range(len(first)):
        same = {first[i], second[i]}
        rows = [
            r for r in range(len(first)) if {first[r], second[r]} == same and not np.isnan(f[r])
        ]
        turned = np.where(first[rows] == first[i], f[rows], 1 - f[rows])
        weights, own = w[rows], np.array(rows) < n
        kappa = weights[~own].sum() / weights.sum()
        totals = [weights[units[rows] == g].sum() for g in np.unique(units[rows])]
        m = sum(totals) ** 2 / np.square(totals).sum()
        usable = own.any() and not own.all() and not np.isnan(f[i])
        part = (-kappa if i < n else 1 - kappa) * np.sqrt(m / (m - 1)) if usable else 0
        rectifier = part * (f[i] - weights @ turned / weights.sum()) if usable else 0
        residual = people["score"][i] - p[i] if i < n else 0
        shares[i] = contrast[i] * w[i] * (residual + weight * rectifier)
    information = (contrast[:n].T * (w * p * (1 - p))[:n]) @ contrast[:n]
    bread = np.linalg.pinv(information)
    groups = [shares[units == g].sum(axis=0) for g in np.unique(units)]
    factor = n_people_units / (n_people_units - 1)
    return factor * bread @ sum(np.outer(g, g) for g in groups) @ bread


def test_people_and_judge_share_clusters_in_the_covariance():
    people, judge = judged_votes(n=120, n_judge=300)
    model = fit_combined(people, judge, tuning=0.6)
    units = np.concatenate([people["cluster"], judge["cluster"]])
    n_units = len(np.unique(people["cluster"]))
    expected = written_out(people, judge, 0.6, model.theta_, units, n_units)
    assert model.covariance_ == pytest.approx(expected, rel=1e-7, abs=1e-10)


def test_without_clusters_every_comparison_is_its_own():
    people, judge = judged_votes(n=120, n_judge=300)
    del people["cluster"], judge["cluster"]
    model = fit_combined(people, judge, tuning=0.6)
    expected = written_out(people, judge, 0.6, model.theta_, np.arange(420), 120)
    assert model.covariance_ == pytest.approx(expected, rel=1e-7, abs=1e-10)


def test_one_pair_is_the_mean_of_the_published_method():
    """PPI++ for a mean (Angelopoulos, Duchi and Zrnic 2023, example 1), through the logit."""
    rng = np.random.default_rng(6)
    n, more = 2000, 5000
    gap = rng.normal(0.4, 1.5, n + more)
    y = (rng.random(n) < sigmoid(gap[:n])) * 1.0
    f = sigmoid(gap + rng.normal(0.5, 1, n + more))
    ones, zeros = np.ones(n + more, int), np.zeros(n + more, int)
    model = PredictionPowered().fit(
        Labelled.from_arrays(zeros[:n], ones[:n], y, f[:n]),
        Unlabelled.from_arrays(zeros[n:], ones[n:], f[n:]),
    )
    tuned = np.cov(y, f[:n])[0, 1] / ((1 + n / more) * f.var())
    assert model.lambda_ * more / (n + more) == pytest.approx(tuned, rel=0.02)
    tuned = model.lambda_ * more / (n + more)
    mean = y.mean() + tuned * (f[n:].mean() - f[:n].mean())
    assert model.theta_[0] - model.theta_[1] == pytest.approx(np.log(mean / (1 - mean)))
    variance = (y - tuned * f[:n]).var() / n + tuned**2 * f[n:].var() / more
    error = np.sqrt([1, -1] @ model.covariance_ @ [1, -1]) * y.mean() * (1 - y.mean())
    assert error == pytest.approx(np.sqrt(variance), rel=0.02)


def test_the_tuned_lambda_has_the_least_trace():
    people, judge = judged_votes(echo=0.5)
    tuned = fit_combined(people, judge)
    assert 0 < tuned.lambda_ < 1
    traces = [
        fit_combined(people, judge, tuning=weight).covariance_.trace()
        for weight in (0.0, tuned.lambda_ - 0.15, tuned.lambda_ + 0.15, 1.0)
    ]
    assert tuned.covariance_.trace() < min(traces)
    assert tuned.gain_ == pytest.approx(
        tuned.people_.covariance_.trace() / tuned.covariance_.trace()
    )


def test_perfect_judge_counts_as_that_many_people():
    rng = np.random.default_rng(5)
    strength = np.linspace(-0.5, 0.5, K)
    left = rng.integers(0, K, 8000)
    right = (left + rng.integers(1, K, 8000)) % K
    score = (rng.random(8000) < sigmoid(strength[left] - strength[right])) * 1.0
    people = {"left": left[:2000], "right": right[:2000], "score": score[:2000]}
    people["predicted"] = people["score"]
    judge = {"left": left[2000:], "right": right[2000:], "predicted": score[2000:]}
    assert fit_combined(people, judge).lambda_ == pytest.approx(1, abs=0.02)
    model = fit_combined(people, judge, tuning=1.0)  # without a doubt about the prompts
    assert model.gain_ == pytest.approx(4, rel=0.1)  # 8,000 votes in place of 2,000


GOOD = {"left": [0, 1], "right": [1, 2], "score": [1, 0.5], "predicted": [0.3, np.nan]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"left": [0, 1, 2]}, "right has 2 entries where left has 3"),
        ({"left": [0, -1]}, "left must be from 0 to 2; row 1 is -1"),
        ({"right": [1, 1]}, "left and right must be different candidates; row 1"),
        ({"right": [1.0, 2.0]}, "right must hold integers"),
        ({"score": [1, 1.1]}, "score must be from 0 to 1; row 1"),
        ({"score": [np.nan, 1]}, "score must be from 0 to 1; row 0"),
        ({"predicted": [0.1, 1.5]}, "predicted must be from 0 to 1 or NaN; row 1"),
        ({"predicted": [-np.inf, 0.5]}, "predicted must be from 0 to 1 or NaN; row 0"),
        ({"predicted": [0.1]}, "predicted has 1 entries where left has 2"),
        ({"weight": [1, -1]}, "weight must be finite and not negative; row 1"),
        ({"weight": [np.inf, 1]}, "weight must be finite and not negative; row 0"),
        ({"cluster": [0.5, 1]}, "cluster must hold integers"),
        ({"cluster": [0]}, "cluster has 1 entries where left has 2"),
        ({"n_candidates": 2}, "right must be from 0 to 1; row 1 is 2"),
        ({"left": [], "right": [], "score": [], "predicted": []}, "n_candidates must be given"),
    ],
)
def test_errors_name_the_argument_and_the_row(wrong, message):
    arguments = GOOD | wrong
    with pytest.raises(ValueError, match=message):
        Labelled.from_arrays(**arguments)
    arguments.pop("score")
    if "score" not in wrong:
        with pytest.raises(ValueError, match=message):
            Unlabelled.from_arrays(**arguments)


def test_weightless_votes_and_missing_verdicts_are_left_out():
    assert len(Labelled.from_arrays(**GOOD, weight=[0, 1])) == 1
    assert len(Labelled.from_arrays(**GOOD)) == 2
    assert len(Unlabelled.from_arrays(GOOD["left"], GOOD["right"], GOOD["predicted"])) == 1


def test_equal_weights_are_the_votes_as_they_are():
    battles = Labelled.from_arrays(**GOOD, weight=[3, 3]).battles
    assert battles.weight.tolist() == [1, 1]
    assert battles.n_votes == 2


def test_draw_weights_undo_the_draw():
    rng = np.random.default_rng(0)
    chance = np.array([0.1, 0.2, 0.3, 0.4])
    pair = rng.choice(4, 20_000, p=chance)
    weight = draw_weights(chance[pair])
    assert weight.mean() == pytest.approx(1)
    assert np.bincount(pair, weight) / 20_000 == pytest.approx(0.25, abs=0.02)


def test_weight_of_a_rarely_drawn_pair_is_capped():
    weight = draw_weights([0.5, 0.5, 0.5, 1e-300], largest=4)
    assert weight / weight[0] == pytest.approx([1, 1, 1, 4])
    assert len(draw_weights([])) == 0


@pytest.mark.parametrize("chance", [0.0, -0.1, 1.1, np.nan, np.inf])
def test_an_invalid_probability_of_a_draw_is_refused(chance):
    with pytest.raises(ValueError, match="probability must be above 0 and at most 1; row 1 is"):
        draw_weights([0.5, chance])


@pytest.mark.parametrize("largest", [0.5, np.nan, np.inf])
def test_largest_weight_is_finite_and_at_least_one(largest):
    with pytest.raises(ValueError, match="largest must be a finite number from 1"):
        draw_weights([0.5], largest)


# Every judge and every design three times; `make simulate` tries each with each, and draws more.
HALF_OF_ALL = [(one, DESIGNS[(i + k) % 6]) for i, one in enumerate(JUDGES) for k in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize(("judge_kind", "design"), HALF_OF_ALL)
def test_intervals_cover_the_truth_whatever_the_judge(judge_kind, design):
    found = simulate(judge_kind, n_repeats=300, seed=2, design=design)
    assert 0.93 <= found["coverage"] <= 0.97
    assert found["shifted"] >= 0.92  # 300 repeats err by 0.014; `make simulate` draws more
    assert found["wider"] == 0
    if judge_kind == "good":
        assert found["width_ratio"] < 0.96
    if judge_kind == "useless":
        assert found["mean_lambda"] < 0.1


def test_a_candidate_that_fares_better_on_the_judges_own_prompts_is_left_out():
    far, alike = (simulate("good", 20, seed=3, design=design) for design in ("far", "prompts"))
    assert far["left_out"] >= 0.9
    assert alike["left_out"] <= 0.3
    assert far["wider"] == alike["wider"] == 0


def test_samples_are_compared_within_strata():
    """The judge's verdict depends on the stratum only, and it saw more of one stratum."""
    rng = np.random.default_rng(1)
    kind, more = rng.random(400) < 0.5, rng.random(1600) < 0.9
    zeros, ones = np.zeros(1600, int), np.ones(1600, int)
    said, says = (np.where(k, 0.8, 0.2) + rng.normal(0, 0.05, len(k)) for k in (kind, more))
    score = (rng.random(400) < said) * 1.0

    def fit(**strata):
        labelled, unlabelled = ({"stratum": strata[k]} if strata else {} for k in ("of", "by"))
        people = Labelled.from_arrays(zeros[:400], ones[:400], score, said, **labelled)
        judge = Unlabelled.from_arrays(zeros, ones, says, **unlabelled)
        return PredictionPowered().fit(people, judge)

    blind, joined = fit(), fit(of=kind * 1, by=more * 1)
    assert blind.no_gain_ is NoGain.OTHER_PROMPTS
    assert blind.left_out_.any()
    assert joined.no_gain_ in (None, NoGain.UNINFORMATIVE)
    assert not joined.left_out_.any()
    apart = fit(of=kind * 1, by=more + 5)
    assert apart.no_gain_ is NoGain.NOTHING_SHARED, "no category that both have seen"


def test_a_seed_means_the_same_repeats():
    assert simulate("good", 3, seed=1) == simulate("good", 3, seed=1)
    assert simulate("good", 3, seed=1) != simulate("good", 3, seed=2)


@pytest.mark.parametrize(("judge_kind", "design"), [("wise", "votes"), ("good", "raters")])
def test_unknown_kinds_are_refused(judge_kind, design):
    with pytest.raises(ValueError, match="judge_kind is one of"):
        simulate(judge_kind, 1, 0, design)
