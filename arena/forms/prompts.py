"""What is filled in about prompts, and the files that are uploaded."""

import json
from typing import Any

from django import forms

from arena.importers.base import MOST_VARIABLES, BadRow
from arena.importers.formats import json_object
from arena.models import Arena, Prompt
from arena.uploads import AT_MOST_BYTES, AT_MOST_ROWS, PROMPTS, RESPONSES

NOTHING = "Paste something, or choose a file."
BOTH = "There is a text and a file. Send one of the two."
ATOMIC = "Take all rows or none"
FILES = ".csv,.tsv,.txt,.json,.jsonl,.ndjson,text/csv,application/json,text/plain"


class ObjectField(forms.JSONField):
    """A JSON object, written as people read it; nothing where there is none."""

    def __init__(self, **fields: Any) -> None:
        widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})
        super().__init__(required=False, widget=widget, **fields)

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else shown_json(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        return data

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return {}
        try:
            return json_object(value)
        except BadRow:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from None


class UploadForm(forms.Form):
    """A text that was pasted, or a file."""

    pasted = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
    )
    file = forms.FileField(
        required=False,
        widget=forms.FileInput(attrs={"accept": FILES}),
        error_messages={"empty": "The file is empty."},
        help_text=f"CSV, JSON Lines or a JSON list, as programs save them: at most "
        f"{AT_MOST_ROWS:,} rows and {AT_MOST_BYTES // 1_000_000} MB.",
    )
    atomic = forms.BooleanField(
        label=ATOMIC,
        required=False,
        help_text="Otherwise the good rows go in, and the others are listed with their reasons.",
    )

    def clean(self) -> dict[str, Any]:
        super().clean()
        pasted = self.cleaned_data.get("pasted", "").strip()
        file = self.cleaned_data.get("file")
        if pasted and file:
            raise forms.ValidationError(BOTH)
        if not pasted and not file and not self.errors:
            raise forms.ValidationError(NOTHING)
        return self.cleaned_data

    def data_of_file(self) -> bytes:
        """Return the file's bytes; b'' where the text was pasted."""
        file = self.cleaned_data.get("file")
        return file.read(AT_MOST_BYTES + 1) if file else b""


class AddPromptsForm(UploadForm):
    """Prompts, pasted or in a file."""

    category = forms.CharField(
        label="Category of those that name none",
        required=False,
        max_length=100,
        help_text="Boards can be read for each category by itself.",
    )
    field_order = ["pasted", "file", "category", "atomic"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["pasted"].label = "Prompts"
        self.fields[
            "pasted"
        ].help_text = (
            "One in each line; or, for prompts of several lines, with --- in a line between them."
        )
        self.fields["file"].label = "Or a file of prompts"
        self.fields["file"].help_text += (
            " It has a column text, and may have id, category, reference (the expected answer) and"
            " rubric. Every other column is a variable of the prompt, which teams that may enter"
            f" candidates see. Names that are understood: {PROMPTS.accepted}."
        )


class UploadAnswersForm(UploadForm):
    """Answers, pasted or in a file."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["file"].label = "File of answers"
        self.fields["pasted"].label = "Or the same, pasted"
        self.fields["file"].help_text += (
            " It has a column prompt_id (or prompt, with the prompt’s text) and a column answer."
            " It may have tokens_in, tokens_out, seconds and cost (in dollars). Names that are"
            f" understood: {RESPONSES.accepted}."
        )

    field_order = ["file", "pasted", "atomic"]

    def data_of_file(self) -> bytes:
        """A text that was pasted is read as a file is."""
        return super().data_of_file() or self.cleaned_data["pasted"].encode()


class PromptForm(forms.Form):
    """One prompt."""

    text = forms.CharField(
        label="Prompt",
        strip=False,
        widget=forms.Textarea(attrs={"rows": 6}),
        error_messages={"required": "A prompt has a text."},
    )
    category = forms.CharField(label="Category", required=False, max_length=100)
    reference = forms.CharField(
        label="Reference answer",
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Shown to judges whose rubric wants one, never to raters or candidates.",
    )
    rubric = forms.CharField(
        label="Rubric of this prompt",
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="How LLM judges grade answers to this prompt, in place of the arena’s criteria.",
    )
    variables = ObjectField(
        label="Variables",
        help_text='What candidates’ templates may use besides {{ prompt }}, as in {"customer":'
        f' "Ada"}}: at most {MOST_VARIABLES}. Teams that may enter candidates see them.',
        error_messages={
            "invalid": 'The variables are not an object of names and texts, as in {"customer":'
            ' "Ada"}.'
        },
    )

    @classmethod
    def of(cls, prompt: Prompt) -> "PromptForm":
        """The form as a prompt fills it in."""
        return cls(initial={name: getattr(prompt, name) for name in cls.base_fields})


class FilterForm(forms.Form):
    """Which prompts are listed."""

    q = forms.CharField(label="Words", required=False)
    category = forms.ChoiceField(label="Category", required=False)
    state = forms.ChoiceField(
        label="State",
        required=False,
        choices=[("", "Active"), ("retired", "Retired"), ("all", "All")],
    )

    def __init__(self, *args: Any, arena: Arena, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = arena.prompts.revealed().order_by("category").values_list("category", flat=True)
        category = self.fields["category"]
        assert isinstance(category, forms.ChoiceField)
        category.choices = [("", "All"), *((name, name) for name in names.distinct() if name)]


def shown_json(value: Any) -> str:
    """Write an object as people read it."""
    return json.dumps(value, ensure_ascii=False, indent=2) if value else ""
