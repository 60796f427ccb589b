"""Rate limits that hold under concurrency: one statement counts and decides."""

import hmac
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from secrets import token_hex

from django.conf import settings
from django.http import HttpRequest

from arena.db import sql
from arena.models import NetworkKey

KEPT_FOR = timedelta(hours=24)  # longer than any window
UNKNOWN = "0.0.0.0"  # noqa: S104  (whoever has no address is counted together)
WITH_PORT = re.compile(r"([0-9.]+)(?::[0-9]+)?|\[([^]]+)\](?::[0-9]+)?")


def count_use(*, key: str, window: timedelta, now: datetime) -> tuple[int, float]:
    """Count one use of `key`; return the uses in the current window, and its seconds to go."""
    row = sql.one(sql.COUNT, key=key, now=now, since=now - window)
    assert row is not None, "an upsert always returns its row"
    hits, started_at = row
    return int(hits), max((started_at + window - now).total_seconds(), 0)


def allow(*, key: str, limit: int, window: timedelta, now: datetime) -> bool:
    """Count one use of `key`; return whether it is within the `limit` of the current window."""
    return count_use(key=key, window=window, now=now)[0] <= limit


def client_address(request: HttpRequest) -> str:
    """Return the address that limits count: the client's IPv4 address, or the /64 of its IPv6 one.

    X-Forwarded-For counts only behind trusted proxies, and if they name an address there.
    """
    hops = request.headers.get("X-Forwarded-For", "").split(",")
    if 0 < settings.TRUSTED_PROXIES <= len(hops):
        named = _address_counted(hops[-settings.TRUSTED_PROXIES].strip()[:64])
        if named != UNKNOWN:
            return named
    return _address_counted(str(request.META["REMOTE_ADDR"]))


@lru_cache(maxsize=1024)
def _address_counted(address: str) -> str:
    """Unwrap an IPv4-mapped address; reduce IPv6 to its /64, all of which belongs to one client.

    Some proxies add the client's port, which is another one for each connection.
    """
    matched = WITH_PORT.fullmatch(address)
    try:
        ip = ip_address(matched[1] or matched[2] if matched else address)
    except ValueError:
        return UNKNOWN
    if isinstance(ip, IPv4Address):
        return str(ip)
    if ip.ipv4_mapped:
        return str(ip.ipv4_mapped)
    return f"{IPv6Address(int(ip) >> 64 << 64)}/64"


KEY_PERIOD_DAYS = 30
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_keys: dict[int, bytes] = {}  # this process's copy of the current key


def network_of(request: HttpRequest, *, now: datetime) -> str:
    """Return a keyed hash of the client's network: the /24 of an IPv4 address, the /48 of an IPv6.

    Hashes of one network are equal for 30 days at most, because the key is then replaced.
    """
    network = _network_of(client_address(request))
    return hmac.digest(_current_key(now), network.encode(), "sha256").hex()[:16]


@lru_cache(maxsize=1024)
def _network_of(address: str) -> str:
    network = ip_network(address, strict=False)
    prefix = 24 if network.version == 4 else 48
    return str(network.supernet(new_prefix=prefix) if network.prefixlen > prefix else network)


def key_period(now: datetime) -> int:
    return (now - EPOCH).days // KEY_PERIOD_DAYS


def _current_key(now: datetime) -> bytes:
    """Return the key of this period, which all processes share; older ones are deleted."""
    period = key_period(now)
    if period not in _keys:
        made = {"key": token_hex(32)}
        row, is_new = NetworkKey.objects.get_or_create(period=period, defaults=made)
        if is_new:
            NetworkKey.objects.filter(period__lt=period).delete()
        _keys.clear()
        _keys[period] = bytes.fromhex(row.key)
    return _keys[period]
