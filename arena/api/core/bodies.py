"""Bodies of requests, within limits of size and depth."""

from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from arena.api.core.errors import TooLarge
from arena.files.reader import MOST_VALUES, holds_more_values
from arena.validation import InputError, clean_text, decode_json

MEGABYTE = 1024 * 1024
USUAL_BODY = MEGABYTE
BULK_BODY = 32 * MEGABYTE
DEEPEST = 40


class CheckedJson(BaseParser):
    """JSON in UTF-8, of at most the endpoint's `body_limit` bytes."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Return the parsed body; its bytes stay on the request as `raw_body`."""
        request, view = parser_context["request"], parser_context["view"]
        request.raw_body = read_at_most(stream, view.body_limit)
        return parsed(request.raw_body)


def read_at_most(stream: Any, limit: int) -> bytes:
    """Read the body; raises TooLarge beyond `limit` bytes, without reading the rest."""
    body: bytes = stream.read(limit + 1)
    if len(body) > limit:
        raise TooLarge(f"The body is larger than the limit of {limit // MEGABYTE} MB.")
    return body


def parsed(body: bytes) -> Any:
    """Parse JSON; raises ParseError, and TooLarge for too many values."""
    if holds_more_values(body):
        raise TooLarge(f"The body has more than {MOST_VALUES:,} values.")
    try:
        value = decode_json(body.decode())
    except UnicodeDecodeError:
        raise ParseError("The body is not UTF-8 text.") from None
    except InputError as error:
        raise ParseError(f"The body {error.reason}.") from None
    _check_values(value)
    return value


def _check_values(value: Any) -> None:
    """Raise ParseError for texts that cannot be stored, and for deep nesting."""
    level = [value]
    for _ in range(DEEPEST):
        texts = [item for item in level if isinstance(item, str)]
        try:
            for text in texts:
                clean_text(text, limit=BULK_BODY)
        except InputError as error:
            raise ParseError(f"A text in the body {error.reason}.") from None
        level = [inner for item in level for inner in _values_inside(item)]
        if not level:
            return
    raise ParseError(f"The body is nested more than {DEEPEST} levels deep.")


def _values_inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []
