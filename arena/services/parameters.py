"""The parameters that a candidate may send with its requests.

Only those named here: a request's address, key, model, messages, number of answers and tools are
not a team's to choose, and neither is whatever a server may invent.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from arena.importers.base import BadRow, checked_details, kind_of, shown
from arena.services.refusals import Refused

MOST_TOKENS = 200_000
LONGEST = 10_000


class ParametersRefused(Refused):
    """Parameters that cannot be sent."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, field="parameters")


@dataclass(frozen=True)
class Number:
    """A number from `least` to `most`."""

    least: float
    most: float
    whole: bool = False

    def check(self, value: Any) -> str:
        wanted = f"{'a whole number' if self.whole else 'a number'} from {self.least:,} to "
        wanted += f"{self.most:,}"
        kind = int if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kind):
            return f"is {_shown(value)}, not {wanted}"
        return "" if self.least <= value <= self.most else f"is {_shown(value)}, not {wanted}"


def _word(value: Any) -> str:
    return "" if isinstance(value, str) and 0 < len(value) <= 50 else "is not a word"


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else f"is {_shown(value)}, not true or false"


def _texts(value: Any) -> str:
    texts = [value] if isinstance(value, str) else value
    fine = isinstance(texts, list) and len(texts) <= 16 and all(isinstance(t, str) for t in texts)
    return "" if fine else "is not a text or a list of at most 16 texts"


def _object(value: Any) -> str:
    return "" if isinstance(value, dict) else f"is {kind_of(value)}, not an object"


KNOWN: Mapping[str, Callable[[Any], str]] = {
    "temperature": Number(0, 2).check,
    "max_tokens": Number(1, MOST_TOKENS, whole=True).check,
    "max_completion_tokens": Number(1, MOST_TOKENS, whole=True).check,
    "top_p": Number(0, 1).check,
    "top_k": Number(-1, 100_000, whole=True).check,
    "min_p": Number(0, 1).check,
    "seed": Number(-(2**31), 2**31 - 1, whole=True).check,
    "presence_penalty": Number(-2, 2).check,
    "frequency_penalty": Number(-2, 2).check,
    "repetition_penalty": Number(0, 10).check,
    "logit_bias": _object,
    "stop": _texts,
    "stop_sequences": _texts,
    "response_format": _object,
    "reasoning_effort": _word,
    "verbosity": _word,
    "thinking": _object,
    "chat_template_kwargs": _object,
    "enable_thinking": _flag,
}


def checked_parameters(parameters: Any) -> dict[str, Any]:
    """Return `parameters` if every one is known and may have its value.

    Raises ParametersRefused.
    """
    if not isinstance(parameters, dict):
        raise ParametersRefused(f"The parameters are {kind_of(parameters)}, not an object.")
    _check_size(parameters)
    if unknown := [name for name in parameters if name not in KNOWN]:
        raise ParametersRefused(
            f"The parameter {shown(unknown[0])} is not one that can be sent. There is "
            f"{', '.join(sorted(KNOWN))}."
        )
    for name, value in parameters.items():
        if wrong := KNOWN[name](value):
            raise ParametersRefused(f"The parameter {name} {wrong}.")
    return parameters


def _check_size(parameters: dict[str, Any]) -> None:
    try:
        checked_details({str(name): value for name, value in parameters.items()}, 0)
        size = len(json.dumps(parameters, allow_nan=False))
    except BadRow as bad:
        raise ParametersRefused(f"The parameter {bad.column} {bad.reason}.") from None
    except (ValueError, TypeError):
        raise ParametersRefused(
            "The parameters have a number that cannot be written in JSON."
        ) from None
    if size > LONGEST:
        raise ParametersRefused(
            f"The parameters are {size:,} characters long; at most {LONGEST:,} will do."
        )


def _shown(value: Any) -> str:
    return shown(value) if isinstance(value, int | float | str) else kind_of(value)
