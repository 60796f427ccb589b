"""What every request passes through that is Ringside's own."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


def forget_impossible_cookies(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Drop cookies with a NUL: nobody was given one, and PostgreSQL cannot even look it up."""

    def middleware(request: HttpRequest) -> HttpResponse:
        for name in [name for name, value in request.COOKIES.items() if "\0" in value]:
            del request.COOKIES[name]
        return get_response(request)

    return middleware
