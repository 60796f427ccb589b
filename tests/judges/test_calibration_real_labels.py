"""Reports on real labels and real replies, against plain counts of the files."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from judges.core.calibration.pairs import calibrate_pairs
from judges.core.calibration.scores import calibrate_scores
from judges.core.calibration.trust import assess_trust
from tests.judges.helpers import pair_item, read_jsonl, score_item

pytestmark = pytest.mark.data
LETTERS = {"1": "l", "2": "r", "tie": "t"}


@pytest.fixture(scope="module")
def labelled(data_dir):
    return read_jsonl(data_dir / "human-labelled-pairs" / "autoj_eval.jsonl")


def items_of(rows, verdict):
    return [
        pair_item(
            i,
            LETTERS[row["label"]],
            verdict(row),
            cluster=row["prompt"],
            category=row["scenario"],
            length_left=len(row["response_1"]),
            length_right=len(row["response_2"]),
        )
        for i, row in enumerate(rows)
    ]


def plainly_longer(row):
    one, other = len(row["response_1"]), len(row["response_2"])
    return "1" if one > other else "2" if other > one else "tie"


def test_longer_wins_is_what_a_plain_count_of_the_file_says(labelled):
    met = Counter((row["label"], plainly_longer(row)) for row in labelled)
    assert sum(met.values()) == 734
    sided = sum(times for both, times in met.items() if "tie" not in both)
    hits = met["1", "1"] + met["2", "2"]
    found = calibrate_pairs(items_of(labelled, lambda _: None))
    assert (found.by_length.n, found.against_length.n) == (sided, sided - hits)
    assert found.by_length.value == pytest.approx(hits / sided)


def test_character_counter_is_not_trusted(labelled):
    said = {"1": "left", "2": "right", "tie": "tie"}
    found = calibrate_pairs(items_of(labelled, lambda row: said[plainly_longer(row)]))
    assert found.against_all.decisive == found.by_length
    assert found.against_all.decisive.n_clusters < 608
    assert (found.against_length.value, found.picks_longer.judge.value) == (0, 1)
    assert not assess_trust(found).trusted


def test_three_runs_of_a_judge_have_the_published_alphas(data_dir):
    rows = read_jsonl(data_dir / "judge-replies" / "vicuna_bench_gpt4_direct.jsonl")
    runs = [[float(value) for value in row["gpt4_scores_3_runs"]] for row in rows]
    items = [score_item(i, [], run[0], repeats=tuple(run[1:])) for i, run in enumerate(runs)]
    found = calibrate_scores(items).repeats
    alphas = [round(alpha.value, 4) for alpha in (found.nominal, found.ordinal, found.interval)]
    assert alphas == [0.5822, 0.7234, 0.8075]
    assert found.nominal.n_items == 320


def gpt4_items(rows, judge, people, repeats=()):
    """One run of GPT-4 as the judge, others as people or as the judge asked again."""
    items = []
    for number, row in enumerate(rows):
        runs = [float(value) for value in row["gpt4_scores_3_runs"]]
        prompt, rest = row["prometheus_prompt"].split("###Response to evaluate:")
        items.append(
            score_item(
                number,
                [runs[run] for run in people],
                runs[judge],
                cluster=prompt,
                length=len(rest.split("###Reference Answer")[0]),
                repeats=tuple(runs[run] for run in repeats),
            )
        )
    return items


@pytest.mark.parametrize("judge", [0, 1, 2])
def test_a_judge_is_trusted_beside_itself(data_dir, judge):
    """No run of GPT-4 correlates with another so well that the lower bound is 0.75."""
    rows = read_jsonl(data_dir / "judge-replies" / "vicuna_bench_gpt4_direct.jsonl")
    one, other = (run for run in range(3) if run != judge)
    for people, repeats in (((one, other), ()), ((one,), (other,)), ((other,), (one,))):
        report = calibrate_scores(gpt4_items(rows, judge, people, repeats))
        assert report.against_all.pearson.low < 0.75
        found = assess_trust(report)
        assert found.trusted, found.failed
    alone = assess_trust(calibrate_scores(gpt4_items(rows, judge, (one,))))
    assert "let a second person score the same answers" in alone.failed[0]


@pytest.mark.parametrize("noise", [1.5, 4.0])
def test_a_worse_judge_than_gpt4_is_not_trusted_beside_it(data_dir, noise):
    rows = read_jsonl(data_dir / "judge-replies" / "vicuna_bench_gpt4_direct.jsonl")
    random = np.random.default_rng(1)
    items = [
        replace(item, score=item.score + noise * float(random.normal()))
        for item in gpt4_items(rows, 0, (1, 2))
    ]
    assert not assess_trust(calibrate_scores(items)).trusted
