"""What every answer says to browsers, and how cookies are kept."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import PASSWORD, known, make_user
from tests.ops.running import manage
from tests.ops.test_settings import PRODUCTION
from tests.security.requests import ask, path_of
from tests.security.table import ROWS
from tests.security.world import make_world

pytestmark = pytest.mark.slow
# Never shown by the site: a file to keep, whose own policy allows one script by its digest.
DOWNLOADED = {"api_export_leaderboard"}
IN_FRAMES = {"embed_board", "badge"}
INLINE = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>(?!\s*</script>)|\son\w+=\"|\sstyle=\"|<style")
# A canonical address is a statement, not a request.
LINK = r"link(?! rel=\"canonical\")"
ELSEWHERE = re.compile(rf"<(?:script|{LINK}|img|iframe)[^>]*(?:src|href)=\"(?:https?:)?//")
DATA = re.compile(r'<script[^>]*type="application/json"[^>]*>')


def directives(answer: Any) -> dict[str, list[str]]:
    parts = [part.split() for part in answer["Content-Security-Policy"].split(";")]
    return {name: sources for name, *sources in parts}


@pytest.mark.any_database
@pytest.mark.django_db
def test_every_answer_forbids_what_it_does_not_need() -> None:
    """Pages and API, for the owner and for nobody, errors included."""
    world = make_world()
    for (name, method), row in ROWS.items():
        for caller in ("owner", "nobody"):
            answer = ask(world.callers[caller], method, path_of(name, world.at), row.body)
            case = f"{method} {name} by {caller}: {answer.status_code}"
            policy = directives(answer)
            assert not [source for source in loaded(policy) if "unsafe" in source or source == "*"]
            assert policy["default-src"] in (["'self'"], ["'none'"]), case
            assert answer["X-Content-Type-Options"] == "nosniff", case
            assert answer["Referrer-Policy"] == "same-origin", case
            assert answer["Cross-Origin-Opener-Policy"] == "same-origin", case
            assert not {"X-Powered-By", "Server"} & {name.title() for name in answer.headers}, case
            if name not in IN_FRAMES or answer.status_code != 200:
                assert answer["X-Frame-Options"] == "DENY", case
                assert policy["frame-ancestors"] == ["'none'"], case


def loaded(policy: dict[str, list[str]]) -> list[str]:
    """From where anything is loaded; who may frame a page is another matter."""
    return [one for name, sources in policy.items() if name != "frame-ancestors" for one in sources]


@pytest.mark.django_db
def test_no_page_has_what_the_policy_would_refuse() -> None:
    world = make_world()
    for (name, method), row in ROWS.items():
        answer = ask(world.callers["operator"], method, path_of(name, world.at), row.body)
        assert answer.status_code == row.expected("operator", "public"), name
        if answer.get("Content-Type", "").startswith("text/html"):
            text = answer.whole.decode(errors="replace")
            if name in DOWNLOADED:
                assert answer["Content-Disposition"].startswith("attachment"), name
            else:
                assert not INLINE.search(DATA.sub("", text)), name
            assert not ELSEWHERE.search(text), name


@pytest.mark.any_database
@pytest.mark.django_db
def test_a_frame_elsewhere_can_do_nothing() -> None:
    world = make_world()
    for name in IN_FRAMES:
        policy = directives(ask(world.callers["owner"], "get", path_of(name, world.at)))
        assert policy["default-src"] == ["'none'"], name
        assert "script-src" not in policy, name


@pytest.mark.any_database
@pytest.mark.django_db
def test_cookies_are_out_of_reach_of_scripts_and_other_sites(settings: Any) -> None:
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    world = make_world()
    user, client = make_user(), Client()
    known(client).get(reverse("vote", args=[world.arena.slug]))
    client.post(reverse("sign_in"), {"login": user.username, "password": PASSWORD})
    kept = {name: dict(morsel) for name, morsel in client.cookies.items()}
    assert kept.keys() >= {"rater", "sessionid", "csrftoken"}
    for name, cookie in kept.items():
        assert (cookie["secure"], cookie["samesite"]) == (True, "Lax"), name
        assert cookie["httponly"] or name in ("csrftoken", "signed_in"), name
        assert not cookie["domain"], name


def test_production_is_reached_by_https_alone(tmp_path: Path) -> None:
    code = (
        "import json; from django.test import Client; host = {'HTTP_HOST': 'arena.example.org'};"
        "a = Client(**host).get('/healthz', secure=True); b = Client(**host).get('/sign-in/');"
        "from django.conf import settings as s;"
        "print(json.dumps([a['Strict-Transport-Security'], b.status_code, b['Location'],"
        " s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.SESSION_COOKIE_HTTPONLY, s.DEBUG]))"
    )
    done = manage("shell", "-c", code, home=tmp_path, **PRODUCTION)
    assert json.loads(done.stdout.splitlines()[-1]) == [
        f"max-age={365 * 24 * 3600}",
        301,
        "https://arena.example.org/sign-in/",
        True,
        True,
        True,
        False,
    ], done.stderr
