"""What a request needs before its endpoint looks at anything: a scope, or at least a name."""

from typing import Any

from rest_framework.exceptions import NotAuthenticated, PermissionDenied
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from arena.access import Ability, Actor

NOT_YOURS = "This is for another team, or your role in the team does not allow it."
SIGN_IN = "This needs a token of the team, or somebody who is signed in."


class HasScope(BasePermission):
    """A token must have the scope that the endpoint names; nobody may only read."""

    def has_permission(self, request: Request, view: Any) -> bool:
        ability = view.ability
        if ability is None:
            return True
        check_scope(view.actor, ability)
        is_open = view.is_open and request.method in SAFE_METHODS
        if not view.actor.key and not is_open:
            raise NotAuthenticated(SIGN_IN)
        return True


def check_scope(actor: Actor, ability: Ability) -> None:
    """Refuse a token without the scope, whatever it asks for."""
    if actor.has_scope(ability):
        return
    if ability == Ability.MANAGE:
        raise PermissionDenied("No token may do this: an owner of the team does it, signed in.")
    raise PermissionDenied(f"This token lacks the scope {ability}. Make one that has it.")


def require(actor: Actor, ability: Ability, team: Any) -> None:
    """Refuse whoever does not have `ability` for `team`; nobody is asked for a name first."""
    check_scope(actor, ability)
    refuse_unless(actor, actor.may(ability, team))


def refuse_unless(actor: Actor, may: bool) -> None:
    """Raise 401 for nobody and 403 for everybody else, unless `may`."""
    if may:
        return
    if not actor.key:
        raise NotAuthenticated(SIGN_IN)
    raise PermissionDenied(NOT_YOURS)
