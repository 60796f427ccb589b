"""The model servers that operators allow, in MODEL_ENDPOINTS and in the database; teams add none.

MODEL_ENDPOINTS='{"local": {"provider": "openai", "base_url": "http://127.0.0.1:8001/v1",
                            "key_env": "LOCAL_KEY", "requests_per_minute": 600,
                            "prices": {"judge-7b-1.0": {"input": 0.15, "output": 0.6}}}}'

Prices are US dollars per million tokens; `cached` is the price of input from the server's cache, if
it is lower. `idempotent`: the server answers a repeated Idempotency-Key as before, without doing
the work again. Error messages never repeat a value, because it might be a key in the wrong field.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import import_string
from environs import Env

from arena.calls.providers.base import EndpointStoppedError, Provider
from arena.calls.providers.scripted import ScriptedProvider
from arena.db.recent import Recent
from arena.encryption import ENDPOINT_KEYS, KeyChangedError, decrypt
from arena.validation import MOST, NANO

CLIENTS = {
    "anthropic": "arena.calls.providers.anthropic.AnthropicProvider",
    "openai": "arena.calls.providers.openai.OpenAIProvider",
}
PROVIDERS = (*CLIENTS, "scripted")
DEFAULT_URLS = {"anthropic": "https://api.anthropic.com"}
LONGEST_TIMEOUT = 3600
LARGEST = 10**12
NAME = re.compile(r"[\w.-]{1,100}")
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True)
class ModelPrice:
    """What a model costs, in nano-dollars (10^-9 USD) per million tokens."""

    input_per_million: int
    output_per_million: int
    cached_per_million: int | None = None


@dataclass(frozen=True)
class Endpoint:
    """One model server. The key is read when a request is made and never shown by `repr`.

    `concurrency` is how many requests each worker may have under way. The limits per minute are
    None unless the operator set them; models without a price are missing from `prices`.
    """

    name: str
    provider: str
    base_url: str = ""
    key_env: str = ""
    key_file: str = ""
    timeout: float = 120.0
    concurrency: int = 8
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    idempotent: bool = False
    encrypted_key: str = field(default="", repr=False)
    is_on: bool = True
    prices: Mapping[str, ModelPrice] = field(default_factory=dict, hash=False)

    @property
    def is_paced(self) -> bool:
        """Whether the operator limited its requests or tokens per minute."""
        return bool(self.requests_per_minute or self.tokens_per_minute)

    def key(self) -> str:
        """Return the API key from the database, its file or the environment; '' if it needs none.

        The variable `<key_env>_FILE` may name the file too. Raises OSError or KeyChangedError if it
        cannot be read.
        """
        if self.encrypted_key:
            return decrypt(self.encrypted_key, ENDPOINT_KEYS)
        if not (self.key_env or self.key_file):
            return ""
        given = os.environ.get(self.key_env, "").strip()
        file = self.key_file or ("" if given else os.environ.get(f"{self.key_env}_FILE", ""))
        return Path(file).read_text(encoding="utf-8", errors="replace").strip() if file else given

    def price_of(self, model: str) -> ModelPrice | None:
        """Return the price of `model`, or None; scripted models are free."""
        free = ModelPrice(0, 0) if self.provider == "scripted" else None
        return self.prices.get(model, free)


def read_endpoints(env: Env) -> dict[str, Endpoint]:
    """Read MODEL_ENDPOINTS and add the scripted endpoint, which is not a real model."""
    #: MODEL_ENDPOINTS (none): the model servers that may be called, as JSON: `provider`,
    #: `base_url`, `key_env` (or `key_file`; `<key_env>_FILE` may name a file too), `timeout`,
    #: `concurrency` (calls at once per worker, 8 by default), `requests_per_minute`,
    #: `tokens_per_minute`, `prices` (`input`, `output`, and `cached` if input from the server's
    #: cache costs less), `idempotent` (true if the server answers a repeated `Idempotency-Key` as
    #: before, so that a request whose answer was lost is not billed twice)
    given: Any = env.json("MODEL_ENDPOINTS", {})
    if not isinstance(given, dict):
        raise ValueError("MODEL_ENDPOINTS must be a JSON object: name -> endpoint.")
    endpoints = {name: _read_endpoint(name, spec) for name, spec in given.items()}
    return {"scripted": Endpoint("scripted", "scripted")} | endpoints


def _read_endpoint(name: str, spec: Any) -> Endpoint:
    """Return one endpoint; raise ValueError with a sentence that names the endpoint and field."""
    if not NAME.fullmatch(name):
        raise ValueError(
            "MODEL_ENDPOINTS: a name has 1 to 100 letters, digits, dots, hyphens or underscores."
        )
    where = f"MODEL_ENDPOINTS[{name!r}]"
    fields_known = ", ".join(sorted(FIELDS))
    if not isinstance(spec, dict):
        raise ValueError(f"{where} must be an object with {fields_known}.")
    if unknown := sorted(set(spec) - set(FIELDS)):
        raise ValueError(
            f"{where} must be an object with {fields_known}. Unknown: {', '.join(unknown)[:100]}."
        )
    if spec.get("provider") not in PROVIDERS:
        raise ValueError(f"{where}: provider must be one of {PROVIDERS}.")
    fields = {key: FIELDS[key](f"{where}: {key}", value) for key, value in spec.items()}
    fields.setdefault("base_url", DEFAULT_URLS.get(fields["provider"], ""))
    endpoint = Endpoint(name=name, **fields)
    if endpoint.name == "scripted" and endpoint.provider != "scripted":
        raise ValueError(f"{where}: this name is reserved for the scripted endpoint.")
    if endpoint.key_env and endpoint.key_file:
        raise ValueError(f"{where}: give key_env or key_file, not both.")
    if endpoint.provider != "scripted" and not endpoint.base_url:
        raise ValueError(f"{where}: base_url must be an http(s) address.")
    check_version(f"{where}: base_url", endpoint.provider, endpoint.base_url)
    return endpoint


def check_version(where: str, provider: str, base_url: str) -> None:
    """Raise ValueError for /v1 in an address to which Anthropic's client adds it."""
    if provider == "anthropic" and base_url.rstrip("/").endswith("/v1"):
        raise ValueError(f"{where} of an anthropic endpoint must not end in /v1.")


def _read_text(where: str, given: Any) -> str:
    if not isinstance(given, str) or not given or not given.isprintable():
        raise ValueError(f"{where} must be one line of text.")
    return given


def _read_url(where: str, given: Any) -> str:
    parts = _split_url(_read_text(where, given))
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{where} must be an http(s) address.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(f"{where} must be an address without a user name, password or query.")
    return str(given)


def _split_url(url: str) -> SplitResult | None:
    """Return the parts of an address; None if it is invalid, such as one with a port of letters."""
    try:
        parts = urlsplit(url)
        return None if parts.port == 0 or " " in url else parts
    except ValueError:
        return None


def _read_variable(where: str, given: Any) -> str:
    if not VARIABLE.fullmatch(_read_text(where, given)):
        raise ValueError(
            f"{where} must be the name of an environment variable in capitals, not a key itself."
        )
    return str(given)


def _read_seconds(where: str, given: Any) -> float:
    if not _is_number(given) or not 0 < given <= LONGEST_TIMEOUT:
        raise ValueError(f"{where} must be a number of seconds up to {LONGEST_TIMEOUT}.")
    return float(given)


def _read_limit_per_minute(where: str, given: Any) -> int | None:
    return None if given is None else _read_count(where, given)


def _read_count(where: str, given: Any) -> int:
    if not _is_number(given) or given != int(given) or given < 1:
        raise ValueError(f"{where} must be a whole number, 1 or more.")
    return int(given)


def _read_flag(where: str, given: Any) -> bool:
    if not isinstance(given, bool):
        raise ValueError(f"{where} must be true or false.")
    return given


def _read_prices(where: str, given: Any) -> dict[str, ModelPrice]:
    if not isinstance(given, dict):
        raise ValueError(f"{where} must be an object: model -> input and output.")
    return {model: _read_price(f"{where}[{model!r}]", price) for model, price in given.items()}


def _read_price(where: str, given: Any) -> ModelPrice:
    if not isinstance(given, dict) or set(given) - {"cached"} != {"input", "output"}:
        raise ValueError(
            f"{where} must be an object with input, output and, optionally, cached, in dollars."
        )
    nano = {name: _read_nano_dollars(f"{where}: {name}", usd) for name, usd in given.items()}
    if nano.get("cached", 0) > nano["input"]:
        raise ValueError(f"{where}: cached must not be more than input.")
    return ModelPrice(nano["input"], nano["output"], nano.get("cached"))


def _read_nano_dollars(where: str, given: Any) -> int:
    """Return dollars as whole nano-dollars, from the number as typed, not its binary value."""
    if not _is_number(given) or not 0 <= given <= MOST:
        raise ValueError(f"{where} must be dollars per million tokens, a number from 0 to {MOST}.")
    exact = Decimal(str(given)) * NANO
    if exact != int(exact):
        raise ValueError(f"{where} has more than nine decimals.")
    return int(exact)


def _is_number(given: Any) -> bool:
    number = isinstance(given, int | float) and not isinstance(given, bool)
    return number and abs(given) <= LARGEST  # False for NaN and infinity


FIELDS: dict[str, Callable[[str, Any], Any]] = {
    "provider": _read_text,
    "base_url": _read_url,
    "key_env": _read_variable,
    "key_file": _read_text,
    "timeout": _read_seconds,
    "concurrency": _read_count,
    "requests_per_minute": _read_limit_per_minute,
    "tokens_per_minute": _read_limit_per_minute,
    "idempotent": _read_flag,
    "prices": _read_prices,
}


def all_endpoints() -> dict[str, Endpoint]:
    """Return the endpoints that may be asked, by name; those of the environment come first.

    Other processes see a change in the database within five seconds.
    """
    given: dict[str, Endpoint] = settings.MODEL_ENDPOINTS
    return given | {
        name: endpoint
        for name, endpoint in stored_endpoints.get().items()
        if endpoint.is_on and name not in given
    }


def _read_stored() -> dict[str, Endpoint]:
    rows = apps.get_model("arena", "ModelEndpoint")._default_manager.order_by("name")
    return {row.name: row.as_endpoint() for row in rows}


# The endpoints of the database, also those that are switched off.
stored_endpoints = Recent(_read_stored, "arena.ModelEndpoint")


class UnknownEndpointError(LookupError):
    """No endpoint of this name can be asked; the message names those that can."""


def endpoint_named(name: str) -> Endpoint:
    """Return the endpoint called `name`, or raise UnknownEndpointError."""
    endpoints = all_endpoints()
    if name in endpoints:
        return endpoints[name]
    if name in stored_endpoints.get():
        raise UnknownEndpointError(f"The model endpoint {name!r} is switched off.")
    choices = ", ".join(sorted(endpoints))
    raise UnknownEndpointError(
        f"There is no model endpoint called {name!r}. Choose from: {choices}."
    )


# Clients are imported on first use: their SDKs take two seconds to import, and only workers should
# wait that long.


def provider_for(endpoint: Endpoint) -> Provider:
    """Return a client of `endpoint`. Raises EndpointStoppedError if its key is missing."""
    if endpoint.provider == "scripted":
        return ScriptedProvider()
    client = import_string(CLIENTS[endpoint.provider])
    provider: Provider = client(
        base_url=endpoint.base_url, key=key_of(endpoint), timeout=endpoint.timeout
    )
    return provider


def key_of(endpoint: Endpoint) -> str:
    """Return the key of `endpoint`, '' if it needs none. Raises EndpointStoppedError."""
    try:
        key = endpoint.key()
    except OSError as error:
        raise EndpointStoppedError(
            f"The key of endpoint {endpoint.name} cannot be read: {error}"
        ) from None
    except KeyChangedError:
        raise EndpointStoppedError(
            f"The key of endpoint {endpoint.name} cannot be read because SECRET_KEY has changed."
            " Enter the key again."
        ) from None
    if not key and (endpoint.key_env or endpoint.key_file):
        where = endpoint.key_file or endpoint.key_env
        raise EndpointStoppedError(
            f"The key of endpoint {endpoint.name} is missing: {where} is empty."
        )
    return key


def lease_of(endpoint: Endpoint) -> timedelta:
    """Return how long a worker may hold a call: twice the timeout, plus time for the database."""
    return timedelta(seconds=2 * endpoint.timeout + 5)
