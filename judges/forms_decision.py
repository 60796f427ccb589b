"""What is filled in on a team's decision page."""

from django import forms

from ranking.pages.compare import LARGEST_ID


class BaselineForm(forms.Form):
    candidate = forms.IntegerField(min_value=1, max_value=LARGEST_ID)
