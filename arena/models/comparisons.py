"""The comparisons issued to raters."""

import uuid
from datetime import datetime

from django.db import models
from django.db.models import F, Q
from django.urls import reverse

from arena.models.arenas import Arena
from arena.models.candidates import Candidate
from arena.models.constraints import check, unique
from arena.models.imports import Sourced
from arena.models.prompts import Prompt
from arena.models.raters import Rater
from arena.models.responses import Response
from arena.models.runs import Run


class ComparisonQuerySet(models.QuerySet["Comparison"]):
    def open(self, now: datetime) -> "ComparisonQuerySet":
        """Comparisons still waiting for their rater: not skipped, not expired, never voted on."""
        return self.filter(Q(expires_at__gt=now), skipped_at=None, votes__isnull=True)

    def with_texts(self) -> "ComparisonQuerySet":
        """Load everything that a page shows about a comparison in one query."""
        return self.select_related(
            "arena", "prompt", "left", "right", "left_response", "right_response"
        )


class Comparison(Sourced):
    """One prompt and two candidates' responses, sides fixed, issued to one rater.

    The candidates are stored next to the responses because every fit reads them, and because an
    arena without texts has no responses. Pages identify a comparison by `key` alone: its id would
    reveal the order in which comparisons were made.
    """

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    arena = models.ForeignKey(Arena, models.CASCADE, related_name="comparisons")
    rater = models.ForeignKey(Rater, models.CASCADE, related_name="comparisons")
    prompt = models.ForeignKey(Prompt, models.CASCADE, null=True, blank=True, related_name="+")
    left = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    right = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    left_response = models.ForeignKey(
        Response, models.CASCADE, null=True, blank=True, related_name="+"
    )
    right_response = models.ForeignKey(
        Response, models.CASCADE, null=True, blank=True, related_name="+"
    )
    run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="comparisons")
    draw_probability = models.FloatField(null=True, blank=True)
    names_itself = models.BooleanField(default=False)
    # Rare, so the constraint's partial index is better than one of all comparisons.
    repeats = models.ForeignKey(
        "self",
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        help_text="The comparison that its rater is asked about again; this vote never counts.",
    )
    issued_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    skipped_at = models.DateTimeField(null=True, blank=True)

    objects = ComparisonQuerySet.as_manager()

    class Meta(Sourced.Meta):
        constraints = [
            *Sourced.Meta.constraints,
            check("comparison_of_two_candidates", ~Q(left=F("right"))),
            check(
                "comparison_of_two_responses_or_none",
                Q(left_response__isnull=True, right_response__isnull=True)
                | Q(left_response__isnull=False, right_response__isnull=False)
                & ~Q(left_response=F("right_response")),
            ),
            check(
                "comparison_draw_probability_in_range",
                Q(draw_probability__isnull=True)
                | Q(draw_probability__gt=0, draw_probability__lte=1),
            ),
            unique("comparison_repeated_once", "repeats", where=Q(repeats__isnull=False)),
        ]

    def __str__(self) -> str:
        return str(self.key)

    def get_absolute_url(self) -> str:
        return reverse("comparison", args=[self.arena.slug, self.key])

    @property
    def hides_names(self) -> bool:
        """Whether its rater may not see the names yet, because others have not voted yet."""
        return self.run is not None and self.run.hides_names and not self.run.is_over
