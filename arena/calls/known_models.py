"""Well-known models and their prices, which fill in the operators' forms."""

import tomllib
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class KnownModel:
    """A model with its prices in dollars per million tokens, as of a date.

    `kind` is "openai", "anthropic" or "ollama".
    """

    kind: str
    name: str
    input: Decimal
    output: Decimal
    cached: Decimal | None
    date: date


@cache
def well_known_models() -> list[KnownModel]:
    rows = tomllib.loads(FILE.read_text(encoding="utf-8"))["models"]
    return [
        KnownModel(
            kind=row["kind"],
            name=row["name"],
            input=Decimal(row["input"]),
            output=Decimal(row["output"]),
            cached=Decimal(row["cached"]) if "cached" in row else None,
            date=row["date"],
        )
        for row in rows
    ]


def price_known_of(kind: str, model: str) -> KnownModel | None:
    """Return the well-known model of this kind and name, if there is one."""
    for known in well_known_models():
        if (known.kind, known.name) == (kind, model):
            return known
    return None
