"""Exports of votes and preferences, without anything that identifies a person.

Every export is rows with named columns, written as CSV, JSON Lines or Parquet while they are read.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from django.db.models import Count, Max, Min
from django.template.loader import render_to_string

from arena.actors import Actor
from arena.models import Arena, Rater
from ranking.exported_votes import ALL_VOTES, LMARENA, battles, lmarena_battles
from ranking.preferences import CHATS, PREFERENCES, chat_preferences, preferences
from ranking.streamed_files import Columns, Row, as_csv, as_jsonl, as_parquet, as_zip


@dataclass(frozen=True)
class Export:
    """Rows that can be exported; `takes_raters`: the caller chooses whose votes decide."""

    columns: Columns
    rows: Callable[..., Iterable[Row]]
    formats: Sequence[str] = ("jsonl", "parquet")
    takes_raters: bool = False


CSV, JSONL, PARQUET, ZIP = (
    *("text/csv", "application/jsonl"),
    *("application/vnd.apache.parquet", "application/zip"),
)
FORMATS = {"csv": (as_csv, CSV), "jsonl": (as_jsonl, JSONL), "parquet": (as_parquet, PARQUET)}
EXPORTS = {
    "battles": Export(ALL_VOTES, battles, tuple(FORMATS)),
    "lmarena": Export(LMARENA, lmarena_battles, tuple(FORMATS)),
    "dpo": Export(PREFERENCES, preferences, takes_raters=True),
    "dpo-messages": Export(CHATS, chat_preferences, takes_raters=True),
}
DATASET = "dataset.zip"


def file_names(exports: Mapping[str, Export]) -> list[str]:
    return [f"{name}.{ending}" for name, export in exports.items() for ending in export.formats]


def write_file(
    export: Export, ending: str, arena: Arena, actor: Actor, raters: str = "people"
) -> Iterator[bytes]:
    """Yield an export as a file, as much of it as `actor` may read."""
    return FORMATS[ending][0](rows_of(export, arena, actor, raters), export.columns)


def rows_of(export: Export, arena: Arena, actor: Actor, raters: str) -> Iterator[Row]:
    return iter(export.rows(arena, actor, **({"raters": raters} if export.takes_raters else {})))


def write_dataset(arena: Arena, actor: Actor) -> Iterator[bytes]:
    """Yield a dataset folder for the Hugging Face Hub as a zip: a card, and Parquet files."""
    return as_zip(_members(arena, actor))


def _members(arena: Arena, actor: Actor) -> Iterator[tuple[str, Iterable[bytes]]]:
    """The tables that have rows, and last the card that describes them."""
    configs = []
    for name, export in EXPORTS.items():
        if name == "dpo":  # `dpo-messages` has the same rows
            continue
        rows = rows_of(export, arena, actor, "both")
        if (first := next(rows, None)) is not None:
            configs.append(name)
            yield f"data/{name}.parquet", as_parquet(chain([first], rows), export.columns)
    yield "README.md", [dataset_card(arena, configs).encode()]


SIZES = {
    10**3: "n<1K",
    10**4: "1K<n<10K",
    10**5: "10K<n<100K",
    10**6: "100K<n<1M",
    10**7: "1M<n<10M",
}


def dataset_card(arena: Arena, configs: Sequence[str]) -> str:
    """The card of a dataset with these tables: what it holds, and how it is loaded."""
    votes = arena.votes.live()
    counts = dict(votes.order_by().values_list("rater__kind").annotate(n=Count("pk")))
    n_votes = sum(counts.values())
    size = next((size for most, size in SIZES.items() if n_votes < most), "10M<n<100M")
    candidates = arena.candidates.revealed().order_by("name", "version", "pk")
    context = {
        "arena": arena,
        "title": json.dumps(arena.name, ensure_ascii=False),
        "size": size,
        "configs": configs,
        "n_votes": n_votes,
        "counts": {str(Rater.Kind(kind).label): n for kind, n in sorted(counts.items())},
        "n_prompts": arena.prompts.revealed().count(),
        "candidates": [str(candidate) for candidate in candidates],
        **votes.aggregate(first=Min("cast_at"), last=Max("cast_at")),
    }
    return render_to_string("ranking/dataset_card.md", context)
