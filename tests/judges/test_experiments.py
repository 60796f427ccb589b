"""Experiments: drafts are tried, measured in registered looks, and promoted."""

import random
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from arena.actors import CLI
from arena.calls.execution import execute_call
from arena.calls.models import Call
from arena.generation import AnswerHandler, reconcile_runs
from arena.models import Arena, Candidate, Prompt, Run
from arena.services.budgets import BudgetError
from arena.services.checks import add_check
from arena.services.comparisons import next_comparison
from arena.services.orders import reconcile_people_run
from arena.services.voting import cast_vote
from judges.experiment_report import report_on
from judges.models import Baseline, Experiment
from judges.services.experiments import (
    ExperimentError,
    MeasurementPlan,
    PlannedMeasurement,
    advance,
    change_draft,
    create_experiment,
    expire_experiments,
    promote_draft,
    spent_on,
    start_experiment,
    stop_experiment,
    try_drafts,
)
from judges.services.measurements import measure
from ranking.stats.claim import Verdict
from tests.factories import make_arena, make_candidate, make_person
from tests.judges.fake_server import FakeServer, completion, is_probe, nonce_of, prefers
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
    start_experiment(
        experiment=experiment, plan=MeasurementPlan(**fields), by=CLI, now=timezone.now()
    )
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
    assert draft.tally == {
        "better": 0,
        "same": 24,  # the look that ended it
        "worse": 0,
        "equal": 24,
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
    start_experiment(
        experiment=experiment, plan=MeasurementPlan([LOCAL], size=20), by=CLI, now=timezone.now()
    )
    experiment.refresh_from_db()

    assert len(set(experiment.order)) == experiment.size == 20
    assert experiment.order != sorted(experiment.order)


def test_a_killed_worker_repeats_no_step(origin: Arena, monkeypatch: Any) -> None:
    experiment = begin(origin, "GOOD")
    start_experiment(
        experiment=experiment, plan=MeasurementPlan([LOCAL]), by=CLI, now=timezone.now()
    )
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
    start_experiment(
        experiment=experiment, plan=MeasurementPlan([LOCAL]), by=CLI, now=timezone.now()
    )
    experiment.refresh_from_db()
    (draft,) = experiment.drafts

    with pytest.raises(ExperimentError, match="has started"):
        change_draft(
            experiment=experiment, draft=draft, by=CLI, now=timezone.now(), system_prompt="x"
        )


def test_a_stopped_experiment_keeps_what_it_knows_and_goes_on(origin: Arena) -> None:
    experiment = begin(origin, "GOOD")
    start_experiment(
        experiment=experiment, plan=MeasurementPlan([LOCAL]), by=CLI, now=timezone.now()
    )
    for _ in range(2):
        advance(experiment_id=experiment.pk, now=timezone.now())
        make_calls(experiment)
    order = Experiment.objects.get(pk=experiment.pk).order
    stopped = stop_experiment(experiment=experiment, by=CLI, now=timezone.now())
    assert not Run.objects.filter(arena=experiment.arena).not_over().exists()

    start_experiment(experiment=stopped, plan=MeasurementPlan(), by=CLI, now=timezone.now())
    done = go_on(stopped)

    assert (done.state, done.order) == ("done", order)


def test_the_quote_says_what_the_prompts_can_find(origin: Arena) -> None:
    experiment = begin(origin, "GOOD")

    quote = PlannedMeasurement(experiment, MeasurementPlan([LOCAL], size=40), CLI).quote()
    assert quote.finds_words == "40 prompts: a 72:28 difference in 4 of 5 cases."
    assert quote.expected_size < 40
    assert PlannedMeasurement(experiment, MeasurementPlan([LOCAL], detect=0.9), CLI).size < 40


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


def priced(settings: Any, dollars_per_million: int = 1) -> None:
    """Give both models a price, and let the server count four characters as a token."""
    from dataclasses import replace

    from arena.calls.models import Capability
    from arena.endpoints import ModelPrice

    nano = dollars_per_million * 10**9
    judge = LOCAL.removeprefix("local:")
    prices = {name: ModelPrice(nano, nano) for name in (judge, WRITER)}
    endpoint = replace(settings.MODEL_ENDPOINTS["local"], prices=prices)
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": endpoint}
    for model in prices:
        Capability.objects.create(endpoint="local", model=model, probed_at=timezone.now())


def metered(body: dict[str, Any]) -> Any:
    """Like `answers`; the draft wins on five of eight prompts, and tokens are what they are."""
    sent = answers(body)
    if body["model"] != WRITER:
        text = body["messages"][1]["content"]
        number = int(re.search(r"Question (\d+)\?", text)[1])  # type: ignore[index]
        sent = prefers("GOOD" if number % 8 < 5 else "plain")(body)
    sent.body.tokens_in = sum(len(turn["content"]) for turn in body["messages"]) // 4
    sent.body.tokens_out = max(len(sent.body.text) // 4, 1)
    return sent


@pytest.mark.slow
def test_a_run_that_goes_to_its_end_costs_about_what_it_costs_at_most(
    origin: Arena, local: FakeServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(settings)
    Prompt.objects.bulk_create(
        Prompt(arena=origin, external_id=f"p{n}", text=f"Question {n}?") for n in range(40, 100)
    )
    for prompt in origin.prompts.all():  # as long as a support case, so that one request is little
        prompt.text += " They wrote to us again, and nobody has answered them." * 40
        prompt.save()
    monkeypatch.setattr("judges.services.experiments.draw", random.Random(4))
    origin.team.budget = 100 * 10**9
    origin.team.save()
    local.otherwise = metered
    carry_out(begin(origin, "GOOD so that lengths and replies are known"))

    experiment = carry_out(begin(origin, "GOOD"))
    (draft,) = measure(experiment).drafts
    assert draft.looked_at == experiment.size
    assert 0.9 * experiment.at_most <= spent_on(experiment) <= experiment.at_most
    assert experiment.expected < experiment.at_most


def test_nothing_is_started_that_the_budget_does_not_cover(
    origin: Arena, local: FakeServer, settings: Any
) -> None:
    priced(settings)
    origin.team.budget = 1
    origin.team.save()

    with pytest.raises(BudgetError, match="left of its budget"):
        carry_out(begin(origin, "GOOD"))
    assert not Call.objects.exists()


def test_experiments_that_nobody_uses_expire(origin: Arena) -> None:
    old, new, running = begin(origin, "a"), begin(origin, "b"), begin(origin, "c")
    start_experiment(experiment=running, plan=MeasurementPlan([LOCAL]), by=CLI, now=timezone.now())
    long_ago = timezone.now() - timedelta(days=31)
    Experiment.objects.exclude(pk=new.pk).update(used_at=long_ago)

    assert expire_experiments(now=timezone.now()) == 1
    assert set(Experiment.objects.all()) == {new, running}
    assert not Arena.objects.filter(pk=old.arena_id).exists()


def vote_for_the_draft(experiment: Experiment, raters: int, votes: int) -> None:
    """Each of these people prefers the draft on so many prompts."""
    (draft,) = experiment.drafts
    for _ in range(raters):
        rater = make_person()
        for _ in range(votes):
            issued = next_comparison(arena=experiment.arena, rater=rater, now=timezone.now())
            assert issued is not None
            outcome = "left" if issued.left_id == draft.pk else "right"
            cast_vote(
                comparison=issued, rater=rater, outcome=outcome, now=timezone.now(), seconds=30
            )


def test_people_are_asked_until_it_is_decided(origin: Arena) -> None:
    experiment = begin(origin, "GOOD")
    start_experiment(
        experiment=experiment, plan=MeasurementPlan(people=100), by=CLI, now=timezone.now()
    )
    advance(experiment_id=experiment.pk, now=timezone.now())
    make_calls(experiment)
    advance(experiment_id=experiment.pk, now=timezone.now())
    reconcile_people_run(run=Run.objects.get(kind="person"), now=timezone.now())
    vote_for_the_draft(experiment, raters=8, votes=6)
    done = go_on(experiment)

    (draft,) = measure(done).drafts
    assert done.state == "done"
    assert draft.people.verdict is Verdict.BETTER
    assert draft.people_run.is_over


@pytest.mark.parametrize("counts", [True, False])
def test_votes_on_a_draft_count_once_it_is_entered_if_the_team_chose_so(
    origin: Arena, counts: bool
) -> None:
    experiment = begin(origin, "GOOD")
    plan = MeasurementPlan(people=100, counts_votes=counts)
    start_experiment(experiment=experiment, plan=plan, by=CLI, now=timezone.now())
    for _ in range(2):
        advance(experiment_id=experiment.pk, now=timezone.now())
        make_calls(experiment)
    reconcile_people_run(run=Run.objects.get(kind="person"), now=timezone.now())
    vote_for_the_draft(experiment, raters=2, votes=3)
    assert not origin.votes.exists()

    (draft,) = experiment.drafts
    promote_draft(experiment=experiment, draft=draft, by=CLI, now=timezone.now())

    assert origin.votes.live().count() == (6 if counts else 0)


def test_checks_of_the_arena_compare_the_draft_with_the_baseline(origin: Arena) -> None:
    add_check(arena=origin, by=CLI, kind="contains", expected="plain")
    first = origin.prompts.order_by("pk")[0]
    add_check(arena=origin, by=CLI, kind="contains", expected="GOOD", prompt=first)
    experiment = carry_out(begin(origin, "GOOD"))

    (draft,) = report_on(experiment).drafts
    for_all, for_one = draft.checks
    assert (for_all.baseline.passed, for_all.draft.passed, len(for_all.broken)) == (40, 0, 40)
    assert (for_all.passed, for_one.passed, for_one.fixed) == (False, True, 1)
    assert not draft.can_promote


def test_a_guard_is_judged_although_all_else_is_decided(
    origin: Arena, local: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hates_the_last(body: dict[str, Any]) -> Any:
        is_last = "Question 39?" in body["messages"][-1]["content"]
        if body["model"] != WRITER and is_last:
            return prefers("plain")(body)
        return answers(body)

    local.otherwise = hates_the_last
    monkeypatch.setattr("judges.services.experiments.draw", random.Random(4))
    last = origin.prompts.order_by("-pk")[0]
    add_check(arena=origin, by=CLI, kind="guard", prompt=last)
    experiment = carry_out(begin(origin, "GOOD"))

    (draft,) = report_on(experiment).drafts
    assert draft.claim.verdict is Verdict.BETTER
    assert "Question 39?" not in str(experiment.order[: draft.measured.looked_at])
    (guard,) = draft.checks
    assert (guard.is_guard, guard.passed) == (True, False)


def test_the_items_of_a_judges_checklist_are_shown_as_checks(
    origin: Arena, local: FakeServer
) -> None:
    def ticks(body: dict[str, Any]) -> Any:
        if body["model"] == WRITER:
            return answers(body)
        if is_probe(body):
            return completion("Yes.")
        text = "\n".join(turn["content"] for turn in body["messages"])
        is_good, mark = "GOOD" in text, nonce_of(body)
        number = len(set(re.findall(rf"VERDICT-{mark} (\d+):", text)))
        said = ["YES" if is_good or n else "NO" for n in range(number)]
        return completion("\n".join(f"VERDICT-{mark} {n + 1}: {s}" for n, s in enumerate(said)))

    local.otherwise = ticks
    experiment = carry_out(begin(origin, "GOOD"), judges=[f"{LOCAL}@checklist"])

    (draft,) = report_on(experiment).drafts
    first, *others = draft.checks
    assert first.fixed == first.draft.passed > 0 == first.baseline.passed
    assert all(row.fixed == 0 and row.passed is None for row in others)
