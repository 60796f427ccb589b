"""API tokens: made, shown once, found again by their digest, revoked.

A token is `rs_<8 characters>_<64 hexadecimal digits>`: 256 random bits behind a name that may be
shown. Only the SHA-256 of the whole is kept, which is enough for a secret that nobody can guess.
"""

import hashlib
import secrets
import string
from collections.abc import Collection
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q

from arena.access import Ability, Actor
from arena.models import ApiToken, Team
from arena.services.audit import record
from arena.services.refusals import Refused

SCOPES = (Ability.READ, Ability.SUBMIT, Ability.JUDGE)
LETTERS = string.ascii_lowercase + string.digits
RANDOM_BYTES = 32
LONGEST_NAME = 100
MOST_TOKENS = 50
SEEN_AT_MOST_EVERY = timedelta(minutes=1)


class TokenRefused(Refused):
    """The token cannot be made; the message is a sentence for people."""


@transaction.atomic
def create_token(
    *, team: Team, name: str, scopes: Collection[str], by: Actor
) -> tuple[ApiToken, str]:
    """Return a new token of `team` and its secret, which is kept nowhere. Raises TokenRefused."""
    name = _checked_name(name)
    wanted = _checked_scopes(scopes)
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    if team.tokens.live().count() >= MOST_TOKENS:
        raise TokenRefused(f"A team has at most {MOST_TOKENS} tokens. Revoke one first.")
    prefix, secret = _new_secret()
    token = ApiToken(
        team=team,
        name=name,
        prefix=prefix,
        digest=digest_of(secret),
        can_read=Ability.READ in wanted,
        can_submit=Ability.SUBMIT in wanted,
        can_judge=Ability.JUDGE in wanted,
        created_by=by.user,
    )
    _insert(token)
    record(team=team, by=by, action="made a token", subject=token, scopes=token.scopes)
    return token, secret


def _insert(token: ApiToken) -> None:
    """Refuse the name of another live token: a page that is loaded again asks a second time."""
    try:
        with transaction.atomic():
            token.save(force_insert=True)
    except IntegrityError:
        raise TokenRefused(
            "There is a token of this name already. Revoke it, or choose another name.",
            field="name",
        ) from None


@transaction.atomic
def revoke_token(*, token: ApiToken, by: Actor, now: datetime) -> bool:
    """End `token` for good; say whether that is news."""
    revoked = ApiToken.objects.live().filter(pk=token.pk).update(revoked_at=now)
    if revoked:
        record(team=token.team, by=by, action="revoked a token", subject=token)
    return bool(revoked)


def find_token(secret: str, now: datetime) -> ApiToken | None:
    """Return the live token whose secret this is, with its team; None for every other text.

    Every text takes the same path: its digest, one query. Use is noted once a minute at most.
    """
    digest = digest_of(secret)
    token = ApiToken.objects.live().select_related("team").filter(digest=digest).first()
    if token is not None:
        _note_use(token, now)
    return token


def digest_of(secret: str) -> str:
    """Return what is kept of a secret; any text has a digest, one with lone surrogates too."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _note_use(token: ApiToken, now: datetime) -> None:
    seen = token.last_used_at
    if seen is not None and seen > now - SEEN_AT_MOST_EVERY:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lte=now - SEEN_AT_MOST_EVERY)
    ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
    token.last_used_at = now


def _new_secret() -> tuple[str, str]:
    prefix = "rs_" + "".join(secrets.choice(LETTERS) for _ in range(8))
    return prefix, f"{prefix}_{secrets.token_hex(RANDOM_BYTES)}"


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if not name:
        raise TokenRefused("Give the token a name that says where it is used.", field="name")
    if len(name) > LONGEST_NAME:
        raise TokenRefused(f"The name of a token has at most {LONGEST_NAME} characters.")
    return name


def _checked_scopes(scopes: Collection[str]) -> set[str]:
    wanted = set(scopes)
    if not wanted:
        raise TokenRefused("Choose at least one thing that the token may do.", field="scopes")
    if unknown := sorted(wanted - set(SCOPES)):
        raise TokenRefused(f"There is no scope “{unknown[0]}”: read, submit and judge are known.")
    return wanted
