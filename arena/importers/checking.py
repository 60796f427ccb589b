"""What makes a row wrong that is fine by itself: names used twice, names that nobody has.

No database: the service says what the arena knows already, and this remembers what the files add.
"""

import hashlib
import json
from dataclasses import dataclass, field

from arena.importers.base import (
    BadRow,
    CandidateRecord,
    PromptRecord,
    Record,
    ResponseRecord,
    VoteRecord,
    shown,
)


@dataclass
class Known:
    """What an arena has: digests of content, by name. Responses by candidate and prompt."""

    prompts: dict[str, bytes] = field(default_factory=dict)
    candidates: dict[str, bytes] = field(default_factory=dict)
    responses: dict[tuple[str, str], bytes] = field(default_factory=dict)


def digest(*content: object) -> bytes:
    """Return 16 bytes that differ where the content differs."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def content_of(record: PromptRecord | CandidateRecord | ResponseRecord) -> bytes:
    """Return the digest of everything but the name."""
    if isinstance(record, PromptRecord):
        return digest(
            record.category, record.text, record.reference, record.rubric, record.variables
        )
    if isinstance(record, CandidateRecord):
        return digest(
            record.model,
            record.variant,
            record.system_prompt,
            record.user_template,
            record.notes,
            record.parameters,
        )
    return digest(record.text)


class Checker:
    """Checks records in the order in which they would be written."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.new_prompts: set[str] = set()
        self.new_candidates: set[str] = set()
        # Numbers stand for the names: there are as many answers as prompts times candidates.
        self.numbers: dict[tuple[str, str], int] = {}
        self.answered: set[tuple[int, int]] = set()

    def check(self, record: Record) -> None:
        """Raise BadRow where `record` contradicts the arena or an earlier row."""
        if isinstance(record, VoteRecord):
            self._vote(record)
        elif isinstance(record, ResponseRecord):
            self._response(record)
        elif isinstance(record, PromptRecord):
            self._prompt(record)
        else:
            self._candidate(record)

    def _prompt(self, record: PromptRecord) -> None:
        name = record.external_id
        _refuse_twice("id", name, self.new_prompts)
        _refuse_other("id", name, self.known.prompts.get(name), content_of(record))
        self.new_prompts.add(name)

    def _candidate(self, record: CandidateRecord) -> None:
        _refuse_twice("name", record.name, self.new_candidates)
        known = self.known.candidates.get(record.name)
        _refuse_other("name", record.name, known, content_of(record))
        self.new_candidates.add(record.name)

    def _response(self, record: ResponseRecord) -> None:
        self._must_have("candidate", record.candidate)
        self._must_have("prompt", record.prompt)
        key = (
            self._number("candidate", record.candidate),
            self._number("prompt", record.prompt),
        )
        if key in self.answered:
            raise BadRow("candidate", f"{shown(record.candidate)} has answered this prompt before")
        known = self.known.responses.get((record.candidate, record.prompt))
        if known is not None and known != content_of(record):
            raise BadRow("text", "differs from this candidate's answer in the arena")
        self.answered.add(key)

    def _number(self, kind: str, name: str) -> int:
        return self.numbers.setdefault((kind, name), len(self.numbers))

    def _vote(self, record: VoteRecord) -> None:
        if record.left == record.right:
            column = "right" if record.makes_names else "b"
            raise BadRow(column, f"{shown(record.right)} stands against itself")
        if record.makes_names:
            return
        self._must_have("a", record.left, "candidate")
        self._must_have("b", record.right, "candidate")
        if record.prompt is not None:
            self._must_have("prompt", record.prompt)

    def _must_have(self, column: str, name: str, kind: str = "") -> None:
        kind = kind or column
        if kind == "prompt":
            found = name in self.new_prompts or name in self.known.prompts
        else:
            found = name in self.new_candidates or name in self.known.candidates
        if not found:
            raise BadRow(column, f"there is no {kind} {shown(name)}")


def _refuse_twice(column: str, name: str, seen: set[str]) -> None:
    if name in seen:
        raise BadRow(column, f"{shown(name)} stands in an earlier row already")


def _refuse_other(column: str, name: str, known: bytes | None, content: bytes) -> None:
    if known is not None and known != content:
        raise BadRow(column, f"{shown(name)} is in the arena already, with other content")
