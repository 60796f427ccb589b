"""Who is asking: the rater behind a request, and the address it came from."""

from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from arena.models import Rater
from arena.services.limits import allow
from arena.services.raters import rater_of_person

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
        return rater_of_person(user_id=request.user.pk)
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
    """Return whom limits count: the client's IPv4 address, or the /64 of its IPv6 address.

    X-Forwarded-For counts only behind trusted proxies.
    """
    hops = request.headers.get("X-Forwarded-For", "").split(",")
    if 0 < settings.TRUSTED_PROXIES <= len(hops):
        return _counted_as(hops[-settings.TRUSTED_PROXIES].strip()[:64])
    return _counted_as(str(request.META["REMOTE_ADDR"]))


def _counted_as(address: str) -> str:
    """Whoever has one IPv6 address has all of its /64; an IPv4 address may be written as IPv6."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> 64 << 64)}/64"
