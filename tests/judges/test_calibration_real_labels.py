"""Reports on real labels and real replies, against plain counts of the files."""

from collections import Counter

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
    same = sum(times for (label, longer), times in met.items() if label == longer)
    sided = sum(times for both, times in met.items() if "tie" not in both)
    hits = met["1", "1"] + met["2", "2"]
    found = calibrate_pairs(items_of(labelled, lambda _: None)).longer
    assert (found.three_way.n, found.decisive.n) == (734, sided)
    assert found.three_way.value == pytest.approx(same / 734)
    assert found.decisive.value == pytest.approx(hits / sided)
    print(f"longer wins: {hits} of {sided} = {hits / sided:.4f}; {same} of 734 = {same / 734:.4f}")


def test_character_counter_is_not_trusted(labelled):
    said = {"1": "left", "2": "right", "tie": "tie"}
    found = calibrate_pairs(items_of(labelled, lambda row: said[plainly_longer(row)]))
    assert found.against_all.decisive == found.longer.decisive
    assert found.against_all.three_way == found.longer.three_way
    assert found.against_all.decisive.n_clusters < 608
    assert (found.longer.lift_decisive.value, found.picks_longer.judge.value) == (0, 1)
    assert not assess_trust(found).trusted


def test_one_label_per_item_cannot_say_what_people_reach(labelled):
    found = calibrate_pairs(items_of(labelled, lambda _: "left"))
    assert found.people.decisive.value is None
    assert "two people" in found.people.decisive.reason
    assert found.against_all == found.against_majority
    assert len(found.categories) == len({row["scenario"] for row in labelled})


def test_three_runs_of_a_judge_have_the_published_alphas(data_dir):
    rows = read_jsonl(data_dir / "judge-replies" / "vicuna_bench_gpt4_direct.jsonl")
    runs = [[float(value) for value in row["gpt4_scores_3_runs"]] for row in rows]
    items = [score_item(i, [], run[0], repeats=tuple(run[1:])) for i, run in enumerate(runs)]
    found = calibrate_scores(items).repeats
    alphas = [round(alpha.value, 4) for alpha in (found.nominal, found.ordinal, found.interval)]
    assert alphas == [0.5822, 0.7234, 0.8075]
    assert found.nominal.n_items == 320
