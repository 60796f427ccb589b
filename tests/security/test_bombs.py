"""Small files that would take much memory or time are refused at every door, and quickly."""

import base64
import gzip
import json
import resource
import time
import zipfile
from collections.abc import Callable
from io import BytesIO

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from arena.models import Arena, Prompt, Response
from tests.arena.teams import signed_in
from tests.factories import make_arena, make_candidate, make_team

pytestmark = [pytest.mark.slow, pytest.mark.any_database, pytest.mark.django_db]
MOST_SECONDS, MOST_MEGABYTES = 20.0, 300  # of the processor; of a request
ZEROS = b"0" * 150_000_000
ROWS = b'{"prompt": "Why?", "model": "m", "response": "So."}\n'


def zipped(name: str, content: bytes, times: int = 1) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(times):
            archive.writestr(f"{number}{name}" if number else name, content)
    return file.getvalue()


def workbook(content: bytes) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
        archive.writestr("xl/worksheets/sheet1.xml", content)
    return file.getvalue()


BOMBS: dict[str, Callable[[], bytes]] = {
    "zeros.zip": lambda: zipped("a.csv", b"prompt,response\n" + ZEROS),
    "zips.zip": lambda: zipped("a.zip", zipped("a.csv", ZEROS), 50),
    "files.zip": lambda: zipped(".csv", b"prompt\nWhy?\n", 20_000),
    "below-the-ratio.zip": lambda: zipped("a.jsonl", ROWS * 4_000_000),
    "zeros.csv.gz": lambda: gzip.compress(ZEROS),
    "zeros.xlsx": lambda: workbook(b"<" + b" " * 150_000_000),
    "entities.xlsx": lambda: workbook(
        b'<!DOCTYPE x [<!ENTITY a "'
        + b"a" * 9999
        + b'">'
        + b"".join(b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 99) for n in range(1, 9))
        + b"]><worksheet>&a8;</worksheet>"
    ),
    "deep.json": lambda: b"[" * 5_000_000,
    "deep.jsonl": lambda: b'{"prompt": ' * 100_000 + b"\n",
    "number.json": lambda: b'[{"prompt": ' + b"9" * 5_000_000 + b"}]",
    "exponent.jsonl": lambda: b'{"prompt": "Why?", "id": 1e999999999}\n',
    "infinite.jsonl": lambda: b'{"prompt": "Why?", "score": Infinity, "x": NaN}\n',
    "values.json": lambda: b"[" + b"[]," * 6_000_000 + b"[]]",
    "columns.csv": lambda: b"prompt," * 2_000_000 + b"\n",
    "line.csv": lambda: b'prompt\n"' + b"x" * 19_000_000,
    "quotes.csv": lambda: b"prompt\n" + b'"a""b",' * 2_500_000,
    "braces.csv": lambda: b"prompt\n" + b"{{a" * 6_000_000 + b"\n",
    "expression.json": lambda: json.dumps(
        {
            "results": [
                {
                    "vars": {"q": "a" * 50_000 + "!"},
                    "assert": [{"type": "regex", "value": "(a+)+$"}],
                }
            ]
        }
    ).encode(),
}


@pytest.fixture
def arena() -> Arena:
    return make_arena(1, 1, team=make_team())


@pytest.fixture
def owner(arena: Arena) -> Client:
    assert arena.team
    return signed_in(arena.team.memberships.get().user)


def doors(arena: Arena) -> dict[str, tuple[str, str]]:
    """The address of each form with a file, and the name of that field."""
    assert arena.team
    team = arena.team.slug
    candidate = make_candidate(arena, "new", team=arena.team)
    return {
        "import": (reverse("import_file", args=[arena.slug]), "file"),
        "prompts": (reverse("add_prompts", args=[arena.slug]), "file"),
        "answers": (reverse("upload_answers", args=[arena.slug, candidate.pk]), "file"),
        "labels": (reverse("new_labels", args=[team]), "file"),
        "arena": (reverse("import_arena", args=[team]), "file"),
        "rubric": (reverse("import_rubric", args=[team]), "file"),
        "candidates": (reverse("new_candidate", args=[arena.slug]), "files"),
        "compare": (reverse("compare_prompts"), "arena-file"),
    }


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_at_every_door(name: str, arena: Arena, owner: Client) -> None:
    bomb, wrong = BOMBS[name](), []
    for door, (address, field) in doors(arena).items():
        fields = {field: SimpleUploadedFile(name, bomb), "do": "preview"}
        began, used = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        status = owner.post(address, fields).status_code
        seconds = time.process_time() - began
        megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) / 1024
        print(f"{name} {door}: {status}, {seconds:.1f} s, {megabytes:.0f} MB")
        if status >= 500 or seconds > MOST_SECONDS or megabytes > MOST_MEGABYTES:
            wrong.append(f"{door}: {status}, {seconds:.1f} s, {megabytes:.0f} MB")
    content = {"file_name": name, "content_base64": base64.b64encode(bomb).decode()}
    began = time.process_time()
    answer = owner.post(reverse("api_imports", args=[arena.slug]), content, "application/json")
    seconds = time.process_time() - began
    print(f"{name} api: {answer.status_code}, {seconds:.1f} s")
    if answer.status_code >= 500 or seconds > MOST_SECONDS:
        wrong.append(f"API: {answer.status_code}, {seconds:.1f} s")
    assert not wrong, "\n".join(wrong)
    assert (Prompt.objects.count(), Response.objects.count()) == (1, 1)
