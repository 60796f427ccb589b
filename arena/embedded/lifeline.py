"""No orphans: a child of `manage.py up` ends when its parent does, however the parent ended.

The parent holds the writing end of a pipe and never writes. The kernel closes it when the parent
dies, even by SIGKILL, and the child's read returns. On Linux the kernel also sends a signal, which
reaches a child whose threads are stuck.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from typing import NoReturn

PIPE = "RINGSIDE_LIFELINE"
GRACE = 2.0
PR_SET_PDEATHSIG = 1


def hold() -> None:
    """End this process soon after the end of the parent that set the lifeline up."""
    end_with_parent()
    watch = threading.Thread(target=_watch, args=[int(os.environ[PIPE])], daemon=True)
    watch.start()


def end_with_parent() -> None:
    """Ask Linux to send SIGTERM when the parent's starting thread ends; elsewhere do nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _watch(pipe: int) -> NoReturn:
    """Wait for the pipe to close; then stop politely, and after a moment at once."""
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL cannot be survived")
