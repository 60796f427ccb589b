"""Rubrics that teams write, in versions that never change."""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse

from arena.models import Team
from arena.models.constraints import check, unique
from arena.models.fields import Check
from arena.validation import clean_paragraphs, clean_visible_text

FILE_LIMIT = 20_000  # characters
REASON_LIMIT = 300
# Addresses beside those of rubrics, and what may follow the slash in the name of a judge.
RESERVED_SLUGS = ["new", "import", "trials", "abstain", "tie", "average"]
FILE_COLUMNS = {
    "rubric.toml": "toml",
    "system.md": "system",
    "user.md": "user",
    "note.md": "note",
}


def forget_unless_used(collector: Any, field: Any, rubrics: Any, using: str) -> None:
    """What a deleted team leaves: rubrics that judges use, because verdicts depend on them."""
    used = rubrics.filter(versions__judges__isnull=False).values("pk")
    models.SET_NULL(collector, field, rubrics.filter(pk__in=used), using)
    models.CASCADE(collector, field, rubrics.exclude(pk__in=used), using)


class TeamRubric(models.Model):
    """A rubric of a team. One that judges use outlives its team: only operators see it then."""

    team = models.ForeignKey(Team, forget_unless_used, null=True, related_name="rubrics")
    slug = models.SlugField(max_length=40)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            unique("team_rubric_slug_once", "team", "slug"),
            check("team_rubric_slug_not_reserved", ~Q(slug__in=RESERVED_SLUGS)),
        ]

    def __str__(self) -> str:
        return self.slug

    def get_absolute_url(self) -> str:
        assert self.team is not None, "only rubrics of teams have pages"
        return reverse("team_rubric", args=[self.team.slug, self.slug])


def file_field(**options: Any) -> "models.TextField[str, str]":
    return models.TextField(
        validators=[Check(clean_paragraphs, limit=FILE_LIMIT, strip=False)], **options
    )


class RubricVersion(models.Model):
    """A version of a team's rubric: the texts of its files. Immutable.

    `digest` is that of the files, as of a folder with the same files. `note` is empty for a rubric
    without a grading note. `reason` says what was changed, and why.
    """

    rubric = models.ForeignKey(TeamRubric, models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    digest = models.CharField(max_length=64)
    toml = file_field(help_text="rubric.toml")
    system = file_field(help_text="system.md")
    user = file_field(help_text="user.md")
    note = file_field(blank=True, help_text="note.md")
    reason = models.CharField(
        max_length=REASON_LIMIT,
        blank=True,
        validators=[Check(clean_visible_text, limit=REASON_LIMIT)],
    )
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    made_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            unique("rubric_version_number_once", "rubric", "number"),
            unique("rubric_version_digest_once", "rubric", "digest"),
            check("rubric_version_numbered_from_one", Q(number__gte=1)),
        ]

    def __str__(self) -> str:
        return f"{self.rubric}, version {self.number}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save a new version; changing an existing one is refused."""
        if self.pk is not None:
            raise ValueError("A version of a rubric is immutable: write another one.")
        super().save(*args, **kwargs)

    def get_absolute_url(self) -> str:
        assert self.rubric.team is not None, "only rubrics of teams have pages"
        place = [self.rubric.team.slug, self.rubric.slug, self.number]
        return reverse("rubric_version", args=place)

    @property
    def name(self) -> str:
        """What judges call it, such as `acme/support.2`."""
        assert self.rubric.team is not None, "judges are registered while the team exists"
        return f"{self.rubric.team.slug}/{self.rubric.slug}.{self.number}"

    @property
    def texts(self) -> dict[str, str]:
        """The texts of its files by name, without a note.md that it does not have."""
        texts = {name: getattr(self, column) for name, column in FILE_COLUMNS.items()}
        return {name: text for name, text in texts.items() if text or name != "note.md"}
