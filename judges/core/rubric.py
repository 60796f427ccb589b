"""Rubrics: folders `rubrics/<slug>/{rubric.toml,system.md,user.md[,note.md]}`, checked when loaded.

rubric.toml holds:

- `title`; `protocol`: "pairwise", "direct" (one answer on a scale) or "listwise" (three or more);
- `verdict`: "line" (a last line with a nonce) or "prometheus" (`Feedback: ... [RESULT] ...`);
- `reference`: "never" or "required"; `note`: true where the judge first writes a grading note
  about the prompt, asked for by note.md;
- `scale`: {low, high} or {labels} from worst to best, for "direct" alone; `levels`: one
  description per entry of the scale;
- `criteria`: what counts, where an arena says nothing else; `parameters`: sampling parameters.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from judges.core.facts import FactsError, read_facts
from judges.core.scales import Scale
from judges.core.templates import TemplateError, check_templates

RUBRICS = Path(__file__).resolve().parent.parent / "rubrics"
FILES = ("rubric.toml", "system.md", "user.md")
NOTE = "note.md"
Stamps = tuple[tuple[str, int, int, int], ...]


class RubricError(ValueError):
    """A rubric that cannot be used; the message says which file and why."""


@dataclass(frozen=True)
class Rubric:
    """What a judge is told. `digest` covers every byte of its files; `note` is note.md's text."""

    slug: str
    title: str
    protocol: str
    system: str
    user: str
    parameters: Mapping[str, Any]
    digest: str
    verdict: str = "line"
    reference: str = "never"
    note: str = ""
    scale: Scale | None = None
    levels: tuple[str, ...] = ()
    criteria: str = ""

    @property
    def is_prometheus(self) -> bool:
        """Is this a format that models were trained on: no nonce, no fences, its own tail?"""
        return self.verdict == "prometheus"

    @property
    def length_neutral(self) -> bool:
        """Is the judge told that length earns nothing, unless it is ordered otherwise?

        Yes, except in the Prometheus formats, whose models know their system text as it is.
        """
        return not self.is_prometheus


def rubric_slugs(folder: Path = RUBRICS) -> list[str]:
    """Return the slugs of all rubrics in `folder`."""
    return sorted(path.parent.name for path in folder.glob("*/rubric.toml"))


def load_rubric(slug: str, folder: Path = RUBRICS) -> Rubric:
    """Read and check one rubric; raises RubricError with a sentence.

    One whose files have not been touched since is not read again: every call of a judge asks.
    """
    return _as_of(slug, folder, _stamps(folder / slug))


def _stamps(folder: Path) -> Stamps:
    """Return what changes whenever a file is written, replaced or renamed; () where none is."""
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.stat()) for entry in entries]
    except OSError:
        return ()
    return tuple(sorted((name, s.st_ctime_ns, s.st_size, s.st_ino) for name, s in found))


@lru_cache(maxsize=64)
def _as_of(slug: str, folder: Path, _stamps: Stamps) -> Rubric:
    if slug not in rubric_slugs(folder):
        known = ", ".join(rubric_slugs(folder))
        raise RubricError(f"There is no rubric called {slug!r}. Known: {known}.")
    try:
        return _load(slug, folder / slug)
    except (FactsError, TemplateError) as error:
        raise RubricError(f"Rubric {slug}: {error}") from None


def _load(slug: str, folder: Path) -> Rubric:
    contents = {name: _read(folder / name) for name in FILES}
    facts = read_facts(_text(contents, "rubric.toml"))
    if facts.note:
        contents[NOTE] = _read(folder / NOTE)
    elif (folder / NOTE).exists():
        raise FactsError(f"{NOTE} is there, but rubric.toml does not say note = true.")
    # Only line ends are taken off: a format may end with a space that counts.
    texts = {name: _text(contents, name).strip("\n") for name in contents}
    check_templates(facts, texts)
    return Rubric(
        slug=slug,
        title=facts.title,
        protocol=facts.protocol,
        system=texts["system.md"],
        user=texts["user.md"],
        parameters=facts.parameters,
        digest=_digest(contents),
        verdict=facts.verdict,
        reference=facts.reference,
        note=texts.get(NOTE, ""),
        scale=facts.scale,
        levels=facts.levels,
        criteria=facts.criteria,
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FactsError(f"{path.name} cannot be read: {error.strerror}.") from None


def _text(contents: Mapping[str, bytes], name: str) -> str:
    try:
        return contents[name].decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise FactsError(f"{name} cannot be read as UTF-8: {error.reason}.") from None


def _digest(contents: Mapping[str, bytes]) -> str:
    """Return the SHA-256 over the names, lengths and bytes of a rubric's files."""
    digest = hashlib.sha256()
    for name, content in sorted(contents.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
