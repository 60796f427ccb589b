"""The web process of the embedded mode: gunicorn on a socket that the supervisor opened."""

import os
import sys
from collections.abc import Callable
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.util import import_app

from arena.embedded import supervisor

SETTINGS = {
    "workers": 1,
    "threads": 8,
    "worker_class": "gthread",
    "limit_request_line": 8190,  # the most there is: names in a query may be long, and are encoded
    "control_socket_disable": True,
    "graceful_timeout": 2,
    "loglevel": "warning",
    "proc_name": "ringside-web",
    "post_fork": lambda arbiter, worker: supervisor.end_with_parent(),
}


class Web(BaseApplication):
    """Gunicorn with the settings above; the application is loaded in its one worker."""

    def __init__(self, socket: int) -> None:
        self.socket = socket
        super().__init__()

    def load_config(self) -> None:
        for name, value in (SETTINGS | {"bind": f"fd://{self.socket}"}).items():
            self.cfg.set(name, value)

    def load(self) -> Callable[..., Any]:
        return import_app("arena.wsgi:application")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")
    supervisor.hold()
    Web(int(sys.argv[1])).run()
