"""Errors of the API, as problem details (RFC 9457)."""

import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404
from django.utils.log import log_response
from rest_framework import exceptions
from rest_framework.response import Response

from arena.errors import ServiceError, is_disk_full
from arena.services.comparisons import MembersOnlyError, SignInFirstError, VoteError
from arena.services.voting import BlockedError

CONTENT_TYPE = "application/problem+json"
BUSY_RETRY_SECONDS = 5
HOW_TO_REPEAT = (
    "If the request had an Idempotency-Key, send it again; otherwise first check what was saved."
)
NOT_FOUND = "Not found, or you do not have access."
MISSING = "There is no {noun} “{name}”, or you do not have access to it."
# What get_object_or_404 says; words in the model's name begin with a capital.
NO_MATCH = re.compile(r"No (\w+) matches the given query\.")


class Conflict(exceptions.APIException):
    """The request conflicts with the current state."""

    status_code = HTTPStatus.CONFLICT
    default_code = "conflict"


class StillAtWork(Conflict):
    """The first request with this Idempotency-Key has not finished."""

    default_code = "still-at-work"
    default_detail = "The first request with this Idempotency-Key is in progress. Try again soon."
    wait = 2


class PreconditionFailed(exceptions.APIException):
    """If-Match does not match the current state."""

    status_code = HTTPStatus.PRECONDITION_FAILED
    default_code = "changed-meanwhile"
    default_detail = "It has changed since you retrieved it. Retrieve it again first."


class TooMany(exceptions.APIException):
    """A rate limit was exceeded; try again after `wait` seconds."""

    status_code = HTTPStatus.TOO_MANY_REQUESTS
    default_code = "too-many-requests"

    def __init__(self, detail: str, wait: int) -> None:
        super().__init__(detail)
        self.wait = wait


class TooLarge(exceptions.APIException):
    status_code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    default_code = "too-large"


class Unprocessable(exceptions.APIException):
    """A valid request that was refused; `errors` points to the causes."""

    status_code = HTTPStatus.UNPROCESSABLE_ENTITY
    default_code = "refused"

    def __init__(
        self, detail: str | None = None, errors: list[dict[str, Any]] | None = None
    ) -> None:
        super().__init__(detail)
        if errors is not None:
            self.errors = errors


class RefusedByService(Unprocessable):
    def __init__(self, error: ServiceError) -> None:
        pointer = f"#/{_escape(error.field)}" if error.field else "#"
        super().__init__(error.message, [{"pointer": pointer, "detail": error.message}])
        self.default_code = error.kind


class OtherRequest(Unprocessable):
    """The Idempotency-Key was used for another request."""

    default_code = "key-of-another-request"
    default_detail = "This Idempotency-Key was used for another request. Use a new key."


class BadParameter(exceptions.APIException):
    """An unknown query parameter, or an invalid value of one."""

    status_code = HTTPStatus.BAD_REQUEST
    default_code = "invalid"

    def __init__(self, parameter: str, detail: str) -> None:
        super().__init__(detail)
        self.errors = [{"parameter": parameter, "detail": detail}]


class ServerFault(exceptions.APIException):
    """An unexpected error, without details.

    What the request has already committed stays, so only a request with a key is safe to repeat.
    """

    default_code = "server-fault"
    default_detail = f"Something went wrong; the server has logged the error. {HOW_TO_REPEAT}"


class Busy(exceptions.APIException):
    """The database is busy or unavailable; part of the request may have been committed."""

    status_code = HTTPStatus.SERVICE_UNAVAILABLE
    default_code = "busy"
    default_detail = f"The database is busy or unavailable. {HOW_TO_REPEAT}"
    wait = BUSY_RETRY_SECONDS


def problem_response(error: Exception, context: Mapping[str, Any]) -> Response:
    """REST framework's exception handler; server errors are logged."""
    request, api_error = context["request"], _as_api_error(error)
    if isinstance(error, Http404):
        api_error = exceptions.NotFound(_about_missing(str(error), context.get("kwargs") or {}))
    headers = {}
    if challenge := getattr(api_error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if (wait := getattr(api_error, "wait", None)) is not None:
        headers["Retry-After"] = str(int(wait))
    response = Response(
        problem(api_error, instance=request.path),
        status=api_error.status_code,
        headers=headers,
        content_type=CONTENT_TYPE,
    )
    if api_error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        # Logged like Django's own failing pages; Django does not log this response again.
        log_response(
            "%s %s failed",
            request.method,
            request.path,
            response=response,
            request=request,
            exception=error,
        )
    return response


def _about_missing(reason: str, kwargs: Mapping[str, Any]) -> str:
    """Name what is missing, from the address; the sentence is the same if it is hidden."""
    match = NO_MATCH.fullmatch(reason)
    if not match or not kwargs:
        return NOT_FOUND
    noun = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", match[1]).lower()
    is_outer = noun in ("arena", "team") and "slug" in kwargs
    name = kwargs["slug"] if is_outer else list(kwargs.values())[-1]
    return MISSING.format(noun=noun, name=name)


def is_server_fault(error: Exception) -> bool:
    """Whether the response to `error` has a status of 500 or above."""
    return bool(_as_api_error(error).status_code >= HTTPStatus.INTERNAL_SERVER_ERROR)


def problem(error: exceptions.APIException, *, instance: str) -> dict[str, Any]:
    """Return the problem details as an object."""
    errors = getattr(error, "errors", None) or list(_errors_with_pointers(error.detail, "#"))
    details = {
        "type": f"urn:ringside:problem:{error.default_code.replace('_', '-')}",
        "title": HTTPStatus(error.status_code).phrase,
        "status": int(error.status_code),
        "detail": _summary_of_errors(error.detail, errors),
        "instance": instance,
    }
    if isinstance(error, exceptions.ValidationError) or hasattr(error, "errors"):
        details["errors"] = errors
    return details


def _as_api_error(error: Exception) -> exceptions.APIException:
    if isinstance(error, Http404 | exceptions.NotFound):
        return exceptions.NotFound(NOT_FOUND)
    if isinstance(error, exceptions.APIException):
        return error
    if isinstance(error, RequestDataTooBig):
        return TooLarge("The body is larger than this endpoint accepts.")
    if isinstance(error, PermissionDenied):
        return exceptions.PermissionDenied(str(error) or None)
    if isinstance(error, SuspiciousOperation):
        return exceptions.ParseError("The request cannot be read.")
    return _service_or_server_error(error)


def _service_or_server_error(error: Exception) -> exceptions.APIException:
    if isinstance(error, ServiceError):
        return RefusedByService(error)
    if isinstance(error, SignInFirstError | MembersOnlyError | BlockedError):
        return exceptions.PermissionDenied(error.message)
    if isinstance(error, VoteError):
        return Conflict(error.message)
    if is_disk_full(error):
        return Busy("The disk of this site is full. Nothing was saved.")
    return Busy() if isinstance(error, OperationalError | InterfaceError) else ServerFault()


def _summary_of_errors(detail: Any, errors: list[dict[str, str]]) -> str:
    """Return one sentence: the first error and the number of the others."""
    if isinstance(detail, str):
        return str(detail)
    if not errors:
        return "The request is not valid."
    place = errors[0]["pointer"].removeprefix("#").strip("/")
    first = f"{place}: {errors[0]['detail']}" if place else errors[0]["detail"]
    more = len(errors) - 1
    return f"{first} ({more:,} more in errors.)" if more else first


def _errors_with_pointers(detail: Any, pointer: str) -> Iterator[dict[str, str]]:
    """Yield each error with a JSON pointer to its cause, as a URI fragment."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            here = pointer if name == "non_field_errors" else f"{pointer}/{_escape(str(name))}"
            yield from _errors_with_pointers(inner, here)
    elif isinstance(detail, list):
        is_nested = any(isinstance(item, Mapping | list) for item in detail)
        for index, item in enumerate(detail):
            yield from _errors_with_pointers(item, f"{pointer}/{index}" if is_nested else pointer)
    else:
        yield {"pointer": pointer, "detail": str(detail)}


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
