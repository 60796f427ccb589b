"""The product's pages, and some that take as long as they are told, or tell what they were sent."""

import time
from collections.abc import Iterator

from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt

from arena.services.rate_limits import client_address


def slow(request: HttpRequest, milliseconds: int) -> HttpResponse:
    time.sleep(milliseconds / 1000)
    return HttpResponse("slow but sure")


@csrf_exempt
def echo(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"body": request.body.decode(), "address": client_address(request)})


def pieces(request: HttpRequest) -> StreamingHttpResponse:
    def lines() -> Iterator[bytes]:
        for number in range(300):
            yield b"%07d\n" % number * 1000

    return StreamingHttpResponse(lines())


def big(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b"x" * 3_000_000)


urlpatterns = [
    path("slow/<int:milliseconds>/", slow),
    path("echo/", echo),
    path("pieces/", pieces),
    path("big/", big),
    path("", include("arena.urls")),
]
