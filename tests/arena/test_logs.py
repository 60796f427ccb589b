"""Log lines: one JSON object each, with the id of their request and without secrets."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError
from django.test import Client, RequestFactory
from django.urls import get_resolver
from psycopg.errors import AdminShutdown, LockNotAvailable

from arena import logs
from arena.tasks import disclose_candidates
from tests.deadlocks import deadlock
from tests.factories import make_user
from tests.ops.running import manage
from tests.security.requests import patterns

GIVEN = "trace-0123456789"
SECRET = "Tr4p-d00r-secret"


def caused_by(cause: Exception) -> Exception:
    """Django's version of a driver's error."""
    error = OperationalError("ended")
    error.__cause__ = cause
    return error


def raising(error: Exception) -> Any:
    def work(**_: Any) -> Any:
        raise error

    return work


@pytest.fixture
def json_lines(caplog: pytest.LogCaptureFixture) -> Any:
    """What was logged, as the formatter writes it."""
    caplog.set_level("INFO", "arena")
    caplog.set_level("INFO", "arena.access")
    caplog.handler.addFilter(request_id := logs.RequestId())
    formatter = logs.JsonFormatter()

    def lines(logger: str) -> list[dict[str, Any]]:
        written = [formatter.format(record) for record in caplog.records if record.name == logger]
        assert not any("\n" in line for line in written)
        return [json.loads(line) for line in written]

    yield lines
    caplog.handler.removeFilter(request_id)


def test_each_response_has_an_id_of_its_own(client: Client) -> None:
    first, second = (client.get("/healthz")["X-Request-ID"] for _ in range(2))
    assert re.fullmatch("[0-9a-f]{32}", first)
    assert first != second


@pytest.mark.parametrize(
    ("proxies", "given", "is_taken"),
    [
        (1, GIVEN, True),
        (2, "a" * 64, True),
        (0, GIVEN, False),
        (1, "a" * 65, False),
        (1, "short", False),
        (1, "trace 0123456789", False),
        (1, "trace-0123456789\u00e9", False),
    ],
)
def test_only_a_trusted_proxy_names_a_request(
    client: Client, settings: Any, proxies: int, given: str, is_taken: bool
) -> None:
    settings.TRUSTED_PROXIES = proxies
    answer = client.get("/healthz", headers={"X-Request-ID": given})
    assert (answer["X-Request-ID"] == given) == is_taken


@pytest.mark.django_db
def test_every_line_within_a_request_has_its_id(
    client: Client, json_lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        logging.getLogger("arena").info("within")
        raise ZeroDivisionError("our fault")

    monkeypatch.setattr("ranking.views.health.check_health", broken)
    client.force_login(make_user("olga", is_staff=True))
    client.raise_request_exception = False
    answer = client.get("/healthz?full")
    missing = client.get("/nothing/")
    assert (answer.status_code, missing.status_code) == (500, 404)
    request_id = answer["X-Request-ID"]
    assert [line["request_id"] for line in json_lines("arena")] == [request_id]
    fault, not_found = json_lines("django.request")
    assert (fault["request_id"], fault["level"]) == (request_id, "ERROR")
    assert fault["traceback"].endswith("ZeroDivisionError: our fault")
    assert not_found["request_id"] == missing["X-Request-ID"]
    logging.getLogger("arena").warning("afterwards")
    assert json_lines("arena")[-1]["request_id"] == "-"


@pytest.mark.django_db
def test_a_request_is_one_line_without_address_cookies_or_query(
    client: Client, json_lines: Any
) -> None:
    client.cookies["signed_in"] = SECRET
    path = "/nothing/%0Ahere/"
    answer = client.get(f"{path}?token={SECRET}", REMOTE_ADDR="203.0.113.77")
    [line] = json_lines("arena.access")
    assert line.pop("time").endswith("+00:00")
    assert line.pop("milliseconds") > 0
    assert line == {
        "level": "INFO",
        "logger": "arena.access",
        "message": f"GET {path} 404",
        "request_id": answer["X-Request-ID"],
        "method": "GET",
        "path": path,
        "status": 404,
    }


def test_a_link_is_logged_without_its_secret() -> None:
    """All routes with a secret: such parameters are called `secret` and `key`."""
    holders = [
        "/" + spelled.lstrip("^")
        for _, spelled in patterns(get_resolver())
        if re.search(r"<(str:)?(secret|key)>", spelled) and not spelled.startswith("admin/")
    ]
    assert len(holders) == 4
    for spelled in holders:
        path = re.split(r"[(<]", spelled.replace("<slug:slug>", "support"))[0] + SECRET
        for spelling in (path, path + "/", path.upper()):
            logged = logs.safe_path(RequestFactory().get(spelling))
            assert SECRET.lower() not in logged.lower(), spelled


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OperationalError("no\n\troute"), "not reachable (OperationalError: no route)"),
        (InterfaceError("closed"), "not reachable (InterfaceError: closed)"),
        (caused_by(AdminShutdown()), "not reachable (OperationalError: ended)"),
        (caused_by(LockNotAvailable()), "busy (OperationalError: ended)"),
        (deadlock(), "busy (OperationalError: deadlock detected)"),
        (OperationalError("database is locked"), "busy (OperationalError: database is locked)"),
    ],
    ids=["away", "closed", "shut down", "lock", "deadlock", "locked"],
)
def test_a_database_that_is_busy_is_distinguished_from_one_that_is_down(
    error: Exception, said: str
) -> None:
    assert logs.outage(error) == f"the database is {said}"


@pytest.mark.parametrize(
    ("error", "is_kept"), [(OperationalError("away"), False), (ValueError("our fault"), True)]
)
def test_a_task_that_fails_for_its_own_reasons_keeps_its_traceback(
    error: Exception, is_kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("arena.tasks.candidates.disclose_due", raising(error))
        disclose_candidates.apply()
    [record] = [record for record in caplog.records if record.name == "celery.app.trace"]
    assert bool(record.exc_info) == is_kept
    assert repr(error) in record.getMessage()


TWO_REQUESTS = (
    "from django.test import Client; Client().get('/healthz');"
    "import logging; logging.getLogger('ranking').warning('two\\nlines')"
)


def test_with_json_every_line_of_a_process_is_an_object(tmp_path: Path) -> None:
    done = manage("shell", "-c", TWO_REQUESTS, home=tmp_path, LOG_FORMAT="json")
    access, warning = map(json.loads, done.stderr.splitlines())
    assert (access["logger"], access["path"], access["status"]) == ("arena.access", "/healthz", 200)
    assert (warning["message"], warning["request_id"]) == ("two\nlines", "-")


def test_as_text_requests_are_not_logged_but_those_for_another_host(tmp_path: Path) -> None:
    asked = TWO_REQUESTS + "; Client().get('/', headers={'host': 'evil.example'})"
    said = manage("shell", "-c", asked, home=tmp_path).stderr
    expected = (
        r"\S+ \S+ WARNING ranking \[-\]: two\nlines\n"
        r"\S+ \S+ ERROR \S+ \[[0-9a-f]{32}\]: Invalid HTTP_HOST header: 'evil\.example'.*\n"
    )
    assert re.fullmatch(expected, said)


def test_less_than_the_level_is_not_logged_as_json_either(tmp_path: Path) -> None:
    done = manage("shell", "-c", TWO_REQUESTS, home=tmp_path, LOG_FORMAT="json", LOG_LEVEL="ERROR")
    assert [json.loads(line)["logger"] for line in done.stderr.splitlines()] == []
