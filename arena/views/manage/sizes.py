"""Forms that are too large are turned down in words, before anything reads them."""

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt, csrf_protect

from arena.prompting import TEXT_LIMIT
from arena.upload_handlers import AROUND_A_FILE
from arena.uploads import AT_MOST_BYTES

View = Callable[..., HttpResponse]
READ_ON = 64_000_000
CHUNK = 1 << 16


def told_if_too_large(view: View) -> View:
    """Answer a form that is too large with a page that says so, instead of a bare error.

    The check of the form's token reads the whole form, so it comes after this one.
    """
    protected = csrf_protect(view)

    @csrf_exempt
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if _length(request) > AT_MOST_BYTES + AROUND_A_FILE:
            return _too_large(request, "The file is too large", AT_MOST_BYTES)
        try:
            request.POST  # noqa: B018  (reading it is the test)
        except RequestDataTooBig:
            return _too_large(request, "What was filled in is too large", 0)
        return protected(request, *args, **kwargs)

    return guarded


def _length(request: HttpRequest) -> int:
    given = request.META.get("CONTENT_LENGTH") or "0"
    return int(given) if given.isdecimal() else 0


def _too_large(request: HttpRequest, what: str, most: int) -> HttpResponse:
    """A page about no arena: it is the same whether there is one or not."""
    length = _length(request)
    context = {
        "what": what,
        "size": f"{length / 1e6:,.1f}",
        "most": f"{most // 1_000_000:,}" if most else "",
        "longest_text": f"{TEXT_LIMIT:,}",
    }
    if length <= READ_ON:
        _read_on(request)
    return render(request, "manage/too_large.html", context, status=413)


def _read_on(request: HttpRequest) -> None:
    """Take what the browser is still sending: one that is cut off shows no page at all."""
    with suppress(UnreadablePostError):
        while request.read(CHUNK):
            pass
