"""Pairs of an arena that people voted on: as labels, and as an order to have them judged."""

from django.db.models import Exists, OuterRef, Q, QuerySet

from arena.models import Arena, Response
from judges.core.spec import JudgeSpec
from judges.models import Epoch, Judgement, JuryVerdict, LabelSet
from judges.services.calibration_items import people_in, voted_on
from judges.services.label_files import LabelFile, LabelledItem
from judges.services.labels import place_in_draw
from judges.services.orders import JudgeOrder, Member, calls_for
from judges.services.planning import OrderOptions, PlannedComparison, exclude_family, shares_of
from judges.services.registry import JudgeError
from judges.services.subjects import (
    answers_in,
    criteria_suffix,
    families_in,
    ids_of,
    key_of_pair,
    labelled_pairs,
)

NO_VOTES = "Nobody has compared two answers in this arena yet."
LISTWISE = (
    "In an arena, a listwise judge votes on lists of at least three answers, not on the single"
    " pairs that people voted on. Measure it on these pairs without votes (--no-votes), or start"
    " a judge run in the arena and measure it on the pairs of its lists."
)


def labels_of_votes(arena: Arena) -> LabelFile:
    """Return the human votes of an arena as labels, to measure a judge without a vote of its own.

    Another team's model is left out before it is disclosed. Raises JudgeError without votes.
    """
    families = families_in(arena)
    models = dict(arena.candidates.values_list("pk", "model"))
    people = people_in(arena)
    answers = Response.objects.select_related("prompt").in_bulk(
        {pk for key in people for pk in ids_of(key)}
    )
    items: dict[str, LabelledItem] = {}
    for key, votes in people.items():
        low, high = (answers[pk] for pk in ids_of(key))
        prompt = low.prompt
        known = [models[pk] if families.get(pk) else "" for pk in votes.candidates]
        texts = (prompt.text, low.text, high.text, prompt.reference, prompt.rubric)
        item = LabelledItem(*texts, votes.category, 0, (known[0], known[1]), dict(votes.labels))
        same = items.setdefault(item.key, item)  # other candidates may have given the same answers
        same.labels = item.labels | same.labels
    if not items:
        raise JudgeError(NO_VOTES)
    return LabelFile(LabelSet.Kind.PAIRS, list(items.values()))


def order_of_voted(
    *,
    arena: Arena,
    spec: JudgeSpec,
    epoch: Epoch | None,
    limit: int | None,
    seed: str,
    own_family: bool = False,
) -> JudgeOrder | None:
    """Return an order of the pairs that people voted on and the judge has not judged.

    At most `limit` of them, drawn by seed; None if nothing is left. Pairs with an answer of the
    judge's own family are left out unless `own_family`, because its votes count in the arena like
    any others. A listwise judge is not asked about single pairs: JudgeError if it has judged no
    list here.
    """
    if spec.protocol == "listwise":
        if epoch is None or not epoch.judgements.settled().filter(run__arena=arena).exists():
            raise JudgeError(LISTWISE)
        return None
    picks = _voted_picks(arena, spec, epoch)
    fair = picks if own_family else exclude_family(picks, spec.family, families_in(arena))
    shuffled = sorted(fair, key=lambda pick: place_in_draw(seed, pick.responses))
    chosen = shuffled if limit is None else shuffled[:limit]
    if not chosen:
        return None
    suffix = criteria_suffix(arena.criteria)
    member = Member(spec, epoch, own_family, chosen, calls_for(spec, chosen, suffix), suffix)
    left_out = []
    if own := len(picks) - len(fair):
        left_out.append(
            f"{own} pairs have one answer from the judge's own model family and are left out."
        )
    return JudgeOrder(
        arena, OrderOptions(per_pair=1), [member], chosen, shares_of(chosen), None, left_out
    )


def judged_where_people_voted(epochs: QuerySet[Epoch], arena: Arena) -> QuerySet[Epoch]:
    """Return those of `epochs` that have a verdict on a pair of the arena that people voted on."""
    here = {"comparison__arena": arena, "responses__in": labelled_pairs(arena)}
    own = Judgement.objects.counted().filter(epoch=OuterRef("pk"), sample=0, **here)
    counted = Q(casts_vote=True) | Q(state=JuryVerdict.State.FAILED)
    of_juries = JuryVerdict.objects.filter(counted, epoch=OuterRef("pk"), **here)
    return epochs.filter(Exists(own) | Exists(of_juries))


def _voted_picks(arena: Arena, spec: JudgeSpec, epoch: Epoch | None) -> list[PlannedComparison]:
    asked: set[str] = set()
    if epoch is not None:
        judgements = epoch.judgements.filter(sample=0, run__arena=arena).asked()
        asked = set(judgements.values_list("responses", flat=True))
    answers = answers_in(arena, needs_reference=spec.rubric.reference == "required").by_candidate
    pairs = {(pair.low_id, pair.high_id): pair for pair in arena.pairs.all()}
    picks = []
    for key, (prompt, *candidates) in voted_on(arena).items():
        pair = pairs.get((min(candidates), max(candidates)))
        if pair is None or key in asked:
            continue
        low = answers.get(pair.low_id, {}).get(prompt)
        high = answers.get(pair.high_id, {}).get(prompt)
        if low and high and key_of_pair(low, high) == key:
            picks.append(PlannedComparison(pair, prompt, low, high))
    return picks
