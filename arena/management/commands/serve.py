"""`manage.py serve`: the web server, the same in `make run` and in the container."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import connection
from granian import Granian
from granian.constants import HTTPModes, Interfaces
from granian.log import LogLevels

from arena.processes import end_if_it_hangs, end_with_parent
from arena.wsgi import WAITING, application

# A thread for each client that is answered or waits, and some to refuse others and for /healthz.
SPARE_THREADS = 24
# Within `ulimit -n 1024`, with the files of the database. Others wait to be accepted.
CONNECTIONS = 400


def load_application(parent: int) -> Callable[..., Any]:
    """Return the application; granian calls this in each process that it starts.

    They are forks of this process, which has imported everything, so they answer at once.
    """
    end_with_parent(parent)
    end_if_it_hangs()
    return application


class Command(BaseCommand):
    help = "Serve pages at HOST and PORT. SIGTERM ends it, SIGHUP starts its processes again."

    def handle(self, *args: Any, **options: Any) -> None:
        # django-allauth's check asks how addresses are confirmed, which operators may have set, and
        # the processes below are forks of this one: they cannot share a connection.
        connection.close()
        if connection.vendor == "postgresql":
            connection.close_pool()  # type: ignore[attr-defined]
        Granian(
            "arena.wsgi:application",
            interface=Interfaces.WSGI,
            http=HTTPModes.http1,
            address=settings.HOST,
            port=settings.PORT,
            workers=settings.WEB_PROCESSES,
            blocking_threads=settings.WEB_THREADS + WAITING + SPARE_THREADS,
            backpressure=CONNECTIONS,
            respawn_failed_workers=True,
            respawn_interval=2,  # after SIGHUP, the old ones serve until the new ones do
            workers_kill_timeout=4,
            log_level=LogLevels.error,
        ).serve(target_loader=partial(load_application, os.getpid()), wrap_loader=False)
