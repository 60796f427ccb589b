"""Arenas and what is compared in them: prompts, candidates, responses."""

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone

from arena.answers.subjects import asker_of
from arena.models.imports import Import, Sourced
from arena.models.teams import Team

if TYPE_CHECKING:
    from arena.access import Actor

REVEALED = Q(source=None) | Q(source__revealed_at__isnull=False)


class ArenaQuerySet(models.QuerySet["Arena"]):
    def revealed(self) -> "ArenaQuerySet":
        """Arenas that may be read: those whose founding import has ended."""
        return self.filter(Q(founded_by=None) | Q(founded_by__revealed_at__isnull=False))

    def visible_to(self, actor: "Actor") -> "ArenaQuerySet":
        """Arenas that exist for `actor`: a private one for its team and for operators alone."""
        if actor.is_operator:
            return self.revealed()
        theirs = Q(team__in=actor.teams_seen())
        return self.revealed().filter(~Q(visibility=Arena.Visibility.PRIVATE) | theirs)

    def listed_for(self, actor: "Actor") -> "ArenaQuerySet":
        """Arenas that a list may name: public ones, and those of the actor's own teams."""
        if actor.is_operator:
            return self.revealed()
        theirs = Q(team__in=actor.teams_seen())
        return self.revealed().filter(Q(visibility=Arena.Visibility.PUBLIC) | theirs)

    def known_to(self, actor: "Actor") -> "ArenaQuerySet":
        """Arenas in which `actor` may look things up by their numbers, without naming the arena.

        Whoever counts numbers would come by every unlisted one, so that it has to be listed for
        them, or a team of theirs has entered a candidate.
        """
        entered = Candidate.objects.filter(arena=OuterRef("pk"), team__in=actor.teams_seen())
        listed = Arena.objects.listed_for(actor).values("pk")
        return self.visible_to(actor).filter(Q(pk__in=listed) | Exists(entered))


class Arena(models.Model):
    """One contest: its prompts, its candidates, the question that raters answer.

    One without a team is the operator's own. Whoever has the link sees an unlisted one.
    """

    class Visibility(models.TextChoices):
        PUBLIC = "public", "Public: everybody sees it, and it is listed"
        UNLISTED = "unlisted", "Unlisted: everybody who has the link sees it"
        PRIVATE = "private", "Private: the team alone sees it"

    class Voters(models.TextChoices):
        ANYONE = "anyone", "Anyone who sees it"
        SIGNED_IN = "signed_in", "People who are signed in"
        MEMBERS = "members", "Members of the team"

    team = models.ForeignKey(Team, models.PROTECT, null=True, blank=True, related_name="arenas")
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
    visibility = models.CharField(max_length=10, choices=Visibility, default=Visibility.PUBLIC)
    voters = models.CharField(max_length=10, choices=Voters, default=Voters.ANYONE)
    open_to_teams = models.BooleanField(
        default=False, help_text="May other teams enter candidates?"
    )
    founded_by = models.ForeignKey(Import, models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ArenaQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(visibility__in=["public", "unlisted", "private"]),
                name="arena_visibility_known",
            ),
            models.CheckConstraint(
                condition=Q(voters__in=["anyone", "signed_in", "members"]),
                name="arena_voters_known",
            ),
            models.CheckConstraint(
                condition=Q(team__isnull=False) | ~Q(voters="members") & ~Q(visibility="private"),
                name="arena_of_members_has_a_team",
            ),
            models.CheckConstraint(
                condition=Q(open_to_teams=False) | ~Q(visibility="private"),
                name="arena_open_to_teams_is_seen_by_them",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("board", args=[self.slug])

    @property
    def is_private(self) -> bool:
        """Does it exist for its team and for operators alone?"""
        return self.visibility == self.Visibility.PRIVATE


class CatalogQuerySet(models.QuerySet[Any]):
    def revealed(self) -> "CatalogQuerySet":
        """Rows that may be read: made in the product, or of an import that has ended."""
        return self.filter(REVEALED)

    def active(self) -> "CatalogQuerySet":
        """Rows that may still be shown to raters."""
        return self.revealed().filter(retired_at=None)


class CandidateQuerySet(CatalogQuerySet):
    def undisclosed(self) -> "CandidateQuerySet":
        """Candidates whose name and texts are still their team's own."""
        return self.filter(disclosed_at=None)


class Prompt(Sourced):
    """One test input that every candidate answers. Its text may be unknown (board-only arenas)."""

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="prompts")
    external_id = models.CharField(max_length=200)
    category = models.CharField(max_length=100, blank=True)
    text = models.TextField(blank=True)
    variables = models.JSONField(
        default=dict, blank=True, help_text="What candidates' templates may use besides the text."
    )
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
    """One version of one entry to be ranked. Immutable once it has answers or votes.

    One with an `endpoint` has its answers generated there; the others' are uploaded. One without a
    team is the arena's own. Until `disclosed_at` the public sees neither its name nor its texts:
    until it has `private_until_votes` votes or until `private_until`, fixed when it was entered.
    """

    team = models.ForeignKey(Team, models.PROTECT, null=True, blank=True, related_name="candidates")
    arena = models.ForeignKey(Arena, models.CASCADE, related_name="candidates")
    name = models.CharField(max_length=200)
    version = models.PositiveIntegerField(default=1)
    endpoint = models.CharField(max_length=100, blank=True)
    model = models.CharField(max_length=200, blank=True)
    variant = models.CharField(max_length=200, blank=True)
    system_prompt = models.TextField(blank=True)
    user_template = models.TextField(blank=True)
    parameters = models.JSONField(default=dict, blank=True)
    notes = models.TextField(blank=True)
    private_until_votes = models.PositiveIntegerField(null=True, blank=True)
    private_until = models.DateTimeField(null=True, blank=True)
    disclosed_at = models.DateTimeField(null=True, blank=True, default=timezone.now)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())
    retired_at = models.DateTimeField(null=True, blank=True)

    objects = CandidateQuerySet.as_manager()

    class Meta(Sourced.Meta):
        constraints = [
            *Sourced.Meta.constraints,
            models.UniqueConstraint(
                fields=["arena", "name", "version"], name="candidate_name_once_per_version"
            ),
            models.CheckConstraint(
                condition=Q(disclosed_at__isnull=False)
                | Q(private_until_votes__isnull=False)
                | Q(private_until__isnull=False),
                name="candidate_private_until_something",
            ),
            models.CheckConstraint(
                condition=Q(endpoint="") | ~Q(model=""), name="candidate_at_an_endpoint_has_a_model"
            ),
        ]
        indexes = [
            models.Index(
                fields=["arena"],
                condition=Q(disclosed_at__isnull=True),
                name="candidate_undisclosed",
            ),
        ]

    def __str__(self) -> str:
        """Its name as the public may see it."""
        return self.own_name if self.disclosed_at else f"Undisclosed {self.pk}"

    @property
    def own_name(self) -> str:
        """Its name as its team knows it."""
        return self.name if self.version == 1 else f"{self.name} v{self.version}"

    @property
    def asker(self) -> str:
        """Its name in the ledger of calls."""
        return asker_of(self.pk)


class Response(Sourced):
    """A candidate's answer to a prompt."""

    candidate = models.ForeignKey(Candidate, models.CASCADE, related_name="responses")
    prompt = models.ForeignKey(Prompt, models.CASCADE, related_name="responses")
    text = models.TextField(blank=True)
    call = models.OneToOneField(
        "arena.Call", models.SET_NULL, null=True, blank=True, related_name="response"
    )
    tokens_in = models.PositiveIntegerField(null=True, blank=True)
    tokens_out = models.PositiveIntegerField(null=True, blank=True)
    seconds = models.FloatField(null=True, blank=True)
    cost = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Nano-dollars (10^-9 USD)."
    )
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
