"""Arenas, their imports, prompts, candidates and responses."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from zlib import crc32

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Exists, OuterRef, Q, Value
from django.db.models.functions import MD5, Cast, Coalesce, Concat, Now
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.deconstruct import deconstructible
from django.utils.functional import cached_property
from django.utils.translation import gettext_noop

from arena.models.teams import Team, check, index, unique
from arena.outcomes import BOTH_BAD, LEFT, RIGHT
from arena.validation import (
    ABOUT_LIMIT,
    ARENA_NAME_LIMIT,
    CATEGORY_LIMIT,
    CRITERIA_LIMIT,
    DESCRIPTION_LIMIT,
    GUIDE_LIMIT,
    LINK_LIMIT,
    NOTES_LIMIT,
    PROMPT_LIMIT,
    QUESTION_LIMIT,
    InputError,
    clean_link,
    clean_name,
    clean_paragraphs,
    clean_tags,
    clean_text,
    clean_variables,
    clean_visible_name,
    clean_visible_text,
)

if TYPE_CHECKING:
    from arena.actors import Actor

MAX_PRIVATE_VOTES = 10_000
PLURALS = {"criteria": "text of the criteria", "notes": "text of the notes"}
DELETED = "deleted"  # the format of the import that hides an arena while it is deleted
REVEALED = Q(source=None) | Q(source__revealed_at__isnull=False)
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
REQUESTER, SUBJECT = "candidate:", "prompt:"


# -- Validators ------------------------------------------------------------------------------------


@deconstructible(path="arena.models.arenas.Check")
class Check:
    """A `clean_*` function of `arena.validation` as the validator of a field.

    Forms, serializers and services use it through `clean_field`; `full_clean` runs it when one row
    is edited. Votes, imports and the ledger do not use it: their rows have schemas of their own.
    """

    def __init__(self, clean: Callable[..., Any], **options: Any) -> None:
        self.clean, self.options = clean, options

    def __call__(self, value: Any) -> None:
        try:
            self.clean(value, **self.options)
        except InputError as error:
            raise ValidationError(f"It {error.reason}.") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Check) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.clean, *sorted(self.options.items())))


def clean_field(model: type[models.Model], name: str, value: Any) -> Any:
    """Return `value` as the field stores it, or raise InputError with the field as its column."""
    for validator in _checks(model, name):
        try:
            value = validator.clean(value, **validator.options)
        except InputError as error:
            raise InputError(error.reason, name) from None
    return value


def field_label(name: str) -> str:
    """Return the field's name in messages, in the singular, so that "is empty" can follow."""
    return PLURALS.get(name, name.replace("_", " "))


def length_limit(model: type[models.Model], name: str) -> int:
    """Return the maximum length of the field in characters, for forms and serializers."""
    limits = [check.options["limit"] for check in _checks(model, name) if "limit" in check.options]
    field: Any = model._meta.get_field(name)
    return int(min([*limits, *filter(None, [field.max_length])]))


def _checks(model: type[models.Model], name: str) -> list[Check]:
    field: Any = model._meta.get_field(name)
    return [check for check in field.validators if isinstance(check, Check)]


class ImportQuerySet(models.QuerySet["Import"]):
    def hidden(self) -> "ImportQuerySet":
        """Imports that are running or abandoned, whose rows nobody can read."""
        return self.filter(revealed_at=None)

    def to_log(self) -> "ImportQuerySet":
        """Revealed imports that are not complete in the log yet."""
        return self.filter(revealed_at__isnull=False, logged_at=None)


class Import(models.Model):
    """One file imported into one arena. A row's identity is (import, row number).

    Everything from the files of one import command is hidden until one update sets `revealed_at`.
    """

    arena = models.ForeignKey("arena.Arena", models.CASCADE, related_name="imports")
    file_name = models.CharField(max_length=255)
    sha256 = models.CharField(max_length=64)
    format = models.CharField(max_length=20)
    started_at = models.DateTimeField()
    revealed_at = models.DateTimeField(null=True, blank=True)
    rows_added = models.PositiveIntegerField(default=0)
    rows_rejected = models.PositiveIntegerField(default=0)
    logged_at = models.DateTimeField(
        null=True, blank=True, help_text="When the log had all votes of the file."
    )

    objects = ImportQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("import_once_per_file", "arena", "sha256"),
        ]

    def __str__(self) -> str:
        return f"{self.file_name} into {self.arena_id}"


class Sourced(models.Model):
    """A row that may come from a file; `source` is NULL for rows created in the product."""

    source = models.ForeignKey(  # indexed by the unique constraint below
        Import, models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    source_row = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        abstract = True
        constraints = [
            unique("%(class)s_once_per_source_row", "source", "source_row"),
        ]


# -- Arenas ----------------------------------------------------------------------------------------


class ArenaQuerySet(models.QuerySet["Arena"]):
    def revealed(self) -> "ArenaQuerySet":
        """Arenas that can be read: created here, or by an import that has finished."""
        return self.filter(Q(founded_by=None) | Q(founded_by__revealed_at__isnull=False))

    def visible_to(self, actor: "Actor") -> "ArenaQuerySet":
        """Arenas that `actor` can see: a private one only for its team and operators."""
        if actor.is_operator:
            return self.revealed()
        own = Q(team__in=actor.teams_seen())
        return self.revealed().filter(~Q(visibility=Arena.Visibility.PRIVATE) | own)

    def listed_for(self, actor: "Actor") -> "ArenaQuerySet":
        """Arenas that lists show to `actor`: public ones, and those of the actor's teams."""
        if actor.is_operator:
            return self.revealed()
        own = Q(team__in=actor.teams_seen())
        return self.revealed().filter(Q(visibility=Arena.Visibility.PUBLIC) | own)

    def known_to(self, actor: "Actor") -> "ArenaQuerySet":
        """Arenas in which `actor` can look things up by id, without naming the arena.

        Trying all ids would reveal unlisted arenas, so the arena must be listed for the actor, or
        one of the actor's teams must have a candidate in it.
        """
        own_candidates = Candidate.objects.filter(arena=OuterRef("pk"), team__in=actor.teams_seen())
        listed = Arena.objects.listed_for(actor).values("pk")
        return self.visible_to(actor).filter(Q(pk__in=listed) | Exists(own_candidates))


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
        max_length=QUESTION_LIMIT,
        default="Which answer helps more?",
        validators=[Check(clean_name, limit=QUESTION_LIMIT)],
    )
    description = models.TextField(
        blank=True, validators=[Check(clean_paragraphs, limit=DESCRIPTION_LIMIT)]
    )
    criteria = models.TextField(
        blank=True,
        validators=[Check(clean_paragraphs, limit=CRITERIA_LIMIT)],
        help_text="What makes an answer better. If empty, judges use the criteria of their rubric.",
    )
    guide = models.TextField(
        blank=True,
        validators=[Check(clean_paragraphs, limit=GUIDE_LIMIT)],
        help_text="Markdown that raters read before their first vote, with an example.",
    )
    strengths = models.TextField(
        default="\n".join(STRENGTHS),
        blank=True,
        validators=[Check(clean_tags)],
        help_text="Reasons for an answer that raters can choose from, one per line.",
    )
    faults = models.TextField(
        default="\n".join(FAULTS),
        blank=True,
        validators=[Check(clean_tags)],
        help_text="Reasons against an answer that raters can choose from, one per line.",
    )
    is_sample = models.BooleanField(default=False)
    visibility = models.CharField(max_length=10, choices=Visibility, default=Visibility.PUBLIC)
    voters = models.CharField(max_length=10, choices=Voters, default=Voters.ANYONE)
    open_to_teams = models.BooleanField(default=False, help_text="Can other teams add candidates?")
    open_answers = models.BooleanField(
        default=False, help_text="Can everyone read which candidate wrote which answer?"
    )
    held_out = models.PositiveSmallIntegerField(
        default=20,
        help_text="Percentage of prompts whose answers are never published with names.",
    )
    rater_cap = models.PositiveSmallIntegerField(
        default=10,
        help_text="Maximum weight of one rater’s votes, as a percentage of all human votes.",
    )
    self_identifying = models.CharField(
        max_length=4,
        choices=SelfIdentifying,
        default=SelfIdentifying.DROP,
        help_text="What happens to answers that reveal their author.",
    )
    counts = models.CharField(
        max_length=8, choices=Counts, default=Counts.ANYONE, help_text="Whose votes count?"
    )
    counts_tokens = models.BooleanField(
        default=False,
        help_text="Do votes cast with the team's token count on a public leaderboard?",
    )
    network_share = models.PositiveSmallIntegerField(
        default=10,
        help_text="Maximum weight of anonymous votes from one network, as a percentage of all "
        "human votes.",
    )
    raters_salt = models.CharField(
        max_length=32,
        blank=True,
        db_default="",
        editable=False,
        help_text="What the raters' link of a private arena is derived from; empty without one.",
    )
    founded_by = models.ForeignKey(Import, models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ArenaQuerySet.as_manager()

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
            check("arena_held_out_percent", Q(held_out__lte=100)),
            check("arena_rater_cap_percent", Q(rater_cap__range=(1, 100))),
            check("arena_self_identifying_known", Q(self_identifying__in=["mask", "drop", "keep"])),
            check("arena_counts_known", Q(counts__in=["anyone", "verified", "invited"])),
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


# -- Prompts, candidates, responses ----------------------------------------------------------------


class CatalogQuerySet(models.QuerySet[Any]):
    def revealed(self) -> "CatalogQuerySet":
        """Rows that can be read: created here, or from an import that has finished."""
        return self.filter(REVEALED)

    def active(self) -> "CatalogQuerySet":
        """Rows that can still be shown to raters."""
        return self.revealed().filter(retired_at=None)


class CandidateQuerySet(CatalogQuerySet):
    def undisclosed(self) -> "CandidateQuerySet":
        """Candidates whose name and texts are still private to their team."""
        return self.filter(disclosed_at=None)


class Prompt(Sourced):
    """One test input that every candidate answers. Its text may be unknown (results only)."""

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="prompts")
    external_id = models.CharField(max_length=200)
    category = models.CharField(
        max_length=CATEGORY_LIMIT,
        blank=True,
        validators=[Check(clean_name, limit=CATEGORY_LIMIT, required=False)],
    )
    text = models.TextField(
        blank=True, validators=[Check(clean_paragraphs, limit=PROMPT_LIMIT, required=True)]
    )
    messages = models.JSONField(
        null=True, blank=True, help_text="The conversation; the text is its transcript."
    )
    variables = models.JSONField(
        default=dict,
        blank=True,
        validators=[Check(clean_variables)],
        help_text="Values that candidates' templates can use besides the text.",
    )
    reference = models.TextField(
        blank=True, validators=[Check(clean_paragraphs, limit=PROMPT_LIMIT)]
    )
    rubric = models.TextField(
        blank=True,
        validators=[Check(clean_paragraphs, limit=PROMPT_LIMIT)],
        help_text="How LLM judges grade answers to this prompt; replaces the criteria.",
    )
    html = models.TextField(null=True, editable=False)
    html_version = models.PositiveSmallIntegerField(default=0, editable=False)
    retired_at = models.DateTimeField(null=True, blank=True)

    objects = CatalogQuerySet.as_manager()

    class Meta(Sourced.Meta):
        constraints = [
            *Sourced.Meta.constraints,
            unique("prompt_external_id_once_per_arena", "arena", "external_id"),
        ]

    def __str__(self) -> str:
        return self.external_id

    def is_held_out(self, arena: Arena) -> bool:
        """Whether its answers are never published with names; this depends only on its id."""
        return crc32(f"{arena.pk}:{self.external_id}".encode()) % 100 < arena.held_out


class Candidate(Sourced):
    """One version of a candidate to be ranked. Immutable once it has answers or votes.

    With an `endpoint` its answers are generated there, otherwise they are uploaded. Without a team
    it belongs to the arena's team. Until `disclosed_at` the public sees neither its name nor its
    texts. It is disclosed once it has `private_until_votes` votes, or at `private_until`; both are
    set at registration.
    """

    team = models.ForeignKey(Team, models.PROTECT, null=True, blank=True, related_name="candidates")
    arena = models.ForeignKey(Arena, models.CASCADE, related_name="candidates")
    name = models.CharField(max_length=200, validators=[Check(clean_visible_name)])
    version = models.PositiveIntegerField(default=1)
    endpoint = models.CharField(max_length=100, blank=True)
    model = models.CharField(
        max_length=200, blank=True, validators=[Check(clean_name, required=False)]
    )
    variant = models.CharField(
        max_length=200, blank=True, validators=[Check(clean_name, required=False)]
    )
    system_prompt = models.TextField(blank=True, validators=[Check(clean_paragraphs, strip=False)])
    user_template = models.TextField(blank=True, validators=[Check(clean_paragraphs, strip=False)])
    messages = models.JSONField(
        null=True,
        blank=True,
        help_text="Messages, each a template, instead of a system prompt and a user template.",
    )
    parameters = models.JSONField(default=dict, blank=True)
    notes = models.TextField(
        blank=True, validators=[Check(clean_paragraphs, limit=NOTES_LIMIT, strip=False)]
    )
    organisation = models.CharField(
        max_length=ABOUT_LIMIT, blank=True, validators=[Check(clean_visible_text)]
    )
    licence = models.CharField(
        max_length=ABOUT_LIMIT, blank=True, validators=[Check(clean_visible_text)]
    )
    link = models.CharField(max_length=LINK_LIMIT, blank=True, validators=[Check(clean_link)])
    private_until_votes = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_PRIVATE_VOTES)],
    )
    private_until = models.DateTimeField(null=True, blank=True)
    disclosed_at = models.DateTimeField(null=True, blank=True, default=timezone.now)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())
    retired_at = models.DateTimeField(null=True, blank=True)

    objects = CandidateQuerySet.as_manager()

    # The team's own content: a change makes the next version. Files contain all but the endpoint.
    CONTENT = (
        *("system_prompt", "user_template", "messages", "endpoint", "model", "variant"),
        *("parameters", "notes", "organisation", "licence", "link"),
    )
    IN_FILES = tuple(name for name in CONTENT if name != "endpoint")
    # Short texts about the candidate, which its pages list by their names.
    FACTS = ("organisation", "licence")

    class Meta(Sourced.Meta):
        constraints = [
            *Sourced.Meta.constraints,
            unique("candidate_name_once_per_version", "arena", "name", "version"),
            check(
                "candidate_private_until_something",
                Q(disclosed_at__isnull=False)
                | Q(private_until_votes__isnull=False)
                | Q(private_until__isnull=False),
            ),
            check("candidate_at_an_endpoint_has_a_model", Q(endpoint="") | ~Q(model="")),
        ]
        indexes = [
            index("candidate_undisclosed", "arena", where=Q(disclosed_at__isnull=True)),
        ]

    def __str__(self) -> str:
        """The name that the public may see."""
        return self.own_name if self.disclosed_at else f"Undisclosed {self.pk}"

    @property
    def facts(self) -> dict[str, str]:
        """The facts that its team gave, by label."""
        facts = {name.replace("_", " ").capitalize(): getattr(self, name) for name in self.FACTS}
        return {label: text for label, text in facts.items() if text}

    @property
    def own_name(self) -> str:
        """The name that the candidate's team sees."""
        return self.name if self.version == 1 else f"{self.name} v{self.version}"

    @property
    def requester(self) -> str:
        """The candidate's name in the ledger of model calls."""
        return requester_of(self.pk)


class Response(Sourced):
    """A candidate's answer to a prompt."""

    # Without an index of its own: the planner would combine it with the prompt's for each answer.
    candidate = models.ForeignKey(
        Candidate, models.CASCADE, related_name="responses", db_index=False
    )
    prompt = models.ForeignKey(Prompt, models.CASCADE, related_name="responses")
    text = models.TextField(blank=True, validators=[Check(clean_text)])
    messages = models.JSONField(
        null=True, blank=True, help_text="The steps; the text is what the model itself says."
    )
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
            unique("response_once_per_candidate_and_prompt", "candidate", "prompt"),
        ]

    def __str__(self) -> str:
        return f"{self.candidate_id} on {self.prompt_id}"


# Equal for equal answers; of answers in steps, the steps count too.
NO_STEPS = Value("", models.TextField())
ANSWER_DIGEST = MD5(Concat("text", Coalesce(Cast("messages", models.TextField()), NO_STEPS)))

# -- Names of candidates and prompts in the ledger of model calls ----------------------------------


def subject_of(prompt_id: int) -> str:
    """Return the `subject` of calls for answers to this prompt."""
    return f"{SUBJECT}{prompt_id}"


def prompt_of(subject: str) -> int:
    """Return the prompt id in a call's `subject`."""
    return int(subject.removeprefix(SUBJECT))


def requester_of(candidate_id: int) -> str:
    """Return the `requester` of calls for this candidate's answers."""
    return f"{REQUESTER}{candidate_id}"


def candidate_of(requester: str) -> int:
    """Return the candidate id in a call's `requester`."""
    return int(requester.removeprefix(REQUESTER))
