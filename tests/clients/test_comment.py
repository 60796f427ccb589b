"""The comment on a pull request: its text, and that nobody else's text does anything in it.

The expected texts are in `comments/`; with RINGSIDE_UPDATE_COMMENTS=1 these tests write them.
"""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from clients.python.ringside_client import Outcome, comment_of, marker_of
from judges.api.experiments import DRAFT, SHOWN
from tests.clients.fake_experiments import PLAN
from tests.clients.test_check import checked

EXPECTED = Path(__file__).parent / "comments"
NO_WORSE = {"verdict": "no_worse", "win_rate": 0.54, "low": 0.47, "high": 0.62, "looked_at": 100}
NO_WORSE |= {"better": 33, "same": 43, "worse": 24, "equal": 12}
WORSE = {"verdict": "worse", "win_rate": 0.31, "low": 0.18, "high": 0.4996, "looked_at": 40}
WORSE |= {"better": 8, "same": 9, "worse": 23, "equal": 0, "no_verdict": 1}
OPEN = NO_WORSE | {"verdict": "open", "low": 0.43, "better": 60, "same": 0, "worse": 40, "lost": []}
MISSING = {"missing": {"unit": "prompts", "number": 134}}
LOST: dict[str, Any] = DRAFT["lost"][0]
REASON = "401 from the model's server: `no such key` for <b>@acme</b>"
TWIN = {"state": "done", "prompts": 20, "flips": 0, "sentence": ""}
CASES: dict[str, Outcome] = {}


def outcome(draft: dict[str, Any] | None = None, **fields: Any) -> Outcome:
    """The outcome of an experiment with this draft; `fields` of both."""
    own = {name: fields.pop(name) for name in ("state", "words", "detect") if name in fields}
    given = {"state": "done"} | own
    shown: Any = SHOWN | PLAN | fields | {"drafts": [DRAFT | (draft or {})]}
    commit = "9f3c1abd0e"
    return Outcome("support-answers", "greet-by-name", commit, experiment=shown, **given)


CASES["better"] = outcome(side="both")
CASES["worse"] = outcome(WORSE | {"lost": [LOST | {"by": "the judge"}] * 23})
CASES["no worse"] = outcome(
    NO_WORSE | {"checks": [checked(True), checked(True) | {"name": "Short", "broken": []}]},
    twin=TWIN,
)
CASES["failed check"] = outcome(NO_WORSE | {"lost": [], "checks": [checked(False, is_guard=True)]})
CASES["not decided"] = outcome(OPEN | {"claim": MISSING})
CASES["too small"] = outcome(OPEN | {"claim": MISSING}, detect=0.6)
CASES["error"] = outcome(
    {"verdict": "open", "failed": 100, "errors": [{"reason": REASON, "count": 100}]}
    | {"win_rate": None, "low": None, "high": None, "better": 0, "same": 0, "worse": 0}
    | {"equal": 0, "looked_at": 0, "cost": None, "seconds": None, "lost": []},
    state="error",
    words=f"greet-by-name has no answers: {REASON}",
)
CASES["no token"] = Outcome(
    "support-answers", "greet-by-name", "", "error", "RINGSIDE_TOKEN is not set."
)
CASES["in progress"] = Outcome("support-answers", "greet-by-name", "9f3c1abd0e")
CASES["not finished"] = outcome(
    OPEN | {"looked_at": 40}, state="unfinished", words="Interrupted.", finished_at=None
)


@pytest.mark.parametrize("name", CASES)
def test_the_comment_is_as_expected(name: str) -> None:
    path = EXPECTED / f"{name.replace(' ', '-')}.md"
    if os.environ.get("RINGSIDE_UPDATE_COMMENTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(comment_of(CASES[name]), encoding="utf-8")
    assert comment_of(CASES[name]) == path.read_text(encoding="utf-8")


EVIL = (
    "a|b @acme [x](https://evil.example) <img src=x> #12\n\n# Big `tick` \u202e --> \\| "
    "www.evil.example"
)


def test_texts_of_others_are_code() -> None:
    """In code nothing is a mention, a link or a tag, and a bar ends no cell."""
    bad = checked(False) | {"name": EVIL}
    bad["broken"] = [{"prompt_id": "p", "title": EVIL, "reason": EVIL, "page": "javascript:1"}]
    draft = WORSE | {"checks": [bad], "failed": 1, "errors": [{"reason": EVIL, "count": 1}]}
    draft["lost"] = [LOST | {"title": EVIL, "page": "https://a.example/) [x](y"}]
    found = outcome(draft, baseline={"id": 1, "name": EVIL}, words=EVIL)
    found.name = EVIL
    marker, *lines = comment_of(found).splitlines()

    assert marker == marker_of(found)
    assert marker.count("-->") == 1
    outside = [part for line in lines for part in _outside_code(line)]
    assert "acme" in "".join(lines)
    assert not [part for part in outside if "acme" in part or "evil" in part or "img" in part]
    assert not [line for line in lines if line.startswith("# Big")]
    [row] = [line for line in lines if line.startswith("| ") and "acme" in line]
    assert row.replace("\\|", "").count("|") == 5
    assert "javascript" not in "".join(lines)
    assert "(https://a.example/%29%20%5Bx%5D%28y)" in "".join(lines)


def _outside_code(line: str) -> list[str]:
    """What of a line of Markdown is not in a code span, as CommonMark reads it."""
    outside, rest = [], line
    while match := re.search(r"(?<!`)(`+)(?!`)", rest):
        outside.append(rest[: match.start()])
        rest = rest[match.end() :]
        end = re.search(rf"(?<!`){match[1]}(?!`)", rest)
        assert end is not None, line
        rest = rest[end.end() :]
    return [*outside, rest]


def test_the_same_branch_has_the_same_marker() -> None:
    first, second = outcome(WORSE), outcome(NO_WORSE)
    second.commit = "another"
    assert (
        marker_of(first) == marker_of(second) == "<!-- ringside: support-answers/greet-by-name -->"
    )
