"""The forms of experiments: drafts of a baseline, how to measure them, and how they end."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.db.models import QuerySet

from arena.actors import Actor
from arena.endpoints import all_endpoints
from arena.forms.base import CapForm
from arena.forms.candidates import Row, VariantForm, VariantsForm, VersionForm
from arena.forms.prompts import format_json
from arena.models import Arena, Candidate, Prompt
from arena.permissions import visible_teams
from arena.services.candidate_checks import check_is_different, clean_content
from arena.validation import numbered
from judges.core.spec import is_alias
from judges.experiment_report import LONGEST_TITLE, first_line
from judges.forms import (
    SCRIPTED_JUDGES,
    judges_that_can_vote,
    priced_judges,
    priced_models,
    rubric_choices,
)
from judges.models import Experiment
from judges.models.experiments import MARGIN, MOST_DRAFTS, SIDES
from judges.models.judges import SCRIPTED
from judges.services.experiments import LEAST_PROMPTS, MADE_OF, MOST_PEOPLE, MeasurementPlan
from judges.services.registry import DEFAULT_RUBRIC

MOST_LISTED = 300  # prompts to choose from
ALL, CATEGORY, CHOSEN = "all", "category", "chosen"
SIZES = (20, 50, 100, 200, 500, 1_000)
BLIND = "Each compares the answers blind, in both orders. Equal answers are ties and cost nothing."
USUAL_SIZE = 100
VOTES = 50  # of people, on each draft
SIDE_CHOICES = [
    ("both", "Whether a draft is better or worse"),
    ("worse", "Only whether it is worse: this takes fewer prompts"),
]


def prompt_choices(prompts: QuerySet[Prompt]) -> list[tuple[str, str]]:
    listed = prompts.order_by("pk").only("external_id", "text")[:MOST_LISTED]
    return [(str(prompt.pk), first_line(prompt, LONGEST_TITLE)) for prompt in listed]


class ExperimentForm(VariantsForm):
    """One to four drafts of a `baseline`, with one model and the same settings, and the prompts."""

    title = forms.CharField(
        label="Name",
        required=False,
        max_length=100,
        help_text="What you change, for example “greet by name”. By default, its first words.",
    )
    scope = forms.ChoiceField(label="Prompts", widget=forms.RadioSelect, initial=ALL)
    category = forms.ChoiceField(required=False)
    chosen = forms.MultipleChoiceField(
        label="Chosen prompts", required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, data: Any = None, *, arena: Arena, baseline: Candidate, **kwargs: Any):
        self.baseline = baseline
        super().__init__(
            data,
            arena=arena,
            teams=[arena.team],
            rows=[self._row],
            default_name="Draft {}".format,
            like=baseline,
            **kwargs,
        )
        self._set_prompts(arena.prompts.active())

    @property
    def _row(self) -> Row:
        """The baseline's texts, which a draft begins with."""
        texts = {name: getattr(self.baseline, name) for name in ("system_prompt", "user_template")}
        messages = self.baseline.messages
        return texts | {"messages": format_json(messages) if messages else ""}

    def _take_rows(self, data: Any, files: Any) -> list[Row]:
        rows = super()._take_rows(data, files)
        return [row or self._row for row in rows]

    def _set_prompts(self, prompts: QuerySet[Prompt]) -> None:
        choices = {CHOSEN: prompt_choices(prompts)}
        names = prompts.exclude(category="").order_by("category").values_list("category", flat=True)
        choices[CATEGORY] = [(name, name) for name in names.distinct()]
        choices["scope"] = [(ALL, f"All {numbered(prompts.count(), 'prompt')}")]
        choices["scope"] += [(CATEGORY, "One category")] if choices[CATEGORY] else []
        choices["scope"].append((CHOSEN, "Chosen prompts"))
        for name, offered in choices.items():
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = offered

    @property
    def can_add(self) -> bool:
        return len(self.variants) < MOST_DRAFTS

    def clean_chosen(self) -> list[str]:
        chosen: list[str] = self.cleaned_data["chosen"]
        if self.data.get("scope") == CHOSEN and len(chosen) < LEAST_PROMPTS:
            raise forms.ValidationError(f"Choose at least {LEAST_PROMPTS} prompts.")
        return chosen

    def _draft(
        self, variant: VariantForm, settings: Mapping[str, Any], others: Sequence[Candidate]
    ) -> Candidate:
        texts = {**variant.cleaned_data}
        name = texts.pop("name")
        content = clean_content(self.arena, {**Candidate().content, **settings, **texts})
        check_is_different(content, [self.baseline, *self.drafts])
        return Candidate(arena=self.arena, name=name, **content)

    @property
    def prompts(self) -> QuerySet[Prompt] | None:
        """Those to ask; None for all."""
        active, scope = self.arena.prompts.active(), self.cleaned_data["scope"]
        if scope == CATEGORY:
            return active.filter(category=self.cleaned_data["category"])
        return active.filter(pk__in=self.cleaned_data["chosen"]) if scope == CHOSEN else None

    def content_of_drafts(self) -> list[dict[str, Any]]:
        """What `create_experiment` takes; a draft alone needs no number."""
        is_alone = len(self.drafts) == 1
        return [
            {"name": "" if is_alone else draft.name}
            | {name: getattr(draft, name) for name in MADE_OF}
            for draft in self.drafts
        ]


class DraftForm(VersionForm):
    """A draft's texts, model and settings."""

    @property
    def settings_are_open(self) -> bool:
        fields = [self["endpoint"], self["model"], *self.parameter_fields, self["more_parameters"]]
        return any(field.errors for field in fields)

    @property
    def changes(self) -> dict[str, Any]:
        content = self.content()
        return {name: content[name] for name in MADE_OF}


class TryForm(forms.Form):
    """Which prompts to try drafts on; none chosen are those suggested."""

    prompts = forms.MultipleChoiceField(
        label="Up to three prompts", required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, *args: Any, arena: Arena, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["prompts"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = prompt_choices(arena.prompts.active())


def sizes_of(available: int) -> list[int]:
    """Up to three sizes to choose from: all prompts, and fewer."""
    fewer = [size for size in SIZES if size <= 0.8 * available]
    half = [available // 2] if not fewer and available // 2 >= LEAST_PROMPTS else []
    return [*(fewer[-2:] or half), available]


class PlanForm(CapForm):
    """How an experiment is to be measured; without a cap, it is what the quote says at most."""

    size = forms.TypedChoiceField(label="Prompts", coerce=int, widget=forms.RadioSelect)
    judges = forms.MultipleChoiceField(
        label="LLM judges",
        required=False,
        help_text=BLIND,
        widget=forms.CheckboxSelectMultiple,
    )
    models = forms.MultipleChoiceField(
        label="Models", required=False, help_text=BLIND, widget=forms.CheckboxSelectMultiple
    )
    rubric = forms.ChoiceField(label="Rubric of these models", required=False)
    ask_people = forms.BooleanField(
        required=False,
        label="People, on these answers only",
        help_text="They get a link, and see nothing else of the team’s.",
    )
    people = forms.IntegerField(
        label="Votes on each draft",
        required=False,
        min_value=1,
        max_value=MOST_PEOPLE,
        initial=VOTES,
    )
    counts_votes = forms.BooleanField(
        required=False, label="Count their votes on the leaderboard once a draft is entered there"
    )
    side = forms.ChoiceField(label="What to find out", required=False, choices=SIDE_CHOICES)
    own_family = forms.BooleanField(
        required=False,
        label="Let judges judge their own model family",
        help_text="Models favour answers by their own family.",
    )

    def __init__(self, *args: Any, experiment: Experiment, actor: Actor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["cap"].help_text = "A hard limit. By default, what is shown as “at most”."
        arena, origin = experiment.arena, experiment.origin
        self.sizes = sizes_of(arena.prompts.active().count())
        registered = priced_judges(arena, judges_that_can_vote(origin, actor), actor)
        models = [(name, label) for name, label in priced_models(arena) if not is_alias(name)]
        only_scripted = all_endpoints().keys() <= {SCRIPTED}
        is_scripted = experiment.copy is not None and experiment.copy.endpoint == SCRIPTED
        if only_scripted or is_scripted:
            models += [(name, f"{name}, a script that judges nothing") for name in SCRIPTED_JUDGES]
        choices = {
            "size": [(str(size), str(size)) for size in self.sizes],
            "judges": registered,
            "models": models,
            "rubric": rubric_choices(visible_teams(actor)),
        }
        for name, offered in choices.items():
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = offered
        largest = [size for size in self.sizes if size <= USUAL_SIZE]
        self.initial.update(size=max(largest, default=self.sizes[0]), rubric=DEFAULT_RUBRIC)
        usual = self._usual_judges(origin, [name for name, _ in registered])
        self.initial.update(judges=usual, models=[] if usual else [name for name, _ in models[:1]])

    @staticmethod
    def _usual_judges(origin: Arena, registered: Sequence[str]) -> list[str]:
        """Those of the arena's last experiment; else the first that is registered."""
        measured = Experiment.objects.filter(arena__origin=origin).exclude(judges=[])
        last = measured.order_by("-registered_at").values_list("judges", flat=True).first()
        return [name for name in last or [] if name in registered] or list(registered[:1])

    def clean(self) -> dict[str, Any]:
        super().clean()
        data = self.cleaned_data
        if not any(data.get(name) for name in ("judges", "models", "ask_people")):
            self.add_error(None, "Choose judges, people or both.")
        if data.get("ask_people") and not data.get("people") and "people" not in self.errors:
            self.add_error("people", "Enter how many votes you want on each draft.")
        return data

    def plan(self, size: int | None = None) -> MeasurementPlan:
        """As entered, or as the form begins; `size` in place of the chosen one."""
        data = self.cleaned_data if self.is_bound else self._as_it_begins
        rubric = data.get("rubric") or DEFAULT_RUBRIC
        return MeasurementPlan(
            judges=[*data["judges"], *(f"{name}@{rubric}" for name in data["models"])],
            size=size or data["size"],
            people=data.get("people") or 0 if data.get("ask_people") else 0,
            side=SIDES.get(data.get("side", ""), 0),
            margin=MARGIN,
            cap=data.get("cap"),
            own_family=data.get("own_family", False),
            counts_votes=data.get("counts_votes", False),
        )

    @property
    def _as_it_begins(self) -> dict[str, Any]:
        return {
            name: self.get_initial_for_field(field, name) for name, field in self.fields.items()
        }


class PromoteForm(forms.Form):
    why = forms.CharField(
        label="Why?",
        max_length=2_000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Your team reads it in the audit log.",
    )


class EnterForm(forms.Form):
    name = forms.CharField(label="Name of the candidate", max_length=200)
