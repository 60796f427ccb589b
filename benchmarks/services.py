"""The services of a judge run: a broker and a model, in processes of their own."""

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.serving import PATIENCE, REPOSITORY, free_port

MODEL = "judge-7b-2024-07-01"
LATENCY = 0.5
SLOW = 60.0
WAITING = 8  # calls to the slow model at a time


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

    def _listens(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def own_redis() -> Iterator[str]:
    """The URL of a Redis that runs until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        server = OwnRedis(folder)
        server.start()
        try:
            yield server.url
        finally:
            server.stop()


@contextmanager
def model_server(seconds: float) -> Iterator[str]:
    """Run a model that takes `seconds` to answer in its own process; yield its base URL."""
    command = [sys.executable, "-m", "benchmarks.model_server", str(seconds)]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(PATIENCE)


@contextmanager
def model_endpoints() -> Iterator[str]:
    """Yield MODEL_ENDPOINTS with two models: `local`, and the extremely slow `slow`."""
    with model_server(LATENCY) as local, model_server(SLOW) as slow:
        price = {MODEL: {"input": 0.15, "output": 0.6}}
        shared = {"provider": "openai", "prices": price}
        yield json.dumps(
            {
                "local": shared | {"base_url": local, "concurrency": 32},
                "slow": shared | {"base_url": slow, "concurrency": WAITING, "timeout": 2 * SLOW},
            }
        )
