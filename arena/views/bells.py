"""Ringing for calls from a page, once what was ordered there is written."""

import logging
from collections.abc import Callable
from functools import partial

from django.db import transaction

from arena.bells import ring

logger = logging.getLogger(__name__)


def ring_on_commit(bell: Callable[[], int]) -> None:
    """Have workers start at once what has just been ordered or let go on."""
    transaction.on_commit(partial(_ring, bell))


def _ring(bell: Callable[[], int]) -> None:
    if trouble := ring(bell):
        logger.warning(trouble)
