"""Exports of votes and preferences, without anything that identifies a person.

Every export is rows with named columns, written as CSV, JSON Lines or Parquet while they are read.
`export_kinds` has all files that are kept once they are built (`services/exports.py`); the app
above adds its own to `OTHER_KINDS`.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from django.db.models import Count, Max, Min, QuerySet
from django.template.loader import render_to_string

from arena.actors import Actor, TeamPermission
from arena.models import Arena, AuditEntry, Rater, Response
from arena.services.exports import Tick, export_arena, unheard
from ranking.exported_votes import ALL_VOTES, LMARENA, battles, lmarena_battles
from ranking.leaderboard_copy import write_copy
from ranking.log.file import write_lines
from ranking.models import Audience
from ranking.preferences import (
    CHATS,
    DECIDED_BY,
    PREFERENCES,
    chat_preferences,
    preferences,
)
from ranking.prompt_sets import LANGFUSE, PROMPTFOO, langfuse_items, promptfoo_tests
from ranking.streamed_files import Columns, Row, as_csv, as_jsonl, as_parquet, as_zip


@dataclass(frozen=True)
class Export:
    """Rows that can be exported; `takes_raters`: the caller chooses whose votes decide."""

    columns: Columns
    rows: Callable[..., Iterable[Row]]
    formats: Sequence[str] = ("jsonl", "parquet")
    takes_raters: bool = False


CSV, JSONL, PARQUET, ZIP, HTML = (
    *("text/csv", "application/jsonl", "application/vnd.apache.parquet"),
    *("application/zip", "text/html"),
)
FORMATS = {"csv": (as_csv, CSV), "jsonl": (as_jsonl, JSONL), "parquet": (as_parquet, PARQUET)}
EXPORTS = {
    "battles": Export(ALL_VOTES, battles, tuple(FORMATS)),
    "lmarena": Export(LMARENA, lmarena_battles, tuple(FORMATS)),
    "dpo": Export(PREFERENCES, preferences, takes_raters=True),
    "dpo-messages": Export(CHATS, chat_preferences, takes_raters=True),
}
PROMPT_SETS = {
    "promptfoo-tests": Export(PROMPTFOO, promptfoo_tests, ("jsonl",)),
    "langfuse-items": Export(LANGFUSE, langfuse_items, ("jsonl", "csv")),
}
DATASET = "dataset.zip"


def file_names(exports: Mapping[str, Export]) -> list[str]:
    return [f"{name}.{ending}" for name, export in exports.items() for ending in export.formats]


def write_file(
    export: Export,
    ending: str,
    arena: Arena,
    actor: Actor,
    raters: str = "people",
    tick: Tick = unheard,
) -> Iterator[bytes]:
    """Yield an export as a file, as much of it as `actor` may read; `tick` is told of every row."""
    rows = counted(rows_of(export, arena, actor, raters), tick)
    return FORMATS[ending][0](rows, export.columns)


def rows_of(export: Export, arena: Arena, actor: Actor, raters: str) -> Iterator[Row]:
    return iter(export.rows(arena, actor, **({"raters": raters} if export.takes_raters else {})))


def counted(rows: Iterable[Any], tick: Tick) -> Iterator[Any]:
    for row in rows:
        yield row
        tick(1)


def write_dataset(arena: Arena, actor: Actor, tick: Tick = unheard) -> Iterator[bytes]:
    """Yield a dataset folder for the Hugging Face Hub as a zip: a card, and Parquet files."""
    return as_zip(_members(arena, actor, tick))


def _members(arena: Arena, actor: Actor, tick: Tick) -> Iterator[tuple[str, Iterable[bytes]]]:
    """The tables that have rows, and last the card that describes them."""
    configs = []
    for name, export in EXPORTS.items():
        if name == "dpo":  # `dpo-messages` has the same rows
            continue
        rows = counted(rows_of(export, arena, actor, "both"), tick)
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


def write_arena(arena: Arena, actor: Actor, tick: Tick) -> Iterator[bytes]:
    """Yield the whole arena as a zip file, as its team may have it. Raises ExportError."""
    with tempfile.TemporaryDirectory(prefix="export-") as folder:
        target = Path(folder) / "arena.zip"
        export_arena(arena=arena, target=target, tick=tick)
        with target.open("rb") as file:
            while piece := file.read(1 << 20):
                yield piece


def count_votes(arena: Arena) -> list[QuerySet[Any]]:
    return [arena.votes.order_by()]


def count_votes_and_answers(arena: Arena) -> list[QuerySet[Any]]:
    return [arena.votes.order_by(), Response.objects.filter(prompt__arena=arena).order_by()]


def count_prompts(arena: Arena) -> list[QuerySet[Any]]:
    return [arena.prompts.order_by()]


def no_other_state(arena: Arena) -> str:
    return ""


def last_change(arena: Arena) -> str:
    """What the team has changed: prompts, rubrics and checks are in its files only."""
    return str(AuditEntry.objects.filter(team=arena.team_id).aggregate(last=Max("pk"))["last"])


@dataclass(frozen=True)
class ExportKind:
    """A file that is built once and kept.

    `reads`: the rows that it is made of; `passes`: how many rows it has for each of them, 0 if
    that is not known before. `audience`: of a file that is the same for all who may have it, which
    takes `permission` for the arena's team. `state`: what tells, beside votes and leaderboards,
    that a file is outdated.
    """

    content_type: str
    write: Callable[[Arena, Actor, Tick], Iterator[bytes]]
    reads: Callable[[Arena], list[QuerySet[Any]]] = count_votes
    passes: int = 1
    audience: Audience | None = None
    permission: TeamPermission | None = None
    state: Callable[[Arena], str] = no_other_state


def kinds_of(exports: Mapping[str, Export], **about: Any) -> dict[str, ExportKind]:
    """A kind for each format of `exports`, and each choice of whose votes decide."""

    def writer(export: Export, ending: str, raters: str) -> Callable[..., Iterator[bytes]]:
        return lambda arena, actor, tick: write_file(export, ending, arena, actor, raters, tick)

    return {
        named(f"{name}.{ending}", raters): ExportKind(
            FORMATS[ending][1], writer(export, ending, raters), **about
        )
        for name, export in exports.items()
        for ending in export.formats
        for raters in (DECIDED_BY if export.takes_raters else ["people"])
    }


def named(file: str, raters: str) -> str:
    """The name of a file with the choice of whose votes decide: dpo-juries.jsonl."""
    stem, _, ending = file.rpartition(".")
    return file if raters == "people" else f"{stem}-{raters}.{ending}"


OF_VOTES = {name: EXPORTS[name] for name in ("battles", "lmarena")}
OF_PREFERENCES = {name: EXPORTS[name] for name in ("dpo", "dpo-messages")}
KINDS = {
    **kinds_of(OF_VOTES),
    **kinds_of(OF_PREFERENCES, passes=0),
    DATASET: ExportKind(ZIP, write_dataset, passes=0),
    "log.jsonl": ExportKind(
        JSONL,
        lambda arena, actor, tick: as_jsonl(counted(write_lines(arena), tick)),
        passes=0,
        audience=Audience.PUBLIC,
    ),
    "leaderboard.html": ExportKind(
        HTML,
        lambda arena, actor, tick: iter([write_copy(arena).encode()]),
        passes=0,
        audience=Audience.PUBLIC,
    ),
    "arena.zip": ExportKind(
        ZIP,
        write_arena,
        reads=count_votes_and_answers,
        passes=0,
        audience=Audience.TEAM,
        permission=TeamPermission.MANAGE,
        state=last_change,
    ),
    **kinds_of(
        PROMPT_SETS,
        reads=count_prompts,
        passes=0,
        audience=Audience.TEAM,
        permission=TeamPermission.READ,
        state=last_change,
    ),
}
# Called at the first request for an export: nothing else needs the modules that write them.
OTHER_KINDS: list[Callable[[], Mapping[str, ExportKind]]] = []


@cache
def export_kinds() -> dict[str, ExportKind]:
    """All files, by name."""
    others = (kind for kinds in OTHER_KINDS for kind in kinds().items())
    return KINDS | dict(others)
