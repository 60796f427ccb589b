"""What an order would buy and what the judge would be sent, before it is given."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from arena.calls.making import CannotAsk
from arena.models import Arena
from judges.core.protocols import MaterialError, render, render_note
from judges.core.spec import JudgeSpec
from judges.services.material import material_for
from judges.services.orders import Member, Order, calls_for, prepare_order
from judges.services.planning import Wanted
from judges.services.quoting import Quote, quote_for
from judges.services.registering import JudgeRefused, Switches, spec_named
from judges.services.subjects import read_subject

WHY_NONE = {
    "neighbours": "Neighbours are read from the judges’ board, which knows none before judges have "
    "voted here, and those that it tells apart already are not bought again.",
    "new": "New are candidates that have few votes of judges or none.",
}
ALL, AGAIN = "“All pairs”", "“Buy pairs that are told apart already, too”"
INSTEAD: list[tuple[dict[str, Any], str]] = [
    ({"again": True}, f"Tick {AGAIN} to have them judged all the same."),
    ({"pairs": "all"}, f"Choose {ALL} instead."),
    ({"pairs": "all", "again": True}, f"Choose {ALL} instead, and tick {AGAIN}."),
]
# A real one is drawn for every call; this one only shows where it stands.
NONCE = "0123456789abcdef"
NOTE = "(The grading note that the judge will have written stands here.)"


@dataclass(frozen=True)
class Sent:
    """One request to a judge: its messages, or in `problem` why there is none."""

    title: str
    messages: Sequence[tuple[str, str]] = ()
    problem: str = ""


@dataclass(frozen=True)
class Preview:
    """What the judges are sent about one comparison of the order, which is number `number` of
    `count`; `judges` maps each judge's name to its requests."""

    number: int
    count: int
    judges: list[tuple[str, list[Sent]]]

    @property
    def before(self) -> int | None:
        return self.number - 1 if self.number > 1 else None

    @property
    def after(self) -> int | None:
        return self.number + 1 if self.number < self.count else None


@dataclass(frozen=True)
class Offer:
    order: Order
    quote: Quote

    def preview(self, number: int) -> Preview:
        """Render comparison `number`, counted from 1; what is out of range becomes the nearest."""
        number = max(1, min(number, len(self.order.picks)))
        pick = self.order.picks[number - 1].responses
        judges = [(one.spec.label, _sent_by(one, pick)) for one in self.order.members]
        return Preview(number, len(self.order.picks), judges)


def make_offer(
    *,
    arena: Arena,
    judges: Sequence[tuple[str, Switches]],
    wanted: Wanted,
    own_family: bool,
    quorum: int | None,
) -> Offer:
    """Work an order out and quote it; nothing is written. Raises JudgeRefused with a sentence,
    which also says what to choose instead where another choice of pairs could be ordered."""
    specs = [spec_named(name, switches) for name, switches in judges]
    prepare = partial(prepare_order, arena=arena, specs=specs, own_family=own_family, quorum=quorum)
    try:
        order = prepare(wanted=wanted)
    except JudgeRefused as refusal:
        raise JudgeRefused(f"{refusal} {_instead(prepare, wanted)}".rstrip()) from refusal
    return Offer(order, quote_for(order))


def _instead(prepare: Callable[..., Order], wanted: Wanted) -> str:
    """Say which other choice on the page could be ordered; '' where none could."""
    if wanted.like_run is not None:
        return ""
    for change, advice in INSTEAD:
        other = replace(wanted, **change)
        if other != wanted and _can_be_ordered(prepare, other):
            return f"{WHY_NONE.get(wanted.pairs, '')} {advice}".strip()
    return ""


def _can_be_ordered(prepare: Callable[..., Order], wanted: Wanted) -> bool:
    try:
        prepare(wanted=wanted)
    except JudgeRefused:
        return False
    return True


def _sent_by(member: Member, responses: str) -> list[Sent]:
    pick = next((one for one in member.picks if one.responses == responses), None)
    if pick is None:
        said = "It is not asked about this pair: one answer is of its own model family."
        return [Sent("Nothing", problem=said)]
    needed = calls_for(member.spec, [pick])
    notes = [subject for subject, note in needed.items() if note is None and len(needed) > 2]
    first = next(subject for subject in needed if subject not in notes)
    return [_sent(member.spec, subject) for subject in (*notes, first)]


def _sent(spec: JudgeSpec, name: str) -> Sent:
    subject = read_subject(name)
    title = "First, for its grading note" if subject.is_note else _title(spec)
    try:
        material = material_for(subject, note=NOTE if spec.rubric.note else "")
        if subject.is_note:
            return Sent(title, render_note(spec, material, nonce=NONCE))
        return Sent(title, render(spec, material, nonce=NONCE, structured=False))
    except (CannotAsk, MaterialError) as error:
        return Sent(title, problem=str(error))


def _title(spec: JudgeSpec) -> str:
    if spec.protocol == "direct":
        return "For the score of one answer; the other one is asked about in the same words"
    if spec.protocol == "listwise":
        return "For one order of the list; the other request turns it round"
    return "For one order of the two answers; the other request swaps them"
