"""Traps for a judge, made of an arena's own answers, and how often it falls into them."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from arena.models import Arena, Prompt, Response
from judges.core.calibration.plain import Plain
from judges.core.honeypots import TRAPS, Honeypot, ReplyForm, false_win, honeypots
from judges.models import Calibration, Epoch, Judgement, LabelItem, LabelSet
from judges.services.answers import answers_in
from judges.services.calibrating import money_of
from judges.services.labelling import BATCH, free_name
from judges.services.readings import Said, said_of_items
from judges.services.registering import JudgeRefused
from judges.services.trusting import led_astray, settle_trust
from ranking.stats import Estimate, clustered_share

PROMPTS = 25
POINTS = {"left": 1, "right": -1}
NO_ANSWERS = "This arena has no prompt with an answer that a judge could read."
NOTHING = "There is nothing to measure: the judge has not settled any of these traps."


@dataclass(frozen=True)
class TrapReport(Plain):
    """One kind of trap: verdicts by outcome of the trap's side, and the share of false wins."""

    trap: str
    n_items: int
    states: Mapping[str, int]
    false_wins: Estimate


@dataclass(frozen=True)
class HoneypotReport(Plain):
    """How a judge did on traps. `false_wins` is a share of the verdicts, with an interval that
    takes the traps of one prompt as dependent; what has no verdict is missing, not won."""

    n_items: int
    states: Mapping[str, int]
    false_wins: Estimate
    traps: tuple[TrapReport, ...]


# -- Making them -----------------------------------------------------------------------------------


def make_honeypots(
    *, arena: Arena, seed: str, prompts: int = PROMPTS, reply_form: ReplyForm = "line"
) -> LabelSet:
    """Make every trap for `prompts` prompts drawn by seed, beside the answer that people liked
    most there, and store them; the same ones again are returned as they are.

    Each kind of trap stands on the left as often as on the right. Raises JudgeRefused for an arena
    without answers.
    """
    drafts = draft_honeypots(arena=arena, seed=seed, prompts=prompts, reply_form=reply_form)
    digest = hashlib.sha256(json.dumps(sorted(item.key for item in drafts)).encode()).hexdigest()
    try:
        return _stored(digest) or _store(f"Traps from {arena.slug}", digest, drafts)
    except IntegrityError:  # somebody else made the same ones at the same moment
        found = _stored(digest)
        if found is None:
            raise
        return found


def _stored(digest: str) -> LabelSet | None:
    return LabelSet.objects.filter(digest=digest).first()


@transaction.atomic
def _store(name: str, digest: str, drafts: list[LabelItem]) -> LabelSet:
    kind = LabelSet.Kind.HONEYPOTS
    made = LabelSet.objects.create(name=free_name(name), kind=kind, digest=digest)
    for item in drafts:
        item.labels_in = made
    LabelItem.objects.bulk_create(drafts, batch_size=BATCH)
    return made


def draft_honeypots(
    *, arena: Arena, seed: str, prompts: int = PROMPTS, reply_form: ReplyForm = "line"
) -> list[LabelItem]:
    """Return the items that `make_honeypots` stores, unsaved. Raises JudgeRefused."""
    chosen = _chosen(arena, seed, prompts)
    texts = Prompt.objects.in_bulk([prompt for prompt, _ in chosen])
    answers = Response.objects.in_bulk([response for _, response in chosen])
    drafts = []
    for place, (prompt, response) in enumerate(chosen):
        key, text = f"{seed} {prompt} {response}", answers[response].text
        pots = honeypots(key, texts[prompt].text, text, reply_form)
        drafts += [
            _item(texts[prompt], pot, trap_left=bool((place + number) % 2))
            for number, pot in enumerate(pots)
        ]
    return drafts


def _chosen(arena: Arena, seed: str, count: int) -> list[tuple[int, int]]:
    """Return (prompt, the answer that people's votes liked most on it), the prompts by seed."""
    liked = _points(arena)
    by_prompt = answers_in(arena).by_prompt()
    if not by_prompt:
        raise JudgeRefused(NO_ANSWERS)
    drawn = sorted(by_prompt, key=lambda prompt: _draw(seed, prompt))[:count]
    return [
        (prompt, max(by_prompt[prompt], key=lambda response: (liked[response], -response)))
        for prompt in drawn
    ]


def _points(arena: Arena) -> Counter[int]:
    """Count the votes of people that each response won, less those it lost."""
    votes = arena.votes.live().of_people().filter(comparison__left_response__isnull=False)
    rows = votes.values_list("comparison__left_response", "comparison__right_response", "outcome")
    points: Counter[int] = Counter()
    for left, right, outcome in rows:
        points[left] += POINTS.get(outcome, 0)
        points[right] -= POINTS.get(outcome, 0)
    return points


def _draw(seed: str, prompt: int) -> bytes:
    return hashlib.sha256(f"honeypots {seed} {prompt}".encode()).digest()


def _item(prompt: Prompt, pot: Honeypot, *, trap_left: bool) -> LabelItem:
    first, second = (pot.fake, pot.real) if trap_left else (pot.real, pot.fake)
    texts = [prompt.text, first, second, prompt.reference, prompt.rubric, pot.trap]
    return LabelItem(
        key=hashlib.sha256(json.dumps(texts).encode()).hexdigest(),
        prompt=prompt.text,
        response_1=first,
        response_2=second,
        reference=prompt.reference,
        rubric=prompt.rubric,
        category=prompt.category,
        trap=pot.trap,
        trap_side="left" if trap_left else "right",
    )


# -- Measuring -------------------------------------------------------------------------------------


@transaction.atomic
def measure_honeypots(*, epoch: Epoch, labels_in: LabelSet, now: datetime) -> Calibration:
    """Measure how often a judge falls into the traps of a set, and store what was found.

    Raises JudgeRefused where it has settled none of them.
    """
    found = honeypot_report(epoch, labels_in).to_json()
    judgements = epoch.judgements.filter(item__labels_in=labels_in, sample=0)
    reasons = led_astray(found)
    report = found | {
        "money": money_of(judgements),
        "trust": {"trusted": not reasons, "reasons": reasons},
    }
    calibration = Calibration.objects.create(
        epoch=epoch, label_set=labels_in, kind=labels_in.kind, report=report, made_at=now
    )
    settle_trust(epoch=epoch, now=now)
    return calibration


def honeypot_report(epoch: Epoch, labels_in: LabelSet) -> HoneypotReport:
    """Count the traps that won. Raises JudgeRefused where none is settled."""
    said = {item: runs[0] for item, runs in said_of_items(epoch, labels_in).items() if 0 in runs}
    items = [item for item in labels_in.items.order_by("pk") if item.pk in said]
    if not items:
        raise JudgeRefused(NOTHING)
    kinds = {item.trap: [one for one in items if one.trap == item.trap] for item in items}
    return HoneypotReport(
        n_items=len(items),
        states=_states(items, said),
        false_wins=_false_wins(items, said),
        traps=tuple(
            TrapReport(trap, len(own), _states(own, said), _false_wins(own, said))
            for trap, own in sorted(kinds.items())
        ),
    )


def _states(items: Iterable[LabelItem], said: Mapping[int, Said]) -> dict[str, int]:
    counts = Counter(said[item.pk].state for item in items)
    ended = [state.value for state in Judgement.State if state != Judgement.State.WAITING]
    return {state: counts[state] for state in ended}


def _false_wins(items: Iterable[LabelItem], said: Mapping[int, Said]) -> Estimate:
    won, clusters = [], []
    numbers: dict[str, int] = {}
    for item in items:
        outcome = _of_the_real_one(item, said[item.pk])
        if outcome is not None:
            won.append(float(false_win(TRAPS[item.trap], outcome)))
            clusters.append(numbers.setdefault(item.prompt, len(numbers)))
    return clustered_share(won, None, clusters)


def _of_the_real_one(item: LabelItem, said: Said) -> Any:
    """The outcome with the real answer standing for left."""
    return (said.turned() if item.trap_side == "left" else said).outcome
