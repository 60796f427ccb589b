"""The model servers that operators add in the browser."""

import logging
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from arena.actors import Actor
from arena.calls.models import Capability, EndpointPace, ModelEndpoint, Price
from arena.calls.prices import set_price
from arena.calls.providers.base import EndpointStoppedError, checked_key
from arena.encryption import ENDPOINT_KEYS, encrypt
from arena.endpoints import FIELDS, NAME, UnknownEndpointError, check_version
from arena.errors import ServiceError

LABELS = {
    "provider": "The kind",
    "base_url": "The address",
    "timeout": "The time limit",
    "concurrency": "The number of requests at once",
    "requests_per_minute": "The limit of requests",
    "tokens_per_minute": "The limit of tokens",
    "idempotent": "The answer about Idempotency-Key",
}
LONGEST_KEY = 4000
# Half of a short key would be shown.
LEAST_KEY_WITH_HINT = 16
HINT = 4
log = logging.getLogger(__name__)


class ModelEndpointError(ServiceError):
    """An endpoint that cannot be saved or deleted."""


@transaction.atomic
def add_endpoint(
    *, name: str, values: Mapping[str, Any], key: str, by: Actor, now: datetime
) -> ModelEndpoint:
    """Add an endpoint; `values` are those of LABELS. Raises ModelEndpointError."""
    if not NAME.fullmatch(name):
        raise ModelEndpointError(
            "A name has 1 to 100 letters, digits, dots, hyphens or underscores.", field="name"
        )
    if name in settings.MODEL_ENDPOINTS:
        raise ModelEndpointError("MODEL_ENDPOINTS has an endpoint of this name.", field="name")
    row = ModelEndpoint(name=name, created_at=now)
    _set_values(row, values)
    _set_key(row, key)
    row.changed_at = now
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        raise ModelEndpointError("There is an endpoint of this name.", field="name") from None
    log.info("%s added the model endpoint %s at %s.", by.name, name, row.base_url)
    return row


@transaction.atomic
def change_endpoint(
    *,
    endpoint: ModelEndpoint,
    values: Mapping[str, Any],
    key: str | None,
    by: Actor,
    now: datetime,
) -> ModelEndpoint:
    """Change an endpoint; without a `key` it keeps its own. Raises ModelEndpointError.

    A key is only sent to the address for which it was entered: a new address needs it again.
    """
    row = ModelEndpoint.objects.select_for_update().get(pk=endpoint.pk)
    address = row.base_url
    _set_values(row, values)
    if key is not None:
        _set_key(row, key)
    elif row.encrypted_key and row.base_url != address:
        raise ModelEndpointError(
            "The address has changed. Enter the key again, or remove it.", field="key"
        )
    if key is not None or row.base_url != address:  # what was tested is no more
        tested = Capability.objects.filter(endpoint=row.name)
        tested.update(tested_at=None, test_seconds=None, test_error="")
    row.changed_at = now
    row.save()
    log.info("%s changed the model endpoint %s at %s.", by.name, row.name, row.base_url)
    return row


@transaction.atomic
def switch_endpoint(*, endpoint: ModelEndpoint, is_on: bool, by: Actor, now: datetime) -> None:
    """Switch an endpoint on or off. While it is off, nothing is sent to it."""
    row = ModelEndpoint.objects.select_for_update().get(pk=endpoint.pk)
    row.is_on, row.changed_at = is_on, now
    row.save(update_fields=["is_on", "changed_at"])
    log.info("%s switched the model endpoint %s %s.", by.name, row.name, "on" if is_on else "off")


@transaction.atomic
def remove_endpoint(*, endpoint: ModelEndpoint, by: Actor) -> None:
    """Delete an endpoint, and what is known of its models."""
    if endpoint.name not in settings.MODEL_ENDPOINTS:
        for model in (Price, Capability, EndpointPace):
            model._default_manager.filter(endpoint=endpoint.name).delete()
    ModelEndpoint.objects.filter(pk=endpoint.pk).delete()
    log.info("%s deleted the model endpoint %s.", by.name, endpoint.name)


def _set_values(row: ModelEndpoint, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        try:
            setattr(row, name, FIELDS[name](LABELS[name], value))
        except ValueError as error:
            raise ModelEndpointError(str(error), field=name) from None
    try:
        check_version(LABELS["base_url"], row.provider, row.base_url)
    except ValueError as error:
        raise ModelEndpointError(str(error), field="base_url") from None


def _set_key(row: ModelEndpoint, key: str) -> None:
    key = key.strip()
    try:
        checked_key(key)
    except EndpointStoppedError:
        raise ModelEndpointError(
            "A key has no spaces, accents or line breaks.", field="key"
        ) from None
    if len(key) > LONGEST_KEY or " " in key:
        raise ModelEndpointError(
            f"A key has at most {LONGEST_KEY:,} characters, without spaces.", field="key"
        )
    row.encrypted_key = encrypt(key, ENDPOINT_KEYS) if key else ""
    row.key_hint = key[-HINT:] if len(key) >= LEAST_KEY_WITH_HINT else ""


@transaction.atomic
def set_model(
    *,
    endpoint: str,
    model: str,
    price: tuple[Decimal, Decimal, Decimal | None] | None,
    by: Actor,
    now: datetime,
) -> None:
    """List a model at an endpoint, and set its price in dollars. Raises ModelEndpointError."""
    Capability.objects.get_or_create(endpoint=endpoint, model=model)
    if price is not None:
        given, answered, cached = price
        try:
            set_price(
                endpoint=endpoint,
                model=model,
                input_usd=given,
                output_usd=answered,
                cached_usd=cached,
                now=now,
            )
        except (ValidationError, UnknownEndpointError) as error:
            raise ModelEndpointError(" ".join(getattr(error, "messages", [str(error)]))) from None
        log.info("%s set the price of %s at %s.", by.name, model, endpoint)
