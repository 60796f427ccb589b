"""Bodies are JSON of bounded size that can be stored, or they are refused in words."""

import json
from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from arena.api.core.problems import TooLarge
from arena.importers.base import BadRow, checked_text
from arena.importers.formats import JSON, MOST_VALUES, holds_more_values

MEGABYTE = 1024 * 1024
USUAL_BODY = MEGABYTE
BULK_BODY = 32 * MEGABYTE
DEEPEST = 40


class CheckedJson(BaseParser):
    """JSON in UTF-8, at most `body_limit` bytes of it, as the endpoint says."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Return what the body says; its bytes stay on the request as `raw_body`."""
        request, view = parser_context["request"], parser_context["view"]
        request.raw_body = read_at_most(stream, view.body_limit)
        return parsed(request.raw_body)


def read_at_most(stream: Any, limit: int) -> bytes:
    """Return the body; raises TooLarge where it has more than `limit` bytes, the rest unread."""
    body: bytes = stream.read(limit + 1)
    if len(body) > limit:
        raise TooLarge(f"The body is larger than the {limit // MEGABYTE} MB that are taken here.")
    return body


def parsed(body: bytes) -> Any:
    """Return the JSON value that `body` holds; raises ParseError, and TooLarge for very many."""
    if holds_more_values(body):
        raise TooLarge(f"The body has more than the {MOST_VALUES:,} values that are taken here.")
    try:
        value = JSON.decode(body.decode())
    except UnicodeDecodeError:
        raise ParseError("The body is not text in UTF-8.") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno:,}, character {error.colno:,}"
        raise ParseError(f"The body is not JSON: {error.msg}, {place}.") from None
    except RecursionError:
        raise ParseError("The body is nested too deeply.") from None
    except ValueError as error:
        raise ParseError(f"The body has a number that cannot be stored: {error}.") from None
    _check(value)
    return value


def _check(value: Any) -> None:
    """Raise ParseError where a text cannot be stored, or where it is nested too deeply."""
    level = [value]
    for _ in range(DEEPEST):
        _check_texts([item for item in level if isinstance(item, str)])
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return
    raise ParseError(f"The body is nested more than {DEEPEST} levels deep.")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _check_texts(texts: list[str]) -> None:
    try:
        for text in texts:
            checked_text(text, "", limit=BULK_BODY)
    except BadRow as bad:
        raise ParseError(f"A text in the body {bad.reason}.") from None
