"""Keys and passwords that operators type: after all they may do with them, they are nowhere.

Neither on pages nor in the admin, exports, log lines, reprs, audit entries or the bytes of a
backup.
"""

import io
import logging
import smtplib
import tarfile
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.urls import reverse

from arena.endpoints import all_endpoints, endpoint_named
from arena.models import ModelEndpoint, SiteSettings
from tests.factories import make_arena, make_user
from tests.judges import helpers
from tests.judges.fake_server import MODEL, FakeServer, Sent
from tests.security.test_secrets import database

KEY = "sk-canary-of-an-operator-7f2a"
PASSWORD = "canary-of-the-mail-server-91bc"
SECRETS = (KEY, PASSWORD)


@pytest.mark.django_db(transaction=True)
def test_what_operators_type_is_nowhere(
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    tmp_path: Path,
) -> None:
    caplog.set_level(logging.DEBUG)
    settings.EMAIL_BACKEND = "arena.mail.StoredServer"
    seen: dict[str, str] = {}
    boss = helpers.browser_of(make_user("boss", is_staff=True, is_superuser=True))
    arena = make_arena(2, 2)
    boss.raise_request_exception = False

    def post(path: str, **fields: str) -> None:
        page = boss.post(path, fields, follow=True)
        seen[f"POST {path} {len(seen)}"] = page.content.decode()

    with FakeServer() as server:
        said = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
        server.otherwise = lambda body: Sent(said, status=401)
        house = {"kind": "openai", "base_url": server.base_url, "key": KEY, "name": "house"}
        post("/operators/models/", **house, model=MODEL, input="wrong", output="1")
        post("/operators/models/", **house, model=MODEL, input="1", output="1")
        post("/operators/models/house/", action="save", key=KEY, base_url="nowhere")
        post("/operators/models/house/model/", action="test", model=MODEL)
        server.models = Sent(said, status=401)
        seen["found"] = boss.get("/operators/models/house/?find=1").content.decode()
        with monkeypatch.context() as patched:
            patched.setattr("arena.services.endpoints.encrypt", fail)
            post("/operators/models/house/", action="save", key=KEY, **limits(server))
        helpers.work_off(helpers.order(arena, f"house:{MODEL}", per_pair=1, cap=10**9), rounds=2)
        assert any(h.get("authorization") == f"Bearer {KEY}" for h in server.headers)

    usual = {"sign_up": "open", "mail_port": "587", "mail_security": "none"}
    mailed = {"mail_host": "smtp.example.org", "mail_from": "a@example.org", "mail_user": "a"}
    post("/operators/settings/", **usual, **mailed, password=PASSWORD, team_budget="wrong")
    post("/operators/settings/", **usual, **mailed, password=PASSWORD)
    monkeypatch.setattr(smtplib, "SMTP", refuse)
    post("/operators/settings/mail/", to="ann@example.org")

    for path in (
        *("/operators/", "/operators/models/", "/operators/models/house/"),
        *("/operators/settings/", "/operators/health/"),
        *(reverse(f"admin:arena_{name}_changelist") for name in ("modelendpoint", "sitesettings")),
        reverse("admin:arena_modelendpoint_change", args=[ModelEndpoint.objects.get().pk]),
        reverse("admin:arena_sitesettings_change", args=[1]),
        reverse("order_run", args=[arena.slug]),
        "/api/v1/",
    ):
        page = boss.get(path, follow=True)
        assert page.status_code == 200, path
        seen[path] = page.content.decode()
    out = io.StringIO()
    call_command("endpoints", stdout=out)
    call_command("export_arena", arena.slug, str(tmp_path / "export"), stdout=out)
    call_command("backup", str(tmp_path / "backup"), stdout=out)
    seen |= {
        "commands": out.getvalue(),
        "the logs": caplog.text + "".join(str(record.__dict__) for record in caplog.records),
        "the database": database(),
        "the backup": unpacked(tmp_path / "backup"),
        "reprs": repr([*ModelEndpoint.objects.values(), *SiteSettings.objects.values()])
        + repr([all_endpoints(), endpoint_named("house"), *ModelEndpoint.objects.all()]),
        "the export": "".join(
            file.read_text(errors="replace")
            for file in (tmp_path / "export").rglob("*")
            if file.is_file()
        ),
    }
    assert "house" in seen["the backup"], "the backup was read"
    found = [
        f"{secret} in {place}" for secret in SECRETS for place in seen if secret in seen[place]
    ]
    assert not found, "\n".join(found)
    encrypted = ModelEndpoint.objects.get().encrypted_key
    admin = [place for place in seen if "admin" in place and encrypted in seen[place]]
    assert not admin, "not even encrypted"


def limits(server: FakeServer) -> dict[str, str]:
    return {"base_url": server.base_url, "concurrency": "8", "timeout": "60"}


def fail(*arguments: Any) -> str:
    raise RuntimeError("A fault of ours.")


def refuse(*arguments: Any, **named: Any) -> None:
    raise smtplib.SMTPAuthenticationError(535, f"5.7.8 {PASSWORD} is wrong".encode())


def unpacked(backup: Path) -> str:
    """Every byte of the backup, and of the SQLite file itself."""
    with tarfile.open(backup) as archive:
        files = [archive.extractfile(member) for member in archive.getmembers()]
        text = b"".join(file.read() for file in files if file)
    if connection.vendor == "sqlite":
        text += Path(str(connection.settings_dict["NAME"])).read_bytes()
    return text.decode(errors="replace")
