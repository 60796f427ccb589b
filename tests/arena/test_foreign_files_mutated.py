"""Mutated rows and broken files of other tools: a sentence each, never a crash."""

import json
import random
from pathlib import Path

import pytest

from arena.files.reader import FileError
from arena.formats import LAYOUTS, find_files
from arena.formats.records import Foreign, Records
from arena.validation import InputError

FILES = Path(__file__).parent.parent / "files"
SAMPLES = sorted(
    path for path in FILES.rglob("*.*") if path.name != "README.md" and path.parent.name != "labels"
)
N_ROWS, N_FILES = 20_000, 200
ODD = [
    *(None, True, False, 0, -1, 1e308, 10**200, "", " ", "\u202e", "x" * 300, "[", '"', "{}"),
    *([], {}, [[]], [{}], [None], [1], {"a": None}, {"role": "user"}, [{"role": 1}], ["a", 2]),
    *([{"role": "assistant", "content": [{"type": "text", "text": 1}]}], {"messages": 3}),
    *([{"role": "user", "content": "x", "tool_calls": [{}]}], {"output": {"a": []}}, "nul\0"),
]


def layout_of(path: Path) -> str:
    return find_files([path])[0].format.NAME


def mutated(value: object, random_: random.Random) -> object:
    """The value with one part of it, at any depth, replaced by something odd."""
    if isinstance(value, dict) and value and random_.random() < 0.7:
        key = random_.choice(list(value))
        return value | {key: mutated(value[key], random_)}
    if isinstance(value, list) and value and random_.random() < 0.7:
        place = random_.randrange(len(value))
        return [*value[:place], mutated(value[place], random_), *value[place + 1 :]]
    return random_.choice(ODD)


def read(path: Path, format_: Foreign) -> list[InputError]:
    """Read all rows; return the errors, and fail for one without a reason."""
    errors = []
    for file, kind in format_.sniff(path):
        for row in format_.rows(file, kind):
            assert row.number >= 1
            assert row.content is not None
            if isinstance(row.content, InputError):
                errors.append(row.content)
    assert all(error.reason for error in errors)
    return errors


def test_mutated_rows_are_read_or_refused_with_their_field(tmp_path):
    random_ = random.Random(7)
    n_rows = n_errors = n_named = 0
    usable = [path for path in SAMPLES if path.suffix != ".yaml"]
    each = N_ROWS // len(usable) + 1
    for path in usable:
        name = layout_of(path)
        layout, records = LAYOUTS[name], Records(path)
        rows = [row.content for row in records.rows(layout)]
        made = [
            row | {key: mutated(row[key], random_)}
            for row in random_.choices(rows, k=each)
            for key in [random_.choice(list(row))]
        ]
        mutant = tmp_path / f"{path.stem}.jsonl"
        # The first rows are whole, so that the layout is told.
        mutant.write_text("".join(json.dumps(row) + "\n" for row in [*rows * 20, *made]))
        errors = read(mutant, Foreign(layout))
        n_rows += len(made)
        n_errors += len(errors)
        n_named += sum(1 for error in errors if error.column)
    assert n_rows >= N_ROWS
    assert n_errors > N_ROWS / 10
    assert n_named > 0.9 * n_errors


@pytest.mark.parametrize("seed", range(4))
def test_broken_files_are_read_or_refused_with_a_sentence(tmp_path, seed):
    random_ = random.Random(seed)
    refused = []
    for number in range(N_FILES // 4):
        path = random_.choice(SAMPLES)
        data = bytearray(path.read_bytes())
        for _ in range(random_.randrange(1, 6)):
            place = random_.randrange(len(data))
            cut = random_.choice([b"", b"\0", b"\xff", b'"', b"{", b"\n", b"\r", b",,", b"[["])
            data[place : place + random_.randrange(3)] = cut
        if random_.random() < 0.3:
            del data[random_.randrange(len(data)) :]
        broken = tmp_path / f"{number}{path.suffix}"
        broken.write_bytes(data)
        try:
            for file in find_files([broken]):
                for row in file.rows():
                    assert not isinstance(row.content, InputError) or row.content.reason
        except FileError as error:
            refused.append(str(broken) in str(error))
    assert refused
    assert all(refused)
