"""`manage.py price`: say what a model costs, so that runs may spend money on it."""

from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from arena.calls.endpoints import UnknownEndpoint
from arena.calls.money import dollars
from arena.calls.prices import all_prices, set_price


class Command(BaseCommand):
    help = "Enter what a million tokens of a model cost in dollars; without arguments, list prices."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("endpoint", nargs="?", help="as MODEL_ENDPOINTS names it")
        parser.add_argument("model", nargs="?")
        parser.add_argument("--input", metavar="USD", help="per million tokens sent; 0 is allowed")
        parser.add_argument("--output", metavar="USD", help="per million tokens answered")

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = [options[name] for name in ("endpoint", "model", "input", "output")]
        if not any(wanted):
            self.stdout.write(in_words())
            return
        if None in wanted:
            raise CommandError("Give all four: price ENDPOINT MODEL --input USD --output USD.")
        endpoint, model, into, out = wanted
        try:
            price = set_price(
                endpoint=endpoint,
                model=model,
                input_usd=_amount(into),
                output_usd=_amount(out),
                now=timezone.now(),
            )
        except ValidationError as refused:
            raise CommandError(" ".join(refused.messages)) from None
        except UnknownEndpoint as error:
            raise CommandError(str(error)) from None
        rate = f"{dollars(price.input_per_million)} in, {dollars(price.output_per_million)} out"
        self.stdout.write(f"{model} at {endpoint}: {rate}, per million tokens.")


def in_words() -> str:
    """List every price that is known, and where it comes from."""
    lines = [
        f"{endpoint}:{model}  {dollars(rate.input_per_million)} in,"
        f" {dollars(rate.output_per_million)} out per million tokens ({source})"
        for endpoint, model, rate, source in all_prices()
    ]
    return "\n".join(lines) or "No price is entered. What is scripted costs nothing."


def _amount(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise CommandError(f"{text!r} is no amount of dollars.") from None
