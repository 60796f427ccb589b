"""The form of an arena's live questions."""

from collections.abc import Collection
from typing import Any

from django import forms

from arena.forms.arenas import between
from arena.models import Arena, Candidate
from arena.services.live import MOST_QUESTIONS, can_answer_live


class LiveForm(forms.Form):
    limit = forms.IntegerField(
        label="Questions a day",
        min_value=0,
        max_value=MOST_QUESTIONS,
        error_messages=between(0, MOST_QUESTIONS),
        initial=100,
        help_text="By all raters together, from midnight to midnight UTC, follow-up questions"
        " included. 0 closes the page. What they cost comes out of the team’s budget.",
    )
    voters = forms.ChoiceField(
        label="Who can ask",
        choices=Arena.Voters.choices,
        initial=Arena.Voters.SIGNED_IN,
        widget=forms.RadioSelect,
    )
    candidates = forms.TypedMultipleChoiceField(
        label="Who answers",
        coerce=int,
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Candidates with an endpoint, a price, a public name and no variables in their"
        " templates. With three or more, another one can take over from one that fails.",
    )
    refused_words = forms.CharField(
        label="Refused words",
        required=False,
        max_length=10_000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Questions with one of these words or phrases are refused. One per line.",
    )

    def __init__(self, *args: Any, arena: Arena, live: Arena | None, **options: Any) -> None:
        super().__init__(*args, **options)
        active = Candidate.objects.revealed().active().filter(arena=arena).order_by("pk")
        here = list(active)
        answering = list(live.candidates.active().order_by("pk")) if live else []
        names = {one.name for one in here}
        here += [one for one in answering if one.name not in names]  # those that are no copies
        self._able = {one.pk: one for one in here if can_answer_live(one)}
        field = self.fields["candidates"]
        assert isinstance(field, forms.TypedMultipleChoiceField)
        field.choices = [(pk, one.own_name) for pk, one in self._able.items()]
        if live is None:
            field.initial = list(self._able)
            return
        self.fields["limit"].initial = live.live_limit
        self.fields["voters"].initial = live.voters
        self.fields["refused_words"].initial = live.refused_words
        chosen = {one.name for one in answering}
        field.initial = [pk for pk, one in self._able.items() if one.name in chosen]

    def clean_candidates(self) -> Collection[Candidate]:
        return [self._able[pk] for pk in self.cleaned_data["candidates"]]
