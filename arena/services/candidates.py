"""Candidates: entered, revised as the next version, retired."""

from datetime import datetime
from typing import Any, Unpack

from django.db import IntegrityError, transaction
from django.db.models import Max, Q

from arena.access import Actor, may_change, may_retire
from arena.calls.services import cancel_run
from arena.models import Arena, Call, Candidate, Comparison, Run, Team
from arena.services import audit
from arena.services.candidate_checks import (
    DEFAULTS,
    CandidateFields,
    CandidateRefused,
    check_is_open,
    check_name_is_free,
    check_privacy,
    checked_candidate_name,
    checked_fields,
)
from arena.services.deadlocks import hold_arena, tried_twice
from arena.services.pairing import sync_pairs

MOST_CANDIDATES = 200
SAY_PRIVACY = (
    "The version before is not public yet. Say how long the next one stays private, or that it is "
    "public at once: with nothing (in the API null) for both the votes and the time."
)
# A guest's trail names nobody of another team.
THE_HOST = Actor(known_as="the arena's team")
__all__ = [
    "CandidateFields",
    "CandidateRefused",
    "is_fixed",
    "register_candidate",
    "retire_candidate",
    "revise_candidate",
]


def register_candidate(
    *,
    arena: Arena,
    team: Team | None,
    by: Actor,
    now: datetime,
    name: str,
    private_until_votes: int | None = None,
    private_until: datetime | None = None,
    **fields: Unpack[CandidateFields],
) -> Candidate:
    """Enter the first version of a candidate. Without a team it is the operators' own.

    Its name stays private until it has so many votes or until that time, whichever is first. Raises
    CandidateRefused.
    """
    name = checked_candidate_name(name)
    made_of = checked_fields(arena, DEFAULTS | dict(fields))
    check_privacy(private_until_votes, private_until, now)
    draft = Candidate(
        arena=arena,
        team=team,
        name=name,
        created_by=by.user,
        private_until_votes=private_until_votes,
        private_until=private_until,
        disclosed_at=_disclosed_at(private_until_votes, private_until, now),
        **made_of,
    )
    return _enter(draft, by=by)


def _disclosed_at(votes: int | None, until: datetime | None, now: datetime) -> datetime | None:
    return now if votes is None and until is None else None


@transaction.atomic
def _enter(draft: Candidate, *, by: Actor) -> Candidate:
    """Write a first version."""
    arena = check_is_open(draft, by=by)
    check_name_is_free(arena, draft.name, draft.team_id)
    _check_room(draft)
    return _write(draft, by, "registered a candidate")


def _check_room(draft: Candidate) -> None:
    """Refuse one candidate too many; of several at once one or two may slip through."""
    theirs = Candidate.objects.filter(arena=draft.arena_id, team=draft.team_id, retired_at=None)
    if theirs.count() >= MOST_CANDIDATES:
        raise CandidateRefused(
            f"A team may have {MOST_CANDIDATES} candidates in an arena, every version counted. "
            "Retire one first."
        )


def _write(draft: Candidate, by: Actor, action: str) -> Candidate:
    try:
        with transaction.atomic():
            draft.save(force_insert=True)
    except IntegrityError:
        raise CandidateRefused(
            f"Somebody else has just entered {draft.own_name} in this arena. Look at what is there "
            "now, then try again.",
            field="name",
        ) from None
    _note(draft, by, action)
    return draft


def is_fixed(candidate: Candidate) -> bool:
    """Is there anything that was made with this version as it is?"""
    return (
        candidate.retired_at is not None
        or candidate.responses.exists()
        or Call.objects.filter(asker=candidate.asker).exists()
        or Comparison.objects.filter(Q(left=candidate) | Q(right=candidate)).exists()
    )


def revise_candidate(
    *,
    candidate: Candidate,
    by: Actor,
    now: datetime,
    private_until_votes: int | None = None,
    private_until: datetime | None = None,
    says_privacy: bool = True,
    **changes: Unpack[CandidateFields],
) -> Candidate:
    """Write the next version of `candidate`, or change it in place while nothing was made with it.

    A new version is private only if it is asked for anew; the rules of one that is there stay. What
    was private becomes public by no silence: without `says_privacy` that is refused. What changes
    nothing returns the candidate as it is. Raises CandidateRefused.
    """
    # Checked before anything is locked: it may have to read the variables of every prompt.
    seen = Candidate.objects.select_related("arena").get(pk=candidate.pk)
    made_of = checked_fields(seen.arena, _made_of(seen) | dict(changes))
    if made_of == _made_of(seen):
        return seen
    return _revise(
        seen,
        made_of,
        by=by,
        now=now,
        private_until_votes=private_until_votes,
        private_until=private_until,
        says_privacy=says_privacy,
    )


def _made_of(candidate: Candidate) -> dict[str, Any]:
    return {name: getattr(candidate, name) for name in DEFAULTS}


@tried_twice
@transaction.atomic
def _revise(
    seen: Candidate,
    made_of: dict[str, Any],
    *,
    by: Actor,
    now: datetime,
    private_until_votes: int | None,
    private_until: datetime | None,
    says_privacy: bool,
) -> Candidate:
    """Write what was checked, unless somebody has changed what was `seen`."""
    check_is_open(seen, by=by)
    # NO KEY: the standings of a refresh refer to it. Whoever brings answers, or orders them, holds
    # this row as well, so none arrive between the look and the change.
    found = Candidate.objects.select_for_update(no_key=True).get(pk=seen.pk)
    if _made_of(found) != _made_of(seen):
        raise CandidateRefused(
            f"Somebody else has just changed {found.own_name}. Look at what is there now, then "
            "try again."
        )
    if is_fixed(found):
        if found.disclosed_at is None and not says_privacy:
            raise CandidateRefused(SAY_PRIVACY, field="private_until_votes")
        check_privacy(private_until_votes, private_until, now)
        return _next_version(
            found,
            by,
            made_of,
            private_until_votes=private_until_votes,
            private_until=private_until,
            disclosed_at=_disclosed_at(private_until_votes, private_until, now),
        )
    if private_until_votes is not None or private_until is not None:
        _check_same_rules(found, private_until_votes, private_until)
    for name, value in made_of.items():
        setattr(found, name, value)
    found.save()
    _note(found, by, "changed a candidate")
    return found


def _check_same_rules(found: Candidate, votes: int | None, until: datetime | None) -> None:
    if (votes, until) != (found.private_until_votes, found.private_until):
        raise CandidateRefused(
            "How long the name stays private was fixed when the candidate was entered, and cannot "
            "be changed.",
            field="private_until_votes",
        )


def _next_version(
    found: Candidate, by: Actor, made_of: dict[str, Any], **privacy: Any
) -> Candidate:
    draft = Candidate(
        arena_id=found.arena_id,
        team_id=found.team_id,
        name=found.name,
        version=_free_version(found),
        created_by=by.user,
        **made_of,
        **privacy,
    )
    _check_room(draft)
    return _write(draft, by, "wrote the next version of a candidate")


def _free_version(found: Candidate) -> int:
    """The number after the last one, past those that another candidate's name reads like."""
    siblings = Candidate.objects.filter(arena=found.arena_id)
    last = siblings.filter(name=found.name).aggregate(last=Max("version"))["last"]
    names = set(siblings.filter(name__startswith=f"{found.name} v").values_list("name", flat=True))
    number = int(last) + 1
    while f"{found.name} v{number}" in names:
        number += 1
    return number


@tried_twice
@transaction.atomic
def retire_candidate(*, candidate: Candidate, by: Actor, now: datetime) -> None:
    """Have `candidate` shown to nobody any more. What it was stays on the board, for good.

    The run that generates its answers ends, also where it was retired before: no money is held for
    what nobody asks. A guest that the arena's team retires is in the trails of both, under the name
    that each knows.
    """
    hold_arena(candidate.arena_id)
    found = Candidate.objects.select_for_update(no_key=True).get(pk=candidate.pk)
    ended, sent_away = _end_runs(found, now), _is_sent_away(found, by)
    if found.retired_at is None:
        found.retired_at = now
        found.save()
        sync_pairs(arena=found.arena, touched=found)
        if sent_away:
            audit.record(
                team=found.arena.team,
                by=by,
                action="retired a guest's candidate",
                subject=found,
                arena=found.arena.slug,
                candidate=found.pk,
            )
        _note(found, THE_HOST if sent_away else by, "retired a candidate", **ended)
    elif ended:
        _note(found, THE_HOST if sent_away else by, "cancelled a run of answers", **ended)
    candidate.retired_at = found.retired_at


def _end_runs(candidate: Candidate, now: datetime) -> dict[str, list[int]]:
    """Cancel the unfinished run of its answers; return what the trail says of it, if anything."""
    unfinished = Run.objects.of_answers().not_over().filter(candidate=candidate)
    ended = [
        run_id
        for run_id in unfinished.values_list("pk", flat=True)
        if cancel_run(run_id=run_id, now=now)
    ]
    return {"runs_cancelled": ended} if ended else {}


def _is_sent_away(candidate: Candidate, by: Actor) -> bool:
    """Is it another team's than the arena's, and `by` of the arena's alone?"""
    is_own = candidate.team_id in (None, candidate.arena.team_id)
    return not is_own and not may_change(by, candidate) and may_retire(by, candidate)


def _note(candidate: Candidate, by: Actor, action: str, **details: object) -> None:
    """The trail is its own team's, which knows its name."""
    audit.record(
        team=candidate.team or candidate.arena.team,
        by=by,
        action=action,
        subject=candidate.own_name,
        arena=candidate.arena.slug,
        candidate=candidate.pk,
        **details,
    )
