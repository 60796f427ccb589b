"""Experiments whose servers fail, whose workers are killed, or whose runs somebody stops."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from arena.actors import CLI
from arena.calls.models import Call
from arena.models import Arena, Prompt, Run
from arena.services import runs
from arena.services.arenas import delete_arena
from arena.services.budgets import budget_left
from arena.services.candidates import delete_candidate, retire_candidate
from arena.services.orders import reconcile_people_run
from arena.services.prompts import retire_prompts
from judges.experiment_report import report_on
from judges.models import Baseline, Experiment
from judges.services import experiments
from judges.services.experiments import (
    ExperimentError,
    MeasurementPlan,
    add_draft,
    advance,
    advance_all,
    delete_experiment,
    enter_draft,
    expire_experiments,
    find_experiment,
    promote_draft,
    spent_on,
    start_experiment,
    stop_experiment,
    try_drafts,
)
from judges.services.measurements import measure
from tests.factories import make_arena, make_candidate
from tests.judges.fake_server import FakeServer, completion, is_probe
from tests.judges.helpers import LOCAL
from tests.judges.test_experiments import (
    WRITER,
    answers,
    begin,
    carry_out,
    go_on,
    make_calls,
    metered,
    priced,
    vote_for_the_draft,
)

pytestmark = pytest.mark.django_db
DOLLAR = 10**9


@pytest.fixture
def origin(team: Any, local: FakeServer) -> Arena:
    local.otherwise = answers
    arena: Arena = make_arena(0, 20, team=team)
    make_candidate(arena, "concise", endpoint="local", model=WRITER, system_prompt="plain")
    return arena


@pytest.fixture
def paying(origin: Arena, local: FakeServer, settings: Any) -> Arena:
    """An arena whose models cost money, and whose team has some."""
    priced(settings, dollars_per_million=100)
    local.otherwise = metered
    origin.team.budget = 100 * DOLLAR
    origin.team.save()
    return origin


def start(experiment: Experiment, **plan: Any) -> Experiment:
    fields = {"judges": [LOCAL]} | plan
    return start_experiment(
        experiment=experiment, plan=MeasurementPlan(**fields), by=CLI, now=timezone.now()
    )


def step(experiment: Experiment) -> Experiment:
    advance(experiment_id=experiment.pk, now=timezone.now())
    return Experiment.objects.select_related("arena__team", "arena__origin").get(pk=experiment.pk)


class Killed(BaseException):
    """What a worker meets that is killed: nothing after it is done."""


KILLED_AT = {
    "before answers are ordered": "order_answers",
    "once answers are ordered": "order_answers",
    "once judges are ordered": "_order_judges",
    "in the middle of writing calls": "arena.generation_runs._write_calls",
    "in the middle of writing verdicts": "judges.services.runs._write_member",
    "before it is finished": "_finish",
}


@pytest.mark.parametrize("place", KILLED_AT)
def test_a_killed_worker_loses_and_repeats_nothing(
    place: str, paying: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = KILLED_AT[place]
    path = name if "." in name else f"judges.services.experiments.{name}"
    module, _, function = path.rpartition(".")
    work = getattr(__import__(module, fromlist=[function]), function)
    left = [2]

    def is_killed(*args: Any, **fields: Any) -> Any:
        done = None if place.startswith("before") else work(*args, **fields)
        if left[0]:
            left[0] -= 1
            raise Killed
        return work(*args, **fields) if done is None and place.startswith("before") else done

    monkeypatch.setattr(path, is_killed)
    experiment = start(begin(paying, "GOOD so that"))
    for _ in range(20):
        with suppress(Killed):
            experiment = step(experiment)
        runs.cancel_stale_orders(now=timezone.now())
        make_calls(experiment)
        if experiment.state != "running":
            break

    assert (experiment.state, experiment.reason, left) == ("done", "", [0])
    calls = Call.objects.filter(run__arena=experiment.arena, requests__gt=0)
    asked = list(calls.values_list("requester", "subject"))
    assert len(asked) == len(set(asked))
    assert spent_on(experiment) == sum(calls.values_list("cost", flat=True))
    assert 0 < spent_on(experiment) <= experiment.cap


def test_what_is_ordered_while_somebody_stops_it_is_cancelled(
    origin: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = start(begin(origin, "GOOD"))
    order = experiments.order_answers

    def stopped_meanwhile(**fields: Any) -> Any:
        if Experiment.objects.get(pk=experiment.pk).state == "running":
            stop_experiment(experiment=experiment, by=CLI, now=timezone.now())
        return order(**fields)

    monkeypatch.setattr(experiments, "order_answers", stopped_meanwhile)
    assert step(experiment).state == "stopped"
    assert not Run.objects.filter(arena=experiment.arena).not_over().exists()


def test_what_a_killed_worker_ordered_in_a_stopped_experiment_is_cancelled(origin: Arena) -> None:
    experiment = step(start(begin(origin, "GOOD")))
    Experiment.objects.update(state="stopped", reason="The team stopped it.")

    advance_all(now=timezone.now())

    assert not Run.objects.filter(arena=experiment.arena).not_over().exists()


def test_one_experiment_that_cannot_be_advanced_keeps_no_other_from_going_on(
    origin: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = start(begin(origin, "GOOD")), start(begin(origin, "also GOOD"))
    work = experiments._advance

    def fails(experiment: Experiment, now: Any) -> None:
        if experiment.pk == broken.pk:
            raise RuntimeError("a defect")
        work(experiment, now)

    monkeypatch.setattr(experiments, "_advance", fails)
    assert advance_all(now=timezone.now()) == 2
    assert Run.objects.filter(arena=sound.arena).exists()


def test_an_order_under_way_elsewhere_is_waited_for(
    origin: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arena.generation_runs import AnswersBusyError

    def is_busy(**fields: Any) -> Any:
        raise AnswersBusyError("A run for this candidate is being started.")

    experiment = start(begin(origin, "GOOD"))
    with monkeypatch.context() as busy:
        busy.setattr(experiments, "order_answers", is_busy)
        assert step(experiment).state == "running"
    assert go_on(experiment).state == "done"


def test_some_answers_that_fail_leave_a_verdict_about_the_others(
    origin: Arena, local: FakeServer
) -> None:
    def fails_sometimes(body: dict[str, Any]) -> Any:
        sent = answers(body)
        if body["model"] == WRITER and body["messages"][-1]["content"].endswith("7?"):
            sent.status, sent.body = 400, {"error": {"message": "too odd"}}
        return sent

    local.otherwise = fails_sometimes
    experiment = carry_out(begin(origin, "GOOD"))

    report = report_on(experiment)
    (draft,) = report.drafts
    assert (experiment.state, draft.verdict) == ("done", "better")
    assert (draft.figures.answers, draft.figures.errors.failed) == (18, 2)
    assert "too odd" in draft.figures.errors.reasons[0][0]


def test_a_judge_that_never_replies_readably_ends_it_in_words(
    origin: Arena, local: FakeServer
) -> None:
    def mumbles(body: dict[str, Any]) -> Any:
        return answers(body) if body["model"] == WRITER or is_probe(body) else completion("Hm.")

    local.otherwise = mumbles
    experiment = carry_out(begin(origin, "GOOD"))

    assert experiment.state == "stopped"
    assert experiment.reason == "The judges reached no verdict on 20 prompts: 20 unreadable."
    assert report_on(experiment).drafts[0].measured.tally["none"] == 20


@pytest.mark.parametrize("kind", ["answers", "judge"])
@pytest.mark.parametrize("act", ["pause", "cancel"])
def test_a_run_that_somebody_ends_on_its_page_ends_the_experiment_in_words(
    kind: str, act: str, origin: Arena
) -> None:
    experiment = start(begin(origin, "GOOD"))
    while not (run := Run.objects.filter(arena=experiment.arena, kind=kind).first()):
        experiment = step(experiment)
        if not Run.objects.filter(arena=experiment.arena, kind=kind).exists():
            make_calls(experiment)
    if act == "pause":
        runs.pause(run=run, by=CLI)
    else:
        runs.cancel(run=run, by=CLI, now=timezone.now())
    experiment = go_on(experiment)

    assert experiment.state == "stopped"
    assert ("was cancelled" if act == "cancel" else "Paused by") in experiment.reason
    start(experiment)
    assert go_on(experiment).state == "done"


def test_a_cap_that_is_used_up_ends_it_in_words_and_a_higher_one_goes_on(paying: Arena) -> None:
    experiment = begin(paying, "GOOD so that")
    full = experiments.PlannedMeasurement(experiment, MeasurementPlan([LOCAL]), CLI).quote().at_most
    assert full is not None
    start(experiment, cap=full // 8)
    experiment = go_on(experiment)

    assert experiment.state == "stopped"
    assert experiment.reason
    assert spent_on(experiment) <= full // 8
    start(experiment, cap=2 * full)
    assert go_on(experiment).state == "done"


def test_an_experiment_that_has_used_up_its_cap_says_so_before_it_goes_on(paying: Arena) -> None:
    experiment = carry_out(begin(paying, "GOOD so that"))
    Experiment.objects.update(state="stopped", cap=spent_on(experiment))
    experiment.refresh_from_db()

    with pytest.raises(ExperimentError, match="Enter a higher cap"):
        start(experiment)


def test_a_budget_that_is_gone_at_a_look_ends_it_in_words(paying: Arena) -> None:
    experiment = start(begin(paying, "GOOD so that"))
    while not Run.objects.filter(arena=experiment.arena, kind="judge").exists():
        experiment = step(experiment)
        make_calls(experiment)
    paying.team.refresh_from_db()
    paying.team.budget -= budget_left(paying.team)
    paying.team.save()

    experiment = go_on(experiment)
    assert (experiment.state, "budget" in experiment.reason) == ("stopped", True)


def test_what_trying_drafts_has_cost_is_within_the_cap_and_leaves_enough(paying: Arena) -> None:
    experiment = begin(paying, "GOOD so that")
    prompts = list(experiment.arena.prompts.order_by("pk")[:3])
    try_drafts(experiment=experiment, prompts=prompts, by=CLI, now=timezone.now())
    make_calls(experiment)
    tried = spent_on(experiment)
    assert tried

    experiment = carry_out(experiment)
    assert experiment.state == "done"
    assert tried < spent_on(experiment) <= experiment.cap


def test_a_candidate_that_lacks_most_answers_gets_them_within_the_cap(paying: Arena) -> None:
    """People alone vote, so that the cap is for answers alone."""
    carry_out(begin(paying, "GOOD so that"))
    experiment = begin(paying, "BEST so that")
    (draft,) = experiment.drafts
    experiment.copy.responses.order_by("pk")[0].delete()

    start(experiment, judges=[], people=10)
    for _ in range(2):
        experiment = step(experiment)
        make_calls(experiment)

    assert draft.responses.count() == 20
    assert step(experiment).state == "running"


def test_equal_answers_need_no_votes_of_people(origin: Arena) -> None:
    experiment = begin(origin, "plain", twin=True)
    experiment = carry_out(experiment, people=10)

    assert (experiment.state, experiment.reason) == ("done", "")


def test_people_are_asked_for_the_other_votes_once_it_goes_on(origin: Arena) -> None:
    experiment = start(begin(origin, "GOOD"), judges=[], people=30)
    for _ in range(2):
        experiment = step(experiment)
        make_calls(experiment)
    reconcile_people_run(run=Run.objects.get(kind="person"), now=timezone.now())
    vote_for_the_draft(experiment, raters=2, votes=3)
    experiment = stop_experiment(experiment=experiment, by=CLI, now=timezone.now())

    start(experiment)
    experiment = step(experiment)

    again = Run.objects.filter(kind="person").latest("pk")
    assert (experiment.state, again.state, again.votes_wanted) == ("running", "ordered", 24)
    step(experiment)
    assert Run.objects.filter(kind="person").count() == 2


def test_an_experiment_without_drafts_left_is_stopped(origin: Arena) -> None:
    experiment = start(begin(origin, "GOOD"))
    experiment = step(experiment)
    make_calls(experiment)
    (draft,) = experiment.drafts
    retire_candidate(candidate=draft, by=CLI, now=timezone.now())

    experiment = go_on(experiment)
    assert (experiment.state, experiment.reason) == ("stopped", "Its drafts have been archived.")


@pytest.mark.parametrize("act", [retire_candidate, delete_candidate])
def test_it_ends_although_its_baseline_is_gone(act: Any, origin: Arena) -> None:
    experiment = start(begin(origin, "GOOD"))
    baseline = origin.candidates.get()
    fields = {"now": timezone.now()} if act is retire_candidate else {}
    act(candidate=baseline, by=CLI, **fields)

    experiment = go_on(experiment)
    assert experiment.state == "done"
    (draft,) = experiment.drafts
    with pytest.raises(ExperimentError, match="baseline"):
        promote_draft(experiment=experiment, draft=draft, by=CLI, now=timezone.now())
    entered = enter_draft(
        experiment=experiment, draft=draft, by=CLI, now=timezone.now(), name="New"
    )
    assert entered.responses.count() == 20


def test_it_ends_although_the_arenas_prompts_are_archived(origin: Arena) -> None:
    experiment = start(begin(origin, "GOOD"))
    retire_prompts(arena=origin, prompts=origin.prompts.all(), by=CLI, now=timezone.now())

    experiment = go_on(experiment)
    (draft,) = experiment.drafts
    assert experiment.state == "done"
    assert promote_draft(
        experiment=experiment, draft=draft, by=CLI, now=timezone.now()
    ).responses.exists()


def test_an_arenas_experiments_are_deleted_with_it(paying: Arena) -> None:
    team = paying.team
    done = carry_out(begin(paying, "GOOD so that"))
    running = start(begin(paying, "GOOD so there"))
    running = step(running)
    make_calls(running)
    running = step(running)
    spent = spent_on(done) + spent_on(running)

    delete_arena(arena=paying, by=CLI)

    team.refresh_from_db()
    assert not Experiment.objects.exists()
    assert not Arena.objects.exists()
    assert not Run.objects.exists()
    assert team.budget == budget_left(team) == 100 * DOLLAR - spent


def test_a_running_experiment_is_deleted(paying: Arena) -> None:
    experiment = step(start(begin(paying, "GOOD so that")))

    delete_experiment(experiment=experiment, by=CLI)

    assert not Run.objects.exists()
    assert list(Arena.objects.all()) == [paying]
    advance_all(now=timezone.now())


def test_entering_a_draft_again_returns_the_same_candidate(origin: Arena) -> None:
    experiment = start(begin(origin, "GOOD"), judges=[], people=50, counts_votes=True)
    for _ in range(2):
        experiment = step(experiment)
        make_calls(experiment)
    reconcile_people_run(run=Run.objects.get(kind="person"), now=timezone.now())
    vote_for_the_draft(experiment, raters=2, votes=3)
    (draft,) = experiment.drafts

    def enter(name: str) -> Any:
        return enter_draft(
            experiment=experiment, draft=draft, by=CLI, now=timezone.now(), name=name
        )

    named, again = enter("Greet"), enter("Greet")
    assert named == again
    assert origin.votes.live().count() == 6
    version, once_more = enter(""), enter("")
    assert version == once_more != named
    promoted = promote_draft(experiment=experiment, draft=draft, by=CLI, now=timezone.now())
    assert promoted == version
    assert Baseline.objects.get(arena=origin).candidate == version
    assert origin.candidates.count() == 3


def test_an_experiment_whose_drafts_have_changed_is_not_found_again(origin: Arena) -> None:
    content: dict[str, Any] = {
        "origin": origin,
        "baseline": origin.candidates.get(),
        "drafts": [{"name": "draft 0", "system_prompt": "GOOD"}],
    }
    experiment = begin(origin, "GOOD")
    assert find_experiment(**content) == experiment

    add_draft(experiment=experiment, by=CLI, now=timezone.now(), system_prompt="else")
    assert find_experiment(**content) is None


def test_other_criteria_make_another_experiment(origin: Arena) -> None:
    content: dict[str, Any] = {
        "origin": origin,
        "drafts": [{"name": "draft 0", "system_prompt": "GOOD"}],
    }
    begin(origin, "GOOD")
    origin.criteria = "Short answers are better."
    origin.save()

    assert find_experiment(**content, baseline=origin.candidates.get()) is None


def test_a_draft_from_what_the_baseline_is_made_from_is_refused(origin: Arena) -> None:
    with pytest.raises(ExperimentError, match="same as the baseline"):
        start(begin(origin, "plain"))
    with pytest.raises(ExperimentError, match="draft 1 is the same as draft 0"):
        start(begin(origin, "GOOD", "GOOD"))
    assert not Run.objects.exists()


def test_what_was_promoted_stays_once_its_experiment_has_expired(origin: Arena) -> None:
    experiment = carry_out(begin(origin, "GOOD"))
    (draft,) = experiment.drafts
    entered = promote_draft(
        experiment=experiment, draft=draft, by=CLI, now=timezone.now(), why="It greets."
    )
    long_ago = timezone.now() - timedelta(days=31)
    Experiment.objects.update(used_at=long_ago)

    assert expire_experiments(now=timezone.now()) == 1
    assert entered.responses.count() == 20
    assert Baseline.objects.get(arena=origin).candidate == entered
    trace = origin.team.audit_entries.get(action="promoted a draft")
    assert trace.details["why"] == "It greets."
    assert origin.team.audit_entries.filter(action="deleted an experiment").exists()


def test_prompts_deleted_in_the_experiment_leave_a_report(origin: Arena) -> None:
    experiment = carry_out(begin(origin, "bad"))
    measure(experiment)
    Prompt.objects.filter(pk__in=experiment.order[:2]).update(retired_at=timezone.now())
    assert report_on(experiment).drafts
