"""The Claim of two candidates: exact figures, oracles, and what no vote may do to it."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import betaln
from scipy.stats import binom, invgamma

from ranking.stats.claim import (
    ENOUGH,
    Bets,
    Claim,
    DirectVotes,
    Means,
    Missing,
    Registration,
    Scope,
    Unit,
    Verdict,
    boundaries,
    claim,
    is_futile,
    normal_limits,
    plan,
    possible_leaders,
    registered_people,
    registered_power,
    shares,
    stopped_after,
    t_evidence,
    two_way_mean,
    variance_parts,
    watched_power,
)

RATERS = 12


def won(wins, n, *, judged=False):
    """`wins` of n votes, one a prompt, by 12 raters in turn."""
    score = np.where(np.random.default_rng(0).permutation(n) < wins, 1.0, -1.0)
    return DirectVotes(score, rater=np.arange(n) % RATERS, is_judged=judged)


# Small counts.


@pytest.mark.parametrize(
    ("wins", "n", "evidence", "low", "high"),
    [
        (8, 8, 28, 53, 100),
        (9, 9, 51, 56, 100),
        (11, 12, 26, 52, 100),
        (18, 21, 72, 55, 99),
        (19, 20, 2497, 68, 100),
        (30, 40, 32, 51, 92),
        (51, 60, 1.3e6, 68, 96),
        (60, 80, 4222, 58, 88),
        (130, 200, 785, 54, 76),
    ],
)
def test_so_many_wins_decide_for_these_raters(wins, n, evidence, low, high):
    found = claim(won(wins, n, judged=True))
    assert found.verdict is Verdict.BETTER
    assert (found.for_b + found.for_a) / 2 == pytest.approx(evidence, rel=0.03)
    assert 100 * found.low == pytest.approx(low, abs=1.01)
    assert 100 * found.high == pytest.approx(high, abs=1.01)
    assert found.missing is None
    by_people = claim(won(wins, n))
    assert by_people.verdict is Verdict.BETTER


@pytest.mark.parametrize(("wins", "n"), [(7, 7), (8, 9), (65, 100), (5, 10)])
def test_so_many_wins_leave_it_open(wins, n):
    found = claim(won(wins, n))
    assert (found.verdict, found.scope) == (Verdict.OPEN, Scope.THESE_RATERS)
    assert found.low < 0.5 < found.high
    assert found.missing.unit is Unit.PROMPTS
    assert not found.wider.is_decided


@pytest.mark.parametrize(("wins", "n"), [(19, 20), (26, 30), (34, 40), (51, 60), (60, 80)])
def test_raters_that_agree_decide_for_raters_like_these(wins, n):
    found = claim(won(wins, n))
    assert (found.verdict, found.scope, found.wider) == (Verdict.BETTER, Scope.RATERS, None)


@pytest.mark.parametrize(("wins", "n"), [(8, 8), (11, 12), (18, 21), (30, 40)])
def test_few_votes_a_rater_decide_for_these_raters_alone(wins, n):
    found = claim(won(wins, n))
    assert (found.verdict, found.scope) == (Verdict.BETTER, Scope.THESE_RATERS)
    assert found.wider.missing.unit is Unit.RATERS
    assert found.wider.low < 0.5


def test_no_win_more_takes_a_decision_back():
    """Of n votes up to 500, whoever is decided with w wins is so with w + 1."""
    for n in range(1, 501):
        decided = [
            Bets(np.array([-1.0, 1.0]), np.array([n - w, w], np.float64)).evidence() >= ENOUGH
            for w in range(n // 2, n + 1)
        ]
        assert decided == sorted(decided)


# How often a judge's claim is found, by recursion over prompts and wins.


def test_equals_are_told_apart_in_3_4_percent_at_any_of_500_looks():
    assert 200 * dict(watched_power(0.5, 500))[500] == pytest.approx(3.4, abs=0.05)


@pytest.mark.parametrize(
    ("n", "share", "least"),
    [
        *[(20, 0.8, 50), (50, 0.7, 54), (50, 0.8, 95), (100, 0.6, 23), (100, 0.65, 57)],
        *[(100, 0.7, 88), (200, 0.6, 47), (500, 0.55, 24)],
    ],
)
def test_so_often_is_a_better_candidate_found_when_watched(n, share, least):
    assert least <= 100 * dict(watched_power(share, n))[n] < least + 1.9


@pytest.mark.parametrize(("n", "least"), [(50, 52), (100, 83), (200, 98)])
def test_a_registered_run_is_near_the_best_possible_test(n, least):
    run = Registration(n)
    assert 200 * registered_power(0.5, run) <= 5.0
    found = registered_power(0.65, run)
    assert 100 * found >= least
    assert best_fixed(n, 0.65, 0.025) - found <= 0.05


def best_fixed(n, share, alpha):
    """The power of the uniformly most powerful test of one look, randomised to its level."""
    least = int(binom.isf(alpha, n, 0.5)) + 1
    part = (alpha - binom.sf(least - 1, n, 0.5)) / binom.pmf(least - 1, n, 0.5)
    return binom.sf(least - 1, n, share) + part * binom.pmf(least - 1, n, share)


@pytest.mark.parametrize(("n", "share", "least"), [(100, 0.6, 62), (50, 0.7, 86)])
def test_a_gate_looks_in_one_direction_only(n, share, least):
    gate = Registration(n, side=-1)
    assert 100 * registered_power(share, gate) >= least
    assert 100 * registered_power(0.5, gate) <= 5.0


def tossed(run, share, seed):
    """A registered run of coin tosses: its last claim, and at how many prompts it stopped."""
    score = np.where(np.random.default_rng(seed).random(run.size) < share, 1.0, -1.0)
    return stopped_after(score, run)[::-1]


def test_a_registered_run_stops_early_and_says_why():
    run = Registration(100)
    ended = [tossed(run, 0.65, seed) for seed in range(200)]
    assert np.mean([end for _, end in ended]) <= 82
    for found, end in ended:
        assert (found.verdict is Verdict.BETTER) == (found.low > 0.5)
        assert found.look.size == 100
        assert end == 100 or found.verdict is not Verdict.OPEN
    level = [tossed(run, 0.5, seed) for seed in range(400)]
    assert np.mean([end for _, end in level]) <= 80
    assert np.mean([found.is_decided for found, _ in level]) <= 0.08
    assert {found.verdict for found, _ in level} >= {Verdict.CANNOT_TELL}


def futile_power(run, share):
    """The exact power with stopping for futility, over (prompts, wins)."""
    limits = boundaries((1.0,) * run.size, run)
    chance, found, start = np.ones(1), 0.0, 0
    for end, limit in zip(run.ends, limits, strict=True):
        for _ in range(start, end):
            chance = np.append(chance * (1 - share), 0) + np.append(0, chance * share)
        start, total = end, 2 * np.arange(end + 1) - end
        found += chance[total > limit].sum()
        chance[np.abs(total) > limit] = 0
        for wins in np.flatnonzero(chance) if end < run.size else ():
            score = np.repeat([1.0, -1.0], [wins, end - wins])
            if is_futile(score, np.ones(run.size - end), run, limits[-1]):
                chance[wins] = 0
    return found


def test_stopping_for_futility_loses_no_power():
    for share in (0.55, 0.6, 0.65, 0.7):
        run = Registration(100)
        assert registered_power(share, run) - futile_power(run, share) <= 0.005


def test_the_plan_says_how_many_prompts_find_it():
    assert (plan(0.65).registered, plan(0.65).watched) == (90, 155)
    assert plan(0.65, ties=0.25).registered == 120
    assert plan(0.501).registered is None
    for bad in ({"share": 0.5}, {"share": 0.6, "power": 1}, {"share": 0.6, "ties": 1}):
        with pytest.raises(ValueError, match="must be"):
            plan(**bad)


# Oracles.


@given(st.integers(1, 60), st.data())
@settings(deadline=None, max_examples=40)
def test_bets_are_the_beta_binomial_mixture(n, data):
    wins = data.draw(st.integers(0, n))
    bets = Bets(np.array([-1.0, 1.0]), np.array([n - wins, wins], np.float64))
    both = np.logaddexp(bets.evidence(), bets.evidence(0.0, -1)) - math.log(2)
    assert both == pytest.approx(n * math.log(2) + betaln(wins + 1, n - wins + 1), abs=0.05)


@pytest.mark.parametrize(("t", "n"), [(2.0, 5), (6.3, 5), (4.1, 10), (3.4, 50)])
def test_the_t_mixture_is_the_integral(t, n):
    def density(h):
        f = n - 1
        ratio = (1 + t**2 / f) / (1 + t**2 / (f * (1 + n * h)))
        return invgamma.pdf(h, 0.5, scale=0.5) * (1 + n * h) ** -0.5 * ratio ** ((f + 1) / 2)

    integral = quad(density, 0, 1)[0] + quad(lambda u: density(1 / u) / u**2, 0, 1)[0]
    assert t_evidence(t, n) == pytest.approx(math.log(2 * integral), abs=0.03)


@pytest.mark.parametrize(
    ("n", "least"),
    [(3, 22.3), (4, 8.9), (5, 6.3), (6, 5.3), (7, 4.8), (8, 4.5), (10, 4.1), (20, 3.6), (50, 3.4)],
)
def test_so_many_standard_errors_decide_with_few_groups(n, least):
    assert t_evidence(least - 0.1, n) < ENOUGH < t_evidence(least + 0.1, n)
    assert t_evidence(1000.0, 2) == -math.inf


def test_boundaries_are_those_of_all_tosses():
    sizes, run = (1.0, 0.5, 0.5, 1.0, 1.0, 0.0, 1.0, 1.0, 0.5, 1.0), Registration(10, side=1)
    limits = boundaries(sizes, run)
    crossed = 0
    for signs in itertools.product((-1, 1), repeat=len(sizes)):
        totals = np.cumsum(np.multiply(signs, sizes))[np.array(run.ends) - 1]
        crossed += any(t > c for t, c in zip(totals, limits, strict=True))
    assert 0.025 < crossed / 2 ** len(sizes) <= 0.05


def test_the_jackknife_is_that_of_leaving_groups_out():
    rng = np.random.default_rng(1)
    score, group, weight = rng.choice([-1.0, 0, 1], 90), rng.integers(0, 7, 90), rng.random(90)
    means = Means.of(score, weight, group, 7)
    left = [np.average(score[group != g], weights=weight[group != g]) for g in range(7)]
    expected = 6 / 7 * ((np.array(left) - means.mean) ** 2).sum()
    assert means.mean == pytest.approx(np.average(score, weights=weight))
    assert means.variance == pytest.approx(expected)
    assert means.variance_if(0.3) >= (weight**2 @ (score - 0.3) ** 2) / weight.sum() ** 2 - 1e-12


def test_two_way_errors_add_both_ways_and_take_off_what_they_share():
    rng = np.random.default_rng(4)
    prompt, rater = np.repeat(np.arange(20), 8), np.tile(np.arange(8), 20)
    score = np.sign(rng.normal(0.3 * rng.standard_normal(8)[rater], 1.0))
    mean, error, n_groups = two_way_mean(DirectVotes(score, prompt, rater))
    one, other, both = (
        (len(set(g)) - 1) / len(set(g)) * sum((score[g != x].mean() - mean) ** 2 for x in set(g))
        for g in (prompt, rater, np.arange(160))
    )
    assert (mean, n_groups) == (pytest.approx(score.mean()), 8)
    assert error**2 == pytest.approx(max(one + other - both, one, other, 1 / 160))


def test_looks_with_normal_errors_have_the_known_boundaries():
    """Of five looks, with the error spent as by O'Brien and Fleming (Lan and DeMets 1983)."""
    expected = [4.877, 3.357, 2.680, 2.290, 2.031]
    assert normal_limits(Registration(300)) == pytest.approx(expected, abs=0.06)


def people(seed, n_votes=300, gap=0.0):
    rng = np.random.default_rng(seed)
    prompt, rater = rng.integers(0, 60, n_votes), rng.integers(0, 8, n_votes)
    score = np.sign(rng.normal(gap, 1.0, n_votes))
    return DirectVotes(score, prompt, rater)


def test_a_registered_run_by_people_decides_at_its_looks():
    run = Registration(300)
    early = registered_people(people(1, 119, gap=0.9), run)
    assert (early.look.number, early.verdict) == (1, Verdict.OPEN)
    assert early.missing == Missing(Unit.VOTES, 181)
    found = registered_people(people(1, 300, gap=0.9), run)
    assert (found.verdict, found.scope, found.missing) == (Verdict.BETTER, Scope.RATERS, None)
    assert 0.5 < found.low < found.win_rate < found.high
    other = registered_people(people(1, 300, gap=-0.9), run)
    assert other.verdict is Verdict.WORSE
    assert registered_people(people(1, 300, gap=-0.9), replace(run, side=1)).verdict is (
        Verdict.CANNOT_TELL
    )
    level = registered_people(people(2), run)
    assert (level.verdict, level.missing) == (Verdict.CANNOT_TELL, None)
    assert level.low < 0.5 < level.high
    with pytest.raises(ValueError, match="prompts and raters"):
        registered_people(DirectVotes(np.ones(3)), run)


@pytest.mark.parametrize(
    ("wins", "n", "prompts", "raters"), [(8, 9, 23, 69), (12, 15, 31, 55), (65, 100, 18, 11)]
)
def test_so_much_is_missing(wins, n, prompts, raters):
    found = claim(won(wins, n))
    assert found.missing == Missing(Unit.PROMPTS, prompts)
    assert found.wider.missing == Missing(Unit.RATERS, raters)


def test_on_prompts_that_differ_more_raters_need_new_ones():
    prompt, rater = np.repeat(np.arange(20), 10), np.tile(np.arange(10), 20)
    score = np.where(prompt % 20 < 13, 1.0, -1.0)
    assert claim(DirectVotes(score, prompt, rater)).wider.missing.on_new_prompts


def test_variance_parts_find_where_it_comes_from():
    rng = np.random.default_rng(2)
    prompt, rater = np.repeat(np.arange(60), 50), np.tile(np.arange(50), 60)
    effects = 0.4 * rng.standard_normal(60)[prompt] + 0.2 * rng.standard_normal(50)[rater]
    score = effects + 0.5 * rng.standard_normal(3000)
    parts = variance_parts(score, prompt, rater)
    assert parts["prompts"] * 60 == pytest.approx(0.16, rel=0.4)
    assert parts["raters"] * 50 == pytest.approx(0.04, rel=0.5)
    assert parts["votes"] * 3000 == pytest.approx(0.25, rel=0.1)
    assert sum(shares(parts).values()) == pytest.approx(1, abs=0.002)


# What may not happen.

VOTES = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 8), st.sampled_from([-1.0, -0.5, 0.0, 1.0])),
    min_size=1,
    max_size=80,
)


def columns(votes, **fields):
    prompt, rater, score = (np.array(column) for column in zip(*votes, strict=True))
    return DirectVotes(score.astype(np.float64), prompt, rater, **fields)


def everything(found):
    return [found, *([found.wider] if found.wider else [])]


@given(VOTES)
@settings(deadline=None, max_examples=60)
def test_an_interval_excludes_one_half_exactly_where_it_is_decided(votes):
    for found in everything(claim(columns(votes))):
        assert found.is_decided == (not found.low <= 0.5 <= found.high)
        assert 0 <= found.low <= found.win_rate <= found.high <= 1
        assert found.is_decided == (found.missing is None)


@given(VOTES, st.tuples(st.integers(0, 17), st.integers(0, 9), st.just(1.0)))
@settings(deadline=None, max_examples=60)
def test_a_vote_for_b_never_weakens_a_claim_for_b_about_this_judge(votes, more):
    before, after = (claim(columns(v, is_judged=True)) for v in (votes, [*votes, more]))
    assert after.for_b >= before.for_b * (1 - 1e-9)
    assert after.low >= before.low - 1e-9


@given(VOTES)
@settings(deadline=None, max_examples=40)
def test_seen_from_the_other_side_everything_is_turned(votes):
    there = claim(columns(votes))
    turned = columns([(p, r, -s) for p, r, s in votes])
    for one, other in zip(everything(claim(turned)), everything(there.reversed), strict=True):
        assert one.verdict is other.verdict
        assert one.missing == other.missing
        for name in ("low", "high", "win_rate", "for_a", "for_b"):
            assert getattr(one, name) == pytest.approx(getattr(other, name))


@given(VOTES, st.randoms())
@settings(deadline=None, max_examples=30)
def test_the_order_of_votes_does_not_matter(votes, random):
    shuffled = random.sample(votes, len(votes))
    one, other = claim(columns(votes)), claim(columns(shuffled))
    assert one.verdict is other.verdict
    assert one.low == pytest.approx(other.low)


def test_what_was_decided_stays_so_and_says_that_newer_votes_differ():
    early = claim(won(19, 20))
    late = np.append(won(19, 20).score, -np.ones(12))
    votes = DirectVotes(late, rater=np.arange(32) % RATERS)
    assert claim(votes).verdict is Verdict.OPEN
    kept = claim(votes, early)
    assert (kept.verdict, kept.scope, kept.is_kept) == (Verdict.BETTER, Scope.RATERS, True)
    assert (kept.low, kept.high) == (early.low, early.high)
    assert early.low > 0.5
    assert kept.for_b == early.for_b
    again = claim(won(60, 80), early)
    assert not again.is_kept


@given(st.integers(8, 12), st.integers(0, 40), st.integers(0, 40))
@settings(deadline=None, max_examples=60)
def test_the_win_rate_of_what_was_decided_lies_in_its_interval(first, lost, won_later):
    score = np.concatenate([np.ones(first), -np.ones(lost), np.ones(won_later)])
    early = Claim.of(claim(DirectVotes(score[:first], is_judged=True)).json)
    for earlier in (early, early.reversed):
        votes = DirectVotes(score if earlier is early else -score, is_judged=True)
        found = claim(votes, earlier)
        assert found.low <= found.win_rate <= found.high
        assert found.is_decided


def test_a_claim_about_these_raters_is_not_kept_as_one_about_others():
    early = claim(won(8, 8))
    kept = claim(won(8, 12), early)
    assert (kept.verdict, kept.scope, kept.is_kept) == (
        *(Verdict.BETTER, Scope.THESE_RATERS),
        True,
    )
    assert not kept.wider.is_decided


def test_newer_votes_may_reverse_it():
    early = claim(won(8, 8))
    score = np.append(np.ones(8), -np.ones(60))
    late = claim(DirectVotes(score, rater=np.arange(68) % RATERS), early)
    assert (late.verdict, late.is_kept) == (Verdict.WORSE, False)


def test_two_raters_say_nothing_about_others():
    score = np.ones(40)
    found = claim(DirectVotes(score, rater=np.arange(40) % 2))
    assert (found.verdict, found.scope) == (Verdict.BETTER, Scope.THESE_RATERS)
    assert found.wider.verdict is Verdict.CANNOT_TELL
    assert found.wider.no_votes_settle
    assert found.wider.missing.unit is Unit.RATERS
    assert found.wider.missing.number >= 1


def test_raters_that_disagree_are_not_settled_by_their_own_votes():
    rng = np.random.default_rng(3)
    mean = np.array([0.9, 0.8, 0.1, -0.4, 0.7, -0.2])
    rater = np.arange(3000) % 6
    score = np.where(rng.random(3000) < (1 + mean[rater]) / 2, 1.0, -1.0)
    found = claim(DirectVotes(score, np.arange(3000) % 60, rater))
    assert found.wider.verdict is Verdict.CANNOT_TELL
    assert found.wider.missing.unit is Unit.RATERS
    assert found.parts["raters"] > 0.5


def test_prompts_of_few_documents_are_not_many_prompts():
    prompt = np.arange(60)
    score = np.where(prompt % 6 < 4, 1.0, -1.0)
    alone = claim(DirectVotes(score, prompt, is_judged=True))
    grouped = claim(DirectVotes(score, prompt, document=prompt % 6, is_judged=True))
    assert alone.n_documents == 0
    assert grouped.n_documents == 6
    assert grouped.for_b < alone.for_b
    assert grouped.missing.unit is Unit.DOCUMENTS


def test_no_worse_needs_a_margin_that_the_interval_keeps():
    votes = won(65, 100)
    assert claim(votes, margin=0.45).verdict is Verdict.NO_WORSE
    assert claim(votes, margin=0.495).verdict is Verdict.OPEN
    assert claim(votes, margin=0.45).reversed.verdict is Verdict.OPEN


def test_without_votes_nothing_is_said():
    found = claim(DirectVotes(np.zeros(0)))
    assert found == Claim(Verdict.OPEN, Scope.THESE_RATERS, missing=Missing(Unit.PROMPTS, None))
    assert found.json["missing"] == {"unit": "prompts", "number": None}


def test_level_votes_are_forecast_by_nobody():
    assert claim(won(50, 100, judged=True)).missing == Missing(Unit.PROMPTS, None)


# Leaderboards.


def test_the_possible_leaders_are_those_nobody_is_ahead_of():
    theta = np.array([1.0, 0.95, 0.0, np.nan])
    covariance = np.diag([0.01, 0.01, 0.01, np.nan])
    for n_groups in (100, None):
        could = possible_leaders(theta, covariance, n_groups)
        assert could.tolist() == [True, True, False, False]
    assert possible_leaders(theta, covariance, 4).tolist()[2]
    assert possible_leaders(np.zeros(3), np.eye(3), 40).all()
    nobody = np.full(3, np.nan)
    assert not possible_leaders(nobody, np.full((3, 3), np.nan), 40).any()
    assert possible_leaders(np.zeros(0), np.zeros((0, 0)), 40).tolist() == []


def test_an_e_value_of_a_lead_is_the_mean_of_both():
    """Of a t mixture, and of a normal one (Robbins 1970), here of a known error."""
    z, spread = 4.2, (60 * math.log(10) / 400) ** 2
    normal = math.log(2) + (z**2 * spread / (1 + spread) - math.log1p(spread)) / 2
    together = np.logaddexp(normal, t_evidence(z, 10**6)) - math.log(2)
    could = possible_leaders(np.array([z, 0.0]), np.eye(2) / 2, None)
    assert could.tolist() == [True, bool(together < ENOUGH)]


def test_large_leads_of_few_groups_and_small_ones_of_many_are_found():
    few = possible_leaders(np.array([2.2, 0.0]), np.eye(2) * 0.08, 12)  # 380 Elo, 5.5 errors
    many = possible_leaders(np.array([0.58, 0.0]), np.eye(2) * 0.0075, 400)  # 100 Elo, 4.7 errors
    assert few.tolist() == many.tolist() == [True, False]


@pytest.mark.parametrize("spread", [0.1, 0.3, 1.0, 3.0])
def test_equals_are_rarely_told_apart_while_groups_come(spread):
    """From 3 groups on, at each look; 5 % is allowed."""
    rng, wrong = np.random.default_rng(5), 0
    for group in rng.normal(0, spread, (150, 60)):
        for n in range(3, 61, 3):
            gap, variance = group[:n].mean(), group[:n].var(ddof=1) / n
            covariance = np.eye(2) * variance / 2
            if possible_leaders(np.array([gap, 0.0]), covariance, n).sum() == 1:
                wrong += 1
                break
    assert wrong / 150 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 150)


def test_a_claim_is_json():
    found = claim(won(30, 40)).json
    assert found["verdict"] == "better"
    assert found["wider"]["missing"]["unit"] == "raters"
    assert replace(claim(won(30, 40)), wider=None).json["wider"] is None
