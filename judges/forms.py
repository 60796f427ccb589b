"""The forms of judge runs, an arena's judging criteria and a team's baseline."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.db.models import QuerySet
from django.utils.html import format_html

from arena.actors import ANONYMOUS, Actor
from arena.calls.money import dollars
from arena.calls.prices import known_models
from arena.forms.base import CapForm, DollarsField
from arena.models import Arena, Candidate, Run
from arena.models.fields import length_limit
from arena.permissions import visible_arenas
from judges.core.rubric import load_rubric, rubric_slugs
from judges.core.spec import MOST_READINGS, JudgeSpec
from judges.models import Judge
from judges.models.judges import SCRIPTED
from judges.permissions import listed_judges
from judges.services.decisions import name_for
from judges.services.orders import MOST_JUDGES
from judges.services.planning import MOST_PER_PAIR, PER_PAIR, OrderOptions
from judges.services.quotes import expected_costs
from judges.services.registry import (
    DEFAULT_RUBRIC,
    DEFAULT_SWITCHES,
    SCRIPTED_MODELS,
    JudgeError,
    Switches,
    spec_named,
)
from judges.wording import QUORUM_TOO_HIGH
from ranking.board_data import LARGEST_ID, LONG_TEXTS

SCRIPTED_JUDGES = [f"{SCRIPTED}:{model}" for model in SCRIPTED_MODELS]
PAIRS = [
    ("all", "All pairs that the judges have not decided, least judged first"),
    ("neighbours", "Neighbours: candidates next to each other on the judges’ leaderboard"),
    ("new", "New candidates: pairs with a candidate that has few or no LLM-judge votes"),
    ("voted", "Pairs with human votes: to see how well the judge agrees with people"),
]
NO_SUCH_RUN = "This arena has no such judge run."
ORDER_POLICIES = [
    ("abstain", "Abstain: only a verdict that is the same in both orders counts"),
    ("tie", "Call it a tie"),
    ("average", "Average the two verdicts"),
]


class CriteriaForm(forms.Form):
    criteria = forms.CharField(
        required=False,
        label="What makes an answer better",
        max_length=length_limit(Arena, "criteria"),
        widget=forms.Textarea(attrs={"rows": 4}),
    )


class OrderForm(forms.Form):
    """A judge run as a person orders it."""

    registered = forms.MultipleChoiceField(
        required=False,
        label="Registered judges",
        help_text="These keep the rubric and options they were registered with.",
        widget=forms.CheckboxSelectMultiple,
    )
    models = forms.MultipleChoiceField(
        required=False,
        label="Models",
        help_text="Estimated from this arena’s texts and the rubric’s usual replies.",
        widget=forms.CheckboxSelectMultiple,
    )
    scripted = forms.MultipleChoiceField(
        required=False,
        label="Scripted judges",
        help_text="Simple scripts that need no key. They are not real judges.",
        choices=[(name, name) for name in SCRIPTED_JUDGES],
        widget=forms.CheckboxSelectMultiple,
    )
    typed = forms.CharField(
        required=False,
        label="Other models, by name",
        help_text="One endpoint:model per line, such as openai:gpt-4.1-2025-04-14. You can add "
        "@rubric. The site’s administrators set up endpoints.",
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
    )
    rubric = forms.ChoiceField(
        label="Rubric",
        help_text="Instructions and reply format, except for registered judges. Get a quote to see "
        "a preview.",
        initial=DEFAULT_RUBRIC,
    )
    candidates = forms.MultipleChoiceField(
        required=False,
        label="Candidates",
        help_text="Only pairs of these are judged. Choose none to include all candidates.",
        widget=forms.CheckboxSelectMultiple,
    )
    pairs = forms.ChoiceField(label="Pairs", choices=PAIRS, initial="all", widget=forms.RadioSelect)
    again = forms.BooleanField(required=False, label="Include decided pairs")
    per_pair = forms.IntegerField(
        label="Comparisons per pair",
        help_text="Each is judged twice, in both orders.",
        min_value=1,
        max_value=MOST_PER_PAIR,
        initial=PER_PAIR,
    )
    cap = DollarsField(
        label="Spending cap in dollars",
        required=False,
        help_text="A hard limit: the run pauses before going over it. Not needed for scripted "
        "judges.",
    )
    order_policy = forms.ChoiceField(
        label="If inconsistent when swapped",
        help_text="Judges often favour a position. To score one answer at a time, choose the first "
        "option.",
        choices=ORDER_POLICIES,
        initial="abstain",
    )
    quorum = forms.IntegerField(
        required=False,
        label="Verdicts a jury needs",
        help_text="Leave empty for more than half of the judges.",
        min_value=1,
        max_value=MOST_JUDGES,
    )
    own_family = forms.BooleanField(
        required=False,
        label="Let judges judge their own model family",
        help_text="Models favour answers by their own family, so by default they skip them.",
    )
    soft = forms.BooleanField(
        required=False,
        label="Record probabilities where the endpoint returns them",
        help_text="Votes then record how likely each answer was to win, not only the winner.",
    )
    samples = forms.IntegerField(
        required=False,
        label="Samples per verdict",
        help_text="How often to ask each judge for one vote: scores are averaged, otherwise more "
        "than half must agree. The cost rises in proportion.",
        min_value=1,
        max_value=MOST_READINGS,
    )
    any_length = forms.BooleanField(
        required=False,
        label="Don’t mention length",
        help_text="By default, judges are told that length earns nothing.",
    )
    unpinned = forms.BooleanField(
        required=False,
        label="Allow model names that can change",
        help_text="An alias such as “latest” can change without notice. The judge is marked "
        "“Unpinned”.",
    )
    weigh = forms.BooleanField(
        required=False,
        label="Weigh the members of a jury by their accuracy here",
        help_text="Possible if they were measured together and weighting improves the result: see "
        "the arena’s judge runs.",
    )
    like_run = forms.IntegerField(
        required=False, widget=forms.HiddenInput, error_messages={"invalid": NO_SUCH_RUN}
    )
    undecided = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, arena: Arena, actor: Actor = ANONYMOUS, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.arena = arena
        self._set_choices("registered", priced_judges(arena, judges_that_can_vote(arena, actor)))
        self._set_choices("models", priced_models(arena))
        self._set_choices("candidates", candidate_choices(arena))
        titles = {slug: load_rubric(slug).title for slug in rubric_slugs()}
        self._set_choices("rubric", [(slug, f"{titles[slug]} ({slug})") for slug in titles])

    def _set_choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    def clean(self) -> dict[str, Any]:
        super().clean()
        if self.can_be_quoted() and not self.judges():
            raise forms.ValidationError("Choose at least one judge, or name a model.")
        if self.can_be_quoted() and (self.cleaned_data["quorum"] or 0) > len(self.judges()):
            self.add_error("quorum", QUORUM_TOO_HIGH)
        return self.cleaned_data

    def can_be_quoted(self) -> bool:
        """Whether all fields that a quote depends on are valid: all but the cap."""
        return self.errors.keys() <= {"cap"}

    def clean_candidates(self) -> frozenset[int]:
        candidates = frozenset(map(int, self.cleaned_data["candidates"]))
        if len(candidates) == 1:
            raise forms.ValidationError(
                "Choose at least two candidates, or none to compare all of them."
            )
        return candidates

    def clean_like_run(self) -> Run | None:
        pk = self.cleaned_data["like_run"]
        if pk is None:
            return None
        run = Run.objects.filter(pk=pk, arena=self.arena, kind=Run.Kind.JUDGE).first()
        if run is None:
            raise forms.ValidationError(NO_SUCH_RUN)
        return run

    def judges(self) -> list[tuple[str, Switches]]:
        """The names of the chosen judges. A registered one keeps its rubric and options."""
        registered = [(name, DEFAULT_SWITCHES) for name in self.cleaned_data["registered"]]
        typed = self.cleaned_data["typed"].replace(",", "\n").split("\n")
        chosen = [*self.cleaned_data["models"], *self.cleaned_data["scripted"]]
        names = [*chosen, *filter(None, (name.strip() for name in typed))]
        rubric, switches = self.cleaned_data["rubric"], self._switches()
        return registered + [
            (name if "@" in name else f"{name}@{rubric}", switches) for name in names
        ]

    def _switches(self) -> Switches:
        return Switches(
            swap_policy=self.cleaned_data["order_policy"],
            unpinned=self.cleaned_data["unpinned"],
            length_neutral=False if self.cleaned_data["any_length"] else None,
            soft=self.cleaned_data["soft"],
            readings=self.cleaned_data["samples"] or 1,
        )

    def options(self) -> OrderOptions:
        fields = ("per_pair", "pairs", "again", "like_run", "candidates", "undecided")
        return OrderOptions(*(self.cleaned_data[name] for name in fields))

    def fingerprint(self) -> str:
        """A digest of the input, to make sure that the order is the one that was quoted.

        The cap is left out: no figure of a quote depends on it, so it may still be changed.
        """
        values = {}
        for name in sorted(self.fields.keys() - {"cap"}):
            widget = self.fields[name].widget
            values[name] = widget.value_from_datadict(self.data, self.files, self.add_prefix(name))
        return hashlib.sha256(repr(values).encode()).hexdigest()[:32]


class HoneypotForm(CapForm):
    """A test of a judge with honeypots made from the answers of an arena."""

    arena = forms.ModelChoiceField(
        Arena.objects.none(),
        to_field_name="slug",
        help_text="The real answers are those that people liked most there.",
    )

    def __init__(self, *args: Any, actor: Actor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["arena"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = visible_arenas(actor).order_by("name")


def judges_that_can_vote(arena: Arena, actor: Actor) -> QuerySet[Judge]:
    """Registered judges whose endpoint is configured and whose open epoch is not blocked: those
    that are listed for `actor`, and those used in the arena."""
    visible = listed_judges(actor) | Judge.objects.asked_in(arena)
    judges = visible.exclude(protocol=Judge.Protocol.JURY).filter(
        endpoint__in=settings.MODEL_ENDPOINTS,
        epochs__ended_at=None,
        epochs__rater__blocked_at=None,
    )
    return judges.order_by("endpoint", "name")


def priced_judges(arena: Arena, judges: Iterable[Judge]) -> list[tuple[str, str]]:
    """Registered judges as choices, each with what it is expected to cost."""
    specs: dict[str, JudgeSpec | None] = {judge.name: _spec_or_none(judge.name) for judge in judges}
    return _with_costs(arena, specs)


def priced_models(arena: Arena) -> list[tuple[str, str]]:
    """The models that have a price as choices, each with what it is expected to cost with the
    default rubric."""
    names = [f"{where}:{model}" for where, model in known_models() if where != SCRIPTED]
    any_name = Switches(unpinned=True)
    return _with_costs(arena, {name: _spec_or_none(name, any_name) for name in names})


def _spec_or_none(name: str, switches: Switches = DEFAULT_SWITCHES) -> JudgeSpec | None:
    try:
        return spec_named(name, switches)
    except JudgeError:
        return None  # a quote says why


def _with_costs(arena: Arena, specs: Mapping[str, JudgeSpec | None]) -> list[tuple[str, str]]:
    known = {name: spec for name, spec in specs.items() if spec is not None}
    costs = dict(zip(known, expected_costs(arena=arena, specs=known.values()), strict=True))
    label = '{} <span class="muted small">{}</span>'
    return [(name, format_html(label, name, _describe_cost(costs.get(name)))) for name in specs]


def _describe_cost(nano: int | None) -> str:
    """Say what a judge costs, given the expected cost of one comparison."""
    if nano is None:
        return "no price set"
    return f"about {dollars(1000 * nano)} per 1,000 comparisons" if nano else "free"


def candidate_choices(arena: Arena) -> list[tuple[str, str]]:
    """The candidates that can still be judged, by the names that the arena's team knows."""
    team = arena.team
    active = Candidate.objects.revealed().active().filter(arena=arena).defer(*LONG_TEXTS)
    return [
        (str(candidate.pk), name_for(team, arena, candidate) if team else str(candidate))
        for candidate in active.order_by("pk")
    ]


class BaselineForm(forms.Form):
    candidate = forms.IntegerField(min_value=1, max_value=LARGEST_ID)
