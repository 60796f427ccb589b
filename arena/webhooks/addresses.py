"""Which addresses a webhook may go to.

A URL is checked as it is written when a team saves it, and what its host name resolves to is
checked again with every connection, because a name can lead somewhere else tomorrow.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network
from urllib.parse import SplitResult, urlsplit

Address = IPv4Address | IPv6Address

LONGEST_URL = 500  # as the database keeps it
LONGEST_HOST = 253
LOOPBACK_NAME = "localhost"

# Lower ports belong to mail, remote shells, name servers: a request there could be read as a
# command. Receivers that run beside others listen above, on 3000, 8000 or 8443.
WEB_PORTS = frozenset({80, 443})
FIRST_PORT_OF_ANYONE = 1024
LAST_PORT = 65535
DEFAULT_PORTS = {"http": 80, "https": 443}

# Names that only mean something inside somebody's own network (RFC 6761, RFC 8375, ICANN).
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

# What `is_global` of some Python takes for public, and is not.
SPECIAL_V4 = tuple(
    ip_network(network)
    for network in (
        "168.63.129.16/32",  # the host of every Azure machine
        "192.0.0.0/24",  # IETF protocols, and one cloud's metadata
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
        "3ffe::/16",  # the 6bone, long returned
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
    "This address leads into a private or special network. Enter an address on the public internet."
)


class TargetRefused(Exception):
    """An address that no request goes to; the text is a sentence for whoever typed it in."""


@dataclass(frozen=True)
class Target:
    """A URL taken apart once, so that what was checked is what is asked.

    `host` is in lower case and without brackets; `path` includes the query.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def check_target(
    url: str, *, allow_http: bool = False, allow_loopback_port: int | None = None
) -> None:
    """Raise TargetRefused, with a sentence that says why, where `url` must not be asked.

    Nothing is resolved here. `allow_loopback_port` opens one port of this very machine.
    """
    parse_target(url, allow_http=allow_http, allow_loopback_port=allow_loopback_port)


def parse_target(url: str, *, allow_http: bool, allow_loopback_port: int | None) -> Target:
    """Return the parts of `url`, or raise TargetRefused like `check_target`."""
    parts = _split(url, allow_http)
    matched = AUTHORITY.fullmatch(parts.netloc.lower())
    if matched is None:
        raise TargetRefused("The host is not spelled like hooks.example.com, or its port is not.")
    port = _checked_port(matched["port"], parts.scheme)
    host = _checked_host(matched["host"], loopback=port == allow_loopback_port)
    query = f"?{parts.query}" if parts.query else ""
    return Target(parts.scheme, host, port, (parts.path or "/") + query)


def forbidden(address: Address) -> bool:
    """Say whether no request may go to `address`, which a name resolved to.

    Addresses that carry another one are judged by it where a network translates them (NAT64),
    and are forbidden where nobody serves the web through them (mapped, 6to4, Teredo).
    """
    if isinstance(address, IPv4Address):
        return not address.is_global or any(address in network for network in SPECIAL_V4)
    if address.scope_id is not None:
        return True
    if address in NAT64:
        return forbidden(IPv4Address(int(address) & LOW_32_BITS))
    special = address not in GLOBAL_UNICAST or any(address in network for network in SPECIAL_V6)
    return special or not address.is_global


def _split(url: str, allow_http: bool) -> SplitResult:
    """Return the parts of a URL that every parser reads alike."""
    if len(url) > LONGEST_URL:
        raise TargetRefused(f"The address is longer than {LONGEST_URL} characters.")
    if not PRINTABLE.fullmatch(url) or "\\" in url:
        raise TargetRefused(
            "The address may only have ASCII letters, digits and signs, and no spaces or "
            "backslashes. Write an international name in its xn-- form."
        )
    try:
        parts = urlsplit(url)
    except ValueError:
        raise TargetRefused("The address is not a complete URL.") from None
    _check_form(url, parts, allow_http)
    return parts


def _check_form(url: str, parts: SplitResult, allow_http: bool) -> None:
    if parts.scheme != "https" and not (allow_http and parts.scheme == "http"):
        wanted = "https:// or http://" if allow_http else "https://"
        raise TargetRefused(f"The address has to begin with {wanted}.")
    if "@" in parts.netloc:
        raise TargetRefused("The address must not have a user name or a password in it.")
    if "#" in url:
        raise TargetRefused("The address must not have a fragment, which is what follows a #.")


def _checked_port(text: str | None, scheme: str) -> int:
    port = int(text) if text else DEFAULT_PORTS[scheme]
    if port not in WEB_PORTS and not FIRST_PORT_OF_ANYONE <= port <= LAST_PORT:
        raise TargetRefused(
            f"Port {port} is not one for webhooks. Use 443, 80, "
            f"or one from {FIRST_PORT_OF_ANYONE} to {LAST_PORT}."
        )
    return port


def _checked_host(text: str, *, loopback: bool) -> str:
    """Return the host without brackets; `loopback` where this machine itself may be asked."""
    literal = _literal(text)
    if literal is None:
        if not (loopback and text == LOOPBACK_NAME):
            _check_name(text)
        return text
    if forbidden(literal) and not (loopback and literal.is_loopback):
        raise TargetRefused(PRIVATE)
    return str(literal)


def _literal(host: str) -> Address | None:
    """Return the IP address that is written out as the host; None where it is a name."""
    try:
        if host.startswith("["):
            return IPv6Address(host[1:-1])
        return IPv4Address(host)
    except ValueError:
        return None


def _check_name(host: str) -> None:
    labels = host.split(".")
    if any(".".join(labels[start:]) in PRIVATE_ENDINGS for start in range(len(labels))):
        raise TargetRefused(PRIVATE)
    well_formed = len(host) <= LONGEST_HOST and all(map(LABEL.fullmatch, labels))
    # No top-level domain begins with a digit, but 127.1, 0x7f.1 and 2130706433 do, which systems
    # read as IP addresses.
    if not well_formed or len(labels) == 1 or labels[-1][0].isdigit():
        raise TargetRefused(
            "The host is neither a full name such as hooks.example.com nor an IP address in its "
            "usual form. A dot at its end has to go, too."
        )
