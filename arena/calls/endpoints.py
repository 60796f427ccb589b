"""From the name of an endpoint to a provider that can be asked."""

from datetime import timedelta

from django.conf import settings
from django.utils.module_loading import import_string

from arena.calls.providers.base import Provider, Stopped
from arena.calls.providers.scripted import ScriptedProvider
from arena.conf.endpoints import Endpoint

# Loaded when first asked: their SDKs take two seconds, which only workers should wait for.
CLIENTS = {
    "anthropic": "arena.calls.providers.anthropic.AnthropicProvider",
    "openai": "arena.calls.providers.openai.OpenAIProvider",
}


class UnknownEndpoint(LookupError):
    """No endpoint of this name is configured; the message names those that are."""


def endpoint_named(name: str) -> Endpoint:
    """Return the endpoint that the operator configured as `name`, or raise UnknownEndpoint."""
    endpoints: dict[str, Endpoint] = settings.MODEL_ENDPOINTS
    if name not in endpoints:
        known = ", ".join(sorted(endpoints))
        raise UnknownEndpoint(
            f"There is no model endpoint called {name!r}. MODEL_ENDPOINTS knows: {known}."
        )
    return endpoints[name]


def provider_for(endpoint: Endpoint) -> Provider:
    """Return a client of `endpoint`; raises Stopped where its key is not there."""
    if endpoint.provider == "scripted":
        return ScriptedProvider()
    client = import_string(CLIENTS[endpoint.provider])
    provider: Provider = client(
        base_url=endpoint.base_url, key=key_of(endpoint), timeout=endpoint.timeout
    )
    return provider


def key_of(endpoint: Endpoint) -> str:
    """Return the key of `endpoint`, '' where it has none; raises Stopped where one is missing."""
    try:
        key = endpoint.key()
    except OSError as error:
        raise Stopped(f"The key of endpoint {endpoint.name} cannot be read: {error}") from None
    if not key and (endpoint.key_env or endpoint.key_file):
        where = endpoint.key_file or endpoint.key_env
        raise Stopped(f"The key of endpoint {endpoint.name} is missing: {where} is empty.")
    return key


def lease_of(endpoint: Endpoint) -> timedelta:
    """Return how long a worker may hold a call: twice the timeout, and time to write it down."""
    return timedelta(seconds=2 * endpoint.timeout + 5)
