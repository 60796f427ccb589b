"""Uploads are limited in size and number, for every caller and address."""

import errno
import os
from concurrent.futures import Future
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena import wsgi
from arena.files.tables import AT_MOST_ROWS
from arena.models import Response
from tests.arena.rest import ROOT, team_arena, token_of
from tests.arena.teams import signed_in
from tests.factories import make_member, make_team

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
BOUNDARY = "boundary"


class Endless(BytesIO):
    """A body of which nobody has read more than `most` bytes."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length, self.taken = length, 0

    def read(self, size: int | None = -1) -> bytes:
        left = self.length - self.taken
        wanted = left if size in (None, -1) else min(size or 0, left)
        self.taken += wanted
        return b"x" * wanted


def multipart(length: int) -> dict[str, Any]:
    return {
        "CONTENT_TYPE": f"multipart/form-data; boundary={BOUNDARY}",
        "CONTENT_LENGTH": str(length),
        "wsgi.input": Endless(length),
    }


def browser() -> Client:
    """One that has been here before: its forms are read for their token."""
    client = Client(enforce_csrf_checks=True)
    client.cookies["csrftoken"] = "c" * 32
    return client


@pytest.mark.parametrize("name", ["sign_in", "sign_up", "account_reset_password"])
def test_nobody_fills_the_disk_through_a_form(name: str) -> None:
    sent = multipart(10**10)
    answer = browser().generic("POST", reverse(name), **sent)
    assert answer.status_code == 400
    assert sent["wsgi.input"].taken == 0


def test_neither_does_anyone_who_votes_or_calls_the_api() -> None:
    arena = team_arena(make_team())
    member = browser()
    member.force_login(make_member(arena.team).user)
    key = "0b9c1e1a-6f0e-4c8e-9a55-3d0f5f4f2b11"
    paths = [
        reverse("cast_vote", args=[arena.slug, key]),
        reverse("rename_team", args=[arena.team.slug]),
        f"{ROOT}arenas/",
    ]
    for path in paths:
        sent = multipart(10**10)
        answer = member.generic("POST", path, **sent)
        assert answer.status_code in (400, 415), path
        assert sent["wsgi.input"].taken == 0, path


class AtOnce:
    """Stands for the server's threads, whose connections do not see the test's transaction."""

    def submit(self, call: Any, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(call(*args))
        return future


class Asked:
    """What the web server hands over, and what it gets back."""

    def __init__(self, path: str, *, declared: int | None, sent: int, client: Client, **more: str):
        self.body, self.status, self.headers = Endless(sent), 0, dict[str, str]()
        about = {"PATH_INFO": path, "REQUEST_METHOD": "POST", "QUERY_STRING": ""}
        environ = client._base_environ(**about | {"CONTENT_TYPE": "text/plain"} | more)
        environ["wsgi.input"] = self.body
        if declared is None:
            environ["HTTP_TRANSFER_ENCODING"] = "chunked"
        else:
            environ["CONTENT_LENGTH"] = str(declared)
        self.text = b"".join(wsgi.application(environ, self.start)).decode()

    def start(self, status: str, headers: list[tuple[str, str]], *_: Any) -> None:
        self.status, self.headers = int(status[:3]), dict(headers)


@pytest.fixture
def in_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wsgi, "_threads", AtOnce())
    monkeypatch.setattr(connection, "close_if_unusable_or_obsolete", lambda: None)


MEGABYTE = 1 << 20


@pytest.mark.usefixtures("in_this_thread")
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(
    ("who", "where", "limit"),
    [
        ("anybody", "vote", 1),
        ("anybody", "import", 1),
        ("a forged session", "import", 1),
        ("a member", "vote", 1),
        ("a member", "import", 32),
        ("a token", "responses", 32),
        ("a revoked token", "responses", 1),
        ("a token", "arenas", 1),
        ("anybody", "nowhere", 1),
    ],
)
def test_a_body_is_refused_before_it_is_read(
    who: str, where: str, limit: int, is_chunked: bool
) -> None:
    arena, client, more = team_arena(make_team()), Client(), {}
    if who == "a member":
        client.force_login(make_member(arena.team).user)
    elif who == "a forged session":
        client.cookies["sessionid"] = "x" * 32
    elif "token" in who:
        more["HTTP_AUTHORIZATION"] = token_of(arena.team).headers["Authorization"]
        if who == "a revoked token":
            arena.team.tokens.update(revoked_at=timezone.now())
    paths = {
        "vote": reverse("cast_vote", args=[arena.slug, "0b9c1e1a-6f0e-4c8e-9a55-3d0f5f4f2b11"]),
        "import": reverse("import_file", args=[arena.slug]),
        "responses": f"{ROOT}arenas/{arena.slug}/imports/",
        "arenas": f"{ROOT}arenas/",
        "nowhere": "/nowhere/",
    }
    size = limit * MEGABYTE + 1
    asked = Asked(
        paths[where], declared=None if is_chunked else size, sent=10**9, client=client, **more
    )
    assert asked.status == 413
    assert asked.body.taken <= (limit * MEGABYTE + 2**16 if is_chunked else 0)
    if where in ("arenas", "responses"):
        assert asked.headers["Content-Type"] == "application/problem+json"
        assert f"limit of {limit} MB" in asked.text
    else:
        assert f"up to {20 if limit == 32 else limit} MB" in asked.text


@pytest.mark.usefixtures("in_this_thread")
def test_a_body_within_the_limit_reaches_its_page() -> None:
    arena, client = team_arena(make_team()), Client()
    client.force_login(make_member(arena.team).user)
    for where, size in (("import_file", 20 * MEGABYTE), ("board", MEGABYTE)):
        path = reverse(where, args=[arena.slug])
        asked = Asked(path, declared=size, sent=size, client=client)
        assert asked.status not in (413, 503)
        assert asked.body.taken >= size


@pytest.mark.usefixtures("in_this_thread")
def test_who_cannot_be_recognised_now_is_told_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def be_away(*_: Any, **__: Any) -> None:
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(wsgi, "find_token", be_away)
    path, size = f"/api/v1/arenas/{team_arena(make_team()).slug}/imports/", 2 * MEGABYTE
    asked = Asked(path, declared=size, sent=size, client=Client(), HTTP_AUTHORIZATION="Bearer rs_x")
    assert (asked.status, asked.headers["Retry-After"], asked.body.taken) == (503, "5", 0)


@pytest.mark.usefixtures("in_this_thread")
@pytest.mark.parametrize("path", ["/api/v1/arenas/support/imports/", "/a/support/vote/"])
def test_a_body_for_which_the_disk_has_no_room(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullFile(SpooledTemporaryFile[bytes]):
        def write(self, *_: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(wsgi, "SpooledTemporaryFile", FullFile)
    asked = Asked(path, declared=1000, sent=1000, client=Client())
    assert (asked.status, asked.headers["Retry-After"]) == (503, "5")
    assert "The disk of this site is full." in asked.text
    assert asked.text.startswith("{") == path.startswith("/api/")


def test_a_form_has_at_most_a_hundred_files_and_1000_fields() -> None:
    client, sign_in = Client(), reverse("sign_in")
    files = {f"f{i}": SimpleUploadedFile(f"{i}.txt", b"x") for i in range(101)}
    assert client.post(sign_in, files).status_code == 400
    assert client.post(sign_in, {f"f{i}": "x" for i in range(1001)}).status_code == 400
    assert client.post(sign_in, {"login": "x" * 1024 * 1024}).status_code == 400


def test_a_page_and_the_api_take_so_many_rows_and_no_more() -> None:
    team = make_team()
    arena = team_arena(team)
    candidate = arena.candidates.create(name="new", team=team)
    header = "prompt_id,text\n"
    rows = header + "".join(f"p{i},A\n" for i in range(AT_MOST_ROWS + 1))
    page = signed_in(make_member(team).user).post(
        reverse("upload_answers", args=[arena.slug, candidate.pk]),
        {"file": SimpleUploadedFile("answers.csv", rows.encode())},
    )
    assert "10,000" in page.text
    body = {"responses": [{"prompt_id": "p0", "text": "A"}] * (AT_MOST_ROWS + 1)}
    refused = token_of(team).post(f"arenas/{arena.slug}/candidates/{candidate.pk}/responses/", body)
    assert refused.status_code == 413
    assert "10,000" in refused.json()["detail"]
    assert not Response.objects.filter(candidate=candidate).exists()


def test_a_body_for_the_api_is_refused_before_it_is_all_read() -> None:
    team = make_team()
    sent = {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(10**10)}
    sent["wsgi.input"] = body = Endless(10**10)
    caller = token_of(team)
    answer = caller.client.generic("POST", f"{ROOT}arenas/", headers=caller.headers, **sent)
    assert answer.status_code == 413
    assert body.taken <= 2 * 1024 * 1024
