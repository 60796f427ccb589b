"""Rubrics: folders `rubrics/<slug>/{rubric.toml,system.md,user.md}`, checked when loaded."""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUBRICS = Path(__file__).resolve().parent.parent / "rubrics"
FILES = ("rubric.toml", "system.md", "user.md")
PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
REQUIRED = {"pairwise": {"prompt", "answer_a", "answer_b", "nonce"}}
ALLOWED = {"pairwise": REQUIRED["pairwise"] | {"question"}}
KEYS = {"title", "protocol", "parameters"}
PARAMETERS = {
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "reasoning_effort",
}


class RubricError(ValueError):
    """A rubric that cannot be used; the message says which file and why."""


@dataclass(frozen=True)
class Rubric:
    """What a judge is told. `digest` covers every byte of its files."""

    slug: str
    title: str
    protocol: str
    system: str
    user: str
    parameters: Mapping[str, Any]
    digest: str


def rubric_slugs(folder: Path = RUBRICS) -> list[str]:
    """Return the slugs of all rubrics in `folder`."""
    return sorted(path.parent.name for path in folder.glob("*/rubric.toml"))


def load_rubric(slug: str, folder: Path = RUBRICS) -> Rubric:
    """Read and check one rubric; raises RubricError with a sentence."""
    if slug not in rubric_slugs(folder):
        known = ", ".join(rubric_slugs(folder))
        raise RubricError(f"There is no rubric called {slug!r}. Known: {known}.")
    contents = {name: _read(folder / slug / name, slug) for name in FILES}
    facts = _facts(slug, contents["rubric.toml"])
    rubric = Rubric(
        slug=slug,
        title=facts["title"],
        protocol=facts["protocol"],
        system=contents["system.md"].strip(),
        user=contents["user.md"].strip(),
        parameters=facts.get("parameters", {}),
        digest=_digest(contents),
    )
    _check_placeholders(rubric)
    return rubric


def _read(path: Path, slug: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RubricError(f"Rubric {slug}: {path.name} cannot be read: {error}") from None


def _facts(slug: str, text: str) -> dict[str, Any]:
    try:
        facts = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RubricError(f"Rubric {slug}: rubric.toml is not TOML: {error}") from None
    if missing := {"title", "protocol"} - facts.keys():
        raise RubricError(f"Rubric {slug}: rubric.toml lacks {_names(missing)}.")
    if unknown := facts.keys() - KEYS:
        raise RubricError(f"Rubric {slug}: rubric.toml has unknown {_names(unknown)}.")
    if facts["protocol"] not in REQUIRED:
        raise RubricError(f"Rubric {slug}: unknown protocol {facts['protocol']!r}.")
    if unknown := facts.get("parameters", {}).keys() - PARAMETERS:
        raise RubricError(f"Rubric {slug}: unknown parameters {_names(unknown)}.")
    return facts


def _check_placeholders(rubric: Rubric) -> None:
    used = set(PLACEHOLDER.findall(f"{rubric.system}\n{rubric.user}"))
    if unknown := used - ALLOWED[rubric.protocol]:
        raise RubricError(f"Rubric {rubric.slug}: unknown placeholders {_names(unknown)}.")
    if missing := REQUIRED[rubric.protocol] - used:
        raise RubricError(f"Rubric {rubric.slug}: missing placeholders {_names(missing)}.")


def _digest(contents: Mapping[str, str]) -> str:
    whole = "\x1f".join(f"{name}\x1e{contents[name]}" for name in FILES)
    return hashlib.sha256(whole.encode()).hexdigest()


def _names(names: set[str]) -> str:
    return ", ".join(sorted(names))
