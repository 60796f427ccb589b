"""Readers behind `arena.settings` that are more than a cast."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from environs import Env, EnvError, EnvValidationError

LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]", "testserver"]
ENGINES = {
    "sqlite": "arena.db.sqlite3",
    "postgres": "django.db.backends.postgresql",
    "postgresql": "django.db.backends.postgresql",
}
BROKERS = ("filesystem", "redis", "rediss")


@contextmanager
def stop_on_bad_value() -> Iterator[None]:
    """Turn an unreadable value into one sentence and an exit, without a traceback."""
    try:
        yield
    except (EnvError, ValueError, ImproperlyConfigured) as error:
        raise SystemExit(f"Ringside cannot start: {_in_words(error)}") from None


def home_folder(env: Env, default: Path) -> Path:
    """Return RINGSIDE_HOME, where all that must be kept lies; it is made if need be.

    What we make is our owner's alone, and with it the database; what is there is left as it is.
    """
    home = Path(env.str("RINGSIDE_HOME", str(default))).absolute()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(f"RINGSIDE_HOME: {home}: {error.strerror}.") from None
    return home


def allowed_hosts(env: Env, *, required: bool) -> list[str]:
    """Return ALLOWED_HOSTS, the names under which browsers reach us; this machine by default."""
    hosts: list[str] = list(filter(None, env.list("ALLOWED_HOSTS", [])))
    if required and not hosts:
        raise ImproperlyConfigured("ALLOWED_HOSTS must name this site in production.")
    return hosts or LOCAL_HOSTS


def database(env: Env, default: str) -> dict[str, Any]:
    """Return Django's settings of the database at DATABASE_URL."""
    scheme = env.str("DATABASE_URL", default).partition(":")[0]
    if scheme not in ENGINES:
        raise ImproperlyConfigured("DATABASE_URL must begin with sqlite:// or postgres://.")
    settings: dict[str, Any] = env.dj_db_url("DATABASE_URL", default)
    return settings | {"ENGINE": ENGINES[scheme]}


def broker_url(env: Env, default: str) -> str:
    """Return CELERY_BROKER_URL."""
    url = env.str("CELERY_BROKER_URL", default)
    if url.partition("://")[0] not in BROKERS:
        raise ImproperlyConfigured("CELERY_BROKER_URL must begin with redis:// or filesystem://.")
    return url


def secret_key(env: Env, home: Path, *, required: bool) -> str:
    """Return SECRET_KEY or the text of SECRET_KEY_FILE, else a key made once, kept in `home`."""
    if given := env.str("SECRET_KEY", None) or text_of_file(env, "SECRET_KEY_FILE"):
        return given
    if required:
        raise ImproperlyConfigured("SECRET_KEY (or SECRET_KEY_FILE) must be set in production.")
    kept = home / "secret_key"
    if not kept.exists():
        _write_once(kept, secrets.token_urlsafe(50))
    return kept.read_text()


def text_of_file(env: Env, name: str) -> str | None:
    """Return what stands in the file that the variable `name` names; None where it names none."""
    path = env.str(name, None)
    if path is None:
        return None
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}: {path}: {error.strerror}.") from None


def _in_words(error: Exception) -> str:
    if not isinstance(error, EnvValidationError) or not isinstance(error.error_messages, list):
        return str(error)
    name = str(error).partition('"')[2].partition('"')[0]
    return f"{name}: {' '.join(map(str, error.error_messages))}"


def _write_once(path: Path, text: str) -> None:
    """Write `path` whole, readable by its owner alone; the first of two starters wins."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    draft.touch(mode=0o600)
    draft.write_text(text)
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
