"""What an answer order includes, what it leaves out, and why it is refused."""

from contextlib import nullcontext
from typing import Any

import pytest
from django.utils import timezone

from arena import generation_runs
from arena.actors import Actor
from arena.calls.models import Call, Price
from arena.calls.providers.base import ModelRefusedError, RejectedError
from arena.errors import ServiceError
from arena.generation import GenerationError
from arena.generation_runs import UnderWayError, prepare_order
from arena.models import Arena, AuditEntry, Candidate, Response, Run
from arena.services import runs as engine
from arena.services.candidate_checks import CandidateError
from arena.services.runs import cancel_run, pause_run
from tests.arena.generation import generate_answer, order, prompts_of, work_off
from tests.arena.ledger import Model, books
from tests.factories import DOLLAR, make_arena, make_member, make_paying_team, make_variant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model")]


def test_an_order_is_written_whole_before_anything_is_asked(model: Model) -> None:
    team = make_paying_team()
    user = make_member(team).user
    candidate = make_variant(3, team)
    run = order(candidate, cap=2 * DOLLAR, by=Actor(user=user))
    assert (run.kind, run.state, run.candidate, run.team) == ("answers", "open", candidate, team)
    assert (run.cap, run.created_by, run.arena) == (2 * DOLLAR, user, candidate.arena)
    calls = list(run.calls.order_by("pk"))
    assert [call.subject for call in calls] == [
        f"prompt:{prompt.pk}" for prompt in prompts_of(candidate.arena)
    ]
    assert {call.state for call in calls} == {"waiting"}
    assert run.requesters.get().requester == candidate.requester
    assert not model.requests
    entry = AuditEntry.objects.get()
    assert (entry.team, entry.user, entry.action) == (team, user, "ordered answers")


def test_a_quote_counts_calls_and_money() -> None:
    candidate = make_variant(2, parameters={"max_tokens": 100})
    quote = prepare_order(candidate=candidate).quote
    assert (quote.calls, quote.tokens_out) == (2, 200), "no more than the limit lets it answer"
    size = len("Be brief." + "Q: Question 0?")
    assert quote.tokens_in == 2 * -(-size // 4)
    assert quote.expected == 2 * (-(-size // 4) * 1000 + 100 * 2000)
    assert quote.worst == 2 * ((size + 64 + 2 * 16) * 1000 + 100 * 2000)


def test_a_quote_expects_answers_as_long_as_the_model_s_were(model: Model) -> None:
    candidate = make_variant(2)
    assert prepare_order(candidate=candidate).quote.tokens_out == 2 * 300
    work_off(order(candidate))
    assert prepare_order(candidate=make_variant(4)).quote.tokens_out == 4 * 5


def test_only_prompts_without_an_answer_are_asked() -> None:
    candidate = make_variant(4)
    answered, retired, wanted, _ = prompts_of(candidate.arena)
    Response.objects.create(candidate=candidate, prompt=answered, text="Mine.")
    Response.objects.create(
        candidate=make_variant(arena=candidate.arena), prompt=wanted, text="Another's."
    )
    type(retired).objects.filter(pk=retired.pk).update(retired_at=timezone.now())
    assert order(candidate, prompts=[answered, retired, wanted]).calls.get().subject == (
        f"prompt:{wanted.pk}"
    )


def test_prompts_that_cannot_be_asked_are_left_out_in_words() -> None:
    candidate = make_variant(4, user_template="{{ tone }} {{ prompt }}")
    prompts = prompts_of(candidate.arena)
    candidate.arena.prompts.exclude(pk=prompts[0].pk).update(variables={"tone": "Kind"})
    candidate.arena.prompts.filter(pk=prompts[1].pk).update(text="", variables={})
    found = prepare_order(candidate=candidate)
    assert found.prompts == prompts[2:]
    no_text, no_value = found.left_out
    assert no_text == "1 prompt is left out because the text was not imported."
    assert "{{ tone }}" in no_value


@pytest.mark.parametrize(
    ("fields", "cap", "said"),
    [
        ({"endpoint": "", "model": ""}, DOLLAR, "has no endpoint"),
        ({"endpoint": "gone"}, DOLLAR, "no model endpoint called 'gone'"),
        ({"retired_at": timezone.now()}, DOLLAR, "archived"),
        ({"model": "m-2"}, DOLLAR, "manage.py price paid m-2 --input 0 --output 0"),
        ({}, None, "spending cap"),
        ({}, 0, "enter a cap above"),
        ({"n_prompts": 0}, DOLLAR, "has no prompts yet"),
        ({"user_template": "{{ tone }}{{ prompt }}"}, DOLLAR, "{{ tone }}"),
    ],
)
def test_an_impossible_order_is_refused_with_a_reason(
    fields: dict[str, Any], cap: int | None, said: str
) -> None:
    with pytest.raises(ServiceError) as refused:
        order(make_variant(**fields), cap=cap)
    assert said in str(refused.value)
    assert not Run.objects.exists()
    assert not Call.objects.exists()


def test_an_order_without_open_prompts_is_refused(model: Model) -> None:
    candidate = make_variant(1)
    work_off(order(candidate))
    with pytest.raises(GenerationError, match="has answered every prompt"):
        order(candidate)


def test_a_price_of_zero_needs_no_cap_and_takes_none() -> None:
    Price.objects.create(endpoint="paid", model="m-1", input_per_million=0, output_per_million=0)
    assert order(make_variant(1, make_paying_team(budget=0)), cap=DOLLAR).cap is None
    assert AuditEntry.objects.latest("pk").details["cap"] == "nothing to pay"


@pytest.mark.parametrize("paused", [False, True])
def test_a_second_order_while_one_is_under_way_names_it(paused: bool) -> None:
    candidate = make_variant(2)
    run = order(candidate)
    if paused:
        pause_run(run_id=run.pk, reason="By hand.")
    with pytest.raises(UnderWayError, match=f"Run {run.pk} ") as refused:
        order(candidate)
    assert refused.value.run == run
    assert Call.objects.count() == 2


def test_an_order_that_was_cut_short_is_made_good_by_the_next(
    monkeypatch: pytest.MonkeyPatch, model: Model
) -> None:
    candidate = make_variant(4)
    monkeypatch.setattr(generation_runs, "BATCH", 2)

    def die(**_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engine, "open_run", die)
        # Who is killed gives nothing up.
        patch.setattr(engine, "given_up_on_failure", lambda run, now: nullcontext())
        with pytest.raises(KeyboardInterrupt):
            order(candidate)
    cut = Run.objects.get()
    assert (cut.state, Call.objects.count()) == ("ordered", 4)
    run = work_off(order(candidate))
    cut.refresh_from_db()
    assert (cut.state, run.state) == ("cancelled", "done")
    assert set(cut.calls.values_list("state", flat=True)) == {"cancelled"}
    assert (run.calls.count(), candidate.responses.count(), len(model.requests)) == (4, 4, 4)


def test_what_a_cancelled_run_left_and_what_failed_is_retried(model: Model) -> None:
    candidate = make_variant(3)
    first = order(candidate)
    one, two, _ = first.calls.order_by("pk").values_list("pk", flat=True)
    generate_answer(call_id=one)
    model.outcomes = [RejectedError("Not like this.")]
    generate_answer(call_id=two)
    cancel_run(run_id=first.pk, now=timezone.now())
    second = work_off(order(candidate, cap=DOLLAR))
    assert (second.state, second.votes_wanted, second.votes_done) == ("done", 2, 2)
    states = first.calls.order_by("pk").values_list("state", flat=True)
    assert list(states) == ["done", "failed", "cancelled"]
    assert books(first)[0] + books(second)[0] == 3 * 20_000


def test_what_the_model_refused_is_not_bought_again(model: Model) -> None:
    candidate = make_variant(2)
    model.outcomes = [ModelRefusedError("No.")]
    work_off(order(candidate))
    with pytest.raises(GenerationError, match="1 prompt is left out because the model refused"):
        order(candidate)


def test_a_candidate_changed_meanwhile_is_not_ordered() -> None:
    candidate = make_variant(1)
    Candidate.objects.filter(pk=candidate.pk).update(system_prompt="Be long.")
    with pytest.raises(GenerationError, match="candidate changed"):
        order(candidate)
    assert not Run.objects.exists()


def test_a_closed_arena_has_nothing_generated_for_its_guests(model: Model) -> None:
    host, guests = make_paying_team(), make_paying_team()
    arena = make_arena(0, 2, team=host, open_to_teams=True)
    theirs = make_variant(arena=arena, team=guests)
    Arena.objects.filter(pk=arena.pk).update(open_to_teams=False)
    with pytest.raises(CandidateError, match="closed to candidates from other teams"):
        order(theirs)
    assert not Run.objects.exists()
    assert order(make_variant(arena=arena, team=host)).state == "open"
