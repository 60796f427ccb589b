"""Each provider of models, for a loopback server, and a request that all of them take."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from arena.calls.providers.anthropic import AnthropicProvider
from arena.calls.providers.base import Message, Provider, Request
from arena.calls.providers.openai import OpenAIProvider
from arena.calls.providers.scripted import ScriptedProvider
from tests.judges.fake_server import MODEL, FakeServer

DOWN: Any = SimpleNamespace(base_url="http://127.0.0.1:9/v1", anthropic_url="http://127.0.0.1:9")
KEY = "sk-very-secret-key-123"
ASKED = Request(
    MODEL,
    (Message("system", "Judge. VERDICT-00000000"), Message("user", "This.")),
    {"temperature": 0, "max_tokens": 50},
)
SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["A", "B"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}


def openai(server: FakeServer, key: str = KEY, timeout: float = 5.0) -> Provider:
    return OpenAIProvider(base_url=server.base_url, key=key, timeout=timeout)


def anthropic(server: FakeServer, key: str = KEY, timeout: float = 5.0) -> Provider:
    return AnthropicProvider(base_url=server.anthropic_url, key=key, timeout=timeout)


def scripted(server: FakeServer, **_: Any) -> Provider:
    return ScriptedProvider()


WIRES: list[Callable[..., Provider]] = [openai, anthropic]
PROVIDERS = [*WIRES, scripted]
