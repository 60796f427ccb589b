"""Who sends a request: a token, or a session of the site."""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from arena.models import ApiToken
from arena.services.tokens import find_token

SCHEME = "Bearer"
UNKNOWN = "This token does not exist or was revoked. An owner of the team can create a new one."
MALFORMED = "The Authorization header must be “Bearer”, one space, and a token (rs_...)."


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer rs_...`. An unknown token is an error, not an anonymous request."""

    def authenticate(self, request: Request) -> tuple[Any, ApiToken] | None:
        """Return an anonymous user and the token; None without the header."""
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
    """The browser's session; writes need its CSRF token."""
