"""What is filled in about an arena."""

from django import forms

from arena.models import Arena
from arena.services.arenas import LONGEST_DESCRIPTION
from arena.services.catalog import LONGEST_CRITERIA


class ArenaForm(forms.Form):
    """An arena's settings."""

    name = forms.CharField(
        label="Name", max_length=120, error_messages={"required": "Give the arena a name."}
    )
    question = forms.CharField(
        label="Question to the raters",
        max_length=200,
        initial="Which answer helps more?",
        help_text="They see it above every two answers. It cannot be changed once people voted.",
    )
    description = forms.CharField(
        label="Description",
        required=False,
        max_length=LONGEST_DESCRIPTION,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="What readers of the board should know.",
    )
    visibility = forms.ChoiceField(
        label="Who sees it",
        choices=Arena.Visibility.choices,
        initial=Arena.Visibility.UNLISTED,
        widget=forms.RadioSelect,
        help_text="Whoever sees it can read the candidates’ prompts, too, once they are disclosed.",
    )
    voters = forms.ChoiceField(
        label="Who may vote",
        choices=Arena.Voters.choices,
        initial=Arena.Voters.ANYONE,
        widget=forms.RadioSelect,
    )
    open_to_teams = forms.BooleanField(
        label="Other teams may enter candidates",
        required=False,
        help_text="They see the prompts, and of other teams’ candidates no more than the public.",
    )
    criteria = forms.CharField(
        label="What makes an answer better",
        required=False,
        max_length=LONGEST_CRITERIA,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="In the words that LLM judges are given. Empty: each rubric’s own words.",
    )

    @classmethod
    def of(cls, arena: Arena) -> "ArenaForm":
        """The form as an arena fills it in."""
        return cls(initial={name: getattr(arena, name) for name in cls.base_fields})
