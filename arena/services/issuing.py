"""Issuing comparisons: which pair, which prompt, which side, to whom."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.db import DEFAULT_DB_ALIAS, connection, transaction
from django.db.models import F

from arena.access import NOBODY, Actor
from arena.models import (
    Arena,
    Candidate,
    Comparison,
    Membership,
    Pair,
    PairDemand,
    Prompt,
    Rater,
    Response,
)
from arena.services import statements
from arena.services.deadlocks import tried_twice
from arena.services.pairing import take_side

TIME_TO_VOTE = timedelta(minutes=30)
DEMANDS_TRIED = 5  # a rater who has seen so many of those wanted gets a pair by weight
draw = random.SystemRandom()
PROMPT_FIELDS = ("id", "html", "html_version")
RESPONSE_FIELDS = ("id", "candidate_id", "prompt_id", "names_itself", "html", "html_version")


class VoteRefused(Exception):
    """A vote that does not count; its text tells a person why and what to do."""

    sentence = "This vote could not be counted."

    def __str__(self) -> str:
        return self.sentence


class SignInFirst(VoteRefused):
    sentence = "This arena takes votes of signed-in people only."


class MembersOnly(VoteRefused):
    sentence = "This arena takes votes of its team's members only."


class SeenBefore(VoteRefused):
    sentence = "You have been shown these two answers before, so your vote would not be a new one."


class Retired(VoteRefused):
    sentence = "These two answers are not voted on any more."


def check_admission(arena: Arena, rater: Rater) -> None:
    """Raise SignInFirst or MembersOnly for a person whose votes the arena does not take.

    Those whom its team's program names, or a file did, are the team's to answer for.
    """
    if arena.voters == Arena.Voters.ANYONE or rater.kind != Rater.Kind.PERSON:
        return
    if rater.arena_id == arena.pk:
        return
    if rater.user_id is None:
        raise SignInFirst
    if arena.voters == Arena.Voters.MEMBERS and not _is_member(arena, rater):
        raise MembersOnly


def _is_member(arena: Arena, rater: Rater) -> bool:
    return Membership.objects.filter(team=arena.team_id, user=rater.user_id).exists()


@dataclass(frozen=True)
class Unseen:
    """A prompt that the rater has not seen answered by these two; their texts are left behind."""

    prompt: Prompt
    low: Response
    high: Response


def issued_comparison(*, slug: str, key: UUID, actor: Actor = NOBODY) -> Any:
    """Return an issued comparison with its arena, rater and names: what voting on it needs.

    None where there is none, or none in an arena that `actor` may see. `other_votes` counts the
    rater's votes in this arena on other comparisons.
    """
    row = statements.one(statements.ISSUED, key, slug, *_lets_in(actor))
    if row is None:
        return None
    *values, expires_at, skipped_at = row[: len(statements.ISSUED_FIELDS)]
    voters, team_id, kind, user_id, home, blocked_at, *names, other_votes = row[len(values) + 2 :]
    moments = [statements.moment(value) for value in (expires_at, skipped_at)]
    comparison: Any = _row(Comparison, statements.ISSUED_FIELDS, [*values, *moments])
    comparison.key = key
    comparison.other_votes = other_votes
    comparison.arena = _row(
        Arena, ("id", "team_id", "slug", "voters"), (comparison.arena_id, team_id, slug, voters)
    )
    comparison.rater = _row(
        Rater,
        ("id", "kind", "user_id", "arena_id", "blocked_at"),
        (comparison.rater_id, kind, user_id, home, statements.moment(blocked_at)),
    )
    fields = ("id", "name", "version", "disclosed_at")
    comparison.left = _row(
        Candidate, fields, (comparison.left_id, *names[:2], statements.moment(names[2]))
    )
    comparison.right = _row(
        Candidate, fields, (comparison.right_id, *names[3:5], statements.moment(names[5]))
    )
    return comparison


def _lets_in(actor: Actor) -> tuple[bool, int | None, int | None]:
    """What lets an actor into a private arena: being an operator, a token's team, a membership."""
    if actor.token is not None:
        return False, actor.token.team_id if actor.token.can_read else None, None
    return actor.is_operator, None, actor.user.pk if actor.user else None


def _row(model: Any, fields: Sequence[str], values: Sequence[Any]) -> Any:
    """A row of which only some fields were read; the others would be fetched when asked for.

    `fields` come in the order in which the model defines them.
    """
    return model.from_db(DEFAULT_DB_ALIAS, fields, values)


@tried_twice
def issue_comparison(
    *, arena: Arena, rater: Rater, now: datetime, besides: Comparison | None = None
) -> Comparison | None:
    """Return the comparison that `rater` is to answer next, or None when nothing is left.

    One that is still waiting for this rater comes first, so a reload shows the same pair.
    `besides` names the comparison on the screen: the answer is then the one to fetch ahead.
    The lock on the rater keeps two tabs from being handed the same two responses.
    Raises SignInFirst.
    """
    check_admission(arena, rater)
    with transaction.atomic(savepoint=False):
        return _next(arena, rater, now, on_screen=besides.pk if besides else 0)


def _next(arena: Arena, rater: Rater, now: datetime, on_screen: int) -> Comparison | None:
    """What waits for the rater, else what is demanded, else a pair drawn by weight."""
    if connection.features.has_select_for_update:
        statements.one(statements.LOCK_RATER, rater.pk)
    ((waiting, demanded),) = statements.rows(
        statements.WAITING, rater.pk, arena.pk, on_screen, now, arena.pk
    )
    if waiting:
        return Comparison.objects.with_texts().get(pk=waiting)
    return (demanded and _demanded(arena, rater, now)) or _drawn(arena, rater, now)


def _demanded(arena: Arena, rater: Rater, now: datetime) -> Comparison | None:
    """Serve a run or an undone vote, where one wants a pair that this rater has not seen."""
    demands = list(PairDemand.objects.open(arena).select_related("pair"))
    for _ in range(min(len(demands), DEMANDS_TRIED)):
        wanted = [demand.remaining for demand in demands]
        demand = draw.choices(demands, wanted)[0]
        probability = demand.draw_probability or demand.remaining / sum(wanted)
        ids = demand.pair.low_id, demand.pair.high_id
        row = statements.one(statements.DEMANDED, *ids, demand.prompt_id, rater.pk)
        if row is not None and _claim(demand):
            unseen = _unseen(*ids, row)
            return _issue(arena, rater, now, demand.pair_id, unseen, probability, demand.run_id)
        demands.remove(demand)
    return None


def _claim(demand: PairDemand) -> bool:
    left = PairDemand.objects.filter(pk=demand.pk, remaining__gt=0)
    return bool(left.update(remaining=F("remaining") - 1))


def _drawn(arena: Arena, rater: Rater, now: datetime) -> Comparison | None:
    """Draw a pair by its weight among those of which this rater has prompts left."""
    row = statements.one(statements.DRAWN, rater.pk, arena.pk, arena.pk, draw.random(), rater.pk)
    if row is None:
        return None
    pair_id, low_id, high_id, probability, *answers = row
    return _issue(arena, rater, now, pair_id, _unseen(low_id, high_id, answers), probability)


def _unseen(low_id: int, high_id: int, row: Sequence[Any]) -> Unseen:
    prompt, low, high = row[:3], row[3:7], row[7:]
    return Unseen(
        _row(Prompt, PROMPT_FIELDS, prompt),
        _response(low_id, prompt[0], low),
        _response(high_id, prompt[0], high),
    )


def _response(candidate_id: int, prompt_id: int, row: Sequence[Any]) -> Response:
    response_id, names_itself, *html = row
    values = (response_id, candidate_id, prompt_id, bool(names_itself), *html)
    return _row(Response, RESPONSE_FIELDS, values)


def _issue(
    arena: Arena,
    rater: Rater,
    now: datetime,
    pair_id: int,
    unseen: Unseen,
    probability: float | None,
    run_id: int | None = None,
) -> Comparison:
    """Write the comparison, sides decided last: the pair stays locked from there to the commit."""
    low_goes_left = take_side(pair=Pair(pk=pair_id))
    left, right = (unseen.low, unseen.high) if low_goes_left else (unseen.high, unseen.low)
    comparison = Comparison(
        key=uuid4(),
        arena=arena,
        rater=rater,
        prompt=unseen.prompt,
        left_id=left.candidate_id,
        right_id=right.candidate_id,
        left_response=left,
        right_response=right,
        run_id=run_id,
        draw_probability=probability,
        names_itself=left.names_itself or right.names_itself,
        issued_at=now,
        expires_at=now + TIME_TO_VOTE,
    )
    values = [getattr(comparison, name) for name in statements.ISSUE_FIELDS]
    ((comparison.pk,),) = statements.rows(statements.ISSUE, *values)
    comparison._state.adding = False
    return comparison


# -- A pair that somebody asks for -----------------------------------------------------------------


@tried_twice
def issue_this_pair(
    *, arena: Arena, rater: Rater, responses: tuple[int, int], now: datetime
) -> Comparison:
    """Issue just these two responses to `rater`, or find them waiting for this rater already.

    Nothing was drawn, so there is no probability of it, and the vote never counts as a drawn one.
    Sides are decided as ever. Raises SignInFirst, SeenBefore and Retired.
    """
    check_admission(arena, rater)
    with transaction.atomic():
        if connection.features.has_select_for_update:
            statements.one(statements.LOCK_RATER, rater.pk)
        unseen = _these(arena, responses)
        return _shown_before(rater, unseen, now) or _issue_these(arena, rater, unseen, now)


def _these(arena: Arena, responses: tuple[int, int]) -> Unseen:
    """The two responses by the order of their candidates' ids, as pairs keep them."""
    active = Response.objects.revealed().filter(
        pk__in=responses,
        prompt__arena=arena,
        prompt__retired_at=None,
        candidate__retired_at=None,
    )
    found = list(active.select_related("prompt").order_by("candidate_id"))
    if len(found) != 2 or found[0].prompt_id != found[1].prompt_id:
        raise Retired
    return Unseen(found[0].prompt, *found)


def _shown_before(rater: Rater, unseen: Unseen, now: datetime) -> Comparison | None:
    """The comparison where it still waits for its vote; raises SeenBefore where it does not."""
    two = [unseen.low.candidate_id, unseen.high.candidate_id]
    seen = Comparison.objects.filter(rater=rater, prompt=unseen.prompt, left__in=two, right__in=two)
    waiting = seen.open(now).first()
    if waiting is None and seen.exists():
        raise SeenBefore
    return waiting


def _issue_these(arena: Arena, rater: Rater, unseen: Unseen, now: datetime) -> Comparison:
    pair = arena.pairs.filter(low=unseen.low.candidate_id, high=unseen.high.candidate_id).first()
    if pair is None:
        raise Retired
    return _issue(arena, rater, now, pair.pk, unseen, None)
