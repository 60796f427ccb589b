"""Pages stored for everybody still recognise signed-in readers, by a harmless cookie; and what
pages load is compressed."""

import gzip
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.arena.teams import signed_in
from tests.factories import PASSWORD, make_arena, make_user
from tests.ranking.helpers import fill, publish

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


def sign_in(client: Client, user: Any) -> Any:
    return client.post(
        reverse("sign_in"), {"login": user.get_username(), "password": PASSWORD, "next": ""}
    )


def test_signing_in_sets_the_cookie_and_signing_out_removes_it(settings: Any) -> None:
    settings.SESSION_COOKIE_SECURE = True
    client, user = Client(), make_user()
    client.get(reverse("sign_in"), secure=True)
    assert "signed_in" not in client.cookies
    assert sign_in(client, user).status_code == 302
    told = client.cookies["signed_in"]
    assert (told.value, told["samesite"], told["secure"]) == ("1", "Lax", True)
    assert not told["httponly"]
    assert told["max-age"] == client.cookies["sessionid"]["max-age"]
    client.post(reverse("sign_out"))
    assert client.cookies["signed_in"].value == ""
    assert client.cookies["signed_in"]["max-age"] == 0


def test_a_cookie_that_no_session_stands_behind_is_dropped() -> None:
    client = Client()
    client.cookies["signed_in"] = "1"
    client.cookies["sessionid"] = "gone"
    client.get(reverse("sign_in"))
    assert client.cookies["signed_in"].value == ""


def test_existing_sessions_get_the_cookie_on_the_next_page() -> None:
    client = signed_in(make_user())
    assert client.get(reverse("teams")).cookies["signed_in"].value == "1"
    assert "signed_in" not in client.get(reverse("teams")).cookies


@pytest.mark.parametrize("name", ["index", "board"])
def test_a_stored_page_has_words_for_every_reader(name: str) -> None:
    arena = make_arena(2, 1)
    address = reverse(name, args=[arena.slug] if name == "board" else [])
    Client().get(address)
    answer = signed_in(make_user()).get(address)
    page = answer.text
    assert "js/page.js" in page.split("</head>")[0]
    for reader, words in (("anybody", "Account"), ("signed-in", ""), ("signed-out", "Sign in")):
        assert f'class="for-{reader}">{words}' in page


def test_a_stored_page_asks_no_session() -> None:
    arena = make_arena(2, 1)
    fill(arena, rounds=1)
    publish(arena)
    address = reverse("about", args=[arena.slug])  # in one language
    Client().get(address)
    answer = signed_in(make_user()).get(address)
    assert "signed_in" not in answer.cookies
    assert "Cookie" not in answer.headers["Vary"]


@pytest.mark.parametrize("sign_up", ["open", "closed"])
def test_a_newcomer_is_led_to_sign_up_where_it_is_open(settings: Any, sign_up: str) -> None:
    settings.SIGN_UP = sign_up
    page = Client().get(reverse("index")).text
    assert ("You sign in or create an account first" in page) == (sign_up == "open")
    assert ("You sign in first" in page) == (sign_up == "closed")
    page = Client().get(reverse("sign_in")).text
    main = page.partition("<main")[2].partition("</main")[0]
    assert ('href="/sign-up/' in main) == (sign_up == "open")


def test_other_pages_link_to_the_account_in_the_header() -> None:
    page = signed_in(make_user()).get(reverse("teams")).text
    header = page.partition("<header")[2].partition("</header>")[0]
    assert f'href="{reverse("sign_in")}"' in header
    assert "Your account" in header
    assert "Sign out</button>" in signed_in(make_user()).get(reverse("sign_in")).text


def test_what_pages_load_is_compressed_for_browsers_that_accept_it(client: Client) -> None:
    for name in ("css/base.css", "js/page.js", "plotly/plotly.min.js"):
        plain = client.get(f"/static/{name}")
        text = b"".join(plain.streaming_content)
        plain.close()
        for _ in range(2):  # the second time it is kept
            packed = client.get(f"/static/{name}", headers={"accept-encoding": "gzip, br"})
            assert packed["Content-Encoding"] == "gzip"
            assert "Accept-Encoding" in packed["Vary"]
            assert int(packed["Content-Length"]) < len(text) / 2
            assert gzip.decompress(packed.content) == text
        assert not plain.has_header("Content-Encoding")
    png = client.get("/static/apple-touch-icon.png", headers={"accept-encoding": "gzip"})
    assert not png.has_header("Content-Encoding")
    png.close()
