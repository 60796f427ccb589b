"""Registering candidates, revising them as new versions, archiving, merging and disclosing them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    IntegerField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    When,
)
from django.db.models.functions import Coalesce
from django.utils import timezone

from arena.actors import SYSTEM, Actor
from arena.models import Arena, Call, Candidate, Comparison, Pair, Rater, Response, Run, Team, Vote
from arena.models.arenas import ArenaQuerySet
from arena.permissions import can_change, can_retire
from arena.services import audit
from arena.services.budgets import deduct_spent, reserve_budget
from arena.services.candidate_checks import (
    CandidateError,
    check_is_different,
    check_is_open,
    check_name_is_free,
    check_privacy,
    clean_candidate_name,
    clean_content,
    with_changes,
)
from arena.services.locks import lock_arena, retry_on_deadlock
from arena.services.pairs import reason_to_keep, sync_pairs
from arena.services.runs import cancel_run
from arena.signals import announce, votes_changed

MAX_CANDIDATES = 200
PRIVACY_REQUIRED = (
    "The previous version is still private. Choose how long the next one stays private, or leave "
    "both fields empty (null in the API) to make it public at once."
)
# A guest team's audit log names no members of other teams.
HOST_TEAM = Actor(display_name="the arena's team")
# Jury votes are left out: they repeat those of the members.
DISCLOSING_KINDS = [Rater.Kind.PERSON, Rater.Kind.JUDGE]
# Raters whose votes do not count towards disclosure; other apps register them.
_ignored_raters: list[Q] = []


def register_candidate(
    *,
    arena: Arena,
    team: Team | None,
    by: Actor,
    now: datetime,
    name: str,
    private_until_votes: int | None = None,
    private_until: datetime | None = None,
    **content: Any,
) -> Candidate:
    """Register the first version of a candidate; without a team it belongs to the arena's team.

    `content` are some of Candidate.CONTENT.
    The name stays private until the candidate has `private_until_votes` votes or until
    `private_until`, whichever comes first. Raises CandidateError.
    """
    name = clean_candidate_name(name)
    clean = clean_content(arena, with_changes(Candidate().content, content))
    check_privacy(private_until_votes, private_until, now)
    draft = Candidate(
        arena=arena,
        team=team,
        name=name,
        created_by=by.user,
        private_until_votes=private_until_votes,
        private_until=private_until,
        disclosed_at=_disclosed_at(private_until_votes, private_until, now),
        **clean,
    )
    return _register(draft, by=by)


class VariantError(CandidateError):
    """What is wrong with one of several candidates; `number` counts them from 0."""

    def __init__(self, number: int, error: CandidateError) -> None:
        super().__init__(error.message, field=error.field)
        self.number = number


@transaction.atomic
def register_variants(
    *,
    arena: Arena,
    team: Team | None,
    by: Actor,
    now: datetime,
    variants: Sequence[Mapping[str, Any]],
    cap: int | None = None,
) -> list[Candidate]:
    """Register several candidates, or none of them; two with the same content are refused.

    `variants` are the keyword arguments of `register_candidate`. Raises VariantError, and
    BudgetError if the team that pays could not spend `cap` nano-dollars on their answers.
    """
    registered = list[Candidate]()
    before = list(own_active(arena, team))
    for number, fields in enumerate(variants):
        try:
            candidate = register_candidate(arena=arena, team=team, by=by, now=now, **fields)
            check_is_different(candidate.content, [*before, *registered])
        except CandidateError as error:
            raise VariantError(number, error) from None
        registered.append(candidate)
    reserve_budget(team=team or arena.team, cap=cap)
    return registered


def own_active(arena: Arena, team: Team | None) -> QuerySet[Candidate]:
    """The active candidates that `team` has in the arena."""
    candidates: QuerySet[Candidate] = arena.candidates.active().filter(team=team)
    return candidates


def _disclosed_at(votes: int | None, until: datetime | None, now: datetime) -> datetime | None:
    return now if votes is None and until is None else None


@transaction.atomic
def _register(draft: Candidate, *, by: Actor) -> Candidate:
    arena = check_is_open(draft, by=by)
    check_name_is_free(arena, draft.name, draft.team_id)
    _check_limit(draft)
    return _write(draft, by, "registered a candidate")


def _check_limit(draft: Candidate) -> None:
    """Raise CandidateError for one candidate too many; concurrent requests may slip through."""
    active = Candidate.objects.filter(arena=draft.arena_id, team=draft.team_id, retired_at=None)
    if active.count() >= MAX_CANDIDATES:
        raise CandidateError(
            f"A team can have {MAX_CANDIDATES} candidates in an arena, counting every version. "
            "Archive one first."
        )


def _write(draft: Candidate, by: Actor, action: str) -> Candidate:
    try:
        with transaction.atomic():
            draft.save(force_insert=True)
    except IntegrityError:
        raise CandidateError(
            f"Someone else has just added {draft.own_name}. Check it, then try again.",
            field="name",
        ) from None
    _record(draft, by, action)
    return draft


def is_in_use(candidate: Candidate) -> bool:
    """Return whether this version is archived or has answers, calls or comparisons: immutable."""
    return (
        candidate.retired_at is not None
        or candidate.responses.exists()
        or Call.objects.filter(requester=candidate.requester).exists()
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
    **changes: Any,
) -> Candidate:
    """Write the next version of `candidate`, or change it in place while it is not in use.

    A new version is private only if privacy is given again; a version changed in place keeps its
    privacy. A private candidate never becomes public by omission: its next version needs
    `says_privacy`. Without any difference, the candidate is returned unchanged. Raises
    CandidateError.
    """
    # Checked before anything is locked, because this may read the variables of every prompt.
    before = Candidate.objects.select_related("arena").get(pk=candidate.pk)
    content = clean_content(before.arena, with_changes(before.content, changes))
    if content == before.content:
        return before
    return _revise(
        before,
        content,
        by=by,
        now=now,
        private_until_votes=private_until_votes,
        private_until=private_until,
        says_privacy=says_privacy,
    )


@retry_on_deadlock
@transaction.atomic
def _revise(
    before: Candidate,
    content: dict[str, Any],
    *,
    by: Actor,
    now: datetime,
    private_until_votes: int | None,
    private_until: datetime | None,
    says_privacy: bool,
) -> Candidate:
    """Write the checked content, unless someone has changed the candidate since `before`."""
    check_is_open(before, by=by)
    # NO KEY: the standings of a refresh refer to this row. Uploading or ordering answers locks it
    # too, so none arrive between the check and the change.
    candidate = Candidate.objects.select_for_update(no_key=True).get(pk=before.pk)
    if candidate.content != before.content:
        raise CandidateError(
            f"Someone else has just changed {candidate.own_name}. Check it, then try again."
        )
    if is_in_use(candidate):
        if candidate.disclosed_at is None and not says_privacy:
            raise CandidateError(PRIVACY_REQUIRED, field="private_until_votes")
        check_privacy(private_until_votes, private_until, now)
        return _next_version(
            candidate,
            by,
            content,
            private_until_votes=private_until_votes,
            private_until=private_until,
            disclosed_at=_disclosed_at(private_until_votes, private_until, now),
        )
    if private_until_votes is not None or private_until is not None:
        _check_same_privacy(candidate, private_until_votes, private_until)
    for name, value in content.items():
        setattr(candidate, name, value)
    candidate.save()
    _record(candidate, by, "changed a candidate")
    return candidate


def _check_same_privacy(candidate: Candidate, votes: int | None, until: datetime | None) -> None:
    if (votes, until) != (candidate.private_until_votes, candidate.private_until):
        raise CandidateError(
            "How long the name stays private was set when the candidate was registered and cannot "
            "be changed.",
            field="private_until_votes",
        )


def _next_version(
    candidate: Candidate, by: Actor, content: dict[str, Any], **privacy: Any
) -> Candidate:
    draft = Candidate(
        arena_id=candidate.arena_id,
        team_id=candidate.team_id,
        name=candidate.name,
        version=_free_version(candidate),
        created_by=by.user,
        **content,
        **privacy,
    )
    _check_limit(draft)
    return _write(draft, by, "wrote the next version of a candidate")


def _free_version(candidate: Candidate) -> int:
    """Return the next version number that does not read like another candidate's name."""
    others = Candidate.objects.filter(arena=candidate.arena_id)
    last = others.filter(name=candidate.name).aggregate(last=Max("version"))["last"]
    alike = others.filter(name__startswith=f"{candidate.name} v")
    names = set(alike.values_list("name", flat=True))
    number = int(last) + 1
    while f"{candidate.name} v{number}" in names:
        number += 1
    return number


def retire_candidate(*, candidate: Candidate, by: Actor, now: datetime) -> None:
    """Archive one candidate, as `retire_candidates` does."""
    retire_candidates(candidates=[candidate], by=by, now=now)


@retry_on_deadlock
@transaction.atomic
def retire_candidates(*, candidates: Sequence[Candidate], by: Actor, now: datetime) -> int:
    """Archive candidates of one arena, all of them or none: they are no longer shown to raters;
    their leaderboard entries stay. Return how many were not archived before.

    Unfinished runs of their answers are cancelled, even of those archived before, so that no money
    stays reserved for calls that will never be made. If the arena's team archives a guest's
    candidate, both teams' audit logs record it, each under the name that the team knows.
    """
    if not candidates:
        return 0
    arena = lock_arena(candidates[0].arena_id)
    given = {candidate.pk: candidate for candidate in candidates}
    rows = arena.candidates.select_for_update(of=("self",), no_key=True)
    locked = list(rows.select_related("arena__team", "team").filter(pk__in=given).order_by("pk"))
    active = [candidate for candidate in locked if candidate.retired_at is None]
    for candidate in locked:
        _retire(candidate, by, now)
        given[candidate.pk].retired_at = candidate.retired_at
    if active:
        sync_pairs(arena=arena, touched=active[0] if len(active) == 1 else None)
    return len(active)


def _retire(locked: Candidate, by: Actor, now: datetime) -> None:
    details = _cancel_runs(locked, now)
    is_guest = locked.team_id not in (None, locked.arena.team_id)
    by_host = is_guest and not can_change(by, locked) and can_retire(by, locked)
    if locked.retired_at is None:
        locked.retired_at = now
        locked.save()
        if by_host:
            action = "retired a guest's candidate"
            audit.record_in(locked.arena, by, action, locked, candidate=locked.pk)
        _record(locked, HOST_TEAM if by_host else by, "retired a candidate", **details)
        _retire_live_copy(locked, now)
    elif details:
        _record(locked, HOST_TEAM if by_host else by, "cancelled a run of answers", **details)


def _cancel_runs(candidate: Candidate, now: datetime) -> dict[str, list[int]]:
    """Cancel unfinished runs of its answers; return them, for the audit log."""
    unfinished = Run.objects.of_answers().not_over().filter(candidate=candidate)
    run_ids = list(unfinished.values_list("pk", flat=True))
    cancelled = [run_id for run_id in run_ids if cancel_run(run_id=run_id, now=now)]
    return {"runs_cancelled": cancelled} if cancelled else {}


@retry_on_deadlock
@transaction.atomic
def merge_candidates(
    *, candidates: Sequence[Candidate], into: Candidate, by: Actor, now: datetime
) -> int:
    """Let the votes of `candidates` count for `into`, all of them or none; return how many were not
    merged before.

    Their votes and answers stay as they are, and votes between them count for nothing. They are
    archived until `undo_merges`. Raises CandidateError.
    """
    arena = lock_arena(into.arena_id)
    rows = arena.candidates.revealed().select_for_update(of=("self",), no_key=True)
    ids = {candidate.pk for candidate in candidates} | {into.pk}
    locked = {
        one.pk: one
        for one in rows.select_related("arena__team", "team").filter(pk__in=ids).order_by("pk")
    }
    target = locked.pop(into.pk, None)
    if target is None or len(locked) < len(ids) - 1 or into in candidates or not candidates:
        raise CandidateError("Merge other candidates of the same arena into this one.")
    merged = [one for one in locked.values() if one.merged_into_id != target.pk]
    for one in (target, *merged):
        _check_can_merge(one, is_target=one is target)
    for one in merged:
        one.merged_into, one.merged_at = target, now
        one.retired_at = one.retired_at or now
        one.save(update_fields=["merged_into", "merged_at", "retired_at"])
        _retire_live_copy(one, now)
        details = {"into": str(target), "into_candidate": target.pk} | _cancel_runs(one, now)
        _record_merge(one, by, "merged a candidate", **details)
    _after_merge(arena, merged)
    return len(merged)


def _check_can_merge(candidate: Candidate, *, is_target: bool) -> None:
    """Raise CandidateError for a candidate whose merge would make a chain or reveal a name."""
    if candidate.disclosed_at is None:
        raise CandidateError(f"{candidate} is not public yet. Merge it once it is.")
    if target := candidate.merged_into:
        advice = f"Merge into {target} instead." if is_target else "Undo that first."
        raise CandidateError(f"{candidate} is merged into {target} already. {advice}")
    if not is_target and (alias := candidate.aliases.order_by("pk").first()):
        raise CandidateError(f"{alias} is merged into {candidate}. Undo that first.")


@retry_on_deadlock
@transaction.atomic
def undo_merges(*, candidates: Sequence[Candidate], by: Actor) -> int:
    """Let the votes of these candidates of one arena count for themselves again; those that were
    archived by the merge are active again. Return how many were merged."""
    if not candidates:
        return 0
    arena = lock_arena(candidates[0].arena_id)
    rows = arena.candidates.merged().select_for_update(of=("self",), no_key=True)
    ids = [candidate.pk for candidate in candidates]
    related = ("arena__team", "team", "merged_into")
    locked = list(rows.select_related(*related).filter(pk__in=ids).order_by("pk"))
    for one in locked:
        target, merged_at = one.merged_into, one.merged_at
        one.merged_into = one.merged_at = None
        if one.retired_at == merged_at:
            one.retired_at = None
            copies = Candidate.objects.filter(arena__live_of=arena, name=one.name)
            copies.filter(retired_at=merged_at, merged_into=None).update(retired_at=None)
        one.save(update_fields=["merged_into", "merged_at", "retired_at"])
        details = {"into": str(target), "into_candidate": target.pk, "at": merged_at.isoformat()}
        _record_merge(one, by, "undid a merge of candidates", **details)
    for live in Arena.objects.filter(live_of=arena) if locked else ():
        sync_pairs(arena=live)
    _after_merge(arena, locked)
    return len(locked)


def _record_merge(candidate: Candidate, by: Actor, action: str, **details: object) -> None:
    """Record it for the arena's team, and for the candidate's own."""
    details = {"candidate": candidate.pk} | details
    for team in {candidate.arena.team, candidate.team or candidate.arena.team}:
        audit.record_in(candidate.arena, by, action, candidate, team=team, **details)


def _after_merge(arena: Arena, candidates: Sequence[Candidate]) -> None:
    if candidates:
        sync_pairs(arena=arena, touched=candidates[0] if len(candidates) == 1 else None)
        announce(votes_changed, arena_id=arena.pk, reason="merged")


def is_copy_of(copy: Candidate, candidate: Candidate) -> bool:
    """Whether a candidate for live questions answers as this one of the arena beside it does."""
    return (copy.name, copy.content) == (candidate.name, candidate.content)


def _retire_live_copy(retired: Candidate, now: datetime) -> None:
    """Let nobody ask a live question of a candidate that was archived."""
    live = Arena.objects.filter(live_of=retired.arena_id).first()
    active = live.candidates.active().filter(name=retired.name) if live else []
    copies = [copy.pk for copy in active if is_copy_of(copy, retired)]
    if live and Candidate.objects.filter(pk__in=copies).update(retired_at=now):
        sync_pairs(arena=live)


def older_versions(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The active candidates of which there is a newer active version among `candidates`."""
    active = [candidate for candidate in candidates if candidate.retired_at is None]
    newest: dict[tuple[int | None, str], int] = {}
    for one in active:
        key = (one.team_id, one.name)
        newest[key] = max(newest.get(key, 0), one.version)
    return [one for one in active if one.version < newest[one.team_id, one.name]]


@retry_on_deadlock
@transaction.atomic
def delete_candidate(*, candidate: Candidate, by: Actor) -> None:
    """Delete one version of a candidate, with its answers and the runs that generated them.

    What these runs cost stays deducted from the budget. Raises CandidateError if anybody has voted
    on it.
    """
    arena = lock_arena(candidate.arena_id)
    locked = Candidate.objects.select_for_update(of=("self",)).select_related("arena__team", "team")
    current = locked.filter(pk=candidate.pk).first()
    if current is None:
        return
    if reason := reason_to_keep_candidate(current):
        raise CandidateError(reason)
    _record(current, by, "deleted a candidate")
    deduct_spent(runs=Run.objects.filter(candidate=current))
    _retire_live_copy(current, timezone.now())
    current.delete()
    sync_pairs(arena=arena)
    announce(votes_changed, arena_id=arena.pk, reason="deleted")


@transaction.atomic
def reason_to_keep_candidate(candidate: Candidate) -> str:
    """Return a sentence about why the candidate cannot be deleted; '' if it can."""
    if alias := candidate.aliases.order_by("pk").first():
        return f"{alias} is merged into this candidate. Undo that first."
    compared = Comparison.objects.filter(Q(left=candidate) | Q(right=candidate))
    return reason_to_keep(candidate.arena, compared, "candidate")


def _record(candidate: Candidate, by: Actor, action: str, **details: object) -> None:
    """Record `action` in the audit log of the candidate's own team, which knows its name."""
    details = {"candidate": candidate.pk} | details
    name, team = candidate.own_name, candidate.team
    audit.record_in(candidate.arena, by, action, name, team=team, **details)


def ignore_raters(raters: Q) -> None:
    """Exclude the votes of these raters (a filter on Rater) from disclosure."""
    _ignored_raters.append(raters)


def votes_so_far() -> Case:
    """Return an annotation: human and LLM-judge votes of a candidate that votes will disclose.

    None for all other candidates.
    """
    waits = Q(disclosed_at=None, private_until_votes__isnull=False)
    votes = _votes_on("left") + _votes_on("right")
    return Case(When(waits, then=votes), default=None, output_field=IntegerField())


def _votes_on(side: str) -> Coalesce:
    where = f"comparison__{side}"
    live = Vote.objects.live().filter(rater__kind__in=DISCLOSING_KINDS, **{where: OuterRef("pk")})
    for raters in _ignored_raters:
        live = live.exclude(rater__in=Rater.objects.filter(raters))
    count = live.order_by().values(where).annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(count), 0)


def disclose_due(*, now: datetime) -> int:
    """Disclose the candidates that have enough votes or whose date has come; return how many."""
    undisclosed = Candidate.objects.undisclosed().annotate(so_far=votes_so_far())
    due = Q(private_until__lte=now) | Q(so_far__gte=F("private_until_votes"))
    rows = undisclosed.filter(due).order_by("pk").values_list("pk", "so_far")
    return sum(_disclose(pk, votes, now) for pk, votes in rows)


@transaction.atomic
def _disclose(pk: int, votes: int | None, now: datetime) -> bool:
    locked = Candidate.objects.select_for_update(of=("self",), no_key=True).select_related("arena")
    candidate = locked.undisclosed().filter(pk=pk).first()
    if candidate is None:
        return False
    candidate.disclosed_at = now
    # Saved as an instance, so that signals clear cached pages that still show the mask.
    candidate.save(update_fields=["disclosed_at"])
    action = "disclosed a candidate"
    audit.record_in(candidate.arena, SYSTEM, action, candidate, team=candidate.team, votes=votes)
    return True


def with_ballots(arenas: ArenaQuerySet) -> Any:
    """Annotate `has_texts`, `takes_questions` (live ones) and `is_results_only`.

    An arena is results-only if it was imported with comparisons but without answers. A new arena
    has neither.
    """
    shared = Pair.objects.filter(arena=OuterRef("pk"), shared_prompts__gt=0)
    compared = Comparison.objects.filter(arena=OuterRef("pk"))
    answered = Response.objects.filter(candidate__arena=OuterRef("pk"))
    live = Arena.objects.filter(live_of=OuterRef("pk"), live_limit__gt=0)
    return arenas.annotate(
        has_texts=Exists(shared),
        takes_questions=Exists(live),
        is_results_only=Exists(compared) & ~Exists(answered),
    )
