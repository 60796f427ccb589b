"""A child process that is started again when it dies, and whose lines carry its name."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO

from arena.embedded.lifeline import PIPE

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# A child that lived this long had started well: its next pause is the shortest again.
SETTLED = 30.0


class Lifeline:
    """The pipe whose closing tells the children that their parent is gone."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()


@dataclass
class Child:
    """One process of ours: `python -m module arguments`, in a process group of its own."""

    name: str
    module: str
    arguments: Sequence[str]
    folder: Path
    lifeline: Lifeline
    files: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self._pause = FIRST_PAUSE
        self._started = self._due = 0.0

    def tend(self) -> None:
        """Start the child where it is not running, unless it died a moment ago."""
        if self.process is not None and self.process.poll() is not None:
            self._bury(self.process.returncode)
        if self.process is None and monotonic() >= self._due:
            self._start()

    def terminate(self) -> None:
        """Ask the child to end."""
        if self.process is not None:
            self.process.terminate()

    def join(self, deadline: float) -> None:
        """Wait for the child's end until `deadline` (monotonic), then kill its whole group."""
        if self.process is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, deadline - monotonic()))
        self._kill_group()
        self.process.wait()

    def _start(self) -> None:
        self._started = monotonic()
        self.process = subprocess.Popen(  # noqa: S603  (our own module, no shell)
            [sys.executable, "-m", self.module, *self.arguments],
            cwd=self.folder,
            env=os.environ | {PIPE: str(self.lifeline.reading), "PYTHONUNBUFFERED": "1"},
            pass_fds=[self.lifeline.reading, *self.files],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # the terminal's Ctrl-C is for the parent alone
        )
        assert self.process.stdout is not None
        threading.Thread(target=self._echo, args=[self.process.stdout], daemon=True).start()

    def _bury(self, code: int) -> None:
        self._kill_group()
        self.process = None
        if monotonic() - self._started > SETTLED:
            self._pause = FIRST_PAUSE
        self._due = monotonic() + self._pause
        self._say(f"ended ({_describe(code)}); starting it again in {self._pause:g} s")
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _kill_group(self) -> None:
        """Leave nobody behind: gunicorn's worker outlives its killed master for a second."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _echo(self, lines: IO[str]) -> None:
        with lines:
            for line in filter(None, map(str.rstrip, lines)):
                self._say(line)

    def _say(self, line: str) -> None:
        sys.stderr.write(f"{self.name:>6} | {line}\n")


def _describe(code: int) -> str:
    return f"exit status {code}" if code >= 0 else signal.Signals(-code).name
