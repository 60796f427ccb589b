"""What a person says the columns of a table are: from headings to a layout and its fields."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from arena.files.reader import FileError
from arena.formats import LAYOUTS, PROMPTS
from arena.formats.base import FAMILIES, Layout
from arena.formats.records import SUFFIXES, Foreign, Records, recognise
from arena.validation import quoted

# The layouts of anybody's tables, which come before those of one tool.
TABLES = (
    *("two-answers", "scored-pairs", "answers-and-winner", "answers-wide", "pairs"),
    *("winners-and-losers", "ratings", "ratings-wide", "ranks-wide", "answers", PROMPTS),
)
# Fields that mean the same have one name on the page.
SAME = {PROMPTS: {"text": "prompt"}, "ratings": {"text": "response"}}
ANY = replace(LAYOUTS["pairs"], name="", title="", columns={}, needed=(), several=())


def roles_of(layout_name: str, columns: Mapping[str, str]) -> dict[str, str]:
    """Return what each heading is read as: a field, of families with the candidate's name."""
    same = SAME.get(layout_name, {})
    return {heading: same.get(field, field) for field, heading in columns.items() if heading}


def fields_of(
    path: Path, roles: Mapping[str, str], format_name: str = "auto"
) -> tuple[str, dict[str, str]]:
    """Return the format and the column of each field, if headings are read as `roles` says, and
    no others are read. Raises FileError."""
    chosen: dict[str, str] = {}
    for heading, role in roles.items():
        if role and role in chosen:
            field, _, name = role.partition(":")
            raise FileError(
                f"Two columns are read as the {field}{f' of {name}' if name else ''}: "
                f"{quoted(chosen[role])} and {quoted(heading)}. Choose one of them."
            )
        chosen[role] = heading
    chosen.pop("", None)
    records = Records(path)
    for layout in _layouts_to_try(path, format_name):
        columns = _columns(layout, chosen, records)
        if format_name != "auto":
            return format_name, columns
        with suppress(FileError):
            if all(map(layout.knows, columns)) and Foreign(layout, columns).suits(records):
                return layout.name, columns
    raise FileError(_what_lacks(chosen))


def _layouts_to_try(path: Path, format_name: str) -> Iterator[Layout]:
    if format_name in LAYOUTS:
        yield LAYOUTS[format_name]
        return
    if own := recognise(path, LAYOUTS.values()):
        yield own
    yield from (LAYOUTS[name] for name in TABLES)
    yield from LAYOUTS.values()


def _columns(layout: Layout, chosen: Mapping[str, str], records: Records) -> dict[str, str]:
    """The column of each field; '' for those that only a heading would give."""
    try:
        usual = layout.assigned(records.names(replace(ANY, inside=layout.inside)))
    except FileError:
        usual = {}
    return dict.fromkeys(usual, "") | _fields(layout, chosen)


def _fields(layout: Layout, chosen: Mapping[str, str]) -> dict[str, str]:
    """What was chosen, by this layout's names of the fields."""
    names = {role: field for field, role in SAME.get(layout.name, {}).items()}
    return {names.get(role, role): heading for role, heading in chosen.items()}


def _what_lacks(chosen: Mapping[str, str]) -> str:
    if not chosen:
        return "No column is used. Say what at least one of them is."
    tables = [(LAYOUTS[name], _fields(LAYOUTS[name], chosen)) for name in TABLES]
    others = [
        (layout, {f: heading for f, heading in fields.items() if not layout.knows(f)})
        for layout, fields in tables
        if layout.fits({f: heading for f, heading in fields.items() if layout.knows(f)})
    ]
    if others:
        layout, unknown = min(others, key=lambda one: len(one[1]))
        field, heading = next(iter(unknown.items()))
        return (
            f"In {layout.title}, the column {quoted(heading)} cannot be the "
            f"{field.partition(':')[0]}. Leave it unused, or choose more columns."
        )
    layout, fields = min(
        tables, key=lambda one: (-sum(map(one[0].knows, one[1])), len(one[0].missing(one[1])))
    )
    lacks = " and no ".join(layout.missing(fields))
    return f"More columns have to be chosen: for {layout.title}, there is no {lacks}."


def unknown_table(path: Path) -> Foreign | None:
    """Return what reads the headings and first values of a table of any layout; None if it is
    none."""
    if not path.is_file() or path.suffix.lower() not in SUFFIXES:
        return None
    return None if isinstance(Records(path).document, dict) else Foreign(ANY)


def likely_roles(names: list[str]) -> dict[str, str]:
    """Return what the headings of an unknown table say that they are, as far as that is known."""
    layouts = [(LAYOUTS[name], LAYOUTS[name].assigned(names)) for name in TABLES[:3]]
    layout, found = max(layouts, key=lambda one: len(one[1]))
    return roles_of(layout.name, found)


def candidate_in(heading: str) -> str:
    """Return the candidate whose column has this heading: `Answer of X` is of X."""
    for family in FAMILIES.values():
        # "answer_a" alone says more than "a".
        if (match := family.fullmatch(heading.strip())) and len(match[1]) > 1:
            return str(match[1])
    return heading.strip()
