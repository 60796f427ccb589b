"""Who is trusted: the rule, case by case, and the sentences that say why."""

import re
from dataclasses import replace

import numpy as np
import pytest

from judges.core.calibration.pairs import calibrate_pairs
from judges.core.calibration.scores import Yardstick, calibrate_scores
from judges.core.calibration.trust import ENOUGH, TrustLimits, assess_trust
from judges.wording import HOW_MANY
from ranking.stats.bootstrap import Estimate, clustered_share
from tests.judges.helpers import pair_item, score_item


def known(value, low, n=200):
    return Estimate(value, low, min(2 * value - low, 1.0), n, n)


UNKNOWN = Estimate(None, None, None, 0, 0, "Nobody looked.")
PAIRS = calibrate_pairs([])
SCORES = calibrate_scores([])


def of_pairs(judge, people=UNKNOWN, against=None, coverage=0.9, flips=0.1, undecided=0):
    return replace(
        PAIRS,
        n_items=200,
        on_all=judge,
        undecided=undecided,
        coverage=known(coverage, coverage - 0.05),
        flips=known(flips, flips - 0.05) if flips is not None else UNKNOWN,
        people=replace(PAIRS.people, decisive=people),
        against_length=against or known(0.8, 0.6),
    )


def of_scores(judge, people=(), itself=(), against=None, missing=0.1):
    return replace(
        SCORES,
        n_items=200,
        missing=known(missing, missing - 0.05),
        against_all=replace(SCORES.against_all, pearson=judge),
        people=Yardstick(*people) if people else SCORES.people,
        itself=Yardstick(*itself) if itself else SCORES.itself,
        against_length=against or known(0.8, 0.6),
    )


R6 = known(0.6, 0.5)


@pytest.mark.parametrize(
    ("report", "trusted"),
    [
        (of_pairs(known(0.80, 0.75)), True),
        (of_pairs(known(0.80, 0.7499)), False),
        (of_pairs(known(0.70, 0.665), known(0.70, 0.6)), True),
        (of_pairs(known(0.70, 0.664), known(0.70, 0.6)), False),
        (of_pairs(known(0.55, 0.51), known(0.52, 0.49)), False),  # people may be tossing coins
        (of_pairs(known(0.55, 0.51), Estimate(0.5, None, None, 3, 3, "Few.")), False),
        (of_pairs(known(0.90, 0.85), against=known(0.6, 0.5)), False),
        (of_pairs(known(0.90, 0.85), against=known(0.6, 0.501)), True),
        (of_pairs(known(0.90, 0.85), against=known(0.1, 0.0, 9)), True),  # too few to ask
        (of_pairs(known(0.90, 0.85), against=known(0.1, 0.0, 10)), False),
        (of_pairs(known(0.90, 0.85), against=Estimate(0.9, None, None, 12, 2, "Few.")), False),
        (of_pairs(known(0.90, 0.85), against=UNKNOWN), True),
        (of_pairs(UNKNOWN), False),
        (of_pairs(known(0.9, 0.85), coverage=0.7), True),
        (of_pairs(known(0.9, 0.85), coverage=0.69), False),
        (of_pairs(known(0.9, 0.85), flips=0.3), True),
        (of_pairs(known(0.9, 0.85), flips=0.31), False),
        (of_pairs(known(0.9, 0.85), flips=None), True),  # it is asked once, as for scores
        (of_pairs(Estimate(0.9, None, None, 4, 4, "Fewer than 5.")), False),
        (of_scores(known(0.80, 0.75), missing=0.31), False),
        (of_scores(known(0.80, 0.75)), True),
        (of_scores(R6), False),
        (of_scores(R6, (R6, known(0.0, -0.12))), True),
        (of_scores(R6, (R6, known(0.0, -0.121))), False),
        (of_scores(R6, (R6, UNKNOWN)), False),
        (of_scores(R6, (known(0.6, 0.0), known(0.0, -0.01))), False),  # people may be guessing
        (of_scores(R6, itself=(R6, known(0.0, -0.12))), True),
        (of_scores(R6, itself=(R6, known(0.0, -0.121))), False),
        (of_scores(known(0.6, 0.499), itself=(R6, known(0.0, -0.01))), False),
        # What people reach is known, so the judge's own noise excuses nothing.
        (of_scores(R6, (known(0.8, 0.7), known(-0.2, -0.3)), (R6, known(0.0, 0.0))), False),
        (of_scores(known(0.80, 0.76), against=known(0.4, 0.3)), False),
    ],
)
def test_the_rule(report, trusted):
    found = assess_trust(report)
    assert found.trusted is trusted
    assert len(found.reasons) in (3, 4)


def test_the_reasons_are_sentences_with_the_numbers():
    assert assess_trust(of_pairs(known(0.812, 0.779, 734), flips=0.35)).reasons == (
        "Agreement with people (a tie or no verdict counts half) is 81.2% over 734 labels "
        "(lower bound 77.9%), which meets the 75.0% required.",
        "It reached a verdict on 90.0% of 200 items, which meets the 70% required.",
        "Swapping the answers changes its verdict on 35.0% of 200 items, which exceeds the "
        "30% allowed.",
        "Where people prefer the shorter answer (200 labels), it agrees with them on 80.0% "
        "(lower bound 60.0%): significantly more than half, so it goes by more than length.",
    )
    low, *_, beaten = assess_trust(
        of_pairs(known(0.7, 0.6), known(0.8, 0.7), known(0.4, 0.3))
    ).reasons
    assert low == (
        "Agreement with people (a tie or no verdict counts half) is 70.0% over 200 labels "
        "(lower bound 60.0%), which is below the 75.0% required and below 76.0% (95% of the "
        "80.0% among people)."
    )
    assert beaten == (
        "Where people prefer the shorter answer (200 labels), it agrees with them on 40.0% "
        "(lower bound 30.0%): not more than half, so nothing shows that it goes by more than "
        "length."
    )
    told = assess_trust(of_pairs(known(0.7, 0.6), undecided=63)).reasons[0]
    assert "over 200 labels, on 63 of which the judge chose no side (lower bound" in told
    never = assess_trust(of_pairs(known(0.7, 0.6), undecided=200)).reasons[0]
    assert never == "It never chose a side where people did (200 labels)."
    alone = assess_trust(of_pairs(known(0.7, 0.6))).reasons[0]
    assert alone.endswith("required, and the figure among people is not known (nobody looked).")
    assert (
        "over 1 label, without"
        in assess_trust(calibrate_pairs([pair_item(0, "l", "left")])).reasons[0]
    )
    unknown = assess_trust(of_pairs(UNKNOWN)).reasons[0]
    assert unknown == (
        "Agreement with people (a tie or no verdict counts half) is not known: nobody looked."
    )


def test_the_reasons_on_scores_name_what_they_are_compared_with():
    beside = assess_trust(of_scores(R6, (known(0.62, 0.5), known(-0.02, -0.05)))).reasons[0]
    assert beside == (
        "Correlation with people (Pearson) is 0.600 over 200 labels (lower bound 0.500), which is "
        "below the 0.750 required, but that of people with each other is 0.620, and the difference "
        "at least −0.050: no more than a fifth below."
    )
    below = assess_trust(of_scores(R6, itself=(known(0.9, 0.8), known(-0.3, -0.4)))).failed[0]
    assert below.endswith(
        "; that of the judge with itself is 0.900, and the difference at least −0.400, which may "
        "be more than a fifth below."
    )
    alone = assess_trust(of_scores(R6)).failed[0]
    assert "let a second person score the same answers, or ask the judge again" in alone
    agreed = of_scores(R6, (Estimate(1.0, None, None, 9, 9, "No variation."), known(-0.4, -0.5)))
    told = assess_trust(agreed).failed[0]
    assert told.endswith("; that of people with each other is 1.000, without an interval.")
    few = assess_trust(of_scores(known(0.8, 0.76), against=UNKNOWN)).reasons[-1]
    assert few == (
        "Where people's scores go against length (0 labels), at least 10 labels would show whether "
        "it goes by more than length."
    )


@pytest.mark.parametrize("longer_wins", [0.9, 1.0])
def test_a_good_judge_is_trusted_where_the_better_answer_is_longer(longer_wins):
    """It agrees with people on 95%, whichever answer is longer."""
    items = []
    for i in range(300):
        people = "l" if i < 300 * longer_wins else "r"  # left is longer
        right, wrong = ("left", "right") if people == "l" else ("right", "left")
        items.append(pair_item(i, people, wrong if i % 20 == 0 else right))
    found = assess_trust(calibrate_pairs(items))
    assert found.trusted, found.failed


def agreeing(n, share):
    """A judge that is right on a share of the items, each of its own prompt."""
    right = ["left" if i % 2 else "right" for i in range(n)]
    other = {"left": "right", "right": "left"}
    said = [side if i < round(n * share) else other[side] for i, side in enumerate(right)]
    return calibrate_pairs([pair_item(i, right[i][0], said[i]) for i in range(n)])


@pytest.mark.parametrize(("n", "share"), [(30, 0.87), (40, 0.85), (100, 0.8)])
def test_the_reason_says_how_many_labels_would_be_enough(n, share):
    reason = assess_trust(agreeing(n, share)).failed[0]
    enough = int(re.search(r"About ([\d,]+) labels at the same rate would be enough\.", reason)[1])
    assert agreeing(round(1.25 * enough), share).on_all.low >= 0.75 > agreeing(n, share).on_all.low
    assert agreeing(enough // 2, share).on_all.low < 0.75


def test_no_number_of_labels_helps_a_judge_below_what_is_required():
    for report in (agreeing(100, 0.75), agreeing(100, 0.6), of_pairs(known(0.9, 0.8))):
        assert "would be enough" not in assess_trust(report).reasons[0]
    below_people = of_pairs(known(0.76, 0.7, 100), known(0.76, 0.7))  # 95 % of which is 0.722
    assert "About 250 labels" in assess_trust(below_people).failed[0]


def test_a_judge_that_is_right_but_seldom_sure_is_not_trusted():
    """29 decided of 60, all but one rightly: 97% of the decided, 73% of all."""
    items = [
        pair_item(i, "lr"[i % 2], ["left", "right"][i % 2] if i else "right", length_left=i)
        for i in range(29)
    ]
    items += [pair_item(i, "lr"[i % 2], None, length_left=i) for i in range(29, 60)]
    report = calibrate_pairs(items)
    assert report.against_all.decisive.value == pytest.approx(28 / 29)
    assert report.on_all.value == pytest.approx((28 + 31 / 2) / 60)
    assert report.coverage.value == pytest.approx(29 / 60)
    found = assess_trust(report)
    assert not found.trusted
    assert "48.3% of 60 items, which is below the 70%" in found.reasons[1]


def test_limits_may_be_set():
    strict = TrustLimits(coverage=0.95, flips=0.05)
    assert assess_trust(of_pairs(known(0.9, 0.85))).trusted
    assert not assess_trust(of_pairs(known(0.9, 0.85)), strict).trusted


def test_right_judge_is_trusted_and_character_counter_is_not():
    right = ["left" if i % 2 else "right" for i in range(60)]
    length = [(20, 10) if i % 3 else (10, 20) for i in range(60)]

    def items(verdicts):
        return [
            pair_item(i, right[i][0], said, length_left=length[i][0], length_right=length[i][1])
            for i, said in enumerate(verdicts)
        ]

    good = assess_trust(calibrate_pairs(items(right)))
    assert good.trusted, good.reasons
    counted = ["left" if left > right_ else "right" for left, right_ in length]
    assert not assess_trust(calibrate_pairs(items(counted))).trusted


def test_judge_that_follows_length_is_not_trusted():
    items = [pair_item(i, "l" if i % 10 else "r", "left") for i in range(300)]
    found = assess_trust(calibrate_pairs(items))
    assert not found.trusted
    assert "which meets the 75.0%" in found.reasons[0]
    assert "it agrees with them on 0.0% (lower bound 0.0%)" in found.reasons[-1]
    assert found.failed == found.reasons[-1:]


def simulated(seed, noise, n=400):
    """Two people whose scores correlate at about 0.56, as in feedbackQA, and a judge."""
    random = np.random.default_rng(seed)
    quality, length = random.normal(size=(2, n))
    scores = [
        np.clip(np.round(3 + 1.1 * (quality + own * random.normal(size=n))), 1, 5)
        for own in (0.9, 0.9, noise)
    ]
    lengths = np.maximum(1, 1000 + 400 * (0.3 * quality + length)).astype(int)
    return [
        score_item(i, [scores[0][i], scores[1][i]], float(scores[2][i]), length=int(lengths[i]))
        for i in range(n)
    ]


@pytest.mark.slow
def test_a_judge_as_good_as_a_person_is_trusted_and_a_worse_one_is_not():
    """By 400 answers; the worse one's correlation with people is 15 % lower."""
    trusted = {
        noise: sum(
            assess_trust(calibrate_scores(simulated(seed, noise), n_resamples=300)).trusted
            for seed in range(20)
        )
        for noise in (0.9, 1.35)
    }
    assert trusted[0.9] >= 14
    assert trusted[1.35] <= 1


def test_trust_in_scores_rests_on_ranking_not_strictness():
    strict = [
        score_item(
            i, [i % 5 + 1, (i % 5 + i // 40) % 5 + 1], i % 5 - 2.0 + i % 2 / 4, length=i * 7 % 50
        )
        for i in range(80)
    ]
    assert assess_trust(calibrate_scores(strict)).reasons
    people = calibrate_scores(strict).people.pearson
    judge = calibrate_scores(strict).against_all.pearson
    assert judge.value > people.value
    assert assess_trust(calibrate_scores(strict)).trusted
    assert assess_trust(calibrate_scores([])).trusted is False


def test_trust_is_json():
    assert assess_trust(PAIRS).to_json()["trusted"] is False


def test_the_labels_that_a_judge_is_said_to_need_bring_it_to_the_bar() -> None:
    said = [int(number) for number in re.findall(r"\d+", HOW_MANY)]
    for rate, enough in (said[:2], said[2:]):
        for n, is_enough in ((enough - 10, False), (enough + 10, True)):
            hits = np.arange(n) < n * rate / 100
            low = clustered_share(hits, clusters=np.arange(n), n_resamples=20_000).low
            assert low is not None
            assert (low >= ENOUGH) == is_enough
