"""A team starts on one page: two prompts with their questions, or a file with an arena for it."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import Actor
from arena.files.rows import PromptRow
from arena.models import Arena, AuditEntry, Candidate, Membership, Prompt, Run, Team
from arena.services.arenas import ArenaError
from arena.services.teams import create_team
from arena.services.workspaces import start_arena
from tests.arena.generation import work_off
from tests.arena.teams import signed_in
from tests.arena.variants import SCRIPTED_KEY, shown, variants
from tests.described import undescribed
from tests.factories import DOLLAR, MODEL, make_arena, make_member, make_team, make_user

pytestmark = pytest.mark.django_db
COMPARE, IMPORT = "/compare-prompts/", "/import/"
EMPTY = [f"variant-{row}-{name}" for row in (0, 1) for name in ("name", "system_prompt")]
A, B = {"name": "Prompt A", "system_prompt": "A."}, {"name": "Prompt B", "system_prompt": "B."}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arena.tasks.wake_workers", lambda: 0)


@pytest.fixture
def nora(db: None) -> Client:
    """Somebody who is in no team yet."""
    return signed_in(make_user("nora"))


def comparison(**more: Any) -> dict[str, Any]:
    data = variants(A, B, model=SCRIPTED_KEY)
    return data | {
        "arena-team_name": "Nora’s team",
        "arena-name": "Refunds",
        "arena-questions": "Can I get a refund?\nHow long does it take?",
        **more,
    }


def nothing_is_there() -> bool:
    rows = (Team, Arena, Prompt, Candidate, AuditEntry)
    return not any(model.objects.exists() for model in rows)


def words(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def test_one_page_makes_team_arena_questions_and_candidates(nora: Client) -> None:
    form = nora.get(COMPARE).context
    assert form["start"]["team_name"].value() == "nora’s team"
    page = nora.post(COMPARE, comparison(do="price"))
    assert "4 answers by scripted-1 (endpoint scripted): 2 prompts with every question" in words(
        page
    )
    assert "Create the arena with 2 candidates and generate for free" in words(page)
    assert nothing_is_there()
    answer = nora.post(COMPARE, shown(nora, COMPARE, comparison()))
    arena = Arena.objects.get()
    assert answer["Location"] == reverse("manage_arena", args=[arena.slug])
    assert (arena.name, arena.visibility, arena.voters) == ("Refunds", "private", "members")
    assert Membership.objects.get().team == arena.team
    texts = [prompt.text for prompt in arena.prompts.order_by("pk")]
    assert texts == ["Can I get a refund?", "How long does it take?"]
    names = [str(candidate) for candidate in arena.candidates.order_by("pk")]
    assert names == ["Prompt A", "Prompt B"]
    for run in Run.objects.all():
        work_off(run)
    assert "Collect votes" in nora.get(answer["Location"]).text


def test_a_member_of_one_team_is_not_asked_for_it(team: Team) -> None:
    client = signed_in(make_member(team).user)
    page = client.get(COMPARE)
    assert 'type="hidden" name="arena-team"' in page.text
    assert not undescribed(page.text)
    client.post(COMPARE, comparison())
    assert Arena.objects.get().team == team


def test_a_member_of_several_teams_chooses_among_those_they_may_submit_for(team: Team) -> None:
    person = make_member(team).user
    second = make_team(person, name="Second")
    watched, strangers = make_team(name="Watched"), make_team(name="Strangers")
    make_member(watched, "viewer", user=person)
    client = signed_in(person)
    choices = client.get(COMPARE).context["start"].fields["team"].choices
    assert {label for _, label in choices} == {team.name, "Second"}
    for other in (watched, strangers):
        refused = client.post(COMPARE, comparison(**{"arena-team": other.pk}))
        assert "Select a valid choice" in refused.text
    client.post(COMPARE, comparison(**{"arena-team": second.pk}))
    assert Arena.objects.get().team == second


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"arena-name": ""}, "Enter a name for the arena."),
        ({"arena-team_name": ""}, "Enter a name for the team."),
        ({"arena-questions": " \n"}, "Enter at least one question."),
        ({"model": ""}, "Choose a model."),
        ({"variant-1-system_prompt": "A."}, "This is the same as Prompt A"),
        (
            {"variant-0-system_prompt": "", "variant-1-system_prompt": ""},
            "This is the same as Prompt A: neither has a prompt. Enter one.",
        ),
        ({"variant-1-name": "", "variant-1-system_prompt": ""}, "Enter at least 2 prompts"),
        ({"variant-1-user_template": "{{ who }}: {{ prompt }}"}, "which no prompt has"),
        ({"arena-team_name": "Taken"}, "already"),
        ({"arena-questions": "Why?\nHow?\nWhy?"}, "Line 3 repeats line 1."),
    ],
)
def test_an_error_keeps_everything_and_writes_nothing(
    nora: Client, wrong: dict[str, str], says: str
) -> None:
    if "Taken" in wrong.values():
        create_team(name="Taken", by=signed_in_actor())
    before = Team.objects.count()
    page = nora.post(COMPARE, comparison(**wrong))
    assert says in page.text
    kept = page.context["form"].variants[0]["system_prompt"].value()
    assert kept == wrong.get("variant-0-system_prompt", "A.")
    assert not undescribed(page.text)
    assert (Team.objects.count(), Arena.objects.count()) == (before, 0)


def signed_in_actor() -> Any:
    return Actor(user=make_user())


def test_a_text_file_of_questions_becomes_text_in_the_form(nora: Client) -> None:
    file = SimpleUploadedFile("questions.txt", b"Long one,\nwith two lines.\n---\nAnother?")
    data = comparison(do="price") | {"arena-questions": "", "arena-file": file}
    page = nora.post(COMPARE, data)
    start = page.context["start"]
    assert start["questions"].value() == "Long one,\nwith two lines.\n---\nAnother?"
    assert len(start.rows) == 2
    wrong = SimpleUploadedFile("questions.xlsx", b"PK\x03\x04")
    page = nora.post(COMPARE, comparison(do="price") | {"arena-file": wrong})
    assert "questions.xlsx is not a text file" in page.text
    assert nothing_is_there()


def test_what_a_new_team_cannot_pay_is_said_before(nora: Client, model: Any, settings: Any) -> None:
    settings.TEAM_BUDGET = 0
    data = comparison(model=f"paid:{MODEL}")
    page = nora.post(COMPARE, data | {"do": "price"})
    assert "the team has no budget left for models" in page.text
    settings.TEAM_BUDGET = DOLLAR
    sent = shown(nora, COMPARE, data)
    refused = nora.post(COMPARE, sent | {"cap": "5", "suggested": "-"})
    assert "left of its budget of $1.00" in refused.text
    assert nothing_is_there()
    nora.post(COMPARE, sent)
    assert Run.objects.count() == 2


def test_a_row_can_be_added_before_anything_else_is_entered(nora: Client) -> None:
    page = nora.post(COMPARE, variants({"name": "Prompt A"}, {"name": "Prompt B"}, do="add"))
    assert len(page.context["form"].variants) == 3
    assert "Nothing was saved" not in page.text

    assert "Enter a name for the arena." not in page.text
    assert [row.label for row in page.context["form"].variants][2] == "Prompt C"


def test_all_errors_are_listed_at_once_with_links(team: Team) -> None:
    make_arena(0, 0, team=team, name="Refunds")
    client = signed_in(make_member(team).user)
    questions = "Why?\nHow?\nWhy?\nHow?"
    wrong = {"arena-questions": questions, "arena-name": "refunds", "variant-1-system_prompt": "A."}
    page = words(client.post(COMPARE, comparison(do="price", **wrong)))
    listed = page.split('<ul class="manage-plain">')[1].split("</ul>")[0]
    for link, says in (
        ("id_arena-name", "already has an arena with this name"),
        ("id_arena-questions", "Line 3 repeats line 1. Line 4 repeats line 2."),
        ("variant-2", "This is the same as Prompt A"),
    ):
        assert f'href="#{link}"' in listed
        assert says in listed
    assert "Nothing is saved yet." not in page
    assert 'value="generate"' not in page


def test_pasted_prompts_replace_empty_rows(nora: Client) -> None:
    page = nora.get(COMPARE)
    assert [row.label for row in page.context["form"].variants] == ["Prompt A", "Prompt B"]
    pasted = variants({}, {}, pasted="Be kind.\n---\nBe brief.\n---\nBe formal.")
    form = nora.post(COMPARE, comparison(do="price") | dict.fromkeys(EMPTY, "") | pasted).context[
        "form"
    ]
    entered = [(row["name"].value(), row["system_prompt"].value()) for row in form.variants]
    assert entered == [
        ("Prompt A", "Be kind."),
        ("Prompt B", "Be brief."),
        ("Prompt C", "Be formal."),
    ]


def test_a_second_click_pays_nothing(team: Team) -> None:
    client = signed_in(make_member(team).user)
    sent = shown(client, COMPARE, comparison())
    client.post(COMPARE, sent)
    again = client.post(COMPARE, sent)
    assert "already has an arena with this name" in again.text
    assert (Arena.objects.count(), Run.objects.count()) == (1, 2)


def test_the_service_writes_everything_or_nothing(db: None) -> None:
    person = signed_in_actor()
    rows = [PromptRow(1, "A?", external_id="same"), PromptRow(2, "B?", external_id="same")]
    with pytest.raises(ArenaError):
        start_arena(
            team=None,
            team_name="Ours",
            by=person,
            now=timezone.now(),
            name="Refunds",
            prompts=rows,
            variants=[{"name": "one"}],
        )
    assert nothing_is_there()


def test_files_go_into_an_arena_of_ones_own_or_a_new_one(nora: Client) -> None:
    answer = nora.post(IMPORT, {"name": "From files", "team_name": "Nora’s team"})
    arena = Arena.objects.get()
    assert answer["Location"] == reverse("import_file", args=[arena.slug])
    assert nora.get(answer["Location"]).status_code == 200
    page = nora.get(IMPORT).text
    assert answer["Location"] in page
    assert arena.team is not None
    assert reverse("import_arena", args=[arena.team.slug]) in page
    stranger = signed_in(make_user())
    assert "From files" not in stranger.get(IMPORT).text


def test_an_import_without_a_name_creates_nothing(nora: Client) -> None:
    page = nora.post(IMPORT, {"name": "", "team_name": "Nora’s team"})
    assert "Enter a name for the arena." in page.text
    assert nothing_is_there()
