"""The second turn: an unreadable reply is kept, and only the verdict is requested."""

import pytest

from arena.calls import execution
from arena.calls.providers.base import (
    ModelRefusedError,
    RejectedError,
    RetryableError,
    TooLongError,
)
from tests.arena.ledger import Model, Question, execute, paid_call, says

pytestmark = pytest.mark.django_db
ASK = "The verdict alone, please."


def test_the_second_turn_brings_the_verdict(model: Model) -> None:
    model.outcomes = [says("Hard to say."), says("A")]
    question = Question(repair=ASK)
    call = execute(paid_call(), question)
    assert (call.state, call.turn, call.requests) == ("done", 1, 2)
    assert (call.reply, call.repair_reply) == ("Hard to say.", "A")
    assert (call.verdict, call.error, question.turns) == ({"outcome": "left"}, "", [0, 1])
    assert (call.tokens_in, call.tokens_out) == (20, 10)


def test_the_second_turn_is_told_what_the_first_was(model: Model) -> None:
    model.outcomes = [says("Hard to say.")]
    execute(paid_call(), Question(repair=ASK))
    first, second = (request.messages for request in model.requests)
    assert [(m.role, m.content) for m in second[len(first) :]] == [
        ("assistant", "Hard to say."),
        ("user", ASK),
    ]
    assert second[: len(first)] == first


def test_an_empty_reply_is_named_as_such(model: Model) -> None:
    model.outcomes = [says(" \n")]
    execute(paid_call(), Question(repair=ASK))
    assert model.requests[1].messages[1].content == "(no answer)"


def test_still_unreadable_is_unreadable(model: Model) -> None:
    model.otherwise = says("Hm.")
    call = execute(paid_call(), Question(repair=ASK))
    assert (call.state, call.requests, call.error) == ("unreadable", 2, "No verdict.")
    assert call.verdict is None


def test_without_a_repair_message_there_is_one_turn(model: Model) -> None:
    model.otherwise = says("Hm.")
    call = execute(paid_call())
    assert (call.state, call.turn, call.requests) == ("unreadable", 0, 1)


def test_a_worker_that_dies_between_the_turns_loses_nothing(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.outcomes = [says("Hm."), says("A")]
    begin = execution._begin_second_turn

    def die(*args: object) -> None:
        begin(*args)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(execution, "_begin_second_turn", die)
    call = paid_call()
    with pytest.raises(KeyboardInterrupt):
        execute(call, Question(repair=ASK))
    call.refresh_from_db()
    assert (call.state, call.turn, call.reply, call.reserved) == ("waiting", 1, "Hm.", 0)
    assert call.cost > 0
    call = execute(call, Question(repair=ASK))
    assert (call.state, len(model.requests)) == ("done", 2)
    assert call.enqueue_after is not None


def test_a_second_turn_that_fails_is_tried_again_on_its_own(model: Model) -> None:
    model.outcomes = [says("Hm."), RetryableError("HTTP 500"), says("A")]
    call = execute(paid_call(), Question(repair=ASK))
    assert (call.state, call.turn) == ("waiting", 1)
    call = execute(call, Question(repair=ASK))
    assert (call.state, call.reply, call.repair_reply) == ("done", "Hm.", "A")


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (TooLongError("Too long."), "unreadable"),
        (RejectedError("HTTP 400"), "unreadable"),
        (ModelRefusedError("No."), "refused"),
    ],
)
def test_a_second_turn_not_taken_leaves_the_first_as_it_was(
    model: Model, error: Exception, state: str
) -> None:
    model.outcomes = [says("Hm."), error]
    call = execute(paid_call(), Question(repair=ASK))
    assert (call.state, call.reply, call.error) == (state, "Hm.", str(error))
