"""Experiments: a team's drafts measured against its baseline, in an arena of their own."""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse

from arena.models import Arena, Candidate, Team
from arena.models.constraints import check, index
from ranking.stats.claim import Registration

MOST_DRAFTS = 4
MOST_PROMPTS = 2_000
MARGIN = 0.45
LOOKS = 5
SIDES = {"both": 0, "worse": -1}


class Experiment(models.Model):
    """Up to four drafts, measured against a baseline by judges, people or both.

    It happens in a private `arena` of its own, which has copies of the prompts and of the baseline
    (`copy`); its other active candidates are the drafts. So nothing of it reaches the raters and
    leaderboards of `arena.origin` before a draft is entered there.

    A judge run is registered: its `size` is fixed and its `order` of prompts drawn before the first
    call, and it is looked at after each fifth. With `side` -1 it tests only whether a draft is
    worse. Money is in nano-dollars. `twin`: its only draft is the baseline itself, answered again.
    """

    class State(models.TextChoices):
        DRAFT = "draft", "Draft"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        STOPPED = "stopped", "Stopped"

    arena = models.OneToOneField(Arena, models.CASCADE, related_name="experiment")
    baseline = models.ForeignKey(
        Candidate, models.SET_NULL, null=True, blank=True, related_name="experiments"
    )
    copy = models.ForeignKey(Candidate, models.SET_NULL, null=True, blank=True, related_name="+")
    twin = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=State, default=State.DRAFT)
    reason = models.CharField(max_length=500, blank=True, help_text="Why it was stopped.")
    judges = models.JSONField(default=list, blank=True)
    own_family = models.BooleanField(default=False)
    people = models.PositiveIntegerField(default=0, help_text="Human votes wanted on each draft.")
    counts_votes = models.BooleanField(
        default=False,
        help_text="Whether human votes on a draft count on the leaderboard once it is entered.",
    )
    size = models.PositiveIntegerField(default=0)
    order = models.JSONField(default=list, blank=True)
    asked = models.JSONField(
        default=list, blank=True, help_text="The candidates whose missing answers were ordered."
    )
    side = models.SmallIntegerField(default=0)
    margin = models.FloatField(default=MARGIN)
    detect = models.FloatField(null=True, blank=True)
    family = models.PositiveSmallIntegerField(default=1)
    at_most = models.PositiveBigIntegerField(null=True, blank=True)
    expected = models.PositiveBigIntegerField(null=True, blank=True)
    cap = models.PositiveBigIntegerField(null=True, blank=True)
    claims = models.JSONField(default=dict, blank=True, help_text="Claims by people, by draft.")
    digest = models.CharField(max_length=64, blank=True, db_index=True)
    promoted = models.ForeignKey(
        Candidate, models.SET_NULL, null=True, blank=True, related_name="promotions"
    )
    promoted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    promoted_at = models.DateTimeField(null=True, blank=True)
    why = models.TextField(blank=True, help_text="Why the draft was promoted.")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())
    registered_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True, help_text="The latest time.")
    finished_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(help_text="When the team last looked at it or changed it.")

    class Meta:
        constraints = [
            check("experiment_state_known", Q(state__in=["draft", "running", "done", "stopped"])),
            check(
                "experiment_registered_before_it_runs",
                Q(state__in=["draft", "stopped"]) | Q(registered_at__isnull=False, size__gt=0),
            ),
            check("experiment_side_known", Q(side__in=[-1, 0])),
            check("experiment_margin_below_half", Q(margin__gt=0, margin__lt=0.5)),
            check(
                "experiment_detects_a_difference",
                Q(detect=None) | Q(detect__gt=0.5, detect__lte=1),
            ),
            check("experiment_promoted_at_a_time", Q(promoted=None) | Q(promoted_at__isnull=False)),
        ]
        indexes = [index("experiment_running", "state", where=Q(state="running"))]

    def __str__(self) -> str:
        return self.arena.name

    def get_absolute_url(self) -> str:
        return reverse("experiment", args=[self.arena.slug])

    @property
    def team(self) -> Team:
        team = self.arena.team
        assert team is not None, "a private arena has a team"
        return team

    @property
    def origin(self) -> Arena:
        origin = self.arena.origin
        assert origin is not None, "an experiment's arena has an origin"
        return origin

    @property
    def drafts(self) -> "models.QuerySet[Any]":
        """Its active candidates but the copy of the baseline, oldest first."""
        return self.arena.candidates.active().exclude(pk=self.copy_id).order_by("pk")

    @property
    def is_open(self) -> bool:
        """Whether drafts can still be changed."""
        return self.state == self.State.DRAFT

    @property
    def registration(self) -> Registration:
        return Registration(self.size, LOOKS, self.side, self.family)
