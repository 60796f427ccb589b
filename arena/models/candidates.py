"""The candidates of an arena, each in versions."""

from typing import Any

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from arena.models.arenas import Arena
from arena.models.constraints import check, index, unique
from arena.models.fields import Check, label_of
from arena.models.imports import CatalogQuerySet, Sourced
from arena.models.teams import Team
from arena.validation import (
    ABOUT_LIMIT,
    LINK_LIMIT,
    NOTES_LIMIT,
    clean_link,
    clean_name,
    clean_paragraphs,
    clean_visible_name,
    clean_visible_text,
)

MAX_PRIVATE_VOTES = 10_000
REQUESTER = "candidate:"


class CandidateQuerySet(CatalogQuerySet):
    def undisclosed(self) -> "CandidateQuerySet":
        """Candidates whose name and texts are still private to their team."""
        return self.filter(disclosed_at=None)

    def merged(self) -> "CandidateQuerySet":
        """Aliases: candidates that were merged into another one."""
        return self.filter(merged_into__isnull=False)


class Candidate(Sourced):
    """One version of a candidate to be ranked. Immutable once it has answers or votes.

    With an `endpoint` its answers are generated there, otherwise they are uploaded. Without a team
    it belongs to the arena's team. Until `disclosed_at` the public sees neither its name nor its
    texts. It is disclosed once it has `private_until_votes` votes, or at `private_until`; both are
    set at registration.

    An alias was `merged_into` another candidate: its votes count for that one, and it is archived.
    """

    team = models.ForeignKey(Team, models.PROTECT, null=True, blank=True, related_name="candidates")
    arena = models.ForeignKey(Arena, models.CASCADE, related_name="candidates")
    name = models.CharField(
        max_length=200,
        validators=[Check(clean_visible_name)],
        help_text="Shown on the leaderboard. Versions are numbered automatically.",
    )
    version = models.PositiveIntegerField(default=1)
    endpoint = models.CharField(max_length=100, blank=True)
    model = models.CharField(
        max_length=200, blank=True, validators=[Check(clean_name, required=False)]
    )
    variant = models.CharField(
        max_length=200, blank=True, validators=[Check(clean_name, required=False)]
    )
    system_prompt = models.TextField(blank=True, validators=[Check(clean_paragraphs, strip=False)])
    user_template = models.TextField(
        blank=True,
        validators=[Check(clean_paragraphs, strip=False)],
        help_text="{{ prompt }} is replaced by the prompt’s text, other names by its variables. "
        "If empty, the prompt’s text is sent as is.",
    )
    messages = models.JSONField(
        null=True,
        blank=True,
        help_text="Instead of both, for several turns or examples: a JSON list of messages, each a"
        ' template, for example [{"role": "user", "content": "2 + 2"}, {"role": "assistant",'
        ' "content": "4"}, {"role": "user", "content": "{{ prompt }}"}]. The last one is the'
        " user’s.",
    )
    parameters = models.JSONField(default=dict, blank=True)
    notes = models.TextField(
        blank=True,
        validators=[Check(clean_paragraphs, limit=NOTES_LIMIT, strip=False)],
        help_text="For your team and for readers of the candidate’s page.",
    )
    organisation = models.CharField(
        max_length=ABOUT_LIMIT,
        blank=True,
        validators=[Check(clean_visible_text)],
        help_text="Who made it. Shown below its name on the leaderboard.",
    )
    licence = models.CharField(
        max_length=ABOUT_LIMIT,
        blank=True,
        validators=[Check(clean_visible_text)],
        help_text="For example Apache-2.0, or proprietary.",
    )
    link = models.CharField(
        "web page", max_length=LINK_LIMIT, blank=True, validators=[Check(clean_link)]
    )
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
    merged_into = models.ForeignKey(
        "self", models.PROTECT, null=True, blank=True, related_name="aliases"
    )
    merged_at = models.DateTimeField(null=True, blank=True)

    objects = CandidateQuerySet.as_manager()

    # Short texts about the candidate, which its pages list by their labels.
    FACTS = ("organisation", "licence")
    # The team's own content, hidden until disclosure: a change makes the next version. Forms, the
    # API, the differences between versions, imports and exports have the fields in this order.
    CONTENT = (
        *("system_prompt", "user_template", "messages", "endpoint", "model", "variant"),
        *("parameters", "notes", *FACTS, "link"),
    )
    # Only its team learns where a candidate is called.
    PUBLIC_CONTENT = tuple(name for name in CONTENT if name != "endpoint")
    # When it is disclosed; set at registration.
    PRIVACY = ("private_until_votes", "private_until")

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
            check("candidate_not_merged_into_itself", ~Q(merged_into=F("pk"))),
            check(
                "candidate_merged_at_a_time",
                Q(merged_into=None, merged_at=None)
                | Q(merged_into__isnull=False, merged_at__isnull=False),
            ),
            check("candidate_merged_is_archived", Q(merged_into=None) | ~Q(retired_at=None)),
        ]
        indexes = [
            index("candidate_undisclosed", "arena", where=Q(disclosed_at__isnull=True)),
        ]

    def __str__(self) -> str:
        """The name that the public may see."""
        return self.own_name if self.disclosed_at else f"Undisclosed {self.pk}"

    @property
    def shown_organisation(self) -> str:
        """The organisation that the public may see."""
        return self.organisation if self.disclosed_at else ""

    @property
    def facts(self) -> dict[str, str]:
        """The facts that its team gave, by label."""
        facts = {label_of(type(self), name): getattr(self, name) for name in self.FACTS}
        return {label: text for label, text in facts.items() if text}

    @property
    def content(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.CONTENT}

    @property
    def own_name(self) -> str:
        """The name that the candidate's team sees."""
        return self.name if self.version == 1 else f"{self.name} v{self.version}"

    @property
    def requester(self) -> str:
        """The candidate's name in the ledger of model calls."""
        return requester_of(self.pk)


def requester_of(candidate_id: int) -> str:
    """Return the `requester` of calls for this candidate's answers."""
    return f"{REQUESTER}{candidate_id}"


def candidate_of(requester: str) -> int:
    """Return the candidate id in a call's `requester`."""
    return int(requester.removeprefix(REQUESTER))
