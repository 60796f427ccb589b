"""Looking at the models of an order before it is written: is the server there, what can it do?"""

from collections.abc import Iterable
from datetime import datetime

from arena.calls.capabilities import capability_of, probe_endpoint
from arena.calls.providers.base import Stopped
from judges.core.spec import JudgeSpec
from judges.services.registering import JudgeRefused


def probe_judges(*, specs: Iterable[JudgeSpec], now: datetime) -> None:
    """Probe each model that nobody has probed yet; raises JudgeRefused where one does not answer.

    A handful of requests of a few tokens each, once per model.
    """
    for endpoint, model in sorted({(spec.endpoint, spec.model) for spec in specs}):
        known = capability_of(endpoint, model)
        if known is not None and known.probed_at is not None:
            continue
        try:
            probe_endpoint(endpoint=endpoint, model=model, now=now)
        except Stopped as error:
            raise JudgeRefused(f"{endpoint}:{model} cannot be asked: {error}") from None
