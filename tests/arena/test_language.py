"""Raters read in the language of their browser or the switch; all other pages stay English."""

import html
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.template import engines
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils.translation import override

from arena import language
from arena.models import Arena, Prompt
from arena.views.arena_context import READ_ONLY
from arena.views.prompts import _too_large
from ranking.models import HomePage
from ranking.templatetags.ranking_tags import grouped
from tests.factories import known, make_arena

sys.path.append(str(Path(settings.BASE_DIR) / ".ci"))
import messages  # the command that collects sentences

pytestmark = pytest.mark.any_database
FRENCH = {"Accept-Language": "fr-CH, fr;q=0.9, en;q=0.8"}
CATALOG = Path(settings.BASE_DIR) / "arena/locale/fr/LC_MESSAGES/django.po"
TEMPLATES = Path(settings.BASE_DIR) / "templates"

ACCOUNT_PAGES = ("sign_in", "sign_up", "account_reset_password", "account_reset_password_done")


@pytest.fixture
def reader() -> Client:
    return Client(headers=FRENCH)


def test_every_sentence_is_translated_and_compiled(tmp_path: Path) -> None:
    copy = tmp_path / "fr" / "LC_MESSAGES" / "django.po"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(CATALOG.read_bytes())
    assert CATALOG in messages.CATALOGS
    assert messages.update(copy) == CATALOG.with_suffix(".mo").read_bytes()
    assert copy.read_text() == CATALOG.read_text()
    with copy.open("rb") as file:
        found = {message.id: message.string for message in messages.read_po(file) if message.id}
    assert len(found) > 100
    lacking = [text for text, said in found.items() if not said or "" in (said, said[-1])]
    assert not lacking


def own_texts(name: str) -> str:
    """What a template says by itself: without tags, translated sentences, code and keys."""
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    text = re.sub(r"{#.*?#}|{% comment %}.*?{% endcomment %}", "", text, flags=re.S)
    text = re.sub(r"{% blocktranslate .*?{% endblocktranslate %}", "", text, flags=re.S)
    text = re.sub(r"<(script|style|svg|code|kbd)\b.*?</\1>", "", text, flags=re.S)
    return re.sub(r"{%.*?%}|{{.*?}}|<[^>]*>|Ringside", " ", text, flags=re.S)


def test_templates_for_raters_have_no_untranslated_text() -> None:
    names = [str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.html")]
    links = {
        name: re.findall(
            r'{% (extends|include) "([^"]+)"', (TEMPLATES / name).read_text(encoding="utf-8")
        )
        for name in names
    }
    seen = {"translated.html", "ranking/_vote_facts.html"}
    for _ in range(4):
        seen |= {
            name for name in names if seen & {to for how, to in links[name] if how == "extends"}
        }
        seen |= {to for name in seen for _, to in links[name]} - {"base.html"}
    assert len(seen) > 30
    told = {name: " ".join(own_texts(name).split()) for name in seen}
    assert {name: text for name, text in told.items() if re.search("[A-Za-z]{3}", text)} == {}


def test_placeholders_are_the_same_in_both_languages() -> None:
    with CATALOG.open("rb") as file:
        for message in messages.read_po(file):
            texts, said = ([x] if isinstance(x, str) else x for x in (message.id, message.string))
            names = [{*re.findall(r"%\(\w+\)s|\{\w+\}", text)} for text in (*texts, *said)]
            assert all(some == names[0] for some in names), message.id


def test_a_sentence_with_a_percent_sign_is_translated() -> None:
    page = engines["django"].from_string('{% load i18n %}{% translate "95% interval" %}')
    with override("fr"):
        assert "Intervalle" in page.render()


@pytest.mark.django_db
def test_roles_of_a_conversation_are_in_the_readers_language(reader: Client) -> None:
    arena = make_arena(2, 1)
    roles = ("system", "user", "assistant", "user")
    said = 'User\n\n```\n<p class="turn-role">User\n```'
    Prompt.objects.update(messages=[{"role": role, "content": said} for role in roles], html="")
    page = reader.get(reverse("vote", args=[arena.slug])).text
    assert "<summary>Système</summary>" in page
    assert page.count('<p class="turn-role">Utilisateur</p>') == 2
    assert page.count('<p class="turn-role">Assistant</p>') == 1
    assert 'aria-label="Code 1"' in page
    assert page.count('<p dir="auto">User</p>') == page.count('turn-role"&gt;User') == 4


@pytest.mark.django_db
def test_reasons_of_new_arenas_are_translated_and_those_of_teams_are_not(reader: Client) -> None:
    arena = make_arena(2, 1)
    Arena.objects.update(strengths=f"{arena.strengths}\nComment", faults="wrong\nfully wrong")
    vote = reverse("vote", args=[arena.slug])
    key = re.search(r'data-key="([0-9a-f-]{36})"', known(reader).get(vote).text)
    assert key is not None
    reader.post(reverse("cast_vote", args=[arena.slug, key[1]]), {"outcome": "left"})
    facts = reader.get(vote, {"after": key[1]}).text
    tags = re.findall(r'value="([^"]*)"[^>]*>\s*(.*?)\s*</label>', facts)
    assert {("good tone", "bon ton"), ("wrong", "fausse")} <= {*tags}
    assert {("Comment", "Comment"), ("fully wrong", "fully wrong")} <= {*tags}


@pytest.mark.django_db
def test_what_a_rater_meets_is_in_french(reader: Client) -> None:
    arena = make_arena(2, 1)
    vote = reverse("vote", args=[arena.slug])
    pages = [reader.get("/"), known(reader).get(vote), reader.get("/a/nowhere/")]
    key = re.search(r'data-key="([0-9a-f-]{36})"', pages[1].text)
    assert key is not None
    cast = reverse("cast_vote", args=[arena.slug, key[1]])
    pages += [reader.post(cast, {"outcome": "left"}, headers={"HX-Request": "true"})]
    pages += [reader.get(vote, {"after": key[1]}), reader.get(vote, {"notice": "Expired"})]
    pages += [reader.get(reverse("vote_facts", args=[arena.slug, key[1]]))]
    pages += [reader.get(reverse("my_votes", args=[arena.slug]))]
    pages += [reader.get(reverse("round", args=[arena.slug, 1]))]
    pages += [reader.get(reverse(name)) for name in ACCOUNT_PAGES]
    english = [text for text in messages.collect() if isinstance(text, str) and len(text) > 12]
    for page in pages:
        assert page.headers["Content-Language"] == "fr"
        assert {"Accept-Language", "Cookie"} <= set(page.headers["Vary"].split(", "))
        words = re.sub(r"\s+", " ", html.unescape(page.text))
        assert not [text for text in english if text in words and "data-" not in text]


@pytest.mark.django_db
def test_refusals_are_in_the_readers_language(rf: RequestFactory) -> None:
    request = rf.get("/", headers=FRENCH)
    request.user = AnonymousUser()
    page = language.no_access(request, exception=PermissionDenied(READ_ONLY))
    assert "accès en lecture seule" in page.text
    assert "comprise" in language.bad_request(request, exception=SuspiciousOperation()).text
    big = rf.post("/", b"x", content_type="text/plain", headers=FRENCH, CONTENT_LENGTH="90000000")
    big.user = AnonymousUser()
    assert "Un fichier peut faire jusqu’à 20 Mo" in _too_large(big, is_file=True).text


@pytest.mark.django_db
def test_the_home_page_is_stored_in_each_language(client: Client, reader: Client) -> None:
    assert 'lang="en"' in client.get("/").text
    assert 'lang="fr"' in reader.get("/").text
    assert "Arenas" in client.get("/").text
    assert "Arènes" in reader.get("/").text
    assert sorted(HomePage.objects.values_list("pk", flat=True)) == ["en", "fr"]


@pytest.mark.django_db
def test_the_switch_outlives_the_browsers_wish_and_returns_to_the_page(reader: Client) -> None:
    address = f"{reverse('set_language', args=['en'])}?next=/a/x/vote/"
    assert reader.get(address)["Location"] == "/a/x/vote/"
    assert "Which AI answer is better?" in reader.get("/").text
    for next_page in ("https://example.org/", "é", "sign_out"):
        elsewhere = reader.get(reverse("set_language", args=["fr"]), {"next": next_page})
        assert elsewhere["Location"] == "/"
    assert "Quelle réponse" in reader.get("/").text
    assert reader.get(reverse("set_language", args=["xx"])).status_code == 404


@pytest.mark.django_db
def test_other_pages_and_the_api_stay_english(reader: Client) -> None:
    arena = make_arena(2, 2)
    for address in (reverse("about", args=[arena.slug]), "/judges/"):
        page: Any = reader.get(address)
        assert 'lang="en"' in page.text
        assert ">Arenas</a>" in page.text
    problem = reader.get("/api/v1/arenas/nowhere/").json()
    assert problem["status"] == 404
    assert "found" in problem["title"].lower()


def test_counts_are_grouped_as_in_the_readers_language() -> None:
    assert grouped(1392) == "1,392"
    with override("fr"):
        assert grouped(1392) == "1\N{NO-BREAK SPACE}392"
