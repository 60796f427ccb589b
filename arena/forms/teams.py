"""The forms of teams, invitations, tokens and webhooks."""

from django import forms

from arena.forms.base import DollarsField
from arena.models import Role, Webhook
from arena.services import invitations, teams, tokens

ROLES = [
    (Role.MEMBER, "Member: adds candidates, starts runs"),
    (Role.VIEWER, "Viewer: read-only"),
    (Role.OWNER, "Owner: also manages the team"),
]
SCOPES = [
    ("read", "Read: leaderboards, candidates, and the team’s verdicts"),
    ("submit", "Submit: arenas, prompts, candidates, answers and votes"),
    ("judge", "Judge: start judge runs, which cost money"),
]


class TeamForm(forms.Form):
    name = forms.CharField(
        label="Team name",
        max_length=teams.LONGEST_NAME,
        error_messages={"required": "Enter a name for the team."},
    )


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices, label="Role")


class InvitationForm(forms.Form):
    role = forms.ChoiceField(label="Role", choices=ROLES)
    note = forms.CharField(
        label="Who is it for?",
        required=False,
        max_length=invitations.LONGEST_NOTE,
        help_text="A note for your team, to tell the links apart.",
    )


class TokenForm(forms.Form):
    name = forms.CharField(
        label="Where is it used?",
        max_length=tokens.LONGEST_TOKEN_NAME,
        help_text="For example, “CI of the help centre”.",
        error_messages={"required": "Say where the token is used."},
    )
    scopes = forms.MultipleChoiceField(
        label="What can it do?",
        choices=SCOPES,
        initial=["read"],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one scope."},
    )


class WebhookForm(forms.Form):
    # Not a URLField: the service checks addresses, with its own messages.
    url = forms.CharField(
        label="Address",
        max_length=2000,
        widget=forms.URLInput(attrs={"placeholder": "https://hooks.example.com/ringside"}),
        error_messages={"required": "Enter the address to send notifications to."},
    )
    format = forms.ChoiceField(
        label="Format",
        choices=Webhook.Format.choices,
        initial=Webhook.Format.RINGSIDE,
        required=False,
        widget=forms.RadioSelect,
    )

    def clean_format(self) -> str:
        return str(self.cleaned_data["format"] or Webhook.Format.RINGSIDE)


class TeamBudgetForm(forms.Form):
    budget = DollarsField(
        label="New budget in dollars",
        help_text="What the team may spend on models in total; 0 stops new runs.",
    )
