"""The weights of a jury's members, as its page shows them."""

from dataclasses import dataclass

from arena.actors import Actor
from arena.models import Arena
from arena.permissions import listed_arenas
from judges.models import Epoch, Judge


@dataclass(frozen=True)
class MemberWeight:
    """A jury member's weights in log odds, over all and by category."""

    judge: Judge
    general: float
    categories: list[float | None]


@dataclass(frozen=True)
class JuryWeights:
    """The weights of a jury's members, as they were fitted in an arena."""

    arena: Arena
    categories: list[str]
    members: list[MemberWeight]


def jury_weights_of(jury: Judge, actor: Actor) -> JuryWeights | None:
    """Return the weights; None without any, or if the reader may not see the arena."""
    if not jury.weights:
        return None
    arena = listed_arenas(actor).filter(pk=jury.weights["arena"]).first()
    if arena is None:
        return None
    general, by_category = jury.weights["general"], jury.weights["categories"]
    epochs = Epoch.objects.filter(requester__in=general).select_related("judge")
    members = [
        MemberWeight(
            epoch.judge,
            general[epoch.requester],
            [own.get(epoch.requester) for own in by_category.values()],
        )
        for epoch in epochs.order_by("judge__name")
    ]
    return JuryWeights(arena, list(by_category), members)
