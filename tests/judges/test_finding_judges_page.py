"""From any page one finds the way in, the way out, and where runs of judges are ordered."""

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import make_arena
from tests.judges.helpers import page_text, signed_in

pytestmark = pytest.mark.django_db


def header(html: str) -> str:
    return html[html.index("<header") : html.index("</header>")]


def test_a_stranger_is_led_to_the_sign_in_and_back(client: Client) -> None:
    arena = make_arena()
    runs = reverse("judge_runs", args=[arena.slug])
    assert f'href="/sign-in/?next={runs}%3Fpage%3D2"' in header(page_text(client, f"{runs}?page=2"))


def test_whoever_is_signed_in_signs_out_by_a_form() -> None:
    ann = signed_in("ann")
    html = header(page_text(ann, reverse("judges")))
    assert '<form method="post" action="/sign-out/">' in html
    assert 'title="Signed in as ann"' in html
    assert "Sign in<" not in html
    assert ann.post("/sign-out/").url == "/"
    assert "Sign in<" in header(page_text(ann, reverse("judges")))


def test_a_stored_page_leads_to_the_account_of_whoever_reads_it(client: Client) -> None:
    account = '<a href="/sign-in/"> <span class="for-anybody">Account</span>'
    assert account in " ".join(header(page_text(client, "/")).split())
    assert header(page_text(signed_in("bob"), "/")) == header(page_text(client, "/"))
    assert "signed in as <strong>ann</strong>" in page_text(signed_in("ann"), "/sign-in/")
    assert "<h1>Sign in</h1>" in page_text(client, "/sign-in/")


def test_no_foreign_address_is_led_to_from_the_account() -> None:
    assert "evil.example" not in page_text(signed_in("ann"), "/sign-in/?next=https://evil.example/")


def test_staff_is_offered_an_order_in_each_arena(client: Client) -> None:
    one = make_arena(slug="one", name="One")
    order = reverse("order_run", args=[one.slug])
    boss = signed_in("boss", staff=True)
    assert f'href="{order}">Start a judge run</a>' in page_text(boss, reverse("judges"))
    make_arena(slug="two", name="Two")
    assert f'href="{order}">Start a judge run in One</a>' in page_text(boss, reverse("judges"))
    assert order not in page_text(client, reverse("judges"))


def test_without_a_judge_the_runs_of_arenas_are_linked(client: Client) -> None:
    arena = make_arena()
    assert reverse("judge_runs", args=[arena.slug]) in page_text(client, reverse("judges"))
