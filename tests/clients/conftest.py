"""What the tests of the client share: a token, no proxy to loopback, and pauses written down."""

import pytest

from clients.python import ringside_client


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client would have slept; a minute passes in no time."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("RINGSIDE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("RINGSIDE_TOKEN", "rs_of-a-test")
    slept: list[float] = []
    clock = ringside_client.time.monotonic()

    class Clock:
        @staticmethod
        def sleep(seconds: float) -> None:
            slept.append(seconds)

        @staticmethod
        def monotonic() -> float:
            return clock + sum(slept)

    monkeypatch.setattr(ringside_client, "time", Clock)
    return slept
