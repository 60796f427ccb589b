"""Pairs shown to somebody who may never vote.

Nothing is written, because most visitors only look: what is needed to issue the pair travels sealed
in the page.
"""

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken
from django.db import IntegrityError
from django.utils.crypto import salted_hmac

from arena.models import Arena, Comparison, Rater
from arena.services.comparisons import (
    NOBODY,
    SeenBeforeError,
    build_comparison,
    find_next_pair,
    issue_pair,
    matchup_of,
)
from arena.services.pairs import flip_coin


def preview_comparison(*, arena: Arena, now: datetime) -> tuple[Comparison | None, str]:
    """Draw a pair for nobody, and seal what `issue_preview` needs to issue it to whoever votes.

    Nothing is written, because most visitors only look. A coin alone decides the sides, and the
    seal hides the responses, whose ids would lead to the names.
    """
    nobody = Rater(pk=NOBODY)
    _, _, pair_id, low_id, high_id, probability, *answers = find_next_pair(
        arena, nobody, now, NOBODY
    )
    if pair_id is None:
        return None, ""
    matchup = matchup_of(low_id, high_id, answers)
    comparison = build_comparison(arena, nobody, now, matchup, probability, flip_coin())
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
