"""Every setting of Ringside, read from the environment by typed readers.

The defaults run the whole product on one machine, with SQLite and a queue of files.
An invalid value stops the start with a sentence that names the setting.
"""

from pathlib import Path

from environs import Env
from marshmallow.validate import Equal, OneOf, Range

from arena import conf
from arena.conf import (
    allowed_hosts,
    broker_url,
    database,
    home_folder,
    read_accounts,
    read_notices,
    secret_key,
    stop_on_bad_value,
)
from arena.endpoints import read_endpoints

BASE_DIR = Path(__file__).resolve().parent.parent

env = Env()
with stop_on_bad_value():
    #: RINGSIDE_ENV (development): `production` turns on HTTPS, HSTS and secure cookies, and
    #: requires `SECRET_KEY` and `ALLOWED_HOSTS`
    PRODUCTION = (
        env.str("RINGSIDE_ENV", "development", validate=OneOf(["development", "production"]))
        == "production"
    )
    #: DEBUG (no): Django's error pages, for developers; not in production
    DEBUG = env.bool("DEBUG", False, validate=Equal(False) if PRODUCTION else None)
    #: HSTS (site): what the HSTS header covers: the `site`, its `subdomains` too, or these with a
    #: request to be in browsers' `preload` lists
    HSTS = env.str("HSTS", "site", validate=OneOf(["site", "subdomains", "preload"]))
    HOME = home_folder(env, BASE_DIR / "var")
    SECRET_KEY = secret_key(env, HOME, required=PRODUCTION)
    #: VOTE_LOG (yes): whether arenas keep a signed [log of their votes](../explanation/vote-log.md)
    VOTE_LOG = env.bool("VOTE_LOG", True)
    VOTE_LOG_KEY = conf.vote_log_key(env, HOME, SECRET_KEY, production=PRODUCTION)
    #: VOTE_LOG_HEADS (off): `daily` sends the head of each arena's log to its team's webhooks once
    #: a day, as a `log.head` notification
    VOTE_LOG_HEADS = env.str("VOTE_LOG_HEADS", "off", validate=OneOf(["off", "daily"]))
    ALLOWED_HOSTS = allowed_hosts(env, required=PRODUCTION)
    #: CSRF_TRUSTED_ORIGINS (none): other addresses whose pages may send forms, such as
    #: `https://intranet.example.org`
    CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", subcast=str, default=[])
    #: HOST (127.0.0.1): the address that the web server listens on
    HOST = env.str("HOST", "127.0.0.1")
    #: WEB_PROCESSES (1, in production 2): processes that serve pages
    WEB_PROCESSES = env.int("WEB_PROCESSES", 2 if PRODUCTION else 1, validate=Range(min=1))
    #: WEB_THREADS (32): requests that each of these works on at a time; up to 200 more wait for at
    #: most 20 seconds, and others get 503
    WEB_THREADS = env.int("WEB_THREADS", 32, validate=Range(min=1, max=200))
    #: PORT (8000): the port that the web server listens on
    PORT = env.int("PORT", 8000, validate=Range(min=0, max=65535))
    #: TRUSTED_PROXIES (0): the number of proxies in front of Ringside; only their `X-Forwarded-For`
    #: and `X-Forwarded-Proto` are believed
    TRUSTED_PROXIES = env.int("TRUSTED_PROXIES", 0, validate=Range(min=0, max=5))
    DATABASES = {"default": database(env, f"sqlite:///{HOME / 'ringside.sqlite3'}")}
    #: DATABASE_POOL (16): connections to PostgreSQL that each process keeps at most; 0 for a server
    #: that is PgBouncer in [transaction mode](operating.md#pgbouncer)
    DATABASE_POOL = env.int("DATABASE_POOL", 16, validate=Range(min=0, max=500))
    CELERY_BROKER_URL = broker_url(env, "filesystem://localhost//")
    EXPORTS = conf.exports_storage(env, HOME)
    MODEL_ENDPOINTS = read_endpoints(env)
    ACCOUNTS = read_accounts(env)
    NOTICES = read_notices(env, production=PRODUCTION, hosts=ALLOWED_HOSTS, host=HOST, port=PORT)
    SET_IN_ENVIRONMENT = conf.set_in_environment(env)
    #: VOTES_PER_MINUTE (120): requests for a pair per rater and minute, prefetched ones included
    VOTES_PER_MINUTE = env.int("VOTES_PER_MINUTE", 120, validate=Range(min=1))
    #: NAMES_PER_HOUR (60): votes per network and hour after which people without a confirmed email
    #: address see who wrote the answers; further votes count, without names
    NAMES_PER_HOUR = env.int("NAMES_PER_HOUR", 60, validate=Range(min=1))
    # In days. arena/services/privacy.py says what is deleted, and why it may be.
    #: EXPERIMENT_DAYS (30): how long experiments that nobody looks at or changes are kept
    EXPERIMENT_DAYS = env.int("EXPERIMENT_DAYS", 30, validate=Range(min=1))
    #: LIVE_DAYS (30): how long live questions that are not shared are kept; 0 means forever
    LIVE_DAYS = env.int("LIVE_DAYS", 30, validate=Range(min=0))
    #: KEEP_UNANSWERED_DAYS (30): how long pairs that were left open or skipped are kept
    KEEP_UNANSWERED_DAYS = env.int("KEEP_UNANSWERED_DAYS", 30, validate=Range(min=1))
    #: KEEP_RATERS_DAYS (30): how long anonymous raters without a vote are kept
    KEEP_RATERS_DAYS = env.int("KEEP_RATERS_DAYS", 30, validate=Range(min=1))
    #: KEEP_NOTICES_DAYS (0): how long notifications are kept; 0 means forever
    KEEP_NOTICES_DAYS = env.int("KEEP_NOTICES_DAYS", 0, validate=Range(min=0))
    #: KEEP_AUDIT_DAYS (0): how long the teams' audit logs are kept; 0 means forever
    KEEP_AUDIT_DAYS = env.int("KEEP_AUDIT_DAYS", 0, validate=Range(min=0))
    #: TEAM_BUDGET (0): dollars that a person's first team may spend on models
    TEAM_BUDGET = conf.dollars(env, "TEAM_BUDGET")
    #: NEW_RATERS_PER_HOUR (120): new anonymous raters per address, and new raters named by a team's
    #: token per arena
    NEW_RATERS_PER_HOUR = env.int("NEW_RATERS_PER_HOUR", 120, validate=Range(min=1))
    API_REQUESTS_PER_MINUTE = conf.read_limits(env)
    TRUST_LIMITS = conf.read_trust_limits(env)
    #: STOP_HOPELESS_JUDGES (yes): whether a judge is paused in a run after 30 pairs if two thirds
    #: of its verdicts are inconsistent when swapped or unreadable
    STOP_HOPELESS_JUDGES = env.bool("STOP_HOPELESS_JUDGES", True)
    #: METRICS_TOKEN (none): the bearer token with which monitoring reads `/metrics` and
    #: `/healthz?full`
    #: METRICS_TOKEN_FILE (none): a file that contains it
    METRICS_TOKEN: str = (
        env.str("METRICS_TOKEN", "") or conf.text_of_file(env, "METRICS_TOKEN_FILE") or ""
    )
    #: LOG_FORMAT (text): `json` logs one object per line, and each request; every line has the
    #: request's id, which is taken from a trusted proxy's `X-Request-ID`
    LOG_FORMAT = env.str("LOG_FORMAT", "text", validate=OneOf(["text", "json"]))
    #: LOG_LEVEL (INFO): the lowest level that is logged
    LOG_LEVEL = env.str("LOG_LEVEL", "INFO", validate=OneOf(["DEBUG", "INFO", "WARNING", "ERROR"]))

DATABASE_OPTIONS = DATABASES["default"].setdefault("OPTIONS", {})
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # Opening the file for each request took most of the request's time.
    DATABASES["default"]["CONN_MAX_AGE"] = None
    DATABASE_OPTIONS |= {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        # temp_store 2 keeps the steps of a query in memory: with files, drawing a pair took 3.1 ms
        # instead of .5.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA temp_store=2;",
    }
else:
    # A connection that its server has ended is replaced before anybody uses it.
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    DATABASE_OPTIONS |= {
        "connect_timeout": 5,
        # A server whose machine is gone is noticed within seconds. TCP alone would wait for hours.
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 5000,
        "server_side_binding": True,
    }
    if DATABASE_POOL:
        DATABASE_OPTIONS |= {
            "pool": {
                "min_size": 1,
                "max_size": DATABASE_POOL,
                "timeout": 5,
                # After an outage, whoever needs a connection opens one, instead of waiting minutes
                # for the pool's next try.
                "reconnect_timeout": 5,
            },
            # Planning a vote's few queries took longer than running them.
            "prepare_threshold": 5,
        }
    else:  # each transaction may have another session, which knows no statement and no cursor
        DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True
        DATABASE_OPTIONS["prepare_threshold"] = None
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_ROUTES = {
    "ranking.tasks.*_exports": {"queue": "exports"},
    "judges.tasks.*": {"queue": "calls"},
    "arena.tasks.make_calls": {"queue": "calls"},
    "arena.tasks.sweep_calls": {"queue": "calls"},
    "arena.tasks.sweep_live": {"queue": "calls"},
    "arena.tasks.send_delivery": {"queue": "calls"},
    "arena.tasks.send_deliveries": {"queue": "calls"},
    # Sweeps wait for no refresh, and no refresh for an examination of many votes.
    "ranking.tasks.sweep_boards": {"queue": "sweeps"},
    "ranking.tasks.examine_votes": {"queue": "sweeps"},
    "arena.tasks.reconcile_runs": {"queue": "sweeps"},
    "arena.tasks.disclose_candidates": {"queue": "sweeps"},
    "arena.tasks.bring_back_times": {"queue": "sweeps"},
    "arena.tasks.delete_old_rows": {"queue": "sweeps"},
}
# Where refreshes that take long wait for one another; `ranking.tasks` sends them there.
LARGE_FITS = "large-fits"
CELERY_TASK_DEFAULT_QUEUE = "fits"
CELERY_TIMEZONE = "UTC"
if CELERY_BROKER_URL.startswith("filesystem"):
    QUEUE = HOME / "queue"
    QUEUE.mkdir(mode=0o700, exist_ok=True)
    CELERY_BROKER_TRANSPORT = "arena.transport:Transport"
    CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, object] = {
        "data_folder_in": str(QUEUE),
        "data_folder_out": str(QUEUE),
        "polling_interval": 0.2,
    }
    CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
else:
    # A message is delivered again after this time, so it is longer than the longest task.
    CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 3600, "unacked_restore_interval": 2}
SWEEPS = {
    "ranking.tasks.sweep_boards": 2.0,
    "ranking.tasks.examine_votes": 60.0,
    "ranking.tasks.show_life": 15.0,
    "ranking.tasks.sweep_exports": 2.0,
    "ranking.tasks.delete_old_exports": 60.0,
    "arena.tasks.reconcile_runs": 5.0,
    "arena.tasks.sweep_calls": 5.0,
    "arena.tasks.sweep_live": 5.0,
    "arena.tasks.disclose_candidates": 60.0,
    "arena.tasks.send_deliveries": 5.0,
    "arena.tasks.bring_back_times": 15.0,
    "arena.tasks.delete_old_rows": 3600.0,
    "judges.tasks.watch_canaries": 120.0,
    "judges.tasks.watch_decisions": 15.0,
    "judges.tasks.advance_experiments": 2.0,
    "judges.tasks.delete_old_experiments": 3600.0,
}
# A sweep still waiting when the next one is due is dropped, so that sweeps do not pile up.
CELERY_BEAT_SCHEDULE = {
    task: {"task": task, "schedule": seconds, "options": {"expires": seconds}}
    for task, seconds in SWEEPS.items()
}

globals().update(ACCOUNTS)
SIGN_UP: str = ACCOUNTS["SIGN_UP"]
OIDC_NAME: str = ACCOUNTS["OIDC_NAME"]
SITE_URL: str = NOTICES["SITE_URL"]
WEBHOOKS_LOOPBACK_PORT: int = NOTICES["WEBHOOKS_LOOPBACK_PORT"]

INSTALLED_APPS = [
    "django.contrib.admin.apps.SimpleAdminConfig",  # the URLs discover the models' pages
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "csp",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "arena",
    "ranking",
    "judges",
]
MIDDLEWARE = [
    "arena.middleware.log_requests",
    "arena.middleware.believe_trusted_proxies",
    "arena.middleware.forget_impossible_cookies",
    "django.middleware.security.SecurityMiddleware",
    "arena.middleware.compress_static",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "arena.middleware.refuse_requests",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "arena.middleware.set_signed_in_cookie",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
]
ROOT_URLCONF = "arena.urls"
WSGI_APPLICATION = "arena.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["django.templatetags.i18n", "arena.templatetags.arena_tags"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
# Accepts user names and email addresses, and takes as long for unknown ones.
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("MinimumLengthValidator", "CommonPasswordValidator", "NumericPasswordValidator")
]
LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "index"
LOGOUT_REDIRECT_URL = "index"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("fr", "Français")]
LANGUAGE_COOKIE_NAME = "language"
CSRF_FAILURE_VIEW = "arena.language.csrf_failure"
TIME_ZONE = "UTC"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
FILE_UPLOAD_HANDLERS = [
    "arena.views.prompts.BoundedForms",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "arena.views.prompts.TemporaryFiles",
]

REST_FRAMEWORK = conf.REST_FRAMEWORK
SPECTACULAR_SETTINGS = conf.SPECTACULAR_SETTINGS

STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles" if PRODUCTION else None
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    # The wheel has the file in its static folder.
    *([] if (BASE_DIR / "static" / "plotly").exists() else ["ranking.finders.PlotlyFinder"]),
]
WHITENOISE_USE_FINDERS = not PRODUCTION
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if PRODUCTION
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
    "exports": EXPORTS,
}

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        # Chromium applies this to the redirect after a form, too.
        "form-action": list(filter(None, ["'self'", ACCOUNTS["OIDC_ORIGIN"]])),
        "frame-ancestors": ["'none'"],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
SECURE_SSL_REDIRECT = PRODUCTION
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if PRODUCTION else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HSTS != "site"
SECURE_HSTS_PRELOAD = HSTS == "preload"
# HSTS for more than this host is the operator's choice: it is hard to take back.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
if TRUSTED_PROXIES:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"format": "{asctime} {levelname} {name} [{request_id}]: {message}", "style": "{"},
        "json": {"()": "arena.logs.JsonFormatter"},
    },
    "filters": {
        "request_id": {"()": "arena.logs.RequestId"},
        "tracebacks": {"()": "arena.logs.UsefulTracebacks"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["request_id"],
        }
    },
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        **{name: {"level": LOG_LEVEL} for name in ("arena", "ranking", "judges")},
        # In a terminal, a line per request would bury what `make run` says.
        "arena.access": {"level": LOG_LEVEL if LOG_FORMAT == "json" else "WARNING"},
        "django.request": {"filters": ["tracebacks"]},
        "django.security.DisallowedHost": {"filters": ["tracebacks"]},
        "celery.app.trace": {"filters": ["tracebacks"]},
        # Hooks that run after a commit may find the connection gone.
        "django.db.backends.base": {"filters": ["tracebacks"]},
    },
}
