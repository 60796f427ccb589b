"""Where a judge and most people disagree."""

from dataclasses import dataclass

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from arena.actors import Actor, actor_of
from arena.outcomes import VERDICTS
from judges.models import Epoch, Judge
from judges.permissions import can_read_reply, listed_judges
from judges.services.trials import Disagreement, Disagreements
from judges.views.access import find_arena, require_reading
from judges.views.addresses import verdict_url
from judges.views.verdict_calls import DisplayedCall, calls_of
from judges.views.verdicts import Texts, conclusion, texts_of

PER_PAGE = 10


@dataclass(frozen=True)
class DisagreementRow:
    """A disagreement as the page shows it; without `texts` where the reader may not see them."""

    found: Disagreement
    people: str
    judge: str
    url: str
    texts: Texts | None
    calls: list[DisplayedCall]


@require_safe
def disagreements(request: HttpRequest, pk: int, slug: str) -> HttpResponse:
    """The pairs of an arena on which a judge and most people disagree, with its reasons.

    Only half of them, as `services.trials` says. Those on which people are most certain come first.
    """
    arena, actor = find_arena(request, slug), actor_of(request)
    if answer := require_reading(request, arena):
        return answer
    judges = listed_judges(actor).exclude(protocol=Judge.Protocol.JURY)
    epochs = Epoch.objects.open().select_related("judge")
    epoch = get_object_or_404(epochs, judge=get_object_or_404(judges, pk=pk))
    found = Disagreements(epoch, arena)
    page = Paginator(found.items, PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "judge": epoch.judge,
        "arena": arena,
        "page": page,
        "rows": [_row(each, actor) for each in found.load(list(page))],
    }
    return render(request, "judges/disagreements.html", context)


def _row(found: Disagreement, actor: Actor) -> DisagreementRow:
    judgement = found.judgement
    is_read = can_read_reply(actor, None, judgement)
    return DisagreementRow(
        found=found,
        people=VERDICTS[found.outcome],
        judge=conclusion(judgement),
        url=verdict_url(judgement.run, judgement.pk),
        texts=texts_of(judgement) if is_read else None,
        calls=calls_of(judgement) if is_read else [],
    )
