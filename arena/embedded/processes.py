"""The two processes of `manage.py up`: `python -m arena.embedded.processes web FD`, or `worker`."""

import os
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from arena.embedded import supervisor

WEB_SETTINGS = {
    "workers": 1,
    "threads": 8,
    "worker_class": "gthread",
    "limit_request_line": 8190,  # gunicorn's maximum: names in a query may be long, and are encoded
    "control_socket_disable": True,
    "graceful_timeout": 2,
    "loglevel": "warning",
    "proc_name": "ringside-web",
    "post_fork": lambda arbiter, worker: supervisor.end_with_parent(),
}
WORKER_ARGUMENTS = [
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


def serve(socket: int) -> None:
    """Run gunicorn on a socket that the supervisor opened."""
    from gunicorn.app.base import BaseApplication
    from gunicorn.util import import_app

    class Web(BaseApplication):
        """Gunicorn with the settings above; the application is loaded in its one worker."""

        def load_config(self) -> None:
            for name, value in (WEB_SETTINGS | {"bind": f"fd://{socket}"}).items():
                self.cfg.set(name, value)

        def load(self) -> Callable[..., Any]:
            return import_app("arena.wsgi:application")

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")
    Web().run()


def work() -> None:
    """Run Celery's worker threads, and beat in one more thread.

    Celery's own `-B` forks beat into a process that outlives a killed parent.
    """
    from celery.beat import Scheduler, Service
    from celery.exceptions import SecurityWarning
    from celery.signals import worker_ready

    from arena.celery import app

    def beat() -> None:
        app.set_current()
        Service(app, scheduler_cls=Scheduler, max_interval=1).start()

    def start_beat(**kwargs: Any) -> None:
        threading.Thread(target=beat, name="beat", daemon=True).start()

    # Celery warns when it runs as root, which is usual when somebody tries this in a container.
    warnings.simplefilter("ignore", SecurityWarning)
    worker_ready.connect(start_beat, weak=False)
    app.worker_main(WORKER_ARGUMENTS)


if __name__ == "__main__":
    supervisor.hold()
    if sys.argv[1] == "web":
        serve(int(sys.argv[2]))
    else:
        work()
