"""What pages, the API and notices show of an experiment."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db.models import Avg, Count
from django.urls import reverse

from arena.actors import CLI
from arena.calls.models import Call
from arena.generation_runs import UNANSWERED
from arena.models import Candidate, Prompt, Response, Run
from arena.models.runs import RunErrors, count_errors
from arena.services.checks import CheckReport, CheckTally, check_answers
from arena.site import site_url
from arena.validation import numbered, shortened
from judges.models import Epoch, Experiment
from judges.services.experiments import ExperimentError, spent_on, twin_of, verdict_of
from judges.services.measurements import DraftMeasurement, ExperimentMeasurement, measure
from judges.services.registry import JudgeError, spec_named
from judges.services.subjects import read_subject
from ranking.claim_words import share_words
from ranking.stats.claim import Claim, Verdict, detectable

LONGEST_TITLE = 80
WORDS = {
    Verdict.BETTER: "Better",
    Verdict.WORSE: "Worse",
    Verdict.NO_WORSE: "No worse",
    Verdict.OPEN: "Not decided yet",
    Verdict.CANNOT_TELL: "Can’t be decided this way",
}


@dataclass(frozen=True)
class Figures:
    """What a candidate's answers cost and took on average: nano-dollars, seconds; and what
    failed."""

    answers: int
    cost: int | None
    seconds: float | None
    errors: RunErrors


def first_line(prompt: Prompt, length: int) -> str:
    """The beginning of a prompt's text, in one line."""
    return shortened(" ".join((prompt.text or prompt.external_id).split()), length)


@dataclass(frozen=True)
class Lost:
    """A prompt on which a draft lost: by how many of the judges, and the page of a verdict."""

    prompt: Prompt
    against: int
    judges: int
    page: str

    @property
    def by(self) -> str:
        if self.judges == 1:
            return "the judge"
        if self.against == self.judges:
            return "both judges" if self.judges == 2 else f"all {self.judges} judges"
        return f"{self.against} of {self.judges}"

    @property
    def title(self) -> str:
        return first_line(self.prompt, LONGEST_TITLE)


@dataclass(frozen=True)
class Broken:
    """A prompt whose answer fails a check, and why."""

    prompt: Prompt
    reason: str

    @property
    def title(self) -> str:
        return first_line(self.prompt, LONGEST_TITLE)


@dataclass(frozen=True)
class CheckCount:
    """How many answers pass a check, fail it, or cannot be told."""

    passed: int = 0
    failed: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class CheckRow:
    """A check of a draft's answers beside the baseline's.

    `passed`: whether the draft keeps it; None where that is not known, or only shown (the items of
    a judge's checklist). `broken` and `fixed` are against the baseline.
    """

    name: str
    baseline: CheckCount
    draft: CheckCount
    broken: list[Broken] = field(default_factory=list)
    fixed: int = 0
    allowed: int = 0
    is_guard: bool = False
    passed: bool | None = None

    @property
    def change(self) -> str:
        """ "1 fixed, 2 broken"."""
        parts = [(self.fixed, "fixed"), (len(self.broken), "broken")]
        return ", ".join(f"{n:,} {word}" for n, word in parts if n)


@dataclass(frozen=True, eq=False)
class Details:
    """What a list of experiments does not show: read when it is asked for."""

    measurement: ExperimentMeasurement

    @cached_property
    def prompts(self) -> Mapping[int, Prompt]:
        prompts = self.measurement.experiment.arena.prompts
        return prompts.defer("html", "reference", "rubric").in_bulk()

    @cached_property
    def figures(self) -> Mapping[int, Figures]:
        """Of the baseline and the drafts."""
        drafts = [draft.candidate.pk for draft in self.measurement.drafts]
        return figures_of([self.measurement.experiment.copy_id or 0, *drafts])

    @cached_property
    def checks(self) -> Mapping[int, list[CheckRow]]:
        """Of each draft."""
        rows = _checks_of(self.measurement, self.prompts)
        return {
            draft.candidate.pk: checks
            for draft, checks in zip(self.measurement.drafts, rows, strict=True)
        }


@dataclass(frozen=True, eq=False)
class DraftReport:
    measured: DraftMeasurement
    details: Details

    @property
    def experiment(self) -> Experiment:
        return self.measured.experiment

    @property
    def figures(self) -> Figures:
        return self.details.figures[self.candidate.pk]

    @property
    def checks(self) -> list[CheckRow]:
        return self.details.checks[self.candidate.pk]

    @property
    def failed_checks(self) -> list[CheckRow]:
        return [row for row in self.checks if row.passed is False]

    @property
    def candidate(self) -> Candidate:
        return self.measured.candidate

    @property
    def claim(self) -> Claim:
        """The judges' where they are asked, as it was registered; people's beside it, or alone."""
        return self.measured.claim if self.experiment.judges else self.measured.people

    @property
    def claims(self) -> list[Claim]:
        asked = [(self.experiment.judges, self.measured.claim)]
        asked += [(self.experiment.people, self.measured.people)]
        return [claim for wanted, claim in asked if wanted]

    @property
    def verdict(self) -> str:
        return self.claim.verdict.value

    @property
    def words(self) -> str:
        return WORDS[self.claim.verdict]

    @cached_property
    def sentence(self) -> str:
        return verdict_of(self.experiment, self.measured)

    @property
    def share(self) -> tuple[str, str]:
        """ "59%" and "42% to 75%"; '' before the first look."""
        return share_words(self.claim)

    @cached_property
    def lost(self) -> list[Lost]:
        found = []
        for prompt, _ in self.measured.lost:
            verdicts = self.measured.verdicts.get(prompt, {})
            run, judgement = self.measured.judged_at.get(prompt, (0, 0))
            path = (
                reverse("judge_verdict", args=[self.experiment.arena.slug, run, judgement])
                if run
                else ""
            )
            against = sum(score < 0 for score in verdicts.values())
            found.append(Lost(self.details.prompts[prompt], against, len(verdicts), path))
        return found

    @property
    def can_promote(self) -> bool:
        """Whether the verdict and the checks allow it: better, or no worse."""
        said = [claim.verdict for claim in self.claims]
        allows = Verdict.BETTER in said or Verdict.NO_WORSE in said
        return allows and Verdict.WORSE not in said and not self.failed_checks


@dataclass(frozen=True)
class Twin:
    """The baseline against itself: on how many prompts the verdict was not a tie."""

    experiment: Experiment
    judged: int
    flips: int

    @property
    def sentence(self) -> str:
        if not self.judged:
            return f"{self.experiment.copy} is being compared with itself."
        return (
            f"Compared with a second generation of itself, {self.experiment.copy} won or lost "
            f"{self.flips} of {numbered(self.judged, 'prompt')}."
        )


@dataclass(frozen=True, eq=False)
class ExperimentReport:
    experiment: Experiment
    details: Details
    drafts: list[DraftReport]
    spent: int

    @property
    def baseline(self) -> Figures:
        return self.details.figures[self.experiment.copy_id or 0]

    @cached_property
    def twin(self) -> Twin | None:
        if not self.experiment.judges or self.experiment.twin:
            return None
        found = twin_of(self.experiment)
        if found is None or found.registered_at is None:
            return None
        tallies = [draft.tally for draft in measure(found).drafts]
        flips = sum(tally["better"] + tally["worse"] for tally in tallies)
        return Twin(found, flips + sum(tally["same"] for tally in tallies), flips)

    @cached_property
    def finds(self) -> float | None:
        """The least share of decisive verdicts found in 4 of 5 cases."""
        experiment = self.experiment
        if not experiment.size or not experiment.judges:
            return None
        return detectable(experiment.registration)

    @property
    def finds_words(self) -> str:
        if self.finds is None:
            return ""
        won = round(100 * self.finds)
        lost = self.experiment.side < 0
        difference = f"{'loss' if lost else 'difference'} of {won}:{100 - won}"
        return f"This run could find a {difference} in 4 of 5 cases."

    @property
    def settled(self) -> int:
        """Registered prompts judged on all drafts, as far as they are needed."""
        return min((draft.measured.settled for draft in self.drafts), default=0)

    @property
    def judges_are_done(self) -> bool:
        return all(draft.measured.claim.verdict is not Verdict.OPEN for draft in self.drafts)

    @property
    def looked_at(self) -> int:
        return max((draft.measured.looked_at for draft in self.drafts), default=0)

    @cached_property
    def people(self) -> dict[str, Any] | None:
        """Progress of the human votes, and the link for raters; None if nobody is asked."""
        experiment = self.experiment
        if not experiment.people:
            return None
        runs = [draft.measured.people_run for draft in self.drafts if draft.measured.people_run]
        done = sum(len(draft.measured.votes) for draft in self.drafts)
        secret = experiment.arena.raters_secret
        path = reverse("raters_link", args=[experiment.arena.slug, secret]) if secret else ""
        return {
            "done": done,
            "wanted": experiment.people * len(self.drafts),
            "is_over": bool(runs) and all(run.is_over for run in runs),
            "link": f"{site_url()}{path}" if path else "",
        }

    @property
    def expires_at(self) -> datetime:
        return self.experiment.used_at + timedelta(days=settings.EXPERIMENT_DAYS)

    @property
    def is_decided(self) -> bool:
        return all(draft.claim.verdict is not Verdict.OPEN for draft in self.drafts)


def check_promotable(experiment: Experiment, draft: Candidate) -> None:
    """Raise ExperimentError unless the draft was measured, and its verdict and checks allow it."""
    reports = {report.candidate.pk: report for report in report_on(experiment).drafts}
    if experiment.state != Experiment.State.DONE or not reports[draft.pk].can_promote:
        raise ExperimentError(
            "Only a measured draft that is better, or no worse, and passes its checks can be "
            "promoted. Enter it as a candidate instead."
        )


def report_on(experiment: Experiment) -> ExperimentReport:
    """Read it in a bounded number of queries."""
    measurement = measure(experiment)
    details = Details(measurement)
    drafts = [DraftReport(draft, details) for draft in measurement.drafts]
    return ExperimentReport(experiment, details, drafts, spent_on(experiment))


def _checks_of(
    measurement: ExperimentMeasurement, prompts: Mapping[int, Prompt]
) -> list[list[CheckRow]]:
    """Of each draft: the arena's checks, its guards, and the items of judges' checklists."""
    experiment = measurement.experiment
    drafts = [draft.candidate for draft in measurement.drafts]
    if experiment.copy is None:
        return [[] for _ in drafts]
    reports = check_answers(arena=experiment.arena, candidates=[experiment.copy, *drafts])
    met = _items_met(experiment)
    found = []
    for number, draft in enumerate(measurement.drafts, start=1):
        pairs = [
            CheckReport(report.check, [report.tallies[0], report.tallies[number]])
            for report in reports
        ]
        rows = [_check_row(report, prompts) for report in pairs]
        guards = [_guard_row(draft, prompt, prompts) for prompt in draft.guards]
        found.append([*rows, *guards, *_item_rows(draft, met, prompts)])
    return found


def _check_row(report: CheckReport, prompts: Mapping[int, Prompt]) -> CheckRow:
    baseline, draft = report.tallies
    return CheckRow(
        name=report.check.name,
        baseline=_count(baseline),
        draft=_count(draft),
        broken=[Broken(prompts[answer.prompt], answer.reason) for answer in report.broken],
        fixed=len(report.fixed),
        allowed=report.check.allowed,
        passed=report.is_kept_by(draft) if draft.results else None,
    )


def _count(tally: CheckTally) -> CheckCount:
    return CheckCount(tally.passed, len(tally.failed), len(tally.unknown))


def _guard_row(draft: DraftMeasurement, prompt: int, prompts: Mapping[int, Prompt]) -> CheckRow:
    score = draft.score(prompt)
    lost, known = score is not None and score < 0, score is not None
    return CheckRow(
        name=f"Never lose “{first_line(prompts[prompt], LONGEST_TITLE)}”",
        baseline=CheckCount(),
        draft=CheckCount(int(known and not lost), int(lost), int(not known)),
        broken=[Broken(prompts[prompt], "The judges prefer the baseline’s answer.")] * lost,
        is_guard=True,
        passed=not lost if known else None,
    )


# Checklist items by text: what each answer, by its id, was found to meet.
Met = dict[str, dict[int, bool]]


def _items_met(experiment: Experiment) -> Met:
    """What judges with a checklist have found, where several ask the same, the first."""
    found: Met = {}
    for name in experiment.judges:
        with suppress(JudgeError):
            spec = spec_named(name, by=CLI)
            items = spec.rubric.items
            epoch = Epoch.objects.open().filter(judge__digest=spec.digest).first()
            if not items or epoch is None:
                continue
            calls = Call.objects.filter(run__arena=experiment.arena, requester=epoch.requester)
            for subject, verdict in calls.values_list("subject", "verdict"):
                (answer,) = read_subject(subject).shown or (0,)
                for item, is_met in zip(items, (verdict or {}).get("met", ()), strict=False):
                    found.setdefault(item.text, {}).setdefault(answer, is_met)
    return found


def _item_rows(draft: DraftMeasurement, met: Met, prompts: Mapping[int, Prompt]) -> list[CheckRow]:
    """A checklist's items, of the answers that a judge has read."""
    rows = []
    for text, answers in met.items():
        own, baseline = draft.answer_ids(answers)
        changed = own.keys() & baseline.keys()
        rows.append(
            CheckRow(
                name=text,
                baseline=CheckCount(sum(baseline.values()), len(baseline) - sum(baseline.values())),
                draft=CheckCount(sum(own.values()), len(own) - sum(own.values())),
                broken=[
                    Broken(prompts[prompt], "The judge does not find it in the answer.")
                    for prompt in sorted(changed)
                    if baseline[prompt] and not own[prompt]
                ],
                fixed=sum(own[prompt] and not baseline[prompt] for prompt in changed),
            )
        )
    return rows


def figures_of(ids: list[int]) -> dict[int, Figures]:
    """The figures of candidates, in two queries."""
    rows = Response.objects.filter(candidate__in=ids).order_by().values("candidate")
    means = {
        row["candidate"]: row
        for row in rows.annotate(n=Count("pk"), cost=Avg("cost"), seconds=Avg("seconds"))
    }
    calls = Call.objects.filter(run__candidate__in=ids, run__kind=Run.Kind.ANSWERS)
    ended = calls.filter(state__in=UNANSWERED).order_by()
    failed = count_errors(ended.values_list("run__candidate", "error").annotate(n=Count("pk")))
    return {
        pk: Figures(
            answers=means[pk]["n"] if pk in means else 0,
            cost=None if pk not in means or means[pk]["cost"] is None else round(means[pk]["cost"]),
            seconds=means[pk]["seconds"] if pk in means else None,
            errors=failed.get(pk, RunErrors()),
        )
        for pk in ids
    }
