"""The findings about one candidate, in sentences: its place, votes, reasons, price, categories.

Plain values in, sentences out. What the intervals leave open is said to be open.
"""

from collections.abc import Iterable, Mapping, Sequence

from django.utils.translation import gettext

from arena.templatetags.arena_tags import dollars
from arena.validation import NANO
from ranking.board_data import Findings
from ranking.costs import PricedScore
from ranking.models import Standing
from ranking.reasons import NamedReason
from ranking.templatetags.ranking_tags import grouped

VALUE_WORDS = {
    "price": ("costs", "cheaper", "cheapest"),
    "seconds": ("takes", "faster", "fastest"),
}


def place(own: Standing, ranked: Sequence[Standing], found: Findings) -> str:
    """Its place among the `ranked` candidates, as far as it is known."""
    low, high = own.sure_rank_low, own.sure_rank_high
    if own.candidate_id == found.leader:
        text = gettext("The clear leader.")
    elif own.candidate_id == found.ahead:
        text = gettext("Ahead for now: at this count of votes, no other could be first.")
    elif low is None or high is None:
        text = gettext("Rank {rank} of {n} by score; the possible ranks are not known yet.")
    elif low == high:
        text = gettext("Rank {rank} of {n}, conclusively.")
    elif low > 1:
        text = gettext("Between rank {low} and rank {high} of {n}: clearly behind {above}.")
    else:
        text = _among_the_first(own, ranked)
    return text.format(
        rank=own.rank,
        n=len(ranked),
        low=low,
        high=high,
        above=(low or 1) - 1,
        could=sum(row.sure_rank_low in (1, None) for row in ranked),
    )


def _among_the_first(own: Standing, ranked: Sequence[Standing]) -> str:
    """The sentence about a candidate that could be first, although it need not."""
    if own.rank != 1:
        return gettext("Rank {rank} of {n} on points, and one of {could} that could be first.")
    if sum(row.rank == 1 for row in ranked) > 1:
        return gettext("It shares first place; any of {could} could be first.")
    if sum(row.sure_rank_low in (1, None) for row in ranked) < 2:  # its leads hold one by one only
        return gettext("Ahead on points, not conclusively.")
    return gettext("Ahead on points, but not alone: any of {could} could be first.")


def votes_won(own: Standing) -> str:
    """The share of its votes that it won; '' without votes."""
    if own.win_rate is None:
        return ""
    text = gettext("It won {share}% of its {n} votes, a tie counting half.")
    return text.format(share=round(100 * own.win_rate), n=grouped(own.votes))


def named_for(reasons: Iterable[NamedReason]) -> list[str]:
    """The strength and the fault that stand out most, on all prompts."""
    striking = [reason for reason in reasons if reason.stands_out and not reason.category]
    texts = {
        True: gettext(
            "It stands out for “{tag}”: named in {own}% of its explained wins and ties{others}."
        ),
        False: gettext(
            "The fault that stands out is “{tag}”: named in {own}% of its explained losses and"
            " ties{others}."
        ),
    }
    sentences = []
    for is_strength, text in texts.items():
        reason = next((one for one in striking if one.is_strength == is_strength), None)
        if reason:
            others = ""
            if reason.percent_elsewhere is not None:
                others = gettext(", {share}% of the others’").format(share=reason.percent_elsewhere)
            sentences.append(text.format(tag=reason.tag, own=reason.percent, others=others))
    return sentences


def categories(own: Standing, by_category: Mapping[str, Standing]) -> str:
    """In which categories its interval lies apart from that of all prompts; '' if unknown."""
    measured = {
        name: row
        for name, row in by_category.items()
        if row.low is not None and not row.snapshot.lacks_votes
    }
    if len(measured) < 2 or own.low is None:
        return ""
    better = [name for name, row in measured.items() if _is_above(row, own)]
    worse = [name for name, row in measured.items() if _is_above(own, row)]
    parts = []
    if better:
        parts.append(gettext("Clearly better than usual in {names}.").format(names=_listed(better)))
    if worse:
        parts.append(gettext("Clearly worse than usual in {names}.").format(names=_listed(worse)))
    return " ".join(parts) or gettext("No category differs clearly.")


def _is_above(one: Standing, other: Standing) -> bool:
    return one.low is not None and other.high is not None and one.low > other.high


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"“{name}”" for name in names)


def price(pk: int, points: Sequence[PricedScore]) -> str:
    """Its price among the others', and a cheaper one that is or could be as good; '' for a lone
    price."""
    own = next((point for point in points if point.candidate == pk), None)
    if own is None or len(points) < 2:
        return ""
    values, n = [point.value for point in points], len(points)
    amount = dollars(round(own.value * NANO))
    if own.value == max(values) > min(values):
        text = gettext("At {amount} for 1,000 answers it is the most expensive of {n}.")
    elif own.value == min(values) < max(values):
        text = gettext("At {amount} for 1,000 answers it is the cheapest of {n}.")
    else:
        text = gettext("1,000 answers cost {amount}.")
    parts = [text.format(amount=amount, n=n)]
    better = [point for point in points if point.value < own.value and point.beats(own)]
    rival = cheaper_rival(own, points)
    if better:
        text = gettext("A cheaper one, {other}, is clearly better.")
        parts.append(text.format(other=min(better, key=lambda point: point.value).name))
    elif rival:
        text = gettext("A cheaper one, {other}, could be as good: this one costs {more}.")
        parts.append(text.format(other=rival.name, more=_more(own.value, rival.value)))
    elif own.low is not None and own.value > min(values):
        parts.append(gettext("No cheaper candidate could be as good."))
    return " ".join(parts)


def cheaper_rival(own: PricedScore, points: Iterable[PricedScore]) -> PricedScore | None:
    """The cheapest of those that cost less and whose interval is not wholly below; None if there
    is none, or if the intervals are unknown."""
    cheaper = [
        point
        for point in points
        if point.value < own.value and None not in (point.high, own.low) and not own.beats(point)
    ]
    return min(cheaper, key=lambda point: (point.value, -point.score), default=None)


def best_value(points: Sequence[PricedScore], by: str) -> str:
    """What the candidate with the highest score costs beside the cheapest that could be as good;
    '' without an interval."""
    top = max(points, key=lambda point: (point.score, -point.value), default=None)
    if top is None or top.low is None or len(points) < 2:
        return ""
    verb, cheaper, cheapest = VALUE_WORDS[by]
    rival = cheaper_rival(top, points)
    if rival:
        more = _more(top.value, rival.value)
        if by == "seconds":
            more = more.replace("as much", "as long").replace("more", "longer")
        return f"{rival.name} could be as good as {top.name}, which {verb} {more}."
    if len({point.value for point in points}) == 1:
        return f"All {len(points):,} {'cost' if by == 'price' else 'take'} the same."
    if top.value == min(point.value for point in points):
        return f"{top.name} has the highest score and is the {cheapest}."
    return f"No {cheaper} candidate could be as good as {top.name}."


def _more(value: float, other: float) -> str:
    """How much more `value` is than `other`, as a price."""
    if not other:
        return gettext("{amount} instead of nothing").format(amount=dollars(round(value * NANO)))
    ratio = value / other
    if ratio < 2:
        return gettext("{share}% more").format(share=max(round(100 * (ratio - 1)), 1))
    times = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}".removesuffix(".0")
    return gettext("{n} times as much").format(n=times)
