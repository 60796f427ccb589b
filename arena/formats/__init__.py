"""Import formats: Ringside's own, and the layouts of tables and of other tools."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from arena.files.copies import ArchiveError, unpacked
from arena.files.reader import FileError, Source, UnknownTableError, unreadable
from arena.formats import battles, native, promptfoo, rankings, traces
from arena.formats.base import KINDS, MOST_UNREAD, Format, ImportFile, Layout
from arena.formats.records import PAIRS, SUFFIXES, Foreign, Records, recognise
from arena.formats.refusals import NEEDS, check_are_names, check_are_prompts, unknown_layout
from arena.validation import quoted

LAYOUTS = {
    layout.name: layout
    for layout in (
        *battles.LAYOUTS,
        *rankings.LAYOUTS,
        *promptfoo.LAYOUTS,
        *traces.LAYOUTS,
    )
}
FORMATS: dict[str, Format] = {native.NAME: native} | {
    name: Foreign(layout) for name, layout in LAYOUTS.items()
}
# If a folder has files of these layouts, only those of the first one are read.
PROJECTS = ("promptfoo", "promptfoo-table", "inspect")
# Files of the layout on the left repeat the votes of those on the right, so in a folder that has
# all of these, they are left out.
REPEATED = {
    "mt-bench-grades": {"mt-bench-judgments"},
    "battles": {"lmarena"},
    "preferences": {"battles", "lmarena"},
}
PROMPTFOO = "Run promptfoo there, and bring the results: promptfoo eval --output results.json."
PROMPTS = "prompts"  # the layout of a table of prompts, whoever wrote it
DEEPEST = 3  # folders within a folder


def find_files(
    paths: Sequence[Path],
    format_name: str = "auto",
    columns: Mapping[str, str] | None = None,
    values: Mapping[str, str] | None = None,
) -> list[ImportFile]:
    """Return the files to import, prompts and candidates before the rows that refer to them.

    `columns` maps fields of a layout to columns of the file, `values` what winners are called to
    outcomes. Raises FileError with a sentence about the first unusable path.
    """
    chosen = Chosen(format_name, columns or {}, values or {})
    files = [file for path in paths for file in _files_at(path, chosen)]
    for file in files:
        if not file.format.repeats:
            Source.at(file.path)
    return sorted(files, key=lambda file: list(KINDS).index(file.kind))


@dataclass(frozen=True)
class Chosen:
    """What a person said about files: their format or "auto", columns by field, and what values of
    winners mean."""

    format_name: str
    columns: Mapping[str, str]
    values: Mapping[str, str]

    def reads(self, layout: Layout) -> Foreign:
        return Foreign(layout, self.columns, self.values)


@contextmanager
def opened(paths: Sequence[Path]) -> Iterator[dict[Path, Path]]:
    """Yield where to read the content of each path: for a packed file, a temporary folder."""
    with ExitStack() as stack:
        places = {}
        for path in paths:
            try:
                is_packed = path.suffix.lower() in (".zip", ".gz", ".eval") and path.is_file()
                places[path] = stack.enter_context(unpacked(path)) if is_packed else path
            except ArchiveError as error:
                raise FileError(f"{path} {error}.") from None
            except OSError as error:
                raise unreadable(path, error) from None
        yield places


def renamed(sentence: str, places: Mapping[Path, Path]) -> str:
    """Return the sentence with the places that `opened` yields replaced by the user's paths."""
    for path, place in places.items():
        sentence = sentence.replace(str(place), str(path) if path == place else path.name)
    return sentence


def _files_at(path: Path, chosen: Chosen) -> list[ImportFile]:
    try:
        path.stat()
        for format_ in _formats_to_try(path, chosen):
            if files := format_.sniff(path):
                # Shared by a file's kinds, so that a column is named once.
                unread: dict[Path, list[str]] = {file: _other_sheets(file) for file, _ in files}
                return [ImportFile(file, kind, format_, unread[file]) for file, kind in files]
        if path.is_dir() and chosen.format_name != native.NAME:
            return _files_within(path, chosen)
    except OSError as error:
        raise unreadable(path, error) from None
    if path.suffix.lower() in (".yaml", ".yml"):
        raise FileError(f"{path} is YAML. {PROMPTFOO}")
    if path.is_file():
        Source.at(path)
    if path.is_file() and chosen.format_name in LAYOUTS:
        layout = LAYOUTS[chosen.format_name]
        lacks = layout.missing(chosen.reads(layout).fields(Records(path)))
        why = f"There is no {' and no '.join(lacks)}." if lacks else unknown_layout(path, LAYOUTS)
        raise UnknownTableError(f"{path} cannot be read as {layout.title}. {why}")
    has = "has no file" if path.is_dir() else "is not a file"
    is_known = path.is_file() and path.suffix.lower() in SUFFIXES
    why = unknown_layout(path, LAYOUTS, chosen=chosen.columns) if is_known else NEEDS
    raise UnknownTableError(f"{path} {has} of a known format. {why}")


def _other_sheets(path: Path) -> list[str]:
    """The sheets of a workbook that are not read, as columns that are not."""
    source = Source.at(path)
    if source.encoding != "Excel":
        return []
    source.open().close()
    return [f"sheet {quoted(name)}" for name in source.other_sheets]


def _formats_to_try(path: Path, chosen: Chosen) -> list[Format]:
    """Return the formats to try: the content comes before the name."""
    if chosen.format_name in LAYOUTS:
        return [chosen.reads(LAYOUTS[chosen.format_name])]
    if chosen.format_name != "auto":
        return [FORMATS[chosen.format_name]]
    layout = None if path.is_dir() else recognise(path, LAYOUTS.values(), chosen.columns)
    if layout is None:
        return [native]
    if layout.name == PROMPTS and not chosen.columns:
        check_are_prompts(path, layout)
    if layout.name == PAIRS and not chosen.columns:
        check_are_names(path, layout)
    of_layout = chosen.reads(layout)
    # Ringside's own files of prompts are recognised by their names, and may have more fields.
    return [native, of_layout] if layout.name == PROMPTS else [of_layout, native]


def _files_within(folder: Path, chosen: Chosen) -> list[ImportFile]:
    """Return the files of other tools in a folder; files with such names must be readable."""
    inside = [path for path in sorted(folder.rglob("*")) if _is_considered(path, folder)]
    layouts = {
        path: recognise(path, LAYOUTS.values(), chosen.columns)
        for path in inside
        if path.suffix.lower() in SUFFIXES and path.suffix.lower() != ".txt"
    }
    if not any(layouts.values()):
        for path in inside:
            Source.at(path)  # says why a workbook or an archive is not read
            if path.suffix.lower() in (".yaml", ".yml"):
                return _files_at(path, chosen)  # says what to bring instead
        if layouts:
            return _files_at(next(iter(layouts)), chosen)  # says what the first one lacks
        raise FileError(f"{folder} has no file of a known format. {NEEDS}")
    paths = _paths_to_read(layouts)
    files = [file for path in paths for file in _files_at(path, chosen)]
    read = {file.path for file in files}
    others = [quoted(str(path.relative_to(folder))) for path in inside if path not in read]
    files[0].unread += others[:MOST_UNREAD]
    return files


def _is_considered(path: Path, folder: Path) -> bool:
    """Whether a file is neither hidden, nor rejected rows, nor references of MT-Bench."""
    parts = path.relative_to(folder).parts
    is_hidden = any(part.startswith((".", "__")) for part in parts)
    is_left_out = ".rejects" in path.name or path.parent.name == "reference_answer"
    return len(parts) <= DEEPEST and path.is_file() and not is_hidden and not is_left_out


def _paths_to_read(layouts: Mapping[Path, Layout | None]) -> list[Path]:
    """Choose from the files of a folder, so that nothing is read twice.

    From a promptfoo project only the results are read, because they have everything that was run.
    """
    names = {layout.name for layout in layouts.values() if layout}
    if project := next((name for name in PROJECTS if name in names), ""):
        return [path for path, layout in layouts.items() if layout and layout.name == project]
    repeated = {name for name, others in REPEATED.items() if others <= names}
    return [path for path, layout in layouts.items() if not layout or layout.name not in repeated]
