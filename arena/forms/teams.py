"""What is filled in about teams."""

from django import forms

from arena.models import Role
from arena.services import invitations, teams, tokens

ROLES = [
    (Role.MEMBER, "Member: enters candidates, orders runs"),
    (Role.VIEWER, "Viewer: reads"),
    (Role.OWNER, "Owner: all that, and manages the team"),
]
SCOPES = [
    ("read", "Read: boards, candidates, verdicts of the team"),
    ("submit", "Submit: arenas, prompts, candidates, answers, votes"),
    ("judge", "Judge: order runs of judges, which cost money"),
]


class TeamForm(forms.Form):
    name = forms.CharField(
        label="Name of the team",
        max_length=teams.LONGEST_NAME,
        error_messages={"required": "Give the team a name."},
    )


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices, label="Role")


class InvitationForm(forms.Form):
    role = forms.ChoiceField(label="They will be", choices=ROLES)
    note = forms.CharField(
        label="Whom is it for?",
        required=False,
        max_length=invitations.LONGEST_NOTE,
        help_text="For you, to tell the links apart.",
    )


class TokenForm(forms.Form):
    name = forms.CharField(
        label="Where is it used?",
        max_length=tokens.LONGEST_NAME,
        help_text="As in “CI of the help centre”.",
        error_messages={"required": "Give the token a name that says where it is used."},
    )
    scopes = forms.MultipleChoiceField(
        label="What may it do?",
        choices=SCOPES,
        initial=["read"],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one thing that the token may do."},
    )
