"""The weights of a jury's members, as its page shows them."""

from dataclasses import dataclass
from typing import Any

from arena.actors import Actor
from arena.models import Arena
from judges.models import Epoch, Judge
from judges.permissions import listed_calibrations


@dataclass(frozen=True)
class MemberWeight:
    """A jury member's weights in log odds, over all and by category, and the measured accuracy of
    the member by itself.
    """

    judge: Judge
    general: float
    categories: list[float | None]
    agreement: dict[str, Any]


@dataclass(frozen=True)
class JuryWeights:
    """The weights of a jury's members, as they were measured on `n_items` pairs of an arena."""

    arena: Arena
    n_items: int
    categories: list[str]
    members: list[MemberWeight]


def jury_weights_of(jury: Judge, actor: Actor) -> JuryWeights | None:
    """Return the weights; None without any, or if the reader may not see the measurement."""
    if not jury.weights:
        return None
    general, by_category = jury.weights["general"], jury.weights["categories"]
    epochs = (
        Epoch.objects.filter(requester__in=general).select_related("judge").order_by("judge__name")
    )
    judges = {epoch.pk: epoch for epoch in epochs}
    measured = listed_calibrations(actor).filter(arena=jury.weights["arena"])
    for calibration in measured.filter(epoch__in=judges).select_related("arena").order_by("-pk"):
        panel = calibration.report.get("panel")
        if not panel or panel["fitted_until"] != jury.weights["fitted_until"]:
            continue
        if calibration.arena is None or set(panel["judges"]) != set(judges):
            continue
        alone = {
            panel["judges"][option["members"][0]]: option["agreement"]
            for option in panel["options"]
            if option["kind"] == "judge"
        }
        members = [
            MemberWeight(
                epoch.judge,
                general[epoch.requester],
                [own.get(epoch.requester) for own in by_category.values()],
                alone[pk],
            )
            for pk, epoch in judges.items()
        ]
        return JuryWeights(calibration.arena, panel["n_items"], list(by_category), members)
    return None
