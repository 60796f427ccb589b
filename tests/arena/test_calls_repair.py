"""The second turn: an unreadable reply is kept, and only the verdict is requested."""

import pytest

from arena.calls import execution
from arena.calls.providers.base import (
    ModelRefusedError,
    RejectedError,
    RetryableError,
    TooLongError,
)
from arena.models import Run
from tests.arena.ledger import Model, Question, books, cut_off, execute, paid_call, says

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
    begin = execution._ask_for_repair

    def die(*args: object) -> None:
        begin(*args)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(execution, "_ask_for_repair", die)
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


def test_a_reply_that_was_cut_off_is_asked_for_once_more_with_four_times_the_room(
    model: Model,
) -> None:
    model.outcomes = [cut_off("Let me"), says("A")]
    call = execute(paid_call(), Question(max_tokens=1024))
    assert [request.parameters["max_tokens"] for request in model.requests] == [1024, 4096]
    assert model.requests[0].messages == model.requests[1].messages
    assert (call.state, call.reply, call.error, call.requests) == ("done", "A", "", 2)


def test_without_a_limit_of_its_own_the_usual_one_is_widened(model: Model) -> None:
    model.outcomes = [cut_off("Let me"), says("A")]
    execute(paid_call(), Question())
    assert [request.parameters["max_tokens"] for request in model.requests] == [2048, 8192]


def test_a_reply_that_is_still_cut_off_says_at_how_many_tokens(model: Model) -> None:
    model.otherwise = cut_off("Let me")
    call = execute(paid_call(), Question(max_tokens=1024))
    assert (call.state, call.requests) == ("unreadable", 2)
    assert call.error == "The reply was cut off at 4,096 tokens."


def test_a_verdict_that_is_complete_is_not_asked_for_again(model: Model) -> None:
    model.otherwise = cut_off("A")
    assert (execute(paid_call()).state, len(model.requests)) == ("done", 1)


def test_the_second_turn_may_be_cut_off_too(model: Model) -> None:
    model.outcomes = [says("Hm."), cut_off("Let"), says("A")]
    call = execute(paid_call(), Question(repair=ASK, max_tokens=10))
    assert (call.state, call.reply, call.repair_reply) == ("done", "Hm.", "A")
    assert [request.parameters["max_tokens"] for request in model.requests] == [10, 10, 40]


def test_a_server_that_allows_no_more_room_leaves_the_reply_cut_off(model: Model) -> None:
    model.outcomes = [cut_off("Let me"), RejectedError("HTTP 400: at most 2000 tokens")]
    call = execute(paid_call(), Question(max_tokens=1024))
    assert (call.state, call.reply) == ("too_long", "Let me")
    assert call.error.startswith("The reply was cut off at 1,024 tokens. The server does not allow")
    assert "at most 2000 tokens" in call.error


def test_more_room_is_reserved_within_the_runs_cap(model: Model) -> None:
    # At $1 and $2 per million tokens: room for 1,024 tokens and their question, not for 4,096.
    model.outcomes = [cut_off("Let me"), says("A")]
    call = execute(paid_call(cap=4_000_000), Question(max_tokens=1024))
    assert (call.state, call.requests, len(model.requests)) == ("waiting", 1, 1)
    run = call.run
    assert run is not None
    assert (books(run)[1], run.state) == (0, Run.State.PAUSED)
    assert "cap" in run.pause_reason


def test_the_room_is_kept_while_the_server_is_busy(model: Model) -> None:
    model.outcomes = [cut_off("Let me"), RetryableError("HTTP 429"), says("A")]
    call = execute(paid_call(), Question(max_tokens=1024))
    assert (call.state, call.room) == ("waiting", 4)
    call = execute(call, Question(max_tokens=1024))
    assert call.state == "done"
    assert [request.parameters["max_tokens"] for request in model.requests] == [1024, 4096, 4096]
