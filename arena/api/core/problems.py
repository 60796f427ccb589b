"""Every error of the API as problem details (RFC 9457)."""

import logging
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from arena.services.issuing import MembersOnly, SignInFirst, VoteRefused
from arena.services.refusals import Refused
from arena.services.voting import Blocked

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
BUSY = 5  # seconds after which a database that was busy may be asked again
ONCE = (
    "A request with an Idempotency-Key can simply be sent again; without one, look first at what "
    "was written."
)
NOT_HERE = "There is nothing here, or it is not yours to see."


class Conflict(exceptions.APIException):
    """What was asked for does not go with what is there."""

    status_code = HTTPStatus.CONFLICT
    default_code = "conflict"


class StillAtWork(Conflict):
    """The first request with this key has not ended."""

    default_code = "still-at-work"
    default_detail = "The first request with this Idempotency-Key is still at work. Ask again soon."
    wait = 2


class PreconditionFailed(exceptions.APIException):
    """Somebody else changed it since it was read."""

    status_code = HTTPStatus.PRECONDITION_FAILED
    default_code = "changed-meanwhile"
    default_detail = "It has changed since you read it. Read it again, then send your change."


class TooMany(exceptions.APIException):
    """More requests than are taken within a while; `wait` seconds help."""

    status_code = HTTPStatus.TOO_MANY_REQUESTS
    default_code = "too-many-requests"

    def __init__(self, detail: str, wait: int) -> None:
        super().__init__(detail)
        self.wait = wait


class TooLarge(exceptions.APIException):
    """More than one request may bring."""

    status_code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    default_code = "too-large"


class Unprocessable(exceptions.APIException):
    """Understood, and refused for the reason given; `errors` point at what is to blame."""

    status_code = HTTPStatus.UNPROCESSABLE_ENTITY
    default_code = "refused"

    def __init__(
        self, detail: str | None = None, errors: list[dict[str, Any]] | None = None
    ) -> None:
        super().__init__(detail)
        if errors is not None:
            self.errors = errors


class RefusedByService(Unprocessable):
    """What a service turned down, with what is to blame for it."""

    def __init__(self, refusal: Refused) -> None:
        pointer = f"#/{_escaped(refusal.field)}" if refusal.field else "#"
        error = {"pointer": pointer, "detail": refusal.sentence}
        super().__init__(refusal.sentence, [error])
        self.default_code = refusal.kind


class OtherRequest(Unprocessable):
    """The key came with another request before."""

    default_code = "key-of-another-request"
    default_detail = "This Idempotency-Key came with another request before. Take a new key."


class BadParameter(exceptions.APIException):
    """A value in the query that cannot be used."""

    status_code = HTTPStatus.BAD_REQUEST
    default_code = "invalid"

    def __init__(self, parameter: str, detail: str) -> None:
        super().__init__(detail)
        self.errors = [{"parameter": parameter, "detail": detail}]


class ServerFault(exceptions.APIException):
    """A fault of ours; nothing of it is told.

    What was committed before it stands, so that no more is promised than a key can keep.
    """

    default_code = "server-fault"
    default_detail = f"Something went wrong here; the operator can read why. {ONCE}"


class Busy(exceptions.APIException):
    """The database is busy or away: perhaps only since a part was committed."""

    status_code = HTTPStatus.SERVICE_UNAVAILABLE
    default_code = "busy"
    default_detail = f"The database is busy or away. {ONCE}"
    wait = BUSY


def problem_response(error: Exception, context: Mapping[str, Any]) -> Response:
    """Return what the client is told about `error`; faults of ours are logged."""
    told = _told(error)
    if told.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        request = context["request"]
        logger.error("%s %s failed", request.method, request.path, exc_info=error)
    return Response(
        problem(told, instance=context["request"].path),
        status=told.status_code,
        headers=_headers(told),
        content_type=CONTENT_TYPE,
    )


def is_server_fault(error: Exception) -> bool:
    """Is `error` told with a status of 500 or above?"""
    return bool(_told(error).status_code >= HTTPStatus.INTERNAL_SERVER_ERROR)


def problem(error: exceptions.APIException, *, instance: str) -> dict[str, Any]:
    """Return the members of the problem's object."""
    errors = getattr(error, "errors", None) or list(_pointed(error.detail, "#"))
    said = {
        "type": f"urn:ringside:problem:{error.default_code.replace('_', '-')}",
        "title": HTTPStatus(error.status_code).phrase,
        "status": int(error.status_code),
        "detail": _sentence(error.detail, errors),
        "instance": instance,
    }
    if isinstance(error, exceptions.ValidationError) or hasattr(error, "errors"):
        said["errors"] = errors
    return said


def _told(error: Exception) -> exceptions.APIException:
    """The exception that is shown for `error`."""
    if isinstance(error, Http404 | exceptions.NotFound):
        return exceptions.NotFound(NOT_HERE)
    if isinstance(error, exceptions.APIException):
        return error
    if isinstance(error, RequestDataTooBig):
        return TooLarge("The body is larger than this endpoint takes.")
    if isinstance(error, PermissionDenied):
        return exceptions.PermissionDenied(str(error) or None)
    if isinstance(error, SuspiciousOperation):
        return exceptions.ParseError("The request cannot be read.")
    return _of_services(error)


def _of_services(error: Exception) -> exceptions.APIException:
    if isinstance(error, Refused):
        return RefusedByService(error)
    if isinstance(error, SignInFirst | MembersOnly | Blocked):
        return exceptions.PermissionDenied(error.sentence)
    if isinstance(error, VoteRefused):
        return Conflict(error.sentence)
    return Busy() if isinstance(error, OperationalError | InterfaceError) else ServerFault()


def _headers(error: exceptions.APIException) -> dict[str, str]:
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if (wait := getattr(error, "wait", None)) is not None:
        headers["Retry-After"] = str(int(wait))
    return headers


def _sentence(detail: Any, errors: list[dict[str, str]]) -> str:
    """One sentence for the whole: the only error, or the first with how many more there are."""
    if isinstance(detail, str):
        return str(detail)
    if not errors:
        return "The request cannot be used as it is."
    place = errors[0]["pointer"].removeprefix("#").strip("/")
    first = f"{place}: {errors[0]['detail']}" if place else errors[0]["detail"]
    more = len(errors) - 1
    return f"{first} ({more:,} more in errors.)" if more else first


def _pointed(detail: Any, pointer: str) -> Iterator[dict[str, str]]:
    """Each error with the JSON pointer to what it is about, in a URI's fragment."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            here = pointer if name == "non_field_errors" else f"{pointer}/{_escaped(str(name))}"
            yield from _pointed(inner, here)
    elif isinstance(detail, list):
        is_nested = any(isinstance(item, Mapping | list) for item in detail)
        for index, item in enumerate(detail):
            yield from _pointed(item, f"{pointer}/{index}" if is_nested else pointer)
    else:
        yield {"pointer": pointer, "detail": str(detail)}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
