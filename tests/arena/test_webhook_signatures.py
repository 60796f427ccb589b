"""Signatures by the Standard Webhooks specification."""

import base64
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.webhooks.signatures import sign

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


def test_the_specifications_example_is_signed() -> None:
    signed = sign(SECRET, body=BODY, timestamp=AT, delivery_id=SIGNED["webhook-id"])
    assert signed == SIGNED


@pytest.mark.parametrize("delivery_id", ["", "a.b", "a b", "a\r\nX: y", "a\n", "é"])
def test_an_id_that_would_blur_what_was_signed_is_refused(delivery_id: str) -> None:
    with pytest.raises(ValueError, match="id of a delivery"):
        sign(SECRET, body=BODY, timestamp=AT, delivery_id=delivery_id)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_not base64", "whsec_abc", "whsec_é"])
def test_an_invalid_secret_is_refused_without_being_repeated(secret: str) -> None:
    with pytest.raises(ValueError, match=r"^A webhook secret is whsec_ followed by Base64\.$"):
        sign(secret, body=BODY, timestamp=AT, delivery_id="a")


@pytest.fixture(scope="module")
def verify() -> Any:
    """The lines with which the documentation tells receivers to verify a request."""
    document = Path(__file__).parents[2] / "docs" / "reference" / "webhooks.md"
    [lines] = re.findall(r"```python\n(import base64.*?)```", document.read_text(), re.DOTALL)
    documented: dict[str, Any] = {}
    exec(lines, documented)
    return documented["verify"]


def test_the_lines_in_the_documentation_verify_what_is_signed(verify: Any) -> None:
    headers = sign(SECRET, body=BODY, timestamp=int(time.time()), delivery_id="delivery-7")
    assert verify(SECRET, headers, BODY)
    assert not verify(SECRET, headers | {"webhook-id": "delivery-8"}, BODY)
    assert not verify(SECRET, headers | {"webhook-timestamp": str(AT)}, BODY)
    old = sign(SECRET, body=BODY, timestamp=AT, delivery_id="delivery-7")
    assert not verify(SECRET, old, BODY)


@given(st.binary(max_size=100), st.from_regex("[a-z0-9_-]{1,9}", fullmatch=True))
def test_whatever_is_signed_verifies(verify: Any, body: bytes, delivery_id: str) -> None:
    headers = sign(OTHER_SECRET, body=body, timestamp=int(time.time()), delivery_id=delivery_id)
    assert verify(OTHER_SECRET, headers, body)
    assert not verify(OTHER_SECRET, headers, body + b" ")
    assert not verify(SECRET, headers, body)
