"""Writes to the catalogue: arenas, and the texts' stored HTML."""

from django.db import transaction

from arena.models import Arena
from arena.signals import announce, arena_created


@transaction.atomic
def create_arena(
    *,
    slug: str,
    name: str,
    question: str = "Which answer helps more?",
    description: str = "",
    is_sample: bool = False,
    anonymous_raters: bool = True,
) -> Arena:
    """Create an arena; raises ValidationError with the reasons that a form would give."""
    arena = Arena(
        slug=slug,
        name=name,
        question=question,
        description=description,
        is_sample=is_sample,
        anonymous_raters=anonymous_raters,
    )
    arena.full_clean()
    arena.save()
    announce(arena_created, arena_id=arena.pk)
    return arena
