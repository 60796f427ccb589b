"""Allowed webhook targets: how an address is written, and what its name resolves to."""

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arena.webhooks.targets import TargetError, check_target, forbidden, parse_target

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "168.63.129.15",
    "172.32.0.1",
    "192.0.1.1",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "2a00:1450:4001:800::200e",
    "64:ff9b::808:808",
]
FORBIDDEN = {
    "unspecified": ["0.0.0.0", "0.1.2.3", "::"],
    "loopback": ["127.0.0.1", "127.255.0.9", "::1"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fdff::1"],
    "carrier": ["100.64.0.0", "100.100.100.200", "100.127.255.255"],
    "link-local": ["169.254.0.1", "fe80::1", "fe80::1%eth0", "fec0::1", "feff::1"],
    "metadata": ["169.254.169.254", "fd00:ec2::254", "192.0.0.192", "168.63.129.16"],
    "documentation": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
    "benchmarks": ["198.18.0.1", "198.19.255.255", "2001:2::1"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"],
    "reserved": ["240.0.0.1", "255.255.255.255", "4000::1", "5f00::1", "3ffe::1"],
    "relays": ["192.88.99.1", "192.52.193.1", "192.31.196.1", "192.175.48.1", "2620:4f:8000::1"],
    "mapped": ["::ffff:10.0.0.1", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1", "::127.0.0.1"],
    "6to4": ["2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:808:808::1"],
    "teredo": ["2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2"],
    "nat64": ["64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::e000:1", "64:ff9b:1::808:808"],
    "discard": ["100::1"],
    "orchid": ["2001:10::1", "2001:20::1", "2001:1ff:ffff::1"],
    "scoped": ["2606:4700:4700::1111%1"],
}


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_allowed(text: str) -> None:
    assert not forbidden(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [pytest.param(text, id=f"{kind} {text}") for kind in FORBIDDEN for text in FORBIDDEN[kind]],
)
def test_a_special_address_is_forbidden(text: str) -> None:
    assert forbidden(ip_address(text))


@given(st.ip_addresses(v=4))
@example(IPv4Address("224.0.0.1"))
def test_nothing_that_python_calls_special_is_allowed(address: IPv4Address) -> None:
    special = (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
    )
    assert forbidden(address) or not special


@given(st.ip_addresses(v=4))
@example(IPv4Address("127.0.0.1"))
@example(IPv4Address("8.8.8.8"))
def test_an_address_within_another_opens_no_way_round(inner: IPv4Address) -> None:
    carried = int(inner)
    translated = IPv6Address(int(IPv6Address("64:ff9b::")) + carried)
    assert forbidden(translated) == forbidden(inner)
    assert forbidden(IPv6Address(carried))
    assert forbidden(IPv6Address((0xFFFF << 32) + carried))
    assert forbidden(IPv6Address((0x2002 << 112) + (carried << 80)))
    assert forbidden(IPv6Address((0x2001_0000 << 96) + (carried ^ 0xFFFFFFFF)))


@given(st.ip_addresses(v=6))
@example(IPv6Address("fec0::1"))
@example(IPv6Address("ff0e::1"))
def test_only_translated_addresses_pass_outside_global_unicast(address: IPv6Address) -> None:
    unicast = int(address) >> 125 == 1
    translated = int(address) >> 32 == int(IPv6Address("64:ff9b::")) >> 32
    assert forbidden(address) or unicast or translated


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com",
        "https://hooks.example.com/a/b?token=1&x=%20",
        "HTTPS://Hooks.Example.COM:8443/",
        "https://example.com:443/",
        "https://example.com:80/",
        "https://example.com:1024/",
        "https://example.com:65535/",
        "https://xn--mller-kva.example.com/",
        "https://93.184.216.34/hook",
        "https://[2606:4700:4700::1111]:8443/hook",
        "https://localhost.example.com/",
        "https://10.example.com/",
    ],
)
def test_an_address_on_the_public_internet_is_taken(url: str) -> None:
    check_target(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "https://127.1/",
        "https://0x7f.1/",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://017700000001/",
        "https://0177.0.0.1/",
        "https://127.0.0.0x1/",
        "https://127.0.0.1./",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://0/",
        "https://0.0.0.0/",
        "https://[::]/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://[::ffff:a00:1]/",
        "https://[64:ff9b::a9fe:a9fe]/",
        "https://[fe80::1%25eth0]/",
        "https://[fe80::1%eth0]/",
        "https://[2606:4700:4700::1111%251]/",
        "https://a[2606:4700:4700::1111]/",
        "https://[2606:4700:4700::1111]a/",
        "https://[v1.fe80]/",
        "https://[1.1.1.1]/",
        "https://[::1/",
        "https://%31%32%37.0.0.1/",
        "https://１２７.0.0.1/",
        "https://127。0。0。1/",
        "https://ⓛocalhost/",
        "https://localhost/",
        "https://LOCALHOST/",
        "https://localhost./",
        "https://hooks.localhost/",
        "https://printer.local/",
        "https://metadata.google.internal/",
        "https://router.home.arpa/",
        "https://intranet/",
        "https://example.com./",
        "https://.example.com/",
        "https://ex..ample.com/",
        "https://-a.example.com/",
        "https://a_b.example.com/",
        f"https://{'a' * 64}.example.com/",
        f"https://{'a.' * 130}com/",
        "https:///hook",
        "https://",
        "https:hooks.example.com",
        "//hooks.example.com/",
        "hooks.example.com",
        "",
    ],
)
def test_any_other_spelling_of_a_host_is_refused(url: str) -> None:
    with pytest.raises(TargetError, match=r"^[A-Z].*\.$"):
        check_target(url)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://example.com/", "begin with https://"),
        ("ftp://example.com/", "begin with https://"),
        ("https://user:secret@example.com/", "user name"),
        ("https://@example.com/", "user name"),
        ("https://example.com/#part", "fragment"),
        ("https://example.com/#", "fragment"),
        ("https://example.com:22/", "Port 22"),
        ("https://example.com:0/", "Port 0"),
        ("https://example.com:1023/", "Port 1023"),
        ("https://example.com:65536/", "Port 65536"),
        ("https://example.com:/", "host or port is not valid"),
        ("https://example.com:-1/", "host or port is not valid"),
        ("https://example.com\\@10.0.0.1/", "backslashes"),
        ("https://exam\tple.com/", "spaces"),
        (" https://example.com/", "spaces"),
        ("https://example.com/\r\nX: y", "spaces"),
        ("https://example.com/\n", "spaces"),
        ("https://müller.example.com/", "xn--"),
        ("https://10.0.0.1/", "private or special network"),
        ("https://build.internal/", "private or special network"),
        ("https://127.1/", "usual form"),
        ("https://example.com/" + "a" * 481, "longer than 500"),
    ],
)
def test_the_sentence_says_an_error(url: str, sentence: str) -> None:
    with pytest.raises(TargetError, match=sentence):
        check_target(url)


def test_an_address_of_just_the_longest_length_is_taken() -> None:
    check_target("https://example.com/" + "a" * 480)


def test_plain_http_is_taken_only_where_the_caller_says_so() -> None:
    check_target("http://example.com/", allow_http=True)
    with pytest.raises(TargetError, match="https:// or http://"):
        check_target("ftp://example.com/", allow_http=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_one_port_of_this_machine_is_open_only_by_name(host: str) -> None:
    check_target(f"https://{host}:5000/", allow_loopback_port=5000)
    with pytest.raises(TargetError):
        check_target(f"https://{host}:5001/", allow_loopback_port=5000)


@pytest.mark.parametrize("host", ["10.0.0.1", "printer.local", "169.254.169.254", "0.0.0.0"])
def test_the_open_port_opens_no_other_machine(host: str) -> None:
    with pytest.raises(TargetError):
        check_target(f"https://{host}:5000/", allow_loopback_port=5000)


@given(st.text(max_size=40) | st.from_regex(r"https://[\[\]0-9a-z:.%@-]{0,30}/?", fullmatch=True))
@example("https://ab.c1/")
def test_any_text_is_refused_or_names_a_full_host(text: str) -> None:
    with suppress(TargetError):
        host = parse_target(text, allow_http=False, allow_loopback_port=None).host
        assert "." in host or ":" in host
        assert not host.endswith(".")
        assert host in text.lower() or ":" in host


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("https://Example.com", "example.com", "/"),
        ("https://example.com:443?a=b", "example.com", "/?a=b"),
        ("https://example.com:8443/x;y?z", "example.com:8443", "/x;y?z"),
        ("https://[2606:4700::1111]/", "[2606:4700::1111]", "/"),
        ("https://[2606:4700::1111]:8443/", "[2606:4700::1111]:8443", "/"),
    ],
)
def test_what_is_asked_is_what_was_checked(url: str, authority: str, path: str) -> None:
    target = parse_target(url, allow_http=False, allow_loopback_port=None)
    assert (target.authority, target.path) == (authority, path)
