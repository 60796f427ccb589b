"""Live questions: a rater's own question, and what two candidates answer while it is read."""

import uuid
from datetime import datetime

from django.db import models
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now
from django.urls import reverse

from arena.models.arenas import Arena
from arena.models.candidates import Candidate
from arena.models.comparisons import Comparison
from arena.models.constraints import check, index, unique
from arena.models.raters import Rater
from arena.models.votes import Vote

MOST_TURNS = 3
TURN = "live:"  # of the subjects of calls


class LiveConversationQuerySet(models.QuerySet["LiveConversation"]):
    def shared(self) -> "LiveConversationQuerySet":
        """Those that others may read: their writers say so, and have voted."""
        votes = Vote.objects.filter(comparison=OuterRef("comparison"), voided_at=None)
        return self.filter(Exists(votes), shared=True)


class LiveConversation(models.Model):
    """A rater's conversation with two candidates at once, each of which sees its own answers only.

    `reserve` was drawn with the pair, and took the place of a candidate that failed before anything
    was shown if `was_replaced`. The comparison is made once both have answered; its prompt has no
    text, so only the pages of live questions can show one.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting for its page"
        WRITING = "writing", "Being answered"
        ANSWERED = "answered", "Answered"
        STOPPED = "stopped", "Stopped by the rater"
        VOID = "void", "Void"

    class Problem(models.TextChoices):
        """Why a conversation is void."""

        FAILED = "failed", "A model failed"
        BUDGET = "budget", "No money was left"
        LOST = "lost", "The site stopped"

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    arena = models.ForeignKey(Arena, models.CASCADE, related_name="conversations")
    rater = models.ForeignKey(Rater, models.CASCADE, related_name="conversations")
    left = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    right = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    reserve = models.ForeignKey(Candidate, models.CASCADE, null=True, blank=True, related_name="+")
    reserves = models.PositiveSmallIntegerField(
        default=0, help_text="From how many candidates the reserve was drawn."
    )
    was_replaced = models.BooleanField(default=False)
    draw_probability = models.FloatField()
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    problem = models.CharField(max_length=10, choices=Problem, blank=True)
    names_itself = models.BooleanField(default=False)
    lease_expires_at = models.DateTimeField(
        null=True, blank=True, help_text="Until when the process that reads its answers holds it."
    )
    comparison = models.OneToOneField(
        Comparison, models.SET_NULL, null=True, blank=True, related_name="conversation"
    )
    shared = models.BooleanField(default=False, help_text="May others read it? Its writer says so.")
    reported_at = models.DateTimeField(null=True, blank=True)
    hidden_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    objects = LiveConversationQuerySet.as_manager()

    class Meta:
        constraints = [
            check("live_conversation_with_two", ~Q(left=F("right"))),
            check(
                "live_conversation_state_known",
                Q(state__in=["waiting", "writing", "answered", "stopped", "void"]),
            ),
            check("live_conversation_void_for_a_reason", ~Q(state="void") | ~Q(problem="")),
            check(
                "live_conversation_written_by_a_process",
                ~Q(state="writing") | Q(lease_expires_at__isnull=False),
            ),
            check("live_conversation_deleted_is_not_shared", Q(shared=False) | Q(deleted_at=None)),
            check(
                "live_conversation_draw_probability_in_range",
                Q(draw_probability__gt=0, draw_probability__lte=1),
            ),
        ]
        indexes = [
            index(
                "live_conversation_unfinished",
                "state",
                where=Q(state__in=["waiting", "writing"]),
            ),
        ]

    def __str__(self) -> str:
        return str(self.key)

    def get_absolute_url(self) -> str:
        return reverse("live_conversation", args=[self.arena.slug, self.key])

    def can_be_voted_on(self, now: datetime) -> bool:
        """Whether its rater has neither voted nor skipped it, and still may."""
        comparison = self.comparison
        if comparison is None or comparison.skipped_at or self.deleted_at:
            return False
        expires_at = comparison.expires_at
        return (expires_at is None or expires_at > now) and not comparison.votes.exists()

    @property
    def is_open(self) -> bool:
        """Whether answers are still to come."""
        return self.state in (self.State.WAITING, self.State.WRITING)


class LiveTurn(models.Model):
    """A question to both candidates, and their answers as far as they were shown."""

    conversation = models.ForeignKey(LiveConversation, models.CASCADE, related_name="turns")
    number = models.PositiveSmallIntegerField()
    question = models.TextField(blank=True)
    left_text = models.TextField(blank=True)
    right_text = models.TextField(blank=True)
    asked_at = models.DateTimeField(db_default=Now())
    begun_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When its answers were asked for; it costs nothing before.",
    )

    class Meta:
        ordering = ["number"]
        constraints = [
            unique("live_turn_once", "conversation", "number"),
            check("live_turn_number_in_range", Q(number__gte=1, number__lte=MOST_TURNS)),
        ]

    def __str__(self) -> str:
        return f"{self.conversation_id}/{self.number}"

    @property
    def subject(self) -> str:
        """What the calls for its answers are about."""
        return f"{TURN}{self.pk}"
