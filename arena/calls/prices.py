"""The prices of models: set by an operator, or in the endpoint's settings."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models.signals import post_delete, post_save

from arena.calls.models import CachedLookup, Price
from arena.endpoints import ModelPrice, UnknownEndpointError, all_endpoints, endpoint_named
from arena.validation import MOST, NANO

SCRIPTED_MODEL = "scripted-1"


@dataclass(frozen=True)
class Rate:
    """Nano-dollars per million tokens; cached input costs as much as other input if None."""

    input_per_million: int
    output_per_million: int
    cached_per_million: int | None = None


def price_of(endpoint: str, model: str) -> Rate | None:
    """Return what `model` costs at `endpoint`; None if no price is set.

    The operator's entry comes first, then the settings; scripted models cost nothing.
    """
    return _prices.get((endpoint, model))


@transaction.atomic
def set_price(
    *,
    endpoint: str,
    model: str,
    input_usd: Decimal,
    output_usd: Decimal,
    now: datetime,
    cached_usd: Decimal | None = None,
) -> Price:
    """Set the price of a million tokens, in dollars; 0 is a price. `cached_usd`: of cached input.

    Raises ValidationError for an invalid amount, UnknownEndpointError for an unknown endpoint.
    """
    endpoint_named(endpoint)
    if not model or len(model) > 200:
        raise ValidationError("A model's name must have 1 to 200 characters.")
    rate = {
        "input_per_million": nano_per_million(input_usd),
        "output_per_million": nano_per_million(output_usd),
        "cached_per_million": None if cached_usd is None else nano_per_million(cached_usd),
    }
    if (rate["cached_per_million"] or 0) > (rate["input_per_million"] or 0):
        raise ValidationError("Cached input must not cost more than other input.")
    price, _ = Price.objects.update_or_create(
        endpoint=endpoint, model=model, defaults=rate | {"entered_at": now}
    )
    return price


def nano_per_million(usd: Decimal) -> int:
    """Turn dollars per million tokens into nano-dollars; raises ValidationError for an invalid
    amount."""
    try:
        amount = Decimal(usd)
    except (InvalidOperation, TypeError, ValueError):
        raise ValidationError(f"{usd!r} is not an amount in dollars.") from None
    if not amount.is_finite() or not 0 <= amount <= MOST:
        raise ValidationError(
            f"A price must be between 0 and {MOST:,} dollars per million tokens, not {usd}."
        )
    nano = amount * NANO
    if nano != int(nano):
        raise ValidationError(f"A price can have at most nine decimals, not {usd}.")
    return int(nano)


def all_prices() -> list[tuple[str, str, Rate, str]]:
    """Return (endpoint, model, rate, source) of every known price."""
    known = {
        (endpoint.name, model): (_rate_of(price), "settings")
        for endpoint in all_endpoints().values()
        for model, price in endpoint.prices.items()
    }
    entered = {(row.endpoint, row.model): (_rate_of(row), "entered") for row in Price.objects.all()}
    return [(*names, *details) for names, details in sorted((known | entered).items())]


def known_models() -> list[tuple[str, str]]:
    """Return (endpoint, model) of every model with a price, and one of each scripted endpoint."""
    endpoints = all_endpoints()
    scripted = [
        (endpoint.name, SCRIPTED_MODEL)
        for endpoint in endpoints.values()
        if endpoint.provider == "scripted"
    ]
    priced = [(endpoint, model) for endpoint, model, *_ in all_prices()]
    priced = [pair for pair in priced if pair[0] in endpoints]
    return [*scripted, *(pair for pair in priced if pair not in scripted)]


def _find_price(key: tuple[str, str]) -> Rate | None:
    name, model = key
    row = Price.objects.filter(endpoint=name, model=model).first()
    if row is not None:
        return _rate_of(row)
    try:
        given = endpoint_named(name).price_of(model)
    except UnknownEndpointError:
        return None
    return _rate_of(given) if given else None


def _rate_of(price: Price | ModelPrice) -> Rate:
    return Rate(price.input_per_million, price.output_per_million, price.cached_per_million)


_prices = CachedLookup(_find_price)
post_save.connect(_prices.forget, sender=Price)
post_delete.connect(_prices.forget, sender=Price)
