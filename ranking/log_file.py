"""The vote log as a file, which proves its own leaderboards without a database.

A file is JSON Lines: a header, candidates, prompts, raters, the published leaderboards, and the
links of the log, each followed by its rows. Leaderboards are fitted again by the same code that
published them.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TextIO

import numpy as np
from django.utils import timezone

from arena.models import Arena, Rater, Vote
from arena.outcomes import OUTCOMES
from ranking import vote_log
from ranking.exports import AT_ONCE, batches
from ranking.models import Board, Counted, LogLink, RaterTally, Snapshot, VoteLog
from ranking.models.boards import MOST_RESAMPLES
from ranking.results import FIELDS
from ranking.services import intervals
from ranking.services import vote_log as log_service
from ranking.services.elo import START, advance
from ranking.services.evidence import BoardEvidence
from ranking.services.fit import compose, fit
from ranking.tallies import NOBODY, CappedRaters, VoteCounts
from ranking.vote_log import RATER_KINDS, REASONS, REMOVAL_COLUMNS, VOTE_COLUMNS, ChainLink, Columns
from ranking.tallied_votes import HUMAN, Ints, Votes

VERSION = 3
# Files of version 1 do not say which votes verified people cast, those of 2 do not number networks.
READABLE = (1, 2, VERSION)
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
NOT_FROM_VOTES = {"style", "combined", "capped"}  # findings that need texts, trust, or raters' ids
NO_NETWORK = -1
Line = dict[str, Any]


class LogFileError(ValueError):
    """A file that is not a log; the message is a sentence for people."""


# -- Writing ---------------------------------------------------------------------------------------


def write_lines(arena: Arena) -> Iterator[Line]:
    """Yield the lines of the arena's file: no texts, and no names of people or networks."""
    raters, groups = _raters(arena)
    boards = list(_published(arena, groups))
    newest = LogLink.objects.filter(arena=arena).order_by("-number").values_list("number").first()
    last = newest[0] if newest else 0
    yield {
        "type": "log",
        "version": VERSION,
        "arena": {"id": arena.pk, "slug": arena.slug, "name": arena.name},
        "key": log_service.signer().public,
        "links": last,
    }
    for candidate in arena.candidates.revealed().order_by("pk"):
        yield {"type": "candidate", "id": candidate.pk, "name": str(candidate)}
    prompts = arena.prompts.revealed().order_by("pk").values_list("pk", "external_id", "category")
    for pk, name, category in prompts.iterator():
        yield {"type": "prompt", "id": pk, "name": name, "category": category}
    yield from raters
    yield from boards
    yield from _link_lines(arena, last)


def _published(arena: Arena, groups_of: Mapping[str, Mapping[int, int]]) -> Iterator[Line]:
    """The current leaderboards that depend on nothing but votes."""
    current = Snapshot.objects.current().filter(board__arena=arena, settings__has_key="log")
    current = current.exclude(board__raters=Counted.COMBINED)
    for snapshot in current.select_related("board").order_by("board__raters", "board__category"):
        board = snapshot.board
        groups = groups_of.get(board.raters, {})
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
            "shared_groups": sum(member < 0 for member in groups),
            "capped": [
                [groups[member], weight] for member, weight in snapshot.findings.get("capped", [])
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
            "standings": [
                {"candidate": row.candidate_id} | {name: getattr(row, name) for name in FIELDS}
                for row in snapshot.standings.order_by("candidate")
            ],
        }


def _raters(arena: Arena) -> tuple[list[Line], dict[str, dict[int, int]]]:
    """Each rater's number in the log, place among all raters, and groups when raters are grouped:
    among all people, and among verified ones.

    Places and groups are in the order of ids, which intervals depend on. The second result numbers
    the members of tallies per rater in the same way.
    """
    log = VoteLog.objects.filter(arena=arena).first()
    if log is None:
        return [], {}
    ids = Rater.objects.filter(votes__arena=arena).order_by("pk").distinct()
    raters = np.array(list(ids.values_list("pk", flat=True)), np.int64)
    numbers = vote_log.rater_numbers(raters, arena.pk, bytes(log.salt))
    members_of = {who: _members(arena, raters, who) for who in HUMAN}
    distinct = {who: np.unique(members) for who, members in members_of.items()}
    groups = [np.searchsorted(distinct[who], members_of[who]) + 1 for who in HUMAN]
    rows = zip(numbers.tolist(), *(column.tolist() for column in groups), strict=True)
    lines = [
        {"type": "rater", "rater": _hex(number), "place": place}
        | {"group": group, "verified_group": verified_group}
        for place, (number, group, verified_group) in enumerate(rows, start=1)
    ]
    return lines, {
        who: {member: group for group, member in enumerate(members.tolist(), start=1)}
        for who, members in distinct.items()
    }


def _members(arena: Arena, raters: Ints, who: str) -> Ints:
    stored = RaterTally.objects.filter(arena=arena, raters=who, category="", member__gt=0)
    own = np.array(list(stored.values_list("member", flat=True)), np.int64)
    room = RaterTally.RATERS - len(own)
    is_new = ~np.isin(raters, own)
    is_own = ~is_new | (np.cumsum(is_new) <= room)
    return np.where(is_own, raters, -1 - raters % RaterTally.RATERS)


def _link_lines(arena: Arena, last: int) -> Iterator[Line]:
    removed = _removed(arena, last)
    numbers: dict[str, int] = {}  # of networks, in the order in which they appear
    links = LogLink.objects.filter(arena=arena, number__lte=last).order_by("number")
    number = 0
    while row := links.filter(number__gt=number).first():
        number = row.number
        yield {"type": "link"} | vars(log_service.link_of(row))
        columns = log_service.rows_of(row) if row.n_rows else {}
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        if row.kind in REMOVES:
            for pk, at, reason in rows:
                yield {"type": "removal", "id": pk, "at": _time(at), "reason": REASONS[reason]}
            continue
        for votes in batches(rows, AT_ONCE):
            networks, proven = _origins([pk for pk, *_ in votes])
            for pk, *values in votes:
                network = networks.get(pk)
                yield _vote_line(pk, *values) | {
                    "verified": pk in proven,
                    "network": network and numbers.setdefault(network, len(numbers)),
                    "counts": removed.get(pk, 0) < number,
                }


def _origins(ids: list[int]) -> tuple[dict[int, str], set[int]]:
    """The networks of those votes that are unverified, and the votes that are verified."""
    votes = Vote.objects.filter(pk__in=ids)
    networks = dict(votes.of_networks().values_list("pk", "network"))
    return networks, set(votes.filter(verified=True).values_list("pk", flat=True))


def _removed(arena: Arena, last: int) -> dict[int, int]:
    """For each vote that was removed or repeated, the last link that did so."""
    kinds = (*REMOVES, LogLink.Kind.RELEASED, LogLink.Kind.REPAIR)
    rows = LogLink.objects.filter(arena=arena, number__lte=last, kind__in=kinds, n_rows__gt=0)
    latest: dict[int, int] = {}
    for row in rows.order_by("number").iterator(chunk_size=1):
        step = 0 if row.kind in REMOVES else -1  # a vote counts in the last link that repeats it
        latest |= dict.fromkeys(log_service.rows_of(row)["id"].tolist(), row.number + step)
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
    soft = float(vote_log.preferences(np.array([preference]))[0])
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
        "preference": None if preference == vote_log.NO_PREFERENCE else soft,
        "cast_at": _time(cast_at),
    }


def _time(microseconds: int) -> str:
    time = log_service.EPOCH + timedelta(microseconds=microseconds)
    return time.isoformat(timespec="microseconds")


def _hex(number: int) -> str:
    return f"{number % (1 << 64):016x}"


# -- Reading ---------------------------------------------------------------------------------------


@dataclass
class LogFile:
    """The content of a file. `events` are the rows of all links: columns of votes, and `link`."""

    arena: Mapping[str, Any]
    key: str
    n_links: int
    candidates: dict[int, str] = field(default_factory=dict)
    categories: dict[int, str] = field(default_factory=dict)
    places: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    boards: list[Line] = field(default_factory=list)
    links: list[ChainLink] = field(default_factory=list)
    events: dict[str, list[Ints]] = field(default_factory=lambda: defaultdict(list))
    faults: list[str] = field(default_factory=list)


def read_log(stream: TextIO) -> LogFile:
    """Read a file, and compare each link with its rows. Raises LogFileError."""
    lines = _parsed(stream)
    head = next(lines, {})
    if head.get("type") != "log" or head.get("version") not in READABLE:
        raise LogFileError("This file is not a vote log that this version can read.")
    file = LogFile(head["arena"], head["key"], head["links"])
    rows: list[Line] = []
    try:
        for line in lines:
            if line["type"] in ("vote", "removal"):
                rows.append(line)
                continue
            _end_link(file, rows)
            rows = []
            _take(file, line)
        _end_link(file, rows)
    except (KeyError, TypeError, ValueError) as error:
        lacks = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise LogFileError(
            f"After link {len(file.links)}, a line is damaged or a link is missing: {lacks}."
        ) from error
    return file


def _parsed(stream: TextIO) -> Iterator[Line]:
    for number, text in enumerate(stream, start=1):
        try:
            line = json.loads(text)
        except ValueError:
            raise LogFileError(f"Line {number} is not JSON.") from None
        if not isinstance(line, dict) or "type" not in line:
            raise LogFileError(f"Line {number} is not a line of a log.")
        yield line


def _take(file: LogFile, line: Line) -> None:
    kind = line.pop("type")
    if kind == "candidate":
        file.candidates[line["id"]] = line["name"]
    elif kind == "prompt":
        file.categories[line["id"]] = line["category"]
    elif kind == "rater":
        group = line["group"]
        verified_group: Any = line.get("verified_group", group)
        file.places[_number(line["rater"])] = (line["place"], group, verified_group)
    elif kind == "leaderboard":
        file.boards.append(line | {"raters": Counted(line["raters"])})
    elif kind == "link":
        file.links.append(ChainLink(**line))


def _end_link(file: LogFile, rows: list[Line]) -> None:
    """Compare the rows read since the last link with it, and keep them."""
    if not file.links or (not rows and not file.links[-1].n_rows):
        return
    link = file.links[-1]
    columns = _removals(rows) if link.kind in REMOVES else _votes(rows)
    content = vote_log.to_bytes(columns, list(columns))
    if vote_log.digest_of(content) != link.digest_of_rows:
        file.faults.append(f"The rows of link {link.number} differ from those that were signed.")
    for name in VOTE_COLUMNS:
        file.events[name].append(columns.get(name, np.zeros(len(rows), np.int64)))
    file.events["link"].append(np.full(len(rows), link.number))
    file.events["adds"].append(np.full(len(rows), int(link.kind in ADDS)))
    for name in ("counts", "verified"):
        file.events[name].append(np.array([int(row.get(name, False)) for row in rows]))
    networks = [row.get("network") for row in rows]
    numbers = [NO_NETWORK if number is None else number for number in networks]
    file.events["network"].append(np.array(numbers, np.int64))


def _votes(rows: list[Line]) -> Columns:
    soft = [np.nan if row["preference"] is None else row["preference"] for row in rows]
    values = {
        "prompt": [row["prompt"] or 0 for row in rows],
        "rater": [_number(row["rater"]) for row in rows],
        "rater_kind": [RATER_KINDS.index(row["rater_kind"]) for row in rows],
        "outcome": [OUTCOMES.index(row["outcome"]) for row in rows],
        "preference": vote_log.preference_bits(np.array(soft, np.float64)),
        "cast_at": log_service.microseconds(datetime.fromisoformat(row["cast_at"]) for row in rows),
    }
    return {
        name: np.array(values.get(name, [row.get(name) for row in rows]), np.int64)
        for name in VOTE_COLUMNS
    }


def _removals(rows: list[Line]) -> Columns:
    values = (
        [row["id"] for row in rows],
        log_service.microseconds(datetime.fromisoformat(row["at"]) for row in rows),
        [REASONS.index(row["reason"]) for row in rows],
    )
    columns = zip(REMOVAL_COLUMNS, values, strict=True)
    return {name: np.array(column, np.int64) for name, column in columns}


def _number(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text), "big", signed=True)


# -- Checking --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckedBoard:
    """A published leaderboard, and how much it differs from the one computed from its votes."""

    line: Line
    standings: list[Line]
    faults: list[str]
    n_numbers: int


def check_log(file: LogFile, key: str | None = None) -> list[str]:
    """Return a sentence for each fault; `key`: the public key that must have signed the log."""
    links = vote_log.check_links(file.arena["id"], file.links, key or file.key)
    faults = [*links, *file.faults]
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


def counted_rows(file: LogFile, until: int) -> Any:
    """(N,) mask of the rows that are the last about their vote up to this link, and add it."""
    ids, links, adds = (_event(file, name) for name in ("id", "link", "adds"))
    order = np.lexsort([links, ids])
    order = order[links[order] <= until]
    is_last = np.append(ids[order][1:] != ids[order][:-1], True)[: len(order)]
    mask = np.zeros(len(ids), np.bool_)
    mask[order[is_last]] = adds[order[is_last]] > 0
    return mask


def votes_at(file: LogFile, until: int) -> tuple[Votes, Ints, Ints]:
    """The votes that count after a link, by id, with places for raters; (N, 2) their groups, among
    all people and among verified ones; (N,) the networks of those that are anonymous."""
    chosen = np.flatnonzero(counted_rows(file, until))
    columns = {name: _event(file, name)[chosen] for name in (*VOTE_COLUMNS, "verified", "network")}
    order = np.argsort(columns["id"])
    columns = {name: column[order] for name, column in columns.items()}
    distinct, at = np.unique(columns["rater"], return_inverse=True)
    known = np.array([file.places[number] for number in distinct.tolist()] or [(0, 0, 0)], np.int64)
    places = known[at] if len(at) else np.zeros((0, 3), np.int64)
    size = len(order)
    categories = [file.categories.get(pk, "") for pk in columns["prompt"].tolist()]
    votes = Votes(
        pk=columns["id"],
        left=columns["left"],
        right=columns["right"],
        outcome=columns["outcome"],
        preference=vote_log.preferences(columns["preference"]),
        prompt=columns["prompt"],
        category=np.array(categories, object),
        rater=places[:, 0],
        kind=np.array([RATER_KINDS[kind] for kind in columns["rater_kind"].tolist()], object),
        verified=columns["verified"] > 0,
        trusted=np.zeros(size, np.bool_),
        source_row=np.zeros(size, np.int64),
    )
    return votes, places[:, 1:], columns["network"]


def check_board(file: LogFile, line: Line) -> CheckedBoard:
    """Fit a published leaderboard again. Raises NotConvergedError and CrossCheckError."""
    votes, groups, networks = votes_at(file, line["head"]["number"])
    own_groups = groups[:, int(line["raters"] == Counted.VERIFIED)]
    network_of = _network_of(votes.rater, own_groups, networks, line.get("shared_groups", 0))
    group_of = dict(zip(votes.rater.tolist(), own_groups.tolist(), strict=True))
    votes = votes.of(line["raters"], line["category"]).counted()
    counts = votes.count()
    board = Board(raters=line["raters"], category=line["category"], **line["settings"])
    if board.n_resamples > MOST_RESAMPLES:
        raise LogFileError(
            f"A leaderboard has {board.n_resamples:,} bootstrap replicates; at most "
            f"{MOST_RESAMPLES:,} are checked."
        )
    evidence = BoardEvidence(
        board=board,
        counts=counts.per_pair(),
        candidates=np.array([row["candidate"] for row in line["standings"]], np.int64),
        versions=(),
        n_raters=len(np.unique(votes.rater)),
        n_prompts=len(np.unique(votes.prompt[votes.prompt > 0])),
        last_vote_id=int(votes.pk.max(initial=0)),
        rater_share=line["rater_share"],
        network_share=line.get("network_share", 1.0),
        networks=lambda: network_of,
        archived=line["findings"].get("archived", ()),
        names=file.candidates,
    )
    by_rater = None
    if board.raters in HUMAN:
        by_rater = _by_group(counts, group_of)
        evidence = _capped(evidence, by_rater, line)
    measured = intervals.measure(
        evidence, counts.per_prompt(), by_rater, timezone.now(), with_style=False
    )
    ratings = advance(board, START, votes).by_candidate() if len(votes) else {}
    fitted = compose(evidence, fit(evidence), measured, ratings)
    standings = [
        {"candidate": row.candidate_id} | {name: getattr(row, name) for name in FIELDS}
        for row in fitted.standings
    ]
    return _compare(line, standings, fitted.fields)


def _capped(evidence: BoardEvidence, by_rater: VoteCounts, line: Line) -> BoardEvidence:
    """The evidence with the raters that weigh less; older intervals have their own weights."""
    if line["intervals_are_current"]:
        return evidence.capping(by_rater)
    weights = {int(group): weight for group, weight in line["capped"]}
    capped = CappedRaters.read(by_rater, weights, line["capped_at"]) if weights else NOBODY
    return replace(evidence, capped=capped)


def _network_of(raters: Ints, groups: Ints, networks: Ints, n_shared: int) -> dict[int, str]:
    """The network that most of an unverified rater's votes came from, by group (`networks_of`); the
    votes are in the order of their ids. The first groups hold several raters, whose networks are
    keyed by the negative rater instead.
    """
    sent = networks != NO_NETWORK
    keys = np.where(groups > n_shared, groups, -raters)[sent]
    sides = np.column_stack([keys, networks[sent]])
    pairs, of_pair, n_votes = np.unique(sides, axis=0, return_inverse=True, return_counts=True)
    last = np.zeros(len(pairs), np.int64)
    last[of_pair.reshape(-1)] = np.arange(len(sides))  # of repeated places, the last one stays
    order = np.lexsort([last, n_votes])
    return {key: f"network {number}" for key, number in pairs[order].tolist()}


def _by_group(counts: VoteCounts, group_of: Mapping[int, int]) -> VoteCounts:
    keys = counts.keys.copy()
    keys[:, 0] = 0
    keys[:, 1] = [group_of[place] for place in counts.key("rater").tolist()]
    return VoteCounts(keys, counts.counts).merged()


def _compare(line: Line, standings: list[Line], fields: Mapping[str, Any]) -> CheckedBoard:
    is_current = line["intervals_are_current"]
    names = [name for name in FIELDS if is_current or name not in MEASURED]
    faults, n_numbers = [], 2 + len(standings) * len(names)
    for published, made in zip(line["standings"], standings, strict=True):
        faults += [
            f"candidate {made['candidate']}: {name} is {published[name]}, but its votes give "
            f"{made[name]}"
            for name in names
            if not _same(published[name], made[name])
        ]
    faults += [
        f"{name} is {line[name]}, but the votes give {fields[name]}"
        for name in ("n_votes", "n_both_bad")
        if line[name] != fields[name]
    ]
    if is_current:
        made_findings = json.loads(json.dumps(fields["findings"]))
        findings = line["findings"] | {"capped": line["capped"]}
        n_numbers += len(findings)
        faults += [
            f"the finding “{name}” does not match the votes"
            for name in sorted(findings.keys() | made_findings.keys())
            if not _same(findings.get(name), made_findings.get(name))
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
