"""Doorbells of calls. The sweep rings too, so a broker that is away costs seconds."""

from collections.abc import Callable

from kombu.exceptions import OperationalError


def ring(bell: Callable[[], int]) -> str:
    """Ring for what is due; return a sentence where the broker does not answer."""
    try:
        bell()
    except OperationalError as error:
        return f"The broker cannot be reached ({error}); the sweep will ring."
    return ""
