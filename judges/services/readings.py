"""What a judge made of labelled items, beside what people said of them: rows turned into items.

An item of an arena is a pair of responses that people voted on: the one with the lower id stands
for left there, wherever people and the judge saw it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q
from django.db.models.functions import Length

from arena.calls.models import Call
from arena.models import Arena, Response
from judges.core.calibration import PairItem, ScoreItem
from judges.models import Epoch, Judgement, JuryVerdict, Label, LabelItem, LabelSet
from judges.services.planning import families_in
from judges.services.subjects import key_of_pair, read_subject
from judges.services.verdicts import SWAPPED, Sides, outcome_said

# Samples from here on are asked by canaries; those below show how a judge repeats itself.
CANARY_SAMPLES = 1000
VOTED = Judgement.State.VOTED
REPEATS = Q(sample__lt=CANARY_SAMPLES)
CALL_COLUMNS = ("verdict", "subject", "state")


@dataclass(frozen=True)
class Said:
    """A settled judgement. Outcomes are in the judgement's own left and right.

    `forward` is the reading in which left stood before right in what was shown.
    """

    state: str
    outcome: str | None = None
    score: float | None = None
    forward: str | None = None
    reverse: str | None = None

    def turned(self) -> "Said":
        """The same, of the two answers named the other way round."""
        return Said(
            self.state,
            self.outcome and SWAPPED[self.outcome],
            self.score,
            self.reverse and SWAPPED[self.reverse],
            self.forward and SWAPPED[self.forward],
        )


@dataclass
class _People:
    """What people said of two responses of an arena, the lower id standing for left."""

    prompt: int
    category: str
    candidates: tuple[int, int]
    labels: dict[str, str] = field(default_factory=dict)


# -- What the judge said ---------------------------------------------------------------------------


def said_of_items(
    epoch: Epoch, labels_in: LabelSet, samples: Q = REPEATS
) -> dict[int, dict[int, Said]]:
    """Map item -> sample -> what the judge settled on; what still waits is left out."""
    rows = epoch.judgements.filter(samples, item__labels_in=labels_in)
    found: dict[int, dict[int, Said]] = {}
    for judgement in _settled(rows):
        assert judgement.item_id is not None, "asked for by its item"
        found.setdefault(judgement.item_id, {})[judgement.sample] = _said(judgement, Sides(1, 2))
    return found


def _settled(rows: Any) -> Iterator[Judgement]:
    """Judgements with as much of their calls as it takes to read them; replies stay where they
    are."""
    calls = [f"{call}__{name}" for call in ("forward", "reverse") for name in CALL_COLUMNS]
    own = ("state", "outcome", "score", "sample", "item", "responses")
    sides = ("comparison__left_response", "comparison__right_response")
    settled = rows.exclude(state=Judgement.State.WAITING)
    chosen = settled.select_related("forward", "reverse", "comparison").only(*own, *calls, *sides)
    return iter(chosen.order_by("pk"))


def _said(judgement: Judgement, sides: Sides) -> Said:
    calls = [judgement.forward, judgement.reverse]
    if _shows_right_first(judgement.forward, sides):
        calls.reverse()
    forward, reverse = (_reading(call, sides) for call in calls)
    if judgement.state != VOTED:
        return Said(judgement.state, None, None, forward, reverse)
    return Said(judgement.state, judgement.outcome or None, judgement.score, forward, reverse)


def _shows_right_first(call: Call, sides: Sides) -> bool:
    """In a list left and right stand anywhere; a call that scores one answer shows no order."""
    both = (sides.left, sides.right)
    shown = [one for one in read_subject(call.subject).shown if one in both]
    return shown == [sides.right, sides.left]


def _reading(call: Call, sides: Sides) -> str | None:
    """What one call says of left and right; None where it has no verdict, or scores one answer."""
    if call.state != Call.State.DONE or not call.verdict:
        return None
    return outcome_said(call.verdict, call.subject, sides)


# -- Labelled items --------------------------------------------------------------------------------


def pair_items(epoch: Epoch, labels_in: LabelSet) -> list[PairItem]:
    """Return the labelled pairs that the judge was asked about and that are settled."""
    said, labels = said_of_items(epoch, labels_in), labels_of(labels_in, "outcome")
    found = []
    for pk, key, prompt, category, left, right in _items(labels_in):
        runs = said.get(pk, {})
        if 0 in runs:
            found.append(
                PairItem(
                    key=key,
                    cluster=prompt,
                    category=category,
                    labels=labels.get(pk, ()),
                    verdict=runs[0].outcome,
                    state=runs[0].state,
                    forward=runs[0].forward,
                    reverse=runs[0].reverse,
                    length_left=left,
                    length_right=right,
                    repeats=tuple(runs[sample].outcome for sample in sorted(runs) if sample),
                )
            )
    return found


def score_items(epoch: Epoch, labels_in: LabelSet) -> list[ScoreItem]:
    """Return the scored answers that the judge was asked about and that are settled."""
    said, labels = said_of_items(epoch, labels_in), labels_of(labels_in, "score")
    found = []
    for pk, key, prompt, category, length, _ in _items(labels_in):
        runs = said.get(pk, {})
        if 0 in runs:
            found.append(
                ScoreItem(
                    key=key,
                    cluster=prompt,
                    category=category,
                    labels=labels.get(pk, ()),
                    score=runs[0].score,
                    state="done" if runs[0].state == VOTED else runs[0].state,
                    length=length,
                    repeats=tuple(runs[sample].score for sample in sorted(runs) if sample),
                )
            )
    return found


def _items(labels_in: LabelSet) -> Iterable[tuple[int, str, str, str, int, int]]:
    rows = LabelItem.objects.filter(labels_in=labels_in).order_by("pk")
    columns = ("pk", "key", "prompt", "category", Length("response_1"), Length("response_2"))
    return rows.values_list(*columns)


def labels_of(labels_in: LabelSet, column: str) -> dict[int, tuple[tuple[str, Any], ...]]:
    """Map item -> (rater, label) of everybody who said something of it."""
    rows = Label.objects.filter(item__labels_in=labels_in).order_by("pk")
    found: dict[int, list[tuple[str, Any]]] = {}
    for item, rater, value in rows.values_list("item", "rater", column):
        found.setdefault(item, []).append((rater, value))
    return {item: tuple(said) for item, said in found.items()}


# -- An arena's pairs ------------------------------------------------------------------------------


def arena_items(epoch: Epoch, arena: Arena) -> list[PairItem]:
    """Return the pairs that people voted on and that the judge, or the jury, has settled."""
    said = _jury_said_in(epoch, arena) if epoch.judge.is_jury else _said_in(epoch, arena)
    people = {key: one for key, one in _people_in(arena).items() if key in said}
    lengths = _lengths(people)
    families, family = families_in(arena), epoch.judge.family
    return [
        PairItem(
            key=key,
            cluster=str(one.prompt),
            category=one.category,
            labels=tuple(one.labels.items()),
            verdict=said[key].outcome,
            state=said[key].state,
            forward=said[key].forward,
            reverse=said[key].reverse,
            length_left=lengths[_ids(key)[0]],
            length_right=lengths[_ids(key)[1]],
            own_family=_own_side(family, [families.get(pk, "") for pk in one.candidates]),
        )
        for key, one in people.items()
    ]


def voted_on(arena: Arena) -> dict[str, tuple[int, int, int]]:
    """Map each pair that people voted on to its prompt and two candidates, the lower id's first."""
    return {key: (one.prompt, *one.candidates) for key, one in _people_in(arena).items()}


def _said_in(epoch: Epoch, arena: Arena) -> dict[str, Said]:
    found = {}
    for one in _settled(epoch.judgements.filter(sample=0, comparison__arena=arena)):
        assert one.comparison is not None, "asked for by its comparison"
        left, right = one.comparison.left_response_id, one.comparison.right_response_id
        assert left is not None, "a judge compares texts"
        assert right is not None, "a judge compares texts"
        said = _said(one, Sides(left, right))
        found[one.responses] = said if left < right else said.turned()
    return found


def _jury_said_in(epoch: Epoch, arena: Arena) -> dict[str, Said]:
    """What a jury decided; where it could not, it abstained."""
    verdicts = epoch.jury_verdicts.filter(comparison__arena=arena)
    settled = verdicts.exclude(state=JuryVerdict.State.WAITING).select_related("comparison")
    found = {}
    for one in settled.order_by("pk"):
        left, right = one.comparison.left_response_id, one.comparison.right_response_id
        assert left is not None, "a jury compares texts"
        assert right is not None, "a jury compares texts"
        said = _of_jury(one)
        found[one.responses] = said if left < right else said.turned()
    return found


def _of_jury(verdict: JuryVerdict) -> Said:
    if verdict.state == JuryVerdict.State.VOTED:
        return Said(VOTED, max(verdict.counts, key=lambda outcome: verdict.counts[outcome]))
    failed = verdict.state == JuryVerdict.State.FAILED
    return Said(Judgement.State.FAILED if failed else Judgement.State.ABSTAINED)


def _people_in(arena: Arena) -> dict[str, _People]:
    """What people said who had not read the judge's reasoning: a pair that was issued without being
    drawn was asked for from a verdict's page, so its vote says nothing of the judge."""
    unread = Q(comparison__issued_at=None) | Q(comparison__draw_probability__isnull=False)
    votes = arena.votes.live().of_people().filter(unread, comparison__left_response__isnull=False)
    rows = votes.order_by("pk").values_list(
        "pk", "outcome", "rater", "rater__name", "rater__arena",
        "comparison__prompt", "comparison__prompt__category",
        "comparison__left", "comparison__right",
        "comparison__left_response", "comparison__right_response",
    )  # fmt: skip
    found: dict[str, _People] = {}
    for pk, outcome, rater, name, file, prompt, category, left, right, first, second in rows:
        swapped = first > second
        key = key_of_pair(first, second)
        if key not in found:
            candidates = (right, left) if swapped else (left, right)
            found[key] = _People(prompt or 0, category or "", candidates)
        # A file's votes without a name share a rater, though each may be another person's.
        who = str(rater) if name or file is None else f"vote {pk}"
        found[key].labels[who] = SWAPPED[outcome] if swapped else outcome
    return found


def _ids(key: str) -> tuple[int, int]:
    low, high = read_subject(key).shown
    return low, high


def _lengths(keys: Iterable[str]) -> Mapping[int, int]:
    wanted = sorted({pk for key in keys for pk in _ids(key)})
    found: dict[int, int] = {}
    for start in range(0, len(wanted), 1000):
        rows = Response.objects.filter(pk__in=wanted[start : start + 1000])
        found |= dict(rows.values_list("pk", Length("text")))
    return found


def _own_side(family: str, families: list[str]) -> str | None:
    own = [bool(family) and one == family for one in families]
    if own == [True, False]:
        return "left"
    return "right" if own == [False, True] else None
