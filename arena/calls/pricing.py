"""What models cost: entered by an operator, or written beside the endpoint in the settings."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models.signals import post_delete, post_save

from arena.calls.models import CachedLookup, Price
from arena.endpoints import ModelPrice, UnknownEndpointError, endpoint_named
from arena.validation import MOST, NANO

SCRIPTED_MODEL = "scripted-1"


@dataclass(frozen=True)
class Rate:
    """Nano-dollars per million tokens."""

    input_per_million: int
    output_per_million: int


def price_of(endpoint: str, model: str) -> Rate | None:
    """Return what `model` costs at `endpoint`; None where nobody has said.

    The operator's entry comes first, then the settings; what is scripted costs nothing.
    """
    return _remembered.get((endpoint, model))


@transaction.atomic
def set_price(
    *, endpoint: str, model: str, input_usd: Decimal, output_usd: Decimal, now: datetime
) -> Price:
    """Enter what a million tokens cost, in dollars; 0 is a price.

    Raises ValidationError for what is no amount, UnknownEndpointError for a name nobody configured.
    """
    endpoint_named(endpoint)
    if not model or len(model) > 200:
        raise ValidationError("A model's name has 1 to 200 characters.")
    rate = {
        "input_per_million": nano_per_million(input_usd),
        "output_per_million": nano_per_million(output_usd),
    }
    price, _ = Price.objects.update_or_create(
        endpoint=endpoint, model=model, defaults=rate | {"entered_at": now}
    )
    return price


def nano_per_million(usd: Decimal) -> int:
    """Turn dollars per million tokens into nano-dollars; raises ValidationError for nonsense."""
    try:
        amount = Decimal(usd)
    except (InvalidOperation, TypeError, ValueError):
        raise ValidationError(f"{usd!r} is no amount of dollars.") from None
    if not amount.is_finite() or not 0 <= amount <= MOST:
        raise ValidationError(
            f"A price is between 0 and {MOST:,} dollars per million tokens, not {usd}."
        )
    nano = amount * NANO
    if nano != int(nano):
        raise ValidationError(f"A price has at most nine digits after the point, not {usd}.")
    return int(nano)


def all_prices() -> list[tuple[str, str, Rate, str]]:
    """Return (endpoint, model, rate, where it was said) of every price that is known."""
    known = {
        (endpoint.name, model): (_rate(price), "settings")
        for endpoint in settings.MODEL_ENDPOINTS.values()
        for model, price in endpoint.prices.items()
    }
    entered = {(row.endpoint, row.model): (_rate(row), "entered") for row in Price.objects.all()}
    return [(*names, *said) for names, said in sorted((known | entered).items())]


def known_models() -> list[tuple[str, str]]:
    """Return (endpoint, model) of what has a price, and one of each endpoint that is scripted."""
    scripted = [
        (endpoint.name, SCRIPTED_MODEL)
        for endpoint in settings.MODEL_ENDPOINTS.values()
        if endpoint.provider == "scripted"
    ]
    priced = [(endpoint, model) for endpoint, model, *_ in all_prices()]
    priced = [one for one in priced if one[0] in settings.MODEL_ENDPOINTS]
    return [*scripted, *(one for one in priced if one not in scripted)]


def _look_up(key: tuple[str, str]) -> Rate | None:
    name, model = key
    row = Price.objects.filter(endpoint=name, model=model).first()
    if row is not None:
        return _rate(row)
    try:
        given = endpoint_named(name).price_of(model)
    except UnknownEndpointError:
        return None
    return _rate(given) if given else None


def _rate(price: Price | ModelPrice) -> Rate:
    return Rate(price.input_per_million, price.output_per_million)


_remembered = CachedLookup(_look_up)
post_save.connect(_remembered.forget, sender=Price)
post_delete.connect(_remembered.forget, sender=Price)
