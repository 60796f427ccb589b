"""Signing in, and no faster than a person types."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from arena.services.limits import allow
from arena.views.visitors import client_address

TRIES, WINDOW = 20, timedelta(minutes=5)


class SignIn(LoginView):
    """Django's sign-in, with a limit on tries from one address.

    Whoever is signed in is told so, and may sign out: boards lead here without knowing who reads.
    """

    template_name = "arena/sign_in.html"

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        key = f"sign-in:{client_address(request)}"
        if not allow(key=key, limit=TRIES, window=WINDOW, now=timezone.now()):
            context = {"form": self.get_form_class()(request), "too_many": True}
            return render(request, self.template_name, context, status=429)
        return super().post(request, *args, **kwargs)
