"""Fork a worker for each line of options read, and print its process id; kill them at the end.

Importing the product is most of what starting a worker takes, so those to be killed share that.
"""

import os
import signal
import sys

from django.db import connection

from arena.celery import app

app.loader.import_default_modules()
connection.close()  # the check of settings has read the database
connection.close_pool()
forked: list[int] = []
for line in sys.stdin:
    if pid := os.fork():
        forked.append(pid)
        print(pid, flush=True)
        continue
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        app.worker_main(line.split())
    finally:
        os._exit(0)
for pid in forked:  # the dead are zombies until this process ends, so no id is somebody else's
    os.kill(pid, signal.SIGKILL)
