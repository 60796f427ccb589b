"""The names that a browser was sent: who knows them cannot vote blind on that pair any more."""

from django.http import HttpRequest

from arena.services.issuing import VoteRefused

SEEN = "names_seen"
REMEMBERED = 500  # a session is one row; of more pairs the oldest are forgotten


class NamesSeen(VoteRefused):
    sentence = "You have seen who wrote them, so your vote on this pair would not be blind."


def remember_names(request: HttpRequest, responses: str) -> None:
    """Note that the names behind a pair, as its judgements' `responses`, go to this browser."""
    others = [key for key in _seen(request) if key != responses]
    request.session[SEEN] = [*others, responses][-REMEMBERED:]


def knows_names(request: HttpRequest, responses: str) -> bool:
    return responses in _seen(request)


def _seen(request: HttpRequest) -> list[str]:
    seen: list[str] = request.session.get(SEEN, [])
    return seen
