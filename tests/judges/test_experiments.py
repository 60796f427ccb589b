"""Experiments: drafts are tried, measured in registered looks, and promoted."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from arena.actors import CLI
from arena.calls.execution import execute_call
from arena.calls.models import Call
from arena.generation import AnswerHandler, reconcile_runs
from arena.models import Arena, Candidate, Run
from judges.models import Baseline, Experiment
from judges.services.experiments import (
    ExperimentError,
    Plan,
    Planned,
    advance,
    change_draft,
    create_experiment,
    promote_draft,
    start_experiment,
    stop_experiment,
    try_drafts,
)
from judges.services.measurements import measure
from ranking.stats.claim import Verdict
from tests.factories import make_arena, make_candidate
from tests.judges.fake_server import FakeServer, completion, prefers
from tests.judges.helpers import LOCAL, work_off

pytestmark = pytest.mark.django_db
WRITER = "writer-7b-2024-07-01"


def answers(body: dict[str, Any]) -> Any:
    """Writers repeat their system prompt; judges prefer what is GOOD."""
    if body["model"] == WRITER:
        system, user = body["messages"][0]["content"], body["messages"][-1]["content"]
        return completion(f"{system}: {user}")
    return prefers("GOOD")(body)


@pytest.fixture
def origin(team: Any, local: FakeServer) -> Arena:
    """A team's arena with 40 prompts, which nobody has answered yet."""
    local.otherwise = answers
    arena: Arena = make_arena(0, 40, team=team)
    make_candidate(arena, "concise", endpoint="local", model=WRITER, system_prompt="plain")
    return arena


def begin(origin: Arena, *systems: str, **fields: Any) -> Experiment:
    drafts = [{"name": f"draft {n}", "system_prompt": text} for n, text in enumerate(systems)]
    return create_experiment(
        origin=origin,
        baseline=origin.candidates.get(name="concise"),
        by=CLI,
        now=timezone.now(),
        drafts=drafts,
        **fields,
    )


def carry_out(experiment: Experiment, **plan: Any) -> Experiment:
    """Start it and take steps until it ends, with all calls made at once."""
    fields = {"judges": [LOCAL]} | plan
    start_experiment(experiment=experiment, plan=Plan(**fields), by=CLI, now=timezone.now())
    return go_on(experiment)


def go_on(experiment: Experiment) -> Experiment:
    for _ in range(30):
        advance(experiment_id=experiment.pk, now=timezone.now())
        experiment = Experiment.objects.select_related("arena__team").get(pk=experiment.pk)
        if experiment.state != Experiment.State.RUNNING:
            break
        make_calls(experiment)
    return experiment


def make_calls(experiment: Experiment) -> None:
    for run in Run.objects.filter(arena=experiment.arena).not_over().order_by("pk"):
        if run.kind == Run.Kind.JUDGE:
            work_off(run)
        elif run.kind == Run.Kind.ANSWERS:
            for pk in Call.objects.filter(run=run).in_progress().values_list("pk", flat=True):
                execute_call(call_id=pk, handler=AnswerHandler())
            reconcile_runs(now=timezone.now())


def test_a_better_draft_is_found_before_all_prompts_are_judged(origin: Arena) -> None:
    experiment = carry_out(begin(origin, "GOOD"))

    (draft,) = measure(experiment).drafts
    assert experiment.state == "done"
    assert draft.claim.verdict is Verdict.BETTER
    assert draft.looked_at < experiment.size == 40
    assert draft.tally["better"] == draft.looked_at
    judged = Run.objects.filter(arena=experiment.arena, kind="judge")
    assert sum(run.votes_done for run in judged) == draft.looked_at


def test_nothing_of_a_draft_enters_the_arena_before_it_is_promoted(origin: Arena) -> None:
    experiment = carry_out(begin(origin, "GOOD"))

    assert [candidate.name for candidate in origin.candidates.all()] == ["concise"]
    assert not origin.votes.exists()

    (draft,) = experiment.drafts
    entered = promote_draft(
        experiment=experiment, draft=draft, by=CLI, now=timezone.now(), why="It greets."
    )

    assert (entered.arena, entered.own_name) == (origin, "concise v2")
    assert entered.responses.count() == 40
    assert Baseline.objects.get(arena=origin).candidate == entered
    assert experiment.why == "It greets."


def test_equal_answers_are_ties_that_no_judge_is_asked_about(origin: Arena) -> None:
    experiment = carry_out(begin(origin, "plain", twin=True))

    (draft,) = measure(experiment).drafts
    assert draft.tally | {"none": 0} == {
        "better": 0,
        "same": 40,
        "worse": 0,
        "equal": 40,
        "none": 0,
    }
    assert draft.claim.verdict is Verdict.CANNOT_TELL
    assert not Run.objects.filter(arena=experiment.arena, kind="judge").exists()


def test_a_gate_ends_once_the_draft_is_known_to_be_no_worse(origin: Arena) -> None:
    experiment = carry_out(begin(origin, "GOOD"), side=-1)

    (draft,) = measure(experiment).drafts
    assert draft.claim.verdict is Verdict.NO_WORSE
    assert draft.looked_at < 40


def test_several_drafts_share_the_error(origin: Arena) -> None:
    experiment = carry_out(begin(origin, "GOOD", "plain and long"))

    better, open_ = measure(experiment).drafts
    assert experiment.family == 2
    assert better.claim.verdict is Verdict.BETTER
    assert open_.claim.verdict is not Verdict.BETTER


def test_the_order_of_prompts_is_drawn_and_kept(origin: Arena) -> None:
    experiment = begin(origin, "GOOD")
    start_experiment(experiment=experiment, plan=Plan([LOCAL], size=20), by=CLI, now=timezone.now())
    experiment.refresh_from_db()

    assert len(set(experiment.order)) == experiment.size == 20
    assert experiment.order != sorted(experiment.order)


def test_a_killed_worker_repeats_no_step(origin: Arena, monkeypatch: Any) -> None:
    experiment = begin(origin, "GOOD")
    start_experiment(experiment=experiment, plan=Plan([LOCAL]), by=CLI, now=timezone.now())
    for _ in range(12):
        for _ in range(2):
            advance(experiment_id=experiment.pk, now=timezone.now())
        make_calls(experiment)

    experiment.refresh_from_db()
    calls = Call.objects.filter(run__arena=experiment.arena, run__kind="judge")
    assert experiment.state == "done"
    assert len(set(calls.values_list("subject", flat=True))) == calls.count()


def test_an_experiment_whose_draft_gets_no_answers_says_why(
    origin: Arena, local: FakeServer
) -> None:
    def refuses(body: dict[str, Any]) -> Any:
        sent = answers(body)
        if body["messages"][0]["content"] == "broken":
            sent.status, sent.body = 400, {"error": {"message": "unknown parameter"}}
        return sent

    local.otherwise = refuses
    experiment = carry_out(begin(origin, "broken"))

    assert experiment.state == "stopped"
    assert "unknown parameter" in experiment.reason


def test_a_draft_is_tried_on_three_prompts_and_changed(origin: Arena) -> None:
    experiment = begin(origin, "GOOD")
    prompts = list(experiment.arena.prompts.order_by("pk")[:3])
    try_drafts(experiment=experiment, prompts=prompts, by=CLI, now=timezone.now())
    make_calls(experiment)
    (draft,) = experiment.drafts
    assert draft.responses.count() == 3

    changed = change_draft(
        experiment=experiment, draft=draft, by=CLI, now=timezone.now(), system_prompt="GOOD!"
    )

    assert list(experiment.drafts) == [changed]
    assert not changed.responses.exists()


def test_drafts_cannot_be_changed_once_it_runs(origin: Arena) -> None:
    experiment = begin(origin, "GOOD")
    start_experiment(experiment=experiment, plan=Plan([LOCAL]), by=CLI, now=timezone.now())
    experiment.refresh_from_db()
    (draft,) = experiment.drafts

    with pytest.raises(ExperimentError, match="has started"):
        change_draft(
            experiment=experiment, draft=draft, by=CLI, now=timezone.now(), system_prompt="x"
        )


def test_a_stopped_experiment_keeps_what_it_knows_and_goes_on(origin: Arena) -> None:
    experiment = begin(origin, "GOOD")
    start_experiment(experiment=experiment, plan=Plan([LOCAL]), by=CLI, now=timezone.now())
    for _ in range(2):
        advance(experiment_id=experiment.pk, now=timezone.now())
        make_calls(experiment)
    order = Experiment.objects.get(pk=experiment.pk).order
    stopped = stop_experiment(experiment=experiment, by=CLI, now=timezone.now())
    assert not Run.objects.filter(arena=experiment.arena).not_over().exists()

    start_experiment(experiment=stopped, plan=Plan(), by=CLI, now=timezone.now())
    done = go_on(stopped)

    assert (done.state, done.order) == ("done", order)


def test_the_quote_says_what_the_prompts_can_find(origin: Arena) -> None:
    experiment = begin(origin, "GOOD")

    quote = Planned(experiment, Plan([LOCAL], size=40), CLI).quote()
    assert quote.finds_words == "40 prompts: a 72:28 difference in 4 of 5 cases."
    assert quote.expected_size < 40
    assert Planned(experiment, Plan([LOCAL], detect=0.9), CLI).size < 40


def test_the_database_refuses_a_running_experiment_without_a_registration(origin: Arena) -> None:
    experiment = begin(origin, "GOOD")

    with pytest.raises(IntegrityError), transaction.atomic():
        Experiment.objects.filter(pk=experiment.pk).update(state="running")


def test_its_arena_is_listed_nowhere(origin: Arena, client: Any, staff: Any) -> None:
    experiment = begin(origin, "GOOD")

    for path in ("/", "/api/v1/arenas/", f"/teams/{origin.team.slug}/", "/sitemap.xml"):
        assert experiment.arena.slug not in staff.get(path).content.decode()
    assert client.get(f"/a/{experiment.arena.slug}/").status_code == 404


def test_the_baseline_must_be_of_the_arena(origin: Arena) -> None:
    other: Candidate = make_candidate(make_arena(0, 5, team=origin.team))

    with pytest.raises(ExperimentError, match="baseline"):
        create_experiment(
            origin=origin, baseline=other, by=CLI, now=timezone.now(), drafts=[{"name": "x"}]
        )
