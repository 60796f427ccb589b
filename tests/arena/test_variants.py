"""One form registers up to twenty candidates, with the price of their answers before."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.forms.candidates import split_prompts
from arena.models import Arena, Candidate, Run, Team
from arena.services.budgets import BudgetError
from arena.services.candidates import VariantError, register_variants
from tests.arena.generation import work_off
from tests.arena.teams import signed_in
from tests.arena.variants import SCRIPTED_KEY, shown, variants
from tests.described import undescribed
from tests.factories import DOLLAR, MODEL, make_arena, make_candidate, make_member, make_paying_team

pytestmark = pytest.mark.django_db
PAID_KEY = f"paid:{MODEL}"


@pytest.fixture(autouse=True)
def rung(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often workers were woken; no test here uses a broker."""
    rings: list[str] = []
    monkeypatch.setattr("arena.tasks.wake_workers", lambda: rings.append("ring") or 0)
    return rings


def new(arena: Arena) -> str:
    return reverse("new_candidate", args=[arena.slug])


def words(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def rows(*texts: str) -> list[dict[str, str]]:
    return [{"name": f"V{n}", "system_prompt": text} for n, text in enumerate(texts, start=1)]


@pytest.fixture
def paying(model: Any) -> tuple[Arena, Client]:
    """An arena with three prompts, of a team with a dollar, and a member's browser."""
    team = make_paying_team(DOLLAR)
    return make_arena(0, 3, team=team), signed_in(make_member(team).user)


def test_three_are_registered_at_once_and_generate_for_free(
    owner: Client, arena_of_prompts: Arena
) -> None:
    url, data = new(arena_of_prompts), variants(*rows("A.", "B.", "C."), model=SCRIPTED_KEY)
    page = owner.post(url, data | {"do": "price"})
    assert "Add 3 candidates and generate for free" in words(page)
    assert not arena_of_prompts.candidates.exists()
    answer = owner.post(url, shown(owner, url, data))
    assert answer["Location"] == reverse("manage_arena", args=[arena_of_prompts.slug])
    made = arena_of_prompts.candidates.order_by("pk")
    assert [(c.name, c.system_prompt, c.model) for c in made] == [
        ("V1", "A.", "scripted-1"),
        ("V2", "B.", "scripted-1"),
        ("V3", "C.", "scripted-1"),
    ]
    assert sorted(run.candidate_id or 0 for run in Run.objects.all()) == [c.pk for c in made]
    overview = owner.get(answer["Location"])
    assert "3 candidates added: V1, V2, V3." in words(overview)
    assert 'hx-trigger="every 3s"' in overview.text
    for run in Run.objects.all():
        work_off(run)
    assert 'hx-trigger="every 3s"' not in owner.get(answer["Location"]).text


def test_the_price_is_that_of_all_and_the_cap_is_shared(
    paying: tuple[Arena, Client], rung: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    arena, client = paying
    data = variants(*rows("Be brief.", "Be brief, and kind at all times."), model=PAID_KEY)
    page = words(client.post(new(arena), data | {"do": "price"}))
    assert "6 answers by m-1 (endpoint paid): 2 candidates with every prompt." in page
    assert "$1.00 of its budget left" in page
    sent = shown(client, new(arena), data)
    assert float(sent["cap"]) > 0
    with django_capture_on_commit_callbacks(execute=True):
        client.post(new(arena), sent | {"cap": "0.05"})
    first, second = Run.objects.order_by("pk")
    assert first.team == arena.team
    assert first.cap is not None
    assert second.cap is not None
    assert 0 < first.cap < second.cap
    assert DOLLAR // 20 - 1 <= first.cap + second.cap <= DOLLAR // 20
    assert rung


@pytest.mark.parametrize(
    ("cap", "says"),
    [
        ("", "Enter a spending cap in dollars"),
        ("0", "enter a cap above $0"),
        ("2", "left of its budget of $1.00"),
        ("much", "Enter a number"),
    ],
)
def test_a_cap_that_does_not_fit_saves_nothing(
    paying: tuple[Arena, Client], cap: str, says: str
) -> None:
    arena, client = paying
    sent = shown(client, new(arena), variants(*rows("A."), model=PAID_KEY))
    page = client.post(new(arena), sent | {"cap": cap, "suggested": "-"})
    assert says in words(page)
    assert not arena.candidates.exists()
    assert not undescribed(page.text)


def test_without_a_budget_they_can_be_added_but_not_generated(
    paying: tuple[Arena, Client],
) -> None:
    arena, client = paying
    Team.objects.update(budget=0)
    data = variants(*rows("A."), model=PAID_KEY)
    page = words(client.post(new(arena), data | {"do": "price"}))
    assert "the team has no budget left for models" in page
    assert 'value="generate"' not in page
    client.post(new(arena), data)
    assert arena.candidates.count() == 1


def test_only_what_was_shown_is_generated(owner: Client, arena_of_prompts: Arena) -> None:
    url, data = new(arena_of_prompts), variants(*rows("A."), model=SCRIPTED_KEY)
    unseen = owner.post(url, data | {"do": "generate"})
    assert "Nothing was saved yet" in words(unseen)
    sent = shown(owner, url, data)
    changed = owner.post(url, sent | {"variant-0-system_prompt": "Slipped in."})
    assert "Nothing was saved yet" in words(changed)
    assert not arena_of_prompts.candidates.exists()


def test_a_second_click_adds_nothing(owner: Client, arena_of_prompts: Arena) -> None:
    url = new(arena_of_prompts)
    sent = shown(owner, url, variants(*rows("A.", "B."), model=SCRIPTED_KEY))
    owner.post(url, sent)
    assert "You already have a candidate named V1" in owner.post(url, sent).text
    assert (arena_of_prompts.candidates.count(), Run.objects.count()) == (2, 2)


def test_a_price_that_rose_is_shown_again(paying: tuple[Arena, Client]) -> None:
    arena, client = paying
    sent = shown(client, new(arena), variants(*rows("A."), model=PAID_KEY))
    arena.prompts.create(external_id="more", text="And another one?")
    assert "Nothing was saved yet" in words(client.post(new(arena), sent))
    assert not Run.objects.exists()


def test_pasted_prompts_become_rows_before_anything_is_saved(
    owner: Client, arena_of_prompts: Arena
) -> None:
    pasted = "Be kind.\r\n\r\nAlways.\r\n---\r\nBe brief.\r\n  ----  \r\n\r\nBe formal."
    data = variants({}, {}, model=SCRIPTED_KEY, pasted=pasted)
    page = owner.post(new(arena_of_prompts), data)
    assert "Nothing was saved yet" in words(page)
    assert not arena_of_prompts.candidates.exists()
    form = page.context["form"]
    assert form["pasted"].value() == ""
    entered = [(row["name"].value(), row["system_prompt"].value()) for row in form.variants]
    assert entered == [
        ("Variant 1", "Be kind.\n\nAlways."),
        ("Variant 2", "Be brief."),
        ("Variant 3", "Be formal."),
    ]
    owner.post(new(arena_of_prompts), shown(owner, new(arena_of_prompts), data))
    assert arena_of_prompts.candidates.count() == 3


def test_text_files_become_rows_named_like_them(owner: Client, arena_of_prompts: Arena) -> None:
    files = [
        SimpleUploadedFile("warm.txt", "\ufeffBe kind.\n---\nReally.".encode()),
        SimpleUploadedFile("cold.md", b"# Be cold"),
    ]
    row = {"name": "first", "system_prompt": "First."}
    page = owner.post(
        new(arena_of_prompts), variants(row, {}, do="price", prompt_files=files, model=SCRIPTED_KEY)
    )
    entered = [
        (form["name"].value(), form["system_prompt"].value())
        for form in page.context["form"].variants
    ]
    assert entered == [
        ("first", "First."),
        ("warm", "Be kind.\n---\nReally."),
        ("cold", "# Be cold"),
    ]


@pytest.mark.parametrize(
    ("says", "content"),
    [
        ("a.pdf is not a text file (.txt or .md).", b"%PDF-1.7"),
        ("a.txt is not a text file (.txt or .md).", b"a\0"),
        ("a.txt is not UTF-8: save it as UTF-8.", "Sé amable.".encode("latin-1")),
        ("b.md is empty.", b" \n "),
    ],
)
def test_a_file_that_is_no_text_is_named_and_the_rest_kept(
    owner: Client, arena_of_prompts: Arena, says: str, content: bytes
) -> None:
    unread = SimpleUploadedFile(says.split()[0], content)
    files = [SimpleUploadedFile("warm.txt", b"Be kind."), unread]
    page = owner.post(
        new(arena_of_prompts), variants({}, do="add", prompt_files=files, model=SCRIPTED_KEY)
    )
    assert says in words(page)
    assert "Be kind." in page.text
    assert not undescribed(page.text)


def test_more_than_twenty_are_refused_and_kept(owner: Client, arena_of_prompts: Arena) -> None:
    pasted = "\n---\n".join(f"Prompt {n}." for n in range(21))
    page = owner.post(new(arena_of_prompts), variants({}, do="price", pasted=pasted))
    assert "You can add 20 at once, and these would be 21." in words(page)
    assert "Prompt 20." in page.context["form"]["pasted"].value()
    twenty = variants(*rows(*(f"Prompt {n}." for n in range(20))), model=SCRIPTED_KEY)
    assert not owner.post(new(arena_of_prompts), twenty | {"do": "price"}).context["form"].can_add
    owner.post(new(arena_of_prompts), twenty)
    assert arena_of_prompts.candidates.count() == 20


def test_rows_are_added_and_removed_without_scripts(owner: Client, arena_of_prompts: Arena) -> None:
    url = new(arena_of_prompts)
    data = variants(*rows("A.", "B."), model="", temperature="9", do="add")
    page = owner.post(url, data)
    form = page.context["form"]
    assert [row["system_prompt"].value() for row in form.variants] == ["A.", "B.", ""]
    assert form["temperature"].value() == "9"
    assert "Nothing was saved" not in page.text
    assert page.text.count("autofocus") == 1
    removed = owner.post(url, data | {"do": "remove-0"}).context["form"]
    assert [row["system_prompt"].value() for row in removed.variants] == ["B."]


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"name": "v1"}, "Another candidate here is named v1, too."),
        ({"system_prompt": "A."}, "This is the same as V1: same prompt, model and settings."),
        ({"system_prompt": " A.\r\n\r\n"}, "This is the same as V1: same prompt"),
        ({"name": "Ours"}, "You already have a candidate named ours in this arena."),
        ({"system_prompt": "Taken."}, "This is the same as ours: same prompt, model and settings."),
        ({"messages": "{"}, "It is not JSON"),
        ({"name": "Undisclosed 7"}, "is reserved"),
    ],
)
def test_what_is_there_already_is_refused_beside_its_variant(
    owner: Client, arena_of_prompts: Arena, second: dict[str, str], says: str
) -> None:
    make_candidate(
        arena_of_prompts,
        "ours",
        team=arena_of_prompts.team,
        endpoint="scripted",
        model="scripted-1",
        system_prompt="Taken.",
    )
    first, other = rows("A.", "B.")
    page = owner.post(new(arena_of_prompts), variants(first, other | second, model=SCRIPTED_KEY))
    form = page.context["form"]
    assert [bool(variant.errors) for variant in form.variants] == [False, True]
    assert says in str(form.variants[1].errors).replace("&quot;", '"')
    wrong = form.variants[1]
    if wrong.non_field_errors():
        assert f'<a href="#variant-2">{wrong.label}</a>: ' in words(page)
    else:
        assert f'<a href="#id_variant-1-{next(iter(wrong.errors))}">{wrong.label}, ' in words(page)
    assert arena_of_prompts.candidates.count() == 1


def test_a_row_without_a_name_is_called_as_it_will_be(
    owner: Client, arena_of_prompts: Arena
) -> None:
    make_candidate(arena_of_prompts, "Variant 2", team=arena_of_prompts.team)
    named, text = {"name": "warm"}, {"system_prompt": "A."}
    page = owner.post(new(arena_of_prompts), variants(named, {}, {"name": "variant 3"}, do="add"))
    labels = [variant.label for variant in page.context["form"].variants]
    assert labels == ["warm", "Variant 4", "variant 3", "Variant 5"]
    page = owner.post(
        new(arena_of_prompts), variants(named, text, {"name": "variant 3"}, do="price")
    )
    assert page.context["form"].variants[1]["name"].value() == "Variant 4"


def test_a_cap_beyond_all_measure_is_refused_in_plain_words(paying: tuple[Arena, Client]) -> None:
    arena, client = paying
    sent = shown(client, new(arena), variants(*rows("A."), model=PAID_KEY))
    page = client.post(new(arena), sent | {"cap": "1000001", "suggested": "-"})
    assert "Enter at most 1,000,000." in page.text


def test_uploaded_candidates_may_be_alike(owner: Client, arena_of_prompts: Arena) -> None:
    data = variants({"name": "one"}, {"name": "two"}, uploaded_model="gpt-9")
    owner.post(new(arena_of_prompts), data)
    made = arena_of_prompts.candidates.values_list("endpoint", "model")
    assert list(made) == [("", "gpt-9"), ("", "gpt-9")]


def test_an_empty_form_says_what_to_enter(owner: Client, arena_of_prompts: Arena) -> None:
    page = owner.post(new(arena_of_prompts), variants({}, {}))
    assert "Enter at least one prompt" in page.text


def test_a_duplicate_is_filled_in_and_saved_under_another_name(
    owner: Client, arena_of_prompts: Arena, team: Team
) -> None:
    like = make_candidate(
        arena_of_prompts,
        "warm",
        team=team,
        endpoint="scripted",
        model="scripted-1",
        system_prompt="Be kind.",
        user_template="Q: {{ prompt }}",
        parameters={"temperature": 0.5, "reasoning_effort": "low", "stop": ["END"]},
        notes="From March.",
        disclosed_at=None,
        private_until_votes=40,
    )
    url = f"{new(arena_of_prompts)}?like={like.pk}"
    assert url in owner.get(reverse("manage_candidates", args=[arena_of_prompts.slug])).text
    page = owner.get(reverse("manage_candidate", args=[arena_of_prompts.slug, like.pk]))
    assert url in page.text
    form = owner.get(url).context["form"]
    (row,) = form.variants
    assert row["name"].value() == "warm 2"
    assert arena_of_prompts.candidates.count() == 1
    data = {name: form[name].value() for name in form.fields}
    texts = {name: row[name].value() or "" for name in row.fields}
    data = {name: value for name, value in data.items() if value is not None}
    same = owner.post(new(arena_of_prompts), data | variants(texts, model=data["model"]))
    assert "This is the same as warm" in same.text
    texts["system_prompt"] = "Be cold."
    owner.post(new(arena_of_prompts), data | variants(texts, model=data["model"]))
    made = arena_of_prompts.candidates.get(name="warm 2")
    assert made.content == like.content | {"system_prompt": "Be cold."}
    assert (made.disclosed_at, made.private_until_votes) == (None, 40)


@pytest.mark.parametrize("like", ["x", "9" * 30])
def test_a_number_that_is_none_gives_an_empty_form(
    owner: Client, arena_of_prompts: Arena, like: str
) -> None:
    assert owner.get(f"{new(arena_of_prompts)}?like={like}").status_code == 200


def test_texts_that_may_not_be_read_are_not_duplicated(arena_of_prompts: Arena) -> None:
    Arena.objects.update(open_to_teams=True)
    secret = make_candidate(
        arena_of_prompts, "secret", team=arena_of_prompts.team, system_prompt="SECRET"
    )
    guest = signed_in(make_member(make_paying_team()).user)
    assert guest.get(f"{new(arena_of_prompts)}?like={secret.pk}").status_code == 404


def test_a_model_without_a_price_cannot_be_chosen(
    owner: Client, arena_of_prompts: Arena, team: Team, model: Any
) -> None:
    like = make_candidate(arena_of_prompts, "old", team=team, endpoint="paid", model="gone-1")
    page = owner.get(f"{new(arena_of_prompts)}?like={like.pk}").text
    label = "paid:gone-1 (no price: cannot be generated)"
    assert "disabled" in page.split(label)[0].rpartition("<option")[2]
    answer = owner.post(new(arena_of_prompts), variants(*rows("A."), model="paid:gone-1"))
    assert "has no price. Choose another one." in answer.text


def test_the_model_used_last_is_chosen(owner: Client, arena_of_prompts: Arena, model: Any) -> None:
    assert owner.get(new(arena_of_prompts)).context["form"]["model"].value() == PAID_KEY
    make_candidate(
        arena_of_prompts,
        "ours",
        team=arena_of_prompts.team,
        endpoint="scripted",
        model="scripted-1",
    )
    assert owner.get(new(arena_of_prompts)).context["form"]["model"].value() == SCRIPTED_KEY


def test_lines_of_dashes_separate_prompts() -> None:
    assert split_prompts("a\n---\nb\n - - -\n---\n---\nc --- d\n") == ["a", "b\n - - -", "c --- d"]
    assert split_prompts(" \n---\n") == []


def test_the_service_registers_all_or_none(arena_of_prompts: Arena, team: Team) -> None:
    common: dict[str, Any] = {
        "arena": arena_of_prompts,
        "team": team,
        "by": CLI,
        "now": timezone.now(),
    }
    content = {"endpoint": "scripted", "model": "scripted-1"}
    one, two = {"name": "one", **content}, {"name": "two", **content}
    with pytest.raises(VariantError) as refused:
        register_variants(variants=[one, two], **common)
    assert refused.value.number == 1
    with pytest.raises(BudgetError):
        register_variants(variants=[one], cap=DOLLAR, **common)
    assert not Candidate.objects.exists()
    register_variants(variants=[one], **common)
    with pytest.raises(VariantError):
        register_variants(variants=[two], **common)
