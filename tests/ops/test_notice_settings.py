"""Where this site is, and what webhooks may reach besides the public internet."""

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from environs import Env

from arena.conf import read_notices

HERE: dict[str, Any] = {
    "production": False,
    "hosts": ["localhost"],
    "host": "127.0.0.1",
    "port": 8000,
}
LIVE = HERE | {"production": True, "hosts": [".example.org", "other.example.org"]}


def read(monkeypatch: pytest.MonkeyPatch, where: dict[str, Any], **given: str) -> dict[str, Any]:
    for name in ("SITE_URL", "WEBHOOKS_LOOPBACK_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return read_notices(Env(), **where)


def test_links_lead_to_this_machine_or_the_sites_first_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read(monkeypatch, HERE)["SITE_URL"] == "http://127.0.0.1:8000"
    assert read(monkeypatch, LIVE)["SITE_URL"] == "https://example.org"
    any_host = LIVE | {"hosts": ["*"]}
    assert read(monkeypatch, any_host)["SITE_URL"] == "http://127.0.0.1:8000"
    assert read(monkeypatch, HERE | {"host": "0.0.0.0"})["SITE_URL"] == "http://localhost:8000"
    assert read(monkeypatch, HERE | {"host": "::1"})["SITE_URL"] == "http://[::1]:8000"
    given = read(monkeypatch, LIVE, SITE_URL="https://ringside.example.org/")
    assert given["SITE_URL"] == "https://ringside.example.org"


@pytest.mark.parametrize("url", ["ringside.example.org", "ftp://x.org", "https://a:b@x.org"])
def test_what_is_no_address_of_a_site_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match="SITE_URL must be the address"):
        read(monkeypatch, HERE, SITE_URL=url)


def test_webhooks_reach_no_port_of_this_machine_in_production(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read(monkeypatch, HERE)["WEBHOOKS_LOOPBACK_PORT"] == 0
    opened = read(monkeypatch, HERE, WEBHOOKS_LOOPBACK_PORT="9000")
    assert opened["WEBHOOKS_LOOPBACK_PORT"] == 9000
    with pytest.raises(ImproperlyConfigured, match="not for production"):
        read(monkeypatch, LIVE, WEBHOOKS_LOOPBACK_PORT="9000")
