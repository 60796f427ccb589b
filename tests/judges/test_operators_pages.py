"""The operators' pages in the browser's stead: models are added, tested, changed and deleted."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.calls.models import Capability, ModelEndpoint, Price
from arena.endpoints import Endpoint, endpoint_named, key_of
from arena.models import Backup
from ranking.health import check_health
from tests.factories import make_arena, make_candidate, make_team
from tests.judges.fake_server import MODEL, FakeServer, Sent, better_is, completion
from tests.judges.helpers import browser_of, order, signed_in, work_off

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
KEY = "sk-canary-of-an-operator-7f2a"
MODELS = "/operators/models/"
HOUSE = "/operators/models/house/"


@pytest.fixture(autouse=True)
def polite(server: FakeServer) -> None:
    server.otherwise = lambda body: completion("Paris")


def typed(server: FakeServer, **fields: str) -> dict[str, str]:
    given = {"kind": "openai", "base_url": server.base_url, "key": KEY, "name": "house"}
    return given | {"model": MODEL, "input": "0.9", "output": "3.6"} | fields


def add_house(staff: Client, server: FakeServer, **fields: str) -> str:
    return staff.post(MODELS, typed(server, **fields), follow=True).text


def test_a_model_is_added_and_tested_in_one_go(staff: Client, server: FakeServer) -> None:
    page = add_house(staff, server)
    assert f"{MODEL} works. “Paris” after" in page
    assert "key …7f2a" in " ".join(page.split())
    assert KEY not in page
    assert key_of(endpoint_named("house")) == KEY
    price = Price.objects.get()
    assert (price.input_per_million, price.output_per_million) == (9 * 10**8, 36 * 10**8)
    assert len(server.requests) == 1


def test_a_second_model_needs_neither_key_nor_name(staff: Client, server: FakeServer) -> None:
    add_house(staff, server)
    add_house(staff, server, key="", model="judge-8b-1.0")
    assert Price.objects.filter(endpoint="house").count() == 2
    page = add_house(staff, server, model="judge-9b-1.0")
    assert "Leave the key empty to use the one it has" in page
    assert KEY not in page


def test_without_a_model_those_at_the_address_are_listed(staff: Client, server: FakeServer) -> None:
    page = add_house(staff, server, model="", input="", output="")
    assert "1 model found at this address" in page
    assert f"?model={MODEL}#new" in page
    server.models = Sent({"error": {"message": "no"}}, status=401)
    page = staff.get(f"{HOUSE}?find=1").text
    assert "The models could not be listed. 401: key refused. Type the name instead." in page


def test_known_models_bring_their_prices(staff: Client, server: FakeServer) -> None:
    page = add_house(staff, server, model="gpt-4o-mini-2024-07-18", input="", output="")
    assert "is from our list, as of 1 August 2025. Check it." in page
    assert Price.objects.get().output_per_million == 6 * 10**8
    page = staff.get(f"{HOUSE}?model=gpt-4.1-mini-2025-04-14").text
    assert 'value="0.40"' in page
    assert "Price as of <span>2025-04-14</span>" in page


def test_a_model_without_a_price_is_unused(staff: Client, server: FakeServer) -> None:
    page = add_house(staff, server, input="", output="")
    assert "no price, unused" in page
    assert "it has no price yet" in page
    staff.post(f"{HOUSE}model/", {"action": "price", "model": MODEL, "input": "0", "output": "0"})
    assert "works, 0." in staff.get(MODELS).text


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"base_url": "nowhere"}, "must be an http(s) address"),
        ({"base_url": ""}, "This field is required"),
        ({"name": "two words"}, "A name has 1 to 100 letters"),
        ({"name": "scripted"}, "MODEL_ENDPOINTS has an endpoint of this name"),
        ({"input": "", "output": "1"}, "Enter both prices; 0 is a price."),
        ({"cached": "5"}, "Cached input must not cost more"),
        ({"input": "cheap"}, "Enter a number"),
        ({"key": "sk-ä"}, "A key has no spaces"),
    ],
)
def test_what_cannot_be_saved_is_sent_back_without_the_key(
    staff: Client, server: FakeServer, fields: dict[str, str], says: str
) -> None:
    page = add_house(staff, server, **fields)
    assert says in page
    assert KEY not in page
    assert not ModelEndpoint.objects.exists()
    assert not Price.objects.exists()
    assert not server.requests


def test_a_name_is_taken_from_the_address(staff: Client, server: FakeServer) -> None:
    add_house(staff, server, name="")
    assert ModelEndpoint.objects.get().name == "127.0.0.1"
    staff.post(MODELS, {"kind": "ollama", "base_url": "http://gpu.acme.example:8080/v1"})
    assert ModelEndpoint.objects.filter(name="acme").exists()


def test_an_endpoint_is_changed_and_keeps_its_key(staff: Client, server: FakeServer) -> None:
    add_house(staff, server)
    page = staff.get(HOUSE).text
    assert KEY not in page
    assert "Stored: …7f2a" in page
    limits = {"concurrency": "12", "timeout": "30", "requests_per_minute": "60"}
    saved = {"action": "save", "base_url": server.base_url, **limits}
    assert "Saved." in staff.post(HOUSE, saved, follow=True).text
    assert endpoint_named("house").concurrency == 12
    assert key_of(endpoint_named("house")) == KEY
    moved = saved | {"base_url": "http://127.0.0.1:9/v1"}
    assert "Enter the key again" in staff.post(HOUSE, moved).text
    assert endpoint_named("house").base_url == server.base_url


def test_the_page_says_that_secret_key_changed(
    staff: Client, server: FakeServer, settings: Any
) -> None:
    add_house(staff, server)
    settings.SECRET_KEY = "another" * 10
    boss = signed_in("again", staff=True)
    assert "Key cannot be read" in boss.get(MODELS).text
    assert any("cannot be read" in said for said in check_health(timezone.now()).findings)
    said = "cannot be read because SECRET_KEY has changed. Enter the key again."
    assert said in boss.get(HOUSE).text
    tested = boss.post(f"{HOUSE}model/", {"action": "test", "model": MODEL}, follow=True).text
    assert said in tested


def test_a_used_endpoint_is_switched_off_but_not_deleted(staff: Client, server: FakeServer) -> None:
    add_house(staff, server)
    arena = make_arena()
    make_candidate(arena, "generated", endpoint="house", model=MODEL, user_template="{{ prompt }}")
    assert "1 arena" in staff.get(MODELS).text
    page = staff.post(HOUSE, {"action": "delete"}, follow=True).text
    assert "house is used by 1 candidate, so it cannot be deleted. Switch it off instead." in page
    page = staff.post(f"{HOUSE}model/", {"action": "remove", "model": MODEL}, follow=True).text
    assert f"{MODEL} is used by 1 arena, so it cannot be removed." in page
    page = staff.post(HOUSE, {"action": "off"}, follow=True).text
    assert "house is switched off: nothing is sent to it." in page
    tested = staff.post(f"{HOUSE}model/", {"action": "test", "model": MODEL}, follow=True).text
    assert "switched off" in tested
    assert len(server.requests) == 1


def test_an_unused_endpoint_and_model_are_deleted(staff: Client, server: FakeServer) -> None:
    add_house(staff, server)
    staff.post(f"{HOUSE}model/", {"action": "remove", "model": MODEL})
    assert not Price.objects.exists()
    assert not Capability.objects.exists()
    assert "house is deleted." in staff.post(HOUSE, {"action": "delete"}, follow=True).text
    assert not ModelEndpoint.objects.exists()
    assert staff.get(HOUSE).status_code == 404


def test_endpoints_of_the_environment_are_shown_and_not_changed(
    staff: Client, server: FakeServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOUSE_KEY", KEY)
    given = Endpoint("house", "openai", server.base_url, key_env="HOUSE_KEY")
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"house": given}
    page = staff.get(HOUSE).text
    assert "Set by MODEL_ENDPOINTS in the environment" in page
    assert "from HOUSE_KEY" in page
    assert KEY not in page
    assert 'name="base_url"' not in page
    changed = {"action": "save", "base_url": "http://127.0.0.1:9/v1"}
    assert staff.post(HOUSE, changed).status_code == 200
    assert endpoint_named("house").base_url == server.base_url
    add = {"action": "add", "model": MODEL, "input": "1", "output": "2"}
    assert "works. “Paris”" in staff.post(f"{HOUSE}model/", add, follow=True).text


def test_tests_are_limited(
    staff: Client, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judges.views.model_servers.TESTS_PER_MINUTE", 2)
    add_house(staff, server)
    for _ in range(3):
        page = staff.post(f"{HOUSE}model/", {"action": "test", "model": MODEL}, follow=True).text
    assert "tests a minute" in page
    assert len(server.requests) == 2


def test_a_model_added_in_the_browser_judges(staff: Client, server: FakeServer) -> None:
    arena = make_arena(2, 2)
    add_house(staff, server)
    page = staff.get(reverse("order_run", args=[arena.slug]), {"model": f"house:{MODEL}"}).text
    assert f"house:{MODEL}" in page
    server.otherwise = better_is("TIE")
    run = work_off(order(arena, f"house:{MODEL}", per_pair=1, cap=10**9))
    assert run.calls.filter(state="done").exists()
    assert "1 judge" in staff.get(MODELS).text


def test_no_address_that_a_team_types_is_asked(server: FakeServer) -> None:
    """Neither as an endpoint's name, nor as a model's, nor on the operators' page."""
    team = make_team()
    arena, owner = make_arena(2, 2, team=team), browser_of(team.memberships.get().user)
    candidates = reverse("new_candidate", args=[arena.slug])
    for name in (server.base_url, f"{server.base_url}:{MODEL}", f"openai={server.base_url}"):
        new = {"name": "x", "endpoint": name, "model": MODEL, "user_template": "{{ prompt }}"}
        assert owner.post(candidates, new).status_code == 200
        judged = {"typed": name, "per_pair": 1, "pairs": "all", "rubric": "pairwise", "cap": "1"}
        judged |= {"order_policy": "abstain"}
        page = owner.post(reverse("order_run", args=[arena.slug]), judged).text
        assert "No run was started." in page
        typed = {"kind": "openai", "base_url": name, "model": MODEL}
        assert owner.post(MODELS, typed).status_code == 403
    assert not server.headers
    assert not ModelEndpoint.objects.exists()


def test_the_first_page_says_what_is_wrong(staff: Client) -> None:
    Backup.objects.create(made_at=timezone.now() - timedelta(days=4), size=1, is_encrypted=False)
    assert "The last backup was made 4 days ago." in staff.get("/operators/").text
    Backup.objects.update(made_at=timezone.now())
    assert "The last backup was made" not in staff.get("/operators/").text


def test_health_lists_backups_and_findings(staff: Client) -> None:
    assert "No backup yet." in staff.get("/operators/health/").text
    Backup.objects.create(made_at=timezone.now(), size=2048, is_encrypted=True)
    page = staff.get("/operators/health/").text
    assert "encrypted" in page
    assert "Queue calls" in page
