"""A prompt as an operator adds or changes it in the admin."""

from typing import Any

from django.core.exceptions import ValidationError
from django.forms import ModelForm

from arena.models import Prompt
from arena.services.prompts import PromptRefused, check_is_no_double

TOLD_APART_BY = {"arena", "text", "variables"}


class PromptForm(ModelForm):
    """Every other way in refuses the text of another prompt, and so does this one."""

    def clean_variables(self) -> dict[str, Any]:
        """Variables are an object or nothing."""
        variables = self.cleaned_data["variables"] or {}
        if not isinstance(variables, dict):
            raise ValidationError("The variables are not an object.")
        return variables

    def clean(self) -> dict[str, Any]:
        """Compare it with the other prompts, where it is another one than before."""
        said: dict[str, Any] = super().clean() or self.cleaned_data
        moved = TOLD_APART_BY & set(self.changed_data)
        if moved and said.get("text") and not TOLD_APART_BY & set(self.errors):
            draft = Prompt(pk=self.instance.pk, **{name: said[name] for name in TOLD_APART_BY})
            try:
                check_is_no_double(prompt=draft)
            except PromptRefused as refusal:
                self.add_error(refusal.field, refusal.sentence)
        return said
