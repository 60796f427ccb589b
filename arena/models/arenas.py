"""Arenas, and who may see them."""

from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils.crypto import salted_hmac
from django.utils.functional import cached_property
from django.utils.translation import gettext_noop

from arena.models.constraints import check
from arena.models.fields import Check
from arena.models.imports import Import
from arena.models.teams import Team
from arena.outcomes import BOTH_BAD, LEFT, RIGHT
from arena.validation import (
    ARENA_NAME_LIMIT,
    CRITERIA_LIMIT,
    DESCRIPTION_LIMIT,
    GUIDE_LIMIT,
    QUESTION_LIMIT,
    clean_name,
    clean_paragraphs,
    clean_tags,
    clean_visible_name,
)

STRENGTHS = (
    gettext_noop("correct"),
    gettext_noop("clear"),
    gettext_noop("complete"),
    gettext_noop("right length"),
    gettext_noop("good tone"),
)
FAULTS = (
    gettext_noop("wrong"),
    gettext_noop("missing step"),
    gettext_noop("unclear"),
    gettext_noop("too long"),
    gettext_noop("wrong tone"),
)


class ArenaQuerySet(models.QuerySet["Arena"]):
    def revealed(self) -> "ArenaQuerySet":
        """Arenas that can be read: created here, or by an import that has finished."""
        return self.filter(Q(founded_by=None) | Q(founded_by__revealed_at__isnull=False))

    def contests(self) -> "ArenaQuerySet":
        """All but those of experiments, which are listed and ranked nowhere."""
        return self.filter(origin=None)

    def not_of_members(self) -> "ArenaQuerySet":
        """Those in which votes count of people whom the team does not know."""
        return self.exclude(
            Q(voters=Arena.Voters.MEMBERS)
            | Q(counts=Arena.Counts.INVITED)
            | Q(visibility=Arena.Visibility.PRIVATE)
        )

    def not_live(self) -> "ArenaQuerySet":
        """All but those of live questions, which are reached from the arena they belong to."""
        return self.filter(live_of=None)

    def listed(self) -> "ArenaQuerySet":
        """Those that lists and choices show, to whom they are visible."""
        return self.revealed().contests().not_live()


class Arena(models.Model):
    """One contest: its prompts, its candidates, and the question that raters answer.

    An arena without a team belongs to the operator.
    """

    class Visibility(models.TextChoices):
        PUBLIC = "public", "Public: everyone can see it, and it is listed"
        UNLISTED = "unlisted", "Unlisted: everyone with the link can see it"
        PRIVATE = "private", "Private: only the team can see it"

    class Voters(models.TextChoices):
        ANYONE = "anyone", "Anyone who can see it"
        SIGNED_IN = "signed_in", "People who are signed in"
        MEMBERS = "members", "Members of the team"

    class SelfIdentifying(models.TextChoices):
        MASK = "mask", "Hide the names; the votes count"
        DROP = "drop", "Show them; the votes do not count"
        KEEP = "keep", "Show them; the votes count"

    class Counts(models.TextChoices):
        """Whose votes count, of those who may vote."""

        ANYONE = "anyone", "Anyone’s"
        VERIFIED = "verified", "Those of people with a confirmed email address or single sign-on"
        INVITED = "invited", "Those of members of the team"

    team = models.ForeignKey(Team, models.PROTECT, null=True, blank=True, related_name="arenas")
    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(
        max_length=ARENA_NAME_LIMIT,
        validators=[Check(clean_visible_name, limit=ARENA_NAME_LIMIT)],
    )
    question = models.CharField(
        "question for raters",
        max_length=QUESTION_LIMIT,
        default="Which answer helps more?",
        validators=[Check(clean_name, limit=QUESTION_LIMIT)],
    )
    description = models.TextField(
        blank=True, validators=[Check(clean_paragraphs, limit=DESCRIPTION_LIMIT)]
    )
    criteria = models.TextField(
        "criteria for LLM judges",
        blank=True,
        validators=[Check(clean_paragraphs, limit=CRITERIA_LIMIT)],
        help_text="What makes an answer better. If empty, judges use the criteria of their rubric.",
    )
    guide = models.TextField(
        "guide for raters",
        blank=True,
        validators=[Check(clean_paragraphs, limit=GUIDE_LIMIT)],
        help_text="Shown before a rater’s first vote, best with an example. You can use Markdown.",
    )
    strengths = models.TextField(
        "reasons for an answer",
        default="\n".join(STRENGTHS),
        blank=True,
        validators=[Check(clean_tags)],
        help_text="Offered to raters after a vote, one per line.",
    )
    faults = models.TextField(
        "reasons against an answer",
        default="\n".join(FAULTS),
        blank=True,
        validators=[Check(clean_tags)],
        help_text="Leave both lists empty to ask for no reasons.",
    )
    reasons_first = models.BooleanField(
        "ask for reasons before the names are shown",
        default=False,
        db_default=False,
        help_text="Raters then give reasons without knowing the names; expect fewer of them.",
    )
    is_sample = models.BooleanField(default=False)
    visibility = models.CharField(max_length=10, choices=Visibility, default=Visibility.PUBLIC)
    voters = models.CharField("who can vote", max_length=10, choices=Voters, default=Voters.ANYONE)
    open_to_teams = models.BooleanField(
        "other teams can add candidates",
        default=False,
        help_text="Can other teams add candidates?",
    )
    open_answers = models.BooleanField(
        "everyone can read who wrote which answer",
        default=False,
        help_text="Can everyone read which candidate wrote which answer?",
    )
    held_out = models.PositiveSmallIntegerField(
        "prompts held out",
        default=20,
        help_text="Percentage of prompts whose answers are never published with names.",
    )
    rater_cap = models.PositiveSmallIntegerField(
        "weight of one rater",
        default=10,
        help_text="Maximum weight of one rater’s votes, as a percentage of all human votes.",
    )
    self_identifying = models.CharField(
        "answers that reveal their author (“As Claude, …”)",
        max_length=4,
        choices=SelfIdentifying,
        default=SelfIdentifying.DROP,
        help_text="What happens to answers that reveal their author.",
    )
    counts = models.CharField(
        "whose votes count",
        max_length=8,
        choices=Counts,
        default=Counts.ANYONE,
        help_text="Whose votes count?",
    )
    counts_tokens = models.BooleanField(
        "votes by the team’s token count on a public leaderboard",
        default=False,
        help_text="Do votes cast with the team's token count on a public leaderboard?",
    )
    network_share = models.PositiveSmallIntegerField(
        "weight of one network",
        default=10,
        help_text="Maximum weight of anonymous votes from one network, as a percentage of all "
        "human votes.",
    )
    anchor = models.ForeignKey(
        "arena.Candidate",
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name="candidate with a fixed score",
        help_text="The candidate with the score `anchor_score`; null: the mean score is 1000.",
    )
    anchor_score = models.PositiveSmallIntegerField(
        "its score",
        default=1000,
        db_default=1000,
        help_text="The score of the candidate `anchor`. All scores move with it; their differences"
        " stay.",
    )
    raters_salt = models.CharField(
        max_length=32,
        blank=True,
        db_default="",
        editable=False,
        help_text="What the raters' link of a private arena is derived from; empty without one.",
    )
    founded_by = models.ForeignKey(Import, models.SET_NULL, null=True, blank=True, related_name="+")
    origin = models.ForeignKey(
        "self",
        models.CASCADE,
        null=True,
        blank=True,
        editable=False,
        related_name="experiment_arenas",
        help_text="Of an experiment's own arena: the one whose prompts and baseline it copied.",
    )
    live_of = models.OneToOneField(
        "self",
        models.CASCADE,
        null=True,
        blank=True,
        editable=False,
        related_name="live",
        help_text="Of an arena of live questions: the one whose raters ask them.",
    )
    live_limit = models.PositiveIntegerField(
        "questions a day",
        default=0,
        db_default=0,
        help_text="How many live questions may be asked in a day (UTC) by all raters together. 0"
        " closes the page.",
    )
    refused_words = models.TextField(
        "refused words",
        blank=True,
        db_default="",
        help_text="Questions with one of these words or phrases are refused. One per line.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ArenaQuerySet.as_manager()

    # Who sees it, who votes, and what counts.
    RULES = (
        *("visibility", "voters", "open_to_teams", "open_answers", "held_out", "rater_cap"),
        *("self_identifying", "counts", "counts_tokens", "network_share"),
    )
    # What its scores are read by. Exports lack it, because another arena has other candidates.
    SCALE = ("anchor", "anchor_score")
    # What its team sets, in the order of exports.
    SETTINGS = (
        *("name", *RULES, "guide", "strengths", "faults", "reasons_first"),
        *("question", "description", "criteria"),
    )
    # The least and the most of each number.
    LIMITS = {
        **{"held_out": (0, 100), "rater_cap": (1, 100), "network_share": (1, 100)},
        "anchor_score": (0, 10_000),
    }

    # Set where the raters' link opened the arena: its pages then offer voting alone.
    is_opened_by_link = False

    class Meta:
        constraints = [
            check("arena_visibility_known", Q(visibility__in=["public", "unlisted", "private"])),
            check("arena_voters_known", Q(voters__in=["anyone", "signed_in", "members"])),
            check(
                "arena_of_members_has_a_team",
                Q(team__isnull=False) | ~Q(voters="members") & ~Q(visibility="private"),
            ),
            check(
                "arena_open_to_teams_is_seen_by_them",
                Q(open_to_teams=False) | ~Q(visibility="private"),
            ),
            check("arena_of_an_experiment_is_private", Q(origin=None) | Q(visibility="private")),
            check("arena_live_limit_of_live_arenas", Q(live_limit=0) | Q(live_of__isnull=False)),
            check("arena_live_is_no_experiment", Q(live_of=None) | Q(origin=None)),
            check("arena_held_out_percent", Q(held_out__lte=100)),
            check("arena_rater_cap_percent", Q(rater_cap__range=(1, 100))),
            check("arena_self_identifying_known", Q(self_identifying__in=["mask", "drop", "keep"])),
            check("arena_counts_known", Q(counts__in=["anyone", "verified", "invited"])),
            check("arena_anchor_score_up_to_10000", Q(anchor_score__range=(0, 10_000))),
            check("arena_network_share_percent", Q(network_share__gte=1, network_share__lte=100)),
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("board", args=[self.slug])

    @cached_property
    def has_open_answers(self) -> bool:
        """Whether everybody may read who wrote which answer: they may if nobody can vote."""
        return self.open_answers or not self.has_pairs

    @property
    def has_pairs(self) -> bool:
        """Whether two candidates have answered the same prompt, so that people can vote."""
        return self.pairs.filter(shared_prompts__gt=0).exists()

    @property
    def is_private(self) -> bool:
        return self.visibility == self.Visibility.PRIVATE

    @property
    def is_of_members(self) -> bool:
        """Whether only votes of people whom the team knows count (`not_of_members` finds the
        others)."""
        is_theirs = self.voters == self.Voters.MEMBERS or self.counts == self.Counts.INVITED
        return is_theirs or self.is_private

    @property
    def raters_secret(self) -> str:
        """The secret of the link with which raters from outside the team can vote in a private
        arena; "" without one. It is never stored, as those of webhooks are not."""
        if not (self.raters_salt and self.is_private) or self.voters == self.Voters.MEMBERS:
            return ""
        value = f"{self.pk} {self.raters_salt}"
        return salted_hmac("arena.raters", value, algorithm="sha256").hexdigest()

    def reasons_for(self, side: str, outcome: str) -> list[str]:
        """The reasons that a rater with this verdict can give about the answer on this side:
        strengths of the better one and faults of the other; after a tie both, after "both bad" only
        faults.
        """
        strengths, faults = self.strengths.splitlines(), self.faults.splitlines()
        if outcome in (LEFT, RIGHT):
            return strengths if outcome == side else faults
        return faults if outcome == BOTH_BAD else [*strengths, *faults]
