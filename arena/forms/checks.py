"""The form of a check."""

from django import forms

from arena.checks import CHECK_NAME_LIMIT, EXPECTED_LIMIT, KINDS, MOST_ALLOWED
from arena.models import Arena, Prompt


class CheckForm(forms.Form):
    kind = forms.ChoiceField(label="Rule", choices=list(KINDS.items()))
    expected = forms.CharField(
        label="Value",
        required=False,
        strip=False,
        max_length=EXPECTED_LIMIT,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text="A text, which may use the prompt’s variables, such as {{ customer }}. For “all"
        " of” and “any of”, one text per line. For words and characters, “at most 120”, “at least"
        " 20” or “20 to 120”. For JSON, a JSON Schema or nothing.",
    )
    negated = forms.BooleanField(
        label="Must not",
        required=False,
        help_text="Answers fail if they do what the rule says.",
    )
    prompt = forms.CharField(
        label="Only for the prompt",
        required=False,
        max_length=10_000,
        help_text="Its ID or its text. If empty, the check is for every prompt.",
    )
    allowed = forms.IntegerField(
        label="Answers that may fail",
        required=False,
        min_value=0,
        max_value=MOST_ALLOWED,
        initial=0,
    )
    name = forms.CharField(
        label="Name",
        required=False,
        max_length=CHECK_NAME_LIMIT,
        help_text="If empty, the name says what is checked.",
    )

    def __init__(self, *args: object, arena: Arena, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.arena = arena

    def clean_prompt(self) -> Prompt | None:
        name = self.cleaned_data["prompt"]
        if not name:
            return None
        prompts = self.arena.prompts.revealed()
        prompt = prompts.filter(external_id=name).first()
        if prompt is None:
            prompt = prompts.filter(retired_at=None, text__iexact=name.strip()).first()
        if prompt is None:
            raise forms.ValidationError("The arena has no prompt with this ID or text.")
        return prompt

    def clean_allowed(self) -> int:
        return self.cleaned_data["allowed"] or 0
