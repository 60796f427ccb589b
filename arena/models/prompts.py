"""The prompts of an arena."""

from zlib import crc32

from django.db import models
from django.db.models import Q

from arena.models.arenas import Arena
from arena.models.constraints import check, unique
from arena.models.fields import Check
from arena.models.imports import CatalogQuerySet, Sourced
from arena.validation import (
    CATEGORY_LIMIT,
    MOST_VARIABLES,
    PROMPT_LIMIT,
    clean_name,
    clean_paragraphs,
    clean_variables,
)

SUBJECT = "prompt:"


class Prompt(Sourced):
    """One test input that every candidate answers. Its text may be unknown (results only)."""

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="prompts")
    external_id = models.CharField(max_length=200)
    category = models.CharField(
        max_length=CATEGORY_LIMIT,
        blank=True,
        validators=[Check(clean_name, limit=CATEGORY_LIMIT, required=False)],
    )
    document = models.CharField(
        max_length=CATEGORY_LIMIT,
        blank=True,
        validators=[Check(clean_name, limit=CATEGORY_LIMIT, required=False)],
        help_text="What the prompt comes from, such as a source text or a customer. Votes on"
        " prompts of one document count as one group.",
    )
    text = models.TextField(
        "prompt",
        blank=True,
        validators=[Check(clean_paragraphs, limit=PROMPT_LIMIT, required=True)],
    )
    messages = models.JSONField(
        "conversation",
        null=True,
        blank=True,
        help_text="Instead of a single text: a JSON list of messages, each with role and content, "
        'such as [{"role": "user", "content": "Hello!"}].',
    )
    variables = models.JSONField(
        default=dict,
        blank=True,
        validators=[Check(clean_variables)],
        help_text='Values for templates besides {{ prompt }}, for example {"customer": "Ada"}.'
        f" At most {MOST_VARIABLES}. Visible to teams that can add candidates.",
    )
    reference = models.TextField(
        "reference answer",
        blank=True,
        validators=[Check(clean_paragraphs, limit=PROMPT_LIMIT)],
        help_text="Shown to LLM judges whose rubric uses it, never to raters or candidates.",
    )
    rubric = models.TextField(
        "rubric for this prompt",
        blank=True,
        validators=[Check(clean_paragraphs, limit=PROMPT_LIMIT)],
        help_text="How LLM judges grade answers to this prompt, in place of the arena’s criteria.",
    )
    html = models.TextField(null=True, editable=False)
    html_version = models.PositiveSmallIntegerField(default=0, editable=False)
    retired_at = models.DateTimeField(null=True, blank=True)
    # Since when visitors may read its answers with their authors: it is never voted on again, even
    # if the showcase no longer has it.
    showcased_at = models.DateTimeField(null=True, blank=True, editable=False)
    in_showcase = models.BooleanField(default=False, db_default=False, editable=False)

    objects = CatalogQuerySet.as_manager()

    # What raters are shown, what templates may use, and what only the arena's team may read.
    SHOWN, TEAM_ONLY = ("text", "messages", "category"), ("reference", "rubric")
    CONTENT = (*SHOWN, *TEAM_ONLY, "document", "variables")

    class Meta(Sourced.Meta):
        constraints = [
            *Sourced.Meta.constraints,
            unique("prompt_external_id_once_per_arena", "arena", "external_id"),
            check(
                "prompt_once_showcased_is_archived",
                Q(showcased_at=None) | Q(retired_at__isnull=False),
            ),
            check(
                "prompt_in_the_showcase_since",
                Q(in_showcase=False) | Q(showcased_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.external_id

    def is_held_out(self, arena: Arena) -> bool:
        """Whether its answers are never published with names; this depends only on its id."""
        return crc32(f"{arena.pk}:{self.external_id}".encode()) % 100 < arena.held_out


def subject_of(prompt_id: int) -> str:
    """Return the `subject` of calls for answers to this prompt."""
    return f"{SUBJECT}{prompt_id}"


def prompt_of(subject: str) -> int:
    """Return the prompt id in a call's `subject`."""
    return int(subject.removeprefix(SUBJECT))
