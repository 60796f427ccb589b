"""A judge is measured against people's labels and votes, and against itself."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from arena.calls.models import Call
from arena.models import Comparison, Vote
from arena.services.runs import cancel_run, order_run
from judges.models import Calibration, Epoch, Judgement
from judges.services.calibration import measure_arena, measure_labels
from judges.services.label_runs import order_label_run
from judges.services.registry import JudgeError, spec_named
from judges.services.trust import problems_of, trust_places
from judges.services.voted_pairs import order_of_voted
from tests.factories import make_arena, make_person
from tests.judges.fake_server import FakeServer, better_is, completion, nonce_of, prefers, says
from tests.judges.helpers import (
    LOCAL,
    ask_about,
    epoch_of,
    issue_pair,
    order,
    pair_row,
    store_labels,
    vote_on,
    work_off,
)

pytestmark = pytest.mark.django_db


def measured(epoch: Any, labels_in: Any, everywhere: bool = False) -> Calibration:
    return measure_labels(
        epoch=epoch, labels_in=labels_in, now=timezone.now(), everywhere=everywhere
    )


def test_a_judge_that_agrees_with_people_is_trusted(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = prefers("GOOD")
    labels_in, epoch = store_labels(tmp_path, [pair_row(i) for i in range(40)]), epoch_of()
    ask_about(epoch, labels_in)
    report = measured(epoch, labels_in, everywhere=True).report
    assert report["states"]["voted"] == 40
    assert report["against_all"]["decisive"]["value"] == 1
    assert report["against_all"]["decisive"]["n"] == 40
    assert report["by_length"]["value"] == 0.5
    assert (report["against_length"]["value"], report["undecided"]) == (1, 0)
    assert (report["flips"]["value"], report["first_position"]["value"]) == (0, 0.5)
    epoch.rater.refresh_from_db()
    assert epoch.rater.trusted_at is not None


def test_position_biased_judge_abstains_and_is_not_trusted(
    tmp_path: Path, local: FakeServer
) -> None:
    local.otherwise = better_is("A")
    labels_in, epoch = store_labels(tmp_path, [pair_row(i) for i in range(10)]), epoch_of()
    ask_about(epoch, labels_in)
    calibration = measured(epoch, labels_in)
    assert calibration.report["states"]["abstained"] == 10
    assert calibration.report["first_position"]["value"] == 1
    assert calibration.report["against_all"]["decisive"]["value"] is None
    assert not calibration.trusted
    epoch.rater.refresh_from_db()
    assert epoch.rater.trusted_at is None


def test_states_without_a_verdict_are_no_ties(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = says("I would rather not say.")
    labels_in, epoch = store_labels(tmp_path, [pair_row(i) for i in range(3)]), epoch_of()
    ask_about(epoch, labels_in)
    report = measured(epoch, labels_in).report
    assert report["states"]["unreadable"] + report["states"]["refused"] == 3
    assert report["undecided"] == 3
    assert report["money"]["cost_per_verdict"] is None


def test_several_samples_of_one_item_are_repeats(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = prefers("GOOD")
    labels_in, epoch = store_labels(tmp_path, [pair_row(i) for i in range(6)]), epoch_of()
    ask_about(epoch, labels_in, samples=(0, 1, 2))
    report = measured(epoch, labels_in).report
    assert (report["repeats"]["value"], report["repeats"]["n_values"]) == (1, 18)
    assert report["n_items"] == 6
    assert report["money"]["calls"] == 36


def test_what_was_asked_is_not_retried(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = prefers("GOOD")
    labels_in, epoch = store_labels(tmp_path, [pair_row(i) for i in range(4)]), epoch_of()
    ask_about(epoch, labels_in)
    assert ask_about(epoch, labels_in) == []
    ask_about(epoch, labels_in, samples=(0, 1))
    assert Call.objects.count() == len(local.requests) == 16


def test_what_a_cancelled_run_left_is_asked_by_the_next(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = prefers("GOOD")
    labels_in, epoch = store_labels(tmp_path, [pair_row(i) for i in range(4)]), epoch_of()
    items = list(labels_in.items.all())
    run = order_label_run(epoch=epoch, items=items, cap=None, now=timezone.now())
    cancel_run(run_id=run.pk, now=timezone.now())
    (then,) = ask_about(epoch, labels_in)
    assert (then.state, then.votes_wanted) == ("done", 4)
    states = set(Judgement.objects.values_list("run", "state"))
    assert states == {(run.pk, "cancelled"), (then.pk, "voted")}


def test_without_any_verdict_there_is_nothing_to_measure(tmp_path: Path, local: FakeServer) -> None:
    labels_in = store_labels(tmp_path, [pair_row(0)])
    with pytest.raises(JudgeError, match="nothing to measure"):
        measured(epoch_of(), labels_in)
    assert not Calibration.objects.exists()


def test_the_newest_measurement_decides_on_trust(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = prefers("GOOD")
    epoch = epoch_of()
    good = store_labels(tmp_path, [pair_row(i) for i in range(40)])
    ask_about(epoch, good)
    assert measured(epoch, good).trusted
    turned = {"1": "2", "2": "1"}
    rows = [pair_row(i) for i in range(40)]
    wrong = store_labels(tmp_path, [row | {"label": turned[row["label"]]} for row in rows])
    ask_about(epoch, wrong)
    assert not measured(epoch, wrong).trusted
    epoch.rater.refresh_from_db()
    assert epoch.rater.trusted_at is None


def test_labels_alone_give_a_figure_but_no_trust(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = prefers("GOOD")
    labels_in, epoch = store_labels(tmp_path, [pair_row(i) for i in range(40)]), epoch_of()
    ask_about(epoch, labels_in)
    assert measured(epoch, labels_in).trusted
    epoch.rater.refresh_from_db()
    assert epoch.rater.trusted_at is None
    (problem,) = problems_of(trust_places(epoch))
    assert "It passed on labels from outside any arena." in problem


def test_trust_in_an_arena_is_decided_there(tmp_path: Path, local: FakeServer) -> None:
    """Trust that was earned elsewhere does not override a refusal."""
    local.otherwise = prefers("GOOD")
    labels_in, epoch = store_labels(tmp_path, [pair_row(i) for i in range(40)]), epoch_of()
    ask_about(epoch, labels_in)
    here, there = make_arena(2, 1), make_arena(2, 1)
    for number, (arena, trusted) in enumerate([(here, False), (there, True)]):
        Calibration.objects.create(
            epoch=epoch,
            arena=arena,
            kind="pairs",
            report={"trust": {"trusted": trusted, "reasons": ["It is often wrong here."]}},
            trusted=trusted,
            made_at=timezone.now() - timedelta(days=number),
        )
    measured(epoch, labels_in, everywhere=True)
    assert dict(epoch.rater.trust.values_list("arena", "trusted")) == {
        here.pk: False,
        there.pk: True,
    }
    everywhere, *arenas = trust_places(epoch)
    assert everywhere.is_trusted
    assert {place.arena: place.problems for place in arenas} == {
        here: ("It is often wrong here.",),
        there: (),
    }


def test_categories_are_judged_on_their_own(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = prefers("GOOD")
    turned = {"1": "2", "2": "1"}
    rows = [pair_row(i, category="code") for i in range(40)]
    rows += [pair_row(i, category="few") for i in range(40, 45)]
    rows += [
        row | {"label": turned[row["label"]]}
        for row in (pair_row(i, category="poems") for i in range(50, 90))
    ]
    labels_in, epoch = store_labels(tmp_path, rows), epoch_of()
    ask_about(epoch, labels_in)
    categories = measured(epoch, labels_in).report["trust"]["categories"]
    assert [(one["category"], one["n_items"], one["trusted"]) for one in categories] == [
        ("code", 40, True),
        ("poems", 40, False),
    ]


def test_the_same_model_under_another_rubric_stands_beside_it(
    tmp_path: Path, local: FakeServer
) -> None:
    rows = [pair_row(i, reference=f"It turns, {i}.") for i in range(12)]
    labels_in = store_labels(tmp_path, rows)
    plain, informed, direct = (
        epoch_of(),
        epoch_of(f"{LOCAL}@pairwise-reference"),
        epoch_of(f"{LOCAL}@score-1-4"),
    )
    local.otherwise = better_is("TIE")
    ask_about(plain, labels_in)
    local.otherwise = prefers("GOOD")
    ask_about(informed, labels_in)
    (row,) = measured(informed, labels_in).report["setups"]
    assert row["what"] == "Reference"
    assert (row["first"]["with_ties"]["value"], row["second"]["with_ties"]["value"]) == (1, 0)
    local.otherwise = scores_by("GOOD")
    ask_about(direct, labels_in)
    report = measured(plain, labels_in).report
    assert {row["what"] for row in report["setups"]} == {"Reference", "Protocol"}
    scored = measured(direct, labels_in).report
    assert scored["against_all"]["decisive"]["value"] == 1
    assert scored["flips"]["value"] is None
    both = [direct.judge_id, plain.judge_id]  # scores first, whichever was measured
    for rows in (report["setups"], scored["setups"]):
        (row,) = (row for row in rows if row["judges"] == both)
        accuracies = [row[place]["without_ties"]["value"] for place in ("first", "second")]
        assert (row["difference"]["value"], *accuracies) == (1, 1, 0)


def scores_by(sign: str) -> Any:
    """A judge that gives the best score to an answer with `sign`, else the worst."""

    def answer(body: dict[str, Any]) -> Any:
        shown = body["messages"][-1]["content"].split("<answer-a", 1)[-1].split("</answer-a", 1)[0]
        return completion(f"Reasons.\nVERDICT-{nonce_of(body)}: {4 if sign in shown else 1}")

    return answer


def test_people_s_votes_are_measured_whatever_side_they_saw(local: FakeServer) -> None:
    arena = make_arena(2, 8)
    local.otherwise = prefers("-0 of")  # the first candidate's answers
    ann, bob = make_person(), make_person()
    for number in range(8):
        vote_on(issue_pair(arena, ann, number), ann, "left")
        vote_on(issue_pair(arena, bob, number, turned=True), bob, "right" if number else "tie")
    spec, epoch = spec_named(LOCAL), epoch_of()
    wanted = order_of_voted(arena=arena, spec=spec, epoch=epoch, limit=None, seed="0")
    assert wanted is not None
    work_off(order_run(order=wanted, cap=None, now=timezone.now()))
    report = measure_arena(epoch=epoch, arena=arena, now=timezone.now()).report
    assert (report["n_items"], report["n_labels"], report["not_asked"]) == (8, 16, 0)
    assert report["against_all"]["decisive"]["value"] == 1
    assert report["against_all"]["three_way"]["value"] == 15 / 16
    assert report["people"]["three_way"]["value"] == 7 / 8
    assert report["first_position"]["value"] == 0.5
    assert report["transitivity_per_prompt"]["triads"] == 0
    assert order_of_voted(arena=arena, spec=spec, epoch=epoch, limit=None, seed="0") is None


def test_only_voted_pairs_are_ordered_and_a_limit_draws_by_seed(local: FakeServer) -> None:
    arena = make_arena(3, 8)
    ann = make_person()
    for number in range(6):
        vote_on(issue_pair(arena, ann, number), ann, "left")
    chosen = {"arena": arena, "spec": spec_named(LOCAL), "epoch": None}
    whole = order_of_voted(**chosen, limit=None, seed="0")
    assert whole is not None
    assert len(whole.picks) == 6
    assert sum(whole.shares.values()) == pytest.approx(1)
    some = order_of_voted(**chosen, limit=3, seed="0")
    again = order_of_voted(**chosen, limit=3, seed="0")
    assert some is not None
    assert again is not None
    assert some.picks == again.picks
    assert len(some.picks) == 3


def test_an_answer_of_its_own_family_is_marked(local: FakeServer) -> None:
    arena = make_arena(2, 6)
    arena.candidates.filter(name="candidate-0").update(model="judge-7b-2024")
    ann = make_person()
    for number in range(6):
        vote_on(issue_pair(arena, ann, number), ann, "right")
    spec, epoch = spec_named(LOCAL), epoch_of()
    assert order_of_voted(arena=arena, spec=spec, epoch=epoch, limit=None, seed="0") is None
    local.otherwise = prefers("-0 of")
    work_off(order(arena, LOCAL, per_pair=6, own_family=True))
    report = measure_arena(epoch=epoch, arena=arena, now=timezone.now()).report
    assert report["own_family"]["judge"]["value"] == 1
    assert report["own_family"]["people"]["value"] == 0


@pytest.mark.parametrize(
    ("beats", "transitive"),
    [({(0, 1), (1, 2), (0, 2)}, 1), ({(0, 1), (1, 2), (2, 0)}, 0)],
)
def test_contradictions_among_three_candidates_are_counted(
    local: FakeServer, beats: set[tuple[int, int]], transitive: int
) -> None:
    arena, ann = make_arena(3, 4), make_person()
    vote_on(issue_pair(arena, ann, 0), ann, "left")
    run = work_off(order(arena, LOCAL, per_pair=4))
    place = {pk: i for i, pk in enumerate(arena.candidates.order_by("pk").values_list(flat=True))}
    for judgement in run.judgements.select_related("comparison"):
        comparison = judgement.comparison
        sides = (place[comparison.left_id], place[comparison.right_id])
        vote_on(comparison, epoch_of().rater, "left" if sides in beats else "right")
    report = measure_arena(epoch=epoch_of(), arena=arena, now=timezone.now()).report
    assert report["transitivity_per_prompt"] == {
        "triads": 4,
        "transitive": 4 * transitive,
        "share": transitive,
    }


def test_it_is_known_which_votes_would_show_that_a_judge_goes_by_more_than_length(
    local: FakeServer,
) -> None:
    """The judge prefers the first candidate, whose answers are the shorter ones."""
    arena, ann = make_arena(3, 6), make_person()
    first, second, _ = arena.candidates.order_by("pk")
    for response in second.responses.all():
        response.text += " It goes on."
        response.save()
    local.otherwise = prefers("-0 of")
    vote_on(issue_pair(arena, ann, 0), ann, "left")
    work_off(order(arena, LOCAL, per_pair=6))
    report = measure_arena(epoch=epoch_of(), arena=arena, now=timezone.now()).report
    pairs = {(low, high): n for low, high, n in report["to_label"]}
    assert pairs == {(first.pk, second.pk): 5}  # on one of six prompts Ann voted


def test_a_jury_is_measured_by_what_it_decided() -> None:
    arena, ann = make_arena(3, 6), make_person()
    run = work_off(order(arena, "scripted:scripted-1", "scripted:scripted-2", per_pair=6))
    decided = run.jury_verdicts.filter(state="voted").select_related("comparison__prompt")
    for verdict in decided:
        said = Vote.objects.get(comparison=verdict.comparison).outcome
        one = verdict.comparison
        again = Comparison.objects.create(
            arena=arena, rater=ann, prompt=one.prompt, left=one.left, right=one.right,
            left_response=one.left_response, right_response=one.right_response,
        )  # fmt: skip
        vote_on(again, ann, said)
    jury = Epoch.objects.get(judge__protocol="jury")
    report = measure_arena(epoch=jury, arena=arena, now=timezone.now()).report
    assert report["n_items"] == decided.count()
    assert report["against_all"]["three_way"]["value"] == 1
    assert report["money"]["verdicts"] > decided.count()


def test_first_shown_answer_is_known_whatever_its_side(local: FakeServer) -> None:
    arena, ann = make_arena(2, 8), make_person()
    for number in range(8):
        vote_on(issue_pair(arena, ann, number), ann, "left")
    local.otherwise = better_is("A")
    run = work_off(order(arena, LOCAL, per_pair=8))
    sides = {one.comparison.left_id for one in run.judgements.select_related("comparison")}
    assert len(sides) == 2
    report = measure_arena(epoch=epoch_of(), arena=arena, now=timezone.now()).report
    assert (report["first_position"]["value"], report["flips"]["value"]) == (1, 1)
