"""The forms with which a team starts: a new arena, by its name or with its questions."""

import re
from collections.abc import Sequence
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.forms.utils import ErrorDict

from arena.files.reader import FileError
from arena.files.rows import PromptRow
from arena.files.tables import Problem, parse_pasted
from arena.forms.base import TEXT_FILES, errors_in, text_in
from arena.models import Arena, Prompt, Team
from arena.models.fields import length_limit
from arena.services.teams import LONGEST_NAME, TeamError, check_team_name_is_free
from arena.services.workspaces import check_arena_name_is_free
from arena.validation import InputError


class StartForm(forms.Form):
    """A new arena by its name alone, of one of the person's teams, or of a new team."""

    team = forms.ChoiceField(label="Team")
    team_name = forms.CharField(
        label="Team name",
        max_length=LONGEST_NAME,
        error_messages={"required": "Enter a name for the team."},
        help_text="You can invite others later.",
    )
    name = forms.CharField(
        label="Name of the arena",
        max_length=length_limit(Arena, "name"),
        help_text="What you compare, for example “Answers of the help centre”.",
        error_messages={"required": "Enter a name for the arena."},
    )

    def __init__(self, *args: Any, teams: Sequence[Team], person: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.teams = {str(team.pk): team for team in teams}
        if not teams:
            del self.fields["team"]
            self.initial["team_name"] = f"{person}’s team"
            return
        del self.fields["team_name"]
        field = self.fields["team"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(key, team.name) for key, team in self.teams.items()]
        field.initial = next(iter(self.teams))
        if len(teams) == 1:
            field.required, field.widget = False, forms.HiddenInput()

    def clean(self) -> dict[str, Any]:
        """Refuse names that are taken, before anything else is done with the form."""
        data, team = self.cleaned_data, self.team_chosen
        with errors_in(self):
            if team and data.get("name"):
                check_arena_name_is_free(team, data["name"])
        if data.get("team_name"):
            try:
                check_team_name_is_free(data["team_name"])
            except TeamError as error:
                self.add_error("team_name", error.message)
        return data

    @property
    def team_chosen(self) -> Team | None:
        """None is a new team."""
        if len(self.teams) == 1:
            return next(iter(self.teams.values()))
        return self.teams.get(self.cleaned_data.get("team", ""))

    @property
    def arena_fields(self) -> dict[str, Any]:
        """The arguments of `start_arena`. Only the team sees and votes until it says otherwise."""
        return {
            "team": self.team_chosen,
            "team_name": self.cleaned_data.get("team_name", ""),
            "name": self.cleaned_data["name"],
            "visibility": Arena.Visibility.PRIVATE,
            "voters": Arena.Voters.MEMBERS,
        }


def _of_a_line(problem: Problem) -> str:
    """Say what is wrong with a pasted line, where a file would have rows and columns."""
    if repeated := re.search(r"is the same as in row ([\d,]+)", problem.sentence):
        return f"Line {problem.row:,} repeats line {repeated[1]}."
    sentence = problem.sentence.replace(" (column 'text')", "")
    return f"Line {problem.row:,}: {sentence}"


class ComparisonForm(StartForm):
    """A new arena with its questions, which are its prompts. Those in a text file become text in
    the field, so that a form that is sent back has them."""

    questions = forms.CharField(
        label="Questions",
        required=False,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"}),
        help_text="What users ask, one per line. Separate longer ones with a line ---. Ten are"
        " enough to start; with fewer than 40, results may not hold for similar questions.",
    )
    file = forms.FileField(
        label="Or a text file of questions",
        required=False,
        widget=forms.FileInput(attrs={"accept": ",".join(TEXT_FILES)}),
        help_text="Written like that, as .txt or .md.",
    )

    def __init__(self, data: Any = None, files: Any = None, **kwargs: Any) -> None:
        data = None if data is None else data.copy()
        super().__init__(data, **kwargs)
        self.problem = ""
        file = files.get(self.add_prefix("file")) if files else None
        if file is not None:
            self._take(file, data)

    def _take(self, file: UploadedFile, data: Any) -> None:
        name = self.add_prefix("questions")
        try:
            data[name] = "\n".join(filter(None, [data.get(name, "").strip(), text_in(file)]))
        except InputError as error:
            self.problem = f"{file.name} {error.reason}."

    def skip_checks(self) -> None:
        """Show what was entered without errors, but say if a file could not be read."""
        self._errors, self.cleaned_data = ErrorDict(), {}
        if self.problem:
            self.add_error("file", self.problem)

    def clean_questions(self) -> str:
        text: str = self.cleaned_data["questions"]
        self.rows = list[PromptRow]()
        if not text.strip() and not self.problem:
            raise forms.ValidationError("Enter at least one question.")
        if text.strip():
            try:
                table = parse_pasted(text)
            except FileError as error:
                raise forms.ValidationError(str(error)) from None
            if table.problems:
                raise forms.ValidationError([_of_a_line(problem) for problem in table.problems])
            self.rows = list({row.key: row for row in table.rows}.values())
        return text

    def clean(self) -> dict[str, Any]:
        if self.problem:
            self.add_error("file", self.problem)
        return super().clean()

    def drafts(self) -> list[Prompt]:
        """The prompts, unsaved, as a price is worked out for them."""
        return [
            Prompt(external_id=f"p{number}", text=row.text)
            for number, row in enumerate(self.rows, start=1)
        ]
