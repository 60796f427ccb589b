"""The loopback server itself: what other tests rely on."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from arena.calls.providers.anthropic import AnthropicProvider
from arena.calls.providers.base import Message, Provider, ProviderError, Request
from arena.calls.providers.openai import OpenAIProvider
from tests.judges.fake_server import (
    MODEL,
    FakeServer,
    after,
    fails,
    half_a_body,
    replays,
    says,
    with_faults,
)

THREADS, REQUESTS, LATENCY = 32, 160, 0.2


def clients(server: FakeServer) -> list[Provider]:
    return [
        OpenAIProvider(base_url=server.base_url, key="", timeout=10),
        AnthropicProvider(base_url=server.anthropic_url, key="", timeout=10),
    ]


def asked(text: str) -> Request:
    return Request(MODEL, (Message("system", "You judge."), Message("user", text)))


@pytest.mark.slow
def test_both_formats_are_answered_side_by_side_with_latency(server: FakeServer) -> None:
    server.otherwise = after(LATENCY, says("A"))
    both = clients(server)
    for client in both:
        client.complete(asked("warm up"))
    began = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        replies = list(pool.map(lambda i: both[i % 2].complete(asked(str(i))), range(REQUESTS)))
    took = time.monotonic() - began
    assert {reply.text for reply in replies} == {"A"}
    assert len(server.requests) == REQUESTS + 2
    assert took >= REQUESTS * LATENCY / THREADS
    assert took < REQUESTS * LATENCY / 3, "the requests waited for one another"


def test_stored_replies_are_found_by_a_marker(server: FakeServer) -> None:
    server.otherwise = replays({"first marker": "one", "second marker": "two"})
    for client in clients(server):
        assert client.complete(asked("... second marker ...")).text == "two"
        with pytest.raises(ProviderError, match="no reply is stored"):
            client.complete(asked("another"))


def test_faults_are_thrown_by_a_seeded_die(server: FakeServer) -> None:
    outcomes: list[list[str]] = []
    for _ in range(2):
        server.otherwise = with_faults([fails(500), half_a_body], 0.3, says("A"), seed=1)
        outcomes.append([_outcome(clients(server)[0]) for _ in range(60)])
    assert outcomes[0] == outcomes[1]
    counts = Counter(outcomes[0])
    assert len(counts) == 3
    assert 30 < counts["A"] < 55


def _outcome(client: Provider) -> str:
    try:
        return client.complete(asked("x")).text
    except ProviderError as error:
        return str(error)[:12]


def test_billing_counts_lost_answers_too(server: FakeServer) -> None:
    server.script.extend([says("A", tokens_in=7, tokens_out=3), half_a_body, fails(500)])
    for _ in range(3):
        _outcome(clients(server)[0])
    assert server.billed == [(7, 3), (100, 20)]


def test_an_unknown_path_is_not_found(server: FakeServer) -> None:
    client = OpenAIProvider(base_url=f"{server.base_url}/v1", key="", timeout=5)
    with pytest.raises(ProviderError, match="404"):
        client.complete(asked("x"))
    assert server.requests == []
