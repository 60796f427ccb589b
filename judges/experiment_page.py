"""What the page of an experiment shows besides its report: changes, a try, sizes, a scale."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.utils.safestring import SafeString
from django.utils.text import capfirst

from arena.actors import Actor
from arena.calls.models import Call
from arena.conversations import transcript
from arena.forms.prompts import format_json
from arena.models import Candidate, Prompt, Response, Run
from arena.models.prompts import subject_of
from arena.prompting.differences import merged_diff
from arena.prompting.templates import Kind
from arena.services.ballots import prompt_html, response_html
from arena.shown_text import as_read
from arena.validation import numbered, shortened
from judges.experiment_forms import PlanForm
from judges.experiment_report import DraftReport, ExperimentReport, first_line
from judges.models import Experiment
from judges.services.experiments import (
    ExperimentQuote,
    PlannedMeasurement,
    quote_try,
    suggested_prompts,
)
from ranking.stats.claim import Claim, Verdict

LONGEST_NAME, LONGEST_TITLE = 60, 32
BEST_FIRST = [*(Verdict.BETTER, Verdict.NO_WORSE, Verdict.OPEN, Verdict.CANNOT_TELL, Verdict.WORSE)]
TEXTS = {"system_prompt": "System prompt", "user_template": "User template", "messages": "Messages"}


def in_a_line(text: str) -> str:
    return " ".join(text.split()).strip(",.;: ")


@dataclass(frozen=True)
class DraftText:
    """A text of a draft as it differs from the baseline's, in pieces."""

    label: str
    pieces: Sequence[tuple[Kind, str]]


@dataclass(frozen=True)
class DraftChanges:
    """How a draft differs from the baseline: in texts, and as (setting, before, after)."""

    candidate: Candidate
    texts: Sequence[DraftText]
    settings: Sequence[tuple[str, str, str]]

    @property
    def added(self) -> int:
        return self._characters("added")

    @property
    def removed(self) -> int:
        return self._characters("removed")

    def _characters(self, kind: Kind) -> int:
        return sum(len(text) for one in self.texts for of, text in one.pieces if of == kind)

    @property
    def is_changed(self) -> bool:
        return bool(self.settings) or bool(self.added + self.removed)

    @property
    def in_a_line(self) -> str:
        """The first texts that were added and removed."""
        signs = {"added": "+", "removed": "−"}
        parts = [
            f"{signs[kind]} {in_a_line(text)}"
            for one in self.texts
            for kind, text in one.pieces
            if kind in signs and any(map(str.isalnum, text))
        ]
        parts += [f"{label.lower()}: {after}" for label, _, after in self.settings]
        return ", ".join(parts)

    @property
    def name(self) -> str:
        """A name for the change: what was added first, or else removed, or set."""
        pieces = [piece for one in self.texts for piece in one.pieces]
        for kind, name in (("added", "{}"), ("removed", "Without {}")):
            found = (in_a_line(text) for of, text in pieces if of == kind)
            if words := next(filter(None, found), ""):
                return shortened(capfirst(name.format(words)), LONGEST_NAME)
        settings = [f"{label}: {after}" for label, _, after in self.settings]
        return shortened(settings[0], LONGEST_NAME) if settings else ""


def text_of(candidate: Candidate, name: str) -> str:
    value = getattr(candidate, name)
    return transcript(value or ()) if name == "messages" else value


def changes_of(baseline: Candidate, draft: Candidate) -> DraftChanges:
    texts = [
        DraftText(label, merged_diff(text_of(baseline, name), text_of(draft, name)))
        for name, label in TEXTS.items()
        if text_of(baseline, name) or text_of(draft, name)
    ]
    settings = []
    before, after = (_settings_of(candidate) for candidate in (baseline, draft))
    for label in before:
        if before[label] != after[label]:
            settings.append((label, before[label], after[label]))
    return DraftChanges(draft, texts, settings)


def _settings_of(candidate: Candidate) -> dict[str, str]:
    model = f"{candidate.endpoint}:{candidate.model}" if candidate.endpoint else "uploaded answers"
    return {
        "Model": model,
        "Parameters": format_json(candidate.parameters) if candidate.parameters else "none",
    }


@dataclass(frozen=True)
class TriedAnswer:
    """A candidate's answer to a prompt, or why there is none."""

    candidate: Candidate
    response: Response | None
    is_on_its_way: bool = False
    error: str = ""

    @property
    def html(self) -> SafeString:
        return response_html(self.response)

    @property
    def words(self) -> int:
        return len(as_read(self.response.text).split()) if self.response else 0


@dataclass(frozen=True)
class Try:
    """The prompts to try drafts on, and the answers to one of them, the baseline's first."""

    prompts: Sequence[Prompt]
    prompt: Prompt | None
    answers: Sequence[TriedAnswer]
    cost: int
    answered: int
    failed: int
    missing: int
    expected: int | None
    goes_on: bool

    @property
    def titles(self) -> list[tuple[Prompt, str]]:
        """The beginning of each prompt, or its id where that tells it from no other."""
        lines = [first_line(prompt, LONGEST_TITLE) for prompt in self.prompts]
        return [
            (prompt, line if lines.count(line) == 1 else prompt.external_id)
            for prompt, line in zip(self.prompts, lines, strict=True)
        ]

    @property
    def title(self) -> str:
        return first_line(self.prompt, 160) if self.prompt else ""

    @property
    def html(self) -> SafeString:
        return prompt_html(self.prompt)

    @property
    def missing_words(self) -> str:
        return numbered(self.missing, "answer")

    @property
    def are_equal(self) -> bool:
        texts = [answer.response.text for answer in self.answers if answer.response]
        return len(texts) > 1 and len(texts) == len(self.answers) and len(set(texts)) == 1


def try_of(experiment: Experiment, chosen: str = "") -> Try:
    """`chosen`: the id of the prompt whose answers are shown; by default, the first."""
    candidates = [one for one in [experiment.copy, *experiment.drafts] if one]
    prompts = suggested_prompts(experiment)
    prompt = next((one for one in prompts if str(one.pk) == chosen), next(iter(prompts), None))
    known = Response.objects.filter(candidate__in=candidates, prompt__in=prompts)
    answers = {(answer.candidate_id, answer.prompt_id): answer for answer in known}
    quote = quote_try(experiment=experiment, prompts=prompts)
    runs = Run.objects.of_answers().filter(arena=experiment.arena_id)
    subjects = {subject_of(one.pk): one.pk for one in prompts}
    calls = Call.objects.filter(run__in=runs, subject__in=subjects).order_by("pk")
    rows = calls.values_list("run__candidate", "subject", "state", "error")
    latest = {(pk, subjects[subject]): (state, error) for pk, subject, state, error in rows}
    goes_on = runs.not_over().exclude(state=Run.State.PAUSED).exists()
    paused = runs.filter(state=Run.State.PAUSED)
    reasons = dict(paused.values_list("candidate", "pause_reason"))
    wanted = [(candidate.pk, one.pk) for candidate in candidates for one in prompts]

    def shown(candidate: Candidate, on: Prompt) -> TriedAnswer:
        key = (candidate.pk, on.pk)
        state, error = latest.get(key, ("", ""))
        return TriedAnswer(
            candidate,
            answers.get(key),
            is_on_its_way=goes_on and state in Call.GOING_ON,
            error=error or reasons.get(candidate.pk, ""),
        )

    failed = [key for key in wanted if key not in answers and latest.get(key, ("", ""))[1]]
    return Try(
        prompts=prompts,
        prompt=prompt,
        answers=[shown(candidate, prompt) for candidate in candidates] if prompt else [],
        cost=sum(answer.cost or 0 for answer in answers.values()),
        answered=len(answers),
        failed=len(failed),
        missing=quote.calls,
        expected=quote.expected,
        goes_on=goes_on,
    )


@dataclass(frozen=True)
class Size:
    """A size on offer; its quote is for the judges chosen."""

    quote: ExperimentQuote
    is_chosen: bool

    @property
    def difference(self) -> str:
        """ "65:35"; '' if it finds none."""
        if self.quote.finds is None:
            return ""
        won = round(100 * self.quote.finds)
        return f"{won}:{100 - won}"


@dataclass
class SizeOffer:
    """The form of the measurement, with the sizes and their prices."""

    form: PlanForm
    experiment: Experiment
    by: Actor
    problem: str = ""
    sizes: list[Size] = field(default_factory=list)

    def quote_sizes(self) -> None:
        """Raises JudgeError and GenerationError."""
        chosen = str(self.form["size"].value())
        for size in self.form.sizes:
            quote = PlannedMeasurement(self.experiment, self.form.plan(size), self.by).quote()
            self.sizes.append(Size(quote, str(size) == chosen))

    @property
    def chosen(self) -> ExperimentQuote | None:
        return next((size.quote for size in self.sizes if size.is_chosen), None)


@dataclass(frozen=True)
class WinRange:
    """Where the win rate and its interval are on the scale from 0 to 100."""

    low: float
    high: float
    at: float

    @property
    def width(self) -> float:
        return max(self.high - self.low, 0.5)


def scale_of(claim: Claim) -> WinRange | None:
    if claim.win_rate is None or claim.low is None or claim.high is None:
        return None
    low, high, at = (round(100 * value, 2) for value in (claim.low, claim.high, claim.win_rate))
    return WinRange(low, high, at)


@dataclass(frozen=True, eq=False)
class DraftResult:
    """A draft's report as the page shows it."""

    report: DraftReport
    is_best: bool

    @property
    def candidate(self) -> Candidate:
        return self.report.candidate

    @property
    def name_to_enter(self) -> str:
        """The draft's, or the experiment's if it has no other draft."""
        experiment = self.report.experiment
        return str(experiment if experiment.family < 2 else self.candidate.name)

    @cached_property
    def scale(self) -> WinRange | None:
        return scale_of(self.report.claim)

    @cached_property
    def tally(self) -> dict[str, int]:
        return self.report.measured.tally

    @cached_property
    def bars(self) -> list[tuple[str, float, float]]:
        """The parts of the tally as (name, x, width) of 100."""
        parts = [(name, self.tally[name]) for name in ("better", "same", "worse")]
        total, at, bars = sum(n for _, n in parts), 0.0, []
        for name, n in parts:
            width = 100 * n / total if total else 0.0
            bars.append((name, round(at, 2), round(width, 2)))
            at += width
        return bars

    @property
    def judged(self) -> int:
        return sum(self.tally[name] for name in ("better", "same", "worse"))


def results_of(report: ExperimentReport) -> list[DraftResult]:
    best = best_of(report)
    return [DraftResult(draft, draft is best) for draft in report.drafts]


def best_of(report: ExperimentReport) -> DraftReport | None:
    """The draft with the best verdict, and of several that with the highest win rate."""

    def place(draft: DraftReport) -> Any:
        return BEST_FIRST.index(draft.claim.verdict), -(draft.claim.win_rate or 0)

    return min(report.drafts, key=place, default=None)
