"""Arenas of teams: made, and set up."""

from typing import Any, TypedDict, Unpack

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils.crypto import get_random_string
from django.utils.text import slugify

from arena.access import Actor
from arena.importers.base import BadRow, checked_name, checked_text
from arena.models import Arena, Candidate, Run, Team
from arena.services import audit
from arena.services.catalog import CriteriaRefused, create_arena, set_criteria
from arena.services.deadlocks import hold_arena
from arena.services.names import hidden_character
from arena.services.refusals import Refused

LONGEST_SLUG = 60
LONGEST_DESCRIPTION = 20_000
# A page stands at each of these already, where the arena's slug would be.
NOT_SLUGS = {"new"}
TRIES = 50
# 41 bits: an address that is drawn is found by nobody who tries, and taken by nobody before.
DRAWN_LENGTH = 8
DRAWN_FROM = "abcdefghjkmnpqrstuvwxyz0123456789"


class ArenaRefused(Refused):
    """An arena that cannot be made, or cannot be so."""


class ArenaFields(TypedDict, total=False):
    """What its team may say about an arena, besides its name."""

    question: str
    description: str
    criteria: str
    visibility: str
    voters: str
    open_to_teams: bool


class NamedArenaFields(ArenaFields, total=False):
    """What its team may change about an arena."""

    name: str


def create_team_arena(
    *, team: Team, by: Actor, name: str, slug: str = "", **fields: Unpack[ArenaFields]
) -> Arena:
    """Make an arena of `team`; without a slug it gets a free one by its name.

    A private arena's slug ends in letters drawn by chance, and so does an unlisted one's unless it
    is given: "this address is taken" must not tell a stranger that there is one. Raises
    ArenaRefused.
    """
    visibility = fields.get("visibility", Arena.Visibility.PUBLIC)
    named: dict[str, Any] = {**fields, "name": name}
    if visibility == Arena.Visibility.PRIVATE or (
        visibility == Arena.Visibility.UNLISTED and not slug
    ):
        return _create(team, by, named, _drawn_slug(slug or slugify(name) or "arena"))
    if slug:
        return _create(team, by, named, slug)
    for number in range(1, TRIES):
        candidate = _slug_of(name, number)
        if candidate in NOT_SLUGS or Arena.objects.filter(slug=candidate).exists():
            continue
        try:
            return _create(team, by, named, candidate)
        except ArenaRefused as refusal:
            if refusal.field != "slug":
                raise
    raise ArenaRefused("There are many arenas of this name. Choose another one.", field="name")


def _slug_of(name: str, number: int) -> str:
    suffix = "" if number == 1 else f"-{number}"
    return (slugify(name)[: LONGEST_SLUG - len(suffix)].strip("-") or "arena") + suffix


def _drawn_slug(beginning: str) -> str:
    drawn = get_random_string(DRAWN_LENGTH, DRAWN_FROM)
    return f"{beginning[: LONGEST_SLUG - DRAWN_LENGTH - 1].rstrip('-')}-{drawn}"


def _create(team: Team, by: Actor, fields: dict[str, Any], slug: str) -> Arena:
    fields = _checked(fields)
    criteria = fields.pop("criteria", "")
    if slug in NOT_SLUGS:
        raise ArenaRefused(f"An arena cannot have the address {slug!r}.", field="slug")
    _check_together(Arena(team=team, **fields))
    try:
        with transaction.atomic():
            arena = create_arena(slug=slug, team=team, **fields)
            _set_criteria(arena, criteria)
            audit.record(team=team, by=by, action="made an arena", subject=arena, arena=arena.slug)
    except ValidationError as invalid:
        raise _in_words(invalid) from None
    except IntegrityError:
        raise ArenaRefused("Another arena has this address already.", field="slug") from None
    return arena


def update_arena(*, arena: Arena, by: Actor, **fields: Unpack[NamedArenaFields]) -> Arena:
    """Change what the team says about its arena; what is not named stays. Raises ArenaRefused."""
    wanted = _checked(dict(fields))
    with transaction.atomic():
        found = hold_arena(arena.pk)
        changed = sorted(name for name, value in wanted.items() if getattr(found, name) != value)
        if not changed:
            return found
        _check_changes(found, changed, wanted)
        _set_criteria(found, wanted.pop("criteria", found.criteria))
        for name, value in wanted.items():
            setattr(found, name, value)
        _check_together(found)
        try:
            found.full_clean()
        except ValidationError as invalid:
            raise _in_words(invalid) from None
        found.save()
        audit.record(
            team=found.team,
            by=by,
            action="changed an arena",
            subject=found,
            arena=found.slug,
            fields=changed,
        )
    return found


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields without space around them, if the database can keep them."""
    checked = {}
    for name, value in fields.items():
        try:
            checked[name] = _value(name, value)
        except BadRow as bad:
            raise ArenaRefused(f"The {name} {bad.reason}.", field=name) from None
    return checked


def _value(name: str, value: Any) -> Any:
    if name in ("name", "question"):
        text = checked_name(value, name, limit=120 if name == "name" else 200)
        if name == "name" and (hidden := hidden_character(text)):
            raise BadRow(name, hidden)
        return text
    if name in ("description", "criteria"):
        text = checked_text(value, name).replace("\r\n", "\n").strip()
        # What criteria may have is checked where they are set.
        if name == "description" and len(text) > LONGEST_DESCRIPTION:
            raise BadRow(
                name, f"is {len(text):,} characters long; the limit is {LONGEST_DESCRIPTION:,}"
            )
        return text
    return value


def _check_changes(arena: Arena, changed: list[str], wanted: dict[str, Any]) -> None:
    """Refuse what an arena in use cannot become any more."""
    if "question" in changed and arena.votes.exists():
        raise ArenaRefused(
            "People have voted on this question, so it stays as it is. Make another arena to ask "
            "another question.",
            field="question",
        )
    if wanted.get("visibility") == Arena.Visibility.PRIVATE and guests_at_work(arena).exists():
        raise ArenaRefused(
            "Other teams have candidates in this arena, so it cannot become private: they would "
            "lose sight of their own. Retire those first.",
            field="visibility",
        )
    if wanted.get("visibility") == Arena.Visibility.PRIVATE and _paid_by_guests(arena).exists():
        raise ArenaRefused(
            "Another team pays for a run in this arena that is not over, so it cannot become "
            "private: they would lose sight of their money. Retiring the candidate ends its run.",
            field="visibility",
        )


def guests_at_work(arena: Arena) -> Any:
    """Return the candidates that other teams have entered, and that nobody has retired."""
    entered = Candidate.objects.filter(arena=arena, team__isnull=False, retired_at=None)
    return entered.exclude(team=arena.team_id)


def _paid_by_guests(arena: Arena) -> QuerySet[Run]:
    """Return the runs for which other teams' budgets are held."""
    return (
        Run.objects.not_over().filter(arena=arena, team__isnull=False).exclude(team=arena.team_id)
    )


def _check_together(arena: Arena) -> None:
    private = arena.visibility == Arena.Visibility.PRIVATE
    if private and arena.open_to_teams:
        raise ArenaRefused(
            "A private arena cannot be open to other teams, which do not see it. Let it be "
            "unlisted, or keep it to your own team.",
            field="open_to_teams",
        )
    if arena.team_id is None and (private or arena.voters == Arena.Voters.MEMBERS):
        raise ArenaRefused("This arena has no team that could have it to itself.")


def _set_criteria(arena: Arena, criteria: str) -> None:
    try:
        set_criteria(arena=arena, criteria=criteria)
    except CriteriaRefused as refusal:
        raise ArenaRefused(refusal.sentence, field=refusal.field) from None


def _in_words(invalid: ValidationError) -> ArenaRefused:
    """The first thing that the model has to say, with the field that it is about."""
    found = getattr(invalid, "message_dict", {"": invalid.messages})
    field, sentences = next(iter(found.items()))
    if field == "slug" and "already exists" in sentences[0]:
        return ArenaRefused("Another arena has this address already.", field="slug")
    return ArenaRefused(sentences[0], field="" if field == "__all__" else field)
