"""Exporting an arena to files of the native format; importing them gives the same boards.

An export contains the arena's settings, prompts, candidates, answers, and all votes with their
origin, including those that do not count. Neither email addresses nor accounts are exported: judges
and raters from an imported file keep their names, everybody else becomes "rater-<n>". An
undisclosed candidate is exported under its public name, with its votes only.
"""

import json
import re
import shutil
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from django.db.models import F, Prefetch, QuerySet
from django.utils.crypto import salted_hmac

from arena.files.copies import ARENA_FILE, EXPORT_VERSION
from arena.models import AnswerCheck, Arena, Candidate, Rater, Reason, Response, Vote, VoteChannel
from arena.models.imports import REVEALED
from arena.services.reasons import REASONS_IN_FILES
from arena.validation import in_dollars

FILES = ("prompts.jsonl", "candidates.jsonl", "responses.jsonl", "votes.jsonl")
VOTE_KEYS = {
    *("prompt", "a", "b", "outcome", "preference_a", "preference_b"),
    *("rater", "judge", "kind", "cast_at", "provenance"),
}
# A vote's origin and state; each is written unless it is the default.
PROVENANCE = ("verified", "rushed", "seconds", "uncounted", "void_reason")
HASH_LENGTH, NUMBER_BYTES = 16, 6  # of a network; numbers are shorter than hashes
COSTS = ("tokens_in", "tokens_out", "seconds")
EARLIEST = (1980, 1, 1, 0, 0, 0)  # of a zip: the same arena gives the same bytes
REASONS = {side: name for name, side in REASONS_IN_FILES.items()}
_NUMBERED = re.compile(r"rater-(\d{1,15})", re.ASCII)
# Matching one character before the @ is enough, and keeps the time linear.
_EMAIL = re.compile(r"[^@\s]@[^@\s]+\.[^@\s]")
Line = dict[str, Any]
Tick = Callable[[int], object]


class ExportError(Exception):
    """An export that was not made; the message is a sentence for people."""


def unheard(lines: int) -> None:
    """The tick of an export whose progress nobody follows."""


def export_arena(
    *, arena: Arena, target: Path, overwrite: bool = False, tick: Tick = unheard
) -> dict[str, int]:
    """Write `arena` into the folder `target`, or the file if that ends in .zip; return how many
    lines each file has. `tick` is told of every line.

    Files without lines are left out. A file appears complete or not at all. With `overwrite` the
    files of an earlier export are replaced, and everything else in the folder stays.
    """
    is_zip = target.suffix.lower() == ".zip"
    if is_zip and target.exists() and not overwrite:
        raise ExportError(f"{target} already exists. Use --overwrite to replace it.")
    if not is_zip and target.exists() and not target.is_dir():
        raise ExportError(f"{target} is not a folder.")
    if not is_zip and target.is_dir() and any(target.iterdir()) and not overwrite:
        raise ExportError(
            f"The folder {target} is not empty. Use --overwrite to replace its files."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        counts = _write_all(arena, draft, tick)
        if not counts:
            raise ExportError(f"The arena {arena.slug} is empty: there is nothing to export.")
        if is_zip:
            packed = draft / target.name
            _pack(draft, packed)
            packed.replace(target)
        else:
            _put_in_place(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return counts


def _pack(folder: Path, target: Path) -> None:
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for name in (ARENA_FILE, *FILES):
            if (folder / name).exists():
                member = ZipInfo(name, EARLIEST)
                member.compress_type = ZIP_DEFLATED
                member.external_attr = 0o644 << 16
                member.file_size = (folder / name).stat().st_size
                with (folder / name).open("rb") as file, archive.open(member, "w") as copy:
                    shutil.copyfileobj(file, copy)


def _put_in_place(draft: Path, folder: Path) -> None:
    if not folder.is_dir() or not any(folder.iterdir()):
        draft.chmod(0o755)
        draft.replace(folder)
        return
    for name in (ARENA_FILE, *FILES):
        if (draft / name).exists():
            (draft / name).replace(folder / name)
        else:
            (folder / name).unlink(missing_ok=True)


def _write_all(arena: Arena, draft: Path, tick: Tick) -> dict[str, int]:
    names = candidate_names(arena)
    # Votes first, so that everything they name still exists when the other files are written.
    lines = {
        "votes.jsonl": votes(arena, names),
        "prompts.jsonl": prompts(arena),
        "candidates.jsonl": candidates(arena, names),
        "responses.jsonl": responses(arena, names),
    }
    counts = {name: _write(draft / name, content, tick) for name, content in lines.items()}
    facts = {"ringside": EXPORT_VERSION} | {name: getattr(arena, name) for name in Arena.SETTINGS}
    if checks := [check.fields for check in ordered_checks().filter(arena=arena, prompt=None)]:
        facts["checks"] = checks
    text = json.dumps(facts, ensure_ascii=False, indent=1)
    (draft / ARENA_FILE).write_text(text + "\n", encoding="utf-8")
    return {name: counts[name] for name in FILES if counts[name]}


def _write(path: Path, lines: Iterable[Line], tick: Tick) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as stream:
        for count, line in enumerate(lines, start=1):  # noqa: B007  (the last one is returned)
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")
            tick(1)
    if not count:
        path.unlink()
    return count


def prompts(arena: Arena) -> Iterator[Line]:
    rows = arena.prompts.revealed().order_by("pk").defer("html")
    with_checks = rows.prefetch_related(Prefetch("checks", ordered_checks()))
    for prompt in with_checks.iterator(chunk_size=2000):
        line = {"id": prompt.external_id, "category": prompt.category, "text": prompt.text}
        if prompt.messages:
            line["messages"] = prompt.messages
        rest = {
            name: getattr(prompt, name) for name in ("document", "reference", "rubric", "variables")
        }
        rest |= {"retired": prompt.retired_at is not None, "showcased": prompt.in_showcase}
        rest["checks"] = [check.fields for check in prompt.checks.all()]
        yield line | {name: value for name, value in rest.items() if value}


def ordered_checks() -> QuerySet[AnswerCheck]:
    return AnswerCheck.objects.revealed().order_by("pk")


def candidates(arena: Arena, names: dict[int, str]) -> Iterator[Line]:
    # Aliases after what they are merged into, so that an import knows it.
    ordered = arena.candidates.revealed().order_by(F("merged_into").asc(nulls_first=True), "pk")
    for candidate in ordered:
        if candidate.pk not in names:
            continue  # created while the votes were written
        line: Line = {"name": names[candidate.pk]}
        if candidate.disclosed_at:
            line |= {name: getattr(candidate, name) for name in Candidate.PUBLIC_CONTENT}
        if candidate.retired_at:
            line["retired"] = True
        if into := names.get(candidate.merged_into_id):
            line["merged_into"] = into
        yield line


def responses(arena: Arena, names: dict[int, str]) -> Iterator[Line]:
    """Yield the answers of disclosed candidates."""
    disclosed = Response.objects.revealed().exclude(candidate__disclosed_at=None)
    rows = disclosed.filter(candidate__in=names).order_by("pk")
    for candidate, prompt, text, messages, cost, *rest in rows.values_list(
        "candidate_id", "prompt__external_id", "text", "messages", "cost", *COSTS
    ).iterator():
        line = {"candidate": names[candidate], "prompt": prompt, "text": text}
        if messages:
            line["messages"] = messages
        costs = dict(zip(COSTS, rest, strict=True))
        if cost is not None:
            costs["cost"] = float(in_dollars(cost))
        yield line | {name: value for name, value in costs.items() if value is not None}


def votes(arena: Arena, names: dict[int, str]) -> Iterator[Line]:
    """Yield all votes in the order in which they were cast, with their origin."""
    raters = RaterNames(arena)
    rows = arena.votes.filter(REVEALED).filter(
        comparison__left__in=names, comparison__right__in=names
    )
    rows = rows.order_by("pk").select_related("rater", "comparison__prompt")
    rows = rows.defer("comparison__prompt__text", "comparison__prompt__html")
    for vote in rows.prefetch_related("reasons").iterator(chunk_size=2000):
        if (rater := raters.of(vote.rater)) is None:
            continue  # their first vote came while this was written
        line = _vote(vote, names, rater)
        if provenance := _provenance(vote):
            line["provenance"] = provenance
        yield line


def _provenance(vote: Vote) -> Line:
    """What differs from a vote that came from a file and counts."""
    values = {name: getattr(vote, name) for name in PROVENANCE}
    values["voided_at"] = vote.voided_at and vote.voided_at.isoformat()
    values["draw_probability"] = vote.comparison.draw_probability
    if (number := network_number(vote)) is not None:
        values["network"] = str(number)
    line: Line = {name: value for name, value in values.items() if value not in ("", None, False)}
    usual = VoteChannel.FILE if vote.rater.kind == Rater.Kind.PERSON else ""
    return line if vote.channel == usual else {"channel": vote.channel, **line}


def _vote(vote: Vote, names: dict[int, str], rater: str) -> Line:
    comparison = vote.comparison
    line: Line = {
        "prompt": comparison.prompt and comparison.prompt.external_id,
        "a": names[comparison.left_id],
        "b": names[comparison.right_id],
        "outcome": vote.outcome,
        "rater": rater,
        "kind": vote.rater.kind,
        "cast_at": vote.cast_at.isoformat(),
    }
    if vote.preference is not None:
        line["preference_a"] = vote.preference
    details = vote.details if isinstance(vote.details, dict) else {}
    details = details | _reasons(vote)
    # Further fields of an imported vote, renamed if they would clash with a vote's own.
    return line | {
        f"{name}_" if name in VOTE_KEYS else name: value
        for name, value in _without_addresses(details).items()
    }


def _reasons(vote: Vote) -> Line:
    """The reasons for the vote: the tags of each side, and the comment."""
    reasons: Line = {}
    for reason in vote.reasons.all():
        if reason.side == Reason.BOTH:
            reasons["comment"] = reason.comment
        else:
            reasons.setdefault(REASONS[reason.side], []).append(reason.tag)
    return reasons


def _without_addresses(value: Any) -> Any:
    """Return `value` without any text or key, at any depth, that contains an email address."""
    if isinstance(value, dict):
        return {
            key: _without_addresses(inner)
            for key, inner in value.items()
            if not (_has_address(key) or _has_address(inner))
        }
    if isinstance(value, list):
        return [_without_addresses(inner) for inner in value if not _has_address(inner)]
    return value


def _has_address(value: Any) -> bool:
    return isinstance(value, str) and bool(_EMAIL.search(value))


def candidate_names(arena: Arena) -> dict[int, str]:
    """Return a unique name for each candidate, by id."""
    taken: set[str] = set()
    rows = arena.candidates.revealed().order_by("version", "pk")
    return {candidate.pk: _free(str(candidate), taken) for candidate in rows}


class RaterNames:
    """The names of an arena's raters, without accounts and addresses, in 8 bytes for each rater."""

    def __init__(self, arena: Arena) -> None:
        raters = Rater.objects.filter(votes__arena=arena).distinct().order_by("pk")
        self.ids, self.taken = array("q"), 0
        for rater in raters.only("kind", "arena", "name").iterator():
            self.ids.append(rater.pk)
            if _is_public(rater) and (number := _NUMBERED.fullmatch(rater.name)):
                self.taken = max(self.taken, int(number[1]))

    def of(self, rater: Rater) -> str | None:
        """The rater's own name, or else "rater-<n>", which no other has; None for a new rater."""
        index = bisect_left(self.ids, rater.pk)
        if index == len(self.ids) or self.ids[index] != rater.pk:
            return None
        return rater.name if _is_public(rater) else f"rater-{self.taken + index + 1}"


def network_number(vote: Vote) -> int | None:
    """A number for the network that a vote came from, None if it is unknown.

    It differs between arenas, and cannot be traced back. One that an import brought is kept.
    """
    network = vote.network
    if len(network) < HASH_LENGTH and network.isdecimal():
        return int(network)
    name = f"{vote.arena_id}:{network}"
    digest = salted_hmac("ringside.network", name, algorithm="sha256").digest()
    return int.from_bytes(digest[:NUMBER_BYTES]) if network else None


def _is_public(rater: Rater) -> bool:
    brought = rater.arena_id is not None or rater.kind != Rater.Kind.PERSON
    return brought and "@" not in rater.name


def _free(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    taken.add(free)
    return free
