"""Forms: what somebody orders from judges, and how a run is steered."""

import hashlib
from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.db.models import QuerySet

from arena.access import NOBODY, Actor
from arena.calls.forms import cap_field, in_nano
from arena.models import Arena, Candidate, Run
from arena.services.catalog import LONGEST_CRITERIA
from judges.core.rubric import load_rubric, rubric_slugs
from judges.models import Judge
from judges.models.judges import SCRIPTED
from judges.services.decisions import name_for
from judges.services.orders import MOST_JUDGES
from judges.services.planning import Wanted
from judges.services.registering import (
    AS_IT_COMES,
    DEFAULT_RUBRIC,
    SCRIPTED_MODELS,
    Switches,
)
from ranking.pages.published import LONG_TEXTS

SCRIPTED_JUDGES = [f"{SCRIPTED}:{model}" for model in SCRIPTED_MODELS]
PAIRS = [
    ("all", "All pairs that the board cannot tell apart yet, those judged least first."),
    ("neighbours", "Neighbours: only candidates next to each other on the judges' board."),
    ("new", "New candidates: only pairs with one that has few votes of judges or none."),
]
ONE_ALONE = "Choose another one to compare it with, or none to have all of them compared."
NO_SUCH_RUN = "This arena has no such run of judges."
ORDER_POLICIES = [
    ("abstain", "It abstains: only a verdict that stays the same counts"),
    ("tie", "Call it a tie"),
    ("average", "Average the two verdicts"),
]


class CriteriaForm(forms.Form):
    """What makes an answer better in an arena."""

    criteria = forms.CharField(
        required=False,
        label="What makes an answer better",
        max_length=LONGEST_CRITERIA,
        widget=forms.Textarea(attrs={"rows": 4}),
    )


class OrderForm(forms.Form):
    """A run of judges as a person orders it."""

    registered = forms.MultipleChoiceField(
        required=False, label="Judges known here", widget=forms.CheckboxSelectMultiple
    )
    scripted = forms.MultipleChoiceField(
        required=False,
        label="Scripted judges",
        choices=[(name, name) for name in SCRIPTED_JUDGES],
        widget=forms.CheckboxSelectMultiple,
    )
    typed = forms.CharField(
        required=False,
        label="Models by name",
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
    )
    rubric = forms.ChoiceField(label="Rubric", initial=DEFAULT_RUBRIC)
    candidates = forms.MultipleChoiceField(
        required=False, label="Which candidates", widget=forms.CheckboxSelectMultiple
    )
    pairs = forms.ChoiceField(
        label="Which pairs", choices=PAIRS, initial="all", widget=forms.RadioSelect
    )
    again = forms.BooleanField(required=False, label="Buy pairs that are told apart already, too")
    per_pair = forms.IntegerField(
        label="Comparisons for each pair", min_value=1, max_value=10_000, initial=5
    )
    cap = cap_field(label="The run may cost at most, in dollars")
    order_policy = forms.ChoiceField(
        label="When a judge changes its mind as the order is swapped",
        choices=ORDER_POLICIES,
        initial="abstain",
    )
    quorum = forms.IntegerField(
        required=False, label="Verdicts that a jury needs", min_value=1, max_value=MOST_JUDGES
    )
    own_family = forms.BooleanField(
        required=False, label="Judges may judge answers of their own model family"
    )
    soft = forms.BooleanField(
        required=False, label="Record probabilities, where the endpoint gives them"
    )
    any_length = forms.BooleanField(required=False, label="Say nothing about length to the judge")
    unpinned = forms.BooleanField(required=False, label="Allow a model name that may move")
    like_run = forms.IntegerField(
        required=False, widget=forms.HiddenInput, error_messages={"invalid": NO_SUCH_RUN}
    )

    def __init__(self, *args: Any, arena: Arena, actor: Actor = NOBODY, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.arena = arena
        known = judges_that_can_vote(arena, actor)
        self._choices("registered", [(judge.name, judge.name) for judge in known])
        self._choices("candidates", candidate_choices(arena))
        self._choices("rubric", rubric_choices())

    def _choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    def clean(self) -> dict[str, Any]:
        super().clean()
        if self.can_be_quoted() and not self.names():
            raise forms.ValidationError("Choose at least one judge, or name a model.")
        if self.can_be_quoted() and (self.cleaned_data["quorum"] or 0) > len(self.names()):
            self.add_error("quorum", "More verdicts than there are judges can never come together.")
        return self.cleaned_data

    def can_be_quoted(self) -> bool:
        """Is all that a quote depends on filled in as it should be? The cap is not of it."""
        return self.errors.keys() <= {"cap"}

    def clean_candidates(self) -> frozenset[int]:
        chosen = frozenset(map(int, self.cleaned_data["candidates"]))
        if len(chosen) == 1:
            raise forms.ValidationError(ONE_ALONE)
        return chosen

    def clean_cap(self) -> int | None:
        return in_nano(self.cleaned_data["cap"])

    def clean_like_run(self) -> Run | None:
        wanted = self.cleaned_data["like_run"]
        if wanted is None:
            return None
        run = Run.objects.filter(pk=wanted, arena=self.arena, kind=Run.Kind.JUDGE).first()
        if run is None:
            raise forms.ValidationError(NO_SUCH_RUN)
        return run

    def names(self) -> list[tuple[str, Switches]]:
        """The judges that are wanted. One that is registered comes as it was registered."""
        known = [(name, AS_IT_COMES) for name in self.cleaned_data["registered"]]
        typed = self.cleaned_data["typed"].replace(",", "\n").split("\n")
        by_name = [*self.cleaned_data["scripted"], *(name.strip() for name in typed)]
        return known + [(self._with_rubric(name), self._switches()) for name in by_name if name]

    def _with_rubric(self, name: str) -> str:
        return name if "@" in name else f"{name}@{self.cleaned_data['rubric']}"

    def _switches(self) -> Switches:
        chosen = self.cleaned_data
        return Switches(
            order_policy=chosen["order_policy"],
            unpinned=chosen["unpinned"],
            length_neutral=False if chosen["any_length"] else None,
            soft=chosen["soft"],
        )

    def wanted(self) -> Wanted:
        chosen = self.cleaned_data
        like_run, candidates = chosen["like_run"], chosen["candidates"]
        return Wanted(chosen["per_pair"], chosen["pairs"], chosen["again"], like_run, candidates)

    def fingerprint(self) -> str:
        """Name what was filled in, so that an order is known to be the one that was quoted.

        A cap may be put right below the quote, for no figure of it depends on the cap.
        """
        filled = {name: self._filled(name) for name in sorted(self.fields.keys() - {"cap"})}
        return hashlib.sha256(repr(filled).encode()).hexdigest()[:32]

    def _filled(self, name: str) -> Any:
        field = self.fields[name]
        return field.widget.value_from_datadict(self.data, self.files, self.add_prefix(name))


def judges_that_can_vote(arena: Arena, actor: Actor) -> QuerySet[Judge]:
    """Registered judges whose endpoint is configured and whose open epoch is not blocked: those
    that are listed for `actor`, and those that were asked in the arena."""
    known = Judge.objects.listed_for(actor) | Judge.objects.asked_in(arena)
    found = known.exclude(protocol=Judge.Protocol.JURY).filter(
        endpoint__in=settings.MODEL_ENDPOINTS,
        epochs__ended_at=None,
        epochs__rater__blocked_at=None,
    )
    return found.order_by("endpoint", "name")


def candidate_choices(arena: Arena) -> list[tuple[str, str]]:
    """The candidates that can still be judged, by the names that the arena's team knows."""
    team = arena.team
    active = Candidate.objects.revealed().active().filter(arena=arena).defer(*LONG_TEXTS)
    return [
        (str(one.pk), name_for(team, arena, one) if team else str(one))
        for one in active.order_by("pk")
    ]


def rubric_choices() -> list[tuple[str, str]]:
    """Each rubric's folder, with its title."""
    titles: Mapping[str, str] = {slug: load_rubric(slug).title for slug in rubric_slugs()}
    return [(slug, f"{title} ({slug})") for slug, title in titles.items()]


def has_other_endpoints() -> bool:
    """Is there any model to ask besides the scripted one?"""
    return bool(settings.MODEL_ENDPOINTS.keys() - {SCRIPTED})
