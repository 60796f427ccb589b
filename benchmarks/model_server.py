"""`python -m benchmarks.model_server SECONDS`: a judge on loopback that takes SECONDS to answer.

It prints the base URL for OpenAI-compatible clients, and answers until its input is closed.
"""

import sys
from zlib import crc32

from tests.judges.fake_server import FakeServer, after, better_is

LETTERS = ("A", "B", "TIE")


def main() -> None:
    seconds = float(sys.argv[1])
    with FakeServer() as server:
        # Chosen by what is sent: about a third of the pairs are judged alike in both orders.
        answers = [after(seconds, better_is(letter)) for letter in LETTERS]
        server.otherwise = lambda body: answers[crc32(repr(body).encode()) % len(answers)](body)
        print(server.base_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
