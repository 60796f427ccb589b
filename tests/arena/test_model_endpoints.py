"""Model servers that operators add in the browser: who can use them from when, and their keys."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from arena.actors import CLI
from arena.calls.known_models import well_known_models
from arena.calls.models import Capability, ModelEndpoint, Price
from arena.calls.prices import known_models, price_of
from arena.calls.providers.base import EndpointStoppedError
from arena.calls.trials import models_at, try_model
from arena.encryption import ENDPOINT_KEYS, MAIL_PASSWORD, KeyChangedError, decrypt, encrypt
from arena.endpoints import (
    Endpoint,
    UnknownEndpointError,
    all_endpoints,
    endpoint_named,
    key_of,
    stored_endpoints,
)
from arena.services.endpoints import (
    ModelEndpointError,
    add_endpoint,
    change_endpoint,
    remove_endpoint,
    set_model,
    switch_endpoint,
)
from tests.judges.fake_server import MODEL, FakeServer, Sent, completion

pytestmark = pytest.mark.django_db
KEY = "sk-canary-of-an-operator-7f2a"
ADDRESS = {"provider": "openai", "base_url": "https://llm.example/v1"}


@pytest.fixture
def server() -> Any:
    with FakeServer() as running:
        running.otherwise = lambda body: completion(" Paris.\n")
        yield running


def add(name: str = "house", key: str = KEY, **values: Any) -> ModelEndpoint:
    now = timezone.now()
    return add_endpoint(name=name, values=ADDRESS | values, key=key, by=CLI, now=now)


def change(row: ModelEndpoint, key: str | None = None, **values: Any) -> ModelEndpoint:
    return change_endpoint(endpoint=row, values=values, key=key, by=CLI, now=timezone.now())


def price(model: str = MODEL, usd: Any = (1, 2, None), endpoint: str = "house") -> None:
    set_model(endpoint=endpoint, model=model, price=usd, by=CLI, now=timezone.now())


def test_an_added_endpoint_works_at_once_with_its_key() -> None:
    add(concurrency=3, requests_per_minute=60)
    found = endpoint_named("house")
    assert (found.provider, found.base_url) == ("openai", "https://llm.example/v1")
    assert (found.concurrency, found.requests_per_minute) == (3, 60)
    assert key_of(found) == KEY


def test_other_processes_see_a_change_within_ten_seconds(monkeypatch: Any) -> None:
    clock = 1000.0
    monkeypatch.setattr("arena.db.recent.time.monotonic", lambda: clock)
    stored_endpoints.forget()
    assert "house" not in all_endpoints()
    # Another process writes: no signal is received here.
    ModelEndpoint.objects.bulk_create([ModelEndpoint(name="house", **ADDRESS)])
    assert "house" not in all_endpoints()
    clock += 10
    assert "house" in all_endpoints()
    ModelEndpoint.objects.update(is_on=False)
    clock += 10
    assert "house" not in all_endpoints()


def test_reading_them_again_costs_no_query(django_assert_num_queries: Any) -> None:
    add()
    all_endpoints()
    with django_assert_num_queries(0):
        all_endpoints()


def test_the_environment_goes_first(settings: Any) -> None:
    add()
    given = Endpoint("house", "anthropic", "https://given.example")
    settings.MODEL_ENDPOINTS = {"house": given}
    assert all_endpoints() == {"house": given}
    with pytest.raises(ModelEndpointError, match="MODEL_ENDPOINTS has an endpoint of this name"):
        add()


def test_switched_off_it_is_asked_nothing() -> None:
    row = add()
    price()
    assert ("house", MODEL) in known_models()
    switch_endpoint(endpoint=row, is_on=False, by=CLI, now=timezone.now())
    assert ("house", MODEL) not in known_models()
    with pytest.raises(UnknownEndpointError, match="'house' is switched off"):
        endpoint_named("house")
    switch_endpoint(endpoint=row, is_on=True, by=CLI, now=timezone.now())
    assert endpoint_named("house").is_on


def test_removed_it_is_forgotten_with_its_prices() -> None:
    row = add()
    price()
    remove_endpoint(endpoint=row, by=CLI)
    assert "house" not in all_endpoints()
    assert not Price.objects.exists()
    assert not Capability.objects.exists()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"name": "my house"}, "A name has 1 to 100"),
        ({"name": "scripted"}, "MODEL_ENDPOINTS has an endpoint of this name"),
        ({"base_url": "ftp://llm.example"}, "The address must be an http"),
        ({"base_url": "https://u:p@llm.example"}, "without a user name"),
        ({"provider": "anthropic"}, "must not end in /v1"),
        ({"timeout": 0}, "The time limit must be a number of seconds"),
        ({"concurrency": 0}, "must be a whole number, 1 or more"),
        ({"key": "sk-ä"}, "A key has no spaces"),
        ({"key": "two words"}, "without spaces"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelEndpointError, match=says) as caught:
        add(**values)
    assert values.get("key", KEY) not in str(caught.value)
    assert not ModelEndpoint.objects.exists()


def test_a_name_is_given_once() -> None:
    add()
    with pytest.raises(ModelEndpointError, match="There is an endpoint of this name"):
        add()


@pytest.mark.parametrize(
    "wrong",
    [
        *({"name": ""}, {"name": "scripted"}, {"provider": "x"}, {"base_url": ""}),
        *({"timeout": 0}, {"concurrency": 0}),
        *({"requests_per_minute": 0}, {"tokens_per_minute": 0}),
    ],
)
def test_the_database_refuses_what_the_services_would(wrong: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        ModelEndpoint.objects.create(**({"name": "house"} | ADDRESS | wrong))


def test_a_key_is_kept_changed_and_removed() -> None:
    row = add()
    assert change(row, concurrency=2).key_hint == "7f2a"
    assert key_of(endpoint_named("house")) == KEY
    change(row, key="sk-another-of-the-same-c901")
    assert key_of(endpoint_named("house")) == "sk-another-of-the-same-c901"
    assert change(row, key="").encrypted_key == ""
    assert key_of(endpoint_named("house")) == ""


def test_a_short_key_has_no_hint() -> None:
    assert add(key="hunter2").key_hint == ""


def test_a_key_is_not_sent_to_another_address() -> None:
    row = add()
    with pytest.raises(ModelEndpointError, match="Enter the key again"):
        change(row, base_url="https://elsewhere.example/v1")
    assert endpoint_named("house").base_url == ADDRESS["base_url"]
    change(row, key=KEY, base_url="https://elsewhere.example/v1")
    assert endpoint_named("house").base_url == "https://elsewhere.example/v1"


def test_another_secret_key_is_a_sentence(settings: Any) -> None:
    add()
    settings.SECRET_KEY = "another" * 10
    with pytest.raises(EndpointStoppedError) as caught:
        key_of(endpoint_named("house"))
    assert str(caught.value) == (
        "The key of endpoint house cannot be read because SECRET_KEY has changed."
        " Enter the key again."
    )


def test_a_secret_of_one_kind_is_not_read_as_another() -> None:
    with pytest.raises(KeyChangedError):
        decrypt(encrypt(KEY, MAIL_PASSWORD), ENDPOINT_KEYS)
    assert encrypt(KEY, ENDPOINT_KEYS) != encrypt(KEY, ENDPOINT_KEYS)


def test_a_test_is_one_request_and_is_remembered(server: FakeServer) -> None:
    add(base_url=server.base_url)
    price(usd=(1, 2, None))
    now = timezone.now()
    tested = try_model("house", MODEL, now)
    assert tested.works
    assert tested.sentence.startswith(f"{MODEL} works. “Paris.” after 0.")
    assert tested.sentence.endswith("s, $0.00014.")
    assert len(server.requests) == 1
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    row = Capability.objects.get(endpoint="house", model=MODEL)
    assert (row.tested_at, row.test_error) == (now, "")


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "401: key refused"),
        (404, "404: model or address unknown"),
        (429, "429: too many requests"),
        (500, "500: server error"),
        (302, "302: the server redirects"),
    ],
)
def test_a_failed_test_says_why(server: FakeServer, status: int, says: str) -> None:
    add(base_url=server.base_url)
    said = {"error": {"message": f"No: {KEY}"}}
    server.otherwise = lambda body: Sent(said, status=status)
    tested = try_model("house", MODEL, timezone.now())
    assert not tested.works
    assert says in tested.sentence
    assert KEY not in tested.sentence
    assert len(server.requests) == 1
    assert Capability.objects.get().test_error.startswith(says)


def test_a_server_that_is_down_is_not_reachable() -> None:
    add(base_url="http://127.0.0.1:9/v1")
    assert "Not reachable" in try_model("house", MODEL, timezone.now()).sentence


def test_a_slow_server_is_not_waited_for(server: FakeServer, monkeypatch: Any) -> None:
    monkeypatch.setattr("arena.calls.trials.PATIENCE", 0.2)
    add(base_url=server.base_url)
    server.otherwise = lambda body: replace(completion("Paris"), seconds=1.0)
    assert "No answer within" in try_model("house", MODEL, timezone.now()).sentence


def test_a_new_key_forgets_what_was_tested(server: FakeServer) -> None:
    row = add(base_url=server.base_url)
    try_model("house", MODEL, timezone.now())
    change(row, key="sk-another-of-the-same-c901")
    assert Capability.objects.get().tested_at is None


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_models_at_an_address_are_listed(server: FakeServer, provider: str) -> None:
    base_url = server.base_url if provider == "openai" else server.anthropic_url
    add(provider=provider, base_url=base_url)
    assert models_at(endpoint_named("house")) == [MODEL]
    server.models = Sent({"object": "list"})
    with pytest.raises(Exception, match="cannot be read"):
        models_at(endpoint_named("house"))


def test_a_price_in_the_browser_works_for_all_endpoints(settings: Any) -> None:
    given = Endpoint("given", "openai", "https://given.example")
    settings.MODEL_ENDPOINTS = {"given": given}
    price(endpoint="given", usd=(3, 15, None))
    rate = price_of("given", MODEL)
    assert rate is not None
    assert rate.output_per_million == 15 * 10**9
    with pytest.raises(ModelEndpointError, match="no model endpoint called 'nowhere'"):
        price(endpoint="nowhere")


def test_the_list_of_known_models_is_dated_and_priced() -> None:
    known = well_known_models()
    assert len({(one.kind, one.name) for one in known}) == len(known) >= 12
    assert {one.kind for one in known} == {"openai", "anthropic", "ollama"}
    for one in known:
        assert one.date <= timezone.now().date() + timedelta(days=1)
        assert 0 <= (one.cached or 0) <= one.input <= one.output
        assert (one.output == 0) == (one.kind == "ollama")


def test_repr_shows_no_key() -> None:
    row = add()
    assert KEY not in repr(row)
    assert "encrypted" not in repr(endpoint_named("house"))
    assert KEY not in row.encrypted_key
