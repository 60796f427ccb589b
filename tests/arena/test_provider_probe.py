"""A model's capabilities are probed with a handful of requests, and never guessed."""

import json
from typing import Any

import pytest

from arena.calls import capabilities
from arena.calls.capabilities import Probed, probe
from arena.calls.providers.scripted import ScriptedProvider
from tests.arena.providers import DOWN, KEY, anthropic, openai
from tests.judges import fake_server
from tests.judges.fake_server import MODEL, Answer, FakeServer, Sent, completion, dislikes, fails

TOKENS = [("Hello", -0.1, [("Hello", -0.1), ("Hi", -2.5)])]


@pytest.fixture(autouse=True)
def _able(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.otherwise = able
    monkeypatch.setattr(capabilities, "PAUSES", (0.0,) * 4)


def able(body: dict[str, Any]) -> Sent:
    """A server that supports everything."""
    wanted = body.get("response_format", {}).get("json_schema", {}).get("schema")
    wanted = wanted or body.get("output_config", {}).get("format", {}).get("schema")
    if wanted:
        return completion(json.dumps({"word": wanted["properties"]["word"]["enum"][0]}))
    return completion("Hello", logprobs=TOKENS if body.get("logprobs") else None)


def abilities(found: Probed) -> tuple[bool, ...]:
    return (found.json_schema, found.temperature, found.seed, found.logprobs)


def without_ability(wire: str, otherwise: Answer = able) -> Answer:
    return dislikes(wire, f"{wire} is not supported", otherwise)


def test_a_server_that_can_do_it_all(server: FakeServer) -> None:
    found = probe(openai(server), MODEL)
    assert (found.ok, found.problem) == (True, "")
    assert abilities(found) == (True, True, True, True)
    assert found.requests == len(server.requests) == 5
    assert (found.tokens_in, found.tokens_out) == (500, 100)
    assert found.model_returned == MODEL
    assert {sent["max_tokens"] for sent in server.requests} == {16_384}


def test_a_model_with_less_room_is_asked_for_less(server: FakeServer) -> None:
    complains = fails(400, "max_tokens is too large: this model supports at most 8192 tokens.")
    server.otherwise = lambda body: complains(body) if body["max_tokens"] > 8192 else able(body)
    found = probe(openai(server), MODEL)
    assert abilities(found) == (True, True, True, True)
    assert [sent["max_tokens"] for sent in server.requests] == [16_384, *[4_096] * 5]


@pytest.mark.parametrize(
    ("wire", "left"),
    [
        ("response_format", (False, True, True, True)),
        ("temperature", (True, False, True, True)),
        ("seed", (True, True, False, True)),
        ("logprobs", (True, True, True, False)),
    ],
)
def test_what_is_not_taken_is_one_ability_less(
    server: FakeServer, wire: str, left: tuple[bool, ...]
) -> None:
    server.otherwise = without_ability(wire)
    found = probe(openai(server), MODEL)
    assert found.ok
    assert abilities(found) == left


@pytest.mark.parametrize(
    "text", ["Hello!", '```json\n{"word": "ringside-obeys"}\n```', '{"word": "hello"}', "[" * 9000]
)
def test_a_schema_counts_only_when_the_reply_obeys_it(server: FakeServer, text: str) -> None:
    server.otherwise = lambda body: completion(text) if "response_format" in body else able(body)
    assert abilities(probe(openai(server), MODEL)) == (False, True, True, True)


def test_log_probabilities_count_only_when_they_come_back(server: FakeServer) -> None:
    server.otherwise = lambda body: completion("Hello") if "logprobs" in body else able(body)
    assert abilities(probe(openai(server), MODEL)) == (True, True, True, False)


def test_another_name_for_the_limit_is_learned(server: FakeServer) -> None:
    server.otherwise = dislikes(
        "max_tokens", "'max_tokens' is not supported. Use 'max_completion_tokens' instead.", able
    )
    found = probe(openai(server), MODEL)
    assert abilities(found) == (True, True, True, True)
    assert found.limit == "max_completion_tokens"
    assert found.requests == len(server.requests) == 6


def test_a_server_that_takes_no_limit_is_asked_without(server: FakeServer) -> None:
    server.otherwise = without_ability("max_tokens")
    found = probe(openai(server), MODEL)
    assert (found.ok, found.limit) == (True, "")
    assert abilities(found) == (True, True, True, True)


def test_anthropics_format_has_no_seed_and_no_logprobs(server: FakeServer) -> None:
    found = probe(anthropic(server), MODEL)
    assert abilities(found) == (True, True, False, False)
    assert found.requests == len(server.requests) == 3
    server.otherwise = dislikes("temperature", "`temperature` is deprecated for this model.", able)
    assert abilities(probe(anthropic(server), MODEL)) == (True, False, False, False)


@pytest.mark.parametrize(
    ("answer", "words", "requests"),
    [
        (fails(401, f"Incorrect key {KEY}"), "HTTP 401", 1),
        (fails(404, "no such model"), "no such model", 1),
        (fails(429), "HTTP 429", 5),
        (fails(500), "HTTP 500", 5),
        (fails(400, "odd"), "odd", 1),
        (fake_server.half_a_body, "The connection broke", 5),
        (fake_server.wrong_json, "cannot be read", 5),
    ],
)
@pytest.mark.parametrize("client", [openai, anthropic])
def test_a_server_that_does_not_answer_is_not_ok_and_says_why(
    server: FakeServer, answer: Any, words: str, requests: int, client: Any
) -> None:
    server.otherwise = answer
    found = probe(client(server), MODEL)
    assert not found.ok
    assert words in found.problem
    assert KEY not in found.problem
    assert found.requests == len(server.requests) == requests


@pytest.mark.parametrize("turn", range(5))
@pytest.mark.parametrize("status", [429, 502])
def test_a_request_that_meets_a_busy_server_is_sent_again(
    server: FakeServer, turn: int, status: int
) -> None:
    server.script.extend([*[able] * turn, *[fails(status)] * 4])
    found = probe(openai(server), MODEL)
    assert (found.ok, abilities(found)) == (True, (True, True, True, True))
    assert found.requests == len(server.requests) == 9


def test_a_busy_server_is_given_the_time_that_it_asks_for(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(capabilities.time, "sleep", slept.append)
    monkeypatch.setattr(capabilities, "PAUSES", (0.5, 1.0))
    server.script.extend([fails(429, retry_after="3"), fails(502)])
    assert probe(openai(server), MODEL).ok
    assert [seconds for seconds in slept if seconds] == [3.0, 1.0]  # the server sleeps too


def test_nobody_waits_long_for_a_busy_server(server: FakeServer) -> None:
    server.otherwise = fails(429, retry_after="60")
    found = probe(openai(server), MODEL)
    assert (found.ok, found.requests) == (False, 1)


def test_a_server_that_is_down_is_not_ok() -> None:
    found = probe(openai(DOWN, key="", timeout=1), MODEL)
    assert (found.ok, abilities(found)) == (False, (False, False, False, False))
    assert "No connection" in found.problem


def test_a_server_busy_midway_says_nothing_about_abilities(server: FakeServer) -> None:
    server.script.extend([able, able, *[fails(429)] * 5])
    found = probe(openai(server), MODEL)
    assert (found.ok, found.requests) == (False, 7)
    assert abilities(found) == (False, False, False, False)
    assert (found.tokens_in, found.tokens_out) == (200, 40)


def test_the_scripted_model_can_do_it_all() -> None:
    found = probe(ScriptedProvider(), "scripted-1")
    assert (found.ok, *abilities(found)) == (True, True, True, True, True)
