"""The worker process of the embedded mode: Celery's threads, with beat as one thread more.

Celery's own `-B` forks beat into a process that outlives a killed parent.
"""

import threading
import warnings
from typing import Any

from celery.beat import Scheduler, Service
from celery.exceptions import SecurityWarning
from celery.signals import worker_ready

from arena.celery import app
from arena.embedded import supervisor

ARGUMENTS = [
    "--quiet",
    "worker",
    "--pool=threads",
    "--concurrency=8",
    "--queues=fits,calls",
    "--without-gossip",
    "--without-mingle",
    "--without-heartbeat",
    "--loglevel=WARNING",
]


def start_beat(**kwargs: Any) -> None:
    """Start the clock, with its schedule in memory, once the worker takes tasks."""
    threading.Thread(target=beat, name="beat", daemon=True).start()


def beat() -> None:
    """Send what is due, for ever."""
    app.set_current()
    Service(app, scheduler_cls=Scheduler, max_interval=1).start()


if __name__ == "__main__":
    supervisor.hold()
    # Celery warns whoever runs it as root, as a person does who tries this in a container.
    warnings.simplefilter("ignore", SecurityWarning)
    worker_ready.connect(start_beat)
    app.worker_main(ARGUMENTS)
