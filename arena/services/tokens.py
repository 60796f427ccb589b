"""API tokens: `rs_<8 characters>_<64 hexadecimal digits>`, 256 random bits after a prefix that may
be shown.

Only the SHA-256 of the whole token is stored, which is enough for a secret that nobody can guess.
"""

import hashlib
import secrets
import string
from collections.abc import Collection
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q

from arena.actors import Actor, TeamPermission
from arena.errors import ServiceError
from arena.models import ApiToken, Team
from arena.services.audit import record

LONGEST_TOKEN_NAME = 100
MOST_TOKENS = 50
LAST_USE_INTERVAL = timedelta(minutes=1)  # a token's last use is written at most this often
SCOPES = (TeamPermission.READ, TeamPermission.SUBMIT, TeamPermission.JUDGE)
LETTERS = string.ascii_lowercase + string.digits
RANDOM_BYTES = 32


class TokenError(ServiceError):
    """A token that cannot be created."""


@transaction.atomic
def create_token(
    *, team: Team, name: str, scopes: Collection[str], by: Actor
) -> tuple[ApiToken, str]:
    """Return a new token of `team` and its secret, which is not stored. Raises TokenError."""
    name = _clean_token_name(name)
    if not scopes:
        raise TokenError("Choose at least one scope.", field="scopes")
    if unknown := sorted(set(scopes) - set(SCOPES)):
        raise TokenError(f"Unknown scope “{unknown[0]}”. Choose from read, submit and judge.")
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    if team.tokens.live().count() >= MOST_TOKENS:
        raise TokenError(f"A team can have {MOST_TOKENS} tokens. Revoke one first.")
    prefix = "rs_" + "".join(secrets.choice(LETTERS) for _ in range(8))
    prefix, secret = (prefix, f"{prefix}_{secrets.token_hex(RANDOM_BYTES)}")
    token = ApiToken(
        team=team,
        name=name,
        prefix=prefix,
        digest=digest_secret(secret),
        can_read=TeamPermission.READ in scopes,
        can_submit=TeamPermission.SUBMIT in scopes,
        can_judge=TeamPermission.JUDGE in scopes,
        created_by=by.user,
    )
    try:
        with transaction.atomic():
            token.save(force_insert=True)
    except IntegrityError:  # as when a form is sent twice
        raise TokenError(
            "A token with this name already exists. Revoke it, or choose another name.",
            field="name",
        ) from None
    record(team=team, by=by, action="made a token", subject=token, scopes=token.scopes)
    return token, secret


@transaction.atomic
def revoke_token(*, token: ApiToken, by: Actor, now: datetime) -> bool:
    """Revoke `token` for good; return whether this call did it."""
    revoked = ApiToken.objects.live().filter(pk=token.pk).update(revoked_at=now)
    if revoked:
        record(team=token.team, by=by, action="revoked a token", subject=token)
    return bool(revoked)


def find_token(secret: str, now: datetime) -> ApiToken | None:
    """Return the active token with this secret, with its team, or None.

    Every text takes the same path: a digest and one query. The token's last use is written at most
    once a minute.
    """
    digest = digest_secret(secret)
    token = ApiToken.objects.live().select_related("team").filter(digest=digest).first()
    if token is not None:
        _record_use(token, now)
    return token


def digest_secret(secret: str) -> str:
    """Return the stored digest of a secret, which may contain lone surrogates."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _record_use(token: ApiToken, now: datetime) -> None:
    recently = now - LAST_USE_INTERVAL
    if token.last_used_at is not None and token.last_used_at > recently:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lte=recently)
    ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
    token.last_used_at = now


def _clean_token_name(name: str) -> str:
    name = " ".join(name.split())
    if not name:
        raise TokenError("Enter a name that says where the token is used.", field="name")
    if len(name) > LONGEST_TOKEN_NAME:
        raise TokenError(f"A token name can have at most {LONGEST_TOKEN_NAME} characters.")
    return name
