"""The forms of an arena's settings, its import, and requests for human votes."""

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.db import models

from arena.forms.base import RowForm, candidate_choices, form_field
from arena.models import Arena, Candidate
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


def setting_field(field: "models.Field[Any, Any]", **options: Any) -> forms.Field | None:
    if field.name in Arena.LIMITS:
        options["min_value"], options["max_value"] = Arena.LIMITS[field.name]
    return form_field(field, limits_texts=True, **options)


class ArenaForm(RowForm):
    # Settings that stay as they are, or get their default, if a form leaves them out.
    KEPT = (
        *("held_out", "rater_cap", "self_identifying", "counts", "network_share"),
        "anchor_score",
    )

    class Meta:
        model = Arena
        formfield_callback = setting_field
        fields = [
            *("name", "question", "description", "visibility", "voters", "open_to_teams"),
            *("open_answers", "held_out", "guide", "strengths", "faults", "reasons_first"),
            *(
                "self_identifying",
                "counts",
                "counts_tokens",
                "rater_cap",
                "network_share",
                *Arena.SCALE,
                "criteria",
            ),
        ]
        labels = {"visibility": "Who can see it"}
        error_messages = {"name": {"required": "Enter a name for the arena."}}
        widgets = {
            **{name: forms.Textarea(attrs={"rows": 3}) for name in ("description", "criteria")},
            "guide": forms.Textarea(attrs={"rows": 4}),
            **{name: forms.Textarea(attrs={"rows": 5}) for name in ("strengths", "faults")},
            **dict.fromkeys(
                ("visibility", "voters", "self_identifying", "counts"), forms.RadioSelect
            ),
        }
        # To its team; the model's own sentences tell what an answer of the API means.
        help_texts = {
            "question": "Shown above each pair of answers. You cannot change it once people have"
            " voted.",
            "description": "Shown with the leaderboard.",
            "visibility": "Everyone who sees it can also read the candidates’ prompts, once"
            " disclosed.",
            "open_to_teams": "They see the prompts, and no more of other teams’ candidates than the"
            " public.",
            "open_answers": "Otherwise only the team and those who have voted on a pair can, until"
            " its prompt is archived. Anyone who knows the authors can’t vote blind; the"
            " leaderboard says so.",
            "self_identifying": "",
            "counts": "",
            "counts_tokens": "Programs name the raters of such votes, so nobody else can check"
            " them.",
            "rater_cap": "Maximum weight of one rater’s votes, as a percentage of all human votes;"
            " twice the average rater’s share is always allowed. 100 for no limit.",
            "network_share": "Maximum weight of unverified votes from one network, as a percentage"
            " of all human votes.",
            "anchor": "Use it to compare scores with those of another leaderboard. All scores move"
            " by the same number; differences, ranks and intervals stay as they are.",
            "anchor_score": "",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in self.KEPT:
            self.fields[name].required = False
        if self.instance.pk is None:
            self.fields["visibility"].initial = Arena.Visibility.UNLISTED
            for name in Arena.SCALE:  # it has no candidates yet
                del self.fields[name]
        else:
            anchor = self.fields["anchor"]
            assert isinstance(anchor, forms.ModelChoiceField)
            choices = candidate_choices(self.instance, self.instance.anchor_id)
            anchor.queryset = Candidate.objects.filter(pk__in=[pk for pk, _ in choices])
            anchor.choices = [("", "None: the mean score is 1000"), *choices]

    def clean(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self.cleaned_data.items()
            if name not in self.KEPT or value not in (None, "")
        }


def between(least: int, most: int) -> dict[str, str]:
    says = f"Enter a number from {least:,} to {most:,}."
    return {"min_value": says, "max_value": says}


class VoteOrderForm(forms.Form):
    """A request for human votes, from members of the team by name or from anybody."""

    per_pair = forms.IntegerField(
        label="Votes per pair of candidates",
        min_value=1,
        max_value=MAX_PER_PAIR,
        error_messages=between(1, MAX_PER_PAIR),
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
    candidates = forms.MultipleChoiceField(
        label="Candidates",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Only pairs of these are asked about. Choose none to include all candidates.",
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
        error_messages=between(0, MAX_REPEATS),
        initial=0,
        help_text="For each rater, to measure how often they agree with themselves. The second "
        "vote never counts. Requires hidden names.",
    )

    def __init__(self, *args: Any, arena: Arena, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        team = arena.team
        members = team.memberships.select_related("user").order_by("user__username") if team else []
        raters, candidates = self.fields["raters"], self.fields["candidates"]
        assert isinstance(raters, forms.MultipleChoiceField)
        assert isinstance(candidates, forms.MultipleChoiceField)
        raters.choices = [(member.user_id, member.user.get_username()) for member in members]
        candidates.choices = candidate_choices(arena)

    def clean_candidates(self) -> frozenset[int]:
        return frozenset(map(int, self.cleaned_data["candidates"]))

    def clean_repeats(self) -> int:
        return self.cleaned_data["repeats"] or 0
