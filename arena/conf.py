"""Reads the environment for `arena.settings`. Error messages never repeat secrets."""

import base64
import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal, InvalidOperation
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from environs import Env, EnvError, EnvValidationError
from marshmallow.validate import OneOf, Range

from arena.validation import nano_dollars

LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]", "testserver"]
DATABASE_SCHEMES = ("sqlite", "postgres", "postgresql")
VOTE_LOG_KEY_BYTES = 32
BROKERS = ("filesystem", "redis", "rediss")


@contextmanager
def stop_on_bad_value() -> Iterator[None]:
    """Exit with one sentence about an invalid value, without a traceback."""
    try:
        yield
    except (EnvError, ValueError, ImproperlyConfigured) as error:
        raise SystemExit(f"Ringside cannot start: {_in_words(error)}") from None


def home_folder(env: Env, default: Path) -> Path:
    """Return RINGSIDE_HOME, the folder of everything that must be kept, creating it if needed.

    Only the owner can read a folder created here. An existing folder's permissions stay unchanged,
    but the files that Ringside keeps in it become readable by their owner only.
    """
    #: RINGSIDE_HOME (`var/`; for the package `~/.local/share/ringside`, in the image `/data`): the
    #: folder of the one-machine mode: database, queue and keys,
    #: readable by their owner only
    home = Path(env.str("RINGSIDE_HOME", str(default))).absolute()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (*home.glob("ringside.sqlite3*"), home / "secret_key"):
            if path.exists() and path.stat().st_mode & 0o077:
                path.chmod(0o600)
    except OSError as error:
        raise ImproperlyConfigured(f"RINGSIDE_HOME: {home}: {error.strerror}.") from None
    return home


def dollars(env: Env, name: str) -> int:
    """Return an amount of dollars in nano-dollars; 0 by default."""
    try:
        return nano_dollars(Decimal(env.str(name, "0")))
    except (InvalidOperation, ValueError):
        raise ImproperlyConfigured(f"{name} is not an amount in dollars, such as 25.00.") from None


def allowed_hosts(env: Env, *, required: bool) -> list[str]:
    """Return ALLOWED_HOSTS, the site's host names; this machine by default."""
    #: ALLOWED_HOSTS (this machine): the host names of your site
    names: list[str] = env.list("ALLOWED_HOSTS", [])
    hosts = [name.strip() for name in names if name.strip()]
    if required and not hosts:
        raise ImproperlyConfigured("ALLOWED_HOSTS must name this site in production.")
    if required and "*" in hosts:
        raise ImproperlyConfigured(
            "ALLOWED_HOSTS must name this site in production; * is not allowed."
        )
    return hosts or LOCAL_HOSTS


def database(env: Env, default: str) -> dict[str, Any]:
    """Return Django's settings for the database at DATABASE_URL; create a missing SQLite file."""
    #: DATABASE_URL (SQLite in `RINGSIDE_HOME`): the database, such as
    #: `postgres://user:password@host/name`
    scheme = env.str("DATABASE_URL", default).partition(":")[0]
    if scheme not in DATABASE_SCHEMES:
        raise ImproperlyConfigured("DATABASE_URL must begin with sqlite:// or postgres://.")
    settings: dict[str, Any] = env.dj_db_url("DATABASE_URL", default)
    if scheme == "sqlite" and settings["NAME"] != ":memory:":
        # SQLite would let everybody read a file that it creates. Those beside it get its mode.
        with suppress(OSError):  # SQLite says what is wrong with the path
            Path(settings["NAME"]).touch(mode=0o600)
    return settings


def broker_url(env: Env, default: str) -> str:
    #: CELERY_BROKER_URL (files in `RINGSIDE_HOME`): the broker, such as `redis://host:6379/0`;
    #: files serve one machine
    url = env.str("CELERY_BROKER_URL", default)
    if url.partition("://")[0] not in BROKERS:
        raise ImproperlyConfigured("CELERY_BROKER_URL must begin with redis:// or filesystem://.")
    return url


def exports_storage(env: Env, home: Path) -> dict[str, Any]:
    """Return Django's settings for the storage of exports: by default, a folder in `home`."""
    #: EXPORTS_STORAGE (`django.core.files.storage.FileSystemStorage`): the class of Django's
    #: storages that keeps exports, such as `storages.backends.s3.S3Storage` of django-storages,
    #: which you install beside Ringside
    #: EXPORTS_OPTIONS (`{"location": "exports"}` in `RINGSIDE_HOME`): its options as a JSON object,
    #: such as `{"bucket_name": "exports"}`; web servers and workers need the same
    in_folder = "django.core.files.storage.FileSystemStorage"
    options = env.json("EXPORTS_OPTIONS", {})
    if not isinstance(options, dict):
        raise ImproperlyConfigured("EXPORTS_OPTIONS must be a JSON object.")
    backend = env.str("EXPORTS_STORAGE", in_folder)
    module = backend.rpartition(".")[0]
    try:
        is_installed = bool(module) and find_spec(module) is not None
    except ModuleNotFoundError:
        is_installed = False
    if not is_installed:
        raise ImproperlyConfigured(f"EXPORTS_STORAGE: {backend} is not installed.")
    if backend == in_folder:
        private = {"file_permissions_mode": 0o600, "directory_permissions_mode": 0o700}
        options = {"location": str(home / "exports")} | private | options
    return {"BACKEND": backend, "OPTIONS": options}


def secret_key(env: Env, home: Path, *, required: bool) -> str:
    """Return SECRET_KEY or the text of SECRET_KEY_FILE, else a generated key stored in `home`."""
    #: SECRET_KEY (generated): signs cookies; in production at least 32 characters
    #: SECRET_KEY_FILE (none): a file that contains it
    if given := env.str("SECRET_KEY", None) or text_of_file(env, "SECRET_KEY_FILE"):
        if required and _is_weak(given):
            raise ImproperlyConfigured(
                "SECRET_KEY is easy to guess. Generate one: python3 -c 'import secrets; "
                "print(secrets.token_urlsafe(50))'"
            )
        return given
    if required:
        raise ImproperlyConfigured("SECRET_KEY (or SECRET_KEY_FILE) must be set in production.")
    kept = home / "secret_key"
    if not kept.exists():
        _write_once(kept, secrets.token_urlsafe(50))
    return kept.read_text()


def vote_log_key(env: Env, home: Path, secret: str, *, production: bool) -> str:
    """Return VOTE_LOG_KEY or the text of VOTE_LOG_KEY_FILE: 32 bytes in URL-safe Base64.

    Without it, a generated key is stored in `home`. In production, where processes may have no
    folder in common, it is derived from `secret` instead.
    """
    #: VOTE_LOG_KEY (generated in `RINGSIDE_HOME`; in production derived from `SECRET_KEY`): signs
    #: the vote log: 32 bytes in URL-safe Base64, never stored in the database. Set it before you
    #: change `SECRET_KEY` in production
    #: VOTE_LOG_KEY_FILE (none): a file that contains it
    if given := env.str("VOTE_LOG_KEY", None) or text_of_file(env, "VOTE_LOG_KEY_FILE"):
        try:
            decoded = base64.urlsafe_b64decode(given)
        except ValueError:
            decoded = b""
        if len(decoded) != VOTE_LOG_KEY_BYTES:
            raise ImproperlyConfigured(
                "VOTE_LOG_KEY must be 32 bytes in URL-safe Base64. Generate one: openssl rand "
                "-base64 32 | tr +/ -_"
            )
        return given
    if production:
        derived = hmac.digest(secret.encode(), b"ringside log of votes", "sha256")
        return base64.urlsafe_b64encode(derived).decode()
    kept = home / "vote_log_key"
    if not kept.exists():
        generated = base64.urlsafe_b64encode(secrets.token_bytes(VOTE_LOG_KEY_BYTES))
        _write_once(kept, generated.decode())
    return kept.read_text()


def _is_weak(key: str) -> bool:
    return len(key) < 32 or len(set(key)) < 10 or key.startswith("django-insecure-")


def text_of_file(env: Env, name: str) -> str | None:
    """Return the text of the file that the variable `name` names, or None."""
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
    """Write `path` atomically, readable by its owner only; the first of two writers wins."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    draft.touch(mode=0o600)
    draft.write_text(text)
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def local_url(host: str, port: int) -> str:
    """Return the URL of a server on this machine, without a final slash."""
    if host in ("0.0.0.0", "::"):  # noqa: S104  (read, not bound)
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# What operators may set in the browser instead.
IN_BROWSER = ("SITE_URL", "SIGN_UP", "TEAM_BUDGET", "EMAIL_URL")


def set_in_environment(env: Env) -> frozenset[str]:
    """Return which of these settings the environment sets."""
    return frozenset(name for name in IN_BROWSER if env.str(name, ""))


MAIL_SCHEMES = ("console", "smtp", "submission")
SECONDS_FOR_MAIL = 10
OIDC = "oidc"
# User names that could pass for an administrator.
KEPT_NAMES = ["admin", "administrator", "operator", "ringside", "root", "staff", "support"]


def read_accounts(env: Env) -> dict[str, Any]:
    mail = _mail(env)
    delivers = "smtp" in mail["EMAIL_BACKEND"]
    return {
        **mail,
        **_oidc(env),
        #: SIGN_UP (open): who may create an account: `open` (anybody), `invited` (one account per
        #: team invitation), `closed` (nobody, not by OpenID Connect either)
        "SIGN_UP": env.str("SIGN_UP", "open", validate=OneOf(["open", "invited", "closed"])),
        "ACCOUNT_ADAPTER": "arena.accounts.Accounts",
        "ACCOUNT_FORMS": {
            "login": "arena.forms.accounts.SignInForm",
            "signup": "arena.forms.accounts.SignUpForm",
            "reset_password": "arena.forms.accounts.ForgottenPasswordForm",
            "reset_password_from_key": "arena.forms.accounts.NewPasswordForm",
        },
        "ACCOUNT_CHANGE_EMAIL": True,
        "ACCOUNT_LOGIN_METHODS": {"email", "username"},
        "ACCOUNT_SIGNUP_FIELDS": ["email*", "password1*"],
        "ACCOUNT_USERNAME_BLACKLIST": KEPT_NAMES,
        "ALLAUTH_SETTING_GETTER": "arena.site.allauth_setting",
        # Without a mail server, nobody could receive the link that confirms an address.
        "ACCOUNT_EMAIL_VERIFICATION": "mandatory" if delivers else "none",
        # Sign-up never tells whether an address is known. With a mail server, its owner gets an
        # email. Without one, no address is proven, so another account may use the same one.
        "ACCOUNT_PREVENT_ENUMERATION": True if delivers else "strict",
        "ACCOUNT_EMAIL_SUBJECT_PREFIX": "",
        "ACCOUNT_LOGIN_ON_EMAIL_CONFIRMATION": True,
        "ACCOUNT_AUTHENTICATED_LOGIN_REDIRECTS": False,
        "ACCOUNT_SESSION_REMEMBER": True,
        # Our own limits (arena.attempts) are atomic and stored in the database.
        "ACCOUNT_RATE_LIMITS": False,
    }


def _mail(env: Env) -> dict[str, Any]:
    """Return Django's email settings from EMAIL_URL; without it, operators may set a server in the
    browser, and until then mail is printed."""
    #: EMAIL_URL (`console:`): `smtp://user:password@host:25`, or `submission://user:password@host`
    #: with TLS; with a mail server, new accounts confirm their address first, and one mailbox
    #: confirms one account (`eve+2@` is `eve@`). Without one, mail is printed in the terminal,
    #: password-reset links included, and several accounts may share an address
    if env.str("EMAIL_URL", "console:").partition(":")[0] not in MAIL_SCHEMES:
        raise ImproperlyConfigured(
            "EMAIL_URL must begin with smtp://, submission:// (with TLS) or console:."
        )
    try:
        mail: dict[str, Any] = env.dj_email_url("EMAIL_URL", "console:")
        if not env.str("EMAIL_URL", ""):
            mail["EMAIL_BACKEND"] = "arena.mail.StoredServer"
    except ValueError:
        raise ImproperlyConfigured(
            "EMAIL_URL must look like smtp://user:password@host:port; encode special characters in"
            " the password, such as @ as %40."
        ) from None
    mail["EMAIL_TIMEOUT"] = mail["EMAIL_TIMEOUT"] or SECONDS_FOR_MAIL
    #: DEFAULT_FROM_EMAIL (`Ringside <ringside@localhost>`): the sender of mail
    mail["DEFAULT_FROM_EMAIL"] = env.str("DEFAULT_FROM_EMAIL", "Ringside <ringside@localhost>")
    return mail


def _oidc(env: Env) -> dict[str, Any]:
    """Return the settings of the OpenID Connect server, if OIDC_SERVER_URL names one."""
    #: OIDC_SERVER_URL (none): an OpenID Connect server to sign in with. The redirect address is
    #: `https://your-site/sign-in/oidc/callback/`
    #: OIDC_NAME (OpenID Connect): its button's label
    #: OIDC_CLIENT_ID (none): the name under which it knows this site
    #: OIDC_CLIENT_SECRET (none): the secret that goes with it
    #: OIDC_CLIENT_SECRET_FILE (none): a file that contains it
    server = env.str("OIDC_SERVER_URL", "")
    name = env.str("OIDC_NAME", "OpenID Connect")
    shared = {
        "SOCIALACCOUNT_ADAPTER": "arena.accounts.SignInServers",
        # The operator chose the server, so the addresses that it reports are trusted.
        "SOCIALACCOUNT_EMAIL_VERIFICATION": "none",
        "SOCIALACCOUNT_REQUESTS_TIMEOUT": SECONDS_FOR_MAIL,
    }
    if not server:
        return shared | {"OIDC_NAME": "", "OIDC_ORIGIN": "", "SOCIALACCOUNT_PROVIDERS": {}}
    app = {
        "provider_id": OIDC,
        "name": name,
        "client_id": env.str("OIDC_CLIENT_ID", ""),
        "secret": env.str("OIDC_CLIENT_SECRET", "") or text_of_file(env, "OIDC_CLIENT_SECRET_FILE"),
        "settings": {"server_url": server.rstrip("/"), "oauth_pkce_enabled": True},
    }
    if not (app["client_id"] and app["secret"]):
        raise ImproperlyConfigured(
            "OIDC_SERVER_URL also needs OIDC_CLIENT_ID and OIDC_CLIENT_SECRET (or "
            "OIDC_CLIENT_SECRET_FILE)."
        )
    return shared | {
        "OIDC_NAME": name,
        "OIDC_ORIGIN": _origin(server),
        "SOCIALACCOUNT_PROVIDERS": {"openid_connect": {"APPS": [app]}},
    }


def _origin(server: str) -> str:
    """Return scheme, host and port of an address, as in a Content-Security-Policy."""
    try:
        parts = urlsplit(server)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.username or parts.password:
        raise ImproperlyConfigured("OIDC_SERVER_URL must be an http(s) address without a password.")
    return f"{parts.scheme}://{parts.netloc}"


def read_notices(
    env: Env, *, production: bool, hosts: list[str], host: str, port: int
) -> dict[str, Any]:
    #: WEBHOOKS_LOOPBACK_PORT (none): for testing webhooks: one local port that they may reach, also
    #: by http; not in production
    loopback = env.int("WEBHOOKS_LOOPBACK_PORT", 0, validate=Range(min=0, max=65535))
    if production and loopback:
        raise ImproperlyConfigured(
            "WEBHOOKS_LOOPBACK_PORT lets webhooks reach this machine for testing; it cannot be "
            "set in production."
        )
    #: SITE_URL (this machine; in production https:// and the first of `ALLOWED_HOSTS`): the site's
    #: address, for links in emails, invitations and webhooks
    given = env.str("SITE_URL", "") or _usual(production, hosts, host, port)
    return {"SITE_URL": checked_site_url(given.rstrip("/")), "WEBHOOKS_LOOPBACK_PORT": loopback}


def _usual(production: bool, hosts: list[str], host: str, port: int) -> str:
    """Return the default SITE_URL: the first allowed host in production, else this machine."""
    name = hosts[0].lstrip(".")
    if production and name != "*":
        return f"https://{name}"
    return local_url(host, port)


def checked_site_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or "@" in url:
        raise ImproperlyConfigured(
            "SITE_URL must be the address of this site, as in https://ringside.example.org."
        )
    return url


DESCRIPTION = """\
Ringside ranks prompt variants and models by blind, pairwise comparisons of their answers.

**Authentication.** Send `Authorization: Bearer rs_...` with a token that one of your team's owners
created. It acts for that team only, within its scopes: `read`, `submit` and `judge`. In the
browser, your session is used, and writes need a CSRF token. Public data needs neither.

**Pagination.** Follow `next` until it is null. `page_size` goes up to 1,000.

**Idempotency.** A POST may carry an `Idempotency-Key` of your choice. Repeated within 24 hours, the
request runs only once and gets the first response again, marked `Idempotency-Replayed: true`. The
same key with a different request gets 422.

**Caching.** Every GET has an `ETag`. Send it as `If-None-Match` to get 304 while nothing has
changed, or as `If-Match` with a PATCH, so that you do not overwrite someone else's change.

**Errors** are problem details (RFC 9457): `detail` is a sentence, and `errors` point at what is
wrong in the body (`pointer`) or in the query (`parameter`).

Money is in US dollars, as a number. Times are ISO 8601, in UTC.
"""


def read_limits(env: Env) -> dict[str, int]:
    """Return the requests per minute that a token, person or address may make in each scope.

    All tokens of a team together may make three times as many.
    """
    at_least_one = Range(min=1)
    #: API_READS_PER_MINUTE (600): requests to the REST API that read, per token, person or address;
    #: all tokens of a team together may make three times as many
    #: API_SUBMITS_PER_MINUTE (600): requests that write, counted in the same way
    #: API_JUDGE_ORDERS_PER_MINUTE (60): requests that start judge runs, counted in the same way
    submits = env.int("API_SUBMITS_PER_MINUTE", 600, validate=at_least_one)
    return {
        "read": env.int("API_READS_PER_MINUTE", 600, validate=at_least_one),
        "submit": submits,
        "judge": env.int("API_JUDGE_ORDERS_PER_MINUTE", 60, validate=at_least_one),
        "manage": submits,
    }


def read_trust_limits(env: Env) -> dict[str, float]:
    """Return what a judge must reach to be trusted: `judges.core.calibration.trust.TrustLimits`."""
    #: TRUST_MIN_COVERAGE (0.7): the smallest share of items with a verdict that a judge needs to be
    #: trusted
    #: TRUST_MAX_FLIPS (0.3): the largest share of verdicts that may change when the answers are
    #: swapped
    share = Range(min=0, max=1)
    return {
        "coverage": env.float("TRUST_MIN_COVERAGE", 0.7, validate=share),
        "flips": env.float("TRUST_MAX_FLIPS", 0.3, validate=share),
    }


REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "arena.api.core.authentication.TokenAuthentication",
        "arena.api.core.authentication.SiteSession",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["arena.api.core.permissions.HasScope"],
    "DEFAULT_PARSER_CLASSES": ["arena.api.core.bodies.CheckedJson"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_FILTER_BACKENDS": ["arena.api.core.parameters.StrictFilterBackend"],
    "DEFAULT_PAGINATION_CLASS": "arena.api.core.parameters.Pages",
    "DEFAULT_SCHEMA_CLASS": "arena.api.core.schema.Operations",
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "arena.api.core.errors.problem_response",
    "URL_FORMAT_OVERRIDE": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}

PROBLEM = {
    "type": "object",
    "description": "What went wrong, as problem details (RFC 9457).",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "description": "The kind of problem, for programs."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "A sentence for people."},
        "instance": {"type": "string", "description": "The path of the request."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["detail"],
                "properties": {
                    "pointer": {"type": "string", "description": "JSON pointer into the body."},
                    "parameter": {"type": "string", "description": "Name in the query."},
                    "detail": {"type": "string"},
                },
            },
        },
    },
    "example": {
        "type": "urn:ringside:problem:invalid",
        "title": "Bad Request",
        "status": 400,
        "detail": "Name: this field is required.",
        "instance": "/api/v1/arenas/",
        "errors": [{"pointer": "#/name", "detail": "This field is required."}],
    },
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Ringside",
    "VERSION": "1",
    "DESCRIPTION": DESCRIPTION,
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1/",
    "SERVE_INCLUDE_SCHEMA": False,
    "DISABLE_DOCSTRING_DESCRIPTIONS": True,
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
    ],
    # In the order of the work.
    "TAGS": [
        {"name": "You and your teams", "description": "What your token may do."},
        {"name": "Arenas", "description": "Each compares the answers to its prompts."},
        {"name": "Prompts", "description": "What the candidates answer."},
        {"name": "Candidates", "description": "Who answers: prompt variants, models, uploads."},
        {"name": "Responses", "description": "Upload answers, or have them generated."},
        {"name": "Judges", "description": "Start judge runs, and follow them."},
        {"name": "Comparisons and votes", "description": "Have your own raters vote."},
        {"name": "Boards", "description": "Read the leaderboards."},
        {"name": "Decisions", "description": "Compare a candidate with your baseline."},
        {"name": "Experiments", "description": "Measure drafts against your baseline."},
        {"name": "Battles", "description": "Read single votes, such as those a candidate lost."},
        {"name": "Exports", "description": "Take your data with you."},
    ],
    "ENUM_NAME_OVERRIDES": {
        "Visibility": "arena.models.Arena.Visibility",
        "Voters": "arena.models.Arena.Voters",
        "OutcomeOfAVote": "arena.models.Outcome",
        "RunState": "arena.models.Run.State",
        "RoleInATeam": "arena.models.Role",
        "ExperimentState": "judges.models.Experiment.State",
        "KindOfACheck": "arena.checks.KINDS",
    },
    "APPEND_COMPONENTS": {
        "schemas": {"Problem": PROBLEM},
        "responses": {
            "Problem": {
                "description": "Problem details (RFC 9457).",
                "content": {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                },
            }
        },
    },
}
