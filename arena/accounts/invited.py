"""The invitation that this browser was last led here by.

The session holds the invitation's number and not the secret of its link: sessions are in the
database, where no secret is kept.
"""

from django.http import HttpRequest
from django.utils import timezone

from arena.models import Invitation

SESSION_KEY = "invitation"


def remember_invitation(request: HttpRequest, invitation: Invitation | None) -> None:
    """Keep which invitation a link led to; 0 for a link that leads to none."""
    request.session[SESSION_KEY] = invitation.pk if invitation else 0


def forget_invitation(request: HttpRequest) -> None:
    request.session.pop(SESSION_KEY, None)


def current_invitation(request: HttpRequest) -> Invitation | None:
    """Return the invitation that this browser opened, whether or not it can still be used."""
    invitations = Invitation.objects.select_related("team", "created_by")
    return invitations.filter(pk=request.session.get(SESSION_KEY, 0)).first()


def is_invited(request: HttpRequest) -> bool:
    """Did this browser open an invitation that can still be used?"""
    key = request.session.get(SESSION_KEY, 0)
    return bool(key) and Invitation.objects.open(timezone.now()).filter(pk=key).exists()
