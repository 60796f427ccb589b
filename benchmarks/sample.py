"""The sample arena for benchmarks: raters with cookies, and pairs issued in advance."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from itertools import combinations, groupby, islice
from uuid import UUID

from django.core.management import call_command
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.utils import timezone

from arena.models import Arena, Comparison, Rater, Response
from arena.services.ballots import prompt_html, response_html
from arena.services.comparisons import next_comparison
from arena.views import raters

SLUG = "sample"
SEED = 2


@dataclass(frozen=True)
class Person:
    """The state of a rater's browser: cookies, CSRF token, and the keys of the issued pairs."""

    cookies: dict[str, str]
    token: str
    keys: Sequence[UUID]


def load() -> Arena:
    """Load the sample arena, publish its boards, and render its texts, as after a day's use."""
    call_command("load_sample", quiet=True)
    call_command("refresh_boards", SLUG, stdout=StringIO())
    arena = Arena.objects.get(slug=SLUG)
    for prompt in arena.prompts.all():
        prompt_html(prompt)
    for response in _responses(arena):
        response_html(response)
    return arena


def people(arena: Arena, count: int, pairs_each: int) -> list[Person]:
    """Raters with pairs issued in advance, in bulk, so that only voting is measured."""
    draw = random.Random(SEED)
    choices = list(_choices(arena))
    now = timezone.now()
    raters = _raters(count)
    comparisons = [
        Comparison(
            arena=arena,
            rater=rater,
            prompt_id=left.prompt_id,
            left_id=left.candidate_id,
            right_id=right.candidate_id,
            left_response=left,
            right_response=right,
            draw_probability=1 / len(choices),
            issued_at=now,
            expires_at=now + timedelta(hours=1),
        )
        for rater in raters
        for left, right in draw.sample(choices, pairs_each)
    ]
    Comparison.objects.bulk_create(comparisons, batch_size=1000)
    keys = iter([comparison.key for comparison in comparisons])
    return [browser_of(rater, list(islice(keys, pairs_each))) for rater in raters]


def newcomers(arena: Arena, count: int) -> list[Person]:
    """Raters with one open pair each, issued as by the voting page."""
    now = timezone.now()
    return [
        browser_of(rater, [next_comparison(arena=arena, rater=rater, now=now).key])
        for rater in _raters(count)
    ]


def browser_of(rater: Rater, keys: Sequence[UUID] = ()) -> Person:
    """The browser state of a rater: its signed cookie, and the CSRF cookie and token."""
    request = HttpRequest()
    token = get_token(request)
    response = HttpResponse()
    raters.set_rater_cookie(request, response, rater)
    cookies = {
        raters.COOKIE: response.cookies[raters.COOKIE].value,
        "csrftoken": request.META["CSRF_COOKIE"],
    }
    return Person(cookies, token, keys)


def settle() -> None:
    """Vacuum and analyse now; otherwise PostgreSQL would do so in the middle of a round."""
    if connection.vendor == "sqlite":
        return
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")


def _raters(count: int) -> list[Rater]:
    return Rater.objects.bulk_create(Rater(kind=Rater.Kind.PERSON) for _ in range(count))


def _responses(arena: Arena) -> list[Response]:
    return list(Response.objects.filter(candidate__arena=arena).order_by("pk"))


def _choices(arena: Arena) -> Iterator[tuple[Response, Response]]:
    """Every pair of answers to the same prompt, with the older answer on the left."""
    for _, answers in groupby(sorted(_responses(arena), key=_prompt), key=_prompt):
        yield from combinations(answers, 2)


def _prompt(response: Response) -> int:
    return response.prompt_id
