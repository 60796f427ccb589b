"""Whether an arena has answers to vote on; and if not, whether it ever had any."""

from typing import Any

from django.db.models import Exists, OuterRef

from arena.models import Comparison, Pair, Response
from arena.models.catalog import ArenaQuerySet


def with_ballots(arenas: ArenaQuerySet) -> Any:
    """Annotate `has_texts` and `is_results_only`.

    An arena is results only if it has comparisons, but no answer of any candidate's: it came so.
    One that is being set up has neither.
    """
    shared = Pair.objects.filter(arena=OuterRef("pk"), shared_prompts__gt=0)
    compared = Comparison.objects.filter(arena=OuterRef("pk"))
    answered = Response.objects.filter(candidate__arena=OuterRef("pk"))
    return arenas.annotate(
        has_texts=Exists(shared), is_results_only=Exists(compared) & ~Exists(answered)
    )
