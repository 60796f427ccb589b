"""MODEL_ENDPOINTS: what an operator may configure, and errors with a sentence."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from environs import Env
from hypothesis import given
from hypothesis import strategies as st

from arena.calls.providers.anthropic import AnthropicProvider
from arena.calls.providers.base import EndpointStoppedError
from arena.calls.providers.openai import OpenAIProvider
from arena.calls.providers.scripted import ScriptedProvider
from arena.endpoints import Endpoint, ModelPrice, provider_for, read_endpoints
from tests.environment import REPOSITORY

KEY = "sk-live-0123456789abcdef"
GOOD = {"provider": "openai", "base_url": "http://127.0.0.1:8001/v1"}


def read(monkeypatch: pytest.MonkeyPatch, endpoints: Any) -> dict[str, Endpoint]:
    monkeypatch.setenv("MODEL_ENDPOINTS", json.dumps(endpoints))
    return read_endpoints(Env())


def read_one(monkeypatch: pytest.MonkeyPatch, **spec: Any) -> Endpoint:
    return read(monkeypatch, {"local": GOOD | spec})["local"]


def test_everything_that_can_be_said_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = read_one(
        monkeypatch,
        key_env="LOCAL_KEY",
        timeout=30,
        requests_per_minute=600,
        tokens_per_minute=90_000,
        idempotent=True,
        prices={
            "judge-1": {"input": 0.15, "output": 0.6},
            "free": {"input": 0, "output": 0},
            "caches": {"input": 2, "cached": 0.5, "output": 8},
        },
    )
    assert endpoint.idempotent
    assert endpoint.price_of("caches") == ModelPrice(2 * 10**9, 8 * 10**9, 5 * 10**8)
    assert (endpoint.requests_per_minute, endpoint.tokens_per_minute) == (600, 90_000)
    assert endpoint.timeout == 30.0
    assert endpoint.price_of("judge-1") == ModelPrice(150_000_000, 600_000_000)
    assert endpoint.price_of("free") == ModelPrice(0, 0)
    assert endpoint.price_of("another") is None
    assert isinstance(hash(endpoint), int)


def test_what_is_not_said_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = read_one(monkeypatch)
    assert (endpoint.requests_per_minute, endpoint.tokens_per_minute) == (None, None)
    assert endpoint.price_of("judge-1") is None


def test_the_scripted_endpoint_is_always_there_and_free(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = read(monkeypatch, {"local": GOOD})["scripted"]
    assert endpoint.price_of("scripted-1") == ModelPrice(0, 0)
    assert isinstance(provider_for(endpoint), ScriptedProvider)


def test_each_provider_has_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoints = read(monkeypatch, {"local": GOOD, "claude": {"provider": "anthropic"}})
    assert endpoints["claude"].base_url == "https://api.anthropic.com"
    assert isinstance(provider_for(endpoints["claude"]), AnthropicProvider)
    assert isinstance(provider_for(endpoints["local"]), OpenAIProvider)


@given(st.decimals(min_value=0, max_value=1000, places=9))
def test_a_price_is_exact_to_the_nano_dollar(price: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        endpoint = read_one(patch, prices={"m": {"input": float(price), "output": 1}})
    assert endpoint.price_of("m") == ModelPrice(int(price * 10**9), 10**9)


SPEC = [
    ({"provider": "gemini"}, "provider must be one of"),
    ({"provider": ["openai"]}, "provider must be one of"),
    ({"base_url": 8}, "base_url must be one line of text"),
    ({"base_url": ""}, "base_url must be one line of text"),
    ({"base_url": "http://x\ny"}, "base_url must be one line of text"),
    ({"base_url": "http://x y"}, "base_url must be an http"),
    ({"base_url": "http://host:port"}, "base_url must be an http"),
    ({"base_url": "http://[::1"}, "base_url must be an http"),
    ({"base_url": f"http://user:{KEY}@host"}, "without a user name, password or query"),
    ({"base_url": f"http://host/?key={KEY}"}, "without a user name, password or query"),
    ({"provider": "anthropic", "base_url": "http://host/v1/"}, "must not end in /v1"),
    ({"key_env": KEY}, "not a key itself"),
    ({"key_env": None}, "key_env must be one line of text"),
    ({"key_env": "A", "key_file": "/b"}, "not both"),
    ({"key": KEY}, "Unknown: key"),
    ({"timeout": "30"}, "timeout must be a number of seconds"),
    ({"timeout": 0}, "timeout must be a number of seconds"),
    ({"timeout": True}, "timeout must be a number of seconds"),
    ({"timeout": float("nan")}, "timeout must be a number of seconds"),
    ({"timeout": float("inf")}, "timeout must be a number of seconds"),
    ({"requests_per_minute": 0}, "requests_per_minute must be a whole number"),
    ({"requests_per_minute": 1.5}, "requests_per_minute must be a whole number"),
    ({"requests_per_minute": ""}, "requests_per_minute must be a whole number"),
    ({"tokens_per_minute": "many"}, "tokens_per_minute must be a whole number"),
    ({"tokens_per_minute": 10**400}, "tokens_per_minute must be a whole number"),
    ({"idempotent": "yes"}, "idempotent must be true or false"),
    ({"prices": {"m": {"input": 1, "output": 1, "cached": 2}}}, "cached must not be more"),
    ({"prices": {"m": {"input": 1, "output": 1, "other": 2}}}, "optionally, cached"),
    ({"prices": 3}, "prices must be an object"),
    ({"prices": {"m": 3}}, "input, output and"),
    ({"prices": {"m": {"input": 1}}}, "input, output and"),
    ({"prices": {"m": {"input": -1, "output": 1}}}, "a number from 0"),
    ({"prices": {"m": {"input": "1", "output": 1}}}, "a number from 0"),
    ({"prices": {"m": {"input": float("nan"), "output": 1}}}, "a number from 0"),
    ({"prices": {"m": {"input": 1e-10, "output": 1}}}, "more than nine decimals"),
]


@pytest.mark.parametrize(("change", "words"), SPEC)
def test_nonsense_gets_a_sentence_that_repeats_no_key(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match="MODEL_ENDPOINTS") as caught:
        read_one(monkeypatch, **change)
    sentence = str(caught.value)
    assert "local" in sentence
    assert words in sentence
    assert KEY not in sentence
    assert len(sentence.splitlines()) == 1


@pytest.mark.parametrize(
    ("endpoints", "words"),
    [
        ({"scripted": GOOD}, "reserved for the scripted endpoint"),
        ({"a:b": GOOD}, "a name has"),
        ({"": GOOD}, "a name has"),
        ({"local": "openai"}, "must be an object"),
        ({"local": {"provider": "openai"}}, "base_url must be an http"),
    ],
)
def test_a_whole_endpoint_may_be_wrong(
    monkeypatch: pytest.MonkeyPatch, endpoints: Any, words: str
) -> None:
    with pytest.raises(ValueError, match="MODEL_ENDPOINTS") as caught:
        read(monkeypatch, endpoints)
    assert words in str(caught.value)


def test_a_broken_value_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_ENDPOINTS", '{"local": {"key": "' + KEY)
    with pytest.raises(Exception, match="MODEL_ENDPOINTS") as caught:
        read_endpoints(Env())
    assert KEY not in str(caught.value)


def test_the_key_comes_from_the_environment_or_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    by_name = Endpoint("local", "openai", key_env="LOCAL_KEY")
    by_file = Endpoint("local", "openai", key_file=str(tmp_path / "key"))
    monkeypatch.delenv("LOCAL_KEY", raising=False)
    assert by_name.key() == ""
    monkeypatch.setenv("LOCAL_KEY_FILE", str(tmp_path / "key"))
    assert by_name.key() == by_file.key() == KEY
    monkeypatch.setenv("LOCAL_KEY", "sk-of-the-variable")
    assert by_name.key() == "sk-of-the-variable"
    assert Endpoint("local", "openai").key() == ""


def test_a_key_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_KEY", KEY)
    endpoint = read_one(monkeypatch, key_env="LOCAL_KEY")
    assert KEY not in repr(endpoint)
    assert KEY not in str(endpoint)


def test_an_unreadable_key_is_reported_when_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00key")
    for file in ("binary", "missing"):
        endpoint = Endpoint("local", "openai", "http://127.0.0.1:9", key_file=str(tmp_path / file))
        with pytest.raises(EndpointStoppedError, match=r"key"):
            provider_for(endpoint)


@pytest.mark.slow
def test_commands_wait_for_no_pages_and_pages_for_no_sdk() -> None:
    code = (
        "import sys, django; django.setup();"
        "assert not {'arena.urls', 'arena.admin', 'judges.services'} & set(sys.modules);"
        "import arena.urls;"
        "assert not {'openai', 'anthropic', 'scipy.stats'} & set(sys.modules)"
    )
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "arena.settings"}
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, env=environment, check=True)
