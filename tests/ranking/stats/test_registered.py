"""Registered runs: exact error and power by recursion, brute-force oracles, missing verdicts."""

import itertools
import math
import time
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import betabinom, binom, norm

from benchmarks.simulations.experiments import GATES, simulate_gate
from ranking.stats.claim import (
    GRID,
    Claim,
    Look,
    Missing,
    Registration,
    Unit,
    Verdict,
    boundaries,
    detectable,
    expected_prompts,
    is_conclusive,
    is_futile,
    plan,
    registered_claim,
    registered_power,
    size_to_detect,
    stopped_after,
)

NAN = float("nan")
ENDED = (Verdict.BETTER, Verdict.WORSE, Verdict.NO_WORSE, Verdict.CANNOT_TELL)


def scores(won, lost, tied=0, seed=0):
    """So many prompts in some order."""
    score = np.repeat([1.0, -1.0, 0.0], [won, lost, tied])
    return np.random.default_rng(seed).permutation(score)


def exact(run, share, margin=None):
    """By recursion over looks and wins, with the product's claims: how often each verdict ends a
    run in which B wins this share, and how many prompts it takes on average."""
    chance, start, used = {0: 1.0}, 0, 0.0
    ended = dict.fromkeys(ENDED, 0.0)
    for number, end in enumerate(run.ends):
        after: dict[int, float] = {}
        for won, before in chance.items():
            for more, part in enumerate(binom.pmf(range(end - start + 1), end - start, share)):
                after[won + more] = after.get(won + more, 0.0) + before * part
        chance, start = {}, end
        for won, part in after.items():
            verdict = at_look(run, number, won, end, margin)
            if verdict is Verdict.OPEN:
                chance[won] = part
            else:
                ended[verdict] += part
                used += end * part
    assert not chance
    return ended, used


def at_look(run, number, won, end, margin):
    """The verdict after these wins, written down from the rule."""
    limits = boundaries((1.0,) * run.size, run)
    total = 2 * won - end
    if run.side >= 0 and total > limits[number]:
        return Verdict.BETTER
    if run.side <= 0 and total < -limits[number]:
        return Verdict.WORSE
    score = np.repeat([1.0, -1.0], [won, end - won])
    is_over = end == run.size or is_futile(score, np.ones(run.size - end), run, limits[-1], margin)
    is_no_worse = margin is not None and (1 + (total - limits[number]) / end) / 2 > margin
    if is_no_worse and (run.side < 0 or is_over):
        return Verdict.NO_WORSE
    return Verdict.CANNOT_TELL if is_over else Verdict.OPEN


# Error.


@pytest.mark.parametrize(("side", "family"), [(0, 1), (1, 1), (-1, 1), (0, 4), (-1, 4), (-1, 12)])
def test_equals_are_told_apart_in_at_most_5_percent(side, family):
    most = 0.0
    for size in (*range(10, 60), *range(60, 301, 5)):
        run = Registration(size, side=side, family=family)
        false = registered_power(0.5, run) * (1 if side else 2) * family
        assert false <= 0.05 + 1e-12, size
        most = max(most, false)
    assert most > 0.04  # nearly all of it is spent


@pytest.mark.parametrize("size", [10, 37, 100, 300])
@pytest.mark.parametrize("side", [0, -1])
def test_stopping_for_futility_can_only_lower_the_error(size, side):
    run = Registration(size, side=side)
    ended, used = exact(run, 0.5)
    false = ended[Verdict.BETTER] + ended[Verdict.WORSE]
    assert false <= registered_power(0.5, run) * (1 if side else 2) + 1e-12
    assert used == pytest.approx(expected_prompts(run, share=0.5))
    assert sum(ended.values()) == pytest.approx(1)


@pytest.mark.parametrize("sizes", [(1.0,) * 9, (1.0, 0.5, 0.0, 1.0, 0.5, 0.5, 1.0, 1.0, 0.0, 0.5)])
@pytest.mark.parametrize("side", [0, 1, -1])
@pytest.mark.parametrize("looks", [1, 3, 5])
def test_boundaries_are_the_least_totals_that_the_spending_allows(sizes, side, looks):
    """By going through all signs, look by look, and trying every total."""
    run = Registration(len(sizes), looks, side)
    signs = itertools.product((-1, 1), repeat=len(sizes))
    paths = [np.cumsum(np.multiply(one, sizes))[np.array(run.ends) - 1] for one in signs]
    everything, spent = len(paths), 0.0
    for number, (end, limit) in enumerate(zip(run.ends, boundaries(sizes, run), strict=True)):
        level = 2 * norm.sf(norm.isf(run.alpha / 2) / math.sqrt(end / run.size))
        totals = sorted({float(path[number]) for path in paths if path[number] > 0})
        beyond = {t: sum(path[number] >= t for path in paths) / everything for t in totals}
        least = next((t for t in totals if beyond[t] + spent <= level), math.inf)
        assert limit == (pytest.approx(least, abs=1e-5) if least < math.inf else math.inf)
        assert limit < least or least == math.inf
        spent += beyond.get(least, 0.0)
        paths = [path for path in paths if path[number] < least and (side or path[number] > -least)]


# Power, and what is quoted.


@pytest.mark.parametrize(
    ("size", "share", "side", "least"),
    [(100, 0.6, -1, 62), (50, 0.7, -1, 86), (100, 0.6, 1, 62), (50, 0.65, 0, 52)],
)
def test_so_often_is_a_difference_found(size, share, side, least):
    run = Registration(size, side=side)
    assert 100 * registered_power(share, run) >= least
    ended, _ = exact(run, share if side >= 0 else 1 - share)
    found = ended[Verdict.WORSE if side < 0 else Verdict.BETTER]
    assert 0 <= registered_power(share, run) - found <= (0.012 if side else 0.005)
    assert 100 * found >= least - (side == 0)


@pytest.mark.parametrize(("size", "share"), [(50, 0.7), (100, 0.65), (200, 0.6)])
def test_so_many_prompts_find_it_in_about_4_of_5_cases(size, share):
    assert detectable(Registration(size)) == pytest.approx(share, abs=0.01)
    assert registered_power(detectable(Registration(size)), Registration(size)) >= 0.8


def test_worse_alone_is_better_alone_seen_from_the_other_side():
    for size in (5, 20, 77):
        one, other = Registration(size, side=1), Registration(size, side=-1)
        assert registered_power(0.7, one) == pytest.approx(registered_power(0.7, other))
        assert detectable(one) == detectable(other)
        assert expected_prompts(one) == pytest.approx(expected_prompts(other))
        assert expected_prompts(one, share=0.7) == pytest.approx(expected_prompts(other, share=0.3))


def test_too_few_prompts_detect_nothing():
    assert detectable(Registration(5)) is None
    assert detectable(Registration(5, side=-1)) is not None
    assert detectable(Registration(2, side=-1)) is None


@pytest.mark.parametrize("share", [0.59, 0.65, 0.72, 0.8, 0.9, 0.97, 1.0])
@pytest.mark.parametrize(("side", "family", "power"), [(0, 1, 0.8), (-1, 3, 0.8), (1, 1, 0.3)])
def test_no_smaller_size_detects_it(share, side, family, power):
    found = size_to_detect(share, side, family, power)
    for size in range(5, found, 5):
        assert registered_power(share, Registration(size, 5, side, family)) < power
    assert registered_power(share, Registration(found, 5, side, family)) >= power


def test_what_no_size_detects_is_said():
    assert size_to_detect(0.5) is None
    assert size_to_detect(0.51) is None
    assert size_to_detect(0.55, most=500) is None
    assert plan(0.65, side=-1).registered == size_to_detect(0.65, -1) < size_to_detect(0.65)


def test_futility_saves_prompts_where_there_is_no_difference():
    assert expected_prompts(Registration(100), share=0.5) <= 80
    assert expected_prompts(Registration(100), share=0.65) <= 80
    assert expected_prompts(Registration(100), share=0.9) < 45


@pytest.mark.parametrize("margin", [None, 0.45])
@pytest.mark.parametrize("side", [0, -1])
def test_the_prompts_used_are_the_mean_over_usual_differences(side, margin):
    run = Registration(40, side=side)
    differences = norm.isf((np.arange(32) + 0.5) / 32) * 0.2878
    used = [exact(run, (1 + one) / 2, margin)[1] for one in differences]
    assert expected_prompts(run, margin) == pytest.approx(np.mean(used))


def test_quotes_are_quick():
    started = time.process_time()
    expected_prompts(Registration(1999, side=-1), 0.45)
    detectable(Registration(1999))
    size_to_detect(0.539, 0, 3)
    assert time.process_time() - started < 1.5


def test_futility_is_the_beta_binomial_probability_of_a_verdict():
    """Of scores that are all of one size, whatever the size; missing ones are expected as often."""
    run, limit = Registration(60), 15.5
    for won in range(20, 31):
        lost = 40 - won
        left = betabinom(20, won + 1, lost + 1)
        decides = [abs(won - lost + 2 * more - 20) > limit for more in range(21)]
        chance = sum(left.pmf(more) for more in range(21) if decides[more])
        score = scores(won, lost)
        more = np.ones(20)
        assert is_futile(score, more, run, limit) == (chance < 0.025)
        assert is_futile(score / 2, more / 2, run, limit / 2) == (chance < 0.025)
        missing = np.append(score, [NAN] * 40)
        assert is_futile(missing, more, Registration(120), limit) == (chance < 0.025)


def test_a_few_ties_are_not_futile_but_many_are():
    assert registered_claim(np.zeros(4), Registration(20)).verdict is Verdict.OPEN
    assert stopped_after(np.zeros(100), Registration(100))[0] == 60


@pytest.mark.parametrize(("size", "lost"), [(20, 0.9), (50, 0.8)])
def test_ties_that_come_first_do_not_hide_a_loser(size, lost):
    """Of 60 % ties; 66 and 87 % are found without stops for futility."""
    gate, run, rng = GATES[2], Registration(size, side=-1), np.random.default_rng(5)
    assert (gate.kind, gate.ties) == ("verdict", 0.6)
    drawn = (gate.scores(size, rng, lost) for _ in range(300))
    found = np.mean([registered_claim(score, run).verdict is Verdict.WORSE for score in drawn])
    assert found >= (0.56 if size == 20 else 0.8)


# Looks.


def test_before_the_first_look_there_is_no_interval():
    found = registered_claim(np.ones(19), Registration(100))
    assert (found.verdict, found.low, found.high) == (Verdict.OPEN, None, None)
    assert found.look == Look(0, 5, 100)
    assert found.json["look"] == {"number": 0, "looks": 5, "size": 100}
    assert found.missing == Missing(Unit.PROMPTS, 81)
    assert not is_conclusive(found)
    nothing = registered_claim(np.zeros(0), Registration(100))
    assert (nothing.verdict, nothing.win_rate) == (Verdict.OPEN, None)
    assert nothing.missing == Missing(Unit.PROMPTS, 100)


def test_between_looks_the_claim_is_that_of_the_newest_look():
    score, run = np.append(scores(12, 8), np.ones(19)), Registration(100)
    at_look = registered_claim(score[:20], run)
    assert at_look.look.number == 1
    assert registered_claim(score, run) == at_look
    assert registered_claim(np.append(score, 1.0), run).look.number == 2


def test_a_run_ends_at_the_first_look_that_allows_it():
    run = Registration(100)
    score = np.append(np.ones(40), -np.ones(60))
    assert registered_claim(score, run) == registered_claim(score[:40], run)
    assert stopped_after(score, run) == (40, registered_claim(score[:40], run))
    level = np.append(np.tile([1.0, -1.0], 30), np.ones(40))
    assert stopped_after(level, run)[0] == 60
    assert registered_claim(level, run).verdict is Verdict.CANNOT_TELL
    assert stopped_after(score[:10], run)[0] == 10


@pytest.mark.parametrize("side", [0, 1, -1])
def test_replaying_a_run_gives_what_each_step_gave(side):
    run, rng = Registration(30, side=side), np.random.default_rng(2)
    for share in (0.3, 0.5, 0.6, 0.8):
        score = rng.choice(
            [1.0, 0.5, 0.0, -1.0, NAN], 30, p=[share / 2, share / 4, share / 4, 0.8 - share, 0.2]
        )
        steps = [registered_claim(score[:n], run, 0.45) for n in range(31)]
        first = next(n for n, found in enumerate(steps) if is_conclusive(found))
        assert (first, steps[first]) == stopped_after(score, run, 0.45)
        assert steps[first:] == [steps[first]] * (31 - first)


@pytest.mark.parametrize("size", range(1, 12))
@pytest.mark.parametrize("side", [0, 1, -1])
def test_the_smallest_runs_end(size, side):
    run = Registration(size, side=side)
    for score in (np.ones(size), -np.ones(size), np.zeros(size), np.full(size, NAN)):
        end, found = stopped_after(score, run, 0.45)
        assert 0 < end <= size
        assert is_conclusive(found)
        assert found.missing is None


@pytest.mark.parametrize("margin", [None, 0.45])
@pytest.mark.parametrize("side", [0, 1, -1])
def test_claims_follow_the_rule_and_their_intervals_agree(side, margin):
    run = Registration(60, side=side)
    for won, number in itertools.product(range(61), range(5)):
        end = run.ends[number]
        if won > end:
            continue
        # All looks before are level, so that they are open unless futile.
        score = np.append(np.tile([1.0, -1.0], end)[: end - 1], 0.0)
        score[-1] = 2 * won - end - score[:-1].sum()
        if abs(score[-1]) > 1:
            score = np.sort(np.repeat([1.0, -1.0], [won, end - won]))[:: 1 if won % 2 else -1]
        found = registered_claim(score, run, margin)
        decided = found.low > 0.5 or found.high < 0.5
        assert found.is_decided == decided
        assert found.low <= found.win_rate <= found.high
        assert (found.missing is None) == is_conclusive(found)
        if found.look.number == number + 1:
            wins = int((score > 0).sum())
            assert found.verdict is at_look(run, number, wins, end, margin)


def test_on_the_side_that_is_not_tested_nothing_is_claimed():
    gate = registered_claim(scores(90, 10), Registration(100, 1, side=-1))
    assert (gate.verdict, gate.low) == (Verdict.CANNOT_TELL, 0.5)
    found = registered_claim(scores(10, 90), Registration(100, 1, side=1))
    assert (found.verdict, found.high) == (Verdict.CANNOT_TELL, 0.5)
    assert registered_claim(scores(10, 90), Registration(100, side=-1)).verdict is Verdict.WORSE


def test_no_worse_ends_a_gate_but_not_a_comparison():
    score = scores(62, 38, seed=3)
    end, found = stopped_after(score, Registration(100, side=-1), 0.45)
    assert found.verdict is Verdict.NO_WORSE
    assert end < 100
    assert 0.45 < found.low <= 0.5
    both = Registration(100)
    assert registered_claim(score[:end], both, 0.45).verdict is Verdict.OPEN
    late = registered_claim(scores(58, 42, seed=1), both, 0.45)
    assert (late.verdict, late.missing) == (Verdict.NO_WORSE, None)
    assert registered_claim(scores(58, 42, seed=1), both).verdict is Verdict.CANNOT_TELL
    assert registered_claim(scores(40, 60), both, 0.45).verdict is not Verdict.NO_WORSE


@pytest.mark.parametrize("size", [20, 50, 100, 300])
@pytest.mark.parametrize("side", [0, -1])
def test_a_candidate_at_the_margin_is_rarely_no_worse(size, side):
    ended, _ = exact(Registration(size, side=side), 0.45, 0.45)
    assert ended[Verdict.NO_WORSE] <= (0.05 if side else 0.025)


def test_a_gate_is_not_futile_while_no_worse_may_come():
    run = Registration(100, side=-1)
    score = np.tile([1.0, -1.0], 50)
    with_margin, without = stopped_after(score, run, 0.45)[0], stopped_after(score, run)[0]
    assert with_margin > without


# Missing verdicts.


def test_a_missing_verdict_is_no_tie():
    run = Registration(20, looks=1)
    score = scores(13, 5)
    missing = registered_claim(np.append(score, [NAN, NAN]), run)
    tied = registered_claim(np.append(score, [0.0, 0.0]), run)
    assert missing.win_rate == pytest.approx(13 / 18)
    assert tied.win_rate == pytest.approx(14 / 20)
    assert (missing.n_prompts, tied.n_prompts) == (18, 20)
    assert missing.verdict is tied.verdict
    assert missing.high - missing.low > tied.high - tied.low


def test_missing_verdicts_count_for_the_size():
    run = Registration(100)
    score = np.tile([1.0, NAN], 50)
    end, found = stopped_after(score, run)
    assert found.look.size == 100
    assert found.n_prompts == end / 2
    assert found.verdict is Verdict.BETTER
    nothing = np.full(100, NAN)
    assert registered_claim(nothing[:60], run).verdict is Verdict.OPEN
    assert registered_claim(nothing, run).verdict is Verdict.CANNOT_TELL


def test_the_error_is_exact_whatever_is_missing():
    """Over all signs of the scores that there are."""
    present = np.array([1, 0.5, NAN, 1, 1, NAN, 0.5, 1, 1, 0, 1, 1])
    for run in (Registration(12), Registration(12, side=-1), Registration(12, side=1)):
        verdicts = [
            registered_claim(present * signs, run).verdict
            for signs in itertools.product((-1, 1), repeat=12)
            if all(one == 1 for one, p in zip(signs, present, strict=True) if not abs(p) > 0)
        ]
        for verdict in (Verdict.BETTER, Verdict.WORSE):
            assert np.mean([one is verdict for one in verdicts]) <= run.alpha


def test_scores_between_the_grid_agree_with_their_intervals():
    rng = np.random.default_rng(4)
    for seed in range(60):
        run = Registration(30, side=(0, 1, -1)[seed % 3])
        score = (rng.uniform(-1, 1, 30) + rng.normal(0, 0.4)).clip(-1, 1)
        found = registered_claim(score, run, 0.45)
        assert found.is_decided == (found.low > 0.5 or found.high < 0.5)
        assert found.low - 1 / GRID <= found.win_rate <= found.high + 1 / GRID


def test_a_family_asks_for_more():
    score = scores(34, 16)
    assert registered_claim(score, Registration(50)).verdict is Verdict.BETTER
    found = registered_claim(score, Registration(50, family=10))
    assert isinstance(found, Claim)
    assert not found.is_decided
    assert found.low < registered_claim(score, Registration(50)).low
    one = Registration(50)
    assert size_to_detect(0.65, family=4) > size_to_detect(0.65)
    assert detectable(replace(one, family=4)) > detectable(one)


# Simulations: ties, scores of all sizes, two judges.


@pytest.mark.slow
@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_equal_drafts_rarely_fail_a_gate(gate):
    found = simulate_gate(gate, 200, seed=7)
    sizes = [found[key] for key in ("20", "50", "100", "200")]
    assert max(sizes) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 200)
    assert found["all"] <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 800)
    assert found.get("apart", 0.0) <= 0.03 + 2 * math.sqrt(0.25 / 200)
    assert found.get("margin", 0.0) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 200)
