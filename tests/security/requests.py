"""Every address of the site, and a request to it without lasting effects."""

import re
from collections.abc import Iterator
from typing import Any

from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

PARAMETER = re.compile(r"([\w-]+)/<\w+:(\w+)>")
# What django-allauth reverses by its own names, at addresses of ours.
ALIASES = {"account_login": "sign_in", "account_signup": "sign_up"}


def patterns(resolver: Any, before: str = "", space: str = "") -> Iterator[tuple[str, str]]:
    """The name of every address, with its namespace, and its pattern."""
    for one in resolver.url_patterns:
        spelled = before + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from patterns(one, spelled, f"{one.namespace}:" if one.namespace else space)
        elif isinstance(one, URLPattern):
            yield f"{space}{one.name}", spelled


def addresses(resolver: Any = None) -> dict[str, str]:
    """Every address except the admin's and the one for missing API paths."""
    return {
        ALIASES.get(name, name): spelled
        for name, spelled in patterns(resolver or get_resolver())
        if not spelled.startswith("admin/") and name != "api_not_here"
    }


ADDRESSES = addresses()


def path_of(name: str, at: dict[str, Any]) -> str:
    """The address with existing objects filled in, by the word before each parameter."""
    spelled = ADDRESSES[name]
    if spelled.startswith("^"):  # a new password by mail: nobody has the key
        return "/password/new/1-nobodys-key/"

    def filled(found: re.Match[str]) -> str:
        word, parameter = found.groups()
        floor = spelled.partition("/")[0]
        keys = (f"{name} {word}", f"{floor} {word}", f"{word} {parameter}", word)
        return f"{word}/{next(at[key] for key in keys if key in at)}"

    return "/" + PARAMETER.sub(filled, spelled)


def ask(client: Client, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """Send a request, and take back whatever it wrote, cookies included."""
    cookies = {name: morsel.value for name, morsel in client.cookies.items()}
    with transaction.atomic():
        answer = send(client, method, path, body, **headers)
        answer.whole = answer.getvalue() if answer.streaming else answer.content
        transaction.set_rollback(True)
    client.cookies.clear()
    client.cookies.load(cookies)
    return answer


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> Any:
    sent: dict[str, Any] = {} if method == "get" else {"data": body or {}}
    if path.startswith("/api/") or method not in ("get", "post"):
        sent["content_type"] = "application/json"
    return getattr(client, method)(path, headers=headers, **sent)
