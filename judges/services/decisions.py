"""A team's decision: the candidate that it measures its others against, and what is known.

Known is what the rule of `ranking.stats.Watched` calls so, which may be asked with every snapshot.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import reverse

from arena.access import Actor
from arena.models import Arena, Candidate, Team
from arena.services.audit import record
from arena.services.notices import clipped, notify
from arena.services.refusals import Refused
from judges.models import Baseline, Decision
from judges.pages.decision_words import headline
from ranking.models import Raters, Snapshot
from ranking.pages.gap import Gap, GapBoard, with_rows
from ranking.pages.published import LONG_TEXTS
from ranking.pages.scripted import SENTENCE, counts_scripts

KNOWN = "decision.known"
TOLD = [Raters.PEOPLE.value, Raters.JUDGES.value, Raters.JURIES.value]  # the combined is people's
Question = tuple[int, int, int]  # team, candidate, baseline
NOTHING = (0, "")
LOOK_AGAIN = timedelta(minutes=10)  # even where nothing seems new: a baseline may have retired
Looked = dict[int, tuple[int, frozenset[int], datetime]]  # board: snapshot, baselines, when


class BaselineRefused(Refused):
    """The candidate cannot be the baseline; the message is a sentence for people."""


@transaction.atomic
def choose_baseline(
    *, team: Team, arena: Arena, candidate: Candidate, by: Actor, now: datetime
) -> Baseline:
    """Measure the team's candidates in `arena` against `candidate`. Raises BaselineRefused."""
    if candidate.arena_id != arena.pk:
        raise BaselineRefused("Choose a candidate of this arena.", field="candidate")
    name = name_for(team, arena, candidate)
    fields = {"candidate": candidate, "chosen_by": by.user, "chosen_at": now}
    baseline, _ = Baseline.objects.update_or_create(team=team, arena=arena, defaults=fields)
    record(team=team, by=by, action="chose a baseline", subject=name, arena=arena.slug)
    return baseline


def name_for(team: Team, arena: Arena, candidate: Candidate) -> str:
    """Its name as `team` may see it: undisclosed names are their own team's alone."""
    owner = candidate.team_id or arena.team_id
    return candidate.own_name if owner == team.pk else str(candidate)


def usual_baseline(own: Iterable[Candidate]) -> Candidate | None:
    """What a team's candidates are measured against before it has chosen: the oldest active."""
    active = [candidate for candidate in own if candidate.retired_at is None]
    return min(active, key=lambda candidate: candidate.pk, default=None)


# -- Watching --------------------------------------------------------------------------------------


def write_decisions(*, now: datetime, looked: Looked) -> int:
    """Write what boards of all prompts have made known, tell the teams, and say how much it was.

    `looked` remembers what was looked at, so that nothing is read again before there is news; to
    lose it costs time alone.
    """
    baselines = _baselines()
    current = _snapshots()
    found = 0
    for pk, board_id, arena_id in current:
        chosen = baselines.get(arena_id, {})
        state = (pk, frozenset(chosen.values()))
        if not _is_news(looked.get(board_id), state, now):
            continue
        found += _decide(pk, chosen, now)
        looked[board_id] = (*state, now)
    for gone in looked.keys() - {board_id for _, board_id, _ in current}:
        del looked[gone]
    return found


def _baselines() -> dict[int, dict[int, int]]:
    """The chosen baselines: by arena, by team."""
    found: dict[int, dict[int, int]] = {}
    for arena, team, candidate in Baseline.objects.values_list("arena", "team", "candidate"):
        found.setdefault(arena, {})[team] = candidate
    return found


def _snapshots() -> list[tuple[int, int, int]]:
    """The current snapshots of arenas where teams are, each with its board and its arena."""
    entered = Candidate.objects.filter(arena=OuterRef("board__arena"), team__isnull=False)
    of_teams = Q(board__arena__team__isnull=False) | Exists(entered)
    current = Snapshot.objects.current().filter(of_teams, n_votes__gt=0)
    current = current.filter(board__raters__in=TOLD, board__category="")
    return list(current.order_by("pk").values_list("pk", "board", "board__arena"))


def _is_news(
    before: tuple[int, frozenset[int], datetime] | None,
    state: tuple[int, frozenset[int]],
    now: datetime,
) -> bool:
    return before is None or before[:2] != state or before[2] <= now - LOOK_AGAIN


def _decide(snapshot_id: int, chosen: Mapping[int, int], now: datetime) -> int:
    """Write what one snapshot has made known. Seven queries at most, and some per decision."""
    snapshot = Snapshot.objects.select_related("board__arena").filter(pk=snapshot_id).first()
    if snapshot is None:  # a newer one has taken its place
        return 0
    board, arena = with_rows([snapshot])[snapshot_id], snapshot.board.arena
    candidates = list(_candidates(arena))
    teams = Team.objects.in_bulk({pk for one in candidates if (pk := _owner(one, arena))})
    told = _told(snapshot.board_id)
    known = [
        one
        for team in teams.values()
        for one in _known(board, arena, team, candidates, chosen.get(team.pk))
        if told.get(one.question, NOTHING)[1] != one.gap.lead.value
    ]
    warning = SENTENCE if known and counts_scripts(snapshot) else ""
    written = 0
    for one in known:
        number = told.get(one.question, NOTHING)[0] + 1
        written += _write(one, board, number, warning, now)
    return written


def _told(board: int) -> dict[Question, tuple[int, str]]:
    """What a board's votes have decided last: the decision's number and its lead."""
    rows = Decision.objects.filter(board=board).order_by("number")
    told = rows.values_list("team", "candidate", "baseline", "number", "lead")
    return {(team, one, other): (number, lead) for team, one, other, number, lead in told}


def _candidates(arena: Arena) -> QuerySet[Candidate]:
    return Candidate.objects.revealed().filter(arena=arena).defer(*LONG_TEXTS).order_by("pk")


def _owner(candidate: Candidate, arena: Arena) -> int | None:
    return candidate.team_id or arena.team_id


@dataclass(frozen=True)
class Known:
    """One candidate of a team that is known to be better or worse than its baseline."""

    team: Team
    candidate: Candidate
    baseline: Candidate
    gap: Gap

    @property
    def question(self) -> Question:
        return (self.team.pk, self.candidate.pk, self.baseline.pk)


def _known(
    board: GapBoard, arena: Arena, team: Team, candidates: list[Candidate], chosen: int | None
) -> list[Known]:
    own = [one for one in candidates if _owner(one, arena) == team.pk]
    baseline = next((one for one in candidates if one.pk == chosen), usual_baseline(own))
    if baseline is None:
        return []
    others = [one for one in own if one.pk != baseline.pk and one.retired_at is None]
    gaps = [(one, board.gap(one.pk, baseline.pk, forecast=False)) for one in others]
    return [Known(team, one, baseline, gap) for one, gap in gaps if gap.is_known]


@transaction.atomic
def _write(known: Known, board: GapBoard, number: int, warning: str, now: datetime) -> bool:
    """Write the decision, its notice and the notice's deliveries, once; say whether it is new."""
    arena = board.snapshot.board.arena
    names = [name_for(known.team, arena, one) for one in (known.candidate, known.baseline)]
    sentence = headline(names[0], names[1], known.gap, raters=board.raters)
    # A refresh may have replaced the snapshot meanwhile.
    snapshot = Snapshot.objects.select_for_update().filter(pk=board.snapshot.pk).first()
    decision, is_new = Decision.objects.get_or_create(
        team=known.team,
        candidate=known.candidate,
        baseline=known.baseline,
        board=board.snapshot.board,
        number=number,
        defaults={
            "lead": known.gap.lead.value,
            "snapshot": snapshot,
            "sentence": clipped(f"{sentence} {warning}".rstrip()),
            "known_at": now,
        },
    )
    if is_new:
        _tell(decision, known, board, names, now)
    return is_new


def _tell(
    decision: Decision, known: Known, board: GapBoard, names: list[str], now: datetime
) -> None:
    pair, arena = (known.candidate, known.baseline), board.snapshot.board.arena
    path = reverse("decision", args=[known.team.slug, arena.slug])
    whose = "" if board.raters == Raters.PEOPLE else f"&raters={board.raters}"
    notify(
        team=known.team,
        key=f"decision:{pair[0].pk}:{pair[1].pk}:{decision.board_id}:{decision.number}",
        kind=KNOWN,
        sentence=decision.sentence,
        path=f"{path}?candidate={pair[0].pk}&baseline={pair[1].pk}{whose}",
        arena=arena,
        details={
            "candidate": {"id": pair[0].pk, "name": names[0]},
            "baseline": {"id": pair[1].pk, "name": names[1]},
            "raters": board.raters,
            "numbers": numbers_of(known.gap),
        },
        now=now,
    )


def numbers_of(gap: Gap) -> dict[str, Any]:
    """The figures of a gap as programs read them."""
    names = ("elo", "low", "high", "wins", "wins_low", "wins_high", "chance", "votes", "between")
    return {"lead": gap.lead.value} | {name: getattr(gap, name) for name in names}
