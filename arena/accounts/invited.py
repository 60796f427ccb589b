"""The invitation that this browser was last led here by, and the account that it makes.

The session holds the invitation's number and not the secret of its link: sessions are in the
database, where no secret is kept.
"""

from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from arena.models import Invitation
from arena.services import invitations

SESSION_KEY = "invitation"


def remember_invitation(request: HttpRequest, invitation: Invitation | None) -> None:
    """Keep which invitation a link led to; 0 for a link that leads to none."""
    request.session[SESSION_KEY] = invitation.pk if invitation else 0


def forget_invitation(request: HttpRequest) -> None:
    request.session.pop(SESSION_KEY, None)


def current_invitation(request: HttpRequest) -> Invitation | None:
    """Return the invitation that this browser opened, whether or not it can still be used."""
    found = Invitation.objects.select_related("team", "created_by")
    return found.filter(pk=_key_of(request)).first()


def is_invited(request: HttpRequest) -> bool:
    """Did this browser open an invitation that can still be used?"""
    key = _key_of(request)
    return bool(key) and Invitation.objects.open(timezone.now()).filter(pk=key).exists()


def may_sign_up(request: HttpRequest) -> bool:
    """Does the invitation that this browser opened make an account?"""
    key = _key_of(request)
    return bool(key) and invitations.makes_an_account(invitation_id=key, now=timezone.now())


def note_account(request: HttpRequest, user: Any) -> None:
    """Note that the invitation has made the account `user`. Raises InvitationRefused."""
    key = _key_of(request)
    invitations.note_account(invitation_id=key, user=user, now=timezone.now())


def _key_of(request: HttpRequest) -> int:
    return int(request.session.get(SESSION_KEY, 0))
