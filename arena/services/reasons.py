"""The reasons that raters give for their votes, on the page and in files."""

from collections.abc import Collection, Iterator, Mapping

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy

from arena.models import Comparison, Rater, Reason, Vote
from arena.outcomes import LEFT, RIGHT
from arena.services.comparisons import VoteError
from arena.services.voting import check_rater
from arena.validation import COMMENT_LIMIT, TAG_LIMIT, InputError, clean_paragraphs

REASONS_IN_FILES = {"reasons_a": LEFT, "reasons_b": RIGHT}


class NotVotedError(VoteError):
    message = gettext_lazy(
        "You have no vote on this pair, so there is nothing to give reasons for."
    )


class UnknownReasonError(VoteError):
    message = gettext_lazy("This arena does not offer that reason for this answer.")


class LongCommentError(VoteError):
    message = gettext_lazy("A comment can have up to 1,000 characters, and no control characters.")


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
