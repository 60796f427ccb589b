"""The simulations themselves: the truth they measure against, what they count, where they write."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.simulations import __main__ as command
from benchmarks.simulations import boards, page
from benchmarks.simulations.boards import (
    simulate_coverage,
    simulate_crowd,
    simulate_leader,
    simulate_tiers,
)
from benchmarks.simulations.designs import COVERAGE, CROWDS, LEADERS, TIERED, draw, stepped
from benchmarks.simulations.prediction_powered import DESIGNS, JUDGES
from benchmarks.simulations.watching import FAMILIES, WATCHED, simulate_family, simulate_watching
from ranking.stats.bradley_terry import BradleyTerry

pytestmark = pytest.mark.slow


@pytest.fixture
def twenty_resamples(monkeypatch):
    monkeypatch.setattr(boards, "RESAMPLES", 20)


@pytest.mark.parametrize("design", [COVERAGE[0], COVERAGE[1], COVERAGE[2]], ids=lambda d: d.effect)
def test_the_truth_is_what_very_many_votes_and_prompts_say(design):
    endless = replace(design, n_votes=400_000, n_prompts=20_000)
    votes = draw(endless, np.random.default_rng(1))
    found = BradleyTerry().fit(votes.battles(clustered=False)).ratings_
    assert np.abs(found - endless.truth).max() < 3
    assert np.abs(found - 1000 - design.strength * 400 / np.log(10)).max() > 10  # ties, effects


def test_truth_is_the_limit_of_many_votes_on_the_prompts():
    votes = draw(replace(COVERAGE[4], n_votes=400_000), np.random.default_rng(1))
    found = BradleyTerry().fit(votes.battles(clustered=False)).ratings_
    assert np.abs(found - votes.truth).max() < 3
    assert np.abs(found - COVERAGE[4].truth).max() > 5


@pytest.mark.parametrize("design", COVERAGE, ids=lambda design: design.name)
def test_every_design_is_drawn_and_counted(design, twenty_resamples):
    found = simulate_coverage(design, 4, seed=1)
    assert found == simulate_coverage(design, 4, seed=1)
    assert all(0 <= share <= 1 for share in found.values())
    assert found["sandwich"] > 0.5
    assert found["least_sandwich"] <= found["sandwich"]
    assert found["marginal"] <= found["simultaneous"]


@pytest.mark.parametrize("design", CROWDS, ids=lambda design: design.name)
def test_every_crowd_is_drawn_and_counted(design, monkeypatch):
    monkeypatch.setattr(boards, "CROWD_RESAMPLES", 20)
    found = simulate_crowd(design, 4, seed=1)
    assert found == simulate_crowd(design, 4, seed=1)
    assert found["refused"] < 1
    assert 0.5 < found["difference"] <= 1
    assert found["least_bootstrap"] <= found["bootstrap"]


def test_the_truth_of_a_crowd_is_what_very_many_people_say():
    endless = replace(CROWDS[0], n_votes=400_000, n_prompts=20_000, n_raters=20_000)
    votes = draw(endless, np.random.default_rng(1))
    found = BradleyTerry().fit(votes.battles(clustered=False)).ratings_
    assert np.abs(found - endless.truth).max() < 3


def test_intervals_cover_where_raters_differ():
    found = simulate_crowd(CROWDS[0], 300, seed=3)
    assert 0.92 <= found["bootstrap"] <= 0.985
    assert 0.92 <= found["difference"] <= 0.985
    assert found["by_prompt"] < 0.7


def test_a_crowd_has_three_targets():
    found = {"bootstrap": 0.95, "difference": 0.95, "by_prompt": 0.6, "refused": 0.05}
    found |= {"least_bootstrap": 0.9, "least_difference": 0.9}
    assert page.crowd_row("x", found).missed == ()
    bad = {"bootstrap": 0.985, "difference": 0.92, "refused": 0.06}
    assert page.crowd_row("x", found | bad).missed == ("bootstrap", "difference", "refused")


@pytest.mark.parametrize("design", LEADERS, ids=lambda design: design.name)
def test_every_board_of_equals_is_drawn_and_counted(design):
    top = np.sort(design.truth)[::-1]
    assert top[0] == pytest.approx(top[1], abs=1e-6)
    found = simulate_leader(design, 4, seed=1)
    assert found["wrong"] <= found["marginal"]
    assert found["wrong"] <= 1 - found["simultaneous"]


def test_a_false_leader_is_counted():
    apart = replace(LEADERS[5], strengths=(1.0, -1.0))
    assert simulate_leader(apart, 4, seed=1)["wrong"] == 1


def test_tiers_are_counted_and_false_statements_found(monkeypatch):
    def reversed_truth(design, rng):
        votes = draw(design, rng)
        return replace(votes, truth=-votes.truth)

    apart = replace(TIERED[0], strengths=stepped(3.0))
    found = simulate_tiers(apart, 40, seed=1)
    assert found == {"drawn": 2, "known": 2, "share": 1, "wrong": 0}
    monkeypatch.setattr(boards, "draw", reversed_truth)
    assert simulate_tiers(apart, 40, seed=1)["wrong"] == 1


def test_few_groups_of_votes_have_no_target_for_tiers():
    figures = {"drawn": 0.7, "known": 1.0, "share": 0.7, "wrong": 0.05}
    assert page.tiers_row("x", figures, n_groups=40).missed == ("share",)
    assert not page.tiers_row("x", figures, n_groups=39).missed
    assert page.tiers_row("x", figures | {"wrong": 0.07}, n_groups=39).missed == ("statements",)
    assert [design.n_groups for design in TIERED] == [1200, 300, 40, 10, 50]


@pytest.mark.parametrize(
    ("truth", "held"), [((1100.0, 900.0), 1), ((900.0, 1100.0), 0), ((1000.0, 1000.0), 0)]
)
def test_ranks_hold_unless_put_before_an_equal_or_better(truth, held, monkeypatch):
    def with_truth(design, rng):
        return replace(draw(design, rng), truth=np.array(truth))

    monkeypatch.setattr(boards, "draw", with_truth)
    apart = replace(LEADERS[5], strengths=(1.0, -1.0))
    assert simulate_leader(apart, 4, seed=1)["simultaneous"] == held


FOUND = {
    "bootstrap": 0.95,
    "least_bootstrap": 0.94,
    "sandwich": 0.95,
    "least_sandwich": 0.94,
    "independent": 0.7,
    "simultaneous": 0.99,
    "marginal": 0.9,
}


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({}, ()),
        ({"bootstrap": 0.92}, ("bootstrap",)),
        ({"sandwich": 0.98}, ("sandwich",)),
        ({"simultaneous": 0.94}, ("ranks",)),
        ({"marginal": 0.5, "independent": 0.5}, ()),
    ],
)
def test_a_missed_target_is_named(change, missed):
    assert page.coverage_row("x", FOUND | change, cautious=False).missed == missed


def test_only_what_is_claimed_has_a_target():
    wide = FOUND | {"sandwich": 0.99}
    assert not page.coverage_row("x", wide, cautious=True).missed
    wrong = {"wrong": 0.06, "marginal": 0.2, "simultaneous": 0.94}
    six = page.leader_row("six", wrong, repeats=4000, claimed=True)
    assert six.missed == ("number one", "ranks")
    assert not page.leader_row("two", wrong, repeats=4000, claimed=False).missed
    near = wrong | {"wrong": 0.05, "simultaneous": 0.947}
    assert not page.leader_row("six", near, repeats=4000, claimed=True).missed


def test_pairs_follow_the_published_weights():
    by_rule = replace(CROWDS[-1], n_votes=600)  # the last candidate is new
    shown = [
        np.bincount(np.concatenate([votes.left, votes.right]), minlength=6)[5]
        for design in (by_rule, replace(by_rule, adaptive=True))
        for votes in [draw(design, np.random.default_rng(1))]
    ]
    assert shown[1] > 5 * shown[0]


def test_opposed_raters_find_equals_equal():
    design = next(d for d in WATCHED if d.opposed)
    assert draw(design, np.random.default_rng(1)).truth == pytest.approx([1000, 1000])
    named = replace(design, opposed=False)
    assert draw(named, np.random.default_rng(1)).truth != pytest.approx([1000, 1000], abs=1)


def test_every_judge_and_design_of_the_combined_board_has_words():
    assert set(page.JUDGES) == set(JUDGES)
    assert set(page.DESIGNS) == set(DESIGNS)


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({}, ()),
        ({"coverage": 0.92}, ("coverage",)),
        ({"wider": 0.01}, ("width",)),
        ({"shifted": 0.92}, ("coverage of that candidate",)),
    ],
)
def test_the_combined_board_has_three_targets(change, missed):
    found = {
        "coverage": 0.95,
        "shifted": 0.95,
        "people_coverage": 0.95,
        "width_ratio": 0.9,
        "widest_ratio": 1.0,
        "wider": 0.0,
        "left_out": 0.1,
        "mean_lambda": 0.5,
    }
    assert page.combined_row("good", "votes", found | change).missed == missed


def test_the_tables_replace_what_stands_between_the_marks(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.keep("new", path)
    page.keep("newer: 95.0%", path)
    assert path.read_text() == f"before\n{page.BEGIN}\n\nnewer: 95.0 %\n\n{page.END}\nafter\n"
    path.write_text("no marks")
    with pytest.raises(ValueError, match="must hold the lines"):
        page.keep("new", path)
    assert path.read_text() == "no marks"


@pytest.mark.parametrize(("change", "code"), [({}, 0), ({"sandwich": 0.9}, 1)])
def test_command_writes_then_fails_on_a_missed_target(change, code, tmp_path, monkeypatch, capsys):
    path = tmp_path / "page.md"
    path.write_text(f"{page.BEGIN}{page.END}")
    monkeypatch.setattr(page, "PAGE", path)
    monkeypatch.setattr(command, "ProcessPoolExecutor", ThreadPoolExecutor)
    job = replace(command.jobs(1, 1)[0], simulate=lambda *_: FOUND | change)
    later = replace(job, names=("later",), row=lambda _: page.Row(("later", "1")))
    monkeypatch.setattr(command, "jobs", lambda *_: [job, later])
    assert command.main(["coverage"]) == code
    told = capsys.readouterr()
    assert told.out.strip() in path.read_text()
    assert ("NO: sandwich" in told.out) == ("Missed" in told.err) == bool(code)
    stored = path.read_text()
    assert command.main(["coverage", "--seed", "7"]) == code
    assert capsys.readouterr().out.startswith(f"| {job.names[0]} |")
    assert path.read_text() == stored, "rows of another seed are printed only"
    monkeypatch.setattr(command, "jobs", lambda *_: [job])
    assert command.main(["watched"]) == 0, "nothing to run"


def test_a_row_that_was_not_run_again_stays(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(
        "\n| a | met |\n|---|---|\n| x | 1 | yes |\n| xy | 2 | yes |\n\n| x | 3 | yes |\n"
    )
    assert page.stored("a", ("xy",), path) == "| xy | 2 | yes |"
    assert page.stored("a", ("y",), path) == page.stored("b", ("x",), path) == ""


@pytest.mark.slow
def test_clustered_intervals_cover_where_prompts_matter():
    found = simulate_coverage(COVERAGE[2], 1000, seed=3)
    assert 0.93 <= found["bootstrap"] <= 0.97
    assert 0.93 <= found["sandwich"] <= 0.97
    assert found["independent"] < 0.9
    assert found["simultaneous"] >= 0.95


def test_watched_equals_called_different_are_counted():
    short = replace(WATCHED[0], n_votes=400)
    found = simulate_watching(short, 40, seed=1)
    assert found == simulate_watching(short, 40, seed=1)
    assert found["known"] <= 0.075 < found["interval"]
    apart = replace(short, strengths=(1.0, -1.0))
    assert simulate_watching(apart, 4, seed=1) == {"interval": 1.0, "known": 1.0}


def test_a_family_is_watched_with_all_taken_together():
    short = replace(FAMILIES[2], n_votes=500)
    found = simulate_family(short, 4, seed=1)
    assert found == simulate_family(short, 4, seed=1)
    assert found["known"] == 0
    apart = replace(FAMILIES[1], strengths=(0.0,) * 9 + (2.0,))
    assert simulate_family(apart, 2, seed=1) == {"interval": 1.0, "known": 1.0}


def test_calling_equals_different_too_often_misses_the_target():
    assert page.watched_row("x", {"known": 0.05, "interval": 0.3}).missed == ()
    assert page.watched_row("x", {"known": 0.065, "interval": 0.3}).missed == ("called better",)
