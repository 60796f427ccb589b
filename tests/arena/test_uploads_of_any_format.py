"""Files of any format in the browser and by the API: previewed, confirmed, then imported."""

import base64
import shutil
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.formats import FORMATS
from arena.forms.prompts import ImportForm
from arena.models import (
    Arena,
    AuditEntry,
    Candidate,
    Import,
    KeptUpload,
    Prompt,
    Response,
    Vote,
)
from arena.services import responses
from arena.services.expiry import delete_old_rows
from arena.services.responses import MOST_KEPT, file_name
from tests.factories import make_arena, make_member, make_team

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
FILES = Path(__file__).parent.parent / "files"


@pytest.fixture
def arena() -> Arena:
    return make_arena(0, 0, team=make_team(), visibility="unlisted", counts_tokens=False)


@pytest.fixture
def member(client: Client, arena: Arena) -> Client:
    client.force_login(make_member(arena.team).user)
    return client


def page_of(arena: Arena) -> str:
    return reverse("import_file", args=[arena.slug])


def send(client: Client, arena: Arena, name: str, data: bytes, **fields: str) -> dict:
    file = SimpleUploadedFile(name, data)
    response = client.post(page_of(arena), {"file": file, "do": "preview"} | fields)
    assert response.status_code == 200
    return response.context


def confirm(client: Client, arena: Arena, shown: dict, **fields: str) -> dict:
    kept = {"kept": shown["form"].initial["kept"], "format": shown["form"].initial["format"]}
    return client.post(page_of(arena), kept | {"do": "import"} | fields).context


def counts() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (Prompt, Candidate, Response, Vote))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lmarena.jsonl", (2, 3, 4, 2)),
        ("lmarena-wide.csv", (2, 3, 4, 2)),
        ("promptfoo.json", (2, 2, 3, 0)),
        ("langfuse-traces.csv", (1, 2, 2, 0)),
    ],
)
def test_a_file_is_previewed_and_imported_once_that_is_confirmed(member, arena, name, expected):
    shown = send(member, arena, name, (FILES / name).read_bytes())
    assert shown["preview"].rows.get("prompts") == expected[0]
    assert counts() == (0, 0, 0, 0)
    assert not Import.objects.exists()
    shown = confirm(member, arena, shown)
    assert counts() == expected
    assert shown["added"]["prompts"] == expected[0]
    assert shown["can_vote"]
    entry = AuditEntry.objects.get(action="imported a file")
    assert (entry.subject, entry.details["prompts"]) == (name, expected[0])


def test_even_a_first_request_to_import_is_only_a_preview(member, arena):
    data = (FILES / "lmarena.jsonl").read_bytes()
    assert send(member, arena, "a.jsonl", data, do="import")["preview"]
    assert counts() == (0, 0, 0, 0)


def test_a_zip_of_one_csv_per_model_is_taken(member, arena, tmp_path):
    path = Path(shutil.make_archive(str(tmp_path / "all"), "zip", FILES / "autoarena"))
    confirm(member, arena, send(member, arena, "all.zip", path.read_bytes()))
    assert counts() == (2, 2, 4, 0)


def test_a_zip_of_several_formats_is_imported_as_it_was_previewed(member, arena, tmp_path):
    path = Path(shutil.make_archive(str(tmp_path / "all"), "zip", FILES / "mt-bench"))
    shown = send(member, arena, "all.zip", path.read_bytes())
    assert not shown["form"].columns  # they would be those of one of its formats
    fields = {field.html_name: field.value() or "" for field in shown["form"]}
    confirm(member, arena, shown, **{name: fields[name] for name in fields if name != "file"})
    assert counts() == (2, 2, 4, 3)


def test_the_page_counts_in_words_and_leads_to_the_next_step(member, arena):
    shown = send(member, arena, "amber.csv", b"prompt,response\nWhy?,So.\n")
    kept = {"kept": shown["form"].initial["kept"], "format": shown["form"].initial["format"]}
    page = member.post(page_of(arena), kept | {"do": "import"}).text
    assert "Candidates added: 1" in " ".join(page.split())
    report = page.partition("Imported")[2].partition("</section>")[0]
    assert f'href="/a/{arena.slug}/manage/"' in report
    assert f'href="/a/{arena.slug}/vote/"' not in report  # one candidate


def test_the_page_names_what_it_does_not_use(member, arena):
    rows = "".join(f'{{"question": "Why {n}?", "reply": "So.", "model": "m"}}\n' for n in range(30))
    data = rows + '{"question": "Who?", "reply": "Me.", "model": "m", "<b>": 1}\n'
    shown = send(member, arena, "bot.jsonl", data.encode())
    [file] = shown["preview"].files
    assert (file.format_name, file.unread) == ("answers", ["'<b>'"])
    kept = {"kept": shown["form"].initial["kept"], "format": shown["form"].initial["format"]}
    page = member.post(page_of(arena), kept | {"do": "import"}).text
    assert "Not used: &#x27;&lt;b&gt;&#x27;." in page


@pytest.mark.parametrize("header", ["prompt,response", "left,right,winner"])
def test_an_upload_of_too_many_rows_is_refused(member, arena, monkeypatch, header):
    monkeypatch.setattr(responses, "MOST_ROWS", 100)
    rows = [f"a{n},b,left" if "left" in header else f"Why {n}?,So." for n in range(101)]
    data = "\n".join([header, *rows[:99], ""]).encode()
    assert "preview" in send(member, arena, "few.csv", data)
    shown = send(member, arena, "many.csv", "\n".join([header, *rows, *rows, ""]).encode())
    assert shown["form"].errors["file"] == [
        "many.csv has more than 100 rows. Split it, or import it with manage.py import_arena."
    ]


def test_bad_rows_are_named_and_can_be_skipped(member, arena):
    data = b"prompt,response\nWhy?,So.\n,Thus.\n"
    shown = send(member, arena, "amber.csv", data)
    assert shown["problems"] == [
        "amber.csv, line 3, column prompt: is empty; fill it in, or leave the row out"
    ]
    again = confirm(member, arena, shown)
    assert "skip_bad" in again["form"].errors
    assert counts() == (0, 0, 0, 0)
    confirm(member, arena, shown, skip_bad="on")
    assert counts() == (1, 1, 1, 0)


def test_a_file_of_no_known_format_is_explained_without_a_path_of_the_server(member, arena):
    shown = send(member, arena, "../../x.eval", b"not a log")
    [error] = shown["form"].errors["file"]
    assert error.startswith("x.eval ")
    assert "/tmp" not in error


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("old.csv", "prompt,response,état\nWhy?,So.,x\n".encode("cp1252")),
        ("broken.json", b'[{"prompt": "Why?", "response": "So.", "\\ud800": 1}]'),
        ("unknown.json", b'[{"\\ud800": 1}]'),
        ("members.csv", b"input_q\xff,output_text\nWhy?,So.\n"),
        ("table.json", b'[{"text": "Why?", "\\ud800": "x"}]'),
    ],
)
def test_a_column_whose_name_is_no_text_is_not_offered(member, arena, name, data):
    for page in ("import_file", "add_prompts"):
        file = SimpleUploadedFile(name, data)
        shown = member.post(reverse(page, args=[arena.slug]), {"file": file})
        assert shown.status_code == 200
    body = {"file_name": name, "content_base64": base64.b64encode(data).decode()}
    answer = member.post(reverse("api_imports", args=[arena.slug]), body, "application/json")
    assert answer.status_code in (200, 422)


def test_every_format_is_offered_once_and_tools_by_name():
    _, (_, general), (_, tools) = ImportForm.base_fields["format"].choices
    assert {name for name, _ in general} | {name for name, _ in tools} == set(FORMATS)
    assert len(general) + len(tools) == len(FORMATS)
    titles = [title.casefold() for _, title in tools]
    assert titles == sorted(titles)


def test_somebody_else_and_another_arena_cannot_use_a_kept_file(member, arena):
    shown = send(member, arena, "a.jsonl", (FILES / "lmarena.jsonl").read_bytes())
    other = make_arena(0, 0, team=arena.team)
    assert "no longer stored" in str(confirm(member, other, shown)["form"].errors)
    stranger = Client()
    stranger.force_login(make_member(arena.team).user)
    assert "no longer stored" in str(confirm(stranger, arena, shown)["form"].errors)
    assert counts() == (0, 0, 0, 0)


def test_a_forged_key_is_refused(member, arena):
    answer = member.post(page_of(arena), {"kept": "nonsense", "do": "import"})
    assert "no longer stored" in str(answer.context["form"].errors)


def test_votes_of_a_file_count_on_a_public_board_only_where_those_of_tokens_do(member, arena):
    confirm(member, arena, send(member, arena, "a.jsonl", (FILES / "lmarena.jsonl").read_bytes()))
    assert {*Vote.objects.values_list("channel", "uncounted")} == {("token", None)}
    public = make_arena(0, 0, team=arena.team, visibility="public", counts_tokens=False)
    confirm(member, public, send(member, public, "a.jsonl", (FILES / "lmarena.jsonl").read_bytes()))
    votes = Vote.objects.filter(arena=public)
    assert {*votes.values_list("channel", "uncounted")} == {("token", "channel")}


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a/b.csv", "b.csv"),
        ("..\\c.csv", "c.csv"),
        ("/", "file"),
        ("..", "file"),
        ("x\n.csv", "x_.csv"),
    ],
)
def test_a_name_cannot_lead_out_of_the_folder(name, safe):
    assert file_name(name) == safe


def test_the_api_previews_by_default_and_imports_on_request(member, arena):
    address = reverse("api_imports", args=[arena.slug])
    body = {"file_name": "a.jsonl", "content": (FILES / "lmarena.jsonl").read_text()}
    shown = member.post(address, body, "application/json").json()
    assert (shown["written"], shown["rows"]["votes"]) == (False, 2)
    assert shown["files"][0]["format"] == "lmarena"
    assert counts() == (0, 0, 0, 0)
    shown = member.post(address, body | {"preview": False}, "application/json").json()
    assert shown["written"]
    assert counts() == (2, 3, 4, 2)


def test_the_api_takes_binary_files_and_refuses_bad_rows(member, arena, tmp_path):
    address = reverse("api_imports", args=[arena.slug])
    path = Path(shutil.make_archive(str(tmp_path / "all"), "zip", FILES / "autoarena"))
    body = {"file_name": "all.zip", "content_base64": base64.b64encode(path.read_bytes()).decode()}
    assert member.post(address, body, "application/json").json()["rows"]["responses"] == 4
    bad = {"file_name": "a.csv", "content": "prompt,response\n,So.\n", "preview": False}
    answer = member.post(address, bad, "application/json")
    assert answer.status_code == 422
    assert "a.csv, line 2, column prompt: is empty" in answer.content.decode()
    both = body | {"content": "x"}
    assert member.post(address, both, "application/json").status_code in (400, 422)
    assert counts() == (0, 0, 0, 0)


CLAIMS = '{"channel": "signed_in", "verified": true}'
RUSHED = '{"channel": "signed_in", "rushed": true, "uncounted": "rushed"}'


def archive_of(*provenances: str) -> bytes:
    vote = '{"prompt": "p", "a": "A", "b": "B", "outcome": "left", "rater": "x", "provenance": %s}'
    files = {
        "prompts.jsonl": '{"id": "p", "text": "Why?"}',
        "candidates.jsonl": '{"name": "A"}\n{"name": "B"}',
        "votes.jsonl": "\n".join(vote % provenance for provenance in provenances),
    }
    data = BytesIO()
    with ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


def test_a_team_cannot_write_into_a_file_where_its_votes_came_from(member, arena):
    confirm(member, arena, send(member, arena, "all.zip", archive_of(CLAIMS)))
    assert [*Vote.objects.values_list("channel", "verified")] == [("token", False)]


def test_a_team_cannot_write_into_an_archive_where_its_votes_came_from(member, arena):
    file = SimpleUploadedFile("all.zip", archive_of(CLAIMS, RUSHED))
    address = reverse("import_arena", args=[arena.team.slug])
    assert member.post(address, {"file": file}).status_code == 302
    votes = Vote.objects.order_by("pk").values_list("channel", "verified", "uncounted")
    assert [*votes] == [("token", False, None), ("token", False, "rushed")]


def test_a_file_that_was_previewed_on_one_host_is_confirmed_on_another(
    member, arena, settings, tmp_path
):
    for host in ("amber", "birch"):
        (tmp_path / host).mkdir()
    settings.FILE_UPLOAD_TEMP_DIR = str(tmp_path / "amber")
    shown = send(member, arena, "a.jsonl", (FILES / "lmarena.jsonl").read_bytes())
    settings.FILE_UPLOAD_TEMP_DIR = str(tmp_path / "birch")
    confirm(member, arena, shown)
    assert counts() == (2, 3, 4, 2)
    assert not [*(tmp_path / "amber").iterdir(), *(tmp_path / "birch").iterdir()]


def test_a_file_waits_for_a_day_and_is_then_deleted(member, arena):
    shown = send(member, arena, "a.jsonl", (FILES / "lmarena.jsonl").read_bytes())
    now = timezone.now()
    delete_old_rows(now=now + timedelta(hours=23))
    assert KeptUpload.objects.count() == 1
    KeptUpload.objects.update(expires_at=now)
    assert "no longer stored" in str(confirm(member, arena, shown)["form"].errors)
    delete_old_rows(now=now)
    assert not KeptUpload.objects.exists()


def test_so_many_files_of_a_person_wait_and_no_more(member, arena):
    shown = [send(member, arena, "a.csv", b"prompt\nWhy?\n") for _ in range(MOST_KEPT + 1)]
    assert KeptUpload.objects.count() == MOST_KEPT
    assert "no longer stored" in str(confirm(member, arena, shown[0])["form"].errors)
    confirm(member, arena, shown[-1])
    assert Prompt.objects.count() == 1


def test_the_checks_of_a_file_are_counted_before_and_after(member, arena):
    shown = send(member, arena, "promptfoo.json", (FILES / "promptfoo.json").read_bytes())
    assert shown["preview"].rows["checks"] == 4
    shown = confirm(member, arena, shown)
    assert shown["added"]["checks"] == arena.checks.count() == 4
