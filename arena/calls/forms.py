"""Forms about runs and their money, whoever orders them."""

from decimal import Decimal
from typing import Any

from django import forms

from arena.calls.amounts import MOST, nano_dollars


def cap_field(**fields: Any) -> forms.DecimalField:
    """An amount of dollars that a run may cost at most."""
    return forms.DecimalField(
        required=False,
        min_value=0,
        max_value=MOST,
        max_digits=16,
        decimal_places=9,
        widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}),
        **fields,
    )


def in_nano(amount: Decimal | None) -> int | None:
    """Return what such a field holds, in nano-dollars."""
    return None if amount is None else nano_dollars(amount)


class SteerForm(forms.Form):
    """What is to happen to a run; `cap` is in nano-dollars once it is clean."""

    action = forms.ChoiceField(
        choices=[(name, name) for name in ("pause", "resume", "cancel", "ask_again")],
        error_messages={"invalid_choice": "That cannot be done to a run."},
    )
    cap = cap_field()

    def clean_cap(self) -> int | None:
        return in_nano(self.cleaned_data["cap"])


class CapForm(forms.Form):
    """What a run may cost at most; in nano-dollars once it is clean."""

    cap = cap_field(label="It may cost at most, in dollars")

    def clean_cap(self) -> int | None:
        return in_nano(self.cleaned_data["cap"])
