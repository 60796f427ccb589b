"""Where this site is, for links in mails and webhooks, and where webhooks may go besides."""

from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from environs import Env
from marshmallow.validate import Range

from arena.conf.addresses import local_url


def read_notices(
    env: Env, *, production: bool, hosts: list[str], host: str, port: int
) -> dict[str, Any]:
    """Return the settings of notices, by name."""
    loopback = env.int("WEBHOOKS_LOOPBACK_PORT", 0, validate=Range(min=0, max=65535))
    if production and loopback:
        raise ImproperlyConfigured(
            "WEBHOOKS_LOOPBACK_PORT lets webhooks reach this very machine: it is for trying them "
            "out, and not for production."
        )
    given = env.str("SITE_URL", "") or _usual(production, hosts, host, port)
    return {"SITE_URL": _checked(given.rstrip("/")), "WEBHOOKS_LOOPBACK_PORT": loopback}


def _usual(production: bool, hosts: list[str], host: str, port: int) -> str:
    """The first name of a site in production; else this machine."""
    name = hosts[0].lstrip(".")
    if production and name != "*":
        return f"https://{name}"
    return local_url(host, port)


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or "@" in url:
        raise ImproperlyConfigured(
            "SITE_URL must be the address of this site, as in https://ringside.example.org."
        )
    return url
