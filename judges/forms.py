"""The forms of judge runs, an arena's judging criteria and a team's baseline."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from django import forms
from django.db.models import Q, QuerySet
from django.utils.html import format_html

from arena.actors import ANONYMOUS, Actor
from arena.calls.money import dollars
from arena.calls.prices import known_models
from arena.endpoints import all_endpoints
from arena.files.tables import AT_MOST_BYTES, AT_MOST_ROWS
from arena.formats.records import SUFFIXES
from arena.forms.base import CapForm, DollarsField, candidate_choices
from arena.models import Arena, Run, Team
from arena.models.fields import length_limit
from arena.permissions import visible_arenas, visible_teams
from judges.core.rubric import Rubric, RubricError, load_rubric, rubric_slugs
from judges.core.spec import EFFORTS, LEAST_OUTPUT, MOST_OUTPUT, MOST_READINGS, JudgeSpec
from judges.models import Judge, LabelSet
from judges.models.judges import SCRIPTED
from judges.models.rubrics import FILE_COLUMNS, REASON_LIMIT
from judges.permissions import listed_judges, listed_label_sets, steered_arenas, usable_judges
from judges.services.label_uploads import ROLES, LabelPreview
from judges.services.orders import MOST_JUDGES
from judges.services.planning import MOST_PER_PAIR, PER_PAIR, OrderOptions
from judges.services.quotes import expected_costs, is_measured
from judges.services.registry import (
    DEFAULT_RUBRIC,
    DEFAULT_SWITCHES,
    SCRIPTED_MODELS,
    JudgeError,
    Switches,
    spec_named,
)
from judges.services.rubrics import newest_versions, read_version
from judges.wording import QUORUM_TOO_HIGH
from ranking.board_data import LARGEST_ID

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


MOST_TRIED = 2000
# A choice for a column, or for a value of one, by their places.
PLACES = re.compile(r"(?:column|value)-(?P<column>[0-9]{1,4})(?:-(?P<value>[0-9]{1,4}))?")
LABEL_MEANINGS = [
    ("left", "First is better"),
    ("right", "Second is better"),
    ("tie", "Tie"),
    ("both_bad", "Both are bad"),
    ("skip", "No label"),
]


def file_field(name: str, rows: int, help_text: str) -> forms.CharField:
    """A file of a rubric, exactly as it was typed."""
    return forms.CharField(
        label=name,
        required=False,
        strip=False,
        help_text=help_text,
        widget=forms.Textarea(attrs={"rows": rows, "spellcheck": "false"}),
    )


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
        "@rubric or @team/rubric. The site’s administrators set up endpoints.",
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
    output_limit = forms.IntegerField(
        required=False,
        label="Output limit in tokens",
        help_text="The longest reply, including what a model thinks first. Leave empty for the "
        "rubric’s limit, or for what the model needed when it was measured.",
        min_value=LEAST_OUTPUT,
        max_value=MOST_OUTPUT,
    )
    effort = forms.ChoiceField(
        required=False,
        label="Reasoning effort",
        help_text="For models that think before they reply. Others ignore it.",
        choices=[("", "The model’s default"), *((name, name.capitalize()) for name in EFFORTS)],
    )
    schema = forms.BooleanField(
        required=False,
        label="Hold judges of an earlier release to a JSON schema in every reply",
        help_text="New judges always are, where the server can. It makes another judge.",
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
        help_text="Possible if they were measured together: see the arena’s judge runs.",
    )
    like_run = forms.IntegerField(
        required=False, widget=forms.HiddenInput, error_messages={"invalid": NO_SUCH_RUN}
    )
    undecided = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, arena: Arena, actor: Actor = ANONYMOUS, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.arena, self.actor = arena, actor
        registered = priced_judges(arena, judges_that_can_vote(arena, actor), actor)
        self._set_choices("registered", registered)
        self._set_choices("models", priced_models(arena))
        self._set_choices("candidates", candidate_choices(arena))
        self._set_choices("rubric", rubric_choices(visible_teams(actor)))

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
            output_limit=self.cleaned_data["output_limit"],
            effort=self.cleaned_data["effort"],
            schema=True if self.cleaned_data["schema"] else None,
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
        field.queryset = visible_arenas(actor).listed().order_by("name")


def judges_that_can_vote(arena: Arena, actor: Actor) -> QuerySet[Judge]:
    """Registered judges whose endpoint is configured and whose open epoch is not blocked: those
    that are listed for `actor`, and those used in the arena."""
    visible = usable_judges(actor, listed_judges(actor) | Judge.objects.asked_in(arena))
    judges = visible.exclude(protocol=Judge.Protocol.JURY).filter(
        endpoint__in=all_endpoints(),
        epochs__ended_at=None,
        epochs__rater__blocked_at=None,
    )
    return judges.order_by("endpoint", "name")


def rubric_choices(teams: QuerySet[Team]) -> list[tuple[str, str]]:
    """Rubrics by name, those of these teams first; a broken one is left out."""
    rubrics = []
    for version in newest_versions(teams):
        with suppress(RubricError):
            rubrics.append(read_version(version))
    return [(rubric.slug, f"{rubric.title} ({rubric.slug})") for rubric in rubrics + templates()]


def templates() -> list[Rubric]:
    """The rubrics of the server."""
    rubrics = []
    for slug in rubric_slugs():
        with suppress(RubricError):
            rubrics.append(load_rubric(slug))
    return rubrics


def priced_judges(arena: Arena, judges: Iterable[Judge], by: Actor) -> list[tuple[str, str]]:
    """Registered judges as choices, each with what it is expected to cost."""
    return _with_costs(arena, {judge.name: _spec_or_none(judge.name, by=by) for judge in judges})


def priced_models(arena: Arena) -> list[tuple[str, str]]:
    """The models that have a price as choices, each with what it is expected to cost with the
    default rubric."""
    names = [f"{where}:{model}" for where, model in known_models() if where != SCRIPTED]
    any_name = Switches(unpinned=True)
    return _with_costs(arena, {name: _spec_or_none(name, any_name) for name in names})


def _spec_or_none(
    name: str, switches: Switches = DEFAULT_SWITCHES, by: Actor = ANONYMOUS
) -> JudgeSpec | None:
    try:
        return spec_named(name, switches, by)
    except JudgeError:
        return None  # a quote says why


def _with_costs(arena: Arena, specs: Mapping[str, JudgeSpec | None]) -> list[tuple[str, str]]:
    known = {name: spec for name, spec in specs.items() if spec is not None}
    costs = dict(zip(known, expected_costs(arena=arena, specs=known.values()), strict=True))
    label = '{} <span class="muted small">{}{}</span>'
    unmeasured = {name for name, spec in known.items() if costs[name] and not is_measured(spec)}
    return [
        (
            name,
            format_html(
                label,
                name,
                _describe_cost(costs.get(name)),
                ", before it is measured" if name in unmeasured else "",
            ),
        )
        for name in specs
    ]


def _describe_cost(nano: int | None) -> str:
    """Say what a judge costs, given the expected cost of one comparison."""
    if nano is None:
        return "no price set"
    return f"about {dollars(1000 * nano)} per 1,000 comparisons" if nano else "free"


class BaselineForm(forms.Form):
    candidate = forms.IntegerField(min_value=1, max_value=LARGEST_ID)


class RubricForm(forms.Form):
    """The files of a rubric, and what a preview needs. `slug` is the rubric's, unless it is new."""

    address = forms.CharField(
        label="Address",
        help_text="Part of the names of judges, such as support-answers. It cannot be changed.",
        max_length=40,
        widget=forms.TextInput(attrs={"spellcheck": "false"}),
    )
    toml = file_field("rubric.toml", 10, "Title, protocol, scale, criteria and parameters.")
    system = file_field("system.md", 14, "The instructions, with {how_to_reply} once.")
    user = file_field("user.md", 10, "The prompt and the answers.")
    note = file_field(
        "note.md", 6, "Asks for a grading note first, if rubric.toml says note = true."
    )
    reason = forms.CharField(required=False, label="What changed, and why", max_length=REASON_LIMIT)
    arena = forms.ModelChoiceField(
        Arena.objects.none(),
        required=False,
        help_text="Five pairs of it are shown as they would be sent.",
        to_field_name="slug",
    )
    model = forms.CharField(
        required=False,
        max_length=300,
        help_text="One endpoint:model. Nothing is sent to it.",
        widget=forms.TextInput(attrs={"spellcheck": "false"}),
    )
    after = forms.IntegerField(min_value=0, max_value=LARGEST_ID, widget=forms.HiddenInput)

    def __init__(self, *args: Any, actor: Actor, slug: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.actor, self.of_rubric = actor, slug
        if slug:
            del self.fields["address"]
        arenas = self.fields["arena"]
        assert isinstance(arenas, forms.ModelChoiceField)
        arenas.queryset = steered_arenas(actor).order_by("name")
        arenas.initial = arenas.queryset.first()

    @classmethod
    def of(
        cls, texts: Mapping[str, str], *, actor: Actor, slug: str = "", after: int = 0
    ) -> "RubricForm":
        """Return a form with these files, to be changed."""
        initial: dict[str, Any] = {FILE_COLUMNS[name]: text for name, text in texts.items()}
        initial |= {"after": after, "model": SCRIPTED_JUDGES[0]}
        return cls(actor=actor, slug=slug, initial=initial)

    def clean(self) -> dict[str, Any]:
        super().clean()
        if self.data.get("do") == "preview":
            for name in ("arena", "model"):
                if not self.cleaned_data.get(name) and name not in self.errors:
                    self.add_error(name, "A preview needs an arena and a model.")
        return self.cleaned_data

    def accept_newest(self, number: int) -> None:
        """Let whoever saves again write after this version, of which they have been told."""
        self.data = {**self.data.dict(), "after": str(number)}  # type: ignore[attr-defined]

    @property
    def slug(self) -> str:
        return self.of_rubric or str(self.cleaned_data["address"])

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the files by name."""
        return {name: self.cleaned_data[column] for name, column in FILE_COLUMNS.items()}


class ImportRubricForm(forms.Form):
    file = forms.FileField(label="ZIP file", help_text="The files of a rubric, in one folder.")
    slug = forms.CharField(
        label="Address",
        required=False,
        max_length=40,
        help_text="By default, the folder’s name. A rubric with this address gets a new version.",
    )


class LabelsForm(forms.Form):
    """A file of labels. `kept` is the key to a file that was previewed.

    `preview` adds a choice for each of its columns, and for each value of its labels.
    """

    file = forms.FileField(
        required=False,
        widget=forms.FileInput(attrs={"accept": ",".join(SUFFIXES)}),
        error_messages={"empty": "The file is empty."},
        help_text=f"CSV, JSON, JSON Lines, Parquet or Excel, with up to {AT_MOST_ROWS:,} rows and "
        f"{AT_MOST_BYTES // 1_000_000} MB. You see how it is read before anything is saved.",
    )
    name = forms.CharField(
        required=False,
        max_length=length_limit(LabelSet, "name"),
        help_text="By default, the file’s name.",
    )
    skip_bad = forms.BooleanField(label="Skip bad rows", required=False)
    kept = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, preview: LabelPreview | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.preview = preview
        if preview is None:
            del self.fields["skip_bad"]
            return
        self.fields["name"].help_text = ""
        del self.fields["file"]
        if not preview.bad:
            del self.fields["skip_bad"]
        roles = [("", "Not used"), *((role, ROLES[role]) for role in preview.roles)]
        for column in preview.columns:
            self.fields[f"column-{column.place}"] = forms.ChoiceField(
                label=column.name, required=False, choices=roles, initial=column.role
            )
        for number, (value, meaning) in enumerate(preview.values.items()):
            asked = [] if meaning else [("", "Choose")]
            self.fields[f"value-{preview.labels_at}-{number}"] = forms.ChoiceField(
                label=value, required=False, choices=[*asked, *LABEL_MEANINGS], initial=meaning
            )

    @property
    def columns(self) -> list[tuple[forms.BoundField, list[str]]]:
        """The choice for each column, with its first values."""
        columns = self.preview.columns if self.preview else []
        return [(self[f"column-{column.place}"], column.samples) for column in columns]

    @property
    def values(self) -> list[forms.BoundField]:
        return [field for field in self if field.name.startswith("value-")]

    @property
    def file_fields(self) -> list[forms.BoundField]:
        return [field for field in self if not PLACES.fullmatch(field.name)]

    def clean(self) -> dict[str, Any]:
        super().clean()
        if not self.cleaned_data.get("file") and not self.data.get("kept") and not self.errors:
            self.add_error("file", "Choose a file.")
        return self.cleaned_data

    def can_save(self) -> bool:
        """Whether the previewed file can be stored; if not, the form says why."""
        assert self.preview is not None, "what was not read cannot be saved"
        if self.is_valid() and self.preview.file is None:
            self.add_error(None, "There are no labels to save yet.")
        elif self.is_valid() and self.preview.bad and not self.cleaned_data["skip_bad"]:
            self.add_error("skip_bad", "Correct these rows in the file, or skip them.")
        return self.is_valid()

    def chosen(self) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
        """Return what was chosen for columns and values, by their places."""
        columns, values = {}, {}
        for name, chosen in self.data.items():
            if match := PLACES.fullmatch(name):
                place, number = int(match["column"]), match["value"]
                if number is None:
                    columns[place] = chosen
                else:
                    values[place, int(number)] = chosen
        return columns, values


class TrialForm(CapForm):
    """A trial of a version of a rubric: with which judge, on which labels."""

    judge = forms.ModelChoiceField(
        Judge.objects.none(), help_text="It is compared with itself with this version."
    )
    labels = forms.ChoiceField(label="Labelled pairs")
    pairs = forms.IntegerField(
        label="Pairs at most",
        min_value=1,
        max_value=MOST_TRIED,
        initial=100,
        help_text="Drawn from the half that measures.",
    )
    field_order = ["judge", "labels", "pairs", "cap"]

    def __init__(self, *args: Any, team: Team, actor: Actor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.arenas = {f"arena:{arena.slug}": arena for arena in team.arenas.listed()}
        # Of those who see the trial, all must see its labels.
        usable = Q(team=team) | Q(from_arena=False, from_team=False)
        files = listed_label_sets(actor).filter(usable, kind=LabelSet.Kind.PAIRS)
        self.label_sets = {f"set:{labels.pk}": labels for labels in files.order_by("name")}
        judge, labels = self.fields["judge"], self.fields["labels"]
        assert isinstance(judge, forms.ModelChoiceField)
        assert isinstance(labels, forms.ChoiceField)
        judge.queryset = judges_to_try(actor)
        arenas = [(name, f"Human votes in {arena}") for name, arena in self.arenas.items()]
        labels.choices = [
            *arenas,
            *(
                (name, f"{file}, uploaded" if file.team_id else str(file))
                for name, file in self.label_sets.items()
            ),
        ]

    @property
    def source(self) -> Arena | LabelSet:
        chosen: str = self.cleaned_data["labels"]
        return self.arenas.get(chosen) or self.label_sets[chosen]


def judges_to_try(actor: Actor) -> QuerySet[Judge]:
    """Judges of which a changed rubric can be tried: those that `actor` knows and may ask."""
    judges = usable_judges(actor, listed_judges(actor)).exclude(protocol=Judge.Protocol.JURY)
    return judges.filter(endpoint__in=all_endpoints()).order_by("name")
