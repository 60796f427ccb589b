"""The API's description, and the page to try it."""

import base64
import io
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from arena.api.prompts import ROW
from arena.models import Notice, Prompt
from arena.services.deliveries import delivery_body
from arena.services.holds import UNDER_REVIEW
from arena.services.webhooks import TEST
from arena.webhooks.signatures import sign
from judges.services.decisions import KNOWN
from ranking.log.links import HEAD_NOTICE
from tests.arena.rest import ROOT, team_arena, token_of
from tests.factories import make_candidate, make_team

pytestmark = [pytest.mark.any_database, pytest.mark.slow]
METHODS = {"get", "post", "patch", "delete"}


def operations(described: Any) -> list[tuple[str, str, Any]]:
    return [
        (path, method, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    ]


def test_the_description_is_valid_openapi() -> None:
    out = io.StringIO()

    call_command("spectacular", validate=True, fail_on_warn=True, stdout=out)

    assert "openapi: 3.1.0" in out.getvalue()


def test_it_is_public_cached_and_not_sent_again() -> None:
    first = Client().get(f"{ROOT}schema/")
    again = Client().get(f"{ROOT}schema/", headers={"If-None-Match": first.headers["ETag"]})

    assert first.headers["Cache-Control"] == "public, max-age=300"
    assert (again.status_code, again.content) == (304, b"")


def test_first_requests_at_the_same_time_get_the_same() -> None:
    """A process that has just started and gets several requests at once."""
    code = """
import django
django.setup()
from concurrent.futures import ThreadPoolExecutor
from arena.api.core.schema import (schema)
with ThreadPoolExecutor(8) as threads:
    print(len({work.result() for work in [threads.submit(schema) for _ in range(8)]}))
"""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "arena.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )

    assert done.stdout == "1\n", done.stderr[-2000:]


def test_every_operation_says_what_goes_in_and_out(api_schema: Any) -> None:
    for path, method, operation in operations(api_schema):
        place = f"{method} {path}"
        assert operation["operationId"].count("_") >= 1, place
        assert operation["summary"], place
        assert operation["tags"] != [""], place
        assert "default" in operation["responses"], place
        bodies = [operation.get("requestBody"), *operation["responses"].values()]
        for body in bodies:
            for content in (body or {}).get("content", {}).values():
                assert content.get("examples"), place


def test_every_post_takes_a_key_and_every_get_an_etag(api_schema: Any) -> None:
    for path, method, operation in operations(api_schema):
        names = {parameter["name"] for parameter in operation["parameters"]}
        assert ("Idempotency-Key" in names) == (method == "post"), path
        assert ("If-None-Match" in names) == (method == "get"), path
        assert ("If-Match" in names) == (method == "patch"), path


def test_lists_say_how_they_are_paged(api_schema: Any) -> None:
    parameters = api_schema["paths"][f"{ROOT}arenas/{{slug}}/prompts/"]["get"]["parameters"]

    names = {parameter["name"] for parameter in parameters}
    assert {"cursor", "page_size", "category", "retired", "external_id"} <= names


def test_operations_have_names_of_their_own(api_schema: Any) -> None:
    names = [operation["operationId"] for _, _, operation in operations(api_schema)]

    assert len(names) == len(set(names))


@pytest.mark.django_db
def test_the_examples_of_bodies_are_taken_as_they_stand(api_schema: Any) -> None:
    """What a reader copies from the page works, in an arena of the reader's own."""
    team = make_team()
    team.slug = "search"
    team.save()
    arena, caller = team_arena(team), token_of(team)
    Prompt.objects.create(arena=arena, **ROW)  # which the examples of answers are about
    one, other = arena.candidates.order_by("pk")[:2]
    silent = make_candidate(arena, "silent", team=team, endpoint="scripted", model="scripted-1")
    spare = make_candidate(arena, "spare", team=team)
    here = {"candidates": [one.pk, other.pk], "ids": [spare.pk]}  # ids are given out by the server

    for path, method, operation in operations(api_schema):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None or "{key}" in path or not path.startswith(f"{ROOT}arenas/"):
            continue
        (example,) = content["examples"].values()
        body = {name: here.get(name, value) for name, value in example["value"].items()}
        candidate = silent if operation["operationId"] == "order_answers" else one
        names = {"slug": arena.slug, "external_id": "p0", "id": candidate.pk}
        response = getattr(caller, method)(path.removeprefix(ROOT).format(**names), body)
        place = f"{method} {path}: {response.content!r}"
        assert response.status_code in (200, 201), place
        assert not response.json().get("refused"), place


def test_the_page_brings_no_script_of_another_host() -> None:
    page = Client().get(f"{ROOT}docs/")

    assert page.status_code == 200
    assert b"<script>" not in page.content
    assert b"//cdn" not in page.content
    assert "unsafe" not in page.headers["Content-Security-Policy"]


@pytest.mark.browser
@pytest.mark.slow
def test_an_operation_is_tried_on_the_page_under_the_csp(page: Any, live_server: Any) -> None:
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(f"{live_server.url}{ROOT}docs/")
    operation = page.locator("#operations-Arenas-list_arenas")
    operation.locator(".opblock-summary-control").click()
    operation.locator(".try-out__btn").click()
    operation.locator(".execute").click()

    status = operation.locator(".live-responses-table tbody .response-col_status")
    status.wait_for()

    assert status.inner_text().startswith("200")
    assert not complaints, "the policy of the site refused something"


@pytest.mark.django_db
def test_the_api_s_own_address_leads_to_its_description(client: Client) -> None:
    answer = client.get("/api/v1/")
    assert (answer.status_code, answer["Location"]) == (302, "/api/v1/docs/")
    assert client.post("/api/v1/").status_code == 405


def test_sections_are_in_the_order_of_the_work_and_none_is_missing(api_schema: Any) -> None:
    sections = [tag["name"] for tag in api_schema["tags"]]
    used = {tag for _, _, operation in operations(api_schema) for tag in operation["tags"]}
    assert sections[1:4] == ["Arenas", "Prompts", "Candidates"]
    assert used == set(sections)


@pytest.mark.django_db
def test_webhooks_are_described_as_they_are_sent(api_schema: Any) -> None:
    notice = Notice(pk=71, kind="webhook.test", sentence="A test.", created_at=timezone.now())
    notice.team = make_team()
    sent = json.loads(delivery_body(notice))
    assert set(api_schema["webhooks"]) == {KNOWN, HEAD_NOTICE, UNDER_REVIEW, TEST}
    for kind, webhook in api_schema["webhooks"].items():
        body = webhook["post"]["requestBody"]["content"]["application/json"]
        assert set(body["example"]) == set(body["schema"]["required"]) >= set(sent), kind
    secret = "whsec_" + base64.b64encode(bytes(32)).decode()
    signed = sign(secret, body=b"{}", timestamp=1, delivery_id="delivery-1")
    names = [parameter["name"] for parameter in webhook["post"]["parameters"]]
    assert names == list(signed)
