"""The pages of a team's rubrics, and its rubrics in orders and in the API."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from arena.actors import CLI, Actor
from arena.models import Arena, Role, Run, Team
from arena.services.tokens import create_token
from judges.core.rubric import RubricError, load_rubric
from judges.models import Judge, Judgement, RubricTrial, RubricVersion, TeamRubric
from judges.models.rubrics import FILE_COLUMNS
from judges.services.registry import register_judge, spec_named
from judges.services.rubrics import as_zip
from tests.factories import make_arena, make_empty_team
from tests.judges.fake_server import FakeServer, prefers
from tests.judges.helpers import (
    LOCAL,
    join,
    make_member,
    order,
    page_text,
    price_local,
    quote_page,
    rubric_files,
    signed_in,
    stricter_files,
    with_run,
    work_off,
    write_version,
)
from tests.judges.test_trials import by_rubric, finish

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


@pytest.fixture
def owner(team: Team) -> Client:
    return join(team, Role.OWNER, "olga")


def address(name: str, team: Team, *args: Any) -> str:
    return reverse(name, args=[team.slug, *args])


def form(texts: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    files = {FILE_COLUMNS[name]: text for name, text in (texts or rubric_files()).items()}
    return {"after": 0, "address": "support", "do": "save"} | files | fields


def test_an_owner_starts_from_a_template_and_saves_versions(owner: Client, team: Team) -> None:
    url = address("new_rubric", team)
    page = owner.get(url, {"template": "pairwise-note"})
    assert page.context["form"].initial["note"] == rubric_files("pairwise-note")["note.md"]
    saved = owner.post(url, form())
    version = RubricVersion.objects.get()
    assert saved.url == version.get_absolute_url()
    assert version.texts == rubric_files()
    assert version.made_by.username == "olga"
    edit = address("edit_rubric", team, "support")
    assert owner.get(edit).context["form"].initial["after"] == 1
    # Browsers send line breaks as CR LF.
    texts = {
        name: text.replace("\n", "\r\n") for name, text in stricter_files("<b>Be strict.").items()
    }
    owner.post(edit, form(texts, after=1, reason="It was <i>lenient</i>."))
    page = page_text(owner, address("team_rubric", team, "support"))
    assert "support, version 2" in page
    assert "+ &lt;b&gt;Be strict." in page
    assert "It was &lt;i&gt;lenient" in page
    assert RubricVersion.objects.get(number=2).texts == stricter_files("<b>Be strict.")


@pytest.mark.parametrize("template", ["nothing", "../pairwise", "\0", "", "acme/support"])
def test_only_the_servers_rubrics_are_templates(owner: Client, team: Team, template: str) -> None:
    answer = owner.get(address("new_rubric", team), {"template": template})
    assert answer.status_code == 404


def test_a_wrong_rubric_loses_nothing(owner: Client, team: Team) -> None:
    texts = rubric_files() | {"user.md": "My long work, {prompt}"}
    page = owner.post(address("new_rubric", team), form(texts, reason="Why"))
    text = page.content.decode()
    assert "the placeholder {answer_a} is missing from system.md and user.md" in text
    assert "My long work, {prompt}" in text
    assert not TeamRubric.objects.exists()


def test_saving_over_a_version_that_one_has_not_seen_takes_a_second_press(
    owner: Client, team: Team
) -> None:
    write_version(team)
    write_version(team, after=1, texts=stricter_files())
    edit = address("edit_rubric", team, "support")
    page = owner.post(edit, form(stricter_files("Mine."), after=1))
    assert "Version 2 was written while you were writing" in page.content.decode()
    assert page.context["form"]["after"].value() == "2"
    # Another error in between does not count as having been told.
    page = owner.post(edit, form(rubric_files() | {"user.md": "x"}, after=1))
    assert page.context["form"]["after"].value() == "1"
    owner.post(edit, form(stricter_files("Mine."), after=2))
    assert RubricVersion.objects.get(number=3).texts == stricter_files("Mine.")


def test_the_preview_is_the_request_that_is_sent(
    owner: Client, local: FakeServer, team: Team, settings: Any
) -> None:
    price_local(settings, 10**9)
    arena = make_arena(3, 4, team=team)
    sent = form(stricter_files(), do="preview", arena=arena.slug, model=LOCAL)
    preview = owner.post(address("new_rubric", team), sent).context["preview"]
    assert len(preview.pairs) == 5
    assert preview.quote.calls == 10
    assert 0 < preview.quote.expected < preview.quote.worst
    assert not RubricVersion.objects.exists()
    assert not local.requests
    texts = preview.pairs[0][-1].request.messages
    owner.post(address("new_rubric", team), form(stricter_files()))
    Team.objects.filter(pk=team.pk).update(budget=10**10)
    arena.refresh_from_db()
    work_off(order(arena, f"{LOCAL}@help/support", per_pair=4, cap=10**9, by=CLI))
    nonce = Judgement.objects.all()[0].forward.nonce
    requests = [
        [one["content"].replace(nonce, "0123456789abcdef") for one in body["messages"]]
        for body in local.requests
    ]
    assert [message.content for message in texts] in requests


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"arena": ""}, "A preview needs an arena and a model."),
        ({"model": ""}, "A preview needs an arena and a model."),
        ({"model": "nowhere:m"}, "nowhere"),
        ({"arena": "hidden"}, "Select a valid choice"),
        ({"arena": "of-others"}, "Select a valid choice"),  # its prompts may have secrets
    ],
)
def test_a_preview_says_what_it_lacks(
    owner: Client, team: Team, fields: dict[str, str], sentence: str
) -> None:
    make_arena(slug="hidden", visibility="private", team=make_empty_team())
    make_arena(slug="of-others", team=make_empty_team())
    arena = make_arena(team=team)
    sent = form(do="preview", arena=arena.slug, model="scripted:scripted-1") | fields
    page = owner.post(address("new_rubric", team), sent)
    assert page.context["preview"] is None
    assert sentence in page.content.decode()


def test_files_go_out_and_come_back_as_a_zip(owner: Client, team: Team) -> None:
    version = write_version(team, texts=rubric_files("pairwise-note"))
    packed = owner.get(address("rubric_files", team, "support", 1))
    assert packed["Content-Disposition"] == 'attachment; filename="support.1.zip"'
    assert packed.content == as_zip(version)
    other = make_empty_team(slug="other", name="Other")
    olga = make_member(other, Role.OWNER, "otto")
    client = Client()
    client.force_login(olga)
    upload = {"file": SimpleUploadedFile("support.1.zip", packed.content)}
    imported = client.post(address("import_rubric", other), upload)
    assert imported.url == address("rubric_version", other, "support", 1)
    assert other.rubrics.get().versions.get().digest == version.digest
    changed = write_version(team, after=1, texts=stricter_files())
    upload = {"file": SimpleUploadedFile("x.zip", as_zip(changed)), "slug": "support"}
    client.post(address("import_rubric", other), upload)
    assert other.rubrics.get().versions.count() == 2
    page = client.post(
        address("import_rubric", other), {"file": SimpleUploadedFile("x.zip", b"junk")}
    )
    assert "This is not a ZIP file with a rubric" in page.content.decode()


def test_only_an_unused_rubric_is_deleted(owner: Client, team: Team) -> None:
    write_version(team)
    write_version(team, "spare")
    register_judge(spec=spec_named("scripted@help/support", by=CLI))
    owner.post(address("delete_rubric", team, "spare"))
    answer = owner.post(address("delete_rubric", team, "support"), follow=True)
    assert "1 judge used this rubric" in answer.content.decode()
    assert [rubric.slug for rubric in team.rubrics.all()] == ["support"]


def test_an_order_offers_the_rubrics_of_the_team(owner: Client, team: Team) -> None:
    write_version(team)
    other = make_empty_team(slug="other", name="Other")
    write_version(other, "secret")
    arena = make_arena(2, 2, team=team)
    page = quote_page(owner, arena, rubric="help/support.1")
    assert "(help/support.1)" in page
    assert "secret" not in page
    typed = "scripted:scripted-2@other/secret"
    assert "There is no rubric called &#x27;other/secret" in quote_page(owner, arena, typed=typed)


def test_a_broken_rubric_on_the_server_takes_no_page_down(
    owner: Client, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(slug: str, *args: Any) -> Any:
        if slug == "listwise":
            raise RubricError("Rubric listwise: rubric.toml is not TOML")
        return load_rubric(slug, *args)

    monkeypatch.setattr("judges.forms.load_rubric", load)
    page = quote_page(owner, make_arena(2, 2, team=team))
    assert "(pairwise)" in page
    assert "(listwise)" not in page
    assert "pairwise" in page_text(owner, address("team_rubrics", team))


def test_a_judges_page_keeps_the_teams_rubric_from_others(team: Team) -> None:
    write_version(team, texts=stricter_files("The secret recipe."))
    epoch = with_run(register_judge(spec=spec_named("scripted@help/support", by=CLI)))
    url = epoch.judge.get_absolute_url()
    assert "The secret recipe." in page_text(join(team, Role.VIEWER, "vera"), url)
    for client in (Client(), signed_in("stranger")):
        page = page_text(client, url)
        assert "The secret recipe." not in page
        assert "Only the team that wrote this rubric can read it." in page


def test_a_change_is_tried_from_the_judges_page(
    owner: Client, local: FakeServer, team: Team, voted: Arena
) -> None:
    write_version(team)
    local.otherwise = by_rubric(prefers("-1 of"), prefers("-0 of"))
    work_off(order(voted, f"{LOCAL}@help/support", per_pair=30, by=CLI))
    judge = Judge.objects.get()
    write_version(team, after=1, texts=stricter_files())
    page = page_text(owner, judge.get_absolute_url())
    shown = reverse("disagreements", args=[judge.pk, voted.slug])
    assert shown in page
    assert address("team_rubric", team, "support") in page
    rows = owner.get(shown).context["rows"]
    assert rows
    assert all(row.texts and row.calls[0].call.reply for row in rows)
    assert "Try version 2" in page_text(owner, address("team_rubric", team, "support"))
    url = address("try_rubric", team, "support", 2)
    query = {"judge": judge.pk, "labels": f"arena:{voted.slug}", "pairs": 50}
    quoted = owner.get(url, query).context["plan"]
    assert len(quoted.items) == 13
    assert not RubricTrial.objects.exists()
    started = owner.post(url, query)
    finish()
    trial = RubricTrial.objects.get()
    assert started.url == trial.get_absolute_url()
    page = page_text(owner, started.url)
    assert "agrees with most people on" in page
    assert "100%" in page
    assert "13 of 13" in page
    assert "&lt; 0.001" in page
    assert "The change agrees with people more often." in page
    assert f"/a/{voted.slug}/runs/new/?judge={trial.after_id}" in page


def test_a_trial_that_cannot_be_started_says_why(
    owner: Client, local: FakeServer, team: Team, voted: Arena
) -> None:
    write_version(team)
    judge = with_run(register_judge(spec=spec_named("scripted@help/support", by=CLI))).judge
    url = address("try_rubric", team, "support", 1)
    query = {"judge": judge.pk, "labels": f"arena:{voted.slug}", "pairs": 50}
    assert "already has this version" in page_text(owner, url, data=query)
    wrong = query | {"labels": "arena:other", "pairs": 0}
    page = page_text(owner, url, data=wrong)
    assert "Select a valid choice" in page
    assert "greater than or equal to 1" in page
    assert not Run.objects.filter(team=team).exists()


def test_a_trial_is_seen_by_the_team_alone(
    owner: Client, local: FakeServer, team: Team, voted: Arena
) -> None:
    write_version(team)
    work_off(order(voted, f"{LOCAL}@help/support", per_pair=1, by=CLI))
    write_version(team, after=1, texts=stricter_files())
    query = {"judge": Judge.objects.get().pk, "labels": f"arena:{voted.slug}", "pairs": 5}
    owner.post(address("try_rubric", team, "support", 2), query)
    other = make_empty_team(slug="other", name="Other")
    trial = RubricTrial.objects.get()
    assert join(other, Role.OWNER, "otto").get(trial.get_absolute_url()).status_code == 404
    assert join(team, Role.VIEWER, "vera").get(trial.get_absolute_url()).status_code == 200


def token(team: Team, *scopes: str) -> Client:
    _, secret = create_token(team=team, name="CI", scopes=list(scopes), by=Actor())
    return Client(headers={"Authorization": f"Bearer {secret}"})


def test_the_api_lists_rubrics_and_their_versions(team: Team) -> None:
    write_version(team, texts=rubric_files("pairwise-note"))
    write_version(team, after=1, texts=stricter_files(), reason="It was lenient.")
    client, api = token(team, "read"), f"/api/v1/teams/{team.slug}/rubrics/"
    (newest,) = client.get(api).json()["results"]
    assert newest["name"] == "help/support.2"
    assert newest["files"] == stricter_files()
    assert newest["reason"] == "It was lenient."
    versions = client.get(f"{api}support/versions/").json()["results"]
    assert [version["version"] for version in versions] == [1, 2]
    assert versions[0]["files"] == rubric_files("pairwise-note")
    assert client.get(f"{api}nothing/versions/").status_code == 404
    assert token(make_empty_team(slug="o", name="O"), "read").get(api).status_code == 404


def test_a_token_of_the_team_orders_a_run_with_its_rubric(team: Team) -> None:
    write_version(team)
    arena = make_arena(2, 2, team=team)
    body = {"judges": ["scripted:scripted-1@help/support"], "per_pair": 1, "pairs": "all"}
    url = f"/api/v1/arenas/{arena.slug}/judge-runs/"
    ordered = token(team, "judge").post(url, body, content_type="application/json")
    assert ordered.status_code == 201, ordered.content
    assert Judge.objects.get().name == "scripted:scripted-1@help/support.1"
    other = make_empty_team(slug="other", name="Other")
    theirs = make_arena(2, 2, team=other)
    outsider = token(other, "judge")
    for name in (*body["judges"], Judge.objects.get().name):
        refused = outsider.post(
            f"/api/v1/arenas/{theirs.slug}/judge-runs/",
            body | {"judges": [name]},
            content_type="application/json",
        )
        assert refused.status_code == 422
        assert "There is no rubric called" in refused.json()["detail"]
