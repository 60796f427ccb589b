"""Clients that download exports: `python -m benchmarks.downloads HOST PORT SLUG NUMBER`.

They are a process of their own, so that their work delays no measurement. Each asks for a file,
follows the address that it is given until the file is there, and reads all of it.
"""

import http.client
import json
import sys
import threading
import time
from collections import Counter

NAMES = "battles.csv", "battles.jsonl", "lmarena.jsonl"
PIECE = 1 << 18
GIVE_UP = 900.0  # seconds
FOLLOW = (200, 202, 429, 503)


class Clients:
    """What all of them have got: by status, how many answers; and the files' bytes."""

    def __init__(self, host: str, port: int, slug: str) -> None:
        self.address = host, port
        self.root = f"/api/v1/arenas/{slug}/exports/"
        self.statuses: Counter[int] = Counter()
        self.read, self.files, self.lock = 0, 0, threading.Lock()

    def download(self, name: str) -> None:
        path, deadline = self.root + name, time.monotonic() + GIVE_UP
        while time.monotonic() < deadline:
            status, path, wait = self.ask(path)
            if status not in FOLLOW or wait == 0.0:
                return
            time.sleep(wait)

    def ask(self, path: str) -> tuple[int, str, float]:
        """The status, where to go on, and after how many seconds; 0 if the file is here."""
        connection = http.client.HTTPConnection(*self.address, timeout=GIVE_UP)
        try:
            connection.request("GET", path, headers={"Host": "localhost"})
            answer = connection.getresponse()
            size = 0
            while piece := answer.read(PIECE):
                size += len(piece)
        except (OSError, http.client.HTTPException):
            return 0, path, 1.0
        finally:
            connection.close()
        with self.lock:
            self.statuses[answer.status] += 1
            if answer.status == http.HTTPStatus.OK:
                self.read += size
                self.files += size == int(answer.getheader("Content-Length") or -1)
                return answer.status, path, 0.0
        path = answer.getheader("Location") or path
        return answer.status, path, float(answer.getheader("Retry-After") or 1)


def main() -> None:
    """Print what was downloaded, as JSON."""
    host, port, slug, number = sys.argv[1:]
    clients = Clients(host, int(port), slug)
    threads = [
        threading.Thread(target=clients.download, args=[NAMES[i % len(NAMES)]])
        for i in range(int(number))
    ]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result = {"files": clients.files, "bytes": clients.read, "statuses": clients.statuses}
    print(json.dumps(result | {"seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main()
