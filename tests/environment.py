"""The tests' environment: settings, addresses of services, and whether they respond."""

import os
import shutil
from pathlib import Path

POSTGRES_URL = os.environ.get("TEST_DATABASE_URL", "postgres://postgres@127.0.0.1:5432/postgres")
# Each process of xdist (gw0, gw1 ...) has a database of its own.
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
REDIS_URL = os.environ.get("TEST_REDIS_URL", f"redis://127.0.0.1:6379/{15 - _worker}")
REPOSITORY = Path(__file__).resolve().parent.parent
CHROMIUM_ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# The operator's own settings must not reach the tests.
OPERATORS_SETTINGS = [
    "API_JUDGE_ORDERS_PER_MINUTE",
    "API_READS_PER_MINUTE",
    "API_SUBMITS_PER_MINUTE",
    "ALLOWED_HOSTS",
    "CELERY_BROKER_URL",
    "CSRF_TRUSTED_ORIGINS",
    "DATABASE_POOL",
    "DEBUG",
    "DEFAULT_FROM_EMAIL",
    "EMAIL_URL",
    "HOST",
    "HSTS",
    "LOG_FORMAT",
    "LOG_LEVEL",
    "METRICS_TOKEN",
    "MODEL_ENDPOINTS",
    "NAMES_PER_HOUR",
    "NEW_RATERS_PER_HOUR",
    "OIDC_CLIENT_ID",
    "OIDC_CLIENT_SECRET",
    "OIDC_CLIENT_SECRET_FILE",
    "OIDC_NAME",
    "OIDC_SERVER_URL",
    "PORT",
    "RINGSIDE_ENV",
    "SECRET_KEY_FILE",
    "SIGN_UP",
    "STOP_HOPELESS_JUDGES",
    "TRUSTED_PROXIES",
    "VOTES_PER_MINUTE",
    "VOTE_LOG",
    "VOTE_LOG_HEADS",
    "VOTE_LOG_KEY",
    "VOTE_LOG_KEY_FILE",
    "WEB_PROCESSES",
    "WEB_THREADS",
]


def enter(home: Path, database: str) -> None:
    """Set the environment and the few settings that differ in tests."""
    for name in OPERATORS_SETTINGS:
        os.environ.pop(name, None)
    sqlite = f"sqlite:///{home / 'ringside.sqlite3'}"
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "arena.settings",
        "RINGSIDE_HOME": str(home),
        "SECRET_KEY": "tests-only-" + "k" * 50,
        "STOP_HOPELESS_JUDGES": "no",  # the fake server's judges need not agree with themselves
        "DATABASE_URL": POSTGRES_URL if database == "postgres" else sqlite,
    }
    from django.conf import settings

    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.WHITENOISE_AUTOREFRESH = True  # or every test's client would list all static files
    # Read; xdist's workers must not inherit it, or they would read this process's folder.
    del os.environ["DJANGO_SETTINGS_MODULE"]


def everything_required() -> bool:
    """Whether a missing service must fail the run. (It must in CI.)"""
    return os.environ.get("RINGSIDE_REQUIRE_SERVICES") == "1"


def postgres_trouble(url: str) -> str:
    """Why PostgreSQL at `url` cannot be used; '' when it can."""
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=3).close()
    except psycopg.Error as error:
        return f"{_without_password(url)}: {_first_line(error)}"
    return ""


def redis_trouble(url: str) -> str:
    """Why Redis at `url` cannot be used; '' when it can."""
    import redis

    try:
        with redis.Redis.from_url(url, socket_connect_timeout=3) as client:
            client.ping()
    except redis.RedisError as error:
        return f"{_without_password(url)}: {_first_line(error)}"
    return ""


def chromium() -> str | None:
    """The path of Chromium, if there is one."""
    given = os.environ.get("CHROMIUM")
    names = [given] if given else ["/usr/bin/chromium", "chromium", "chromium-browser"]
    return next(filter(None, map(shutil.which, names)), None)


def chromium_trouble() -> str:
    """Why there is no browser; '' when there is one."""
    return "" if chromium() else "no chromium on the PATH, and CHROMIUM does not name one"


def data_folder() -> Path:
    """The folder of the real data: RINGSIDE_DATA, or next to the checkout."""
    return Path(os.environ.get("RINGSIDE_DATA", REPOSITORY.parent / "shared" / "data"))


def data_trouble() -> str:
    """Why there is no real data; '' when there is."""
    folder = data_folder()
    return "" if folder.is_dir() else f"no folder {folder}; RINGSIDE_DATA names another"


def _without_password(url: str) -> str:
    return url.rsplit("@", 1)[-1]


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
