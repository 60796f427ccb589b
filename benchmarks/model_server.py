"""`python -m benchmarks.model_server SECONDS`: a judge on loopback that thinks for so long.

It prints the address for clients of OpenAI's format, and answers until its input is closed.
"""

import sys

from tests.judges.fake_server import FakeServer, after, better_is, nonce_of

LETTERS = ("A", "B", "TIE")


def main() -> None:
    seconds = float(sys.argv[1])
    with FakeServer() as server:
        # By the nonce, which is drawn: about a third of the pairs are judged alike in both orders.
        answers = [after(seconds, better_is(letter)) for letter in LETTERS]
        server.otherwise = lambda body: answers[int(nonce_of(body), 16) % len(answers)](body)
        print(server.base_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
