"""Callers of the REST API in tests, and teams with arenas of every visibility."""

from typing import Any

from django.test import Client

from arena.actors import Actor
from arena.models import Arena, Candidate, Role, Team
from arena.services.tokens import create_token
from tests.factories import make_arena, make_candidate, make_member

ROOT = "/api/v1/"
ALL_SCOPES = ("read", "submit", "judge")


class Caller:
    """A client of the API: with a token, signed in, or nobody."""

    def __init__(self, *, secret: str = "", user: Any = None) -> None:
        self.client = Client(raise_request_exception=False)
        self.headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        if user is not None:
            self.client.force_login(user)

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(ROOT + path, headers=self._headers(headers))

    def post(self, path: str, data: Any = None, **headers: str) -> Any:
        return self._send("post", path, data, headers)

    def patch(self, path: str, data: Any, **headers: str) -> Any:
        return self._send("patch", path, data, headers)

    def delete(self, path: str) -> Any:
        return self.client.delete(ROOT + path, headers=self.headers)

    def _send(self, method: str, path: str, data: Any, headers: dict[str, str]) -> Any:
        body = {} if data is None else data
        return getattr(self.client, method)(
            ROOT + path, body, content_type="application/json", headers=self._headers(headers)
        )

    def _headers(self, more: dict[str, str]) -> dict[str, str]:
        return self.headers | {name.replace("_", "-"): value for name, value in more.items()}


def token_of(team: Team, *scopes: str) -> Caller:
    """A program with a token of `team`; with every scope unless some are named."""
    by, name = Actor(user=None, display_name="a test"), f"CI {team.tokens.count() + 1}"
    _, secret = create_token(team=team, name=name, scopes=scopes or ALL_SCOPES, by=by)
    return Caller(secret=secret)


def member_of(team: Team, role: str = Role.MEMBER) -> Caller:
    return Caller(user=make_member(team, role).user)


def team_arena(team: Team, visibility: str = "public", **fields: Any) -> Arena:
    """An arena of `team` with three candidates that answer four prompts."""
    return make_arena(team=team, visibility=visibility, **fields)


def undisclosed(arena: Arena, name: str = "secret-recipe", **fields: Any) -> Candidate:
    """A candidate whose name is its team's own."""
    hidden = {"disclosed_at": None, "private_until_votes": 100, "system_prompt": "Hush."}
    return make_candidate(arena, name, **hidden | fields)
