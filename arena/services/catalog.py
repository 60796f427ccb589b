"""Writes to the catalogue: arenas, and the texts' stored HTML."""

from django.db import transaction

from arena.models import Arena, Run, Team
from arena.services.refusals import Refused
from arena.signals import announce, arena_created

LONGEST_CRITERIA = 4000


class CriteriaRefused(Refused):
    """Criteria that cannot be changed."""


@transaction.atomic
def create_arena(
    *,
    slug: str,
    name: str,
    question: str = "Which answer helps more?",
    description: str = "",
    is_sample: bool = False,
    team: Team | None = None,
    visibility: str = Arena.Visibility.PUBLIC,
    voters: str = Arena.Voters.ANYONE,
    open_to_teams: bool = False,
) -> Arena:
    """Create an arena; raises ValidationError with the reasons that a form would give."""
    arena = Arena(
        slug=slug,
        name=name,
        question=question,
        description=description,
        is_sample=is_sample,
        team=team,
        visibility=visibility,
        voters=voters,
        open_to_teams=open_to_teams,
    )
    arena.full_clean()
    arena.save()
    announce(arena_created, arena_id=arena.pk)
    return arena


@transaction.atomic
def set_criteria(*, arena: Arena, criteria: str) -> None:
    """Say what makes an answer better here, in the words that judges are given.

    Not while judges are at work: one run would hold verdicts under two sets of words. Raises
    CriteriaRefused.
    """
    words = criteria.strip()
    if len(words) > LONGEST_CRITERIA:
        raise CriteriaRefused(
            f"The criteria have {len(words):,} characters; at most {LONGEST_CRITERIA:,} will do.",
            field="criteria",
        )
    at_work = [Run.State.ORDERED, Run.State.OPEN, Run.State.PAUSED]
    run = arena.runs.filter(kind=Run.Kind.JUDGE, state__in=at_work).first()
    if run is not None and words != arena.criteria:
        raise CriteriaRefused(
            f"Run {run.pk} is judging by the words as they are. Wait until it is through, or "
            "cancel it, then change them.",
            field="criteria",
        )
    Arena.objects.filter(pk=arena.pk).update(criteria=words)
    arena.criteria = words
