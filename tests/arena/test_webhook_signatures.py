"""Signatures by the Standard Webhooks specification."""

import base64
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.webhooks import sign, verify

# The example with which the specification's own libraries are tested.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER_SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
BODY = b'{"test": 2432232314}'
AT = 1614265330
SIGNED = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}


def checks(now: float = AT, body: bytes = BODY, secret: str = SECRET, **changed: str) -> bool:
    headers = SIGNED | {f"webhook-{name}": value for name, value in changed.items()}
    return verify(secret, body=body, headers=headers, now=now)


def test_the_specifications_example_is_signed_and_verified() -> None:
    signed = sign(SECRET, body=BODY, timestamp=AT, delivery_id=SIGNED["webhook-id"])
    assert signed == SIGNED
    assert checks()


@given(
    st.binary(max_size=100),
    st.integers(0, 10**11),
    st.from_regex("[a-z0-9_-]{1,9}", fullmatch=True),
)
def test_whatever_is_signed_verifies(body: bytes, at: int, delivery_id: str) -> None:
    secret = OTHER_SECRET
    headers = sign(secret, body=body, timestamp=at, delivery_id=delivery_id)
    assert verify(secret, body=body, headers=headers, now=at)
    assert not verify(secret, body=body + b" ", headers=headers, now=at)
    assert not verify(SECRET, body=body, headers=headers, now=at)


def test_another_id_or_time_does_not_verify() -> None:
    assert not checks(id="msg_other")
    assert not checks(timestamp=str(AT + 1))


@pytest.mark.parametrize("seconds", [-300, 300])
def test_five_minutes_are_tolerated_either_way(seconds: int) -> None:
    assert checks(now=AT + seconds)
    assert not checks(now=AT + seconds * 1.01)


def test_one_of_several_signatures_is_enough() -> None:
    assert checks(signature=f"v1a,AAAA v1,AAAA {SIGNED['webhook-signature']}")
    assert not checks(signature="v1a,AAAA v1,AAAA")
    assert not checks(signature=SIGNED["webhook-signature"].removeprefix("v1,"))


def test_headers_are_found_however_they_are_capitalised() -> None:
    headers = {name.title(): value for name, value in SIGNED.items()}
    assert verify(SECRET, body=BODY, headers=headers, now=AT)


@pytest.mark.parametrize("missing", sorted(SIGNED))
def test_a_missing_header_does_not_verify(missing: str) -> None:
    headers = {name: value for name, value in SIGNED.items() if name != missing}
    assert not verify(SECRET, body=BODY, headers=headers, now=AT)


@given(st.dictionaries(st.sampled_from(sorted(SIGNED)), st.text(max_size=30)))
def test_no_header_of_a_stranger_raises_or_verifies(headers: dict[str, str]) -> None:
    assert not verify(SECRET, body=BODY, headers=headers, now=AT)


@given(st.text(alphabet=st.characters(codec=None, categories=["Cs", "Lo", "Nd"]), max_size=9))
def test_no_spelling_of_a_value_raises_or_verifies(text: str) -> None:
    assert not checks(signature=text)
    assert not checks(timestamp=text)
    assert not checks(id=text)


@pytest.mark.parametrize("delivery_id", ["", "a.b", "a b", "a\r\nX: y", "a\n", "é"])
def test_an_id_that_would_blur_what_was_signed_is_refused(delivery_id: str) -> None:
    with pytest.raises(ValueError, match="id of a delivery"):
        sign(SECRET, body=BODY, timestamp=AT, delivery_id=delivery_id)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_not base64", "whsec_abc", "whsec_é"])
def test_an_invalid_secret_is_refused_without_being_repeated(secret: str) -> None:
    with pytest.raises(ValueError, match=r"^A webhook secret is whsec_ followed by Base64\.$"):
        sign(secret, body=BODY, timestamp=AT, delivery_id="a")


def test_the_lines_in_the_documentation_verify_what_is_signed() -> None:
    document = Path(__file__).parents[2] / "docs" / "api.md"
    [lines] = re.findall(r"```python\n(import base64.*?)```", document.read_text(), re.DOTALL)
    documented: dict[str, Any] = {}
    exec(lines, documented)
    verify_as_told = documented["verify"]
    headers = sign(SECRET, body=BODY, timestamp=int(time.time()), delivery_id="delivery-7")
    assert verify_as_told(SECRET, headers, BODY)
    assert not verify_as_told(SECRET, headers, BODY + b" ")
    assert not verify_as_told(OTHER_SECRET, headers, BODY)
    assert not verify_as_told(SECRET, headers | {"webhook-timestamp": str(AT)}, BODY)
    old = sign(SECRET, body=BODY, timestamp=AT, delivery_id="delivery-7")
    assert not verify_as_told(SECRET, old, BODY)
