"""Trials: a judge with a changed rubric, compared with the judge as it is."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.urls import reverse

from arena.models.constraints import check, unique
from judges.models.judges import Judge
from judges.models.labels import LabelSet
from judges.models.rubrics import RubricVersion


class RubricTrial(models.Model):
    """The judge `before` and the same judge with `version`, `after`, on labelled pairs.

    At most `pairs` of the pairs in `labels_in` that are kept for measuring.
    """

    version = models.ForeignKey(RubricVersion, models.CASCADE, related_name="trials")
    before = models.ForeignKey(Judge, models.PROTECT, related_name="+")
    after = models.ForeignKey(Judge, models.PROTECT, related_name="+")
    labels_in = models.ForeignKey(LabelSet, models.CASCADE, related_name="trials")
    pairs = models.PositiveIntegerField()
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    made_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            unique("rubric_trial_once", "version", "before", "after", "labels_in", "pairs"),
            check("rubric_trial_of_two_judges", ~Q(before=F("after"))),
            check("rubric_trial_of_some_pairs", Q(pairs__gte=1)),
        ]

    def __str__(self) -> str:
        return f"{self.before} and {self.after}"

    def get_absolute_url(self) -> str:
        team = self.version.rubric.team
        assert team is not None, "only rubrics of teams have pages"
        return reverse("rubric_trial", args=[team.slug, self.pk])
