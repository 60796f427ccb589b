"""Decisions: a team's baseline, and which of its candidates are better or worse.

Whether one is better is the Claim of the two (`ranking.stats.claim`), which may be looked at with
every snapshot. What is decided is kept. The active candidates of a team are compared with its
baseline as one family: a claim says whether it also holds for all of these taken together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import reverse

from arena.actors import Actor
from arena.errors import ServiceError
from arena.models import Arena, Candidate, Team
from arena.services.audit import record
from arena.services.notices import clip_sentence, notify
from judges.models import Baseline, Decision
from judges.wording import headline
from ranking.board_data import LONG_TEXTS
from ranking.comparison import CandidateDifference, DifferenceBoard, load_difference_boards
from ranking.models import Board, Raters, Snapshot
from ranking.scripted_raters import demo_notice
from ranking.services.claims import keep_decided
from ranking.stats.claim import decided_together

KNOWN = "decision.known"
NEW_RULE = "Found when the rule of decisions changed."
# Not the combined board, whose decisions are those of people.
TOLD = [Raters.PEOPLE.value, Raters.JUDGES.value, Raters.JURIES.value]
Question = tuple[int, int, int]  # team, candidate, baseline
UNDECIDED = (0, "")
LOOK_AGAIN = timedelta(minutes=10)  # even if nothing seems new: a baseline may have been archived
SeenBoards = dict[int, tuple[int, frozenset[int], datetime]]  # board: snapshot, baselines, when


class BaselineError(ServiceError):
    """The candidate cannot be the baseline; the message is a sentence for people."""


def compare_family(
    board: DifferenceBoard, candidates: Iterable[int], baseline: int
) -> dict[int, CandidateDifference]:
    """Compare several candidates with a baseline; the family are those of them with votes."""
    found = {pk: board.difference(pk, baseline) for pk in candidates}
    voted = [pk for pk, difference in found.items() if difference.between]
    holds = decided_together([found[pk].claim for pk in voted])
    for pk, together in zip(voted, holds, strict=True):
        found[pk] = replace(found[pk], family=len(voted), holds_together=together)
    return found


@transaction.atomic
def choose_baseline(
    *, team: Team, arena: Arena, candidate: Candidate, by: Actor, now: datetime
) -> Baseline:
    """Measure the team's candidates in `arena` against `candidate`. Raises BaselineError."""
    if candidate.arena_id != arena.pk:
        raise BaselineError("Choose a candidate of this arena.", field="candidate")
    name = name_for(team, arena, candidate)
    fields = {"candidate": candidate, "chosen_by": by.user, "chosen_at": now}
    baseline, _ = Baseline.objects.update_or_create(team=team, arena=arena, defaults=fields)
    record(team=team, by=by, action="chose a baseline", subject=name, arena=arena.slug)
    return baseline


def name_for(team: Team, arena: Arena, candidate: Candidate) -> str:
    """Return a candidate's name as `team` may see it: only its own team sees undisclosed names."""
    owner = candidate.team_id or arena.team_id
    return candidate.own_name if owner == team.pk else str(candidate)


def default_baseline(own: Iterable[Candidate]) -> Candidate | None:
    """Return a team's baseline before it has chosen one: its oldest active candidate."""
    active = [candidate for candidate in own if candidate.retired_at is None]
    return min(active, key=lambda candidate: candidate.pk, default=None)


def baselines_in(arena: Arena) -> QuerySet[Candidate]:
    """The active candidates of the arena's own team."""
    own = Q(team=None) | Q(team=arena.team_id)
    return Candidate.objects.revealed().active().filter(own, arena=arena).order_by("pk")


def baseline_of(arena: Arena) -> Candidate | None:
    """What the arena's own team measures drafts against: the candidate that it has chosen, or else
    its oldest active one."""
    active = baselines_in(arena)
    chosen = Baseline.objects.filter(team=arena.team_id, arena=arena)
    return active.filter(pk__in=chosen.values("candidate")).first() or active.first()


def write_decisions(*, now: datetime, seen: SeenBoards) -> int:
    """Store new results of leaderboards over all prompts, notify the teams, count them.

    `seen` remembers which boards were evaluated, so that nothing is read again before there is
    news. Losing it only costs time.
    """
    baselines: dict[int, dict[int, int]] = {}
    for arena, team, candidate in Baseline.objects.values_list("arena", "team", "candidate"):
        baselines.setdefault(arena, {})[team] = candidate
    # Of arenas in which teams have candidates.
    entered = Candidate.objects.filter(arena=OuterRef("board__arena"), team__isnull=False)
    of_teams = Q(board__arena__team__isnull=False) | Exists(entered)
    current = Snapshot.objects.current().filter(of_teams, n_votes__gt=0)
    current = current.filter(board__raters__in=TOLD, board__category="").order_by("pk")
    snapshots = list(current.values_list("pk", "board", "board__arena"))
    written = 0
    for snapshot_id, board_id, arena_id in snapshots:
        chosen = baselines.get(arena_id, {})
        state = (snapshot_id, frozenset(chosen.values()))
        before = seen.get(board_id)
        if before and before[:2] == state and before[2] > now - LOOK_AGAIN:
            continue
        written += _store_new_results(snapshot_id, chosen, now)
        seen[board_id] = (*state, now)
    for gone in seen.keys() - {board_id for _, board_id, _ in snapshots}:
        del seen[gone]
    return written


def _store_new_results(snapshot_id: int, chosen: Mapping[int, int], now: datetime) -> int:
    """Store one snapshot's new results. At most seven queries, and some per decision."""
    snapshot = Snapshot.objects.select_related("board__arena").filter(pk=snapshot_id).first()
    if snapshot is None:  # a newer one has taken its place
        return 0
    arena = snapshot.board.arena
    revealed = Candidate.objects.revealed().filter(arena=arena)
    candidates = list(revealed.defer(*LONG_TEXTS).order_by("pk"))
    among = [candidate.pk for candidate in candidates]
    board = load_difference_boards(arena, [snapshot], among)[snapshot_id]
    owners = {owner for candidate in candidates if (owner := _owner_of(candidate, arena))}
    decided = {
        (team, candidate, baseline): (number, lead)
        for team, candidate, baseline, number, lead in Decision.objects.filter(
            board=snapshot.board_id
        )
        .order_by("number")  # so that the last one stays
        .values_list("team", "candidate", "baseline", "number", "lead")
    }
    results = [
        result
        for team in Team.objects.in_bulk(owners).values()
        for result in _decided_results(board, arena, team, candidates, chosen.get(team.pk))
    ]
    keep_decided(
        board=snapshot.board, evidence=board.evidence, pairs={r.pair for r in results}, now=now
    )
    new_results = [
        result
        for result in results
        if result.difference.holds_together
        and decided.get(result.question, UNDECIDED)[1] != result.difference.lead
    ]
    warning = demo_notice(arena, snapshot) if new_results else ""
    written = 0
    reason = "" if snapshot.board.follows_claims else NEW_RULE
    for result in new_results:
        number = decided.get(result.question, UNDECIDED)[0] + 1
        written += _store_decision(result, board, number, warning, now, reason)
    if reason:
        Board.objects.filter(pk=snapshot.board_id).update(follows_claims=True)
    return written


def _owner_of(candidate: Candidate, arena: Arena) -> int | None:
    return candidate.team_id or arena.team_id


@dataclass(frozen=True)
class DecidedResult:
    """A team's candidate that is better or worse than the team's baseline."""

    team: Team
    candidate: Candidate
    baseline: Candidate
    difference: CandidateDifference

    @property
    def question(self) -> Question:
        return (self.team.pk, self.candidate.pk, self.baseline.pk)

    @property
    def pair(self) -> tuple[int, int]:
        """In the order of their ids."""
        first, second = sorted((self.candidate.pk, self.baseline.pk))
        return first, second


def _decided_results(
    board: DifferenceBoard,
    arena: Arena,
    team: Team,
    candidates: list[Candidate],
    chosen: int | None,
) -> list[DecidedResult]:
    own = [candidate for candidate in candidates if _owner_of(candidate, arena) == team.pk]
    chosen_baseline = (candidate for candidate in candidates if candidate.pk == chosen)
    baseline = next(chosen_baseline, default_baseline(own))
    if baseline is None:
        return []
    active = {
        candidate.pk: candidate
        for candidate in own
        if candidate.pk != baseline.pk and candidate.retired_at is None
    }
    differences = compare_family(board, active, baseline.pk)
    results = [
        DecidedResult(team, candidate, baseline, differences[pk])
        for pk, candidate in active.items()
    ]
    return [result for result in results if result.difference.is_decided]


@transaction.atomic
def _store_decision(
    result: DecidedResult,
    board: DifferenceBoard,
    number: int,
    warning: str,
    now: datetime,
    reason: str,
) -> bool:
    """Store the decision, its notification and the deliveries, once; return whether it is new.

    With a `reason`, nobody is notified: nothing has changed but the rule.
    """
    arena = board.snapshot.board.arena
    candidate_name = name_for(result.team, arena, result.candidate)
    baseline_name = name_for(result.team, arena, result.baseline)
    sentence = headline(candidate_name, baseline_name, result.difference, raters=board.raters)
    # A refresh may have replaced the snapshot in the meantime.
    snapshot = Snapshot.objects.select_for_update().filter(pk=board.snapshot.pk).first()
    decision, is_new = Decision.objects.get_or_create(
        team=result.team,
        candidate=result.candidate,
        baseline=result.baseline,
        board=board.snapshot.board,
        number=number,
        defaults={
            "lead": result.difference.lead,
            "snapshot": snapshot,
            "sentence": clip_sentence(f"{sentence} {warning}".rstrip()),
            "known_at": now,
            "reason": reason,
        },
    )
    if not is_new or reason:
        return is_new
    candidate, baseline = result.candidate.pk, result.baseline.pk
    path = reverse("decision", args=[result.team.slug, arena.slug])
    raters = "" if board.raters == Raters.PEOPLE else f"&raters={board.raters}"
    notify(
        team=result.team,
        key=f"decision:{candidate}:{baseline}:{decision.board_id}:{decision.number}",
        kind=KNOWN,
        sentence=decision.sentence,
        path=f"{path}?candidate={candidate}&baseline={baseline}{raters}",
        arena=arena,
        details={
            "candidate": {"id": candidate, "name": candidate_name},
            "baseline": {"id": baseline, "name": baseline_name},
            "raters": board.raters,
            "numbers": numbers_of(result.difference),
        },
        now=now,
    )
    return True


def numbers_of(difference: CandidateDifference) -> dict[str, Any]:
    """Return the figures of a difference for the API and webhooks."""
    claim = difference.claim
    return {
        "lead": difference.lead,
        "elo": difference.elo,
        "low": difference.low,
        "high": difference.high,
        "wins": claim.win_rate,
        "wins_low": claim.low,
        "wins_high": claim.high,
        "chance": difference.chance,
        "votes": difference.votes,
        "between": difference.between,
        "these_raters": difference.these_raters,
        "family": difference.family,
        "family_holds": difference.holds_together,
        "scope": claim.scope.value,
        "missing": claim.json["missing"],
        "claim": claim.json,
    }
