"""Who is asking: the rater behind a request, and the address it came from."""

from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from arena.models import Rater
from arena.services.limits import allow

COOKIE = "rater"
COOKIE_AGE = timedelta(days=365)


class TooManyRaters(Exception):
    """More new raters from one address than an hour allows."""


def known_rater_id(request: HttpRequest) -> int | None:
    """Return the rater's id that this browser's signed cookie holds, asking no database."""
    try:
        return int(request.get_signed_cookie(COOKIE, "", max_age=COOKIE_AGE) or "")
    except ValueError:
        return None


def find_rater(request: HttpRequest) -> Rater | None:
    """Return the rater behind the request: the signed-in person's, else this browser's."""
    if request.user.is_authenticated:
        return Rater.objects.filter(user=request.user).first()
    rater_id = known_rater_id(request)
    if rater_id is None:
        return None
    return Rater.objects.filter(pk=rater_id, user=None, arena=None).first()


def find_or_make_rater(request: HttpRequest) -> Rater:
    """Return the rater behind the request, making one for a first visit."""
    if rater := find_rater(request):
        return rater
    if request.user.is_authenticated:
        return Rater.objects.get_or_create(user=request.user, defaults={"kind": Rater.Kind.PERSON})[
            0
        ]
    if not allow(
        key=f"new-raters:{client_address(request)}",
        limit=settings.NEW_RATERS_PER_HOUR,
        window=timedelta(hours=1),
        now=timezone.now(),
    ):
        raise TooManyRaters
    return Rater.objects.create(kind=Rater.Kind.PERSON)


def remember(response: HttpResponse, rater: Rater) -> None:
    """Give an anonymous rater's browser the cookie that names it."""
    if rater.user_id is None:
        response.set_signed_cookie(
            COOKIE,
            str(rater.pk),
            max_age=COOKIE_AGE,
            httponly=True,
            samesite="Lax",
            secure=settings.SESSION_COOKIE_SECURE,
        )


def client_address(request: HttpRequest) -> str:
    """Return the address of the client; X-Forwarded-For counts only behind trusted proxies."""
    hops = request.headers.get("X-Forwarded-For", "").split(",")
    if 0 < settings.TRUSTED_PROXIES <= len(hops):
        return hops[-settings.TRUSTED_PROXIES].strip()[:64]
    return str(request.META["REMOTE_ADDR"])
