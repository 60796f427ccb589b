"""`manage.py endpoints`: what models can be asked, and what each of them can do."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from arena.calls.capabilities import probe_endpoint
from arena.calls.endpoints import UnknownEndpoint, key_of
from arena.calls.models import Capability
from arena.calls.money import dollars
from arena.calls.prices import all_prices
from arena.calls.providers.base import Stopped
from arena.conf.endpoints import Endpoint

ABILITIES = ("json_schema", "temperature", "seed", "logprobs")
SAID = {True: "yes", False: "no", None: "not tried"}


class Command(BaseCommand):
    help = "List the model endpoints: keys (there or not), limits, prices, and what models can do."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--probe",
            action="append",
            default=[],
            metavar="NAME:MODEL",
            help="try out first what this model can do; costs a handful of tiny requests",
        )

    def handle(self, *args: Any, probe: list[str], **options: Any) -> None:
        for one in probe:
            _probe(one)
        for endpoint in settings.MODEL_ENDPOINTS.values():
            self.stdout.write("\n".join(lines_about(endpoint)))


def _probe(wanted: str) -> None:
    name, _, model = wanted.partition(":")
    if not model:
        raise CommandError(f"--probe takes NAME:MODEL, not {wanted!r}.")
    try:
        probe_endpoint(name, model, timezone.now())
    except (UnknownEndpoint, Stopped) as error:
        raise CommandError(f"{wanted}: {error}") from None


def lines_about(endpoint: Endpoint) -> list[str]:
    """Describe an endpoint; its key is never among what is said."""
    where = endpoint.base_url or "no server, answers are made up"
    lines = [f"{endpoint.name} ({endpoint.provider}, {where})", f"  key: {_key(endpoint)}"]
    limits = {"requests": endpoint.requests_per_minute, "tokens": endpoint.tokens_per_minute}
    named = [f"{limit:,} {what} a minute" for what, limit in limits.items() if limit]
    lines.append(f"  limits: {', '.join(named) or 'none'}")
    lines += [
        f"  price of {model}: {dollars(rate.input_per_million)} in,"
        f" {dollars(rate.output_per_million)} out per million tokens"
        for name, model, rate, _ in all_prices()
        if name == endpoint.name
    ]
    known = Capability.objects.filter(endpoint=endpoint.name).order_by("model")
    return lines + [f"  {_abilities(one)}" for one in known]


def _key(endpoint: Endpoint) -> str:
    try:
        return "there" if key_of(endpoint) else "none needed"
    except Stopped as error:
        return f"MISSING. {error}"


def _abilities(known: Capability) -> str:
    able = ", ".join(f"{name} {SAID[getattr(known, name)]}" for name in ABILITIES)
    dropped = f"; not taken: {', '.join(known.dropped)}" if known.dropped else ""
    return f"{known.model} can: {able}{dropped}"
