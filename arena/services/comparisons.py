"""Comparisons: who may vote on them, and the next one for a rater."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import F, Model
from django.utils.translation import gettext_lazy

from arena.actors import ANONYMOUS, Actor
from arena.db import sql
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
from arena.permissions import visibility_parameters
from arena.services.locks import retry_on_deadlock
from arena.services.pairs import take_side

TIME_TO_VOTE = timedelta(minutes=30)
# After trying this many demanded pairs that the rater has seen, draw a pair by weight instead.
MAX_DEMANDS_TRIED = 5
NOBODY = 0  # no rater has this id
MAX_EXCLUDED = 3  # as many as sql.NEXT names
# The fields that sql.ISSUED and sql.ANSWERED read.
COMPARISON = ("id", "run_id", "draw_probability", "issued_at", "expires_at", "skipped_at")
ARENA = ("id", "team_id", "strengths", "faults", "reasons_first", "voters", "self_identifying")
RATER = ("id", "kind", "user_id", "arena_id", "blocked_at")
CANDIDATE = ("id", "name", "version", "organisation", "disclosed_at")
PROMPT = ("id", "html", "html_version")
RESPONSE = ("id", "names_itself", "html", "html_version")
draw = random.SystemRandom()
Stored = TypeVar("Stored", bound=Model)


class VoteError(Exception):
    """A vote or comparison that is refused; `message` tells the rater why."""

    message: Any = gettext_lazy("Your vote was not counted.")

    def __str__(self) -> str:
        return str(self.message)


class SignInFirstError(VoteError):
    message = gettext_lazy("Sign in to vote in this arena.")


class MembersOnlyError(VoteError):
    message = gettext_lazy("Only members of the team can vote in this arena.")


class SeenBeforeError(VoteError):
    message = gettext_lazy(
        "You have already seen these two answers, so you cannot vote on them again."
    )


class EqualAnswersError(VoteError):
    message = gettext_lazy("These two answers are the same, so neither can be better.")


class OwnTeamError(VoteError):
    message = gettext_lazy(
        "One of these two answers is your own team’s, so you cannot vote on this pair."
    )


class RetiredError(VoteError):
    message = gettext_lazy("Voting on these two answers has ended.")


def check_admission(arena: Arena, rater: Rater) -> None:
    """Raise SignInFirstError or MembersOnlyError for a person who may not vote in the arena.

    Raters named by the team's program or by a file may always vote: the team answers for them.
    """
    if arena.voters == Arena.Voters.ANYONE or rater.kind != Rater.Kind.PERSON:
        return
    if rater.arena_id == arena.pk:
        return
    if rater.user_id is None:
        raise SignInFirstError
    if arena.voters != Arena.Voters.MEMBERS:
        return
    if not Membership.objects.filter(team=arena.team_id, user=rater.user_id).exists():
        raise MembersOnlyError


def find_issued_comparison(
    *, slug: str, key: UUID, actor: Actor = ANONYMOUS, has_link: bool = False
) -> Any:
    """Return an issued comparison with everything needed to vote on it: arena, rater and names.

    None if there is no such comparison, or the arena is private and neither visible to `actor` nor
    opened by its raters' link. `other_votes` counts the rater's votes on other comparisons of this
    arena.
    """
    access = visibility_parameters(actor)
    access["sees_all"] |= has_link
    row = sql.one(sql.ISSUED, key=key, slug=slug, **access)
    if row is None:
        return None
    columns = iter(row)
    comparison: Any = _partly_loaded(Comparison, COMPARISON, columns)
    comparison.key = key
    comparison.arena = _partly_loaded(Arena, ARENA, columns)
    comparison.arena.slug = slug
    comparison.arena.is_opened_by_link = has_link
    comparison.rater = _partly_loaded(Rater, RATER, columns)
    comparison.left = _partly_loaded(Candidate, CANDIDATE, columns)
    comparison.right = _partly_loaded(Candidate, CANDIDATE, columns)
    comparison.other_votes = next(columns)
    return comparison


def _partly_loaded(model: type[Stored], names: Sequence[str], columns: Iterator[Any]) -> Stored:
    """Return a stored row of which only the next columns were read, in the order of its fields.

    Other fields are fetched when they are read. Finding a comparison like this takes a tenth of
    what select_related() does.
    """
    return model.from_db(DEFAULT_DB_ALIAS, names, list(islice(columns, len(names))))


@dataclass(frozen=True)
class Matchup:
    """A prompt and the responses of two candidates, lower candidate id first.

    The texts are not loaded, because a page only needs the stored HTML.
    """

    prompt: Prompt
    low: Response
    high: Response


@retry_on_deadlock
def next_comparison(
    *,
    arena: Arena,
    rater: Rater,
    now: datetime,
    exclude: Sequence[Comparison] = (),
    also: int = NOBODY,
) -> Comparison | None:
    """Return the comparison that `rater` gets next, or None when nothing is left.

    An open comparison of this rater comes first, so that a reload shows the same pair; `exclude`
    are comparisons to pass over when the next one is prefetched, at most MAX_EXCLUDED: the one on
    the screen, and those whose votes are still on their way. `also`: the other rater of the same
    browser; neither gets what the other has seen, or a pair that their team keeps them from.
    Raises SignInFirstError and MembersOnlyError.
    """
    check_admission(arena, rater)
    with transaction.atomic(savepoint=False):
        sql.lock(sql.LOCK_RATER, rater.pk)
        excluded = [comparison.pk for comparison in exclude]
        waiting, demanded, *drawn = find_next_pair(arena, rater, now, also, excluded)
        if waiting:
            return Comparison.objects.with_texts().get(pk=waiting)
        issued = _issue_demanded(arena, rater, now, also) if demanded else None
        return issued or _issue_drawn(arena, rater, now, drawn)


def is_pair_left(*, arena: Arena, rater: Rater, now: datetime, also: int = NOBODY) -> bool:
    """Return whether `next_comparison` would find something; nothing is issued."""
    try:
        check_admission(arena, rater)
    except VoteError:
        return False
    waiting, demanded, pair_id, *_ = find_next_pair(arena, rater, now, also)
    return bool(waiting or demanded or pair_id)


def find_next_pair(
    arena: Arena, rater: Rater, now: datetime, also: int, exclude: Sequence[int] = ()
) -> sql.Row:
    """Run sql.NEXT; `exclude`: at most MAX_EXCLUDED ids of comparisons to pass over."""
    (row,) = _draw(sql.NEXT, arena, rater, now, also, exclude)
    return row


def draw_live_pair(
    arena: Arena, rater: Rater, now: datetime, also: int
) -> tuple[int, int, int, float] | None:
    """Draw the pair that answers a rater's live question: its id, both candidates' and the
    probability; None if there is none."""
    rows: list[Any] = _draw(sql.LIVE_PAIR, arena, rater, now, also)
    return rows[0] if rows else None


def _draw(
    statement: str,
    arena: Arena,
    rater: Rater,
    now: datetime,
    also: int,
    exclude: Sequence[int] = (),
) -> list[sql.Row]:
    excluded = [*exclude, *[NOBODY] * MAX_EXCLUDED]
    return sql.rows(
        statement,
        arena=arena.pk,
        rater=rater.pk,
        also=also,
        now=now,
        random=draw.random(),
        **{f"skip_{n}": excluded[n] for n in range(MAX_EXCLUDED)},
    )


def _issue_demanded(arena: Arena, rater: Rater, now: datetime, also: int) -> Comparison | None:
    """Issue a pair that a run or an undone vote demands of this rater: one that they have not seen,
    or one that they are to repeat."""
    demands = list(PairDemand.objects.open(arena, rater).select_related("pair"))
    for _ in range(min(len(demands), MAX_DEMANDS_TRIED)):
        remaining = [demand.remaining for demand in demands]
        # A repeat is demanded when its time has come, so it does not wait for the draw.
        due = next((demand for demand in demands if demand.repeats_id), None)
        demand = due or draw.choices(demands, remaining)[0]
        probability = demand.draw_probability or demand.remaining / sum(remaining)
        low_id, high_id = demand.pair.low_id, demand.pair.high_id
        row = sql.one(
            sql.DEMANDED,
            arena=arena.pk,
            rater=rater.pk,
            low=low_id,
            high=high_id,
            prompt=demand.prompt_id,
            unseen=NOBODY if due else rater.pk,
            # Whoever is named votes on all pairs, and not for a browser.
            also=NOBODY if demand.rater_id else also,
        )
        if row is not None and _claim_demand(demand):
            matchup = matchup_of(low_id, high_id, row)
            return _issue_matchup(
                arena,
                rater,
                now,
                demand.pair_id,
                matchup,
                None if due else probability,
                run_id=demand.run_id,
                repeats_id=demand.repeats_id,
            )
        demands.remove(demand)
    return None


def _claim_demand(demand: PairDemand) -> bool:
    still_open = PairDemand.objects.filter(pk=demand.pk, remaining__gt=0)
    return bool(still_open.update(remaining=F("remaining") - 1))


def _issue_drawn(
    arena: Arena, rater: Rater, now: datetime, drawn: Sequence[Any]
) -> Comparison | None:
    """Issue the pair drawn by weight among those with prompts that this rater has not seen."""
    pair_id, low_id, high_id, probability, *answers = drawn
    if pair_id is None:
        return None
    return _issue_matchup(
        arena, rater, now, pair_id, matchup_of(low_id, high_id, answers), probability
    )


def matchup_of(low_id: int, high_id: int, row: Sequence[Any]) -> Matchup:
    """Read the columns of sql.ANSWERED."""
    columns = iter(row)
    prompt = _partly_loaded(Prompt, PROMPT, columns)
    low, high = (_partly_loaded(Response, RESPONSE, columns) for _ in range(2))
    low.candidate_id, high.candidate_id = low_id, high_id
    return Matchup(prompt, low, high)


def _issue_matchup(
    arena: Arena,
    rater: Rater,
    now: datetime,
    pair_id: int,
    matchup: Matchup,
    probability: float | None,
    **more: Any,
) -> Comparison:
    """Write a new comparison. Its sides are decided last: that locks the pair until the commit."""
    low_is_left = take_side(pair=Pair(pk=pair_id))
    comparison = build_comparison(arena, rater, now, matchup, probability, low_is_left, **more)
    comparison.save(force_insert=True)
    return comparison


def build_comparison(
    arena: Arena,
    rater: Rater,
    now: datetime,
    matchup: Matchup,
    probability: float | None,
    low_is_left: bool,
    **more: Any,
) -> Comparison:
    """Return a comparison that is not stored."""
    low, high = matchup.low, matchup.high
    left, right = (low, high) if low_is_left else (high, low)
    return Comparison(
        arena=arena,
        rater=rater,
        prompt=matchup.prompt,
        left_id=left.candidate_id,
        right_id=right.candidate_id,
        left_response=left,
        right_response=right,
        draw_probability=probability,
        names_itself=low.names_itself or high.names_itself,
        issued_at=now,
        expires_at=now + TIME_TO_VOTE,
        **more,
    )


@retry_on_deadlock
def issue_pair(
    *,
    arena: Arena,
    rater: Rater,
    responses: tuple[int, int],
    now: datetime,
    previewed: tuple[UUID, float] | None = None,
) -> Comparison:
    """Issue these two responses to `rater`, or return their open comparison.

    `previewed`: the key and the draw probability of a preview, whose left response comes first.
    Any other pair was not drawn, so the comparison has no draw probability and its vote never
    counts: whoever can choose a pair may have read its names in another browser. Sides are decided
    as usual. Raises SignInFirstError, MembersOnlyError, SeenBeforeError, RetiredError,
    EqualAnswersError and OwnTeamError.
    """
    check_admission(arena, rater)
    with transaction.atomic():
        sql.lock(sql.LOCK_RATER, rater.pk)
        active = Response.objects.revealed().filter(
            pk__in=responses,
            prompt__arena=arena,
            prompt__retired_at=None,
            candidate__retired_at=None,
        )
        answers = list(active.select_related("prompt").order_by("candidate_id"))
        if len(answers) != 2 or answers[0].prompt_id != answers[1].prompt_id:
            raise RetiredError
        low, high = answers
        if (low.text, low.messages) == (high.text, high.messages):
            raise EqualAnswersError
        matchup = Matchup(answers[0].prompt, *answers)
        candidates = [matchup.low.candidate_id, matchup.high.candidate_id]
        seen = Comparison.objects.filter(
            rater=rater, prompt=matchup.prompt, left__in=candidates, right__in=candidates
        )
        if not previewed and (waiting := seen.open(now).first()):
            return waiting
        if seen.exists():
            raise SeenBeforeError
        pair = arena.pairs.filter(low=candidates[0], high=candidates[1]).first()
        if pair is None:
            raise RetiredError
        ours = {pk for (pk,) in sql.rows(sql.OWN, arena=arena.pk, rater=rater.pk, also=NOBODY)}
        if len(ours.intersection(candidates)) == 1:
            raise OwnTeamError
        if previewed is None:
            return _issue_matchup(arena, rater, now, pair.pk, matchup, None)
        key, probability = previewed
        low_is_left = matchup.low.pk == responses[0]
        comparison = build_comparison(arena, rater, now, matchup, probability, low_is_left, key=key)
        comparison.save(force_insert=True)
        return comparison
