"""Comparisons: their texts, who may vote on them, and the next one for a rater."""

import json
import random
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from cryptography.fernet import Fernet, InvalidToken
from django.db import DEFAULT_DB_ALIAS, IntegrityError, connection, transaction
from django.db.models import F
from django.db.models.base import ModelState
from django.utils.crypto import salted_hmac
from django.utils.safestring import SafeString, mark_safe
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
from arena.rendering import RENDERER_VERSION, render_conversation, render_markdown
from arena.self_identification import mask_names, masked
from arena.services.locks import retry_on_deadlock
from arena.services.pairs import flip_coin, take_side

TIME_TO_VOTE = timedelta(minutes=30)
# After trying this many demanded pairs that the rater has seen, draw a pair by weight instead.
MAX_DEMANDS_TRIED = 5
NOBODY = 0  # no rater has this id
MAX_EXCLUDED = 3  # as many as sql.WAITING names
PROMPT_FIELDS = ("id", "html", "html_version")
RESPONSE_FIELDS = ("id", "candidate_id", "prompt_id", "names_itself", "html", "html_version")
draw = random.SystemRandom()


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


# -- Stored HTML of prompts and responses ----------------------------------------------------------


def html_of(row: Prompt | Response) -> SafeString:
    """Return the safe HTML of the row's text or conversation; render and store it if outdated."""
    if row.html is None or row.html_version != RENDERER_VERSION:
        row.html = render_conversation(row.messages) if row.messages else render_markdown(row.text)
        row.html_version = RENDERER_VERSION
        type(row).objects.filter(pk=row.pk).update(html=row.html, html_version=RENDERER_VERSION)
    return mark_safe(row.html)  # noqa: S308  (sanitised by render_markdown, nothing else writes it)


def prompt_html(prompt: Prompt | None) -> SafeString:
    return html_of(prompt) if prompt else SafeString()


def guide_html(arena: Arena) -> SafeString:
    """Return the HTML of an arena's guide for raters; empty without one."""
    return mark_safe(render_markdown(arena.guide)) if arena.guide else SafeString()  # noqa: S308


def response_html(response: Response | None) -> SafeString:
    """Return the HTML of a response; empty if its text was not imported."""
    return html_of(response) if response else SafeString()


def ballot_text(comparison: Comparison, response: Response | None) -> str:
    """Return an answer's text as raters see it: without names, if the arena masks them."""
    if response is None:
        return ""
    if not _is_masked(comparison, response):
        return response.text
    candidate = response.candidate
    return mask_names(response.text, names=(candidate.name, candidate.model))


def ballot_html(comparison: Comparison, response: Response | None) -> SafeString:
    """Like `response_html`, but masked as `ballot_text` is."""
    if response is None or not _is_masked(comparison, response):
        return response_html(response)
    if response.messages:
        names = (response.candidate.name, response.candidate.model)
        html = render_conversation(masked(response.messages, names=names))
    else:
        html = render_markdown(ballot_text(comparison, response))
    return mark_safe(html)  # noqa: S308  (sanitised by render_markdown)


def _is_masked(comparison: Comparison, response: Response) -> bool:
    masks = Arena.SelfIdentifying.MASK
    return response.names_itself and comparison.arena.self_identifying == masks


# -- Who may vote ----------------------------------------------------------------------------------


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


def find_issued_comparison(*, slug: str, key: UUID, actor: Actor = ANONYMOUS) -> Any:
    """Return an issued comparison with everything needed to vote on it: arena, rater and names.

    None if there is no such comparison, or `actor` may not see the arena. `other_votes` counts the
    rater's votes on other comparisons of this arena.
    """
    row = sql.one(sql.ISSUED, pair=key, slug=slug, **private_access(actor))
    return row and issued_comparison(slug, key, row)


def issued_comparison(slug: str, key: UUID, row: Sequence[Any]) -> Any:
    """Build the comparison of a row of sql.ISSUED."""
    *values, issued_at, expires_at, skipped_at = row[: len(sql.ISSUED_FIELDS)]
    voters, team_id, self_identifying, *rest = row[len(sql.ISSUED_FIELDS) :]
    kind, user_id, home, blocked_at, *names, other_votes = rest
    times = [sql.moment(value) for value in (issued_at, expires_at, skipped_at)]
    comparison = partial_row(Comparison, sql.ISSUED_FIELDS, [*values, *times])
    comparison.key = key
    comparison.other_votes = other_votes
    fields = ("id", "name", "version", "disclosed_at")
    comparison._state.fields_cache = {
        "arena": partial_row(
            Arena,
            ("id", "team_id", "slug", "voters", "self_identifying"),
            (comparison.arena_id, team_id, slug, voters, self_identifying),
        ),
        "rater": partial_row(
            Rater,
            ("id", "kind", "user_id", "arena_id", "blocked_at"),
            (comparison.rater_id, kind, user_id, home, sql.moment(blocked_at)),
        ),
        "left": partial_row(
            Candidate, fields, (comparison.left_id, *names[:2], sql.moment(names[2]))
        ),
        "right": partial_row(
            Candidate, fields, (comparison.right_id, *names[3:5], sql.moment(names[5]))
        ),
    }
    return comparison


def private_access(actor: Actor) -> dict[str, Any]:
    """Return the parameters of sql.ISSUED for private arenas."""
    if (token := actor.token) is not None:
        return {"operator": False, "team": token.team_id if token.can_read else None, "user": None}
    user_id = actor.user.pk if actor.user else None
    return {"operator": actor.is_operator, "team": None, "user": user_id}


def partial_row(model: Any, fields: Iterable[str], values: Iterable[Any]) -> Any:
    """Build a stored model instance from `fields` only; others are fetched when accessed, unless
    they are put into its `_state.fields_cache`.

    Model.__init__ would set each of the other fields aside, which took ten times as long.
    """
    row = model.__new__(model)
    row.__dict__.update(zip(fields, values, strict=True))
    row._state = ModelState()
    row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS
    return row


# -- Issuing the next comparison -------------------------------------------------------------------


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
    is_locked: bool = False,
) -> Comparison | None:
    """Return the comparison that `rater` gets next, or None when nothing is left.

    An open comparison of this rater comes first, so that a reload shows the same pair; `exclude`
    are comparisons to pass over when the next one is prefetched, at most MAX_EXCLUDED: the one on
    the screen, and those whose votes are still on their way. `also`: the other rater of the same
    browser; neither gets what the other has seen, or a pair that their team keeps them from. A lock
    on the rater keeps two tabs from getting the same two responses; `is_locked`: this transaction
    already holds the lock.
    Raises SignInFirstError and MembersOnlyError.
    """
    check_admission(arena, rater)
    with nullcontext() if is_locked else transaction.atomic(savepoint=False):
        if connection.features.has_select_for_update and not is_locked:
            sql.one(sql.LOCK_RATER, rater.pk)
        key = uuid4()
        stranger = rater.user_id is None and rater.arena_id is None and not also
        issues = connection.features.has_select_for_update
        waiting, demanded, *drawn = _find_next(
            sql.NEXT[stranger, issues],
            arena,
            rater,
            now,
            also,
            [comparison.pk for comparison in exclude],
            key=key,
            expires=now + TIME_TO_VOTE,
            coin=flip_coin(),
        )
        if waiting:
            return Comparison.objects.with_texts().get(pk=waiting)
        demanded_one = _issue_demanded(arena, rater, now, also) if demanded else None
        return demanded_one or _issue_drawn(arena, rater, now, key, drawn)


def is_pair_left(*, arena: Arena, rater: Rater, now: datetime, also: int = NOBODY) -> bool:
    """Return whether `next_comparison` would find something; nothing is issued."""
    try:
        check_admission(arena, rater)
    except VoteError:
        return False
    waiting, demanded, _, _, pair_id, *_ = _find_next(
        sql.NEXT[False, False], arena, rater, now, also
    )
    return bool(waiting or demanded or pair_id)


def _find_next(
    statement: str,
    arena: Arena,
    rater: Rater,
    now: datetime,
    also: int,
    exclude: Sequence[int] = (),
    **issuing: Any,
) -> sql.Row:
    """Run one of sql.NEXT; `exclude`: at most MAX_EXCLUDED ids of comparisons to pass over."""
    excluded = [*exclude, *[NOBODY] * MAX_EXCLUDED]
    (row,) = sql.rows(
        statement,
        arena=arena.pk,
        rater=rater.pk,
        unseen=rater.pk,
        also=also,
        now=now,
        random=draw.random(),
        **{f"skip_{n}": excluded[n] for n in range(MAX_EXCLUDED)},
        **issuing,
    )
    return row


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
        if row is not None and _claim(demand):
            matchup = _matchup(low_id, high_id, row)
            return _issue(
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


def _claim(demand: PairDemand) -> bool:
    still_open = PairDemand.objects.filter(pk=demand.pk, remaining__gt=0)
    return bool(still_open.update(remaining=F("remaining") - 1))


def _issue_drawn(
    arena: Arena, rater: Rater, now: datetime, key: UUID, drawn: Sequence[Any]
) -> Comparison | None:
    """Issue the pair drawn by weight among those with prompts that this rater has not seen."""
    issued_id, left_id, pair_id, low_id, high_id, probability, *answers = drawn
    if pair_id is None:
        return None
    issued = (key, issued_id, left_id == low_id) if issued_id else None
    matchup = _matchup(low_id, high_id, answers)
    return _issue(arena, rater, now, pair_id, matchup, probability, issued=issued)


def _matchup(low_id: int, high_id: int, row: Sequence[Any]) -> Matchup:
    prompt, low, high = row[:3], row[3:7], row[7:]
    return Matchup(
        partial_row(Prompt, PROMPT_FIELDS, prompt),
        _response(low_id, prompt[0], low),
        _response(high_id, prompt[0], high),
    )


def _response(candidate_id: int, prompt_id: int, row: Sequence[Any]) -> Response:
    response_id, names_itself, *html = row
    values = (response_id, candidate_id, prompt_id, bool(names_itself), *html)
    return partial_row(Response, RESPONSE_FIELDS, values)


def _issue(
    arena: Arena,
    rater: Rater,
    now: datetime,
    pair_id: int,
    matchup: Matchup,
    probability: float | None,
    run_id: int | None = None,
    repeats_id: int | None = None,
    issued: tuple[UUID, int | None, bool] | None = None,
) -> Comparison:
    """Return the comparison that was `issued` (its key, its id, whether low is left). Write it if
    it has no id yet, or a new one if none was issued.

    Sides are decided last: that locks the pair until the commit.
    """
    low, high = matchup.low, matchup.high
    key, pk, low_is_left = issued or (uuid4(), None, take_side(pair=Pair(pk=pair_id)))
    left, right = (low, high) if low_is_left else (high, low)
    values = (  # in the order of ISSUE_FIELDS
        key,
        arena.pk,
        rater.pk,
        matchup.prompt.pk,
        probability,
        low.names_itself or high.names_itself,
        now,
        now + TIME_TO_VOTE,
        left.candidate_id,
        right.candidate_id,
        left.pk,
        right.pk,
        run_id,
        repeats_id,
    )
    if pk is None:
        ((pk,),) = sql.rows(sql.ISSUE, *values)
    fields = ("id", "skipped_at", *sql.ISSUE_FIELDS)
    comparison: Comparison = partial_row(Comparison, fields, (pk, None, *values))
    comparison._state.fields_cache = {
        "arena": arena,
        "rater": rater,
        "prompt": matchup.prompt,
        "left_response": left,
        "right_response": right,
    }
    return comparison


# -- Issuing a chosen pair -------------------------------------------------------------------------


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
        if connection.features.has_select_for_update:
            sql.one(sql.LOCK_RATER, rater.pk)
        matchup = _find_matchup(arena, responses)
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
        own = {pk for (pk,) in sql.rows(sql.OWN, arena=arena.pk, rater=rater.pk, also=NOBODY)}
        if len(own.intersection(candidates)) == 1:
            raise OwnTeamError
        if previewed is None:
            return _issue(arena, rater, now, pair.pk, matchup, None)
        key, probability = previewed
        issued = (key, None, matchup.low.pk == responses[0])
        return _issue(arena, rater, now, pair.pk, matchup, probability, issued=issued)


def _find_matchup(arena: Arena, responses: tuple[int, int]) -> Matchup:
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
    return Matchup(answers[0].prompt, *answers)


# -- A pair for somebody who may never vote --------------------------------------------------------


def preview_comparison(*, arena: Arena, now: datetime) -> tuple[Comparison | None, str]:
    """Draw a pair for nobody, and seal what `issue_preview` needs to issue it to whoever votes.

    Nothing is written, because most visitors only look. A coin alone decides the sides, and the
    seal hides the responses, whose ids would lead to the names.
    """
    ((_, _, _, _, pair_id, low_id, high_id, probability, *answers),) = sql.rows(
        sql.NEXT[True, False],
        arena=arena.pk,
        rater=NOBODY,
        unseen=NOBODY,
        now=now,
        random=draw.random(),
        **{f"skip_{n}": NOBODY for n in range(MAX_EXCLUDED)},
    )
    if pair_id is None:
        return None, ""
    matchup, issued = _matchup(low_id, high_id, answers), (uuid4(), NOBODY, flip_coin())
    nobody = Rater(pk=NOBODY)
    comparison = _issue(arena, nobody, now, pair_id, matchup, probability, issued=issued)
    sides = (comparison.left_response_id, comparison.right_response_id)
    content = json.dumps([arena.pk, str(comparison.key), *sides, probability, now.isoformat()])
    return comparison, _seal().encrypt(content.encode()).decode()


@dataclass(frozen=True)
class Preview:
    """What is known of a pair that was shown to somebody who was no rater."""

    key: UUID
    responses: tuple[int, int]
    probability: float
    shown_at: datetime


def open_preview(*, arena: Arena, sealed: str) -> Preview | None:
    """Return the preview of this arena that was sealed; None if it is forged."""
    try:
        content = _seal().decrypt(sealed.encode())
    except InvalidToken:
        return None
    arena_id, key, left, right, probability, shown_at = json.loads(content)
    if arena_id != arena.pk:
        return None
    return Preview(UUID(key), (left, right), probability, datetime.fromisoformat(shown_at))


def issue_preview(*, arena: Arena, rater: Rater, preview: Preview) -> Comparison:
    """Issue the pair to `rater` as of when it was shown. Raises like `issue_pair`."""
    try:
        return issue_pair(
            arena=arena,
            rater=rater,
            responses=preview.responses,
            now=preview.shown_at,
            previewed=(preview.key, preview.probability),
        )
    except IntegrityError:  # another request has just done so
        raise SeenBeforeError from None


def _seal() -> Fernet:
    key = salted_hmac("arena.previews", "", algorithm="sha256").digest()
    return Fernet(urlsafe_b64encode(key))
