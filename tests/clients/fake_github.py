"""A loopback server that answers like GitHub's REST API for a pull request's comments: lists in
pages with a Link header, creates, edits, and refuses with 403 a token that may not write."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

REPOSITORY = "acme/prompts"
A_PAGE = 2  # comments; fewer than asked for, so that there are several pages
REFUSED = {
    "message": "Resource not accessible by integration",
    "documentation_url": "https://docs.github.com/rest/issues/comments#create-an-issue-comment",
    "status": "403",
}
BOT = {"login": "github-actions[bot]", "id": 41898282, "type": "Bot"}
PERSON = {"login": "octocat", "id": 1, "type": "User"}


class FakeGitHub:
    """Use as a context manager. `comments` are the pull request's; `asked` its requests."""

    def __init__(self, *, writes: bool = True) -> None:
        self.writes = writes
        self.comments: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str]] = []
        self.tokens: set[str] = set()
        self.edits: list[str] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def answer_any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length) or "{}")
                fake.asked.append((self.command, self.path))
                fake.tokens.add(self.headers.get("Authorization", ""))
                status, said, link = fake.answer(self.command, self.path, body)
                sent = json.dumps(said).encode()
                self.send_response(status)
                if link:
                    self.send_header("Link", link)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def do_GET(self) -> None:
                self.answer_any()

            def do_POST(self) -> None:
                self.answer_any()

            def do_PATCH(self) -> None:
                self.answer_any()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any, str]:
        parts = urlsplit(path)
        base = f"/repos/{REPOSITORY}/issues"
        if method == "GET" and parts.path == f"{base}/7/comments":
            page = int(parse_qs(parts.query).get("page", ["1"])[0])
            shown = self.comments[A_PAGE * (page - 1) : A_PAGE * page]
            last = -(-len(self.comments) // A_PAGE)
            next_page = f"{self.url}{parts.path}?per_page=100&page={page + 1}"
            link = f'<{next_page}>; rel="next", <{self.url}{parts.path}?page={last}>; rel="last"'
            return 200, shown, link if page < last else ""
        if not self.writes:
            return 403, REFUSED, ""
        if method == "POST" and parts.path == f"{base}/7/comments":
            return 201, self.add(body["body"], BOT), ""
        found = [row for row in self.comments if parts.path == f"{base}/comments/{row['id']}"]
        if method == "PATCH" and found:
            found[0]["body"] = body["body"]
            self.edits.append(body["body"])
            return 200, found[0], ""
        return 404, {"message": "Not Found", "status": "404"}, ""

    def add(self, body: str, user: dict[str, Any]) -> dict[str, Any]:
        comment = {"id": 1000 + len(self.comments), "body": body, "user": user}
        self.comments.append(comment)
        return comment

    @property
    def own(self) -> list[str]:
        return [row["body"] for row in self.comments if row["user"] is BOT]

    def environment(self, folder: Path, *, fork: bool = False) -> dict[str, str]:
        """What a runner sets for the workflow of pull request 7."""
        source = "stranger/prompts" if fork else REPOSITORY
        event = {
            "action": "synchronize",
            "number": 7,
            "pull_request": {
                "number": 7,
                "head": {"sha": "9f3c1abd0e", "repo": {"full_name": source, "fork": fork}},
                "base": {"sha": "0000000000", "repo": {"full_name": REPOSITORY, "fork": False}},
            },
        }
        (folder / "event.json").write_text(json.dumps(event))
        return {
            "GITHUB_API_URL": self.url,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "GITHUB_TOKEN": "ghs_of-a-test",
        }

    def __enter__(self) -> "FakeGitHub":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
