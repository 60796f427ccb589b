"""Addresses to which webhooks may be sent.

A URL is checked when a team saves it. The addresses of its host are checked with every connection,
because a name can resolve to another address later.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network
from urllib.parse import SplitResult, urlsplit

Address = IPv4Address | IPv6Address
LONGEST_URL = 500  # as in the database
LONGEST_HOST = 253
LOOPBACK_NAME = "localhost"
# Ports below this, except for the web's, belong to mail, remote shells and name servers, which
# could interpret a request as commands. Receivers use higher ports, such as 3000, 8000 or 8443.
WEB_PORTS = frozenset({80, 443})
FIRST_PORT_OF_ANYONE = 1024
LAST_PORT = 65535
DEFAULT_PORTS = {"http": 80, "https": 443}
# Top-level names reserved for private networks or special use (RFC 6761, RFC 8375, ICANN).
PRIVATE_ENDINGS = frozenset(
    {
        "corp",
        "home",
        "home.arpa",
        "internal",
        "intranet",
        "invalid",
        "lan",
        "local",
        "localdomain",
        LOOPBACK_NAME,
        "onion",
        "private",
        "test",
    }
)
# Not public, although `is_global` is True for them in some versions of Python.
SPECIAL_V4 = tuple(
    ip_network(network)
    for network in (
        "168.63.129.16/32",  # the host of every Azure machine
        "192.0.0.0/24",  # IETF protocols, and one cloud's metadata service
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # relays of 6to4
        "192.175.48.0/24",  # AS112
        "224.0.0.0/4",  # multicast
    )
)
SPECIAL_V6 = tuple(
    ip_network(network)
    for network in (
        "2001::/23",  # IETF protocols: Teredo, ORCHID, benchmarks
        "2002::/16",  # 6to4, which carries any IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3ffe::/16",  # the former 6bone
        "3fff::/20",  # documentation
    )
)
GLOBAL_UNICAST = ip_network("2000::/3")
NAT64 = ip_network("64:ff9b::/96")
LOW_32_BITS = 0xFFFFFFFF
PRINTABLE = re.compile(r"[!-~]+")
AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?")
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
PRIVATE = (
    "This address leads to a private or special network. Enter an address on the public internet."
)


class TargetError(Exception):
    """An address that is not allowed; the message is for the person who entered it."""


@dataclass(frozen=True)
class Target:
    """A parsed URL, so that the request goes to exactly the URL that was checked.

    `host` is in lower case and without brackets; `path` includes the query.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def check_target(
    url: str, *, allow_http: bool = False, allow_loopback_port: int | None = None
) -> None:
    """Raise TargetError if `url` is not allowed, without resolving its host.

    `allow_loopback_port` allows one port of this machine.
    """
    parse_target(url, allow_http=allow_http, allow_loopback_port=allow_loopback_port)


def parse_target(url: str, *, allow_http: bool, allow_loopback_port: int | None) -> Target:
    """Return the parts of `url`. Raises TargetError like `check_target`."""
    parts = _split_url(url, allow_http)
    matched = AUTHORITY.fullmatch(parts.netloc.lower())
    if matched is None:
        raise TargetError(
            "The host or port is not valid. Use a form such as hooks.example.com:8443."
        )
    text = matched["port"]
    port = int(text) if text else DEFAULT_PORTS[parts.scheme]
    if port not in WEB_PORTS and not FIRST_PORT_OF_ANYONE <= port <= LAST_PORT:
        raise TargetError(
            f"Port {port} is not allowed. Use 443, 80, "
            f"or a port from {FIRST_PORT_OF_ANYONE} to {LAST_PORT}."
        )
    host = _clean_host(matched["host"], loopback=port == allow_loopback_port)
    query = f"?{parts.query}" if parts.query else ""
    return Target(parts.scheme, host, port, (parts.path or "/") + query)


def forbidden(address: Address) -> bool:
    """Whether requests to `address` are forbidden.

    A NAT64 address is judged by the IPv4 address in it; other addresses that embed one (mapped,
    6to4, Teredo) are forbidden.
    """
    if isinstance(address, IPv4Address):
        return not address.is_global or any(address in network for network in SPECIAL_V4)
    if address.scope_id is not None:
        return True
    if address in NAT64:
        return forbidden(IPv4Address(int(address) & LOW_32_BITS))
    special = address not in GLOBAL_UNICAST or any(address in network for network in SPECIAL_V6)
    return special or not address.is_global


def _split_url(url: str, allow_http: bool) -> SplitResult:
    """Split a URL; raise TargetError for anything that parsers interpret differently."""
    if len(url) > LONGEST_URL:
        raise TargetError(f"The address is longer than {LONGEST_URL} characters.")
    if not PRINTABLE.fullmatch(url) or "\\" in url:
        raise TargetError(
            "The address may contain only ASCII letters, digits and signs, without spaces or "
            "backslashes. Write international names in their xn-- form."
        )
    try:
        parts = urlsplit(url)
    except ValueError:
        raise TargetError("The address is not a complete URL.") from None
    if parts.scheme != "https" and not (allow_http and parts.scheme == "http"):
        wanted = "https:// or http://" if allow_http else "https://"
        raise TargetError(f"The address must begin with {wanted}.")
    if "@" in parts.netloc:
        raise TargetError("The address must not contain a user name or password.")
    if "#" in url:
        raise TargetError("The address must not contain a fragment (the part after #).")
    return parts


def _clean_host(text: str, *, loopback: bool) -> str:
    """Return the host without brackets; `loopback` allows this machine."""
    literal = _ip_address(text)
    if literal is None:
        if not (loopback and text == LOOPBACK_NAME):
            _check_host_name(text)
        return text
    if forbidden(literal) and not (loopback and literal.is_loopback):
        raise TargetError(PRIVATE)
    return str(literal)


def _ip_address(host: str) -> Address | None:
    """Return the host as an IP address, or None for a name."""
    try:
        if host.startswith("["):
            return IPv6Address(host[1:-1])
        return IPv4Address(host)
    except ValueError:
        return None


def _check_host_name(host: str) -> None:
    labels = host.split(".")
    if any(".".join(labels[start:]) in PRIVATE_ENDINGS for start in range(len(labels))):
        raise TargetError(PRIVATE)
    well_formed = len(host) <= LONGEST_HOST and all(map(LABEL.fullmatch, labels))
    # No top-level domain begins with a digit, but systems accept 127.1, 0x7f.1 and 2130706433 as IP
    # addresses.
    if not well_formed or len(labels) == 1 or labels[-1][0].isdigit():
        raise TargetError(
            "The host must be a full name such as hooks.example.com or an IP address in its usual "
            "form, without a final dot."
        )
