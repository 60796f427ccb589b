"""The rater of a request, and the rater cookie."""

from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django_htmx.middleware import HtmxDetails

from arena.models import Rater
from arena.services.rate_limits import allow, client_address
from arena.services.voting import rater_of_person

COOKIE = "rater"
COOKIE_AGE = timedelta(days=365)


class HtmxRequest(HttpRequest):
    """A request with the attribute that django-htmx's middleware adds."""

    htmx: HtmxDetails


class TooManyRatersError(Exception):
    """More new raters from one address than an hour allows."""


def known_rater_id(request: HttpRequest) -> int | None:
    """Return the rater id in the signed cookie, without a database query."""
    try:
        return int(request.get_signed_cookie(COOKIE, "", max_age=COOKIE_AGE) or "")
    except ValueError:
        return None


def find_rater(request: HttpRequest) -> Rater | None:
    """Return the rater of the signed-in person, or the anonymous rater in the browser's cookie."""
    if request.user.is_authenticated:
        return Rater.objects.filter(user=request.user).first()
    rater_id = known_rater_id(request)
    if rater_id is None:
        return None
    return Rater.objects.filter(pk=rater_id, user=None, arena=None).first()


def find_or_create_rater(request: HttpRequest) -> Rater:
    """Like `find_rater`, with a new rater for a first visit; raises TooManyRatersError."""
    if rater := find_rater(request):
        return rater
    if request.user.is_authenticated:
        return rater_of_person(user_id=request.user.pk)
    if not allow(
        key=f"new-raters:{client_address(request)}",
        limit=settings.NEW_RATERS_PER_HOUR,
        window=timedelta(hours=1),
        now=timezone.now(),
    ):
        raise TooManyRatersError
    return Rater.objects.create(kind=Rater.Kind.PERSON)


def set_rater_cookie(response: HttpResponse, rater: Rater) -> None:
    """Store an anonymous rater's id in the browser; signed-in people need no cookie."""
    if rater.user_id is None:
        response.set_signed_cookie(
            COOKIE,
            str(rater.pk),
            max_age=COOKIE_AGE,
            httponly=True,
            samesite="Lax",
            secure=settings.SESSION_COOKIE_SECURE,
        )
