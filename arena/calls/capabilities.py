"""What models can do: probed once, and learned from servers that turn a parameter down."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models.signals import post_delete, post_save

from arena.calls.endpoints import endpoint_named, provider_for
from arena.calls.models import Capability
from arena.calls.providers.base import LOGPROBS, SCHEMA, Request, Stopped, Unsupported
from arena.calls.providers.probing import probe
from arena.calls.remembering import Remembered

# A parameter that the server does not take, and the name it wants instead, as they are stored.
ARROW = " -> "
# What of a request stands for an ability, by the parameter's name.
ABILITIES = {
    SCHEMA: "json_schema",
    LOGPROBS: "logprobs",
    "temperature": "temperature",
    "seed": "seed",
}


def capability_of(endpoint: str, model: str) -> Capability | None:
    """Return what is known of a model, remembered for a few seconds; None before anything is."""
    return _remembered.get((endpoint, model))


def probe_endpoint(endpoint: str, model: str, now: datetime) -> Capability:
    """Try out what a model can do, and store it; costs a handful of tiny requests.

    Raises UnknownEndpoint, or Stopped with a sentence where nothing can be asked at all.
    """
    found = probe(provider_for(endpoint_named(endpoint)), model)
    if not found.ok:
        raise Stopped(found.problem)
    able = {name: getattr(found, name) for name in ABILITIES.values()}
    values = able | {"probed_at": now, "dropped": []}
    capability, _ = Capability.objects.update_or_create(
        endpoint=endpoint, model=model, defaults=values
    )
    return capability


@transaction.atomic
def note_unsupported(*, endpoint: str, model: str, error: Unsupported) -> None:
    """Remember that a server does not take a parameter, so that nobody sends it again."""
    Capability.objects.get_or_create(endpoint=endpoint, model=model)
    row = Capability.objects.select_for_update().get(endpoint=endpoint, model=model)
    if error.parameter in ABILITIES:
        setattr(row, ABILITIES[error.parameter], False)
    elif (entry := entry_of(error)) not in row.dropped:
        row.dropped = [*row.dropped, entry]
    row.save()
    transaction.on_commit(_remembered.forget)


def entry_of(error: Unsupported) -> str:
    """How a parameter that was turned down is written, with the name wanted instead if any."""
    return ARROW.join(filter(None, [error.parameter, error.instead]))


def fitted(request: Request, capability: Capability | None) -> tuple[Request, list[str]]:
    """Return `request` without what the model is known not to take, and what was left out."""
    if capability is None:
        return request, []
    entries = [name for name, able in ABILITIES.items() if getattr(capability, able) is False]
    return without(request, [*entries, *capability.dropped])


def without(request: Request, entries: Sequence[str]) -> tuple[Request, list[str]]:
    """Take `entries` out of `request`; return it, and those that it had."""
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
