"""The reader's language, on the pages that raters see; all other pages are in English.

`translated` marks a view. The language is that of the switch in the footer, which is kept in a
cookie, or else the first one that both the browser and Ringside know.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from django.views import csrf, defaults
from django.views.decorators.http import require_safe

CHOSEN_FOR = timedelta(days=365)
View = Callable[..., HttpResponseBase]


def translated(view: View) -> View:
    """Let a view answer in the reader's language."""

    @wraps(view)
    def localised(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        language = translation.get_language_from_request(request)
        with translation.override(language):
            response = view(request, *args, **kwargs)
            if hasattr(response, "render"):  # its template is rendered once the view has returned
                response = response.render()
        response.headers.setdefault("Content-Language", language)
        patch_vary_headers(response, ["Accept-Language", "Cookie"])
        return response

    return localised


# What `arena.markup` itself writes into the stored HTML: roles of turns, and names of boxes and
# folds. A text cannot contain these tags, because its own are escaped.
_OWN_WORD = re.compile(
    r'(<p class="turn-role">|<details class="(?:turn|thought)[^>]*><summary>'
    r'|<div class="scroll[^>]* aria-label=")'
    r"(System|User|Assistant|Tool result|Calls|Thought|Code|Formula|Table)\b"
)


def translate_own_words(html: SafeString) -> SafeString:
    """Translate the few words of a stored prompt or answer that are Ringside's."""
    if translation.get_language() == "en":
        return html
    words = {
        "System": gettext("System"),
        "User": gettext("User"),
        "Assistant": gettext("Assistant"),
        "Tool result": gettext("Tool result"),
        "Calls": gettext("Calls"),
        "Thought": gettext("Thought"),
        "Code": gettext("Code"),
        "Formula": gettext("Formula"),
        "Table": gettext("Table"),
    }
    return mark_safe(_OWN_WORD.sub(lambda found: found[1] + words[found[2]], html))  # noqa: S308


@require_safe
def set_language(request: HttpRequest, code: str) -> HttpResponse:
    """Keep the language that a reader chose, and return to the page."""
    if code not in dict(settings.LANGUAGES):
        raise Http404("There is no such language.")
    address = request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(address, {request.get_host()}, request.is_secure())
    # An address begins with "/"; a word without it would be taken for the name of a page.
    response = redirect(address if is_ours and address.startswith("/") else "index")
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        code,
        max_age=CHOSEN_FOR,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


not_found = translated(defaults.page_not_found)
no_access = translated(defaults.permission_denied)
bad_request = translated(defaults.bad_request)
csrf_failure = translated(csrf.csrf_failure)
