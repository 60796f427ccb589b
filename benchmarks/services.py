"""A broker in a process of its own."""

import socket
import subprocess
import time

from benchmarks.serving import PATIENCE, free_port


class OwnRedis:
    """A private Redis without persistence, which may be stopped and started again."""

    def __init__(self, folder: str) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start Redis, and wait until it listens."""
        command = ["redis-server", "--port", str(self.port), "--save", "", "--dir", self._folder]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("Redis did not start.")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop Redis; all its data is lost."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE)
        self._process = None

    def kill(self) -> None:
        """End Redis as the kernel does where memory is short; all its data is lost."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)
        self._process = None

    def _listens(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0
