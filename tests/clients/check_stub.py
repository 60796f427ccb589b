"""A client that answers as a test wants, for `ringside check`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from clients.python import ringside_client
from clients.python.ringside_client import main

OLD: dict[str, Any] = {
    "id": 12,
    "name": "old",
    "version": 1,
    "system_prompt": "Be long.",
    "user_template": "Q: {{ prompt }}",
    "endpoint": "local",
    "model": "m-1",
    "parameters": {"temperature": 0},
}
NEW = OLD | {"id": 17, "name": "new", "version": 2}
DECIDED: dict[str, Any] = {
    "sentence": "new beats old: it wins 58 % of the time (54 to 62). This result is conclusive.",
    "verdict": "better",
    "wins": 0.581,
    "wins_low": 0.54,
    "wins_high": 0.62,
    "between": 1320,
    "votes_to_go": None,
    "groups_to_go": 0,
    "computed_at": "2026-11-22T09:00:05Z",
    "up_to_date": False,
    "counted": True,
    "page": "https://arena.example/teams/search/arenas/a/?candidate=17",
}
ANSWERS = {"id": 3, "state": "done", "pause_reason": "", "wanted": 6, "done": 6, "spent": 0.11}
JUDGED = ANSWERS | {"id": 5, "closed_at": "2026-11-22T09:00:00Z", "wanted": 50, "done": 50}


@dataclass
class Stub:
    """A client of a Ringside that answers as the test wants; `done` lists its requests."""

    decided: Any = field(default_factory=lambda: dict(DECIDED))
    judged: Any = field(default_factory=lambda: dict(JUDGED))
    answers: Any = field(default_factory=lambda: dict(ANSWERS))
    there: dict[str, Any] = field(default_factory=lambda: {"old": OLD, "new": NEW})
    ensured: Any = field(default_factory=lambda: dict(NEW))
    found: Any = None
    unfit: list[Any] = field(default_factory=list)
    no_judge: Any = None
    quoted: Any = None
    done: list[tuple[Any, ...]] = field(default_factory=list)

    def arena(self, slug: str) -> Any:
        return {"slug": slug, "name": "Search"}

    def newest(self, arena: str, name: str) -> Any:
        return self.there.get(name)

    def candidate(self, arena: str, pk: int) -> Any:
        return next((one for one in self.there.values() if one["id"] == pk), None)

    def ensure_candidate(self, arena: str, name: str, **made_of: Any) -> Any:
        self.done.append(("ensure", name, made_of))
        return self.ensured

    def find_candidate(self, arena: str, name: str, **made_of: Any) -> Any:
        return self.found

    def check_answers(self, arena: str, rows: Any) -> Any:
        return self.unfit

    def upload_answers(self, arena: str, pk: int, rows: Any, *, atomic: bool) -> Any:
        self.done.append(("upload", pk, list(rows), atomic))
        return {"added": 2, "changed": 0, "unchanged": 1, "refused": [], "missing": ["p9"]}

    def generate_answers(self, arena: str, pk: int, *, cap: float | None) -> Any:
        self.done.append(("generate", pk, cap))
        return self.answers

    def wait_for_answers(self, arena: str, run: Any, *, patience: float) -> Any:
        return run

    def judges(self, arena: str, *names: str) -> Any:
        return told(self.no_judge)

    def quote_judging(self, arena: str, **order: Any) -> Any:
        self.done.append(("quote", order))
        return told(self.quoted)

    def order_judging(self, arena: str, **order: Any) -> Any:
        self.done.append(("judge", order))
        return told(self.judged)

    def wait_for_judges(self, run: int, *, patience: float) -> Any:
        return self.judged

    def wait_for_decision(self, arena: str, *pair: int, **how: Any) -> Any:
        self.done.append(("decide", pair, how))
        return told(self.decided)


def told(said: Any) -> Any:
    if isinstance(said, Exception):
        raise said
    return said


@pytest.fixture
def check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run the command with a stub, and return its exit code and what it printed."""

    def run(stub: Stub, *options: str) -> tuple[int, str]:
        monkeypatch.setattr(ringside_client, "Ringside", lambda *_, **__: stub)
        monkeypatch.setenv("RINGSIDE_TOKEN", "rs_of-a-test")
        server = "--url=https://arena.example"
        asked = ["check", server, "--arena=a", "--candidate=new", "--baseline=old", *options]
        return main(asked), capsys.readouterr().out

    return run


def decided(verdict: str) -> dict[str, Any]:
    return DECIDED | {"verdict": verdict}
