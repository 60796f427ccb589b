"""The forms of prompts, and of pasted or uploaded rows."""

import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.text import capfirst

from arena.conversations import clean_messages, prompt_fields
from arena.files.reader import json_object
from arena.files.rows import PromptRow
from arena.files.tables import (
    AT_MOST_BYTES,
    AT_MOST_ROWS,
    PROMPTS,
    RESPONSES,
    UNUSED,
    VARIABLE,
    Table,
)
from arena.formats import FORMATS, LAYOUTS
from arena.formats.columns import candidate_in, roles_of
from arena.forms.base import RowForm
from arena.models import Arena, Prompt
from arena.models.fields import length_limit
from arena.services.imports import PreviewedFile
from arena.validation import InputError, decode_json, is_unicode, is_variable

NOTHING = "Paste something, or choose a file."
BOTH = "You pasted text and chose a file. Send only one of them."
OTHER_FILES = ".parquet,.zip,.gz,.eval"  # of other tools
OF_ANY_TOOL = ("prompts", "answers", "openai-chat", "pairs", "preferences", "preferences-unpaired")
OF_ONE_TOOL = [(name, f.TITLE) for name, f in FORMATS.items() if name not in OF_ANY_TOOL]
COLUMN = "column-"  # prefix of the fields that choose a column's role
FILES = ".csv,.tsv,.xlsx,.txt,.json,.jsonl,.ndjson,text/csv,application/json,text/plain"


class JsonTextField(forms.JSONField):
    """JSON in a text box, shown indented, or as it was typed if it is refused."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("required", False)
        options.setdefault("widget", forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}))
        super().__init__(**options)

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else format_json(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        return data


class ObjectField(JsonTextField):
    """A JSON object; an empty field is an empty object."""

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return {}
        try:
            return json_object(decode_json(value))
        except InputError:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from None


class ConversationField(JsonTextField):
    """A JSON list of messages; an empty field is no conversation."""

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        try:
            return clean_messages(decode_json(value))
        except InputError as error:
            raise forms.ValidationError(f"It {error.reason}.", code="invalid") from None


class UploadForm(forms.Form):
    """Either a pasted text or a file."""

    pasted = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
    )
    file = forms.FileField(
        required=False,
        widget=forms.FileInput(attrs={"accept": FILES}),
        error_messages={"empty": "The file is empty."},
        help_text=f"Excel, CSV, JSON Lines or a JSON list, with up to {AT_MOST_ROWS:,} rows and "
        f"{AT_MOST_BYTES // 1_000_000} MB.",
    )
    atomic = forms.BooleanField(
        label="All rows or none",
        required=False,
        help_text="Otherwise, valid rows are saved and the others are listed with their errors.",
    )

    def clean(self) -> dict[str, Any]:
        super().clean()
        pasted = self.cleaned_data.get("pasted", "").strip()
        file = self.cleaned_data.get("file")
        if pasted and file:
            raise forms.ValidationError(BOTH)
        if not pasted and not file and not self.data.get("kept") and not self.errors:
            raise forms.ValidationError(NOTHING)
        return self.cleaned_data

    def file_bytes(self) -> bytes:
        """Return the file's bytes; b'' if a text was pasted instead."""
        file = self.cleaned_data.get("file")
        return file.read(AT_MOST_BYTES + 1) if file else b""


class AddPromptsForm(UploadForm):
    """Prompts, pasted or in a file. `kept` is the key to a file that was previewed as `table`.

    A preview adds a choice for each column of the file; at first, `unread` ones are not used.
    """

    category = forms.CharField(
        label="Category for prompts without one",
        required=False,
        max_length=length_limit(Prompt, "category"),
        help_text="The leaderboard can be filtered by category.",
    )
    kept = forms.CharField(required=False, widget=forms.HiddenInput)
    document = forms.CharField(
        label="Document for prompts without one",
        required=False,
        max_length=length_limit(Prompt, "document"),
        help_text="Votes on prompts of one document count as one group.",
    )
    field_order = ["pasted", "file", "category", "document", "atomic"]

    def __init__(
        self, *args: Any, table: Table[PromptRow] | None = None, unread: Any = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        names = [(name, label[0].upper() + label[1:]) for name, label in PROMPTS.labels.items()]
        roles = table.roles.items() if table else ()
        for column, role in ((name, role) for name, role in roles if is_unicode(name)):
            variable = [(VARIABLE, "Variable")] if is_variable(column) else []
            self.fields[COLUMN + column] = forms.ChoiceField(
                label=column,
                required=False,
                choices=[*names, *variable, (UNUSED, "Not used")],
                initial=UNUSED if column in unread else role,
            )
        pasted, file = self.fields["pasted"], self.fields["file"]
        pasted.label = "Prompts"
        pasted.help_text = "One per line. Separate multi-line prompts with a line ---."
        file.label = "Or upload a file of prompts"
        file.widget.attrs["accept"] = f"{FILES},{OTHER_FILES}"
        file.help_text += (
            " The column text is required; id, category, reference (the expected answer) and"
            " rubric are optional. Other columns can be variables of the prompt, visible to teams"
            " that can add candidates. You see how the columns are read before anything is saved."
            f" Accepted column names: {PROMPTS.accepted}."
        )

    @property
    def is_pasted(self) -> bool:
        """Whether prompts were pasted; in that case, a kept file does not matter."""
        return bool(self.cleaned_data.get("pasted", "").strip())

    def chosen_roles(self) -> dict[str, str]:
        """Return what each column was chosen to be, by its name."""
        return chosen(self.data, COLUMN)

    @property
    def column_fields(self) -> list[forms.BoundField]:
        return [field for field in self if field.name.startswith(COLUMN)]

    @property
    def other_fields(self) -> list[forms.BoundField]:
        """All fields but those of columns; a preview takes no other prompts."""
        left_out = ("pasted", "file") if self.column_fields else ()
        return [
            field
            for field in self
            if not field.name.startswith(COLUMN) and field.name not in left_out
        ]


class UploadAnswersForm(UploadForm):
    field_order = ["file", "pasted", "atomic"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["file"].label = "File of answers"
        self.fields["pasted"].label = "Or paste the answers"
        self.fields["file"].help_text += (
            " The columns prompt_id (or prompt, with the prompt’s text) and answer are required;"
            " tokens_in, tokens_out, seconds and cost (in dollars) are optional. Accepted column"
            f" names: {RESPONSES.accepted}."
        )

    def file_bytes(self) -> bytes:
        """Return the file's bytes, or those of the pasted text, which is read like a file."""
        return super().file_bytes() or self.cleaned_data["pasted"].encode()


class PromptForm(RowForm):
    class Meta(RowForm.Meta):
        model = Prompt
        fields = ["text", "messages", "category", "document", "reference", "rubric", "variables"]
        field_classes = {"messages": ConversationField, "variables": ObjectField}
        widgets = {
            "text": forms.Textarea(attrs={"rows": 6}),
            "reference": forms.Textarea(attrs={"rows": 3}),
            "rubric": forms.Textarea(attrs={"rows": 2}),
        }
        error_messages = {
            "variables": {
                "invalid": "Enter a JSON object of names and texts, for example"
                ' {"customer": "Ada"}.'
            }
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.messages:  # whose transcript the text is
            self.initial["text"] = ""

    def clean(self) -> dict[str, Any]:
        super().clean()
        text, messages = self.cleaned_data.get("text", ""), self.cleaned_data.get("messages")
        if text.strip() and messages:
            self.add_error("messages", "Enter a text or a conversation, not both.")
        elif not text.strip() and not messages and not self.errors:
            self.add_error("text", "Enter the prompt’s text.")
        if messages:
            self.cleaned_data["text"] = prompt_fields(messages)["text"]
        return self.cleaned_data


class DocumentForm(RowForm):
    """What can still change of a prompt that is in use."""

    class Meta(RowForm.Meta):
        model = Prompt
        fields = ["document"]


class FilterForm(forms.Form):
    q = forms.CharField(label="Search", required=False)
    category = forms.ChoiceField(label="Category", required=False)
    state = forms.ChoiceField(
        label="State",
        required=False,
        choices=[("", "Active"), ("retired", "Archived"), ("all", "All")],
    )

    def __init__(self, *args: Any, arena: Arena, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = arena.prompts.revealed().order_by("category").values_list("category", flat=True)
        category = self.fields["category"]
        assert isinstance(category, forms.ChoiceField)
        category.choices = [("", "All"), *((name, name) for name in names.distinct() if name)]


def format_json(value: Any) -> str:
    """Indent an object; return '' for an empty one."""
    return json.dumps(value, ensure_ascii=False, indent=2) if value else ""


ROLES = (
    ("", "Not used"),
    (
        "The question",
        (
            ("prompt", "Prompt"),
            ("id", "ID of the prompt"),
            ("category", "Category"),
            ("document", "Document"),
            ("reference", "Expected answer"),
        ),
    ),
    (
        "A column for each candidate",
        (
            ("answer:", "Answer of a candidate"),
            ("rating:", "Rating of a candidate"),
            ("rank:", "Rank of a candidate"),
        ),
    ),
    (
        "Two candidates in each row",
        (
            ("model_a", "Name of candidate A"),
            ("model_b", "Name of candidate B"),
            ("response_a", "Answer A"),
            ("response_b", "Answer B"),
            ("score_a", "Rating of A"),
            ("score_b", "Rating of B"),
        ),
    ),
    (
        "One candidate in each row",
        (
            ("model", "Name of the candidate"),
            ("response", "Answer"),
            ("score", "Rating"),
            ("rank", "Rank"),
        ),
    ),
    (
        "The verdict",
        (
            ("winner", "Winner"),
            ("loser", "Loser"),
            ("rater", "Rater"),
            ("judge", "LLM judge"),
            ("time", "Time"),
            ("count", "Number of such votes"),
        ),
    ),
)
KNOWN_ROLES = {role for _, group in ROLES[1:] for role, _ in group}
MEANINGS = {
    "left": "{} is better",
    "0.75": "{} is slightly better",
    "tie": "Tie",
    "0.25": "{other} is slightly better",
    "right": "{other} is better",
    "both_bad": "Both are bad",
    "skip": "No vote",
}
ROLE, CANDIDATE, VALUE = "role-", "candidate-", "value-"  # prefixes of fields
MOST_OFFERED = 200  # columns


class ImportForm(forms.Form):
    """A file of any format. `kept` is the key to a file that was previewed.

    `show` adds what each column is read as, and what each of the winner's values means.
    """

    file = forms.FileField(
        label="File",
        required=False,
        widget=forms.FileInput(attrs={"accept": f"{FILES},{OTHER_FILES}"}),
        error_messages={"empty": "The file is empty."},
        help_text="A spreadsheet (Excel or CSV), JSON, JSON Lines, Parquet or a zip archive, up to "
        f"{AT_MOST_BYTES // 1_000_000} MB.",
    )
    format = forms.ChoiceField(
        label="Format",
        required=False,
        choices=[
            ("auto", "Detect automatically"),
            ("From any tool", [(name, capfirst(FORMATS[name].TITLE)) for name in OF_ANY_TOOL]),
            ("From one tool", sorted(OF_ONE_TOOL, key=lambda choice: choice[1].casefold())),
        ],
    )
    skip_bad = forms.BooleanField(label="Skip bad rows", required=False)
    kept = forms.CharField(required=False, widget=forms.HiddenInput)
    of = forms.CharField(required=False, widget=forms.HiddenInput)  # the format of the columns

    def __init__(self, *args: Any, file: PreviewedFile | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.columns: list[tuple[list[str], forms.BoundField, forms.BoundField]] = []
        self.values: list[forms.BoundField] = []
        if file is not None:
            self.show(file)

    def show(self, file: PreviewedFile) -> None:
        """Add the choices for a file's columns, and for its winner's values."""
        used = roles_of(file.format_name, file.columns)
        layout = LAYOUTS.get(file.format_name)
        own = {*used.values(), *(layout.columns if layout else ())}
        if self.is_bound:
            own |= {*self.chosen_roles().values()}
        own = {role for role in own if role and ":" not in role} - KNOWN_ROLES - {"text"}
        more = [(name, name.replace("_", " ").capitalize()) for name in sorted(own)]
        choices = [*ROLES, *([("Other", more)] if more else [])]
        for n, heading in enumerate(sorted(file.names, key=lambda name: name not in used)):
            if n >= MOST_OFFERED:
                break
            family, colon, candidate = used.get(heading, "").partition(":")
            self.fields[ROLE + heading] = forms.ChoiceField(
                label=heading,
                required=False,
                choices=choices,
                initial=family + colon,
                widget=forms.Select(attrs={"id": f"role-{n}"}),
            )
            self.fields[CANDIDATE + heading] = forms.CharField(
                label=f"Candidate in the column {heading}",
                required=False,
                initial=candidate or candidate_in(heading),
                widget=forms.TextInput(attrs={"id": f"candidate-{n}"}),
            )
        names = [name for name in file.names if ROLE + name in self.fields]
        self.columns = [
            (file.samples.get(name, []), self[ROLE + name], self[CANDIDATE + name])
            for name in names
        ]
        self._show_values(file)

    def _show_values(self, file: PreviewedFile) -> None:
        sides = _sides(file.columns)
        labels = {
            means: label.format(sides[0], other=sides[1]) for means, label in MEANINGS.items()
        }
        said = self.chosen_values() if self.is_bound else {}
        for n, (value, means) in enumerate({**said, **file.values}.items()):
            more = {} if means in ("", *labels) else {means: f"{float(means):.0%} {sides[0]}"}
            self.fields[VALUE + value] = forms.ChoiceField(
                label=value,
                required=False,
                choices=[("", "Choose what it means"), *{**labels, **more}.items()],
                initial=means,
                widget=forms.Select(attrs={"id": f"value-{n}"}),
            )
            self.values.append(self[VALUE + value])

    @property
    def file_fields(self) -> list[forms.BoundField]:
        shown = (ROLE, CANDIDATE, VALUE)
        return [field for field in self if not field.name.startswith(shown)]

    def clean(self) -> dict[str, Any]:
        super().clean()
        if not self.cleaned_data.get("file") and not self.data.get("kept") and not self.errors:
            self.add_error("file", "Choose a file.")
        return self.cleaned_data

    @property
    def is_of_this_format(self) -> bool:
        """Whether what was chosen belongs to the format that is chosen now."""
        return bool(self.data.get("of", self.data.get("format")) == self.data.get("format"))

    def chosen_roles(self) -> dict[str, str]:
        """Return what each column was chosen to be; none once another format was chosen."""
        roles = chosen(self.data, ROLE) if self.is_of_this_format else {}
        names = chosen(self.data, CANDIDATE)
        return {
            heading: role + (names.get(heading, "").strip() or heading) if ":" in role else role
            for heading, role in roles.items()
        }

    def chosen_values(self) -> dict[str, str]:
        """Return what was said that values mean."""
        values = chosen(self.data, VALUE) if self.is_of_this_format else {}
        return {value: means for value, means in values.items() if means}


def _sides(columns: Mapping[str, str]) -> tuple[str, str]:
    """What to call the two candidates of a vote."""
    answers = [field.partition(":")[2] for field in columns if field.startswith("answer:")]
    if len(answers) == 2:
        return answers[0], answers[1]
    for field in ("model", "response"):
        if left := columns.get(f"{field}_a"):
            right = columns.get(f"{field}_b", "")
            return (left, right) if field == "response" else (f"The {left}", f"The {right}")
    return "The first", "The second"


def chosen(data: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """Return what was sent in the fields with a prefix, by their names without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in data.items()
        if name.startswith(prefix) and isinstance(value, str)
    }
