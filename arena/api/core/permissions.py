"""What a sender may do: 401 or 403 otherwise."""

from typing import Any

from rest_framework.exceptions import NotAuthenticated, PermissionDenied
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from arena.actors import Actor, TeamPermission

NO_ACCESS = "This belongs to another team, or your role in the team does not allow it."
SIGN_IN = "Send a team token, or sign in."


class HasScope(BasePermission):
    """Tokens need the scope that the endpoint names; anonymous requests can only read."""

    def has_permission(self, request: Request, view: Any) -> bool:
        permission = view.permission
        if permission is None:
            return True
        check_scope(view.actor, permission)
        is_open = view.is_open and request.method in SAFE_METHODS
        if not view.actor.key and not is_open:
            raise NotAuthenticated(SIGN_IN)
        return True


def check_scope(actor: Actor, permission: TeamPermission) -> None:
    """Raise PermissionDenied for a token without the scope."""
    if actor.has_scope(permission):
        return
    if permission == TeamPermission.MANAGE:
        raise PermissionDenied("Tokens cannot do this. A signed-in owner of the team can.")
    raise PermissionDenied(f"This token lacks the scope {permission}.")


def require(actor: Actor, permission: TeamPermission, team: Any) -> None:
    """Raise PermissionDenied without `permission`; for an anonymous actor, NotAuthenticated."""
    check_scope(actor, permission)
    refuse_unless(actor, actor.may(permission, team))


def refuse_unless(actor: Actor, allowed: bool) -> None:
    """Unless `allowed`, raise NotAuthenticated for an anonymous actor, else PermissionDenied."""
    if allowed:
        return
    if not actor.key:
        raise NotAuthenticated(SIGN_IN)
    raise PermissionDenied(NO_ACCESS)
