"""Experiments: drafts are written and tried, measured against the baseline, and promoted.

A running experiment is advanced by a sweep, and each step is found from what is stored: which
answers are missing, which prompts of the registered order were judged, and what that allows to be
said. So a step may be repeated, and a killed worker loses nothing.
"""

import hashlib
import json
import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, Max, Q, QuerySet, Sum
from django.db.models.functions import Length
from django.urls import reverse

from arena.actors import SYSTEM, Actor
from arena.calls.money import dollars
from arena.errors import BusyError, ServiceError, checked_fields
from arena.generation import GenerationError, NothingToAskError
from arena.generation_runs import (
    NOTHING_QUOTED,
    AnswerQuote,
    UnderWayError,
    order_answers,
    quote_draft,
)
from arena.generation_runs import prepare_order as prepare_answers
from arena.models import (
    AnswerCheck,
    Arena,
    Candidate,
    Comparison,
    Prompt,
    Response,
    Run,
    Vote,
)
from arena.services import audit, runs
from arena.services.arenas import create_raters_link, delete_arena, random_slug
from arena.services.budgets import BudgetError, budget_left, committed_in
from arena.services.candidate_checks import clean_candidate_name
from arena.services.candidates import (
    register_candidate,
    retire_candidate,
    revise_candidate,
)
from arena.services.locks import exclusive_lock, lock_revealed
from arena.services.notices import notify
from arena.services.orders import order_people_run
from arena.services.pairs import sync_pairs
from arena.services.voting import apply_rules
from arena.signals import announce, votes_changed
from arena.validation import numbered
from judges.models import Epoch, Experiment, Judgement
from judges.models.experiments import LOOKS, MARGIN, MOST_DRAFTS, MOST_PROMPTS
from judges.services.decisions import baselines_in, choose_baseline
from judges.services.measurements import ExperimentMeasurement, guarded_prompts, measure
from judges.services.orders import JudgeOrder, Member, calls_for
from judges.services.planning import OrderOptions, PlannedComparison, shares_of
from judges.services.quotes import (
    CHARACTERS_PER_TOKEN,
    expected_costs,
    probe_judges,
    prompt_overhead,
    quote_calls,
)
from judges.services.registry import spec_named
from judges.services.subjects import criteria_suffix, families_in
from ranking.claim_words import claim_sentence, verdict_sentence
from ranking.stats.claim import (
    Registration,
    detectable,
    expected_prompts,
    is_conclusive,
    size_to_detect,
)

log = logging.getLogger(__name__)

State = Experiment.State
FINISHED = "experiment.finished"
DELETED_AT_ONCE = 50
TRIED = 3
LEAST_PROMPTS = 5
MOST_PEOPLE = 2_000
SLACK = 33  # 3 %: lengths are estimated
BUSY = "This experiment is being changed. Try again in a moment."
MOST_LOOKED_AT = 50  # experiments with the same content
SAME = (
    "{} is the same as {}, so there is nothing to compare. To see how often chance alone decides, "
    "compare the baseline with a second generation of itself."
)
CLOSED = "This experiment has started, so its drafts can’t be changed. Create another one."
# What a candidate's answers are made from; its other texts describe it.
MADE_OF = ("system_prompt", "user_template", "messages", "endpoint", "model", "parameters")
COPIED_SETTINGS = (
    *("question", "criteria", "guide", "strengths", "faults", "reasons_first"),
    *("self_identifying", "voters"),
)
draw = random.SystemRandom()
# The audit log names it; whoever started the experiment was allowed to.
BY_EXPERIMENT = Actor(display_name="a running experiment", by_command=True)


class ExperimentError(ServiceError):
    """Something an experiment does not allow; the message is a sentence for people."""


class NothingToCompareError(ExperimentError):
    """Two that are the same."""

    kind = "nothing-to-compare"


def create_experiment(
    *,
    origin: Arena,
    baseline: Candidate,
    by: Actor,
    now: datetime,
    drafts: Sequence[Mapping[str, Any]],
    name: str = "",
    prompts: QuerySet[Prompt] | None = None,
    twin: bool = False,
) -> Experiment:
    """Create an experiment with one to four drafts of the arena's team.

    `drafts` have a `name` and what differs from the baseline, of MADE_OF. `prompts`: which of the
    arena's; by default all. Raises ExperimentError and CandidateError.
    """
    if origin.team is None or origin.origin_id is not None:
        raise ExperimentError("Experiments belong to a team’s own arena.")
    name = checked_fields(Arena, {"name": name}, ExperimentError)["name"] if name.strip() else ""
    if not baselines_in(origin).filter(pk=baseline.pk).exists():
        raise ExperimentError("Choose an active candidate as the baseline.", field="baseline")
    if not 1 <= len(drafts) <= MOST_DRAFTS:
        raise ExperimentError(f"An experiment has 1 to {MOST_DRAFTS} drafts.", field="drafts")
    chosen = list(_usable(origin.prompts.active() if prompts is None else prompts))
    if len(chosen) < LEAST_PROMPTS:
        raise ExperimentError(
            f"An experiment needs at least {LEAST_PROMPTS} prompts with a text, and there are "
            f"{len(chosen)}.",
            field="prompts",
        )
    digest = digest_of(baseline, drafts, chosen, twin=twin)
    if len(chosen) > MOST_PROMPTS:
        chosen = sorted(draw.sample(chosen, MOST_PROMPTS), key=lambda prompt: prompt.pk)
    names = _names_of(drafts, baseline)
    with transaction.atomic():
        lock_revealed(origin.pk)
        arena = _own_arena(origin, name or names[0])
        copy = _copy(baseline, chosen, arena, by, now)
        experiment = Experiment.objects.create(
            arena=arena,
            baseline=baseline,
            copy=copy,
            twin=twin,
            created_by=by.user,
            used_at=now,
            digest=digest,
        )
        for title, draft in zip(names, drafts, strict=True):
            _register(experiment, title, draft, by, now)
        sync_pairs(arena=arena)
        audit.record_in(origin, by, "created an experiment", name or names[0])
    return experiment


def find_experiment(
    *,
    origin: Arena,
    baseline: Candidate,
    drafts: Sequence[Mapping[str, Any]],
    prompts: QuerySet[Prompt] | None = None,
    twin: bool = False,
    plan: "MeasurementPlan | None" = None,
) -> Experiment | None:
    """The newest experiment with this content, if one is still kept; with a `plan`, one that is
    measured like this, or not yet."""
    chosen = list(_usable(origin.prompts.active() if prompts is None else prompts))
    same = Experiment.objects.filter(digest=digest_of(baseline, drafts, chosen, twin=twin))
    kept = same.filter(arena__in=Arena.objects.revealed()).order_by("-pk")[:MOST_LOOKED_AT]
    return next((one for one in kept if plan is None or plan.is_of(one)), None)


def digest_of(
    baseline: Candidate,
    drafts: Sequence[Mapping[str, Any]],
    prompts: Iterable[Prompt],
    *,
    twin: bool,
) -> str:
    """Of what is compared, and by which rules: the same content has the same digest, whatever its
    names. A twin has no rules, because it measures chance alone."""
    arena, rules = baseline.arena, []
    content = [_content_of(baseline, draft) for draft in drafts]
    asked = sorted((prompt.external_id, prompt.text, prompt.variables) for prompt in prompts)
    if not twin:
        checks = arena.checks.revealed().order_by("pk").values_list("prompt", "digest", "allowed")
        rules = [*(getattr(arena, name) for name in COPIED_SETTINGS), *checks]
    facts = json.dumps([baseline.pk, content, asked, twin, rules], sort_keys=True, default=str)
    return hashlib.sha256(facts.encode()).hexdigest()


def _usable(prompts: QuerySet[Prompt]) -> QuerySet[Prompt]:
    return prompts.filter(~Q(text="") | ~Q(variables={})).order_by("pk")


def _names_of(drafts: Sequence[Mapping[str, Any]], baseline: Candidate) -> list[str]:
    """The names entered; drafts without one are numbered."""
    names = [str(draft.get("name", "")).strip() for draft in drafts]
    taken = {baseline.own_name.casefold()}
    for number, name in enumerate(names):
        free = (
            clean_candidate_name(name)
            if name
            else ("Draft" if len(names) == 1 else f"Draft {number + 1}")
        )
        if free.casefold() in taken:
            raise ExperimentError(f"Two candidates are called {free}.", field="drafts")
        taken.add(free.casefold())
        names[number] = free
    return names


def _own_arena(origin: Arena, name: str) -> Arena:
    """Without a signal: an experiment's arena has no leaderboard."""
    arena = Arena(
        slug=random_slug("x"),
        name=name[: Arena._meta.get_field("name").max_length].rstrip(),
        team=origin.team,
        origin=origin,
        visibility=Arena.Visibility.PRIVATE,
        held_out=0,
        **{setting: getattr(origin, setting) for setting in COPIED_SETTINGS},
    )
    arena.full_clean()
    arena.save()
    return arena


def _copied(row: Any, **changes: Any) -> Any:
    """An unsaved copy of a row, as if it had been created here."""
    names = {field.attname for field in row._meta.concrete_fields if not field.primary_key}
    fields = {name: getattr(row, name) for name in names - {"source_id", "source_row"}}
    return type(row)(**(fields | changes))


def _copy(
    baseline: Candidate, prompts: Sequence[Prompt], arena: Arena, by: Actor, now: datetime
) -> Candidate:
    """Copy the prompts, and the baseline with its answers."""
    copies = [
        _copied(prompt, arena_id=arena.pk, showcased_at=None, in_showcase=False)
        for prompt in prompts
    ]
    Prompt.objects.bulk_create(copies, batch_size=500)
    ids = {
        prompt.pk: copied.pk
        for prompt, copied in zip(prompts, _in_order(copies, arena), strict=True)
    }
    candidate = Candidate.objects.create(
        arena=arena,
        name=baseline.own_name,
        disclosed_at=now,
        created_by=by.user,
        **{name: getattr(baseline, name) for name in MADE_OF},
    )
    answers = Response.objects.revealed().filter(candidate=baseline)
    Response.objects.bulk_create(
        (
            _copied(
                answer, candidate_id=candidate.pk, prompt_id=ids[answer.prompt_id], call_id=None
            )
            for answer in answers.iterator()
            if answer.prompt_id in ids
        ),
        batch_size=500,
    )
    return candidate


def _copy_checks(experiment: Experiment) -> None:
    """Take the checks that are in force when it starts."""
    arena, origin = experiment.arena, experiment.origin
    ids = dict(arena.prompts.values_list("external_id", "pk"))
    arena.checks.all().delete()
    checks = origin.checks.revealed().filter(Q(prompt=None) | Q(prompt__external_id__in=ids))
    AnswerCheck.objects.bulk_create(
        _copied(check, arena_id=arena.pk, prompt_id=check.prompt and ids[check.prompt.external_id])
        for check in checks.select_related("prompt").order_by("pk")
    )


def _in_order(copies: Sequence[Prompt], arena: Arena) -> list[Prompt]:
    by_id = {prompt.external_id: prompt for prompt in arena.prompts.only("external_id")}
    return [by_id[copied.external_id] for copied in copies]


def _content_of(baseline: Candidate, draft: Mapping[str, Any]) -> dict[str, Any]:
    """The draft's content: the baseline's, but what is given."""
    given = {name: value for name, value in draft.items() if name in MADE_OF and value is not None}
    if given.get("messages"):
        given = {"system_prompt": "", "user_template": ""} | given
    elif given.keys() & {"system_prompt", "user_template"}:
        given = {"messages": None} | given
    return {name: getattr(baseline, name) for name in MADE_OF} | given


def _register(
    experiment: Experiment, name: str, draft: Mapping[str, Any], by: Actor, now: datetime
) -> Candidate:
    baseline = experiment.copy
    assert baseline is not None, "copied when it was created"
    content = _content_of(baseline, draft)
    return register_candidate(
        arena=experiment.arena, team=None, by=by, now=now, name=name, **content
    )


def twin_of(experiment: Experiment) -> Experiment | None:
    """The newest test of the baseline against itself on these prompts by these judges."""
    baseline = experiment.baseline
    if baseline is None:
        return None
    prompts = experiment.arena.prompts.active()
    same = Experiment.objects.filter(digest=digest_of(baseline, [{}], prompts, twin=True))
    same = same.filter(arena__in=Arena.objects.revealed(), judges=experiment.judges)
    return same.exclude(pk=experiment.pk).order_by("-pk").first()


def start_twin(*, experiment: Experiment, cap: int | None, by: Actor, now: datetime) -> Experiment:
    """Measure the baseline against a second generation of itself, unless that has been done on
    these prompts by these judges. Raises ExperimentError, RunError and BudgetError."""
    baseline = experiment.baseline
    if baseline is None or not baseline.endpoint:
        raise ExperimentError("Uploaded answers have no twin: they cannot be generated again.")
    if (before := twin_of(experiment)) is not None and before.state != State.STOPPED:
        return before
    ids = experiment.arena.prompts.active().values("external_id")
    twin = before or create_experiment(
        origin=experiment.origin,
        baseline=baseline,
        by=by,
        now=now,
        name=f"{baseline.own_name[:80].rstrip()} against itself",
        drafts=[{"name": "second generation"}],
        prompts=experiment.origin.prompts.filter(external_id__in=ids),
        twin=True,
    )
    plan = replace(_registered_plan(experiment), people=0, side=0, detect=None, cap=cap)
    return start_experiment(experiment=twin, plan=plan, by=by, now=now)


@transaction.atomic
def add_draft(
    *, experiment: Experiment, by: Actor, now: datetime, name: str = "", **content: Any
) -> Candidate:
    """Add a draft, by default like the baseline. Raises ExperimentError and CandidateError."""
    _change(experiment, now)
    if experiment.drafts.count() >= MOST_DRAFTS:
        raise ExperimentError(f"An experiment has at most {MOST_DRAFTS} drafts.")
    taken = set(experiment.arena.candidates.values_list("name", flat=True))
    free = (f"Draft {number}" for number in range(1, MOST_DRAFTS + len(taken) + 2))
    title = name.strip() or next(one for one in free if one not in taken)
    return _register(experiment, title, content, by, now)


@transaction.atomic
def change_draft(
    *, experiment: Experiment, draft: Candidate, by: Actor, now: datetime, **content: Any
) -> Candidate:
    """Change a draft; if it has answers, the changed one takes its place without them."""
    _change(experiment, now)
    changes = {name: value for name, value in content.items() if name in MADE_OF}
    changed = revise_candidate(candidate=draft, by=by, now=now, **changes)
    if changed.pk != draft.pk:
        retire_candidate(candidate=draft, by=by, now=now)
    return changed


@transaction.atomic
def remove_draft(*, experiment: Experiment, draft: Candidate, by: Actor, now: datetime) -> None:
    _change(experiment, now)
    if experiment.drafts.count() < 2:
        raise ExperimentError("An experiment keeps at least one draft.")
    retire_candidate(candidate=draft, by=by, now=now)


def _locked(experiment: Experiment) -> Experiment:
    """The experiment as it is now, locked until the end of the transaction."""
    rows = Experiment.objects.select_related("arena__team", "arena__origin", "baseline", "copy")
    return rows.select_for_update(of=("self",), no_key=True).get(pk=experiment.pk)


def touch(experiment: Experiment, now: datetime) -> None:
    """Note that the team uses it: what is not used expires."""
    Experiment.objects.filter(pk=experiment.pk).update(used_at=now)


def _change(experiment: Experiment, now: datetime) -> None:
    """Before its drafts change: nobody starts it meanwhile, and it is no longer what was asked for.
    Raises ExperimentError once it has started."""
    _check_open(_locked(experiment))
    Experiment.objects.filter(pk=experiment.pk).update(used_at=now, digest="")


def _check_open(experiment: Experiment) -> None:
    if not experiment.is_open:
        raise ExperimentError(CLOSED)


def generating(experiment: Experiment) -> list[Candidate]:
    """The baseline and the drafts that have an endpoint."""
    candidates = [experiment.copy, *experiment.drafts]
    return [candidate for candidate in candidates if candidate and candidate.endpoint]


def suggested_prompts(experiment: Experiment) -> list[Prompt]:
    """The three prompts to try drafts on: those tried before, else one of each third."""
    tried = Prompt.objects.filter(
        responses__candidate__in=experiment.drafts, arena=experiment.arena
    ).distinct()
    if experiment.is_open and (before := list(tried.order_by("pk")[:TRIED])):
        return before
    prompts = list(experiment.arena.prompts.active().order_by("pk"))
    step = max(len(prompts) // TRIED, 1)
    return prompts[::step][:TRIED]


def quote_try(*, experiment: Experiment, prompts: Sequence[Prompt]) -> AnswerQuote:
    """What the missing answers to these prompts cost."""
    total = NOTHING_QUOTED
    for candidate in generating(experiment):
        with suppress(GenerationError):
            total += prepare_answers(candidate=candidate, prompts=prompts).quote
    return total


def try_drafts(
    *, experiment: Experiment, prompts: Sequence[Prompt], by: Actor, now: datetime
) -> list[Run]:
    """Generate the missing answers to a few prompts. Raises GenerationError and BudgetError."""
    experiment.refresh_from_db(fields=["state"])
    _check_open(experiment)
    if not 0 < len(prompts) <= TRIED:
        raise ExperimentError(f"Choose 1 to {TRIED} prompts.", field="prompts")
    started, cap = [], quote_try(experiment=experiment, prompts=prompts).worst
    for candidate in generating(experiment):
        with suppress(NothingToAskError):
            started.append(
                order_answers(candidate=candidate, by=by, cap=cap, now=now, prompts=prompts)
            )
    touch(experiment, now)
    return started


@dataclass(frozen=True)
class ExperimentQuote:
    """What measuring costs, in nano-dollars, and what it can find.

    `at_most` is what a run that goes to its end costs, with room for the requests under way, and a
    hard limit; `expected` counts on an early end. Both include what has been spent. None without a
    price. `finds`: the least share of decisive verdicts, won or lost by the draft, that is found in
    4 of 5 cases; None if the prompts are too few for any. `needed`: how many prompts find `detect`.
    """

    size: int
    available: int
    answers: AnswerQuote
    verdict: int | None
    calls: int
    at_most: int | None
    expected: int | None
    expected_size: float
    finds: float | None
    detect: float | None = None
    needed: int | None = None
    unpriced: tuple[str, str] | None = None

    @property
    def finds_words(self) -> str:
        prompts = numbered(self.size, "prompt")
        if self.finds is None:
            return f"{prompts} are too few to find any difference in 4 of 5 cases."
        won = round(100 * self.finds)
        return f"{prompts}: a {won}:{100 - won} difference in 4 of 5 cases."


@dataclass(frozen=True)
class MeasurementPlan:
    """How an experiment shall be measured.

    `side` -1 tests only whether a draft is worse. `people`: human votes wanted on each draft.
    `detect` chooses the size, if none is given.
    """

    judges: Sequence[str] = ()
    size: int | None = None
    people: int = 0
    side: int = 0
    margin: float = MARGIN
    detect: float | None = None
    cap: int | None = None
    own_family: bool = False
    counts_votes: bool = False

    def is_of(self, experiment: Experiment) -> bool:
        """Whether an experiment is measured like this, or may still be."""
        if experiment.registered_at is None:
            return True
        available = experiment.arena.prompts.active().count()
        wanted = self.size
        if wanted is None and self.detect:
            wanted = size_to_detect(self.detect, self.side, experiment.family)
        size = min(wanted or available, available)
        facts = (list(dict.fromkeys(self.judges)), self.people, self.side, self.margin)
        stored = (experiment.judges, experiment.people, experiment.side, experiment.margin)
        return facts == stored and (not self.judges or size == experiment.size)


@dataclass
class PlannedMeasurement:
    """A plan, checked: the judges' specs, the size, and the quote."""

    experiment: Experiment
    plan: MeasurementPlan
    by: Actor
    drafts: list[Candidate] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.drafts = list(self.experiment.drafts)
        self.specs = [spec_named(name, by=self.by) for name in dict.fromkeys(self.plan.judges)]

    @cached_property
    def available(self) -> int:
        return self.experiment.arena.prompts.active().count()

    @cached_property
    def needed(self) -> int | None:
        """How many prompts find the difference that matters."""
        detect, family = self.plan.detect, len(self.drafts)
        return size_to_detect(detect, self.plan.side, family) if detect else None

    @cached_property
    def size(self) -> int:
        wanted = self.plan.size
        if wanted is None:
            wanted = self.needed if self.plan.detect else self.available
        return min(wanted or self.available, self.available)

    @cached_property
    def registration(self) -> Registration:
        return Registration(self.size, LOOKS, self.plan.side, len(self.drafts))

    def quote(self) -> ExperimentQuote:
        size, n = self.size, len(self.drafts)
        answers = self._answers()
        characters = CHARACTERS_PER_TOKEN * answers.tokens_out // max(answers.calls, 1)
        costs = expected_costs(arena=self.experiment.arena, specs=self.specs, unanswered=characters)
        verdict = None if None in costs else sum(cost or 0 for cost in costs)
        full = (
            None
            if answers.expected is None or verdict is None
            else (answers.expected + verdict * size * n)
        )
        registration, margin = self.registration, self.plan.margin
        finish = expected_prompts(registration, margin) if self.specs else float(size)
        expected = at_most = None
        if full is not None and verdict is not None:
            assert answers.expected is not None
            spent = spent_on(self.experiment)  # its drafts may have been tried
            expected = spent + answers.expected + round(verdict * finish * n)
            at_most = spent + full + full // SLACK + self._one_request() if full else 0
        unpriced = answers.unpriced or next(
            ((s.endpoint, s.model) for s, c in zip(self.specs, costs, strict=True) if c is None),
            None,
        )
        return ExperimentQuote(
            size=size,
            available=self.available,
            answers=answers,
            verdict=verdict,
            calls=answers.calls + 2 * size * n * sum(spec.readings for spec in self.specs),
            at_most=at_most,
            expected=expected,
            expected_size=finish,
            finds=detectable(self.registration) if self.specs else None,
            detect=self.plan.detect,
            needed=self.needed,
            unpriced=unpriced,
        )

    def _answers(self) -> AnswerQuote:
        """Of the missing answers to as many prompts as will be drawn."""
        total, prompts = NOTHING_QUOTED, list(self.experiment.arena.prompts.active())
        for candidate in generating(self.experiment):
            answered = set(candidate.responses.values_list("prompt", flat=True))
            missing = [prompt for prompt in prompts if prompt.pk not in answered]
            quote = quote_draft(draft=candidate, prompts=missing).quote
            total += _scaled(quote, self.size, self.available)
        return total

    def _one_request(self) -> int:
        """The most that one request can cost, which the ledger reserves beside what is spent."""
        arena, length = self.experiment.arena, Length("text")
        longest = list(arena.prompts.active().order_by(length.desc())[:1])
        answers = Response.objects.filter(candidate__arena=arena).aggregate(most=Max(length))
        shown = sum(len(prompt.text.encode()) for prompt in longest) + 2 * (answers["most"] or 0)
        worst = [
            quote_draft(draft=candidate, prompts=longest).quote.worst or 0
            for candidate in generating(self.experiment)
        ]
        judged = [
            quote_calls(spec, 1, [prompt_overhead(spec, arena) + shown]).worst or 0
            for spec in self.specs
        ]
        return max([*worst, *judged], default=0)

    def check(self) -> None:
        """Raise ExperimentError for a plan that cannot be carried out."""
        plan = self.plan
        if not self.specs and not plan.people:
            raise ExperimentError("Choose judges, people or both.", field="judges")
        if plan.size is not None and plan.size < LEAST_PROMPTS:
            raise ExperimentError(
                f"Choose at least {LEAST_PROMPTS} prompts: fewer decide nothing.", field="size"
            )
        if not 0 <= plan.people <= MOST_PEOPLE:
            raise ExperimentError(
                f"Ask for at most {MOST_PEOPLE:,} human votes on a draft.", field="people"
            )
        for draft in self.drafts:
            if not draft.endpoint and not draft.responses.exists():
                raise ExperimentError(
                    f"{draft} has no endpoint and no answers. Upload its answers first."
                )
        check_differences(self.experiment)
        if not plan.own_family:
            self._check_families()

    def _check_families(self) -> None:
        families = families_in(self.experiment.arena)
        copy = self.experiment.copy_id or 0
        for spec in self.specs:
            for draft in self.drafts:
                own = [families.get(pk, "") == spec.family for pk in (copy, draft.pk)]
                if sum(own) == 1:
                    raise ExperimentError(
                        f"{spec.label} is of the same model family as one of the two, {draft} and "
                        "the baseline, and may favour it. Choose another judge, or allow it "
                        "(own_family in the API, --own-family).",
                        field="judges",
                    )


def check_differences(experiment: Experiment) -> None:
    """Raise ExperimentError if two that are generated would be generated from the same."""
    seen = list[Candidate]()
    for candidate in generating(experiment):
        content = {name: getattr(candidate, name) for name in MADE_OF}
        for other in () if experiment.twin else seen:
            if content == {name: getattr(other, name) for name in MADE_OF}:
                is_copy = other.pk == experiment.copy_id
                raise NothingToCompareError(
                    SAME.format(candidate, "the baseline" if is_copy else other), field="drafts"
                )
        seen.append(candidate)


def _scaled(quote: AnswerQuote, size: int, available: int) -> AnswerQuote:
    def part(amount: int | None) -> int | None:
        return None if amount is None else -(-amount * size // max(available, 1))

    return AnswerQuote(
        calls=part(quote.calls) or 0,
        tokens_in=part(quote.tokens_in) or 0,
        tokens_out=part(quote.tokens_out) or 0,
        expected=part(quote.expected),
        worst=part(quote.worst),
        unpriced=quote.unpriced,
    )


def start_experiment(
    *, experiment: Experiment, plan: MeasurementPlan, by: Actor, now: datetime
) -> Experiment:
    """Register the measurement and begin it: its size is fixed and the order of prompts drawn now.

    It never spends more than the plan's cap, by default what the quote says at most. Raises
    ExperimentError, RunError, BudgetError and JudgeError.
    """
    if experiment.registered_at is not None:  # what was registered stays registered
        cap = experiment.cap if plan.cap is None else plan.cap
        plan = replace(_registered_plan(experiment), cap=cap)
    planned = PlannedMeasurement(experiment, plan, by)
    planned.check()
    quote = planned.quote()
    if quote.unpriced:
        endpoint, model = quote.unpriced
        raise ExperimentError(runs.NO_PRICE.format(endpoint=endpoint, model=model))
    cap = quote.at_most if plan.cap is None else plan.cap
    _check_budget(experiment, cap, quote)
    probe_judges(specs=planned.specs, now=now)
    prompts = list(experiment.arena.prompts.active().order_by("pk").values_list("pk", flat=True))
    with transaction.atomic():
        locked = _locked(experiment)
        if locked.state not in (State.DRAFT, State.STOPPED):
            raise ExperimentError("This experiment has been started.")
        if list(locked.drafts) != planned.drafts:
            raise ExperimentError("The drafts have just changed. Check them, then start again.")
        locked.state, locked.reason, locked.finished_at = State.RUNNING, "", None
        locked.cap = cap
        if locked.registered_at is None:
            locked.judges = list(dict.fromkeys(plan.judges))
            locked.own_family, locked.people = plan.own_family, plan.people
            locked.counts_votes = plan.counts_votes
            locked.size, locked.side, locked.margin = planned.size, plan.side, plan.margin
            locked.detect, locked.family = plan.detect, len(planned.drafts)
            locked.order = draw.sample(prompts, planned.size)
            locked.at_most, locked.expected = quote.at_most, quote.expected
            locked.registered_at = now
            _copy_checks(locked)
        locked.asked, locked.used_at, locked.started_at = [], now, now
        locked.save()
        audit.record_in(
            locked.origin,
            by,
            "started an experiment",
            locked,
            prompts=locked.size,
            judges=locked.judges,
            people=locked.people,
            cap=dollars(cap),
        )
        if locked.people and not locked.arena.raters_salt:
            if locked.arena.voters == Arena.Voters.MEMBERS:
                Arena.objects.filter(pk=locked.arena_id).update(voters=Arena.Voters.ANYONE)
            create_raters_link(arena=locked.arena, by=by)
    return locked


def _registered_plan(experiment: Experiment) -> MeasurementPlan:
    return MeasurementPlan(
        judges=experiment.judges,
        size=experiment.size,
        people=experiment.people,
        side=experiment.side,
        margin=experiment.margin,
        detect=experiment.detect,
        own_family=experiment.own_family,
        counts_votes=experiment.counts_votes,
    )


def _check_budget(experiment: Experiment, cap: int | None, quote: ExperimentQuote) -> None:
    if not quote.at_most or cap is None:
        return
    if cap <= 0:
        raise ExperimentError(runs.CAP_TOO_LOW, field="cap")
    team, spent = experiment.team, spent_on(experiment)
    if cap <= spent:
        raise ExperimentError(
            f"This experiment has spent {dollars(spent)} of its cap of {dollars(cap)}. Enter a "
            "higher cap.",
            field="cap",
        )
    if cap - spent > (left := max(0, budget_left(team))):
        raise BudgetError(
            f"This may cost up to {dollars(cap - spent)}, and {team} has {dollars(left)} left of "
            "its budget. Choose fewer prompts or a lower cap, or ask an administrator for a larger"
            " budget.",
            field="cap",
        )


@transaction.atomic
def stop_experiment(
    *, experiment: Experiment, by: Actor, now: datetime, reason: str = ""
) -> Experiment:
    """Stop a running experiment and cancel what is under way; what is known stays."""
    running = Experiment.objects.filter(pk=experiment.pk, state=State.RUNNING)
    why = reason or "The team stopped it."
    if not running.update(state=State.STOPPED, reason=why[:500], finished_at=now):
        raise ExperimentError("Only a running experiment can be stopped.")
    _cancel_runs(experiment, now)
    audit.record_in(experiment.origin, by, "stopped an experiment", experiment, reason=why)
    experiment.refresh_from_db()
    return experiment


def _cancel_runs(experiment: Experiment, now: datetime) -> None:
    unfinished = Run.objects.not_over().filter(arena=experiment.arena_id)
    for run_id in list(unfinished.order_by("pk").values_list("pk", flat=True)):
        runs.cancel_run(run_id=run_id, now=now)
    experiment.arena.demands.update(remaining=0)


def spent_on(experiment: Experiment) -> int:
    """What its runs have cost, or may have, in nano-dollars."""
    sums = Run.objects.filter(arena=experiment.arena_id).aggregate(
        settled=Sum("settled", default=0), uncertain=Sum("uncertain", default=0)
    )
    return int(sums["settled"] + sums["uncertain"])


def _committed(experiment: Experiment) -> int:
    """What its runs have cost or may have, and what the unfinished ones may still cost."""
    return committed_in(Run.objects.filter(arena=experiment.arena_id))


def advance_all(*, now: datetime) -> int:
    """Take the next step of each running experiment; return how many there are.

    One that cannot be advanced is logged, and keeps no other from going on.
    """
    revealed = Experiment.objects.filter(arena__in=Arena.objects.revealed())
    running = revealed.filter(state=State.RUNNING).order_by("pk")
    # What a worker ordered after somebody had stopped it, and was killed.
    left_over = Run.objects.not_over().values("arena")
    stopped = revealed.filter(state=State.STOPPED, arena__in=left_over).order_by("pk")
    ids = list(running.values_list("pk", flat=True))
    for pk in [*ids, *stopped.values_list("pk", flat=True)]:
        try:
            advance(experiment_id=pk, now=now)
        except (ExperimentError, Experiment.DoesNotExist):  # somebody else is at it, or deletes it
            continue
        except Exception:
            log.exception("Experiment %s could not be advanced", pk)
    return len(ids)


def advance(*, experiment_id: int, now: datetime) -> None:
    """Order the next answers, verdicts or votes that are missing, or finish. Raises
    ExperimentError while another worker does the same."""
    with exclusive_lock(f"experiment-{experiment_id}", busy=ExperimentError(BUSY)):
        experiment = Experiment.objects.select_related("arena__team", "arena__origin", "copy").get(
            pk=experiment_id
        )
        if experiment.state == State.RUNNING:
            _advance_or_stop(experiment, now)
            experiment.refresh_from_db(fields=["state"])
        # Whoever has stopped it meanwhile did not know of what was just ordered.
        if experiment.state == State.STOPPED:
            _cancel_runs(experiment, now)


def _advance_or_stop(experiment: Experiment, now: datetime) -> None:
    try:
        _advance(experiment, now)
    except BusyError:
        return
    except (ServiceError, ValidationError) as error:
        if not Arena.objects.revealed().filter(pk=experiment.arena_id).exists():
            return  # it is being deleted, and nobody is told about it
        why = " ".join(getattr(error, "messages", [str(error)]))
        with suppress(ExperimentError), transaction.atomic():  # it was stopped meanwhile
            stop_experiment(experiment=experiment, by=SYSTEM, now=now, reason=why)
            _notify(experiment, f"{experiment} was stopped: {why}", {}, now)


def _advance(experiment: Experiment, now: datetime) -> None:
    paused = Run.objects.of_calls().filter(arena=experiment.arena_id, state=Run.State.PAUSED)
    if run := paused.select_related("candidate").order_by("pk").first():
        raise ExperimentError(f"{run.candidate or 'The judges'}: {run.pause_reason}")
    _check_not_cancelled(experiment)
    if not _have_answered(experiment, now):
        return
    measurement = measure(experiment)
    _check_answered(measurement)
    judged = not experiment.judges or _have_judged(experiment, measurement, now)
    voted = not experiment.people or _have_voted(experiment, measurement, now)
    if judged and voted:
        _finish(experiment, measurement, now)


def _have_answered(experiment: Experiment, now: datetime) -> bool:
    """Whether all answers that can be had are there; orders those that nobody was asked for."""
    under_way = Run.objects.of_answers().not_over().filter(arena=experiment.arena_id)
    asked = set(experiment.asked)
    waiting = [c for c in generating(experiment) if c.pk not in asked]
    wanted = [*experiment.order, *guarded_prompts(experiment)] if waiting else []
    prompts = list(Prompt.objects.filter(pk__in=wanted))
    for candidate in waiting:
        # One paid run at a time: a share of the cap may not have room for a single request.
        if under_way.filter(cap__gt=0).exists():
            return False
        try:
            order_answers(
                candidate=candidate,
                by=BY_EXPERIMENT,
                cap=_left(experiment),
                now=now,
                prompts=prompts,
            )
        except NothingToAskError:
            pass
        except UnderWayError:
            return False
        asked.add(candidate.pk)
        Experiment.objects.filter(pk=experiment.pk).update(asked=sorted(asked))
    if under_way.exists():
        return False
    _keep_answers_of_baseline(experiment)
    return True


def _left(experiment: Experiment) -> int:
    return max((experiment.cap or 0) - _committed(experiment), 0)


def _check_not_cancelled(experiment: Experiment) -> None:
    """Raise ExperimentError if somebody has cancelled one of its runs since it was started."""
    ordered = Run.objects.of_calls().filter(arena=experiment.arena_id)
    cancelled = ordered.filter(state=Run.State.CANCELLED, closed_at__gt=experiment.started_at)
    by_somebody = cancelled.exclude(pause_reason=runs.CUT_SHORT).select_related("candidate")
    if run := by_somebody.first():
        whose = f"The run of {run.candidate}’s answers" if run.candidate else "Its judge run"
        raise ExperimentError(f"{whose} was cancelled.")


def _check_answered(measurement: ExperimentMeasurement) -> None:
    if not measurement.drafts:
        raise ExperimentError("Its drafts have been archived.")
    for draft in measurement.drafts:
        if not draft.answered:
            why = draft.why_unanswered
            raise ExperimentError(f"{draft.candidate} has no answers{f': {why}' if why else '.'}")


def _have_judged(experiment: Experiment, measurement: ExperimentMeasurement, now: datetime) -> bool:
    """Whether nothing more is to be judged; orders the prompts up to the next look."""
    if Run.objects.not_over().filter(arena=experiment.arena_id, kind=Run.Kind.JUDGE).exists():
        return False
    registration = experiment.registration
    for end in registration.ends:
        undecided = [
            draft
            for draft in measurement.drafts
            if not is_conclusive(draft.claim_at(end_before(registration, end)))
        ]
        if not undecided:
            break
        picks = [pick for draft in undecided for pick in draft.to_judge(end)]
        if picks:
            _order_judges(experiment, picks, now)
            return False
    # What must never be lost is judged even if the rest is decided.
    guarded = [pick for draft in measurement.drafts for pick in draft.guards_to_judge]
    if guarded:
        _order_judges(experiment, guarded, now)
        return False
    _check_any_verdict(experiment, measurement)
    return True


def _check_any_verdict(experiment: Experiment, measurement: ExperimentMeasurement) -> None:
    """Raise ExperimentError if the judges were asked, and have not said anything."""
    asked = max((len(draft.asked) for draft in measurement.drafts), default=0)
    if not asked or any(draft.verdicts for draft in measurement.drafts):
        return
    states = Judgement.objects.asked().filter(run__arena=experiment.arena_id).order_by()
    counts = states.values_list("state").annotate(n=Count("pk")).order_by("-n")
    why = ", ".join(f"{n:,} {Judgement.State(state).label.lower()}" for state, n in counts)
    raise ExperimentError(f"The judges reached no verdict on {numbered(asked, 'prompt')}: {why}.")


def end_before(registration: Registration, end: int) -> int:
    """How many prompts the look before this one had."""
    return max((other for other in registration.ends if other < end), default=0)


def _order_judges(
    experiment: Experiment, picks: Sequence[PlannedComparison], now: datetime
) -> None:
    specs = [spec_named(name, by=BY_EXPERIMENT) for name in experiment.judges]
    suffix = criteria_suffix(experiment.arena.criteria)
    epochs = Epoch.objects.open().select_related("judge", "rater")
    members = [
        Member(
            spec,
            epochs.filter(judge__digest=spec.digest).first(),
            own_family=True,  # it was checked before the start
            picks=list(picks),
            calls=calls_for(spec, picks, suffix),
            criteria_suffix=suffix,
        )
        for spec in specs
    ]
    options = OrderOptions(per_pair=len(picks), again=True)
    order = JudgeOrder(experiment.arena, options, members, list(picks), shares_of(picks))
    runs.order_run(order=order, cap=_left(experiment), now=now, by=BY_EXPERIMENT)


def _have_voted(experiment: Experiment, measurement: ExperimentMeasurement, now: datetime) -> bool:
    """Whether people have voted enough: what they say of each draft is decided, or all have.

    One run asks about all drafts, so that its progress tells no rater which one is shown.
    """
    # Nobody is asked about the same answers.
    undecided = [d for d in measurement.drafts if d.differs and not d.people.is_decided]
    ordered = [d.people_run for d in measurement.drafts if d.people_run]
    run = next((run for run in ordered if not _was_stopped(experiment, run)), None)
    missing = max((experiment.people - len(draft.votes) for draft in undecided), default=0)
    is_over = run.is_over if run else missing <= 0
    if run is None and missing > 0:
        copy = experiment.copy_id or 0
        order_people_run(
            arena=experiment.arena,
            per_pair=missing,
            by=BY_EXPERIMENT,
            candidates=[copy, *(draft.candidate.pk for draft in undecided)],
            against=copy,
        )
    elif run is not None and not run.is_over and not undecided:
        runs.cancel_run(run_id=run.pk, now=now)
        run.demands.update(remaining=0)
        is_over = True
    claims = {str(draft.candidate.pk): draft.people.json for draft in measurement.drafts}
    if claims != experiment.claims:
        Experiment.objects.filter(pk=experiment.pk).update(claims=claims)
    return is_over


def _was_stopped(experiment: Experiment, run: Run) -> bool:
    """Whether a run was cancelled before the experiment was started again."""
    started_at, closed_at = experiment.started_at, run.closed_at
    return (
        run.is_over
        and started_at is not None
        and closed_at is not None
        and (run.state == Run.State.CANCELLED and closed_at <= started_at)
    )


@transaction.atomic
def _finish(experiment: Experiment, measurement: ExperimentMeasurement, now: datetime) -> None:
    done = Experiment.objects.filter(pk=experiment.pk, state=State.RUNNING)
    if not done.update(state=State.DONE, finished_at=now):
        return
    experiment.arena.pairs.update(weight=0)  # nobody is asked about it any more
    sentences = [verdict_of(experiment, draft) for draft in measurement.drafts]
    details = {
        "experiment": experiment.arena.slug,
        "drafts": [
            {"id": draft.candidate.pk, "name": draft.candidate.name, "claim": draft.claim.json}
            for draft in measurement.drafts
        ],
    }
    _notify(experiment, f"{experiment}: {' '.join(sentences)}", details, now)


def verdict_of(experiment: Experiment, draft: Any) -> str:
    """What is said of a draft, by the judges and by people; where both are asked, who says what."""
    copy, name = str(experiment.copy), draft.candidate.name
    judged = replace(draft.claim, n_raters=len(experiment.judges))
    by_judges = claim_sentence(judged, name, copy, raters="judges") if experiment.judges else ""
    # What is missing is known: the votes that were asked for.
    by_people = verdict_sentence(draft.people, name, copy, raters="people")
    if not experiment.people:
        return by_judges
    return f"Judges: {by_judges} People: {by_people}" if by_judges else by_people


def _notify(
    experiment: Experiment, sentence: str, details: Mapping[str, Any], now: datetime
) -> None:
    notify(
        team=experiment.team,
        key=f"experiment:{experiment.pk}:{now.isoformat()}",
        kind=FINISHED,
        sentence=sentence,
        path=reverse("experiment", args=[experiment.arena.slug]),
        arena=experiment.origin,
        details=details,
        now=now,
    )


def enter_draft(
    *,
    experiment: Experiment,
    draft: Candidate,
    by: Actor,
    now: datetime,
    name: str = "",
) -> Candidate:
    """Enter a draft as a candidate of the experiment's origin, with its answers: under a `name`, or
    as the next version of the baseline. Entering it again returns the same candidate.

    If the team chose so before the first vote, the human votes on it count there. Raises
    CandidateError and ExperimentError.
    """
    name = clean_candidate_name(name) if name else ""
    content = {part: getattr(draft, part) for part in MADE_OF}
    with transaction.atomic():
        experiment = _locked(experiment)
        baseline, origin = experiment.baseline, experiment.origin
        if (before := _entered(experiment, content, name)) is not None:
            entered = before
        elif name:
            entered = register_candidate(
                arena=origin, team=None, by=by, now=now, name=name, **content
            )
        elif baseline is None or baseline.retired_at is not None:
            raise ExperimentError("The baseline is archived: enter the draft under a name.")
        else:
            entered = revise_candidate(candidate=baseline, by=by, now=now, **content)
            if entered.pk == baseline.pk:
                raise ExperimentError(f"{draft} is the same as {baseline.own_name}.")
        _copy_answers(draft, entered)
        if experiment.counts_votes and experiment.copy and baseline:
            _copy_votes(experiment, draft, entered)
    return entered


def _entered(experiment: Experiment, content: Mapping[str, Any], name: str) -> Candidate | None:
    """The candidate as which a draft with this content was entered before."""
    own = experiment.origin.candidates.active().order_by("pk")
    if name:
        alike = own.filter(name=name, team=None)
    elif (baseline := experiment.baseline) is not None:
        alike = own.filter(name=baseline.name, team=baseline.team_id, version__gt=baseline.version)
    else:
        return None
    made = alike.filter(created_at__gte=experiment.created_at)
    return next((c for c in made if all(getattr(c, p) == content[p] for p in content)), None)


def _keep_answers_of_baseline(experiment: Experiment) -> None:
    """Give the baseline what was generated for its copy, so that nobody pays for it again."""
    if experiment.baseline is not None and experiment.copy is not None:
        _copy_answers(experiment.copy, experiment.baseline)


def _copy_answers(draft: Candidate, entered: Candidate) -> None:
    prompts = dict(entered.arena.prompts.values_list("external_id", "pk"))
    known = set(entered.responses.values_list("prompt__external_id", flat=True))
    rows = draft.responses.values_list("pk", "prompt__external_id")
    wanted = prompts.keys() - known
    new = {pk: prompts[external] for pk, external in rows if external in wanted}
    if not new:
        return
    ids = sorted(new)
    for start in range(0, len(ids), 500):
        Response.objects.bulk_create(
            [
                _copied(answer, candidate_id=entered.pk, prompt_id=new[answer.pk], call_id=None)
                for answer in Response.objects.filter(pk__in=ids[start : start + 500])
            ],
            ignore_conflicts=True,
        )
    sync_pairs(arena=entered.arena, touched=entered)


def _copy_votes(experiment: Experiment, draft: Candidate, entered: Candidate) -> None:
    """Copy the human votes on the draft and the baseline, with their sides and times; not again."""
    baseline, origin = experiment.baseline, experiment.origin
    assert baseline is not None
    candidates = {experiment.copy_id: baseline.pk, draft.pk: entered.pk}
    answers = {
        (answer.candidate_id, answer.prompt.external_id): answer.pk
        for answer in Response.objects.filter(candidate__in=candidates.values()).select_related(
            "prompt"
        )
    }
    prompts = dict(origin.prompts.values_list("external_id", "pk"))
    votes = (
        Vote.objects.live()
        .of_people()
        .filter(
            arena=experiment.arena,
            comparison__left__in=candidates,
            comparison__right__in=candidates,
        )
    )
    there = Vote.objects.filter(arena=origin, comparison__left__in=candidates.values())
    copied_before = set(there.values_list("rater", "cast_at"))
    for vote in votes.select_related("comparison__prompt").order_by("pk"):
        if (vote.rater_id, vote.cast_at) in copied_before:
            continue
        before = vote.comparison
        external = before.prompt.external_id if before.prompt else ""
        left, right = candidates[before.left_id], candidates[before.right_id]
        if external not in prompts or {(left, external), (right, external)} - answers.keys():
            continue
        comparison = _copied(
            before,
            key=Comparison._meta.get_field("key").get_default(),
            arena_id=origin.pk,
            prompt_id=prompts[external],
            left_id=left,
            right_id=right,
            left_response_id=answers[left, external],
            right_response_id=answers[right, external],
            run_id=None,
            repeats_id=None,
        )
        comparison.save(force_insert=True)
        copied = _copied(vote, arena_id=origin.pk, comparison_id=comparison.pk, hold_id=None)
        copied.save(force_insert=True)
    apply_rules(arena=origin)  # which may differ from those under which they were cast
    announce(votes_changed, arena_id=origin.pk, reason="rules")


@transaction.atomic
def promote_draft(
    *, experiment: Experiment, draft: Candidate, by: Actor, now: datetime, why: str = ""
) -> Candidate:
    """Make a draft the team's baseline: it is entered as the baseline's next version.

    Raises ExperimentError and CandidateError.
    """
    locked = _locked(experiment)
    if locked.promoted_id is not None:
        raise ExperimentError("A draft of this experiment has been promoted.")
    if locked.twin:
        raise ExperimentError("This experiment measures the baseline against itself.")
    entered = enter_draft(experiment=experiment, draft=draft, by=by, now=now)
    choose_baseline(
        team=experiment.team, arena=experiment.origin, candidate=entered, by=by, now=now
    )
    Experiment.objects.filter(pk=experiment.pk).update(
        promoted=entered, promoted_by=by.user, promoted_at=now, why=why.strip()[:2000], used_at=now
    )
    audit.record_in(
        experiment.origin,
        by,
        "promoted a draft",
        entered.own_name,
        experiment=str(experiment),
        why=why.strip()[:300],
    )
    experiment.refresh_from_db()
    return entered


def expire_experiments(*, now: datetime) -> int:
    """Delete experiments that nobody has used for EXPERIMENT_DAYS, with their arenas."""
    oldest = now - timedelta(days=settings.EXPERIMENT_DAYS)
    old = Experiment.objects.filter(used_at__lte=oldest).exclude(state=State.RUNNING)
    rows = old.select_related("arena__team", "arena__origin").order_by("used_at", "pk")
    deleted = 0
    for experiment in rows[:DELETED_AT_ONCE]:
        if not old.filter(pk=experiment.pk).exists():  # it was used meanwhile
            continue
        try:
            delete_experiment(experiment=experiment, by=SYSTEM)
        except Exception:  # the next sweep tries again, and others are deleted now
            log.exception("Experiment %s could not be deleted", experiment.pk)
        else:
            deleted += 1
    return deleted


def delete_experiment(*, experiment: Experiment, by: Actor) -> None:
    """Delete an experiment with its drafts; what was entered stays. Raises ExperimentError while it
    is being advanced."""
    arena = experiment.arena
    with exclusive_lock(f"experiment-{experiment.pk}", busy=ExperimentError(BUSY)):
        if Arena.objects.revealed().filter(pk=arena.pk).exists():  # else it was interrupted
            audit.record_in(experiment.origin, by, "deleted an experiment", experiment)
        delete_arena(arena=arena, by=by)
