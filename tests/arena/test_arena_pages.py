"""The pages where teams set up an arena: who gets in, and what they see there."""

import json
import re
from typing import Any

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from arena.models import Arena, Candidate, Prompt, Response, Run, Team
from tests.arena.teams import everybody, signed_in
from tests.arena.variants import variants
from tests.described import undescribed
from tests.factories import make_arena, make_candidate, make_member, make_team, make_user, make_vote

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
ROLES = ("nobody", "stranger", "viewer", "member", "owner", "operator")
VISITORS = {"viewer": 200, "member": 200, "owner": 200, "operator": 200}
WRITERS = {"viewer": 403, "member": 200, "owner": 200, "operator": 200}
OWNERS = {"viewer": 403, "member": 403, "owner": 200, "operator": 200}
PAGES: dict[str, tuple[str, dict[str, int]]] = {
    "manage_arena": ("", VISITORS),
    "arena_settings": ("", OWNERS),
    "manage_prompts": ("", VISITORS),
    "add_prompts": ("", WRITERS),
    "edit_prompt": ("prompt", VISITORS),
    "manage_candidates": ("", VISITORS),
    "new_candidate": ("", WRITERS),
    "manage_candidate": ("candidate", VISITORS),
    "edit_candidate": ("candidate", WRITERS),
    "upload_answers": ("candidate", WRITERS),
}
TOKEN = re.compile('name="csrfmiddlewaretoken" value="[^"]+"')
DEEDS = {"retire_prompt": "prompt", "retire_candidate": "candidate"}


def address(arena: Arena, name: str, about: str = "") -> str:
    pk = {
        "prompt": lambda: [arena.prompts.earliest("pk").pk],
        "candidate": lambda: [arena.candidates.earliest("pk").pk],
    }.get(about, list)()
    return reverse(name, args=[arena.slug, *pk])


@pytest.mark.parametrize("visibility", ["public", "unlisted", "private"])
def test_every_page_opens_for_those_it_is_for(arena: Arena, team: Team, visibility: str) -> None:
    Arena.objects.filter(pk=arena.pk).update(visibility=visibility)
    browsers = everybody(team)
    outside = {"nobody": 404, "stranger": 404}
    if visibility != "private":
        outside = {"nobody": 302, "stranger": 403}
    for name, (about, inside) in PAGES.items():
        url = address(arena, name, about)
        statuses = {role: browsers[role].get(url).status_code for role in ROLES}
        assert statuses == outside | inside, name


@pytest.mark.parametrize("visibility", ["public", "private"])
def test_every_deed_is_refused_to_those_it_is_not_for(
    arena: Arena, team: Team, visibility: str
) -> None:
    Arena.objects.filter(pk=arena.pk).update(visibility=visibility)
    browsers = everybody(team)
    refused = 404 if visibility == "private" else 403
    expected = {"nobody": refused, "stranger": refused, "viewer": 403, "member": 302}
    deeds = DEEDS | {name: about for name, (about, inside) in PAGES.items() if inside == WRITERS}
    for name, about in deeds.items():
        url = address(arena, name, about)
        statuses = {role: browsers[role].post(url).status_code for role in expected}
        wanted = expected if name in DEEDS else expected | {"member": 200}
        assert statuses == wanted, name


def test_a_private_arena_looks_like_a_missing_one(arena: Arena) -> None:
    Arena.objects.filter(pk=arena.pk).update(visibility="private")
    for client, may_sign_in in ((Client(), True), (signed_in(make_user()), False)):
        answers = []
        for slug in (arena.slug, "no-such-arena"):
            with CaptureQueriesContext(
                connection,
            ) as queries:
                response = client.get(reverse("manage_arena", args=[slug]))
            told = response.content.decode().replace(slug, "SLUG")
            answers.append((response.status_code, TOKEN.sub("", told), len(queries)))
        assert answers[0] == answers[1]
        assert answers[0][0] == 404
        assert ('<a href="/sign-in/">sign in</a>,' in answers[0][1]) == may_sign_in


def test_a_viewer_reads_a_prompt_and_why_it_is_read_only(arena: Arena, team: Team) -> None:
    arena.prompts.update(text="Why? " * 100, reference="Because.")
    viewer, url = everybody(team)["viewer"], address(arena, "edit_prompt", "prompt")
    assert url in viewer.get(address(arena, "manage_prompts")).text
    page = viewer.get(url).text
    assert "Why? " * 99 in page
    assert "Because." in page
    assert "<button" not in page.split("<main")[1]
    refused = viewer.post(url, {"text": "Other?"})
    assert refused.status_code == 403
    assert "You have read-only access" in refused.text


def test_what_is_of_another_arena_is_not_found(owner: Client, arena: Arena) -> None:
    other = make_arena(1, 1)
    for name, about in {**DEEDS, "edit_prompt": "prompt", "manage_candidate": "candidate"}.items():
        of_other = address(other, name, about).replace(f"/{other.slug}/", f"/{arena.slug}/")
        assert owner.post(of_other).status_code in (404, 405), name
        assert owner.get(of_other).status_code in (404, 405), name


@pytest.fixture
def guest_browser(arena: Arena) -> Client:
    """A member of another team, in an arena that is open to it."""
    Arena.objects.filter(pk=arena.pk).update(open_to_teams=True)
    arena.prompts.update(reference="SECRET-REFERENCE", rubric="SECRET-RUBRIC")
    arena.candidates.update(
        team=arena.team, system_prompt="SECRET-SYSTEM", notes="SECRET-NOTES", model="SECRET-MODEL"
    )
    return signed_in(make_team(name="Guests").memberships.get().user)


def test_a_guest_enters_a_candidate_and_manages_that_one_alone(
    guest_browser: Client, arena: Arena
) -> None:
    data = variants({"name": "Theirs", "system_prompt": "Ours is better."})
    response = guest_browser.post(address(arena, "new_candidate"), data)
    made = arena.candidates.get(name="Theirs")
    assert response.url == reverse("manage_candidate", args=[arena.slug, made.pk])
    assert made.team.name == "Guests"
    assert b"Ours is better." in guest_browser.get(response.url).content
    for name in ("manage_candidate", "edit_candidate", "upload_answers", "retire_candidate"):
        assert guest_browser.post(address(arena, name, "candidate")).status_code in (404, 405), name
    assert guest_browser.post(address(arena, "retire_prompt", "prompt")).status_code == 403


def test_a_guest_sees_nothing_of_the_others_texts(guest_browser: Client, arena: Arena) -> None:
    for name in ("manage_arena", "manage_prompts", "manage_candidates", "new_candidate"):
        response = guest_browser.get(address(arena, name))
        assert response.status_code == 200
        assert b"SECRET" not in response.content, name
    preview = guest_browser.post(
        address(arena, "new_candidate"), variants({"name": "Theirs"}, do="price")
    )
    assert b"Question 0?" in preview.content
    assert b"SECRET" not in preview.content


def test_variables_are_listed_where_a_prompt_has_some(owner: Client, arena: Arena) -> None:
    listed = address(arena, "manage_prompts")
    assert ">Variables<" not in owner.get(listed).text
    arena.prompts.filter(pk=arena.prompts.first().pk).update(variables={"tone": "warm"})
    assert ">Variables<" in owner.get(listed).text


def test_a_guest_sees_variables_while_it_may_enter(guest_browser: Client, arena: Arena) -> None:
    arena.prompts.update(variables={"tone": "VALUE"})
    row = {"name": "Theirs", "user_template": "{{ prompt }} {{ tone }}"}

    def shown() -> tuple[bool, bool]:
        listed = guest_browser.get(address(arena, "manage_prompts")).text
        page, data = address(arena, "new_candidate"), variants(row, do="price")
        if made := arena.candidates.filter(name="Theirs").first():
            page = reverse("edit_candidate", args=[arena.slug, made.pk])
            data = row | {"do": "preview"}
        return "<code>tone<" in listed, "VALUE" in guest_browser.post(page, data).text

    assert shown() == (True, True)
    guest_browser.post(address(arena, "new_candidate"), variants(row))
    assert shown() == (True, True)
    Arena.objects.filter(pk=arena.pk).update(open_to_teams=False)
    assert shown() == (False, False)


def test_the_arenas_team_sees_of_private_guests_the_masks(owner: Client, arena: Arena) -> None:
    Arena.objects.filter(pk=arena.pk).update(open_to_teams=True)
    team = make_team(name="Guests")
    private = {"system_prompt": "Hidden text", "disclosed_at": None, "private_until_votes": 5}
    all_theirs = [make_candidate(arena, f"{x} Hidden", team=team, **private) for x in "zma"]
    theirs = all_theirs[0]
    listed = owner.get(address(arena, "manage_candidates")).content.decode()
    masks = re.findall(r"Undisclosed (\d+)", listed)
    by_mask = sorted((each.pk for each in all_theirs), key=str)  # not by name
    assert list(dict.fromkeys(map(int, masks))) == by_mask
    assert "Hidden" not in listed
    assert owner.get(reverse("manage_candidate", args=[arena.slug, theirs.pk])).status_code == 404


@pytest.mark.parametrize("is_disclosed", [True, False])
def test_the_arenas_team_retires_a_guest(owner: Client, arena: Arena, is_disclosed: bool) -> None:
    theirs = make_candidate(arena, "Hidden", team=make_team(name="Guests"))
    if not is_disclosed:
        arena.candidates.filter(pk=theirs.pk).update(disclosed_at=None, private_until_votes=5)
    url = reverse("retire_candidate", args=[arena.slug, theirs.pk])
    page = "manage_candidate" if is_disclosed else "manage_candidates"
    place = reverse(page, args=[arena.slug, *([theirs.pk] if is_disclosed else [])])
    assert url in owner.get(place).text
    said = owner.post(url, follow=True)
    assert said.redirect_chain == [(place, 302)]
    assert ("Hidden archived" in said.text) == is_disclosed
    assert url not in said.text
    theirs.refresh_from_db()
    assert theirs.retired_at is not None


def test_a_guest_of_a_closed_arena_reads_why_it_is_read_only(arena: Arena) -> None:
    guests = make_team(name="Guests")
    theirs = make_candidate(arena, "theirs", team=guests)
    member = signed_in(guests.memberships.get().user)
    page = member.get(reverse("manage_candidate", args=[arena.slug, theirs.pk])).text
    assert "This arena is closed to candidates from other teams." in page
    for name in ("edit_candidate", "upload_answers"):
        assert reverse(name, args=[arena.slug, theirs.pk]) not in page
    assert reverse("retire_candidate", args=[arena.slug, theirs.pk]) in page


def test_an_arena_is_made_by_a_member_and_by_no_viewer(team: Team) -> None:
    url = reverse("new_arena", args=[team.slug])
    data = {"name": "Refunds", "question": "Which?", "visibility": "private", "voters": "members"}
    statuses = {
        role: browser.post(url, data).status_code for role, browser in everybody(team).items()
    }
    assert statuses == {
        "nobody": 302,
        "stranger": 404,
        "viewer": 403,
        "member": 302,
        "owner": 302,
        "operator": 302,
    }
    made = Arena.objects.filter(team=team).order_by("pk")
    assert [arena.slug.rpartition("-")[0] for arena in made] == ["refunds"] * 3
    assert {(arena.visibility, arena.voters) for arena in made} == {("private", "members")}


def test_an_error_in_the_settings_is_reported_next_to_them(owner: Client, arena: Arena) -> None:
    data = {
        "name": "Refunds",
        "question": "Which?",
        "visibility": "private",
        "voters": "anyone",
        "open_to_teams": "on",
    }
    page = owner.post(address(arena, "arena_settings"), data).content.decode()
    assert "Other teams cannot see a private arena" in page
    assert "id_open_to_teams_error" in page
    assert not undescribed(page)
    assert 'value="Refunds"' in page
    arena.refresh_from_db()
    assert arena.visibility == "public"
    del data["open_to_teams"]
    assert owner.post(address(arena, "arena_settings"), data).status_code == 302
    arena.refresh_from_db()
    assert (arena.visibility, arena.name) == ("private", "Refunds")


def test_the_settings_fix_the_scale_and_show_it(owner: Client, arena: Arena) -> None:
    chosen = make_candidate(arena, "gpt-4")
    data = {"name": "Refunds", "question": "Which?", "visibility": "public", "voters": "anyone"}
    data |= {"anchor": str(chosen.pk), "anchor_score": "1114"}
    assert owner.post(address(arena, "arena_settings"), data).status_code == 302
    arena.refresh_from_db()
    assert (arena.anchor, arena.anchor_score) == (chosen, 1114)
    page = owner.get(address(arena, "arena_settings")).content.decode()
    assert "Scale of the scores" in page
    assert f'<option value="{chosen.pk}" selected>' in page
    assert not undescribed(page)


def test_the_overview_says_what_comes_next(owner: Client, team: Team) -> None:
    arena = make_arena(0, 0, team=team)

    def heading() -> str:
        page = owner.get(address(arena, "manage_arena")).content.decode()
        return page.split('<h1 id="next">')[1].split("</h1>")[0].strip()

    assert heading() == "Start by adding prompts"
    prompt = Prompt.objects.create(arena=arena, external_id="p1", text="Why?")
    assert heading() == "Add two candidates"
    first = make_candidate(arena, "first", team=team)
    assert heading() == "Add another candidate"
    second = make_candidate(arena, "second", team=team)
    assert heading() == "Add the answers"
    Response.objects.create(candidate=first, prompt=prompt, text="So.")
    assert heading() == "Add the answers"
    Response.objects.create(candidate=second, prompt=prompt, text="Thus.")
    assert heading() == "Collect votes"
    voting = f"{settings.SITE_URL}{reverse('vote', args=[arena.slug])}"
    page = owner.get(address(arena, "manage_arena")).text
    assert f"<code>{voting}</code>" in page
    assert page.count(f'href="{reverse("vote", args=[arena.slug])}"') == 1
    make_candidate(arena, "third", team=team)
    page = owner.get(address(arena, "manage_arena")).content.decode()
    assert "1 prompt has no answer from third." in " ".join(page.split())
    assert ">Vote</a>" in page
    arena.candidates.filter(name="third").delete()
    for _ in range(9):
        make_vote(arena, first, second, "left", prompt)
    assert heading() == "Collect votes"  # as the leaderboard says: 9 of 10
    run = Run.objects.create(arena=arena, kind="judge", state="open", votes_wanted=4, votes_done=1)
    assert heading() == "Votes are being collected"
    words = " ".join(owner.get(address(arena, "manage_arena")).text.split())
    assert "9 of the 10 votes that a first ranking takes" in words
    assert f"Judge run {run.pk}</a>: 1 vote from 4 comparisons" in words
    Run.objects.update(state="paused")
    assert heading() == f"Resume or cancel run {run.pk}"
    Run.objects.update(state="done")
    make_vote(arena, first, second, "left", prompt)
    assert heading() == "Read the results"
    make_candidate(arena, "fourth", team=team)
    fourth = arena.candidates.get(name="fourth")
    assert heading() == "Add the missing answers"
    Run.objects.create(arena=arena, kind="answers", candidate=fourth, state="open", votes_wanted=1)
    assert heading() == "Answers are being generated"


def test_the_overview_is_not_done_while_prompts_are_unanswered(
    owner: Client, arena: Arena, team: Team
) -> None:
    """Two candidates answered three prompts and were voted on; then more prompts came."""
    arena.candidates.update(team=team)
    first, second = arena.candidates.order_by("pk")
    Candidate.objects.filter(pk=second.pk).update(endpoint="scripted", model="scripted-1")
    make_vote(arena, first, second, "left", arena.prompts.earliest("pk"))
    for number in range(6):
        Prompt.objects.create(arena=arena, external_id=f"new-{number}", text="Why?")
    Response.objects.create(
        candidate=first, prompt=Prompt.objects.get(external_id="new-0"), text="So."
    )
    page = owner.get(address(arena, "manage_arena")).text
    words = " ".join(page.split())
    assert ">Add the missing answers</h1>" in page
    assert f"6 prompts have no answer from {second}. 5 prompts have" in words
    assert f"have no answer from {first}." in words
    assert f"{reverse('manage_candidate', args=[arena.slug, second.pk])}#generate" in page
    assert reverse("upload_answers", args=[arena.slug, first.pk]) in page
    assert ">Vote</a>" in page
    assert page.count("button primary") == 1


def test_the_overview_counts_a_guests_candidates(owner: Client, arena: Arena) -> None:
    Arena.objects.filter(pk=arena.pk).update(open_to_teams=True)
    guests = make_team(name="Guests")
    theirs = make_candidate(arena, "theirs", team=guests)
    upload = reverse("upload_answers", args=[arena.slug, theirs.pk])

    page = owner.get(address(arena, "manage_arena")).text
    assert "2 from your team, 1 from other teams." in page
    assert upload not in page
    page = signed_in(guests.memberships.get().user).get(address(arena, "manage_arena")).text
    assert "1 from your team, 2 from other teams." in page
    assert upload in page


def test_the_overview_offers_uploads_to_those_permitted_alone(arena: Arena, team: Team) -> None:
    """A viewer of the arena's team who enters candidates of another one."""
    Arena.objects.filter(pk=arena.pk).update(open_to_teams=True)
    ours = make_candidate(arena, "ours", team=team)
    viewer = make_member(team, "viewer").user
    make_member(make_team(name="Guests"), "member", viewer)
    page = signed_in(viewer).get(address(arena, "manage_arena")).text
    assert "3 from your team" in page
    assert reverse("upload_answers", args=[arena.slug, ours.pk]) not in page


def test_lists_take_no_query_for_each_row(owner: Client, team: Team) -> None:
    counts = {}
    for size in (2, 12):
        arena = make_arena(size, size, team=team)
        arena.candidates.update(team=team)
        for name in ("manage_arena", "manage_prompts", "manage_candidates"):
            with CaptureQueriesContext(connection) as queries:
                owner.get(address(arena, name))
            counts[name, size] = len(queries)
    for name in ("manage_arena", "manage_prompts", "manage_candidates"):
        assert counts[name, 2] == counts[name, 12], name


def test_prompts_are_pasted(owner: Client, arena: Arena) -> None:
    data = {"pasted": "One?\nTwo?\nQuestion 0?", "category": "new"}
    page = owner.post(address(arena, "add_prompts"), data).content.decode()
    assert "2 added." in page
    assert set(arena.prompts.filter(category="new").values_list("external_id", "text")) == {
        ("p3", "One?"),
        ("p4", "Two?"),
    }
    assert "Prompt &#x27;p0&#x27; already has answers or comparisons" in page


def previewed(owner: Client, arena: Arena, data: str | bytes, **fields: Any) -> Any:
    """The answer to a file of prompts, of which nothing is saved yet."""
    data = data.encode() if isinstance(data, str) else data
    file = SimpleUploadedFile("prompts.csv", data)
    before = arena.prompts.count()
    shown = owner.post(address(arena, "add_prompts"), {"file": file, **fields})
    assert "Nothing is saved yet." in shown.text
    assert arena.prompts.count() == before
    return shown


def confirmed(owner: Client, arena: Arena, shown: Any, **changes: str) -> str:
    """The page after a preview is confirmed, its fields as they were but for `changes`."""
    data = {field.html_name: field.value() or "" for field in shown.context["form"]}
    data = {name: value for name, value in data.items() if name not in ("file", "pasted")}
    data |= {"do": "confirm", **changes}
    return owner.post(address(arena, "add_prompts"), data).text


def test_prompts_are_uploaded_as_excel_saves_them(owner: Client, arena: Arena) -> None:
    text = "ID;Text;Category;Expected;customer\r\nx1;Grüße?;hi;Hallo;Ada\r\nx2;;;;\r\n"
    shown = previewed(owner, arena, text.encode("utf-16"))
    assert "1 prompt, 1 row with errors." in " ".join(shown.text.split())
    page = confirmed(owner, arena, shown)
    made = arena.prompts.get(external_id="x1")
    assert (made.text, made.reference, made.variables) == ("Grüße?", "Hallo", {"customer": "Ada"})
    assert "1 row skipped" in page
    assert "is empty" in page


def test_more_than_three_new_variables_are_asked_about(owner: Client, arena: Arena) -> None:
    text = "id,text,one,two,three,four\nx1,Fine?,1,2,3,4\n"
    shown = previewed(owner, arena, text, category="new")
    assert "4 columns are not used: one, two, three, four." in shown.text
    chosen = {"column-two": "variable", "column-four": "reference"}
    page = confirmed(owner, arena, shown, **chosen)
    assert "1 added." in page
    made = arena.prompts.get(external_id="x1")
    assert (made.variables, made.reference, made.category) == ({"two": "2"}, "4", "new")
    # Three are not many, and are variables unless somebody says otherwise.
    shown = previewed(owner, arena, text.replace("x1,Fine", "x2,Well"))
    assert "columns are not used" not in shown.text
    forged = confirmed(owner, arena, shown, kept="forged")
    assert "no longer stored" in forged
    assert "1 added." in confirmed(owner, arena, shown)
    assert set(arena.prompts.get(external_id="x2").variables) == {"one", "two", "three", "four"}


def test_a_preview_refuses_columns_that_make_no_prompt(owner: Client, arena: Arena) -> None:
    shown = previewed(owner, arena, "id,text,more\nx1,Fine?,Really?\n")
    page = confirmed(owner, arena, shown, **{"column-text": ""})
    assert "No column contains the prompt or conversation. Choose one." in page
    page = confirmed(owner, arena, shown, **{"column-more": "text"})
    assert "cannot both be the prompt" in page
    assert not arena.prompts.filter(external_id="x1").exists()


@pytest.mark.parametrize(
    ("text", "brings"),
    [
        ("prompt,response\nWhy?,So.\n", "Prompts: 1, candidates: 1, answers: 1."),
        (
            "prompt,chosen,rejected\nWhy?,So.,No.\n",
            "Prompts: 1, candidates: 2, answers: 2, votes: 1.",
        ),
        ("prompt,left,right,winner\nq1,x,y,left\n", "Votes: 1."),
        ("input,expected_output,metadata\nWhy?,So.,{}\n", "Prompts: 1."),
        ('{"candidate": "x", "prompt": "p0", "text": "So."}', "1 bad row."),
    ],
)
def test_no_column_of_another_tool_becomes_a_variable(
    owner: Client, arena: Arena, text: str, brings: str
) -> None:
    name = "responses.jsonl" if text.startswith("{") else "some.csv"
    file = SimpleUploadedFile(name, text.encode())
    shown = owner.post(address(arena, "add_prompts"), {"file": file})
    assert "What this file would add" in shown.text
    assert brings in " ".join(shown.text.split())
    if text.startswith("prompt,response"):  # a person may know better
        shown = owner.post(
            address(arena, "add_prompts"),
            {"kept": shown.context["form"]["kept"].value(), "do": "table"},
        )
        assert "1 added." in confirmed(owner, arena, shown)
        assert arena.prompts.get(text="Why?").variables == {"response": "So."}


def test_a_file_of_another_tool_is_previewed_where_prompts_are_added(
    owner: Client, arena: Arena
) -> None:
    text = "question_id,model_a,model_b,winner,judge,tstamp\nq1,x,y,model_a,ann,1700000000\n"
    # A browser offers the files of other tools too.
    accepted = owner.get(address(arena, "add_prompts")).context["form"]["file"].field.widget.attrs
    assert {".parquet", ".xlsx", ".zip", ".gz"} <= set(accepted["accept"].split(","))
    data = {"file": SimpleUploadedFile("anything.csv", text.encode())}
    page = owner.post(address(arena, "add_prompts"), data).content.decode()
    assert "What this file would add" in page
    assert "Votes: 1." in " ".join(page.split())
    assert not arena.votes.exists()
    kept = re.findall(r'name="kept" value="([^"]+)"', page)[0]
    data = {"kept": kept, "format": "lmarena", "do": "import"}
    assert "Votes added: 1" in owner.post(address(arena, "import_file"), data).content.decode()


def test_all_rows_or_none(owner: Client, arena: Arena) -> None:
    shown = previewed(owner, arena, "id,text\nx1,Fine?\nx2,\n", atomic="on")
    page = confirmed(owner, arena, shown)
    assert "Nothing was saved" in page
    assert not arena.prompts.filter(external_id="x1").exists()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "Paste something, or choose a file."),
        ({"pasted": "A?", "file": b"text\nB?\n"}, "You pasted text and chose a file."),
        ({"file": b"PK\x03\x04xl/"}, "Save it again."),
        ({"file": b""}, "The file is empty."),
        ({"file": b"a,b\n1,2\n"}, "a column text"),
    ],
)
def test_a_file_that_cannot_be_used_is_reported(
    owner: Client, arena: Arena, data: dict[str, Any], words: str
) -> None:
    if "file" in data:
        data = data | {"file": SimpleUploadedFile("prompts.csv", data["file"])}
    page = owner.post(address(arena, "add_prompts"), data).content.decode()
    assert words in page
    assert arena.prompts.count() == 3


def test_prompts_are_filtered_and_paged(owner: Client, arena: Arena) -> None:
    Prompt.objects.bulk_create(
        Prompt(arena=arena, external_id=f"n{i}", text=f"Number {i}", category="many")
        for i in range(60)
    )
    url = address(arena, "manage_prompts")
    first = owner.get(url, {"category": "many"}).content.decode()
    assert "60 prompts" in first
    assert "?category=many&amp;page=2" in first
    second = owner.get(url, {"category": "many", "page": "2"}).content.decode()
    assert ("n55" in second, "n5<" in second) == (True, False)
    assert "1 prompt<" in owner.get(url, {"q": "Number 33"}).content.decode()
    assert "No prompts match." in owner.get(url, {"state": "retired"}).content.decode()


def test_prompts_are_archived_and_restored_many_at_once(owner: Client, arena: Arena) -> None:
    Prompt.objects.bulk_create(
        Prompt(arena=arena, external_id=f"n{i}", text=f"Number {i}", category="many")
        for i in range(60)
    )
    first, second, third = arena.prompts.order_by("pk")[:3]
    retire = address(arena, "retire_prompts")
    page = owner.post(retire, {"do": "retire", "prompt": [first.pk, second.pk, "x"]}, follow=True)
    assert "2 prompts archived" in page.text
    assert "Choose p2" in page.text
    assert "Choose p0" not in page.text
    page = owner.post(f"{retire}?category=many", {"do": "retire", "every": "1"}, follow=True)
    assert "60 prompts archived" in page.text
    assert list(arena.prompts.active()) == [third]
    page = owner.post(f"{retire}?state=retired", {"do": "bring_back"}, follow=True)
    assert "choose at least one prompt" in page.text
    page = owner.post(f"{retire}?state=all", {"do": "bring_back", "every": "1"}, follow=True)
    assert "62 prompts restored" in page.text


def test_a_prompt_in_use_is_shown_and_retired(owner: Client, arena: Arena) -> None:
    url = address(arena, "edit_prompt", "prompt")
    assert b"only its document can change" in owner.get(url).content
    assert b"only its document can be changed" in owner.post(url, {"text": "Other?"}).content
    retire = address(arena, "retire_prompt", "prompt")
    assert owner.post(retire, {"do": "retire"}).url == url
    assert arena.prompts.active().count() == 2
    owner.post(retire, {"do": "bring_back"})
    assert arena.prompts.active().count() == 3


def test_a_new_prompt_is_edited(owner: Client, arena: Arena) -> None:
    prompt = Prompt.objects.create(arena=arena, external_id="new", text="Old?")
    url = reverse("edit_prompt", args=[arena.slug, prompt.pk])
    wrong = owner.post(url, {"text": "New?", "variables": "{" + "[" * 5000})
    assert b"Enter a JSON object of names and texts" in wrong.content
    data = {"text": "New?", "category": "c", "variables": json.dumps({"who": "Ada"})}
    assert owner.post(url, data).status_code == 302
    prompt.refresh_from_db()
    assert (prompt.text, prompt.category, prompt.variables) == ("New?", "c", {"who": "Ada"})


def test_a_megabyte_of_system_prompt_is_reported(owner: Client, arena: Arena) -> None:
    url = address(arena, "new_candidate")
    row = {"name": "Long", "system_prompt": "x" * 1_048_576}
    response = owner.post(url, variants(row))
    assert response.status_code == 413
    assert b"100,000 characters each" in response.content
    row["system_prompt"] = "x" * 200_000
    response = owner.post(url, variants(row))
    assert response.status_code == 200
    assert b"has 200,000 characters; the limit is 100,000" in response.content
    assert not arena.candidates.filter(name="Long").exists()


def test_a_file_that_is_too_large_is_not_even_read(owner: Client, arena: Arena) -> None:
    url = address(arena, "add_prompts")
    response = owner.post(url, b"x", content_type="text/plain", CONTENT_LENGTH="90000000")
    assert response.status_code == 413
    assert b"A file can be up to 20 MB" in response.content


def test_a_form_without_its_token_is_refused(team: Team, arena: Arena) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_member(team).user)
    assert client.post(address(arena, "add_prompts"), {"pasted": "A?"}).status_code == 403
