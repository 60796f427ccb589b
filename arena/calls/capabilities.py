"""What models support: probed once, and learned from servers that reject a parameter."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models.signals import post_delete, post_save

from arena.calls.models import Capability
from arena.calls.providers.base import (
    LOGPROBS,
    SCHEMA,
    EndpointStoppedError,
    Request,
    UnsupportedParameterError,
)
from arena.calls.providers.probe import probe
from arena.calls.remembered import Remembered
from arena.endpoints import endpoint_named, provider_for

# Separates a rejected parameter from the name the server wants instead, as stored.
ARROW = " -> "
# Capabilities by the request parameter that needs them.
ABILITIES = {
    SCHEMA: "json_schema",
    LOGPROBS: "logprobs",
    "temperature": "temperature",
    "seed": "seed",
}


def capability_of(endpoint: str, model: str) -> Capability | None:
    """Return what is known of a model, cached for a few seconds; None if nothing is."""
    return _remembered.get((endpoint, model))


def probe_endpoint(endpoint: str, model: str, now: datetime) -> Capability:
    """Probe what a model supports with a handful of tiny requests, and store it.

    Raises UnknownEndpointError, or EndpointStoppedError if nothing can be asked.
    """
    result = probe(provider_for(endpoint_named(endpoint)), model)
    if not result.ok:
        raise EndpointStoppedError(result.problem)
    able = {name: getattr(result, name) for name in ABILITIES.values()}
    values = able | {"probed_at": now, "dropped": []}
    capability, _ = Capability.objects.update_or_create(
        endpoint=endpoint, model=model, defaults=values
    )
    return capability


@transaction.atomic
def note_unsupported(*, endpoint: str, model: str, error: UnsupportedParameterError) -> None:
    """Remember that a server rejects a parameter, so that it is not sent again."""
    Capability.objects.get_or_create(endpoint=endpoint, model=model)
    row = Capability.objects.select_for_update().get(endpoint=endpoint, model=model)
    if error.parameter in ABILITIES:
        setattr(row, ABILITIES[error.parameter], False)
    elif (entry := entry_of(error)) not in row.dropped:
        row.dropped = [*row.dropped, entry]
    row.save()
    transaction.on_commit(_remembered.forget)


def entry_of(error: UnsupportedParameterError) -> str:
    """A rejected parameter as stored, with the name wanted instead if any."""
    return ARROW.join(filter(None, [error.parameter, error.instead]))


def fitted(request: Request, capability: Capability | None) -> tuple[Request, list[str]]:
    """Return `request` without unsupported parameters, and what was left out."""
    if capability is None:
        return request, []
    entries = [name for name, able in ABILITIES.items() if getattr(capability, able) is False]
    return without(request, [*entries, *capability.dropped])


def without(request: Request, entries: Sequence[str]) -> tuple[Request, list[str]]:
    """Return `request` without `entries`, and those of them it had."""
    dropped = []
    for entry in entries:
        name, _, instead = entry.partition(ARROW)
        less = request.without(name, instead)
        if less != request:
            dropped.append(entry)
        request = less
    return request, dropped


def _look_up(key: tuple[str, str]) -> Capability | None:
    return Capability.objects.filter(endpoint=key[0], model=key[1]).first()


_remembered = Remembered(_look_up, missing_too=True)
post_save.connect(_remembered.forget, sender=Capability)
post_delete.connect(_remembered.forget, sender=Capability)
