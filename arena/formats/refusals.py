"""Why a file is not read, or not for certain: what was found in it, and what is missing. Pure."""

import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from arena.files.reader import UnknownTableError, csv_header, folded
from arena.formats.base import CAMEL, Layout
from arena.formats.records import MOST_SHOWN, SAMPLE, Foreign, Records, written
from arena.validation import join_names, quoted

NEEDS = (
    "Votes need model_a, model_b and winner; answers need prompt, response and model; prompts need "
    "prompt (docs/reference/files.md)."
)
# Fields that files of any kind have.
SHARED = frozenset(
    [
        "id",
        "start",
        "time",
        "seconds",
        "cost",
        "metadata",
        "model",
        "name",
        "type",
        "status",
        "rater",
    ]
)


def unknown_layout(
    path: Path,
    layouts: Mapping[str, Layout],
    needs: str = NEEDS,
    chosen: Mapping[str, str] | None = None,
) -> str:
    """Say which columns a file has, and what the nearest layout lacks; raises FileError for a file
    that cannot be read at all."""
    records = Records(path)
    if records.is_table:
        header = csv_header(records.source, suffices=lambda names: True, wanted=needs)
        names, noun = [name for name in header.names if name], "columns"
    else:
        names, noun = records.names(next(iter(layouts.values()))), "keys"
    if not names:
        return f"It has no {noun}. {needs}"
    has = f"It has the {noun} {join_names(map(quoted, names), MOST_SHOWN)}."
    if gone := [name for name in (chosen or {}).values() if name and name not in names]:
        return f"It has no {noun.removesuffix('s')} {quoted(gone[0])}. {has}"
    possible = [one for one in layouts.values() if all(map(one.knows, chosen or ()))]
    if not possible:
        return f"{has} No format has all the chosen fields: {', '.join(chosen or ())}."
    nearest, found = max(
        ((layout, Foreign(layout, chosen).assigned(names)) for layout in possible),
        key=lambda one: _nearness(*one),
    )
    if records.is_table:
        has += (
            " If this row is data, name the columns in a row above it; if the names are further "
            "down, delete the rows above them."
        )
        if records.source.other_sheets:
            sheets = join_names(map(quoted, records.source.other_sheets))
            has += f" Other sheets are not read: {sheets}."
    if not _nearness(nearest, found)[0]:
        first = path.suffix.lower() in (".json", ".jsonl", ".ndjson") and noun == "columns"
        why = " JSON begins with { or [: correct that." if first else ""
        return f"{has} None of them says who won, or has prompts or answers.{why} {needs}"
    needed = {name for group in nearest.needed for name in group} & found.keys()
    read = [f"{quoted(found[name])} as {name}" for name in needed]
    lacks = nearest.missing(found)
    return (
        f"{has} Found {join_names(sorted(read))}; for {nearest.title}, there is no "
        f"{' and no '.join(lacks)}. Rename a column, or choose one (--column FIELD=NAME)."
        if lacks
        else f"{has} They say who won, or rank answers, but not in a way that is read. {needs}"
    )


def _nearness(layout: Layout, found: Mapping[str, str]) -> tuple[int, int]:
    """Of what a layout needs, how much a file has, and (negative) how much it lacks."""
    telling = found.keys() - SHARED
    groups = sum(any(name in telling for name in group) for group in layout.needed)
    return groups, -len(layout.missing(found))


_CHOICE = re.compile(
    r"better|worse|\bbest|worst|prefer|winner|who_won|chosen|rejected|favou?rite|"
    r"(?:^|_)(?:votes?|voters?|ratings?|rank|ranks|ranking|answer|reply|verdict|which)(?:_|$)"
)


def check_are_prompts(path: Path, layout: Layout) -> None:
    """Raise UnknownTableError for a table of prompts whose further columns may be choices, or are
    nothing but numbers, which may be ratings."""
    records = Records(path)
    used = layout.assigned(records.names(layout)).values()
    cells: dict[str, list[Any]] = {}
    for row in islice(records.rows(layout), SAMPLE):
        for name, cell in row.content.items() if isinstance(row.content, dict) else ():
            if name not in used and cell not in (None, ""):
                cells.setdefault(name, []).append(cell)
    if odd := [name for name in cells if _CHOICE.search(folded(name))]:
        raise UnknownTableError(
            f"{path} has {join_names(map(quoted, odd), MOST_SHOWN)}, which may be choices, ratings "
            "or answers. Say what each is (--column FIELD=NAME, or on the page); if they are "
            "variables of prompts, choose the format prompts."
        )
    if len(cells) > 1 and all(_is_number(cell) for column in cells.values() for cell in column):
        chosen = " ".join(f"--column 'rating:{name}={name}'" for name in [*cells][:3])
        raise UnknownTableError(
            f"{path} has columns of numbers: {join_names(map(quoted, cells), MOST_SHOWN)}. If each "
            f"is a candidate's rating, say so ({chosen}); if they are variables, choose the format "
            "prompts."
        )


THIRD = {"a": "c", "1": "3", "x": "z", "first": "third"}
FEWEST_NAMES, FEWEST_WORDS = 4, 4  # from which cells are taken for texts


def check_are_names(path: Path, layout: Layout) -> None:
    """Raise UnknownTableError for a table of pairs with a third candidate, or whose candidates look
    like the texts of answers: nearly all of them differ, and have several words."""
    records = Records(path)
    columns = records.names(layout)
    fields = layout.assigned(columns)
    stem, _, side = folded(CAMEL.sub("_", fields["model_a"])).rpartition("_")
    third = f"{stem}_{THIRD.get(side, side)}"
    if side in THIRD and stem and third in {folded(CAMEL.sub("_", name)) for name in columns}:
        raise UnknownTableError(
            f"{path} has more than two candidates in a row: {quoted(fields['model_a'])}, "
            f"{quoted(fields['model_b'])} and a third. Write a ranking (oak > elm > fir), or a row "
            "for each pair."
        )
    names = [
        written(row.content.get(fields[side]) or "")
        for row in islice(records.rows(layout), SAMPLE)
        if isinstance(row.content, dict)
        for side in ("model_a", "model_b")
    ]
    n_different, n_words = len({*names}), sum(len(name.split()) for name in names)
    differ = n_different >= max(FEWEST_NAMES, 0.8 * len(names))
    if differ and n_words >= FEWEST_WORDS * len(names):
        left, right = fields["model_a"], fields["model_b"]
        raise UnknownTableError(
            f"The columns {quoted(left)} and {quoted(right)} of {path} look like answers, not like "
            f"names of models. If they are, say so: --column 'response_a={left}' "
            f"--column 'response_b={right}', with a column for the prompt."
        )


def _is_number(cell: Any) -> bool:
    with suppress(ValueError, TypeError):
        return not isinstance(cell, bool) and float(cell) == float(cell)
    return False
