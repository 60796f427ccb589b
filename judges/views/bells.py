"""Ringing for calls from a page. The sweep rings too, so a broker that is away costs seconds."""

import logging

from django.db import transaction
from kombu.exceptions import OperationalError

from judges.tasks import ring_calls

logger = logging.getLogger(__name__)


def ring_on_commit() -> None:
    """Have workers start at once what has just been ordered or let go on."""
    transaction.on_commit(_ring)


def _ring() -> None:
    try:
        ring_calls()
    except OperationalError as error:
        logger.warning("The broker cannot be reached (%s); the sweep will ring.", error)
