"""Answers are ordered, requested through the ledger, and stored once with their cost."""

from typing import Any

import pytest
from django.utils import timezone

from arena.actors import CLI
from arena.calls.models import Call
from arena.calls.providers.base import ModelRefusedError, RetryableError, TooLongError
from arena.calls.scheduling import take_calls
from arena.models import Pair, Response, Run
from arena.models.prompts import subject_of
from arena.services import arenas
from arena.signals import answers_changed
from tests.arena.generation import generate_answer, order, prompts_of, sweep, work_off
from tests.arena.ledger import Model, books, cut_off, says
from tests.factories import MODEL, make_call, make_variant
from tests.judges.helpers import judge_call

pytestmark = pytest.mark.django_db


def states(run: Any) -> list[str]:
    return list(run.calls.order_by("pk").values_list("state", flat=True))


def test_every_prompt_gets_an_answer_with_its_figures(model: Model) -> None:
    candidate = make_variant(3, parameters={"temperature": 0.5})
    model.otherwise = says("Do this.", tokens_in=10, tokens_out=5)
    run = work_off(order(candidate))
    assert (run.state, run.votes_wanted, run.votes_done) == ("done", 3, 3)
    assert run.closed_at is not None
    answers = list(candidate.responses.select_related("call", "prompt").order_by("prompt"))
    assert [one.prompt for one in answers] == prompts_of(candidate.arena)
    for one in answers:
        assert (one.text, one.tokens_in, one.tokens_out) == ("Do this.", 10, 5)
        assert one.cost == one.call.cost == 10 * 1000 + 5 * 2000
        assert one.seconds == one.call.seconds is not None
        assert one.call.subject == subject_of(one.prompt_id)
        assert one.call.requester == candidate.requester
    assert books(run) == (3 * 20_000, 0, 0)


def test_the_model_is_sent_filled_templates_and_parameters(model: Model) -> None:
    candidate = make_variant(
        1, parameters={"temperature": 0.5}, user_template="{{ tone }} {{ prompt }}"
    )
    candidate.arena.prompts.update(variables={"tone": "Kindly:"})
    work_off(order(candidate))
    (sent,) = model.requests
    assert [(one.role, one.content) for one in sent.messages] == [
        ("system", "Be brief."),
        ("user", "Kindly: Question 0?"),
    ]
    assert sent.model == MODEL
    assert sent.parameters["temperature"] == 0.5


def test_the_model_is_sent_every_message_of_a_template(model: Model) -> None:
    turns = [("user", "Q"), ("assistant", "A, {{ tone }}"), ("user", "{{ prompt }}")]
    messages = [{"role": role, "content": content} for role, content in turns]
    candidate = make_variant(1, system_prompt="", user_template="", messages=messages)
    candidate.arena.prompts.update(variables={"tone": "kindly"})
    work_off(order(candidate))
    (sent,) = model.requests
    assert [(one.role, one.content) for one in sent.messages] == [
        ("user", "Q"),
        ("assistant", "A, kindly"),
        ("user", "Question 0?"),
    ]


def test_the_scripted_model_needs_neither_key_nor_cap() -> None:
    candidate = make_variant(2, endpoint="scripted", model="scripted-1")
    run = work_off(order(candidate, cap=None))
    assert (run.state, run.cap, run.settled) == ("done", None, 0)
    assert [one.cost for one in candidate.responses.all()] == [0, 0]


def test_an_answer_that_names_its_candidate_is_flagged(model: Model) -> None:
    model.otherwise = says("As variant-x, I would do this.")
    candidate = make_variant(1, name="variant-x")
    work_off(order(candidate))
    assert candidate.responses.get().names_itself


@pytest.mark.parametrize(
    ("outcome", "state", "said"),
    [
        (says("  \n"), "failed", "empty answer"),
        (ModelRefusedError("Against the rules.", says("")), "refused", "Against the rules."),
        (TooLongError("It does not fit."), "too_long", "It does not fit."),
        (says("x" * 200_001), "too_long", "longer than 200,000"),
    ],
)
def test_what_is_no_answer_is_a_state_of_its_own(
    model: Model, outcome: Any, state: str, said: str
) -> None:
    candidate = make_variant(2)
    model.outcomes = [outcome]
    run = work_off(order(candidate))
    assert states(run) == [state, "done"]
    assert said in run.calls.order_by("pk")[0].error
    assert candidate.responses.count() == 1
    assert (run.state, run.votes_done) == ("done", 1)
    assert len(model.requests) == 2, "nothing that was answered is asked again by itself"


def test_an_answer_that_was_cut_off_is_none(model: Model) -> None:
    candidate = make_variant(1)
    model.otherwise = cut_off("To do this, you")
    run = work_off(order(candidate))
    assert states(run) == ["too_long"]
    assert run.calls.get().error == "The reply was cut off at 8,192 tokens."
    assert run.settled == 40_000, "it is billed all the same"
    assert not candidate.responses.exists()


def test_a_server_that_was_busy_is_retried(model: Model) -> None:
    candidate = make_variant(1)
    model.outcomes = [RetryableError("busy"), RetryableError("busy")]
    run = work_off(order(candidate))
    assert (states(run), run.calls.get().requests) == (["done"], 3)
    assert candidate.responses.count() == 1


def test_a_doorbell_rung_again_asks_and_keeps_nothing_more(model: Model) -> None:
    run = work_off(order(make_variant(1)))
    for _ in range(2):
        assert generate_answer(call_id=run.calls.get().pk) is None
    assert (len(model.requests), Response.objects.count()) == (1, 1)


def test_a_worker_that_dies_with_the_reply_loses_nothing(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = make_variant(2)
    run = order(candidate)

    def die(**_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("arena.generation.save_response", die)
        for call_id in run.calls.values_list("pk", flat=True):
            with pytest.raises(KeyboardInterrupt):
                generate_answer(call_id=call_id)
    assert (states(run), candidate.responses.count()) == (["done", "done"], 0)
    run.refresh_from_db()
    assert run.state == "open", "it is not through before its answers are kept"
    for _ in range(2):
        sweep()
    run.refresh_from_db()
    assert (run.state, run.votes_done, candidate.responses.count()) == ("done", 2, 2)
    assert (len(model.requests), run.settled) == (2, 2 * 20_000)


def test_an_answer_uploaded_before_the_request_spares_it(model: Model) -> None:
    candidate = make_variant(2)
    run = order(candidate)
    first = prompts_of(candidate.arena)[0]
    Response.objects.create(candidate=candidate, prompt=first, text="Mine.")
    work_off(run)
    assert (run.state, len(model.requests)) == ("done", 1)
    assert candidate.responses.get(prompt=first).text == "Mine."


def test_an_answer_uploaded_during_the_request_stays(model: Model) -> None:
    candidate = make_variant(1)
    prompt = candidate.arena.prompts.get()

    def meanwhile() -> Any:
        Response.objects.create(candidate=candidate, prompt=prompt, text="Mine.")
        return says("Generated.")

    model.otherwise = meanwhile
    run = work_off(order(candidate))
    assert candidate.responses.get().text == "Mine."
    assert candidate.responses.get().cost is None
    assert (run.state, states(run), run.votes_done) == ("done", ["done"], 0)
    assert run.calls.get().reply == "Generated."


def test_pairs_are_counted_during_a_run_and_at_its_end(
    model: Model, django_capture_on_commit_callbacks: Any
) -> None:
    first = make_variant(2)
    work_off(order(first))
    model.otherwise = says("Another answer.")
    second = make_variant(arena=first.arena)
    run = order(second)
    heard: list[int] = []

    def hear(arena_id: int, **_: Any) -> None:
        heard.append(arena_id)

    answers_changed.connect(hear)
    one, two = run.calls.order_by("pk").values_list("pk", flat=True)
    generate_answer(call_id=one)
    assert not Pair.objects.exists(), "not with each answer"
    with django_capture_on_commit_callbacks(execute=True):
        sweep()
        sweep()
    assert (Pair.objects.get().shared_prompts, heard) == (1, [first.arena_id])
    with django_capture_on_commit_callbacks(execute=True):
        generate_answer(call_id=two)
    assert (Pair.objects.get().shared_prompts, heard) == (2, [first.arena_id] * 2)


def test_a_call_of_the_one_is_never_made_by_the_other(model: Model) -> None:
    run = order(make_variant(1))
    assert judge_call(call_id=run.calls.get().pk) is None
    judged = make_call(endpoint="paid")
    assert generate_answer(call_id=judged.pk) is None
    assert generate_answer(call_id=make_call(run=make_call().run).pk) is None
    assert not model.requests
    assert set(Call.objects.values_list("state", "attempts")) == {("waiting", 0)}
    run.refresh_from_db()
    assert run.state == "open"


@pytest.mark.usefixtures("model")
def test_calls_are_handed_out_with_what_their_run_is_for() -> None:
    run, judged = order(make_variant(2)), make_call(endpoint="paid")
    alone = make_call(endpoint="paid")
    Call.objects.filter(pk=alone.pk).update(run=None)
    answers = run.calls.values_list("pk", flat=True)
    taken = take_calls(endpoint="paid", at_most=9, now=timezone.now())
    assert set(taken) == {
        *((call_id, "answers") for call_id in answers),
        *((call_id, "judge") for call_id in (judged.pk, alone.pk)),
    }


def test_a_prompt_that_cannot_fill_the_templates_fails_alone(model: Model) -> None:
    candidate = make_variant(2)
    run = order(candidate)
    type(candidate).objects.filter(pk=candidate.pk).update(user_template="{{ tone }} {{ prompt }}")
    candidate.arena.prompts.filter(external_id="p1").update(variables={"tone": "Kindly:"})
    work_off(run)
    assert (run.state, states(run)) == ("done", ["failed", "done"])
    assert "{{ tone }}" in run.calls.order_by("pk")[0].error


def test_a_candidate_that_is_retired_meanwhile_asks_no_more(model: Model) -> None:
    candidate = make_variant(2)
    run = order(candidate)
    type(candidate).objects.filter(pk=candidate.pk).update(retired_at=timezone.now())
    work_off(run)
    assert (run.state, len(model.requests)) == ("paused", 0)
    assert "archived" in run.pause_reason


def test_an_arena_is_taken_away_with_its_answers_runs_and_calls(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = make_variant(2)
    run = order(candidate)
    generate_answer(call_id=run.calls.order_by("pk")[0].pk)
    seen: list[str] = []
    delete_all = arenas._delete_all

    def sweep_meanwhile(rows: Any) -> None:
        seen.extend(Run.objects.values_list("state", flat=True))
        delete_all(rows)
        sweep()

    monkeypatch.setattr(arenas, "_delete_all", sweep_meanwhile)
    arenas.delete_arena(arena=candidate.arena, by=CLI)
    assert set(seen) == {"cancelled"}
    for rows in (Response, Run, Call, Pair):
        assert not rows.objects.exists()
