"""What the processes of one machine have in common."""

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have the kernel kill this process as soon as its parent has ended, even by SIGKILL.

    Only Linux can do this. Elsewhere the next `manage.py up` ends what was left.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
