"""The pages of candidates: prompts are previewed, and used versions never change."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.models import Arena, Candidate, Team
from tests.arena.teams import signed_in
from tests.arena.variants import SCRIPTED_KEY, variants
from tests.described import undescribed
from tests.factories import DOLLAR, make_candidate, make_team

pytestmark = pytest.mark.django_db


@pytest.fixture
def used(arena_of_one: Arena) -> Candidate:
    """A candidate that has answers."""
    arena_of_one.candidates.update(
        team=arena_of_one.team, system_prompt="Be kind.\nBe brief.", model="m"
    )
    return arena_of_one.candidates.get()


def new(arena: Arena) -> str:
    return reverse("new_candidate", args=[arena.slug])


def page_of(name: str, candidate: Candidate) -> str:
    return reverse(name, args=[candidate.arena.slug, candidate.pk])


def test_answers_are_listed_by_their_first_words_without_marks(
    owner: Client, used: Candidate
) -> None:
    used.responses.update(text="**Version 4.12** is out, with `retry`.")
    page = owner.get(page_of("manage_candidate", used)).text
    assert "</strong> Version 4.12 is out, with retry." in page


def test_teams_are_listed_where_a_candidate_has_one(owner: Client, used: Candidate) -> None:
    listed = reverse("manage_candidates", args=[used.arena.slug])
    assert ">Team</th>" in owner.get(listed).text
    Candidate.objects.update(team=None)
    assert ">Team</th>" not in owner.get(listed).text


def test_older_versions_are_archived_in_one_step(owner: Client, used: Candidate) -> None:
    arena = used.arena
    listed, url = (
        reverse(name, args=[arena.slug]) for name in ("manage_candidates", "archive_candidates")
    )
    assert "Archive all but the newest versions" not in owner.get(listed).text
    newer = [make_candidate(arena, used.name, version=number, team=arena.team) for number in (2, 3)]
    guest = make_candidate(arena, "Guest", team=make_team())
    assert "Archive all but the newest versions" in owner.get(listed).text

    asked = owner.get(url, {"older": 1}).text
    assert "Archive 2 candidates" in asked
    assert f"{used.name} v2" in asked
    assert f"{used.name} v3" not in asked
    assert not Candidate.objects.exclude(retired_at=None).exists()

    sent = {"candidate": [used.pk, newer[0].pk, guest.pk]}
    done = owner.post(url, sent, follow=True).text
    assert f"2 candidates archived: {used.name}, {used.name} v2." in done
    assert set(Candidate.objects.active()) == {newer[1], guest}
    assert "choose at least one active candidate" in owner.post(url, sent, follow=True).text


def test_the_preview_shows_three_prompts_as_they_are_sent(
    owner: Client, arena_of_one: Arena
) -> None:
    row = {"name": "Warm", "system_prompt": "<b>Be kind</b>", "user_template": "Q: {{ prompt }}"}
    data = variants(row, do="price", model=SCRIPTED_KEY)
    page = owner.post(new(arena_of_one), data).text
    assert "What is sent for Warm" in page
    assert page.count("&lt;b&gt;Be kind&lt;/b&gt;</pre>") == 3
    assert "<b>Be kind" not in page
    assert "Q: Question 2?" in page
    assert arena_of_one.candidates.count() == 1


def test_an_edit_is_previewed_with_other_prompts(owner: Client, used: Candidate) -> None:
    data = {
        "user_template": "Q: {{ prompt }}",
        "endpoint": "scripted",
        "model": "writer-1",
        "temperature": "0.5",
        "do": "preview",
    }
    page = owner.post(page_of("edit_candidate", used), data).text
    words = " ".join(page.split())
    assert "Sent to writer-1 at scripted. Parameters: temperature 0.5." in words
    assert "Showing 3 of 4 prompts." in words
    assert ("Q: Question 2?" in page, "Q: Question 3?" in page) == (True, False)
    others = owner.post(page_of("edit_candidate", used), data | {"from": "3"}).text
    assert ("Q: Question 3?" in others, "Q: Question 2?" in others) == (True, False)


def test_prompts_that_lack_a_variable_are_counted(owner: Client, arena_of_one: Arena) -> None:
    arena_of_one.prompts.filter(external_id="p1").update(variables={"who": "Ada"})
    row = {"name": "Warm", "user_template": "{{ who }}: {{ prompt }}"}
    page = owner.post(new(arena_of_one), variants(row, do="price")).text
    assert "3 of 4 prompts lack a value for a variable" in page
    assert "Ada: Question 1?" in page


def test_a_candidate_is_registered(owner: Client, arena_of_one: Arena) -> None:
    data = variants(
        {"name": "Warm"},
        model=SCRIPTED_KEY,
        seed="7",
        reasoning_effort="low",
        more_parameters='{"stop": "END"}',
        private_until="2099-01-01",
    )
    wrong = owner.post(new(arena_of_one), data)
    assert b"at most one year from now" in wrong.content
    data |= {"private_until": "", "private_until_votes": "30"}
    made_at = owner.post(new(arena_of_one), data).url
    made = arena_of_one.candidates.get(name="Warm")
    assert made_at == page_of("manage_candidate", made)
    assert (made.endpoint, made.model) == ("scripted", "scripted-1")
    assert made.parameters == {"seed": 7, "reasoning_effort": "low", "stop": "END"}
    assert (made.private_until_votes, made.disclosed_at) == (30, None)
    page = " ".join(owner.get(made_at).content.decode().split())
    assert f"The leaderboard shows it as “Undisclosed {made.pk}” until it has 30 votes." in page


def test_a_private_candidates_form_starts_as_private(owner: Client, used: Candidate) -> None:
    until = timezone.now() + timedelta(days=30)
    how = {"disclosed_at": None, "private_until_votes": 40, "private_until": until}
    Candidate.objects.filter(pk=used.pk).update(**how)
    page = owner.get(page_of("edit_candidate", used)).content.decode()
    assert 'name="private_until_votes" value="40"' in page
    assert f'value="{until:%Y-%m-%d}"' in page


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"variant-0-name": "candidate-0"}, "Edit it to create the next version"),
        ({"variant-0-user_template": "{{ promt }}"}, "did you mean {{ prompt }}?"),
        ({"model": "https://elsewhere.example"}, "This model is not in the list"),
        ({"model": ""}, "Choose a model."),
        ({"temperature": "3"}, "It is 3.0, not a number from 0 to 2."),
        ({"more_parameters": '{"stream": true}'}, "is not supported"),
        ({"more_parameters": "[1]"}, "Enter a JSON object"),
        ({"more_parameters": '{"seed": ' + "9" * 5000 + "}"}, "Enter a JSON object"),
    ],
)
def test_an_error_is_reported_and_nothing_is_lost(
    owner: Client, arena_of_one: Arena, used: Candidate, wrong: dict[str, str], words: str
) -> None:
    data = variants({"name": "Warm", "system_prompt": "Kept text."}, {"name": "Cold"}) | wrong
    page = owner.post(new(arena_of_one), data).content.decode()
    assert words in page
    assert "Kept text." in page
    assert not undescribed(page)
    assert arena_of_one.candidates.count() == 1


def test_no_key_of_an_endpoint_is_on_the_page(
    owner: Client, arena_of_one: Arena, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arena.endpoints import Endpoint, ModelPrice

    monkeypatch.setenv("CANARY_NAME", "CANARY-KEY")
    listed = Endpoint(
        "house",
        "openai",
        base_url="http://canary.example/v1",
        key_env="CANARY_NAME",
        prices={"big-1": ModelPrice(DOLLAR, 2 * DOLLAR)},
    )
    settings.MODEL_ENDPOINTS = {"house": listed}
    page = owner.get(new(arena_of_one)).content.decode()
    assert "house:big-1 ($1.00 in, $2.00 out)" in page
    assert "canary" not in page.lower()


def test_anyone_who_has_several_teams_says_for_which(team: Team, arena_of_one: Arena) -> None:
    user = team.memberships.get().user
    other = make_team(user, name="Second team")
    Arena.objects.filter(pk=arena_of_one.pk).update(open_to_teams=True)
    browser = signed_in(user)
    assert b"Second team" in browser.get(new(arena_of_one)).content
    browser.post(new(arena_of_one), variants({"name": "Warm"}, team=other.pk))
    assert arena_of_one.candidates.get(name="Warm").team == other
    strangers = make_team(name="Strangers")
    page = browser.post(new(arena_of_one), variants({"name": "Cold"}, team=strangers.pk))
    assert b"Select a valid choice" in page.content


def test_an_edit_shows_the_difference_then_writes_a_version(owner: Client, used: Candidate) -> None:
    url = page_of("edit_candidate", used)
    data = {"system_prompt": "Be kind.\nBe patient.", "model": "m-2", "do": "save"}
    unseen = owner.post(url, data)
    assert b"Check the new preview, then save" in unseen.content
    assert used.arena.candidates.count() == 1
    page = owner.post(url, data | {"do": "preview"}).content.decode()
    assert "from <del>m</del> to <ins>m-2</ins>" in page
    assert page.count('<span class="visually-hidden">removed: </span>') == 1
    assert "Save new version" in page
    seen = page.split('name="seen" value="')[1].split('"')[0]
    changed = owner.post(url, data | {"seen": seen, "notes": "Slipped in."})
    assert b"nothing was saved" in changed.content
    made_at = owner.post(url, data | {"seen": seen}).url
    second = used.arena.candidates.get(version=2)
    assert made_at == page_of("manage_candidate", second)
    assert (second.system_prompt, second.name) == ("Be kind.\nBe patient.", used.name)
    used.refresh_from_db()
    assert used.system_prompt == "Be kind.\nBe brief."


def test_the_versions_page_says_who_when_and_what_differs(owner: Client, used: Candidate) -> None:
    who = owner.get(reverse("teams")).wsgi_request.user
    for version in (2, 3):
        make_candidate(
            used.arena,
            used.name,
            team=used.team,
            version=version,
            system_prompt=f"Text {version}.",
            created_by=who,
        )
    third = used.arena.candidates.get(version=3)
    Candidate.objects.filter(pk=third.pk).update(created_at=datetime(2026, 5, 1, 9, 30, tzinfo=UTC))
    page = owner.get(page_of("manage_candidate", third)).content.decode()
    assert f"1 May 2026, 09:30\N{NO-BREAK SPACE}UTC</time> by {who.username}" in page
    assert "Differences from candidate-0 v2" in page
    page = owner.get(page_of("manage_candidate", third), {"against": "1"}).content.decode()
    assert "Differences from candidate-0<" in page
    assert owner.get(page_of("manage_candidate", third), {"against": "x"}).status_code == 200


def test_what_was_never_used_is_changed_in_place(
    owner: Client, arena_of_one: Arena, team: Team
) -> None:
    fresh = make_candidate(arena_of_one, "fresh", team=team)
    url = page_of("edit_candidate", fresh)
    page = owner.post(url, {"notes": "New.", "do": "preview"}).content.decode()
    seen = page.split('name="seen" value="')[1].split('"')[0]
    assert owner.post(url, {"notes": "New.", "do": "save", "seen": seen}).status_code == 302
    fresh.refresh_from_db()
    assert (fresh.notes, arena_of_one.candidates.filter(name="fresh").count()) == ("New.", 1)


def test_a_retired_version_stays_and_is_not_retired_again(owner: Client, used: Candidate) -> None:
    retire = page_of("retire_candidate", used).encode()
    assert retire in owner.get(page_of("manage_candidate", used)).content
    owner.post(page_of("retire_candidate", used))
    used.refresh_from_db()
    assert used.retired_at is not None
    page = owner.get(page_of("manage_candidate", used)).content
    assert b"Archived" in page
    assert retire not in page


def test_an_uploaded_file_is_reported_and_again_changes_nothing(
    owner: Client, arena_of_one: Arena, team: Team
) -> None:
    made = make_candidate(arena_of_one, "ours", team=team)
    text = "prompt_id;answer;seconds\r\np0;Ja.;1,5\r\nQ9;Lost;1\r\np1;;1\r\n"
    url = page_of("upload_answers", made)

    def upload() -> str:
        file = SimpleUploadedFile("answers.csv", text.encode("utf-8-sig"))
        return str(owner.post(url, {"file": file}).content.decode())

    page = upload()
    assert "1 added." in page
    assert "There is no prompt &#x27;Q9&#x27; in this arena." in page
    assert (
        "The answer is empty; fill it in, or leave the row out (column &#x27;answer&#x27;)." in page
    )
    assert "3 active prompts have no answer yet" in " ".join(page.split())
    assert made.responses.get().seconds == 1.5
    assert "Nothing changed" in upload()
    assert made.responses.count() == 1


def test_answers_can_be_pasted_and_all_or_none_taken(
    owner: Client, arena_of_one: Arena, team: Team
) -> None:
    made = make_candidate(arena_of_one, "ours", team=team)
    rows = '{"prompt": "Question 0?", "answer": "Ja."}\n{"prompt": "?", "answer": "Nein."}'
    url = page_of("upload_answers", made)
    page = owner.post(url, {"pasted": rows, "atomic": "on"}).content.decode()
    assert "Nothing was saved" in page
    assert "Nein." in page
    assert not made.responses.exists()
    owner.post(url, {"pasted": rows})
    assert made.responses.get().text == "Ja."
    shown = owner.get(page_of("manage_candidate", made)).content.decode()
    assert "1 of 4 prompts answered." in shown


def test_the_report_says_how_uploaded_answers_were_read(
    owner: Client, arena_of_one: Arena, team: Team
) -> None:
    made = make_candidate(arena_of_one, "ours", team=team)
    data = "prompt_id;answer;mood\np0;Größe „3“.;calm\n".encode("cp1252")
    file = SimpleUploadedFile("answers.csv", data)
    page = owner.post(page_of("upload_answers", made), {"file": file}).content.decode()
    assert "The file is not UTF-8 and was read as Windows-1252." in page
    assert "Not used: &#x27;mood&#x27;." in page


def test_generated_answers_are_not_uploaded(owner: Client, arena_of_one: Arena, team: Team) -> None:
    made = make_candidate(arena_of_one, "ours", team=team, endpoint="scripted", model="writer-1")
    page = owner.post(page_of("upload_answers", made), {"pasted": "id,answer\np0,Ja."})
    assert b"are generated at scripted" in page.content
    assert not made.responses.exists()
