"""Creating, changing and deleting arenas."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.text import slugify

from arena.actors import Actor
from arena.errors import ServiceError, checked_fields
from arena.models import (
    Arena,
    Candidate,
    Comparison,
    Import,
    Pair,
    Prompt,
    Rater,
    Response,
    Run,
    Team,
    Vote,
)
from arena.models.imports import DELETED
from arena.services import audit
from arena.services.budgets import deduct_spent
from arena.services.locks import lock_arena
from arena.services.voting import apply_rules
from arena.signals import announce, arena_created
from arena.validation import numbered

LONGEST_SLUG = 60
# Of the settings, those that decide which votes count.
COUNTING = {"self_identifying", "counts", "counts_tokens", "visibility"}
# Those that live questions share with the arena whose raters ask them.
LIVE_SETTINGS = (
    *("question", "description", "strengths", "faults", "reasons_first", "visibility"),
    *("self_identifying", "counts", "rater_cap", "network_share"),
)
RESERVED_SLUGS = {"new"}  # pages with these addresses exist
MAX_SLUG_NUMBER = 49
# 40 bits: nobody guesses a random address, and collisions are negligible.
RANDOM_LENGTH = 8
RANDOM_LETTERS = "abcdefghjkmnpqrstuvwxyz0123456789"
DELETED_AT_ONCE = 500


class CriteriaError(ServiceError):
    """Criteria that cannot be changed."""


class ArenaError(ServiceError):
    """An arena that cannot be created or changed."""


@transaction.atomic
def create_arena(
    *,
    slug: str,
    name: str,
    question: str = "Which answer helps more?",
    description: str = "",
    is_sample: bool = False,
    team: Team | None = None,
    **settings: Any,
) -> Arena:
    """Create an arena. Raises ValidationError with its fields' messages."""
    arena = Arena(
        slug=slug,
        name=name,
        question=question,
        description=description,
        is_sample=is_sample,
        team=team,
        **settings,
    )
    arena.full_clean()
    arena.save()
    announce(arena_created, arena_id=arena.pk)
    return arena


@transaction.atomic
def set_criteria(*, arena: Arena, criteria: str) -> None:
    """Set the criteria for a better answer in this arena, which judges are given.

    Raises CriteriaError, also while a judge run is unfinished: its verdicts would follow two sets
    of criteria.
    """
    criteria = checked_fields(Arena, {"criteria": criteria}, CriteriaError)["criteria"]
    run = arena.runs.filter(kind=Run.Kind.JUDGE).not_over().first()
    if run is not None and criteria != arena.criteria:
        raise CriteriaError(
            f"Run {run.pk} uses the current criteria. Wait for it to finish, or cancel it, "
            "before you change them.",
            field="criteria",
        )
    Arena.objects.filter(pk=arena.pk).update(criteria=criteria)
    arena.criteria = criteria


def create_team_arena(*, team: Team, by: Actor, name: str, slug: str = "", **fields: Any) -> Arena:
    """Create an arena of `team`; by default its slug is a free one made from its name.

    The slug of an arena that is not public then ends in random letters: "this address is taken"
    must not reveal what an arena is called, unless its team chose that. Raises ArenaError.
    """
    visibility = fields.get("visibility", Arena.Visibility.PUBLIC)
    named: dict[str, Any] = {**fields, "name": name}
    if slug:
        return _create(team, by, named, slug)
    if visibility != Arena.Visibility.PUBLIC:
        return _create(team, by, named, random_slug(slugify(name)))
    for number in range(1, MAX_SLUG_NUMBER + 1):
        suffix = "" if number == 1 else f"-{number}"
        slug = (slugify(name)[: LONGEST_SLUG - len(suffix)].strip("-") or "arena") + suffix
        if slug in RESERVED_SLUGS or Arena.objects.filter(slug=slug).exists():
            continue
        try:
            return _create(team, by, named, slug)
        except ArenaError as error:  # the slug was taken meanwhile
            if error.field != "slug":
                raise
    raise ArenaError("Too many arenas have this name. Choose another name.", field="name")


def random_slug(slug: str) -> str:
    """Return a slug that begins like `slug` and that nobody can guess."""
    letters = get_random_string(RANDOM_LENGTH, RANDOM_LETTERS)
    return f"{(slug or 'arena')[: LONGEST_SLUG - RANDOM_LENGTH - 1].rstrip('-')}-{letters}"


def _create(team: Team, by: Actor, fields: dict[str, Any], slug: str) -> Arena:
    fields = checked_fields(Arena, fields, ArenaError)
    criteria = fields.pop("criteria", "")
    if slug in RESERVED_SLUGS:
        raise ArenaError(f"The address {slug!r} is reserved. Choose another one.", field="slug")
    _check_combination(Arena(team=team, **fields))
    try:
        with transaction.atomic():
            arena = create_arena(slug=slug, team=team, **fields)
            _set_criteria(arena, criteria)
            audit.record_in(arena, by, "made an arena")
    except ValidationError as invalid:
        raise _first_error(invalid) from None
    except IntegrityError:
        raise ArenaError("Another arena already has this address.", field="slug") from None
    return arena


def update_arena(*, arena: Arena, by: Actor, **fields: Any) -> Arena:
    """Change settings of an arena; omitted ones stay as they are. Raises ArenaError."""
    clean = checked_fields(Arena, fields, ArenaError)
    with transaction.atomic():
        locked = lock_arena(arena.pk)
        changed = sorted(name for name, value in clean.items() if getattr(locked, name) != value)
        if not changed:
            return locked
        _check_changes(locked, changed, clean)
        _set_criteria(locked, clean.pop("criteria", locked.criteria))
        for name, value in clean.items():
            setattr(locked, name, value)
        _check_combination(locked)
        try:
            locked.full_clean()
        except ValidationError as invalid:
            raise _first_error(invalid) from None
        locked.save()
        if COUNTING.intersection(changed):
            apply_rules(arena=locked)
        _follow_settings(locked)
        audit.record_in(locked, by, "changed an arena", fields=changed)
    return locked


def _follow_settings(arena: Arena) -> None:
    """Give the arena's live questions the settings that it has now."""
    live = Arena.objects.filter(live_of=arena).first()
    if live is not None:
        Arena.objects.filter(pk=live.pk).update(
            **{name: getattr(arena, name) for name in LIVE_SETTINGS}
        )
        apply_rules(arena=live)


@transaction.atomic
def create_raters_link(*, arena: Arena, by: Actor) -> None:
    """Let whoever has the new link vote in a private arena; an earlier link stops working."""
    Arena.objects.filter(pk=arena.pk).update(raters_salt=get_random_string(32))
    audit.record_in(arena, by, "created a link for raters")


@transaction.atomic
def revoke_raters_link(*, arena: Arena, by: Actor) -> None:
    """Close the arena to whoever voted with the link; their votes stay."""
    Arena.objects.filter(pk=arena.pk).update(raters_salt="")
    audit.record_in(arena, by, "revoked a link for raters")


def _check_changes(arena: Arena, changed: list[str], fields: dict[str, Any]) -> None:
    """Raise ArenaError for changes that an arena in use does not allow."""
    if "question" in changed and arena.votes.exists():
        raise ArenaError(
            "This arena already has votes, so its question cannot be changed. Create another arena "
            "to ask another question.",
            field="question",
        )
    if fields.get("visibility") != Arena.Visibility.PRIVATE:
        return
    of_guests = Q(team__isnull=False) & ~Q(team=arena.team_id)
    if Candidate.objects.filter(of_guests, arena=arena, retired_at=None).exists():
        raise ArenaError(
            "Other teams have candidates in this arena and could no longer see them, so it cannot "
            "become private. Archive those candidates first.",
            field="visibility",
        )
    if Run.objects.not_over().filter(of_guests, arena=arena).exists():
        raise ArenaError(
            "Another team pays for an unfinished run in this arena and could no longer see it, so "
            "the arena cannot become private. Archive the candidate to cancel its run.",
            field="visibility",
        )


def _check_combination(arena: Arena) -> None:
    private = arena.visibility == Arena.Visibility.PRIVATE
    if private and arena.open_to_teams:
        raise ArenaError(
            "Other teams cannot see a private arena, so it cannot be open to them. Make it "
            "unlisted, or close it to other teams.",
            field="open_to_teams",
        )
    if arena.anchor and arena.anchor.arena_id != arena.pk:
        raise ArenaError("Choose a candidate of this arena.", field="anchor")
    if arena.team_id is None and (private or arena.voters == Arena.Voters.MEMBERS):
        raise ArenaError(
            "This arena belongs to no team, so it cannot be limited to a team's members."
        )


def _set_criteria(arena: Arena, criteria: str) -> None:
    try:
        set_criteria(arena=arena, criteria=criteria)
    except CriteriaError as error:
        raise ArenaError(error.message, field=error.field) from None


def _first_error(invalid: ValidationError) -> ArenaError:
    """Return the model's first error message, with its field."""
    by_field = getattr(invalid, "message_dict", {"": invalid.messages})
    field, messages = next(iter(by_field.items()))
    if field == "slug" and "already exists" in messages[0]:
        return ArenaError("Another arena already has this address.", field="slug")
    return ArenaError(messages[0], field="" if field == "__all__" else field)


def loss_of_arena(arena: Arena) -> str:
    """Return a sentence about what is lost when the arena is deleted."""
    votes, prompts = arena.votes.count(), arena.prompts.count()
    return (
        f"Deleting {arena} also permanently deletes {numbered(prompts, 'prompt')}, "
        f"{numbered(arena.candidates.count(), 'candidate')}, their answers, the leaderboards, the "
        f"vote log and {numbered(votes, 'vote')}. Export it first."
    )


def delete_arena(*, arena: Arena, by: Actor) -> None:
    """Delete an arena with everything in it, a batch at a time; its experiments and its live
    questions are in it, too.

    The arena is hidden first. After an interruption it stays hidden; call this again.
    """
    _hide(arena, by)
    inside = list(Arena.objects.filter(Q(origin=arena) | Q(live_of=arena)).order_by("pk"))
    for one in inside:  # all at once, so that none of them goes on meanwhile
        _hide(one, by)
    for one in inside:
        delete_arena(arena=one, by=by)
    arena.candidates.update(merged_into=None, merged_at=None)
    for rows in (
        Vote.objects.filter(arena=arena),
        Comparison.objects.filter(arena=arena),
        Response.objects.filter(prompt__arena=arena),
        Pair.objects.filter(arena=arena),
        Candidate.objects.filter(arena=arena),
        Prompt.objects.filter(arena=arena),
        Rater.objects.filter(arena=arena),
    ):
        _delete_all(rows)
    with transaction.atomic():
        Arena.objects.filter(pk=arena.pk).update(founded_by=None)
        arena.delete()


def _delete_all(rows: QuerySet[Any]) -> None:
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:DELETED_AT_ONCE]):
        rows.model.objects.filter(pk__in=ids).delete()


@transaction.atomic
def _hide(arena: Arena, by: Actor) -> None:
    """Hide the arena from every page, by attaching it to an import that is never revealed.

    Its runs are cancelled, so that nothing more is paid for; their cost is deducted from the
    teams' budgets, because the runs are deleted too.
    """
    hiding_import, is_first_call = Import.objects.get_or_create(
        arena=arena,
        sha256=DELETED,
        defaults={"file_name": "", "format": DELETED, "started_at": timezone.now()},
    )
    Arena.objects.filter(pk=arena.pk).update(founded_by=hiding_import)
    unfinished = Run.objects.not_over().filter(arena=arena)
    unfinished.update(state=Run.State.CANCELLED, closed_at=timezone.now())
    if is_first_call:
        deduct_spent(runs=Run.objects.filter(arena=arena))
        audit.record_in(arena, by, "deleted an arena")
