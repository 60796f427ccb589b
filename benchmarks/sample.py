"""The sample arena as the benchmark uses it: raters with cookies, and pairs issued beforehand."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from itertools import combinations, groupby, islice
from uuid import UUID

from django.core import signing
from django.core.management import call_command
from django.db import connection
from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.utils import timezone

from arena.models import Arena, Comparison, Rater, Response
from arena.services.comparisons import next_comparison, prompt_html, response_html
from arena.views import raters

SLUG = "sample"
SEED = 2


@dataclass(frozen=True)
class Person:
    """A rater as its browser is: cookies, the token of its forms, and the pairs it was given."""

    cookies: dict[str, str]
    token: str
    keys: Sequence[UUID]


def load() -> Arena:
    """Load the sample arena, publish its boards, and render its texts, as a day's use would."""
    call_command("load_sample", quiet=True)
    call_command("refresh_boards", SLUG, stdout=StringIO())
    arena = Arena.objects.get(slug=SLUG)
    for prompt in arena.prompts.all():
        prompt_html(prompt)
    for response in _responses(arena):
        response_html(response)
    return arena


def people(arena: Arena, count: int, pairs_each: int) -> list[Person]:
    """Raters with their pairs issued beforehand, in one go: only voting is to be measured."""
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
    """Raters with one pair on the screen, issued as the page does it."""
    now = timezone.now()
    return [
        browser_of(rater, [next_comparison(arena=arena, rater=rater, now=now).key])
        for rater in _raters(count)
    ]


def browser_of(rater: Rater, keys: Sequence[UUID] = ()) -> Person:
    """What the browser of this rater sends: its signed cookie, and CSRF's cookie and token."""
    request = HttpRequest()
    token = get_token(request)
    signer = signing.get_cookie_signer(salt=raters.COOKIE)
    cookies = {
        raters.COOKIE: signer.sign(str(rater.pk)),
        "csrftoken": request.META["CSRF_COOKIE"],
    }
    return Person(cookies, token, keys)


def settle() -> None:
    """Let PostgreSQL know what it holds; otherwise it would find out in the middle of a round."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")


def _raters(count: int) -> list[Rater]:
    return Rater.objects.bulk_create(Rater(kind=Rater.Kind.PERSON) for _ in range(count))


def _responses(arena: Arena) -> list[Response]:
    return list(Response.objects.filter(candidate__arena=arena).order_by("pk"))


def _choices(arena: Arena) -> Iterator[tuple[Response, Response]]:
    """Every two answers to the same prompt, the older candidate's left."""
    for _, answers in groupby(sorted(_responses(arena), key=_prompt), key=_prompt):
        yield from combinations(answers, 2)


def _prompt(response: Response) -> int:
    return response.prompt_id
