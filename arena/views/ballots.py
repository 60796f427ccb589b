"""What the voting page shows: a pair before the vote, who wrote it afterwards, and the round."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar
from uuid import UUID

from django.conf import settings
from django.utils.safestring import SafeString

from arena.language import translate_own_words
from arena.models import Candidate, Comparison, Reason, Vote
from arena.outcomes import LEFT, RIGHT, VOTES_IN_A_ROUND
from arena.services.ballots import ballot_html, prompt_html
from arena.services.reasons import OfferedReason, OfferedReasons
from arena.views.choices import CHOICES


@dataclass(frozen=True)
class Head:
    """What stands above an answer: a letter, and after the vote who wrote it."""

    key: UUID
    side: str
    candidate: Candidate | None = None
    is_chosen: bool = False

    @property
    def letter(self) -> str:
        return "A" if self.side == LEFT else "B"


@dataclass(frozen=True)
class Ballot:
    """The parts of a comparison that a page may show before the vote: texts, but no names."""

    key: UUID
    prompt: SafeString
    left: SafeString
    right: SafeString
    heads: Sequence[Head]
    choices: ClassVar = CHOICES


@dataclass(frozen=True)
class Reveal:
    """What a rater sees after the vote on a comparison."""

    comparison: Comparison
    vote: Vote
    shows_names: bool
    asks_first: bool
    reasons: OfferedReasons | None
    comment: str = ""

    @property
    def names_per_hour(self) -> int:
        """Of how many votes a network sees the names."""
        return settings.NAMES_PER_HOUR

    @property
    def heads(self) -> list[Head]:
        comparison, outcome = self.comparison, self.vote.outcome
        sides = {LEFT: comparison.left, RIGHT: comparison.right}
        return [
            Head(comparison.key, side, candidate if self.shows_names else None, side == outcome)
            for side, candidate in sides.items()
        ]

    @property
    def other_reasons(self) -> list[tuple[Head, list[OfferedReason]]]:
        """The reasons that are offered less prominently, by answer."""
        others = self.reasons.others if self.reasons else {}
        return [(head, others[head.side]) for head in self.heads if others.get(head.side)]


@dataclass(frozen=True)
class RoundProgress:
    """How far a rater is in a round of votes; a vote's reveal still belongs to its round."""

    votes: int
    is_revealing: bool = False

    @property
    def number(self) -> int:
        """Of the round that the last vote belongs to; rounds are numbered from 1."""
        return max(ceil(self.votes / VOTES_IN_A_ROUND), 1)

    @property
    def done(self) -> int:
        rest = self.votes % VOTES_IN_A_ROUND
        return rest or (VOTES_IN_A_ROUND if self.is_revealing and self.votes else 0)

    @property
    def is_complete(self) -> bool:
        return self.done == VOTES_IN_A_ROUND

    @property
    def segments(self) -> list[bool]:
        return [n < self.done for n in range(VOTES_IN_A_ROUND)]


def ballot_of(comparison: Comparison | None, reveal: Reveal | None = None) -> Ballot | None:
    if comparison is None:
        return None
    heads = [Head(comparison.key, side) for side in (LEFT, RIGHT)]
    return Ballot(
        key=comparison.key,
        heads=reveal.heads if reveal else heads,
        prompt=translate_own_words(prompt_html(comparison.prompt)),
        left=translate_own_words(ballot_html(comparison, comparison.left_response)),
        right=translate_own_words(ballot_html(comparison, comparison.right_response)),
    )


def reveal_of(comparison: Comparison, vote: Vote, *, has_explained: bool = False) -> Reveal:
    arena = comparison.arena
    given = {(reason.side, reason.tag): reason.comment for reason in vote.reasons.all()}
    hidden = vote.names_withheld or comparison.hides_names or arena.is_opened_by_link
    has_reasons = bool(arena.strengths or arena.faults)
    asks_first = arena.reasons_first and has_reasons and not (has_explained or hidden)
    return Reveal(
        comparison,
        vote,
        shows_names=not (hidden or asks_first),
        asks_first=asks_first,
        reasons=OfferedReasons.after(vote, comparison, given) if has_reasons else None,
        comment=given.get((Reason.BOTH, ""), ""),
    )
