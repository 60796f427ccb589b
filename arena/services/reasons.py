"""The reasons that raters give for their votes, on the page and in files."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.utils.translation import gettext, gettext_lazy

from arena.models import Comparison, Rater, Reason, Vote
from arena.models.arenas import FAULTS, STRENGTHS
from arena.outcomes import LEFT, RIGHT
from arena.services.comparisons import VoteError
from arena.services.voting import check_rater
from arena.validation import COMMENT_LIMIT, TAG_LIMIT, InputError, clean_paragraphs

REASONS_IN_FILES = {"reasons_a": LEFT, "reasons_b": RIGHT}
BOTH_SIDES = "both"  # of a form's field, for reasons that hold for either answer
MOST_LIKELY = 3  # reasons offered first
VOTES_READ = 1000  # the latest ones, whose reasons tell which are likely


class NotVotedError(VoteError):
    message = gettext_lazy(
        "You have no vote on this pair, so there is nothing to give reasons for."
    )


class UnknownReasonError(VoteError):
    message = gettext_lazy("This arena does not offer that reason for this answer.")


class LongCommentError(VoteError):
    message = gettext_lazy("A comment can have up to 1,000 characters, and no control characters.")


@dataclass(frozen=True)
class OfferedReason:
    """A reason that a rater can give; `field` is LEFT, RIGHT or BOTH_SIDES."""

    field: str
    tag: str
    is_given: bool = False

    @property
    def label(self) -> str:
        """The tag, in the rater's language if it is one of those that every new arena offers."""
        return gettext(self.tag) if self.tag in (*STRENGTHS, *FAULTS) else self.tag


@dataclass(frozen=True)
class OfferedReasons:
    """The likeliest reasons for a vote, and all others by side."""

    likely: list[OfferedReason]
    others: dict[str, list[OfferedReason]]

    @classmethod
    def after(
        cls, vote: Vote, comparison: Comparison, given: Collection[tuple[str, str]] = ()
    ) -> "OfferedReasons":
        """What the arena offers after this vote; `given` are the (side, tag) given already.

        Likely are reasons for the better answer, or for both answers if neither is better, in the
        order of how often they were given for the arena's latest votes.
        """
        arena, outcome = comparison.arena, vote.outcome
        by_side = {side: arena.reasons_for(side, outcome) for side in (LEFT, RIGHT)}
        better = outcome if outcome in by_side else None
        latest = Vote.objects.filter(arena=comparison.arena_id).order_by("-pk").values("pk")
        named = Reason.objects.filter(vote__in=latest[:VOTES_READ]).order_by().values_list("tag")
        often = Counter(dict(named.annotate(n=Count("pk"))))
        first = sorted(by_side[better or LEFT], key=lambda tag: -often[tag])[:MOST_LIKELY]

        def offer(field: str, tag: str) -> OfferedReason:
            sides = (LEFT, RIGHT) if field == BOTH_SIDES else (field,)
            return OfferedReason(field, tag, all((side, tag) in given for side in sides))

        return cls(
            [offer(better or BOTH_SIDES, tag) for tag in first],
            {
                side: [offer(side, tag) for tag in tags if side != better or tag not in first]
                for side, tags in by_side.items()
            },
        )


@transaction.atomic
def give_reasons(
    *,
    comparison: Comparison,
    rater: Rater,
    tags: Mapping[str, Collection[str]],
    comment: str,
) -> list[Reason]:
    """Replace the reasons of the rater's vote by these: tags by side, and a comment.

    Raises NotVotedError, UnknownReasonError and LongCommentError.
    """
    check_rater(comparison, rater)
    vote = Vote.objects.select_for_update(no_key=True).filter(
        comparison=comparison, rater=rater, voided_at=None
    )
    voted = vote.first()
    if voted is None:
        raise NotVotedError
    try:
        comment = clean_paragraphs(comment, limit=COMMENT_LIMIT)
    except InputError:
        raise LongCommentError from None
    offered = {side: comparison.arena.reasons_for(side, voted.outcome) for side in (LEFT, RIGHT)}
    if any(tag not in offered.get(side, ()) for side, chosen in tags.items() for tag in chosen):
        raise UnknownReasonError
    reasons = [
        Reason(vote=voted, side=side, tag=tag)
        for side, chosen in tags.items()
        for tag in dict.fromkeys(chosen)
    ]
    if comment:
        reasons.append(Reason(vote=voted, side=Reason.BOTH, comment=comment))
    voted.reasons.all().delete()
    return Reason.objects.bulk_create(reasons)


def read_reasons(*, votes: QuerySet[Vote]) -> int:
    """Store the reasons in a file's votes, in `reasons_a`, `reasons_b` and `comment`;
    return how many are new. Running it again adds none."""
    given = Q(details__has_any_keys=[*REASONS_IN_FILES, "comment"])
    votes = votes.filter(given, reasons=None).order_by("pk")
    new = last = 0
    while some := list(votes.filter(pk__gt=last)[:1000]):
        last = some[-1].pk
        reasons = [reason for vote in some for reason in _reasons_in_details(vote)]
        new += len(Reason.objects.bulk_create(reasons, batch_size=500))
    return new


def _reasons_in_details(vote: Vote) -> Iterator[Reason]:
    details = vote.details or {}
    for name, side in REASONS_IN_FILES.items():
        tags = details.get(name)
        for tag in dict.fromkeys(tags if isinstance(tags, list) else []):
            if isinstance(tag, str) and 0 < len(tag) <= TAG_LIMIT:
                yield Reason(vote=vote, side=side, tag=tag)
    comment = details.get("comment")
    if isinstance(comment, str) and 0 < len(comment) <= COMMENT_LIMIT:
        yield Reason(vote=vote, side=Reason.BOTH, comment=comment)
