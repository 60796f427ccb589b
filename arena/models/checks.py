"""The checks that answers pass or fail without a judge."""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from arena.checks import CHECK_NAME_LIMIT, EXPECTED_LIMIT, GUARD, KINDS, MOST_ALLOWED, Rule
from arena.models.arenas import Arena
from arena.models.constraints import check, unique
from arena.models.fields import Check
from arena.models.imports import REVEALED, Import
from arena.models.prompts import Prompt
from arena.validation import clean_paragraphs, clean_visible_name


class AnswerCheckQuerySet(models.QuerySet["AnswerCheck"]):
    def revealed(self) -> "AnswerCheckQuerySet":
        """Checks that can be read: created here, or from an import that has finished."""
        return self.filter(REVEALED)

    def of_answers(self) -> "AnswerCheckQuerySet":
        """Those that an answer passes or fails by itself: all but guards."""
        return self.revealed().exclude(kind=GUARD)


class AnswerCheck(models.Model):
    """A rule for the answers to one prompt, or to every prompt of the arena.

    `digest` stands for the rule, because `expected` is too long for an index. A guard marks a
    prompt that must not be lost, which votes decide.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="checks")
    prompt = models.ForeignKey(Prompt, models.CASCADE, null=True, blank=True, related_name="checks")
    name = models.CharField(
        max_length=CHECK_NAME_LIMIT,
        blank=True,
        validators=[Check(clean_visible_name, limit=CHECK_NAME_LIMIT)],
        help_text="If empty, it says what is checked.",
    )
    kind = models.CharField(max_length=20)
    expected = models.TextField(
        blank=True, validators=[Check(clean_paragraphs, limit=EXPECTED_LIMIT, strip=False)]
    )
    negated = models.BooleanField(default=False, db_default=False)
    allowed = models.PositiveSmallIntegerField(
        default=0,
        db_default=0,
        help_text="How many answers of a candidate may fail it.",
    )
    digest = models.CharField(max_length=32, editable=False)
    source = models.ForeignKey(Import, models.CASCADE, null=True, blank=True, related_name="+")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())

    objects = AnswerCheckQuerySet.as_manager()

    class Meta:
        constraints = [
            check("check_kind_known", Q(kind__in=list(KINDS))),
            check("check_guard_has_a_prompt", ~Q(kind=GUARD) | Q(prompt__isnull=False)),
            check("check_allows_so_many", Q(allowed__lte=MOST_ALLOWED)),
            unique("check_once_per_arena", "arena", "digest", where=Q(prompt=None)),
            unique("check_once_per_prompt", "prompt", "digest", where=Q(prompt__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def rule(self) -> Rule:
        return Rule(self.kind, self.expected, self.negated)

    @property
    def fields(self) -> dict[str, Any]:
        """What a file says of it; a name that says no more than the rule is left out."""
        fields: dict[str, Any] = {"kind": self.kind}
        fields |= {"expected": self.expected} if self.expected else {}
        fields |= {"negated": True} if self.negated else {}
        fields |= {"name": self.name} if self.name != self.rule.name else {}
        return fields | ({"allowed": self.allowed} if self.allowed else {})
