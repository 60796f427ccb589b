"""The vote log as a file, which proves its own leaderboards without a database.

A file is JSON Lines: a header, candidates, prompts, raters, the published leaderboards, and the
links of the log, each followed by its rows. Leaderboards are made again of its votes by the
function that made the published ones.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from arena.models import Arena, Rater, Vote
from arena.outcomes import OUTCOMES
from ranking.anchor import Anchor
from ranking.leaderboard import Leaderboard, leaderboard
from ranking.log import chain, links
from ranking.log.chain import (
    RATER_KINDS,
    REASONS,
    REMOVAL_COLUMNS,
    VOTE_COLUMNS,
    ChainLink,
    Columns,
)
from ranking.models import Counted, LogLink, Snapshot, VoteLog
from ranking.models.boards import MOST_RESAMPLES
from ranking.question import Question
from ranking.results import FIELDS
from ranking.streamed_files import AT_ONCE, batches
from ranking.votes import HUMAN, Bools, Ints, VoteTable

# Files of version 1 do not say which votes verified people cast, those of 2 do not number networks.
# Those up to 3 know no documents, and their intervals were made by an earlier rule. Those of 5 have
# an anchor. Those up to 5 name a leader however few networks carry it.
VERSION, OF_DOCUMENTS = 6, 4
READABLE = range(1, VERSION + 1)
ADDS = frozenset(map(str, LogLink.ADDS))
REMOVES = frozenset(map(str, LogLink.REMOVES))
TOLERANCE = 1e-6  # of Elo and of shares: two machines may round the last digits differently
MEASURED = (
    "low",
    "high",
    "standard_error",
    "shrunk",
    "shrunk_low",
    "shrunk_high",
    "rank_low",
    "rank_high",
    "sure_rank_low",
    "sure_rank_high",
)
SENTENCES = ("reason",)  # whose words change from version to version
NOT_FROM_VOTES = {"style", "combined", "capped"}  # findings that need texts, trust, or raters' ids
CLAIMED = {"claimed_leader", "claimed_ahead", "provisional", "is_under_review"}  # since version 6
# Whom a leaderboard names while votes are under review: the file does not say whose they are.
UNDER_REVIEW = {"is_under_review", "leader", "ahead", "tiers", "neighbours"}
FIRST_PLACE = {"sure_rank_low", "sure_rank_high"}
Line = dict[str, Any]


class LogFileError(ValueError):
    """A file that is not a log; the message is a sentence for people."""


def write_lines(arena: Arena) -> Iterator[Line]:
    """Yield the lines of the arena's file: no texts, and no names of people or networks."""
    current = Snapshot.objects.current().filter(board__arena=arena, settings__has_key="log")
    current = current.exclude(board__raters=Counted.COMBINED).select_related("board")
    ordered = current.order_by("board__raters", "board__category")
    # A refresh may delete what was current a moment ago; such a leaderboard is left out.
    snapshots = [one for one in ordered.prefetch_related("standings") if one.standings.all()]
    numbers = _rater_numbers(arena)
    places = {pk: place for place, pk in enumerate(numbers, start=1)}
    boards = list(_leaderboard_lines(arena, snapshots, places))
    newest = LogLink.objects.filter(arena=arena).order_by("-number").values_list("number").first()
    last = newest[0] if newest else 0
    yield {
        "type": "log",
        "version": VERSION,
        "arena": {"id": arena.pk, "slug": arena.slug, "name": arena.name},
        "key": links.signer().public,
        "links": last,
    }
    for candidate in arena.candidates.revealed().order_by("pk"):
        yield {"type": "candidate", "id": candidate.pk, "name": str(candidate)}
    prompts = arena.prompts.revealed().order_by("pk")
    numbers_of: dict[str, int] = {"": 0}  # of documents, whose names may be secret
    rows = prompts.values_list("pk", "external_id", "category", "document")
    for pk, name, category, document in rows.iterator():
        number = numbers_of.setdefault(document, len(numbers_of))
        line = {"type": "prompt", "id": pk, "name": name, "category": category}
        yield line | {"document": number}
    for place, number in enumerate(numbers.values(), start=1):
        groups = {"group": place, "verified_group": place}
        yield {"type": "rater", "rater": _hex(number), "place": place} | groups
    yield from boards
    yield from _link_lines(arena, last)


def _leaderboard_lines(
    arena: Arena, snapshots: Iterable[Snapshot], places: Mapping[int, int]
) -> Iterator[Line]:
    """Leaderboards that depend on nothing but votes."""
    for snapshot in snapshots:
        board = snapshot.board
        yield {
            "type": "leaderboard",
            "raters": board.raters,
            "category": board.category,
            "published_at": snapshot.published_at.isoformat(),
            "settings": {
                name: snapshot.settings[name] for name in ("both_bad", "n_resamples", "seed")
            },
            "rater_share": arena.rater_cap / 100 if board.raters in HUMAN else 1.0,
            "network_share": snapshot.settings.get("network_share", 1.0),
            "is_open": snapshot.settings.get("is_open", False),
            "anchor": asdict(snapshot.anchor) if snapshot.anchor else None,
            "shared_groups": 0,
            "capped": [
                [places[rater], weight] for rater, weight in snapshot.findings.get("capped", [])
            ],
            "capped_at": snapshot.settings.get("capped_at", 1.0),
            "head": snapshot.settings["log"],
            "intervals_are_current": snapshot.measured_digest == snapshot.digest,
            "n_votes": snapshot.n_votes,
            "n_both_bad": snapshot.n_both_bad,
            "findings": {
                name: value
                for name, value in snapshot.findings.items()
                if name not in NOT_FROM_VOTES
            },
            "merged": snapshot.settings.get("merged", []),
            "standings": [
                {"candidate": row.candidate_id} | {name: getattr(row, name) for name in FIELDS}
                for row in sorted(snapshot.standings.all(), key=lambda row: row.candidate_id)
            ],
        }


def _rater_numbers(arena: Arena) -> dict[int, int]:
    """Each rater's number in the log. Intervals depend on the order, which is that of the ids."""
    log = VoteLog.objects.filter(arena=arena).first()
    if log is None:
        return {}
    ids = Rater.objects.filter(votes__arena=arena).order_by("pk").distinct()
    raters = np.array(list(ids.values_list("pk", flat=True)), np.int64)
    numbers = chain.rater_numbers(raters, arena.pk, bytes(log.salt))
    return dict(zip(raters.tolist(), numbers.tolist(), strict=True))


def _link_lines(arena: Arena, last: int) -> Iterator[Line]:
    removed = _last_removals(arena, last)
    numbers: dict[str, int] = {}  # of networks, in the order in which they appear
    rows_of_log = LogLink.objects.filter(arena=arena, number__lte=last).order_by("number")
    number = 0
    while row := rows_of_log.filter(number__gt=number).first():
        number = row.number
        yield {"type": "link"} | asdict(links.link_of(row))
        columns = links.rows_of(row) if row.n_rows else {}
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        if row.kind in REMOVES:
            for pk, at, reason in rows:
                yield {"type": "removal", "id": pk, "at": _iso_time(at), "reason": REASONS[reason]}
            continue
        for votes in batches(rows, AT_ONCE):
            networks, proven = _read_origins([pk for pk, *_ in votes])
            for pk, *values in votes:
                network = networks.get(pk)
                yield _vote_line(pk, *values) | {
                    "verified": pk in proven,
                    "network": network and numbers.setdefault(network, len(numbers)),
                    "counts": removed.get(pk, 0) < number,
                }


def _read_origins(ids: list[int]) -> tuple[dict[int, str], set[int]]:
    """The networks of those votes that are unverified, and the votes that are verified."""
    votes = Vote.objects.filter(pk__in=ids)
    networks = dict(votes.of_networks().values_list("pk", "network"))
    return networks, set(votes.filter(verified=True).values_list("pk", flat=True))


def _last_removals(arena: Arena, last: int) -> dict[int, int]:
    """For each vote that was removed or repeated, the last link that did so."""
    kinds = (*REMOVES, LogLink.Kind.RELEASED, LogLink.Kind.REPAIR)
    rows = LogLink.objects.filter(arena=arena, number__lte=last, kind__in=kinds, n_rows__gt=0)
    latest: dict[int, int] = {}
    for row in rows.order_by("number").iterator(chunk_size=1):
        step = 0 if row.kind in REMOVES else -1  # a vote counts in the last link that repeats it
        latest |= dict.fromkeys(links.rows_of(row)["id"].tolist(), row.number + step)
    return latest


def _vote_line(
    pk: int,
    comparison: int,
    prompt: int,
    left: int,
    right: int,
    rater: int,
    rater_kind: int,
    outcome: int,
    preference: int,
    cast_at: int,
) -> Line:
    soft = float(chain.preferences(np.array([preference]))[0])
    return {
        "type": "vote",
        "id": pk,
        "comparison": comparison,
        "prompt": prompt or None,
        "left": left,
        "right": right,
        "rater": _hex(rater),
        "rater_kind": RATER_KINDS[rater_kind],
        "outcome": OUTCOMES[outcome],
        "preference": None if preference == chain.NO_PREFERENCE else soft,
        "cast_at": _iso_time(cast_at),
    }


def _iso_time(microseconds: int) -> str:
    time = links.EPOCH + timedelta(microseconds=microseconds)
    return time.isoformat(timespec="microseconds")


def _hex(number: int) -> str:
    return f"{number % (1 << 64):016x}"


@dataclass
class LogFile:
    """The content of a file. `events` are the rows of all links: the columns of votes, and beside
    them `link`, `adds`, `counts`, `verified` and `network`."""

    arena: Mapping[str, Any]
    key: str
    n_links: int
    candidates: dict[int, str] = field(default_factory=dict)
    version: int = VERSION
    categories: dict[int, str] = field(default_factory=dict)
    documents: dict[int, int] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    boards: list[Line] = field(default_factory=list)
    links: list[ChainLink] = field(default_factory=list)
    events: dict[str, list[Ints]] = field(default_factory=lambda: defaultdict(list))
    faults: list[str] = field(default_factory=list)


def read_log(path: Path) -> LogFile:
    """Read a file, and compare each link with its rows. Raises LogFileError."""
    with path.open(encoding="utf-8") as stream:
        return _read_lines(_parse_lines(stream))


def _read_lines(lines: Iterator[Line]) -> LogFile:
    head = next(lines, {})
    if head.get("type") != "log" or head.get("version") not in READABLE:
        raise LogFileError("This file is not a vote log that this version can read.")
    file = LogFile(head["arena"], head["key"], head["links"], version=head["version"])
    rows: list[Line] = []
    try:
        for line in lines:
            if line["type"] in ("vote", "removal"):
                rows.append(line)
                continue
            _end_link(file, rows)
            rows = []
            kind = line.pop("type")
            if kind == "candidate":
                file.candidates[line["id"]] = line["name"]
            elif kind == "prompt":
                file.categories[line["id"]] = line["category"]
                file.documents[line["id"]] = line.get("document", 0)
            elif kind == "rater":
                file.places[_number(line["rater"])] = line["place"]
            elif kind == "leaderboard":
                board = line | {"raters": Counted(line["raters"])}
                file.boards.append(board | {"by_earlier_rule": file.version < OF_DOCUMENTS})
            elif kind == "link":
                file.links.append(ChainLink(**line))
        _end_link(file, rows)
    except (KeyError, TypeError, ValueError) as error:
        lacks = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise LogFileError(
            f"After link {len(file.links)}, a line is damaged or a link is missing: {lacks}."
        ) from error
    return file


def _parse_lines(stream: Iterable[str]) -> Iterator[Line]:
    for number, text in enumerate(stream, start=1):
        try:
            line = json.loads(text)
        except ValueError:
            raise LogFileError(f"Line {number} is not JSON.") from None
        if not isinstance(line, dict) or "type" not in line:
            raise LogFileError(f"Line {number} is not a line of a log.")
        yield line


def _end_link(file: LogFile, rows: list[Line]) -> None:
    """Compare the rows read since the last link with it, and keep them."""
    if not file.links or (not rows and not file.links[-1].n_rows):
        return
    link = file.links[-1]
    columns = _removal_columns(rows) if link.kind in REMOVES else _vote_columns(rows)
    content = chain.to_bytes(columns, list(columns))
    if chain.digest_of(content) != link.digest_of_rows:
        file.faults.append(f"The rows of link {link.number} differ from those that were signed.")
    for name in VOTE_COLUMNS:
        file.events[name].append(columns.get(name, np.zeros(len(rows), np.int64)))
    file.events["link"].append(np.full(len(rows), link.number))
    file.events["adds"].append(np.full(len(rows), int(link.kind in ADDS)))
    for name in ("counts", "verified"):
        file.events[name].append(np.array([int(row.get(name, False)) for row in rows]))
    networks = [row.get("network") for row in rows]
    numbers = [0 if number is None else number + 1 for number in networks]
    file.events["network"].append(np.array(numbers, np.int64))


def _vote_columns(rows: list[Line]) -> Columns:
    soft = [np.nan if row["preference"] is None else row["preference"] for row in rows]
    values = {
        "prompt": [row["prompt"] or 0 for row in rows],
        "rater": [_number(row["rater"]) for row in rows],
        "rater_kind": [RATER_KINDS.index(row["rater_kind"]) for row in rows],
        "outcome": [OUTCOMES.index(row["outcome"]) for row in rows],
        "preference": chain.preference_bits(np.array(soft, np.float64)),
        "cast_at": links.microseconds(datetime.fromisoformat(row["cast_at"]) for row in rows),
    }
    return {
        name: np.array(values.get(name, [row.get(name) for row in rows]), np.int64)
        for name in VOTE_COLUMNS
    }


def _removal_columns(rows: list[Line]) -> Columns:
    values = (
        [row["id"] for row in rows],
        links.microseconds(datetime.fromisoformat(row["at"]) for row in rows),
        [REASONS.index(row["reason"]) for row in rows],
    )
    columns = zip(REMOVAL_COLUMNS, values, strict=True)
    return {name: np.array(column, np.int64) for name, column in columns}


def _number(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text), "big", signed=True)


@dataclass(frozen=True)
class CheckedBoard:
    """A published leaderboard, and how much it differs from the one computed from its votes."""

    line: Line
    standings: list[Line]
    faults: list[str]
    n_numbers: int


def check_log(file: LogFile, key: str | None = None) -> list[str]:
    """Return a sentence for each fault; `key`: the public key that must have signed the log."""
    broken = chain.check_links(file.arena["id"], file.links, key or file.key)
    faults = [*broken, *file.faults]
    if len(file.links) != file.n_links:
        faults.append(f"The file has {len(file.links):,} of {file.n_links:,} links.")
    heads = {link.number: link.head() for link in file.links}
    for board in file.boards:
        if heads.get(board["head"]["number"]) != board["head"]:
            faults.append(f"{board_name(board)}: its head is not in the log.")
    wrong = int((counted_rows(file, file.n_links) != (_event(file, "counts") > 0)).sum())
    if wrong:
        faults.append(f"{wrong:,} votes are marked as counted or not, contrary to the log.")
    return faults


def board_name(board: Line) -> str:
    return f"{Counted(board['raters']).label}, {board['category'] or 'all categories'}"


def _event(file: LogFile, name: str) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *file.events[name]])


def counted_rows(file: LogFile, until: int) -> Bools:
    """(N,) mask of the rows that are the last about their vote up to this link, and add it."""
    ids, links, adds = (_event(file, name) for name in ("id", "link", "adds"))
    order = np.lexsort([links, ids])
    order = order[links[order] <= until]
    is_last = np.append(ids[order][1:] != ids[order][:-1], True)[: len(order)]
    mask = np.zeros(len(ids), np.bool_)
    mask[order[is_last]] = adds[order[is_last]] > 0
    return mask


def votes_at(file: LogFile, until: int) -> VoteTable:
    """The votes that count after a link, in the order of their ids; raters are their places."""
    chosen = np.flatnonzero(counted_rows(file, until))
    chosen = chosen[np.argsort(_event(file, "id")[chosen])]
    columns = {name: _event(file, name)[chosen] for name in (*VOTE_COLUMNS, "verified", "network")}
    raters, at = np.unique(columns["rater"], return_inverse=True)
    places = np.array([file.places[number] for number in raters.tolist()], np.int64)
    return VoteTable(
        pk=columns["id"],
        left=columns["left"],
        right=columns["right"],
        prompt=columns["prompt"],
        rater=places[at],
        outcome=columns["outcome"],
        preference=chain.preferences(columns["preference"]),
        kind=columns["rater_kind"],
        verified=columns["verified"] > 0,
        network=columns["network"],
        uncounted=np.zeros(len(chosen), np.int64),
        named=np.zeros(len(chosen), np.bool_),
        names=file.candidates,
        categories=file.categories,
        documents={pk: number for pk, number in file.documents.items() if number},
    )


def check_board(file: LogFile, line: Line) -> CheckedBoard:
    """Make a published leaderboard again. Raises NotConvergedError and CrossCheckError."""
    question = Question(
        raters=line["raters"],
        category=line["category"],
        rater_share=line["rater_share"],
        network_share=line.get("network_share", 1.0),
        is_open=line.get("is_open", False),
        anchor=Anchor(**anchor) if (anchor := line.get("anchor")) else None,
        **line["settings"],
    )
    if question.n_resamples > MOST_RESAMPLES:
        raise LogFileError(
            f"A leaderboard has {question.n_resamples:,} bootstrap replicates; at most "
            f"{MOST_RESAMPLES:,} are checked."
        )
    # Candidates may have been archived, or have entered, since it was published.
    ids = [row["candidate"] for row in line["standings"]]
    votes = replace(
        votes_at(file, line["head"]["number"]),
        names={pk: file.candidates.get(pk, "") for pk in ids},
        archived=frozenset(line["findings"].get("archived", ())),
    )
    votes = votes.merge(dict(line.get("merged", ())))
    return _compare_board(line, leaderboard(votes, question))


def has_checked_intervals(line: Line) -> bool:
    """Whether the intervals are those of the votes, by today's rule."""
    return bool(line["intervals_are_current"] and not line["by_earlier_rule"])


def is_under_review(line: Line) -> bool:
    return bool(line["findings"].get("is_under_review"))


def _compare_board(line: Line, made: Leaderboard) -> CheckedBoard:
    is_current = has_checked_intervals(line)
    unchecked = set(() if is_current else MEASURED)
    unchecked |= set(SENTENCES if line["by_earlier_rule"] else ())
    unchecked |= FIRST_PLACE if is_under_review(line) else set()
    names = [name for name in FIELDS if name not in unchecked]
    standings = [
        {"candidate": row.candidate_id} | {name: getattr(row, name) for name in FIELDS}
        for row in made.rows
    ]
    faults, n_numbers = [], 2 + len(standings) * len(names)
    for published, row in zip(line["standings"], standings, strict=True):
        faults += [
            f"candidate {row['candidate']}: {name} is {published[name]}, but its votes give "
            f"{row[name]}"
            for name in names
            if not _same(published[name], row[name])
        ]
    faults += [
        f"{name} is {line[name]}, but the votes give {made.fields[name]}"
        for name in ("n_votes", "n_both_bad")
        if line[name] != made.fields[name]
    ]
    if is_current:
        found = json.loads(json.dumps(made.findings))
        findings = line["findings"] | {"capped": line["capped"]}
        unnamed = {"style"} | (UNDER_REVIEW if is_under_review(line) else set())
        unnamed |= CLAIMED - findings.keys()
        n_numbers += len(findings.keys() - unnamed)
        faults += [
            f"the finding “{name}” does not match the votes"
            for name in sorted((findings.keys() | found.keys()) - unnamed)
            if not _same(findings.get(name), found.get(name))
        ]
    return CheckedBoard(line, standings, faults, n_numbers)


def _same(published: Any, made: Any) -> bool:
    if isinstance(published, dict) and isinstance(made, dict):
        return published.keys() == made.keys() and all(
            _same(value, made[name]) for name, value in published.items()
        )
    if isinstance(published, list) and isinstance(made, list):
        pairs = zip(published, made, strict=False)
        return len(published) == len(made) and all(_same(first, second) for first, second in pairs)
    if isinstance(published, float) or isinstance(made, float):
        return None not in (published, made) and abs(published - made) <= TOLERANCE
    return bool(published == made)


def as_jsonl(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        yield json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"
