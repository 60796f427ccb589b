"""Arenas and what is compared in them: prompts, candidates, responses."""

from typing import Any

from django.db import models
from django.db.models import Q
from django.urls import reverse

from arena.models.imports import Import, Sourced

REVEALED = Q(source=None) | Q(source__revealed_at__isnull=False)


class ArenaQuerySet(models.QuerySet["Arena"]):
    def revealed(self) -> "ArenaQuerySet":
        """Arenas that may be read: those whose founding import has ended."""
        return self.filter(Q(founded_by=None) | Q(founded_by__revealed_at__isnull=False))


class Arena(models.Model):
    """One contest: its prompts, its candidates, the question that raters answer."""

    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=120)
    question = models.CharField(max_length=200, default="Which answer helps more?")
    description = models.TextField(blank=True)
    criteria = models.TextField(
        blank=True,
        help_text="What makes an answer better, in the words that LLM judges are given."
        " Empty: each rubric's own words.",
    )
    is_sample = models.BooleanField(default=False)
    anonymous_raters = models.BooleanField(
        default=True, help_text="May people vote without signing in?"
    )
    founded_by = models.ForeignKey(Import, models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ArenaQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("board", args=[self.slug])


class CatalogQuerySet(models.QuerySet[Any]):
    def revealed(self) -> "CatalogQuerySet":
        """Rows that may be read: made in the product, or of an import that has ended."""
        return self.filter(REVEALED)

    def active(self) -> "CatalogQuerySet":
        """Rows that may still be shown to raters."""
        return self.revealed().filter(retired_at=None)


class Prompt(Sourced):
    """One test input that every candidate answers. Its text may be unknown (board-only arenas)."""

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="prompts")
    external_id = models.CharField(max_length=200)
    category = models.CharField(max_length=100, blank=True)
    text = models.TextField(blank=True)
    reference = models.TextField(blank=True)
    rubric = models.TextField(
        blank=True, help_text="How LLM judges grade answers to this prompt; replaces the criteria."
    )
    html = models.TextField(null=True, editable=False)
    html_version = models.PositiveSmallIntegerField(default=0, editable=False)
    retired_at = models.DateTimeField(null=True, blank=True)

    objects = CatalogQuerySet.as_manager()

    class Meta(Sourced.Meta):
        constraints = [
            *Sourced.Meta.constraints,
            models.UniqueConstraint(
                fields=["arena", "external_id"], name="prompt_external_id_once_per_arena"
            ),
        ]

    def __str__(self) -> str:
        return self.external_id


class Candidate(Sourced):
    """One version of one entry to be ranked. Immutable once it has votes."""

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="candidates")
    name = models.CharField(max_length=200)
    version = models.PositiveIntegerField(default=1)
    model = models.CharField(max_length=200, blank=True)
    variant = models.CharField(max_length=200, blank=True)
    system_prompt = models.TextField(blank=True)
    user_template = models.TextField(blank=True)
    parameters = models.JSONField(default=dict, blank=True)
    notes = models.TextField(blank=True)
    retired_at = models.DateTimeField(null=True, blank=True)

    objects = CatalogQuerySet.as_manager()

    class Meta(Sourced.Meta):
        constraints = [
            *Sourced.Meta.constraints,
            models.UniqueConstraint(
                fields=["arena", "name", "version"], name="candidate_name_once_per_version"
            ),
        ]

    def __str__(self) -> str:
        return self.name if self.version == 1 else f"{self.name} v{self.version}"


class Response(Sourced):
    """A candidate's answer to a prompt."""

    candidate = models.ForeignKey(Candidate, models.CASCADE, related_name="responses")
    prompt = models.ForeignKey(Prompt, models.CASCADE, related_name="responses")
    text = models.TextField(blank=True)
    names_itself = models.BooleanField(
        default=False, help_text="The answer says which model wrote it, so votes on it are flagged."
    )
    html = models.TextField(null=True, editable=False)
    html_version = models.PositiveSmallIntegerField(default=0, editable=False)

    objects = CatalogQuerySet.as_manager()

    class Meta(Sourced.Meta):
        constraints = [
            *Sourced.Meta.constraints,
            models.UniqueConstraint(
                fields=["candidate", "prompt"], name="response_once_per_candidate_and_prompt"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.candidate_id} on {self.prompt_id}"
