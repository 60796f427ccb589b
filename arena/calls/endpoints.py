"""From the name of an endpoint to a provider that can be asked."""

from datetime import timedelta

from django.conf import settings

from arena.calls.providers.anthropic import AnthropicProvider
from arena.calls.providers.base import Provider, Stopped
from arena.calls.providers.openai import OpenAIProvider
from arena.calls.providers.scripted import ScriptedProvider
from arena.conf.endpoints import Endpoint


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
    client = AnthropicProvider if endpoint.provider == "anthropic" else OpenAIProvider
    return client(base_url=endpoint.base_url, key=key_of(endpoint), timeout=endpoint.timeout)


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
