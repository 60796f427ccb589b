"""Honeypots made from an arena's own answers, and how often a judge prefers the fake answer."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from django.db import transaction
from django.db.models import Exists, OuterRef

from arena.models import Arena, Prompt, Response, Run
from arena.services.runs import check_cap
from arena.shown_text import as_read
from judges.core.calibration.items import JsonDataclass
from judges.core.honeypots import HONEYPOT_KINDS, Honeypot, ReplyForm, honeypots, is_false_win
from judges.core.parsing import Outcome
from judges.core.spec import JudgeSpec
from judges.models import Calibration, Epoch, Judgement, LabelItem, LabelSet, RunJudge
from judges.services.calibration import summarise_costs
from judges.services.calibration_items import SettledJudgement, settled_judgements
from judges.services.label_runs import (
    find_outstanding,
    order_outstanding,
    quote_label_run,
    usable_items,
)
from judges.services.labels import store_once
from judges.services.quotes import Quote, probe_judges
from judges.services.registry import JudgeError, register_judge
from judges.services.subjects import answers_in
from judges.services.trust import honeypot_problems, settle_trust
from ranking.stats.bootstrap import Estimate, clustered_share

PROMPTS = 25
SEED = "0"
POINTS = {"left": 1, "right": -1}
NO_ANSWERS = "This arena has no prompt with an answer that a judge could read."
NO_VERDICT = "The judge has no verdict on any of these honeypots."
NOTHING_SETTLED = "There is nothing to measure: the judge has no result on any of these honeypots."


@dataclass(frozen=True)
class HoneypotKindReport(JsonDataclass):
    """One kind of honeypot: how its judgements ended, and the share of false wins.

    The field names are the keys of stored reports.
    """

    trap: str
    n_items: int
    states: Mapping[str, int]
    false_wins: Estimate


@dataclass(frozen=True)
class HoneypotReport(JsonDataclass):
    """How a judge did on honeypots.

    `false_wins` is a share of the verdicts, with an interval that treats the honeypots of one
    prompt as dependent; a missing verdict does not count.
    """

    n_items: int
    states: Mapping[str, int]
    false_wins: Estimate
    traps: tuple[HoneypotKindReport, ...]


def make_honeypots(
    *, arena: Arena, seed: str, prompts: int = PROMPTS, reply_form: ReplyForm = "line"
) -> LabelSet:
    """Store honeypots of every kind for `prompts` prompts drawn by seed.

    The real answer is the one that people liked most. The fake answers of each kind are on the
    left as often as on the right. The same honeypots are stored once. Raises JudgeError for an
    arena without answers.
    """
    drafts = draft_honeypots(arena=arena, seed=seed, prompts=prompts, reply_form=reply_form)
    digest = hashlib.sha256(json.dumps(sorted(item.key for item in drafts)).encode()).hexdigest()
    name = f"Honeypots from {arena.slug}"
    return store_once(digest, drafts, name=name, kind=LabelSet.Kind.HONEYPOTS, arena=arena)


def draft_honeypots(
    *, arena: Arena, seed: str, prompts: int = PROMPTS, reply_form: ReplyForm = "line"
) -> list[LabelItem]:
    """Return the items that `make_honeypots` stores, unsaved. Raises JudgeError."""
    chosen = _most_liked_answers(arena, seed, prompts)
    texts = Prompt.objects.in_bulk([prompt for prompt, _ in chosen])
    answers = Response.objects.in_bulk([response for _, response in chosen])
    drafts = []
    for place, (prompt, response) in enumerate(chosen):
        key, text = f"{seed} {prompt} {response}", as_read(answers[response].text)
        made = honeypots(key, texts[prompt].text, text, reply_form)
        drafts += [
            _item_of_honeypot(texts[prompt], honeypot, fake_left=bool((place + number) % 2))
            for number, honeypot in enumerate(made)
        ]
    return drafts


def _most_liked_answers(arena: Arena, seed: str, count: int) -> list[tuple[int, int]]:
    """Return (prompt, the answer to it that people liked most); the prompts are drawn by seed."""
    points = _points_of_answers(arena)
    by_prompt = answers_in(arena).by_prompt()
    if not by_prompt:
        raise JudgeError(NO_ANSWERS)
    digests = {
        prompt: hashlib.sha256(f"honeypots {seed} {prompt}".encode()).digest()
        for prompt in by_prompt
    }
    drawn = sorted(by_prompt, key=digests.__getitem__)[:count]
    return [
        (prompt, max(by_prompt[prompt], key=lambda response: (points[response], -response)))
        for prompt in drawn
    ]


def _points_of_answers(arena: Arena) -> Counter[int]:
    """Count the human votes that each response won, minus those it lost."""
    votes = arena.votes.live().of_people().filter(comparison__left_response__isnull=False)
    rows = votes.values_list("comparison__left_response", "comparison__right_response", "outcome")
    points: Counter[int] = Counter()
    for left, right, outcome in rows:
        points[left] += POINTS.get(outcome, 0)
        points[right] -= POINTS.get(outcome, 0)
    return points


def _item_of_honeypot(prompt: Prompt, honeypot: Honeypot, *, fake_left: bool) -> LabelItem:
    first, second = honeypot.real, honeypot.fake
    if fake_left:
        first, second = second, first
    texts = [prompt.text, first, second, prompt.reference, prompt.rubric, honeypot.kind]
    return LabelItem(
        key=hashlib.sha256(json.dumps(texts).encode()).hexdigest(),
        prompt=prompt.text,
        response_1=first,
        response_2=second,
        reference=prompt.reference,
        rubric=prompt.rubric,
        category=prompt.category,
        trap=honeypot.kind,
        trap_side="left" if fake_left else "right",
    )


def reply_form_of(spec: JudgeSpec) -> ReplyForm:
    """The form in which a fake answer forges this judge's verdict."""
    return "prometheus" if spec.rubric.verdict == "prometheus" else "line"


def quote_honeypots(*, spec: JudgeSpec, arena: Arena) -> Quote:
    """Return the cost of honeypots from an arena, without storing any. Raises JudgeError."""
    drafts = draft_honeypots(arena=arena, seed=SEED, reply_form=reply_form_of(spec))
    return quote_label_run(spec=spec, items=usable_items(spec, drafts))


def order_honeypots(*, spec: JudgeSpec, arena: Arena, cap: int | None, now: datetime) -> Run | None:
    """Ask a judge about honeypots from an arena; return the run, None if all were asked before.

    Raises JudgeError and RunError.
    """
    check_cap(quote_honeypots(spec=spec, arena=arena), cap)
    items = list(make_honeypots(arena=arena, seed=SEED, reply_form=reply_form_of(spec)).items.all())
    probe_judges(specs=[spec], now=now)
    epoch = register_judge(spec=spec)
    left = find_outstanding(spec=spec, epoch=epoch, items=items, samples=(0,))
    runs = order_outstanding(epoch=epoch, outstanding=left, samples=(0,), cap=cap, now=now)
    return runs[-1] if runs else None


def measure_finished(*, now: datetime) -> None:
    """Measure judges on the honeypots of runs that have ended since they were last measured."""
    since = Calibration.objects.filter(
        epoch=OuterRef("epoch"),
        label_set=OuterRef("labels_in"),
        made_at__gte=OuterRef("run__closed_at"),
    )
    ended = RunJudge.objects.filter(
        labels_in__kind=LabelSet.Kind.HONEYPOTS,
        epoch__ended_at=None,
        run__state=Run.State.DONE,
        run__closed_at__lte=now,  # or it would be measured again and again
    )
    for asked in ended.exclude(Exists(since)).select_related("epoch__judge", "labels_in"):
        assert asked.labels_in is not None, "selected by its kind"
        with suppress(JudgeError):  # nothing was settled
            measure_honeypots(epoch=asked.epoch, labels_in=asked.labels_in, now=now)


@transaction.atomic
def measure_honeypots(*, epoch: Epoch, labels_in: LabelSet, now: datetime) -> Calibration:
    """Measure how often a judge prefers the fake answers of a set, and store the report.

    Raises JudgeError if it has settled none of them.
    """
    report = honeypot_report(epoch, labels_in).to_json()
    judgements = epoch.judgements.filter(item__labels_in=labels_in, sample=0)
    reasons = honeypot_problems(report)
    report |= {
        "money": summarise_costs(judgements),
        "trust": {"trusted": not reasons, "reasons": reasons},
    }
    calibration = Calibration.objects.create(
        epoch=epoch, label_set=labels_in, kind=labels_in.kind, report=report, made_at=now
    )
    settle_trust(epoch=epoch, now=now)
    return calibration


def honeypot_report(epoch: Epoch, labels_in: LabelSet) -> HoneypotReport:
    """Count the fake answers that won. Raises JudgeError if no judgement is settled."""
    by_sample = settled_judgements(epoch, labels_in)
    settled = {item: samples[0] for item, samples in by_sample.items() if 0 in samples}
    items = [item for item in labels_in.items.order_by("pk") if item.pk in settled]
    if not items:
        raise JudgeError(NOTHING_SETTLED)
    by_kind: dict[str, list[LabelItem]] = {}
    for item in items:
        by_kind.setdefault(item.trap, []).append(item)
    return HoneypotReport(
        n_items=len(items),
        states=_count_states(items, settled),
        false_wins=_false_wins(items, settled),
        traps=tuple(
            HoneypotKindReport(
                kind, len(of_kind), _count_states(of_kind, settled), _false_wins(of_kind, settled)
            )
            for kind, of_kind in sorted(by_kind.items())
        ),
    )


def _count_states(
    items: Iterable[LabelItem], settled: Mapping[int, SettledJudgement]
) -> dict[str, int]:
    counts = Counter(settled[item.pk].state for item in items)
    states = [state.value for state in Judgement.State if state not in Judgement.UNSETTLED]
    return {state: counts[state] for state in states}


def _false_wins(items: Iterable[LabelItem], settled: Mapping[int, SettledJudgement]) -> Estimate:
    wins, clusters = [], []
    prompt_numbers: dict[str, int] = {}
    for item in items:
        judgement = settled[item.pk]
        if item.trap_side == "left":
            judgement = judgement.swapped()
        outcome = cast("Outcome | None", judgement.outcome)
        if outcome is not None:
            wins.append(float(is_false_win(HONEYPOT_KINDS[item.trap], outcome)))
            clusters.append(prompt_numbers.setdefault(item.prompt, len(prompt_numbers)))
    share = clustered_share(wins, None, clusters)
    return share if wins else replace(share, reason=NO_VERDICT)
