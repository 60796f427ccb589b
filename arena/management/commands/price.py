"""`manage.py price`: set a model's price, without which no run may use the model."""

from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from arena.calls.money import rate_in_words
from arena.calls.prices import all_prices, set_price
from arena.endpoints import UnknownEndpointError


class Command(BaseCommand):
    help = "Set a model's price per million tokens, in dollars; without arguments, list all prices."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("endpoint", nargs="?", help="its name, as in `manage.py endpoints`")
        parser.add_argument("model", nargs="?")
        parser.add_argument("--input", metavar="USD", help="per million tokens sent; 0 is allowed")
        parser.add_argument("--output", metavar="USD", help="per million tokens received")
        parser.add_argument(
            "--cached",
            metavar="USD",
            help="per million tokens sent that the server had cached",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        values = [options[name] for name in ("endpoint", "model", "input", "output")]
        if not any(values):
            self.stdout.write(format_prices())
            return
        if None in values:
            raise CommandError("Usage: price ENDPOINT MODEL --input USD --output USD.")
        endpoint, model, input_usd, output_usd = values
        try:
            price = set_price(
                endpoint=endpoint,
                model=model,
                input_usd=_dollars_given(input_usd),
                output_usd=_dollars_given(output_usd),
                cached_usd=_dollars_given(options["cached"]) if options["cached"] else None,
                now=timezone.now(),
            )
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        except UnknownEndpointError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{model} at {endpoint}: {rate_in_words(price)}.")


def format_prices() -> str:
    lines = [
        f"{endpoint}:{model}  {rate_in_words(rate)} ({source})"
        for endpoint, model, rate, source in all_prices()
    ]
    return "\n".join(lines) or "No prices have been set. The scripted endpoint is free."


def _dollars_given(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise CommandError(f"{text!r} is not an amount in dollars.") from None
