"""Files of labels that a browser sent, previewed before they are stored."""

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from arena.files.reader import FileError, RepeatedColumnError, Source
from arena.files.tables import AT_MOST_BYTES, AT_MOST_ROWS
from arena.formats.labels import LAYOUTS
from arena.formats.records import SUFFIXES, Foreign
from arena.formats.winners import MEANINGS, read_meaning
from arena.services.responses import UploadError, file_name
from arena.validation import quoted
from judges.services.label_files import FREE, LabelFile, LabelsError, labels_in, read_labels

MOST_COLUMNS = 100  # that a page offers
NOWHERE = -1
ROLES = {
    "prompt": "Prompt",
    "context": "Input, after the prompt",
    "response_1": "First answer",
    "response_2": "Second answer",
    "response_a": "First answer",
    "response_b": "Second answer",
    "winner": "Which is better",
    "preference": "Which is better",
    "chosen": "Better answer",
    "rejected": "Worse answer",
    "response": "Answer",
    "score": "Score",
    "request": "Request with prompt and answer",
    "scores": "Scores",
    "targets": "Choices with labels",
    "reference": "Reference answer",
    "rubric": "Rubric",
    **{f"level_{score}": f"What score {score} means" for score in range(1, 6)},
    "rater": "Rater",
    "category": "Category",
    "model_1": "Model of the first answer",
    "model_2": "Model of the second answer",
    "chosen_model": "Model of the better answer",
    "rejected_model": "Model of the worse answer",
}
# What a file that is not recognised can be read as.
_FREE = [layout for layout in LAYOUTS if layout.name in FREE]
UNKNOWN = replace(
    _FREE[0], columns={name: () for layout in _FREE for name in layout.columns}, needed=()
)


@dataclass(frozen=True)
class LabelUpload:
    """A file with what its columns are read as, by their place, and what its labels' values mean,
    by the places of column and value. Places, because browsers change what is in a field's name.
    """

    name: str
    data: bytes
    roles: Mapping[int, str] = field(default_factory=dict)
    meanings: Mapping[tuple[int, int], str] = field(default_factory=dict)


@dataclass(frozen=True)
class LabelColumn:
    """A column of a file: its first values, and which field it is read as, '' for none."""

    place: int
    name: str
    samples: list[str]
    role: str


@dataclass(frozen=True)
class LabelPreview:
    """What a file would add. `file` is None if no labels can be read, or not yet.

    `title`: what kind of file it is, '' for one that is not recognised. `roles`: what its columns
    can be read as. `values`: what the values of the column at `labels_at` mean, '' if that has to
    be said. `problems`: its bad rows, `bad` of them, or why nothing can be read.
    """

    title: str
    roles: list[str]
    columns: list[LabelColumn]
    labels_at: int = NOWHERE
    values: dict[str, str] = field(default_factory=dict)
    file: LabelFile | None = None
    problems: list[str] = field(default_factory=list)
    bad: int = 0

    @property
    def raters(self) -> int:
        items = self.file.items if self.file else []
        return len({rater for item in items for rater in item.labels})

    @property
    def notes(self) -> tuple[str, ...]:
        """What else was left out or overruled; the first note would be the bad rows."""
        return self.file.notes[bool(self.bad) :] if self.file else ()


def preview_labels(upload: LabelUpload) -> LabelPreview:
    """Read a file as it was chosen, without storing anything. Raises UploadError."""
    if Path(upload.name).suffix.lower() not in SUFFIXES:
        raise UploadError(f"Choose a file that ends in {', '.join(SUFFIXES)}.", field="file")
    with tempfile.TemporaryDirectory(prefix="ringside-") as folder:
        path = Path(folder) / file_name(upload.name)
        try:
            path.write_bytes(upload.data)
            Source.of(upload.data, str(path), most=AT_MOST_BYTES, guess=False)
            return _preview(path, upload)
        except FileError as error:
            raise UploadError(_without(str(error), folder), field="file") from None


def _preview(path: Path, upload: LabelUpload) -> LabelPreview:
    usual = _layout_of(path)
    first = usual or Foreign(UNKNOWN)
    (fields, names), samples = first.mapping(path), first.samples(path)
    names = names[:MOST_COLUMNS]
    if upload.roles:
        roles = {name: upload.roles.get(place, "") for place, name in enumerate(names)}
    else:
        roles = {name: role for role, name in fields.items() if role in ROLES}
    wanted = {role: name for name, role in roles.items() if role}
    layout, chosen = usual, _differences(fields, wanted, names)
    if chosen:
        layout = _layout_of(path, chosen)
    if layout is None and usual is not None and not all(map(usual.layout.knows, wanted)):
        layout, chosen = _layout_of(path, wanted), wanted  # the file becomes one of another kind
    offered = (layout.layout if layout else UNKNOWN).columns
    columns = [
        LabelColumn(place, name, samples.get(name, []), roles.get(name, ""))
        for place, name in enumerate(names)
    ]
    preview = LabelPreview(
        layout.TITLE if layout else "", [role for role in ROLES if role in offered], columns
    )
    twice = [name for name, role in roles.items() if role and wanted[role] != name]
    if twice:
        role = ROLES[roles[twice[0]]]
        both = f"{quoted(twice[0])} and {quoted(wanted[roles[twice[0]]])}"
        return replace(preview, problems=[f"{role}: choose one of the columns {both}."])
    if layout is None:
        return preview
    return _read(path, upload, layout, chosen, preview)


def _layout_of(path: Path, chosen: Mapping[str, str] | None = None) -> Foreign | None:
    """The layout of a file that can be read; None if it is not recognised."""
    try:
        return labels_in(path, chosen)
    except RepeatedColumnError:
        raise
    except FileError:
        return None


def _differences(
    fields: Mapping[str, str], wanted: Mapping[str, str], names: list[str]
) -> dict[str, str]:
    """The fields whose column was chosen otherwise than they would be read."""
    return {
        role: wanted.get(role, "")
        for role in {**fields, **wanted}
        if wanted.get(role, "") != fields.get(role, "")
        # What the page did not offer stays as it is.
        and (role in wanted or (role in ROLES and fields[role] in names))
    }


def _read(
    path: Path, upload: LabelUpload, layout: Foreign, chosen: dict[str, str], preview: LabelPreview
) -> LabelPreview:
    at = layout.mapping(path)[0].get("winner", "")
    place = next((column.place for column in preview.columns if column.name == at), NOWHERE)
    usual = {
        value: read_meaning(said).outcome if said else ""
        for value, said in (layout.meanings(path) if place != NOWHERE else {}).items()
    }
    said = {
        value: meaning
        for number, value in enumerate(usual)
        if (meaning := upload.meanings.get((place, number), "")) in MEANINGS
        and meaning != usual[value]
    }
    preview = replace(preview, labels_at=place, values=usual | said)
    read = partial(read_labels, path, columns=chosen, values=said, most_rows=AT_MOST_ROWS)
    try:
        return replace(preview, file=read())
    except LabelsError as error:
        problems, file = str(error).splitlines()[:-1], None
        with suppress(FileError):
            file = read(skip_bad=True)
        return replace(preview, file=file, problems=problems, bad=error.count)
    except FileError as error:
        return replace(preview, problems=[_without(str(error), str(path.parent))])


def _without(sentence: str, folder: str) -> str:
    return sentence.replace(f"{folder}/", "")
