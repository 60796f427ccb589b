"""What a candidate's form says before anything is saved: who will read it, and what to enter."""

import html
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.calls.prices import set_price
from arena.forms.base import disclosure_text
from arena.models import Arena, Candidate, Team
from tests.arena.variants import variants
from tests.described import undescribed
from tests.factories import make_arena, make_candidate

pytestmark = pytest.mark.django_db
WHO = {
    "public": "This arena is public: everyone can read",
    "unlisted": "This arena is unlisted: everyone with a link can read",
    "private": "This arena is private: only its team can read",
}


def form_of(owner: Client, arena: Arena) -> str:
    return owner.get(reverse("new_candidate", args=[arena.slug])).text


def preview_of(
    owner: Client, arena: Arena, row: dict[str, str] | None = None, **settings: str
) -> str:
    row = {"name": "Warm"} | (row or {"system_prompt": "Be kind."})
    data = variants(row, do="price", **settings)
    page = owner.post(reverse("new_candidate", args=[arena.slug]), data).text
    return page.split('id="offer-title"')[1]


@pytest.mark.parametrize("visibility", list(WHO))
def test_every_form_says_who_will_read_its_text(
    owner: Client, arena_of_one: Arena, visibility: str
) -> None:
    Arena.objects.update(visibility=visibility)
    page = form_of(owner, arena_of_one)
    assert 0 < page.find(f"<strong>{WHO[visibility]} these texts") < page.index("<textarea")
    assert not undescribed(page)
    page = owner.get(
        reverse("edit_candidate", args=[arena_of_one.slug, arena_of_one.candidates.get().pk])
    ).text
    assert 0 < page.find(f"<strong>{WHO[visibility]} these texts") < page.index("<textarea")


@pytest.mark.parametrize("visibility", list(WHO))
def test_the_preview_says_who_will_read_what_is_sent(
    owner: Client, arena_of_one: Arena, visibility: str
) -> None:
    Arena.objects.update(visibility=visibility)
    assert f"{WHO[visibility]} these texts" in preview_of(owner, arena_of_one)


def test_the_preview_says_from_when_on_everybody_reads(owner: Client, arena_of_one: Arena) -> None:
    asked = {"private_until_votes": "", "private_until": ""}
    assert "can read these texts, at once." in preview_of(owner, arena_of_one, **asked)
    page = preview_of(owner, arena_of_one, **asked | {"private_until_votes": "50"})
    assert "can read these texts, once the candidate has 50 votes." in page


def test_of_two_rules_the_first_that_comes_is_named() -> None:
    day = datetime(2026, 12, 1, tzinfo=UTC)
    assert disclosure_text(1, None) == "once the candidate has 1 vote"
    assert disclosure_text(None, day) == "from 1 December 2026 on"
    both = "once the candidate has 1,000 votes or from 1 December 2026 on, whichever comes first"
    assert disclosure_text(1000, day) == both


def test_a_new_arena_is_unlisted_by_default(owner: Client, team: Team) -> None:
    page = owner.get(reverse("new_arena", args=[team.slug])).text
    chosen = page.split(" checked")[0].rpartition("<input")[2]
    assert 'value="unlisted"' in chosen
    assert "read the candidates’ prompts" in page


def test_hiding_is_described_in_the_order_it_is_read(owner: Client, arena_of_one: Arena) -> None:
    page = " ".join(form_of(owner, arena_of_one).split())
    words = "Leave both fields empty to make everything public at once."
    assert page.index(words) < page.index("until this many votes") < page.index("until this date")


def test_the_models_of_the_endpoints_are_offered(owner: Client, arena_of_one: Arena) -> None:
    zero = Decimal(0)
    set_price(
        endpoint="scripted", model="mine-1", input_usd=zero, output_usd=zero, now=timezone.now()
    )
    edit = reverse("edit_candidate", args=[arena_of_one.slug, arena_of_one.candidates.get().pk])
    page = owner.get(edit).text
    assert 'list="known-models"' in page
    offered = page.split('<datalist id="known-models">')[1].split("</datalist>")[0]
    assert '<option value="scripted-1" label="at scripted">' in offered
    assert '<option value="mine-1" label="at scripted">' in offered
    assert "For the scripted endpoint, scripted-1." in page


def test_a_missing_model_is_requested_with_an_example(owner: Client, arena_of_one: Arena) -> None:
    edit = reverse("edit_candidate", args=[arena_of_one.slug, arena_of_one.candidates.get().pk])
    page = owner.post(edit, {"endpoint": "scripted", "do": "preview"}).text
    assert "Enter the model to use at this endpoint, such as scripted-1." in page


def page_of(owner: Client, candidate: Candidate) -> str:
    return owner.get(reverse("manage_candidate", args=[candidate.arena.slug, candidate.pk])).text


def test_what_is_uploaded_has_no_template_to_speak_of(owner: Client, arena_of_one: Arena) -> None:
    page = page_of(owner, arena_of_one.candidates.get())
    assert "User template" not in page
    assert "System prompt" not in page


def test_a_fresh_candidates_page_begins_with_generation(
    owner: Client, arena_of_one: Arena, team: Team
) -> None:
    fresh = make_candidate(
        arena_of_one, "fresh", team=team, endpoint="scripted", model="scripted-1"
    )
    page = page_of(owner, fresh)
    assert page.index("Generate 4 answers") < page.index("Configuration")
    assert page.count('class="button primary"') == 1


def test_nothing_is_urged_for_a_retired_candidate(owner: Client, arena_of_one: Arena) -> None:
    arena_of_one.candidates.update(retired_at=timezone.now())
    assert 'class="button primary"' not in page_of(owner, arena_of_one.candidates.get())


def test_arenas_of_one_name_are_distinguished_by_their_addresses(owner: Client, team: Team) -> None:
    slugs = [make_arena(0, 0, team=team, name="Refunds").slug for _ in range(2)]
    page = owner.get(team.get_absolute_url()).text
    assert all(f"<code>{slug}</code>" in page for slug in slugs)


def test_the_token_form_names_all_that_submitting_covers(owner: Client, team: Team) -> None:
    page = owner.get(reverse("team_tokens", args=[team.slug])).text
    assert "Submit: arenas, prompts, candidates, answers and votes" in page


def test_a_form_sent_back_unchanged_changes_nothing(owner: Client, arena_of_one: Arena) -> None:
    candidate = arena_of_one.candidates.get()
    content = {
        "model": "gpt-9",
        "variant": "v2",
        "system_prompt": "Be kind.",
        "user_template": "{{ prompt }}!",
        "parameters": {"temperature": 0.5, "stop": ["END"]},
        "notes": "From March.",
    }
    Candidate.objects.filter(pk=candidate.pk).update(**content)
    url = reverse("edit_candidate", args=[arena_of_one.slug, candidate.pk])
    shown = owner.get(url).context["form"]
    data = {name: shown[name].value() for name in shown.fields}
    data = {name: value for name, value in data.items() if value is not None}
    sent = owner.post(url, data | {"do": "preview"}).context
    assert not sent["form"].errors
    assert not sent["changes"]
    owner.post(url, data | {"do": "save", "seen": sent["fingerprint"]})
    after = arena_of_one.candidates.get()
    assert {name: getattr(after, name) for name in content} == content


TURNS = (
    '[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "2 + 2"},'
    ' {"role": "assistant", "content": "4 <b>"}, {"role": "user", "content": "{{ prompt }}"}]'
)


def test_messages_are_previewed_saved_shown_and_compared(
    owner: Client, arena_of_one: Arena
) -> None:
    preview = preview_of(owner, arena_of_one, {"messages": TURNS})
    assert [preview.count(f"<h4>{role}</h4>") for role in ("User", "Assistant")] == [6, 3]
    assert "4 &lt;b&gt;" in preview
    data = variants({"name": "Warm", "messages": TURNS})
    page = owner.post(reverse("new_candidate", args=[arena_of_one.slug]), data, follow=True).text
    candidate = Candidate.objects.get(name="Warm")
    roles = [turn["role"] for turn in candidate.messages]
    assert roles == ["system", "user", "assistant", "user"]
    assert "<h3>Messages</h3>" in page
    assert "4 &lt;b&gt;" in page
    assert (
        "Be kind." in owner.get(reverse("candidate", args=[arena_of_one.slug, candidate.pk])).text
    )
    edit = reverse("edit_candidate", args=[arena_of_one.slug, candidate.pk])
    page = owner.get(edit).text
    assert "&quot;assistant&quot;" in page
    changed = owner.post(edit, {"messages": TURNS.replace("4 <b>", "5"), "do": "preview"}).text
    assert "Changes to the messages" in changed


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        (TURNS, "Enter a system prompt and user template, or messages, not both."),
        ("{", "It is not JSON"),
        ('[{"role": "user", "content": "No variable."}]', "The user template uses no variable"),
        (TURNS.replace("{{ prompt }}", "Hm."), "No message uses a variable"),
        (TURNS.replace("prompt", "promt"), "The message 4 uses {{ promt }}, which no prompt has"),
        (TURNS.replace('"user"', '"assistant"'), "must start (after any system message)"),
    ],
)
def test_messages_that_cannot_be_sent_are_refused(
    owner: Client, arena_of_one: Arena, messages: str, says: str
) -> None:
    system = "Be kind." if "not both" in says else ""
    data = variants({"name": "Warm", "system_prompt": system, "messages": messages})
    page = owner.post(reverse("new_candidate", args=[arena_of_one.slug]), data).text
    assert says in html.unescape(page)
    assert not Candidate.objects.filter(name="Warm").exists()
