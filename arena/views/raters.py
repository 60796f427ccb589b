"""Who votes in this browser: the rater in its cookie, and the link into a private arena."""

from datetime import date, timedelta
from functools import lru_cache

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from arena.models import Arena, Rater
from arena.permissions import is_raters_link
from arena.services import comparisons
from arena.services.candidates import with_ballots
from arena.services.comparisons import NOBODY
from arena.services.rate_limits import allow, client_address
from arena.services.raters import create_anonymous_rater, rater_of_person

COOKIE = "rater"
COOKIE_AGE = timedelta(days=365)
LINK_COOKIE = "invitation"


class TooManyRatersError(Exception):
    """More new raters from one address than an hour allows."""


def raters_in_cookie(request: HttpRequest) -> tuple[int | None, int | None]:
    """Return the ids in the signed cookie: the browser's anonymous rater, and the one of whoever
    voted here signed in."""
    return _signed_ids(request.COOKIES.get(COOKIE, ""), timezone.now().date())


@lru_cache(maxsize=1024)
def _signed_ids(cookie: str, today: date) -> tuple[int | None, int | None]:
    """Check a cookie's signature and age, once a day: the same one comes with each vote."""
    request = HttpRequest()
    request.COOKIES[COOKIE] = cookie
    ids = request.get_signed_cookie(COOKIE, "", max_age=COOKIE_AGE) or ""
    anonymous, _, signed_in = (int(i) if i.isdecimal() else None for i in ids.partition("-"))
    return anonymous, signed_in


def known_rater_id(request: HttpRequest) -> int | None:
    """Return the anonymous rater's id in the signed cookie, without a database query."""
    return raters_in_cookie(request)[0]


def other_rater_of_cookie(request: HttpRequest, rater: Rater) -> int:
    """Return the id of the browser's other rater, or NOBODY.

    They stay two: a vote keeps its channel, and what was done here before, perhaps by somebody
    else, is not the account's.
    """
    anonymous, signed_in = raters_in_cookie(request)
    return (anonymous if rater.user_id else signed_in) or NOBODY


def find_anonymous(request: HttpRequest, rater: Rater | None) -> list[Rater]:
    """Return the browser's anonymous rater, if `rater` is that of a signed-in person."""
    if rater is None or rater.user_id is None:
        return []
    return list(Rater.objects.filter(pk=known_rater_id(request) or NOBODY, user=None, arena=None))


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
    return create_anonymous_rater()


def can_go_on(request: HttpRequest, arena: Arena, rater: Rater | None) -> bool:
    """Return whether a pair is left for whoever asks, known as `rater` if they have voted."""
    rater = rater or Rater(pk=NOBODY, kind=Rater.Kind.PERSON, user_id=request.user.pk)
    return not rater.blocked_at and comparisons.is_pair_left(
        arena=arena, rater=rater, now=timezone.now(), also=other_rater_of_cookie(request, rater)
    )


def set_rater_cookie(request: HttpRequest, response: HttpResponse, rater: Rater) -> None:
    """Store the rater's id in the browser, beside that of its other rater."""
    also = other_rater_of_cookie(request, rater) or ""
    response.set_signed_cookie(
        COOKIE,
        f"{also}-{rater.pk}" if rater.user_id else f"{rater.pk}-{also}",
        max_age=COOKIE_AGE,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )


@never_cache
@require_safe
def follow_raters_link(request: HttpRequest, slug: str, secret: str) -> HttpResponse:
    """Keep the link's secret in a cookie that only the arena's voting pages get, and go there."""
    if find_arena_by_link(slug, secret) is None:
        raise Http404("There is no such link.")
    response = redirect("vote", slug)
    response.set_cookie(
        LINK_COOKIE,
        secret,
        max_age=COOKIE_AGE,
        path=reverse("vote", args=[slug]),
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )
    return response


def find_arena_by_link(slug: str, secret: str) -> Arena | None:
    arena = with_ballots(Arena.objects.revealed()).filter(slug=slug).first() if secret else None
    if arena is None or not is_raters_link(arena, secret):
        return None
    arena.is_opened_by_link = True
    return arena
