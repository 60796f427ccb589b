"""`manage.py endpoints`: list the model endpoints and the capabilities of their models."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from arena.calls.capabilities import probe_endpoint
from arena.calls.models import Capability
from arena.calls.money import rate_in_words
from arena.calls.prices import all_prices
from arena.calls.providers.base import EndpointStoppedError
from arena.endpoints import Endpoint, UnknownEndpointError, all_endpoints, key_of

ABILITIES = ("json_schema", "temperature", "seed", "logprobs")
ANSWERS = {True: "yes", False: "no", None: "not tried"}


class Command(BaseCommand):
    help = "List the model endpoints with their keys (set or not), limits, prices and capabilities."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--probe",
            action="append",
            default=[],
            metavar="NAME:MODEL",
            help="probe this model's capabilities first, with a few tiny requests",
        )

    def handle(self, *args: Any, probe: list[str], **options: Any) -> None:
        for model in probe:
            _probe_model(model)
        for endpoint in all_endpoints().values():
            self.stdout.write("\n".join(lines_about(endpoint)))


def _probe_model(endpoint_and_model: str) -> None:
    name, _, model = endpoint_and_model.partition(":")
    if not model:
        raise CommandError(f"--probe takes NAME:MODEL, not {endpoint_and_model!r}.")
    try:
        probe_endpoint(name, model, timezone.now())
    except (UnknownEndpointError, EndpointStoppedError) as error:
        raise CommandError(f"{endpoint_and_model}: {error}") from None


def lines_about(endpoint: Endpoint) -> list[str]:
    """Describe an endpoint without printing its key."""
    where = endpoint.base_url or "no server; answers are scripted"
    lines = [f"{endpoint.name} ({endpoint.provider}, {where})", f"  key: {_key_in_words(endpoint)}"]
    limits = {"requests": endpoint.requests_per_minute, "tokens": endpoint.tokens_per_minute}
    set_limits = [f"{limit:,} {what} per minute" for what, limit in limits.items() if limit]
    lines.append(f"  limits: {', '.join(set_limits) or 'none'}")
    lines += [
        f"  price of {model}: {rate_in_words(rate)}"
        for name, model, rate, _ in all_prices()
        if name == endpoint.name
    ]
    capabilities = Capability.objects.filter(endpoint=endpoint.name).order_by("model")
    return lines + [f"  {_abilities_in_words(capability)}" for capability in capabilities]


def _key_in_words(endpoint: Endpoint) -> str:
    try:
        return "set" if key_of(endpoint) else "none needed"
    except EndpointStoppedError as error:
        return f"MISSING. {error}"


def _abilities_in_words(capability: Capability) -> str:
    abilities = ", ".join(f"{name} {ANSWERS[getattr(capability, name)]}" for name in ABILITIES)
    dropped = f"; not accepted: {', '.join(capability.dropped)}" if capability.dropped else ""
    return f"{capability.model}: {abilities}{dropped}"
