"""Log lines: as text or JSON, each with its request's id and without secrets."""

import json
import logging
import re
import uuid
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.core.signals import request_finished
from django.db import InterfaceError, OperationalError
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils.encoding import escape_uri_path

NO_REQUEST = "-"
REQUEST_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
# What follows these in a path gives access to anyone who knows it.
BEFORE_SECRETS = re.compile(
    r"(/invitations/|/vote/invited/|/password/new/|/sign-up/address/).+", re.IGNORECASE
)
_request_id: ContextVar[str] = ContextVar("request_id", default=NO_REQUEST)


def begin_request(request: HttpRequest) -> str:
    """Return the request's id, which all log lines have from now on.

    It comes from X-Request-ID if a trusted proxy set that, and is made here otherwise.
    """
    given = request.headers.get("X-Request-ID", "") if settings.TRUSTED_PROXIES else ""
    request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
    _request_id.set(request_id)
    return request_id


@receiver(request_finished)
def _end_request(**_: Any) -> None:
    """Django logs some responses after the last middleware, so only now is the request over."""
    _request_id.set(NO_REQUEST)


def safe_path(request: HttpRequest) -> str:
    """Return the path for a log: without the query string, and without a link's secret."""
    return BEFORE_SECRETS.sub(r"\1***", escape_uri_path(request.path))


class RequestId(logging.Filter):
    """Gives each record the attribute `request_id`."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = _request_id.get()
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object per line; a record's `fields` are added to it."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": getattr(record, "request_id", NO_REQUEST),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class UsefulTracebacks(logging.Filter):
    """Drops useless tracebacks: of refusals, and of a database that is down or busy.

    A database that is down fails every request, and the log line says so. Unexpected errors keep
    their traceback.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, OperationalError | InterfaceError):
            if (request := getattr(record, "request", None)) is not None:
                record.msg = "%s %s %s: %s"
                status = getattr(record, "status_code", "")
                record.args = (status, request.method, safe_path(request), outage(error))
            record.exc_info = None
        if record.levelno < logging.ERROR or isinstance(error, SuspiciousOperation):
            record.exc_info = None
        return True


def outage(error: BaseException) -> str:
    """Return in one line what is wrong with the database; drivers never repeat the password."""
    # A server that answers with an SQL state is running, unless it is starting or shutting down.
    state = getattr(error.__cause__, "sqlstate", None) or ""
    is_there = (state and not state.startswith(("08", "57P"))) or "is locked" in str(error)
    trouble = "busy" if is_there else "not reachable"
    return f"the database is {trouble} ({type(error).__name__}: {' '.join(str(error).split())})"
