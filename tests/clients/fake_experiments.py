"""A loopback Ringside with one arena, whose experiment goes as a test wants; and the command."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from clients.python.ringside_client import main
from judges.api.experiments import DRAFT, QUOTE, SHOWN
from tests.clients.fake_ringside import Asked, FakeRingside, Said, listed, problem

OLD: dict[str, Any] = {
    "id": 12,
    "name": "old",
    "version": 1,
    "system_prompt": "Be long.",
    "user_template": "Q: {{ prompt }}",
    "messages": None,
    "endpoint": "local",
    "model": "m-1",
    "parameters": {"temperature": 0},
    "retired_at": None,
}
NEW = OLD | {"id": 17, "name": "new", "version": 2, "system_prompt": "Be brief."}
PLAN = {"judges": ["x"], "side": "worse", "size": 100, "twin": None, "finds": 0.645}
PLANNED = {"registered_at": "2026-11-29T09:02:00Z"}


class FakeExperiments(FakeRingside):
    """Use as a context manager. `draft` and `fields` change the experiment at its end; `before`
    is its state when it is created, as if an earlier command had; `refused` are answers by the end
    of a path."""

    def __init__(self, draft: dict[str, Any] | None = None, **fields: Any) -> None:
        super().__init__(Said({}))
        self.experiment = SHOWN | PLAN | fields | {"drafts": [DRAFT | (draft or {})]}
        self.before = {"state": "draft", "registered_at": None, "looked_at": 0}
        self.created = 0
        self.quote: dict[str, Any] = dict(QUOTE)
        self.refused: dict[str, Said] = {}
        self.candidates = [OLD, NEW]
        self.prompts = ["p1", "p2"]
        self.answers_of: dict[int, list[dict[str, Any]]] = {}

    def sent(self, end: str) -> list[Any]:
        """The bodies of the POSTs to a path with this end."""
        return [
            asked.said
            for asked in self.asked
            if asked.method == "POST" and asked.path.split("?")[0].endswith(end)
        ]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        asked = self.asked[-1]
        path = urlsplit(asked.path).path.removeprefix("/api/v1/")
        refused = next((said for end, said in self.refused.items() if path.endswith(end)), None)
        said = refused or self._said(asked, path)
        body = json.dumps(said.body).encode()
        handler.send_response(said.status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _said(self, asked: Asked, path: str) -> Said:
        kind, _, rest = path.partition("/")
        if kind == "experiments":
            state = {"run": "running", "stop": "stopped"}.get(rest.split("/")[1])
            if rest.endswith("quote/"):
                return Said(self.quote)
            return Said(self.experiment | ({"state": state} if state else {}))
        slug, _, what = rest.partition("/")
        if what == "experiments/":
            self.created += 1
            return Said(self.experiment | self.before | {"slug": f"x-{self.created}"}, 201)
        if what.endswith("responses/") and asked.method == "POST":
            n = len(asked.said["responses"])
            return Said({"added": n, "changed": 0, "unchanged": 0, "refused": [], "missing": []})
        return self._listed(asked, what) or Said({"slug": slug, "name": "Search"})

    def _listed(self, asked: Asked, what: str) -> Said | None:
        parts = what.strip("/").split("/")
        if parts == ["candidates"]:
            [name] = parse_qs(urlsplit(asked.path).query).get("name", [""])
            return listed(*(row for row in self.candidates if name in ("", row["name"])))
        if parts[0] == "candidates" and parts[-1] == "responses":
            return listed(*self.answers_of.get(int(parts[1]), []))
        if parts[0] == "candidates":
            found = [row for row in self.candidates if str(row["id"]) == parts[1]]
            return Said(found[0]) if found else problem(404, "There is no such candidate.")
        if parts == ["prompts"]:
            rows = [{"external_id": name, "text": name.upper()} for name in self.prompts]
            return listed(*(row | {"retired_at": None} for row in rows))
        return listed({"name": "x"}) if parts == ["judges"] else None


@pytest.fixture
def prompt_file(tmp_path: Path) -> Path:
    path = tmp_path / "support.md"
    path.write_text("Be kind.\n")
    return path


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], prompt_file: Path) -> Callable[..., tuple[int, str]]:
    """Run the command, and return its exit code and what it printed. Without options, it checks a
    new prompt by a judge."""

    def run(fake: FakeExperiments, *options: str, plain: bool = False) -> tuple[int, str]:
        usual = [] if plain else [f"--system-prompt-file={prompt_file}", "--judge=x"]
        with fake:
            code = main(["check", "a", "greet", f"--url={fake.url}", *usual, *options])
        return code, capsys.readouterr().out

    return run
