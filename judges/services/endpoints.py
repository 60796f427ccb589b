"""What model endpoints are used for."""

import logging
from collections import Counter
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction
from django.db.models import Count

from arena.actors import Actor
from arena.calls.models import Capability, ModelEndpoint, Price
from arena.calls.prices import Rate, all_prices
from arena.calls.providers.base import EndpointStoppedError
from arena.endpoints import Endpoint, key_of
from arena.models import Candidate
from arena.services.endpoints import ModelEndpointError, remove_endpoint
from arena.validation import join_names, numbered
from judges.models import Judge
from judges.services.registry import SCRIPTED_MODELS

Used = Counter[tuple[str, str]]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ListedModel:
    """A model at an endpoint: its price, what uses it, and its last test."""

    name: str
    rate: Rate | None
    used_by: str
    capability: Capability | None

    @property
    def prices(self) -> list[tuple[str, str, int | None]]:
        """Each price with the name of its field and its label."""
        labels = {"input": "$ / M in", "output": "out", "cached": "from cache"}
        return [
            (name, label, getattr(self.rate, f"{name}_per_million", None))
            for name, label in labels.items()
        ]


@dataclass(frozen=True)
class ListedEndpoint:
    """An endpoint with its models. `is_given`: by the environment, which goes before a `row`."""

    endpoint: Endpoint
    row: ModelEndpoint | None
    is_given: bool
    models: list[ListedModel]

    @property
    def has_lost_key(self) -> bool:
        """Whether its key was stored with another SECRET_KEY."""
        try:
            return bool(self.endpoint.encrypted_key and not key_of(self.endpoint))
        except EndpointStoppedError:
            return True


def list_endpoints() -> list[ListedEndpoint]:
    """Return every endpoint, also those that are switched off, with its models."""
    rows = {row.name: row for row in ModelEndpoint.objects.all()}
    given: dict[str, Endpoint] = settings.MODEL_ENDPOINTS
    endpoints = {row.name: row.as_endpoint() for row in rows.values()} | given
    rates = {(endpoint, model): rate for endpoint, model, rate, _ in all_prices()}
    tests = {(one.endpoint, one.model): one for one in Capability.objects.all()}
    arenas, judges = _arenas_by_model(), _judges_by_model()
    scripted = {("scripted", model) for model in SCRIPTED_MODELS}
    known = sorted({*rates, *tests, *arenas, *judges, *scripted})
    return [
        ListedEndpoint(
            endpoint=endpoint,
            row=rows.get(name),
            is_given=name in given,
            models=[
                ListedModel(
                    name=key[1],
                    rate=rates.get(key) or _rate_of_scripted(endpoint),
                    used_by=_in_words(arenas[key], judges[key]),
                    capability=tests.get(key),
                )
                for key in known
                if key[0] == name
            ],
        )
        for name, endpoint in sorted(endpoints.items())
    ]


def _rate_of_scripted(endpoint: Endpoint) -> Rate | None:
    return Rate(0, 0) if endpoint.provider == "scripted" else None


@transaction.atomic
def delete_endpoint(*, endpoint: ModelEndpoint, by: Actor) -> None:
    """Delete an endpoint that nothing uses. Raises ModelEndpointError."""
    candidates = Candidate.objects.filter(endpoint=endpoint.name).count()
    judges = Judge.objects.filter(endpoint=endpoint.name).count()
    if candidates or judges:
        users = [numbered(candidates, "candidate")] if candidates else []
        users += [numbered(judges, "judge")] if judges else []
        raise ModelEndpointError(
            f"{endpoint.name} is used by {join_names(users)}, so it cannot be deleted."
            " Switch it off instead."
        )
    remove_endpoint(endpoint=endpoint, by=by)


@transaction.atomic
def remove_model(*, endpoint: str, model: str, by: Actor) -> None:
    """Forget a model that nothing uses, and its price. Raises ModelEndpointError."""
    key = (endpoint, model)
    if used := _in_words(_arenas_by_model()[key], _judges_by_model()[key]):
        raise ModelEndpointError(f"{model} is used by {used}, so it cannot be removed.")
    for kind in (Price, Capability):
        kind._default_manager.filter(endpoint=endpoint, model=model).delete()
    log.info("%s removed the model %s at %s.", by.name, model, endpoint)


def _arenas_by_model() -> Used:
    candidates = Candidate.objects.exclude(endpoint="").order_by().values_list("endpoint", "model")
    return Counter(
        {(end, model): n for end, model, n in candidates.annotate(n=Count("arena", distinct=True))}
    )


def _judges_by_model() -> Used:
    judges = Judge.objects.exclude(endpoint="").order_by().values_list("endpoint", "model")
    return Counter({(end, model): n for end, model, n in judges.annotate(n=Count("pk"))})


def _in_words(arenas: int, judges: int) -> str:
    used = [numbered(arenas, "arena")] if arenas else []
    return ", ".join([*used, *([numbered(judges, "judge")] if judges else [])])
