"""A table of somebody's own becomes an arena by one page on which its columns are chosen."""

from io import BytesIO

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from openpyxl import Workbook

from arena.formats.winners import guesses
from arena.models import Arena, Candidate, Import, Prompt, Response, Vote
from tests.factories import make_arena, make_member, make_team

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
GERMAN = "Frage;Antwort GPT;Antwort Claude;besser;wer\n" + "".join(
    f"Frage {n}?;Ja {n}.;Nein {n}.;{who};Ada\n" for n, who in enumerate(("GPT", "Claude", "tie"))
)
GERMAN_ROLES = {
    "Frage": "prompt",
    "Antwort GPT": ("answer:", "GPT"),
    "Antwort Claude": ("answer:", "Claude"),
    "besser": "winner",
    "wer": "rater",
}
WIDE = [
    ["Question", "Answer of Oak", "Answer of Elm", "who won", "rater", "note"],
    *([f"Why {n}?", f"Oak {n}.", f"Elm {n}.", "Oak", "Ada", "x"] for n in range(3)),
]


@pytest.fixture
def arena() -> Arena:
    return make_arena(0, 0, team=make_team(), visibility="private")


@pytest.fixture
def member(client: Client, arena: Arena) -> Client:
    client.force_login(make_member(arena.team).user)
    return client


def send(client: Client, arena: Arena, data: bytes | str, name: str = "own.csv", **fields: str):
    file = SimpleUploadedFile(name, data.encode() if isinstance(data, str) else data)
    address = reverse("import_file", args=[arena.slug])
    return client.post(address, {"file": file, "do": "preview"} | fields)


def choose(client: Client, arena: Arena, shown, roles=None, values=None, do="preview", **fields):
    """Send the form as the page shows it, with what is chosen anew."""
    form = shown.context["form"]
    sent = {field.html_name: field.value() or "" for field in form if field.name != "file"}
    sent |= {"do": do} | fields
    for heading, role in (roles or {}).items():
        role, name = role if isinstance(role, tuple) else (role, "")
        sent |= {f"role-{heading}": role} | ({f"candidate-{heading}": name} if name else {})
    sent |= {f"value-{value}": means for value, means in (values or {}).items()}
    if not sent["skip_bad"]:
        del sent["skip_bad"]
    return client.post(reverse("import_file", args=[arena.slug]), sent)


def shown_roles(shown) -> dict[str, tuple[str, str]]:
    return {
        role.label: (role.value(), candidate.value() if ":" in role.value() else "")
        for _, role, candidate in shown.context["form"].columns
    }


def counts() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (Prompt, Candidate, Response, Vote))


def workbook(rows) -> bytes:
    book, data = Workbook(), BytesIO()
    for row in rows:
        book.active.append(row)
    book.save(data)
    return data.getvalue()


def test_each_column_is_shown_with_its_first_values_and_what_it_is_read_as(member, arena):
    shown = send(member, arena, workbook(WIDE), "wide.xlsx")
    assert shown_roles(shown) == {
        "Question": ("prompt", ""),
        "Answer of Oak": ("answer:", "Oak"),
        "Answer of Elm": ("answer:", "Elm"),
        "who won": ("winner", ""),
        "rater": ("rater", ""),
        "note": ("", ""),
    }
    samples, *_ = shown.context["form"].columns[0]
    assert samples == ["Why 0?", "Why 1?", "Why 2?"]
    assert "Not used: &#x27;note&#x27;" in shown.text
    assert choose(member, arena, shown, do="import").context["can_vote"]
    assert counts() == (3, 2, 6, 3)
    assert Import.objects.values_list("mapping").distinct().get() == ({},)


def test_a_table_with_unknown_headings_is_read_as_somebody_says(member, arena):
    shown = send(member, arena, GERMAN)
    assert {role for role, _ in shown_roles(shown).values()} == {""}
    assert "Say what each column is" in shown.text
    shown = choose(member, arena, shown, GERMAN_ROLES)
    assert shown.context["preview"].rows == {
        "prompts": 3,
        "candidates": 2,
        "responses": 6,
        "votes": 3,
    }
    assert counts() == (0, 0, 0, 0)
    shown = choose(member, arena, shown, do="import")
    assert counts() == (3, 2, 6, 3)
    assert sorted(Candidate.objects.values_list("name", flat=True)) == ["Claude", "GPT"]
    assert sorted(Vote.objects.values_list("outcome", flat=True)) == ["left", "right", "tie"]


def test_answers_without_a_verdict_can_be_imported_to_be_voted_on(member, arena):
    shown = send(member, arena, "Frage,GPT,Claude\nWarum?,Darum.,Weil.\n")
    roles = {"Frage": "prompt", "GPT": "answer:", "Claude": "answer:"}
    shown = choose(member, arena, choose(member, arena, shown, roles), do="import")
    assert counts() == (1, 2, 2, 0)
    assert f'href="{reverse("vote", args=[arena.slug])}"' in shown.text


@pytest.mark.parametrize(
    ("heading", "name"),
    [("Answer of X", "X"), ("Answer GPT-4", "GPT-4"), ("answer_a", "answer_a"), ("Foo", "Foo")],
)
def test_the_candidates_name_is_taken_from_the_heading(member, arena, heading, name):
    shown = send(member, arena, f"Frage,{heading}\nWarum?,Darum.\n")
    names = {role.label: box.value() for _, role, box in shown.context["form"].columns}
    assert names[heading] == name


def test_what_is_known_of_a_table_is_chosen_already(member, arena):
    shown = send(member, arena, "Question,GPT,Claude,Winner\nWhy?,So.,Thus.,GPT\n")
    assert shown_roles(shown) == {
        "Question": ("prompt", ""),
        "GPT": ("", ""),
        "Claude": ("", ""),
        "Winner": ("winner", ""),
    }


def test_two_columns_for_one_field_are_refused_and_nothing_chosen_is_lost(member, arena):
    shown = send(member, arena, GERMAN)
    shown = choose(member, arena, shown, GERMAN_ROLES | {"wer": "winner"}, {"GPT": "left"})
    [error] = shown.context["form"].non_field_errors()
    assert error == ("Two columns are read as the winner: 'besser' and 'wer'. Choose one of them.")
    assert shown_roles(shown)["Antwort GPT"] == ("answer:", "GPT")
    assert [(box.label, box.value()) for box in shown.context["form"].values] == [("GPT", "left")]
    shown = choose(member, arena, shown, {"wer": "rater"})
    assert shown.context["preview"].rows["votes"] == 3


def test_two_columns_of_one_candidate_are_refused(member, arena):
    same = GERMAN_ROLES | {"Antwort Claude": ("answer:", "GPT")}
    shown = choose(member, arena, send(member, arena, GERMAN), same)
    assert "Two columns are read as the answer of GPT" in shown.text


def test_what_is_still_missing_is_said(member, arena):
    shown = choose(member, arena, send(member, arena, GERMAN), {"Frage": "winner"})
    [error] = shown.context["form"].non_field_errors()
    assert error == ("More columns have to be chosen: for winners and losers, there is no loser.")
    shown = choose(member, arena, shown, {"Frage": ""})
    assert shown.context["form"].non_field_errors() == [
        "No column is used. Say what at least one of them is."
    ]


def test_a_column_that_was_recognised_can_be_left_out(member, arena):
    shown = send(member, arena, workbook(WIDE), "wide.xlsx")
    shown = choose(member, arena, shown, {"who won": ""})
    assert shown.context["form"].non_field_errors() == [
        "In answers, a column for each candidate, the column 'rater' cannot be the rater. Leave it "
        "unused, or choose more columns."
    ]
    shown = choose(member, arena, shown, {"rater": ""})
    assert "votes" not in shown.context["preview"].rows
    [file] = shown.context["preview"].files
    assert file.unread == ["'who won'", "'rater'", "'note'"]
    choose(member, arena, shown, do="import")
    assert counts() == (3, 2, 6, 0)


def test_ratings_of_several_candidates_can_be_chosen(member, arena):
    shown = send(member, arena, "id,Eiche,Ulme\n1,5,3\n2,2,4\n")
    roles = {"id": "id", "Eiche": "rating:", "Ulme": "rating:"}
    shown = choose(member, arena, choose(member, arena, shown, roles), do="import")
    assert sorted(Vote.objects.values_list("outcome", flat=True)) == ["left", "right"]


def test_codes_that_could_mean_several_things_are_asked_about_with_the_guess(member, arena):
    rows = "".join(f"Why {n}?,So.,Thus.,{n % 3}\n" for n in range(6))
    shown = send(member, arena, "question,answer_a,answer_b,winner\n" + rows)
    values = {box.label: box.value() for box in shown.context["form"].values}
    assert values == {"0": "left", "1": "tie", "2": "right"}
    assert "0, 1, 2 could mean several things." in shown.text
    assert not shown.context["problems"]
    choose(member, arena, shown, values={"0": "right", "2": "left"}, do="import")
    outcomes = Vote.objects.order_by("pk").values_list("outcome", flat=True)
    assert [*outcomes] == ["right", "tie", "left"] * 2


def test_strengths_become_preferences_that_are_shown_or_are_left_out(member, arena):
    said = ["A is slightly better", "B is much better", "A is better", "0.9"]
    rows = "".join(f"Why {n}?,So.,Thus.,{words}\n" for n, words in enumerate(said))
    shown = send(member, arena, "question,answer_a,answer_b,winner\n" + rows, **{"skip_bad": "on"})
    boxes = {box.label: box for box in shown.context["form"].values}
    assert boxes["A is slightly better"].value() == "0.75"
    assert boxes["B is much better"].value() == "right"
    values = {"A is better": "0.75", "A is slightly better": "skip", "0.9": "left"}
    shown = choose(member, arena, shown, values=values)
    choose(member, arena, shown, do="import")
    preferences = Vote.objects.order_by("pk").values_list("outcome", "preference")
    assert [*preferences] == [("right", None), ("left", 0.75), ("left", None)]


def test_the_same_file_read_in_another_way_is_refused_with_a_sentence(member, arena):
    shown = choose(member, arena, send(member, arena, GERMAN), GERMAN_ROLES)
    choose(member, arena, shown, do="import")
    swapped = {"Antwort GPT": ("answer:", "Claude"), "Antwort Claude": ("answer:", "GPT")}
    shown = choose(member, arena, send(member, arena, GERMAN), GERMAN_ROLES | swapped)
    shown = choose(member, arena, shown, do="import")
    [error] = shown.context["form"].non_field_errors()
    assert error.startswith("own.csv is already in this arena, read in another way")
    assert shown_roles(shown)["Antwort GPT"] == ("answer:", "Claude")
    assert counts() == (3, 2, 6, 3)


def test_a_file_confirmed_as_it_was_shown_is_known_however_it_comes_again(member, arena):
    rows = "question,answer_a,answer_b,winner\nWhy?,So.,Thus.,A\n"
    choose(member, arena, send(member, arena, rows), do="import")
    body = {"file_name": "own.csv", "content": rows, "preview": False}
    answer = member.post(reverse("api_imports", args=[arena.slug]), body, "application/json")
    assert answer.status_code == 200
    assert counts() == (1, 2, 2, 1)


def test_bad_rows_keep_what_was_chosen(member, arena):
    shown = choose(member, arena, send(member, arena, GERMAN + ";x;y;GPT;Ada\n"), GERMAN_ROLES)
    again = choose(member, arena, shown, do="import")
    assert "skip_bad" in again.context["form"].errors
    assert shown_roles(again) == shown_roles(shown)
    choose(member, arena, again, do="import", skip_bad="on")
    assert counts() == (3, 2, 6, 3)


def test_another_format_reads_the_columns_by_their_names_again(member, arena):
    shown = send(member, arena, "prompt,id,text\nWhy?,So.,Who?\n")
    shown = choose(member, arena, shown, {"prompt": "prompt", "text": ""})
    assert shown.context["preview"].files[0].columns["text"] == "prompt"
    shown = choose(member, arena, shown, format="prompts")
    assert shown.context["preview"].files[0].columns["text"] == "text"


def test_promptfoos_configuration_says_what_to_bring(member, arena):
    shown = send(member, arena, b"prompts: [a]\n", "promptfooconfig.yaml")
    [error] = shown.context["form"].errors["file"]
    assert "Run promptfoo there, and bring the results" in error
    assert "role-" not in shown.text


def test_promptfoos_configuration_is_refused_where_prompts_are_added_too(member, arena):
    file = SimpleUploadedFile("promptfooconfig.yaml", b"prompts: [a]\n")
    shown = member.post(reverse("add_prompts", args=[arena.slug]), {"file": file})
    assert "Run promptfoo there, and bring the results" in shown.text


def test_prompts_can_be_added_from_a_workbook(member, arena):
    file = SimpleUploadedFile("mine.xlsx", workbook([["text"], ["Why?"], ["Who?"]]))
    address = reverse("add_prompts", args=[arena.slug])
    shown = member.post(address, {"file": file})
    member.post(address, {"kept": shown.context["form"].initial["kept"], "do": "confirm"})
    assert sorted(Prompt.objects.values_list("text", flat=True)) == ["Who?", "Why?"]


def test_a_mapped_table_can_still_be_read_as_a_table_of_prompts(member, arena):
    shown = send(member, arena, "text,response\nWhy?,So.\n")
    address = reverse("add_prompts", args=[arena.slug])
    sent = {"kept": shown.context["form"].initial["kept"], "role-response": "answer:"}
    shown = member.post(address, sent | {"do": "table"})
    assert [field.label for field in shown.context["form"].column_fields] == ["text", "response"]


def test_of_three_candidates_the_winner_is_a_name(member, arena):
    rows = "question,answer of X,answer of Y,answer of Z,who won\nWhy?,a,b,c,Y\nWho?,a,b,c,X\n"
    shown = send(member, arena, rows)
    assert not shown.context["form"].values
    assert shown.context["preview"].rows["votes"] == 4


def test_codes_of_a_chosen_column_are_not_those_of_one_tool(member, arena):
    body = {
        "file_name": "own.csv",
        "content": "Frage,X,Y,besser\nWarum?,Darum.,Weil.,1\n",
        "columns": {"prompt": "Frage", "response_a": "X", "response_b": "Y", "winner": "besser"},
    }
    answer = member.post(reverse("api_imports", args=[arena.slug]), body, "application/json").json()
    [file] = answer["files"]
    assert (file["format"], file["values"]) == ("two-answers", {"1": ""})


@pytest.mark.parametrize(
    ("values", "guessed"),
    [
        (["0", "1", "2"], {"0": "left", "1": "tie", "2": "right"}),
        (["1", "2"], {"1": "left", "2": "right"}),
        (["0", "1"], {"0": "left", "1": "right"}),
        (["-1", "0", "1"], {"-1": "right", "0": "tie", "1": "left"}),
        (["1", "2", "3", "4"], {"1": "left", "2": "right", "3": "tie", "4": "both_bad"}),
        (["A", "C"], {"C": "tie"}),
        (["GPT"], {}),
    ],
)
def test_codes_are_guessed_by_those_beside_them(values, guessed):
    assert guesses(values) == guessed


def test_a_table_of_numbers_alone_can_be_read_as_ratings(member, arena):
    shown = send(member, arena, "question,Oak,Elm\nWhy?,5,3\n")
    roles = {"Oak": "rating:", "Elm": "rating:"}
    shown = choose(member, arena, shown, roles)
    assert shown.context["preview"].rows == {"votes": 1}


def test_the_api_says_what_values_mean_and_takes_families_of_columns(member, arena):
    address = reverse("api_imports", args=[arena.slug])
    columns = {"prompt": "Frage", "answer:GPT": "Antwort GPT", "answer:C": "Antwort Claude"}
    body = {
        "file_name": "own.csv",
        "content": GERMAN.replace("tie", "9"),
        "columns": columns | {"winner": "besser"},
    }
    answer = member.post(address, body | {"skip_bad": True}, "application/json").json()
    [file] = answer["files"]
    assert file["values"] == {"Claude": "", "9": ""}
    assert file["samples"]["besser"] == ["GPT", "Claude", "9"]
    body |= {"values": {"9": "tie", "Claude": "right"}, "preview": False}
    assert member.post(address, body, "application/json").json()["written"]
    assert counts() == (3, 2, 6, 3)
