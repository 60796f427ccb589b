"""Each value that cannot be read stops the start with one sentence that names it."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from environs import Env

from arena.conf import read_notices
from tests.environment import REPOSITORY
from tests.ops.running import manage

PRODUCTION = {
    "RINGSIDE_ENV": "production",
    "SECRET_KEY": "a-long-and-random-text-0123456789-abcdefghijklmnopqrstuvwxyz",
    "ALLOWED_HOSTS": "arena.example.org",
}
BAD = [
    ("RINGSIDE_ENV", "staging"),
    ("DEBUG", "perhaps"),
    ("PORT", "eighty"),
    ("PORT", "70000"),
    ("WEB_THREADS", "0"),
    ("TRUSTED_PROXIES", "-1"),
    ("VOTES_PER_MINUTE", "0"),
    ("NAMES_PER_HOUR", "0"),
    ("NEW_RATERS_PER_HOUR", "many"),
    ("LOG_FORMAT", "xml"),
    ("LOG_LEVEL", "loud"),
    ("HSTS", "everywhere"),
    ("DATABASE_URL", "oracle://scott@db/xe"),
    ("DATABASE_URL", "not an address"),
    ("DATABASE_URL", "postgres://u:p@host:port/name"),
    ("DATABASE_URL", "mysql://db/ringside"),
    ("DATABASE_POOL", "-1"),
    ("CELERY_BROKER_URL", "carrier-pigeon://loft"),
    ("CELERY_BROKER_URL", "localhost:6379"),
    ("MODEL_ENDPOINTS", "{"),
    ("MODEL_ENDPOINTS", "[]"),
    ("MODEL_ENDPOINTS", '{"a": {"provider": "openai", "base_url": "ftp://x"}}'),
    ("MODEL_ENDPOINTS", '{"a": {"provider": "openai", "base_url": "http://x", "timeout": "9"}}'),
    ("SECRET_KEY_FILE", "/nowhere/key"),
    ("VOTE_LOG_KEY", "c2hvcnQ="),
    ("VOTE_LOG_HEADS", "hourly"),
    ("VOTE_LOG_KEY", "not Base64 at all"),
    ("RINGSIDE_HOME", "/proc/ringside"),
    ("EXPORTS_STORAGE", "cloud.Bucket"),
    ("EXPORTS_STORAGE", "S3"),
    ("EXPORTS_OPTIONS", '["exports"]'),
    ("EXPORTS_OPTIONS", "exports"),
]


Read = Callable[..., dict[str, Any]]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Read:
    """Read the settings file anew, as a process with this environment would."""

    def read(**given: str) -> dict[str, Any]:
        for name in ("DATABASE_URL", "SECRET_KEY"):
            monkeypatch.delenv(name, raising=False)
        for name, value in ({"RINGSIDE_HOME": str(tmp_path)} | given).items():
            monkeypatch.setenv(name, value)
        return runpy.run_path(str(REPOSITORY / "arena" / "settings.py"))

    return read


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_value_stops_the_start_with_a_sentence(name: str, value: str, read: Read) -> None:
    with pytest.raises(SystemExit) as stopped:
        read(**{name: value})
    sentence = str(stopped.value)
    assert sentence.startswith("Ringside cannot start: ")
    assert len(sentence.splitlines()) == 1
    assert name in sentence


def test_the_command_line_shows_no_traceback_either(tmp_path: Path) -> None:
    ended = manage("check", home=tmp_path, PORT="eighty")
    assert ended.returncode == 1
    assert ended.stderr == "Ringside cannot start: PORT: Not a valid integer.\n"


@pytest.mark.parametrize("missing", ["SECRET_KEY", "ALLOWED_HOSTS"])
def test_production_does_not_start_without(missing: str, read: Read) -> None:
    with pytest.raises(SystemExit, match=f"Ringside cannot start: {missing}"):
        read(**PRODUCTION | {missing: ""})


WEAK = ["secret", "k" * 60, "changeme" * 8, "django-insecure-0123456789-abcdefghijklmnopqrstuvwxyz"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("SECRET_KEY", key) for key in WEAK],
        ("ALLOWED_HOSTS", "*"),
        ("ALLOWED_HOSTS", "arena.example.org, *"),
        ("DEBUG", "true"),
    ],
)
def test_production_does_not_start_with(name: str, value: str, read: Read) -> None:
    with pytest.raises(SystemExit, match=f"Ringside cannot start: {name}"):
        read(**PRODUCTION | {name: value})
    read(RINGSIDE_ENV="development", **{name: value})


def test_names_of_the_site_are_read_as_caddy_reads_them(read: Read) -> None:
    names = read(**PRODUCTION | {"ALLOWED_HOSTS": "a.example.org, b.example.org"})["ALLOWED_HOSTS"]
    assert names == ["a.example.org", "b.example.org"]


def test_a_weak_key_in_a_file_is_refused_as_well(read: Read, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret\n")
    with pytest.raises(SystemExit, match="Ringside cannot start: SECRET_KEY"):
        read(**PRODUCTION | {"SECRET_KEY": "", "SECRET_KEY_FILE": str(tmp_path / "key")})


@pytest.mark.parametrize(
    ("given", "subdomains", "preload"),
    [({}, False, False), ({"HSTS": "subdomains"}, True, False), ({"HSTS": "preload"}, True, True)],
)
def test_hsts_is_for_this_host_unless_the_operator_says_more(
    read: Read, given: dict[str, str], subdomains: bool, preload: bool
) -> None:
    settings = read(**PRODUCTION | given)
    assert settings["SECURE_HSTS_SECONDS"] > 0
    assert settings["SECURE_HSTS_INCLUDE_SUBDOMAINS"] is subdomains
    assert settings["SECURE_HSTS_PRELOAD"] is preload


def test_the_key_of_the_log_is_made_once_or_derived_in_production(
    read: Read, tmp_path: Path
) -> None:
    first, second = (read()["VOTE_LOG_KEY"] for _ in range(2))
    assert first == second
    assert (tmp_path / "vote_log_key").stat().st_mode & 0o077 == 0
    derived = read(**PRODUCTION)["VOTE_LOG_KEY"]
    assert derived == read(**PRODUCTION)["VOTE_LOG_KEY"] != first
    another = PRODUCTION | {"SECRET_KEY": PRODUCTION["SECRET_KEY"][::-1]}
    assert read(**another)["VOTE_LOG_KEY"] != derived
    assert read(**another, VOTE_LOG_KEY=derived)["VOTE_LOG_KEY"] == derived


@pytest.mark.slow
def test_the_deployment_check_is_clean_in_production(tmp_path: Path) -> None:
    ended = manage("check", "--deploy", "--fail-level", "WARNING", home=tmp_path, **PRODUCTION)
    assert ended.returncode == 0, ended.stderr
    assert "no issues" in ended.stdout


def test_exports_are_kept_in_a_private_folder_or_where_the_operator_says(
    read: Read, tmp_path: Path
) -> None:
    folder = read()["STORAGES"]["exports"]
    assert folder["OPTIONS"]["location"].endswith("/exports")
    assert folder["OPTIONS"]["file_permissions_mode"] == 0o600
    shared = read(EXPORTS_OPTIONS=f'{{"location": "{tmp_path}"}}')["STORAGES"]["exports"]
    assert shared["OPTIONS"] == folder["OPTIONS"] | {"location": str(tmp_path)}
    elsewhere = "django.core.files.storage.InMemoryStorage"
    memory = read(EXPORTS_STORAGE=elsewhere, EXPORTS_OPTIONS="{}")["STORAGES"]["exports"]
    assert memory == {"BACKEND": elsewhere, "OPTIONS": {}}


def test_a_secret_is_made_once_and_kept_private(read: Read, tmp_path: Path) -> None:
    first, second = (read()["SECRET_KEY"] for _ in range(2))
    assert len(first) > 50
    assert first == second
    assert (tmp_path / "secret_key").stat().st_mode & 0o077 == 0


def test_the_secret_may_lie_in_a_file(read: Read, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(PRODUCTION["SECRET_KEY"] + "\n")
    settings = read(**PRODUCTION | {"SECRET_KEY": "", "SECRET_KEY_FILE": str(tmp_path / "key")})
    assert settings["SECRET_KEY"] == PRODUCTION["SECRET_KEY"]


def test_what_a_database_url_asks_for_is_kept(read: Read) -> None:
    url = "postgres://u:p@db.example.org/ringside?sslmode=require"
    options = read(DATABASE_URL=url, DATABASE_POOL="5")["DATABASES"]["default"]["OPTIONS"]
    assert options["sslmode"] == "require"
    assert options["pool"]["max_size"] == 5


def test_behind_pgbouncer_nothing_outlives_a_transaction(read: Read) -> None:
    url = "postgres://u:p@localhost/x"
    database = read(DATABASE_URL=url, DATABASE_POOL="0")["DATABASES"]["default"]
    assert database["DISABLE_SERVER_SIDE_CURSORS"]
    assert (database["OPTIONS"].get("pool"), database["OPTIONS"]["prepare_threshold"]) == (
        None,
    ) * 2


def test_a_folder_that_we_make_is_its_owners_alone(read: Read, tmp_path: Path) -> None:
    """The database is in it, with everything that is not for everybody."""
    home = tmp_path / "new"
    read(RINGSIDE_HOME=str(home))
    assert home.stat().st_mode & 0o777 == 0o700


def test_what_is_ours_in_a_folder_that_is_there_becomes_its_owners_alone(
    read: Read, tmp_path: Path
) -> None:
    ours = [tmp_path / f"ringside.sqlite3{end}" for end in ("", "-wal", "-shm")]
    theirs = tmp_path / "notes.txt"
    for path in (*ours, theirs, tmp_path / "secret_key"):
        path.write_text("x" * 60)
        path.chmod(0o644)
    read()
    assert {path.stat().st_mode & 0o777 for path in (*ours, tmp_path / "secret_key")} == {0o600}
    assert theirs.stat().st_mode & 0o777 == 0o644


def test_a_new_database_is_its_owners_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    code = "from django.db import connection; connection.cursor().execute('CREATE TABLE a (b)')"
    assert manage("shell", "-c", code, home=tmp_path).returncode == 0
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("ringside.sqlite3*")} == {0o600}


def test_a_connection_to_sqlite_is_kept_for_the_next_request(tmp_path: Path) -> None:
    code = (
        "from django.db import close_old_connections, connection as c; c.ensure_connection();"
        "opened = c.connection; close_old_connections(); print(c.connection is opened)"
    )
    assert "True" in manage("shell", "-c", code, home=tmp_path).stdout


def test_a_folder_that_is_there_keeps_its_mode(read: Read, tmp_path: Path) -> None:
    home = tmp_path / "theirs"
    home.mkdir()
    home.chmod(0o750)
    read(RINGSIDE_HOME=str(home))
    assert home.stat().st_mode & 0o777 == 0o750


HERE: dict[str, Any] = {
    "production": False,
    "hosts": ["localhost"],
    "host": "127.0.0.1",
    "port": 8000,
}
LIVE = HERE | {"production": True, "hosts": [".example.org", "other.example.org"]}


def read_site(
    monkeypatch: pytest.MonkeyPatch, where: dict[str, Any], **given: str
) -> dict[str, Any]:
    for name in ("SITE_URL", "WEBHOOKS_LOOPBACK_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return read_notices(Env(), **where)


def test_links_lead_to_this_machine_or_the_sites_first_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read_site(monkeypatch, HERE)["SITE_URL"] == "http://127.0.0.1:8000"
    assert read_site(monkeypatch, LIVE)["SITE_URL"] == "https://example.org"
    any_host = LIVE | {"hosts": ["*"]}
    assert read_site(monkeypatch, any_host)["SITE_URL"] == "http://127.0.0.1:8000"
    assert read_site(monkeypatch, HERE | {"host": "0.0.0.0"})["SITE_URL"] == "http://localhost:8000"
    assert read_site(monkeypatch, HERE | {"host": "::1"})["SITE_URL"] == "http://[::1]:8000"
    given = read_site(monkeypatch, LIVE, SITE_URL="https://ringside.example.org/")
    assert given["SITE_URL"] == "https://ringside.example.org"


@pytest.mark.parametrize("url", ["ringside.example.org", "ftp://x.org", "https://a:b@x.org"])
def test_what_is_no_address_of_a_site_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match="SITE_URL must be the address"):
        read_site(monkeypatch, HERE, SITE_URL=url)


def test_webhooks_reach_no_port_of_this_machine_in_production(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read_site(monkeypatch, HERE)["WEBHOOKS_LOOPBACK_PORT"] == 0
    opened = read_site(monkeypatch, HERE, WEBHOOKS_LOOPBACK_PORT="9000")
    assert opened["WEBHOOKS_LOOPBACK_PORT"] == 9000
    with pytest.raises(ImproperlyConfigured, match="cannot be set in production"):
        read_site(monkeypatch, LIVE, WEBHOOKS_LOOPBACK_PORT="9000")
