"""Mutated rows and broken files of other tools: a sentence each, never a crash."""

import base64
import json
import random
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from time import process_time

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from arena.files.reader import FileError, Source, json_rows
from arena.formats import LAYOUTS, find_files
from arena.formats.records import Foreign, Records
from arena.models import Arena
from arena.validation import InputError
from tests.factories import make_arena, make_member, make_team

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


def mutants(folder: Path, n_rows: int) -> Iterator[tuple[Path, Foreign, int]]:
    """Files of mutated rows in every layout: the path, its format and how many rows are mutated."""
    random_ = random.Random(7)
    usable = [path for path in SAMPLES if path.suffix != ".yaml"]
    each = n_rows // len(usable) + 1
    for path in usable:
        layout = LAYOUTS[layout_of(path)]
        rows = [row.content for row in Records(path).rows(layout)]
        made = [
            row | {key: mutated(row[key], random_)}
            for row in random_.choices(rows, k=each)
            for key in [random_.choice(list(row))]
        ]
        mutant = folder / f"{path.stem}.jsonl"
        # The first rows are whole, so that the layout is told.
        mutant.write_text("".join(json.dumps(row) + "\n" for row in [*rows * 20, *made]))
        yield mutant, Foreign(layout), len(made)


def broken_files(folder: Path, n_files: int) -> Iterator[Path]:
    random_ = random.Random(3)
    for number in range(n_files):
        path = random_.choice(SAMPLES)
        data = bytearray(path.read_bytes())
        for _ in range(random_.randrange(1, 6)):
            place = random_.randrange(len(data))
            cut = random_.choice([b"", b"\0", b"\xff", b'"', b"{", b"\n", b"\r", b",,", b"[["])
            data[place : place + random_.randrange(3)] = cut
        if random_.random() < 0.3:
            del data[random_.randrange(len(data)) :]
        broken = folder / f"{number}{path.suffix}"
        broken.write_bytes(data)
        yield broken


def test_mutated_rows_are_read_or_refused_with_their_field(tmp_path):
    n_rows = n_errors = 0
    for path, format_, n_made in mutants(tmp_path, N_ROWS // 10):
        errors = read(path, format_)
        n_rows += n_made
        n_errors += len(errors)
        assert all(error.column for error in errors)
        assert all(HELP.search(error.advice) for error in errors)
    assert n_rows >= N_ROWS / 10
    assert n_errors > N_ROWS / 100


def test_broken_files_are_read_or_refused_with_a_sentence(tmp_path):
    refused = []
    for broken in broken_files(tmp_path, N_FILES // 4):
        try:
            for file in find_files([broken]):
                for row in file.rows():
                    assert not isinstance(row.content, InputError) or row.content.reason
        except FileError as error:
            refused.append(str(broken) in str(error))
    assert refused
    assert all(refused)


def test_a_row_of_100_000_keys_is_told_about_as_fast_as_it_is_read(tmp_path):
    path = tmp_path / "wide.jsonl"
    path.write_text(json.dumps({f"k{n}": n for n in range(100_000)}) + "\n{}\n")
    start = process_time()
    for _ in range(10):
        list(json_rows(Source.at(path)))
    reading = process_time() - start
    start = process_time()
    with pytest.raises(FileError, match="'k9' and 99,990 more"):
        find_files([path])
    assert process_time() - start < 2 * reading


# A bad row: its line, and its column unless the whole line cannot be read.
BAD_ROW = re.compile(
    r"[^ ]+, lines? \d.*?(, column .+: |: (is not |has [\d,]+ fields?;|is .+, not an? ))", re.DOTALL
)
HELP = re.compile(r"; |, not |not one of |not valid |must ")
SUMMARY = re.compile(r"\.\.\. and [\d,]+ more bad rows\.|Nothing was ")
REMEDY = re.compile(
    r"save|Save|delete|correct|Rename|rename|remove|must|import |[Ee]xport|name the columns"
)


def said_by_page(client: Client, arena: Arena, path: Path) -> list[str]:
    """What the page says of the file, whose good rows it imports."""
    address = reverse("import_file", args=[arena.slug])
    file = SimpleUploadedFile(path.name, path.read_bytes())
    answer = client.post(address, {"file": file, "skip_bad": "on"})
    said = list(answer.context.get("problems", []))
    if "preview" in answer.context:
        kept = {name: answer.context["form"].initial[name] for name in ("kept", "format")}
        answer = client.post(address, kept | {"do": "import", "skip_bad": "on"})
    assert answer.status_code == 200
    errors = answer.context["form"].errors.values()
    return [*said, *(str(error) for listed in errors for error in listed)]


def said_by_api(client: Client, arena: Arena, path: Path) -> list[str]:
    content = base64.b64encode(path.read_bytes()).decode()
    body = {"file_name": path.name, "content_base64": content}
    answer = client.post(reverse("api_imports", args=[arena.slug]), body, "application/json")
    assert answer.status_code in (200, 422)
    shown = answer.json()
    return shown["problems"] if answer.status_code == 200 else [shown["detail"]]


def said_by_command(client: Client, arena: Arena, path: Path) -> list[str]:
    said = StringIO()
    try:
        call_command(
            "import_arena", arena.slug, str(path), "--preview", stdout=StringIO(), stderr=said
        )
    except CommandError as error:
        said.write(str(error))
    return said.getvalue().replace(f"{path.parent}/", "").splitlines()


@pytest.mark.slow
@pytest.mark.any_database
@pytest.mark.django_db
def test_page_api_and_command_refuse_alike_and_say_what_helps(tmp_path, client, settings):
    settings.API_SUBMITS_PER_MINUTE = 10**6
    team = make_team()
    client.force_login(make_member(team).user)
    n_bad_rows = n_bad_files = 0
    paths = [path for path, *_ in mutants(tmp_path, N_ROWS)]
    for path in [*paths, *broken_files(tmp_path, N_FILES)]:
        bad_rows = []
        arena = make_arena(0, 0, team=team, visibility="unlisted")
        for door in (said_by_command, said_by_api, said_by_page):  # the page writes what is good
            said = door(client, arena, path)
            rows = [line for line in said if BAD_ROW.match(line)]
            of_file = [line for line in said if line not in rows and not SUMMARY.match(line)]
            assert all(REMEDY.search(sentence) for sentence in of_file), of_file
            n_bad_files += bool(of_file)
            bad_rows.append(rows)
        assert bad_rows[0] == bad_rows[1] == bad_rows[2]
        n_bad_rows += len(bad_rows[0])
    assert n_bad_rows > 500
    assert n_bad_files > 100
