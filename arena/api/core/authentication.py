"""Who asks: the bearer of a team's token, or the person signed in on the site."""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from arena.models import ApiToken
from arena.services.tokens import find_token

SCHEME = "Bearer"
UNKNOWN = "This token is not known here, or it was revoked. A team's owner makes tokens."
MALFORMED = "The header Authorization must read: Bearer, one space, and a token (rs_...)."


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer rs_...`. A token that is not known is never taken for nobody."""

    def authenticate(self, request: Request) -> tuple[Any, ApiToken] | None:
        """Return (nobody, the token); None where the header is absent."""
        header = request.headers.get("Authorization")
        if header is None:
            return None
        scheme, _, secret = header.partition(" ")
        if scheme.lower() != SCHEME.lower() or not secret or not secret.isascii():
            raise AuthenticationFailed(MALFORMED)
        token = find_token(secret, now=timezone.now())
        if token is None:
            raise AuthenticationFailed(UNKNOWN)
        return AnonymousUser(), token

    def authenticate_header(self, request: Request) -> str:
        return f'{SCHEME} realm="Ringside"'


class SiteSession(SessionAuthentication):
    """The session of the site, as in the browser; writes need its CSRF token."""
