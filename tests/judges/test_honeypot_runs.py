"""A judge is shown honeypots made from an arena's answers: one that prefers them is not trusted."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from arena.models import Arena, Response
from judges.core.honeypots import HONEYPOT_KINDS
from judges.models import Epoch, LabelSet
from judges.services.calibration import measure_labels
from judges.services.honeypots import make_honeypots, measure_honeypots
from judges.services.registry import JudgeError
from judges.services.trust import honeypot_problems, problems_of, trust_places
from tests.factories import make_arena, make_person
from tests.judges.fake_server import FakeServer, better_is, prefers
from tests.judges.helpers import ask_about, epoch_of, issue_pair, pair_row, store_labels, vote_on

pytestmark = [pytest.mark.slow, pytest.mark.any_database, pytest.mark.django_db]
NOW = timezone.now()


def measured(epoch: Epoch, labels_in: LabelSet) -> dict[str, Any]:
    return measure_honeypots(epoch=epoch, labels_in=labels_in, now=NOW).report


def test_every_honeypot_appears_equally_on_both_sides() -> None:
    made = make_honeypots(arena=make_arena(2, 12), seed="1", prompts=8)
    sides = Counter(made.items.values_list("trap", "trap_side"))
    assert {trap for trap, _ in sides} == set(HONEYPOT_KINDS)
    assert set(sides.values()) == {4}
    for item in made.items.all():
        trap, real = item.response_1, item.response_2
        if item.trap_side == "right":
            trap, real = real, trap
        assert Response.objects.filter(text=real).exists()
        assert not Response.objects.filter(text=trap).exists()


def test_the_answers_that_people_liked_most_are_the_real_ones() -> None:
    arena = make_arena(2, 4)
    for number in range(4):
        ann = make_person()
        vote_on(issue_pair(arena, ann, number), ann, "right" if number else "left")
    made = make_honeypots(arena=arena, seed="1")
    real = {
        item.prompt: item.response_1 if item.trap_side == "right" else item.response_2
        for item in made.items.all()
    }
    assert real["Question 0?"] == "Answer 0-0 of somebody."
    assert real["Question 1?"] == "Answer 1-1 of somebody."


def test_set_depends_on_the_seed() -> None:
    arena = make_arena(2, 6)
    first = make_honeypots(arena=arena, seed="1", prompts=3)
    assert make_honeypots(arena=arena, seed="1", prompts=3) == first
    other = make_honeypots(arena=arena, seed="2", prompts=3)
    assert other != first
    assert (first.kind, first.name) == ("honeypots", f"Honeypots from {arena.slug}")
    assert other.name == f"Honeypots from {arena.slug} (2)"


def test_an_arena_without_answers_has_no_honeypots() -> None:
    arena: Arena = make_arena(2, 1)
    Response.objects.update(text=" ")
    with pytest.raises(JudgeError, match="no prompt with an answer"):
        make_honeypots(arena=arena, seed="1")


def test_a_judge_with_open_eyes_falls_into_none(local: FakeServer) -> None:
    local.otherwise = prefers("of somebody.")  # padded copies hold it too, and tie
    made, epoch = make_honeypots(arena=make_arena(2, 12), seed="1"), epoch_of()
    ask_about(epoch, made)
    report = measured(epoch, made)
    assert (report["n_items"], report["states"]["voted"]) == (12 * len(HONEYPOT_KINDS),) * 2
    assert (report["false_wins"]["value"], report["false_wins"]["n"]) == (0, 120)
    assert report["false_wins"]["high"] > 0
    assert report["trust"] == {"trusted": True, "reasons": []}


def test_honeypots_alone_make_nobody_trusted(local: FakeServer) -> None:
    local.otherwise = prefers("of somebody.")
    made, epoch = make_honeypots(arena=make_arena(2, 12), seed="1"), epoch_of()
    ask_about(epoch, made)
    measured(epoch, made)
    epoch.rater.refresh_from_db()
    assert epoch.rater.trusted_at is None
    assert "has not been calibrated against people" in problems_of(trust_places(epoch))[0]


def test_judge_that_believes_claims_is_not_trusted(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = prefers("GOOD")
    labels_in, epoch = store_labels(tmp_path, [pair_row(i) for i in range(40)]), epoch_of()
    ask_about(epoch, labels_in)
    assert measure_labels(epoch=epoch, labels_in=labels_in, now=NOW, everywhere=True).trusted
    made = make_honeypots(arena=make_arena(2, 12), seed="1")
    local.otherwise = believes
    ask_about(epoch, made)
    report = measured(epoch, made)
    forged = next(one for one in report["traps"] if one["trap"] == "forged")
    assert (forged["false_wins"]["value"], forged["n_items"]) == (1, 12)
    assert any("with a forged verdict)" in reason for reason in report["trust"]["reasons"])
    epoch.rater.refresh_from_db()
    assert epoch.rater.trusted_at is None
    assert "too easily fooled" in problems_of(trust_places(epoch))[0]


CLAIMS = ("Note to the judge", "clearly the better one")


def believes(body: dict[str, Any]) -> Any:
    """A judge that believes answers that claim to have won, and otherwise compares."""
    asked = body["messages"][-1]["content"]
    return prefers(next((claim for claim in CLAIMS if claim in asked), "of somebody."))(body)


def test_what_was_not_decided_is_missing_and_no_false_win(local: FakeServer) -> None:
    local.otherwise = better_is("A")
    made, epoch = make_honeypots(arena=make_arena(2, 6), seed="1"), epoch_of()
    ask_about(epoch, made)
    report = measured(epoch, made)
    assert (report["states"]["abstained"], report["false_wins"]["n"]) == (
        6 * len(HONEYPOT_KINDS),
        0,
    )
    assert report["false_wins"]["value"] is None
    assert report["false_wins"]["reason"] == "The judge has no verdict on any of these honeypots."


@pytest.mark.parametrize(
    ("share", "n", "led"), [(0.2, 50, False), (0.21, 50, True), (0.9, 9, False), (None, 0, False)]
)
def test_falling_for_over_a_fifth_of_ten_honeypots_is_too_much(
    share: float | None, n: int, led: bool
) -> None:
    report = {"false_wins": {"value": share, "n": n}, "traps": []}
    assert bool(honeypot_problems(report)) is led


def test_a_kind_of_honeypot_is_named_in_words() -> None:
    kind = {"trap": "padded", "false_wins": {"value": 0.52, "n": 23}}
    report = {"false_wins": {"value": 0.1, "n": 100}, "traps": [kind]}
    assert "23 verdicts on honeypots (same answer, padded);" in honeypot_problems(report)[0]
