"""The forms of an arena's settings, its import, and requests for human votes."""

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile

from arena.models import Arena, Team
from arena.models.arenas import FAULTS, STRENGTHS
from arena.models.fields import length_limit
from arena.services.orders import MAX_PER_PAIR, MAX_REPEATS

ARCHIVE_BYTES = 20_000_000


class ArchiveForm(forms.Form):
    file = forms.FileField(
        label="Exported arena",
        widget=forms.FileInput(attrs={"accept": ".zip,application/zip"}),
        error_messages={"empty": "The file is empty."},
        help_text=f"A zip file of up to {ARCHIVE_BYTES // 1_000_000} MB, from an export.",
    )

    def clean_file(self) -> UploadedFile:
        file: UploadedFile = self.cleaned_data["file"]
        if file.read(2) != b"PK":
            raise forms.ValidationError(
                "This is not an exported arena (a zip file). To upload files from other tools, "
                "create an arena, then use “Add prompts”."
            )
        file.seek(0)
        return file


# Settings that stay as they are, or get their default, if a form leaves them out.
KEPT = {"held_out", "rater_cap", "self_identifying", "counts", "network_share"}


class ArenaForm(forms.Form):
    name = forms.CharField(
        label="Name",
        max_length=length_limit(Arena, "name"),
        error_messages={"required": "Enter a name for the arena."},
    )
    question = forms.CharField(
        label="Question for raters",
        max_length=length_limit(Arena, "question"),
        initial="Which answer helps more?",
        help_text="Shown above each pair of answers. You cannot change it once people have voted.",
    )
    description = forms.CharField(
        label="Description",
        required=False,
        max_length=length_limit(Arena, "description"),
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Shown with the leaderboard.",
    )
    visibility = forms.ChoiceField(
        label="Who can see it",
        choices=Arena.Visibility.choices,
        initial=Arena.Visibility.UNLISTED,
        widget=forms.RadioSelect,
        help_text="Everyone who sees it can also read the candidates’ prompts, once disclosed.",
    )
    voters = forms.ChoiceField(
        label="Who can vote",
        choices=Arena.Voters.choices,
        initial=Arena.Voters.ANYONE,
        widget=forms.RadioSelect,
    )
    open_to_teams = forms.BooleanField(
        label="Other teams can add candidates",
        required=False,
        help_text="They see the prompts, and no more of other teams’ candidates than the public.",
    )
    open_answers = forms.BooleanField(
        label="Everyone can read who wrote which answer",
        required=False,
        help_text="Otherwise only the team and those who have voted on a pair can, until its prompt"
        " is archived. Anyone who knows the authors can’t vote blind; the leaderboard says so.",
    )
    held_out = forms.IntegerField(
        label="Prompts held out",
        required=False,
        min_value=0,
        max_value=100,
        initial=20,
        help_text="Percentage of prompts whose answers are never published with names.",
    )
    guide = forms.CharField(
        label="Guide for raters",
        required=False,
        max_length=length_limit(Arena, "guide"),
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="Shown before a rater’s first vote, best with an example. You can use Markdown.",
    )
    strengths = forms.CharField(
        label="Reasons for an answer",
        required=False,
        initial="\n".join(STRENGTHS),
        widget=forms.Textarea(attrs={"rows": 5}),
        help_text="Offered to raters after a vote, one per line.",
    )
    faults = forms.CharField(
        label="Reasons against an answer",
        required=False,
        initial="\n".join(FAULTS),
        widget=forms.Textarea(attrs={"rows": 5}),
        help_text="Leave both lists empty to ask for no reasons.",
    )
    self_identifying = forms.ChoiceField(
        label="Answers that reveal their author (“As Claude, …”)",
        required=False,
        choices=Arena.SelfIdentifying.choices,
        initial=Arena.SelfIdentifying.DROP,
        widget=forms.RadioSelect,
    )
    counts = forms.ChoiceField(
        label="Whose votes count",
        required=False,
        choices=Arena.Counts.choices,
        initial=Arena.Counts.ANYONE,
        widget=forms.RadioSelect,
    )
    counts_tokens = forms.BooleanField(
        label="Votes by the team’s token count on a public leaderboard",
        required=False,
        help_text="Programs name the raters of such votes, so nobody else can check them.",
    )
    rater_cap = forms.IntegerField(
        label="Weight of one rater",
        required=False,
        min_value=1,
        max_value=100,
        initial=10,
        help_text="Maximum weight of one rater’s votes, as a percentage of all human votes; twice "
        "the average rater’s share is always allowed. 100 for no limit.",
    )
    network_share = forms.IntegerField(
        label="Weight of one network",
        required=False,
        min_value=1,
        max_value=100,
        initial=10,
        help_text="Maximum weight of unverified votes from one network, as a percentage of all "
        "human votes.",
    )
    criteria = forms.CharField(
        label="Criteria for LLM judges",
        required=False,
        max_length=length_limit(Arena, "criteria"),
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="What makes an answer better. If empty, judges use the criteria of their rubric.",
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        return {
            name: value
            for name, value in given.items()
            if name not in KEPT or value not in (None, "")
        }

    @classmethod
    def of(cls, arena: Arena) -> "ArenaForm":
        return cls(initial={name: getattr(arena, name) for name in cls.base_fields})


class VoteOrderForm(forms.Form):
    """A request for human votes, from members of the team by name or from anybody."""

    per_pair = forms.IntegerField(
        label="Votes per pair of candidates",
        min_value=1,
        max_value=MAX_PER_PAIR,
        initial=3,
        help_text="From each rater chosen below, or in total if you choose none.",
    )
    raters = forms.MultipleChoiceField(
        label="Raters",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Choose members of the team to ask them by name. Choose none to ask everyone "
        "who votes here.",
    )
    hides_names = forms.BooleanField(
        label="Hide names until everyone has voted",
        required=False,
        help_text="The chosen raters learn who wrote the answers only when all of them are done, "
        "and can’t open candidates’ answers until then. Anyone who has already seen the answers "
        "with names may still recognise them. If that includes you, don’t choose yourself.",
    )
    repeats = forms.IntegerField(
        label="Pairs asked twice",
        required=False,
        min_value=0,
        max_value=MAX_REPEATS,
        initial=0,
        help_text="For each rater, to measure how often they agree with themselves. The second "
        "vote never counts. Requires hidden names.",
    )

    def __init__(self, *args: Any, team: Team | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        members = team.memberships.select_related("user").order_by("user__username") if team else []
        raters = self.fields["raters"]
        assert isinstance(raters, forms.MultipleChoiceField)
        raters.choices = [(member.user_id, member.user.get_username()) for member in members]

    def clean_repeats(self) -> int:
        return self.cleaned_data["repeats"] or 0
