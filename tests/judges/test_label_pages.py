"""The pages of a team's labels: a preview, what is stored, and who may know of it."""

import csv
import io
import json
from typing import Any

import openpyxl
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from arena.files.tables import AT_MOST_BYTES, AT_MOST_ROWS
from arena.models import AuditEntry, Role, Team
from judges.models import LabelSet
from tests.factories import make_empty_team
from tests.judges.helpers import (
    join,
)

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
PAIRS = [
    {"prompt": f"Why {n}?", "response_1": "So.", "response_2": "No.", "label": "1", "rater": rater}
    for n in range(12)
    for rater in ("ann", "bob")
]


@pytest.fixture
def member(team: Team) -> Client:
    return join(team, Role.MEMBER, "mia")


@pytest.fixture
def rivals() -> Team:
    return make_empty_team(slug="rivals", name="Rivals")


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def table(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def send(client: Client, team: Team, data: bytes, name: str = "labels.jsonl", **fields: Any) -> Any:
    sent = {"file": SimpleUploadedFile(name, data), "do": "preview"} | fields
    return client.post(reverse("new_labels", args=[team.slug]), sent)


def again(client: Client, page: Any, do: str = "save", **chosen: Any) -> Any:
    """Send what a preview shows, with some other choices."""
    form = page.context["form"]
    sent = {field.name: field.value() for field in form if field.value() not in (None, False)}
    return client.post(page.request["PATH_INFO"], sent | chosen | {"do": do})


def choice(page: Any, label: str) -> str:
    """The name of the field with this label."""
    (name,) = [field.name for field in page.context["form"] if field.label == label]
    return name


def test_a_member_sees_a_file_before_it_is_saved(member: Client, team: Team) -> None:
    page = send(member, team, lines(PAIRS))
    text = page.content.decode()
    assert not LabelSet.objects.exists()
    preview = page.context["preview"]
    assert (len(preview.file.items), preview.file.labels, preview.raters) == (12, 24, 2)
    assert [(column.name, column.role) for column in preview.columns] == [
        ("prompt", "prompt"),
        ("response_1", "response_1"),
        ("response_2", "response_2"),
        ("label", "winner"),
        ("rater", "rater"),
    ]
    assert preview.columns[0].samples == ["Why 0?", "Why 0?", "Why 1?"]
    assert preview.values == {"1": "left"}
    assert "Nothing is saved yet" in text
    for field in page.context["form"].visible_fields():
        assert f'<label for="{field.id_for_label}">' in text
    saved = again(member, page, name="Our labels")
    assert saved.url == reverse("team_labels", args=[team.slug])
    labels = LabelSet.objects.get()
    assert (labels.name, labels.team, labels.from_team, labels.kind) == (
        "Our labels",
        team,
        True,
        "pairs",
    )
    assert labels.items.count() == 12
    assert "Our labels" in member.get(saved.url).content.decode()
    entry = AuditEntry.objects.get(team=team, action="uploaded labels")
    assert (entry.subject, entry.user.username) == ("Our labels", "mia")


def test_the_same_file_is_saved_once(member: Client, team: Team) -> None:
    page = send(member, team, lines(PAIRS))
    again(member, page)
    refused = again(member, page, name="Twice")
    assert "The team already has these labels, as labels.jsonl." in refused.content.decode()
    assert (
        "already has labels called"
        in again(member, send(member, team, lines(PAIRS[:2]))).content.decode()
    )
    assert LabelSet.objects.count() == 1


def test_a_file_is_called_by_its_name_unless_another_is_given(member: Client, team: Team) -> None:
    again(member, send(member, team, lines(PAIRS), "of <b>us.jsonl"))
    assert LabelSet.objects.get().name == "of <b>us.jsonl"
    page = member.get(reverse("team_labels", args=[team.slug])).content.decode()
    assert "of &lt;b&gt;us" in page


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl", "xlsx", "parquet"])
def test_each_kind_of_file(member: Client, team: Team, ending: str) -> None:
    sheet = io.BytesIO()
    if ending == "xlsx":
        book = openpyxl.Workbook()
        for row in [list(PAIRS[0]), *(list(row.values()) for row in PAIRS)]:
            book.active.append(row)
        book.save(sheet)
    elif ending == "parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(PAIRS), sheet)
    data = {"csv": table(PAIRS), "json": json.dumps(PAIRS).encode(), "jsonl": lines(PAIRS)}
    again(member, send(member, team, data.get(ending, sheet.getvalue()), f"labels.{ending}"))
    assert LabelSet.objects.get().items.count() == 12


STRANGE = [
    {'the "question"': f"Why {n}?", "eins": "So.", "zwei": "No.", "urteil": n % 3, "id": n}
    for n in range(6)
]


def test_the_columns_of_an_unknown_file_are_chosen_and_so_are_its_values(
    member: Client, team: Team
) -> None:
    page = send(member, team, table(STRANGE), "strange.csv")
    assert "not recognised" in page.content.decode()
    assert {column.role for column in page.context["preview"].columns} == {""}
    assert page.context["preview"].columns[0].samples == ["Why 0?", "Why 1?", "Why 2?"]
    chosen = {
        choice(page, 'the "question"'): "prompt",
        choice(page, "eins"): "response_1",
        choice(page, "zwei"): "response_2",
        choice(page, "urteil"): "winner",
    }
    page = again(member, page, "preview", **chosen)
    preview = page.context["preview"]
    assert {column.name: column.role for column in preview.columns} == {
        'the "question"': "prompt",
        "eins": "response_1",
        "zwei": "response_2",
        "urteil": "winner",
        "id": "",
    }
    assert preview.values == {"0": "", "1": "left", "2": "right"}
    assert preview.bad == 2
    said = {choice(page, "0"): "left", choice(page, "1"): "right", choice(page, "2"): "tie"}
    page = again(member, page, "preview", **said)
    assert page.context["preview"].values == {"0": "left", "1": "right", "2": "tie"}
    assert not page.context["preview"].problems
    again(member, page)
    outcomes = LabelSet.objects.get().items.order_by("pk").values_list("labels__outcome", flat=True)
    assert list(outcomes) == ["left", "right", "tie"] * 2


def test_a_known_file_can_be_read_otherwise(member: Client, team: Team) -> None:
    rows = [row | {"second opinion": "tie"} for row in PAIRS]
    page = send(member, team, table(rows), "labels.csv")
    swapped = {choice(page, "label"): "", choice(page, "second opinion"): "winner"}
    page = again(member, page, "preview", **swapped)
    assert page.context["preview"].values == {"tie": "tie"}
    again(member, page)
    outcomes = LabelSet.objects.get().items.values_list("labels__outcome", flat=True)
    assert set(outcomes) == {"tie"}


def test_a_file_of_one_kind_can_become_one_of_another(member: Client, team: Team) -> None:
    rows = [{"prompt": "Why?", "chosen": "So.", "rejected": "No.", "best": "chosen", "n": 4}]
    page = send(member, team, lines(rows))
    assert page.context["preview"].title == "preference pairs"
    page = again(member, page, "preview", **{choice(page, "rejected"): ""})
    assert not page.context["preview"].title
    other = {choice(page, "chosen"): "response", choice(page, "n"): "score"}
    page = again(member, page, "preview", **other)
    assert page.context["preview"].file.kind == "scores"
    again(member, page)
    assert LabelSet.objects.get().items.get().labels.get().score == 4


def test_the_columns_are_those_by_which_a_file_is_recognised(member: Client, team: Team) -> None:
    rows = [{**row, "more, than, the, others, of, this, row": ""} for row in PAIRS]
    page = send(member, team, table(rows).replace(b",", b";").replace(b"; ", b", "), "labels.csv")
    assert [column.name for column in page.context["preview"].columns] == list(rows[0])
    page = again(member, page, "preview", **{choice(page, "rater"): ""})
    assert page.context["preview"].columns[4].role == ""
    again(member, page)
    assert LabelSet.objects.get().items.count() == 12


def test_two_columns_cannot_be_the_same(member: Client, team: Team) -> None:
    page = send(member, team, table(STRANGE), "strange.csv")
    twice = {choice(page, "eins"): "prompt", choice(page, "zwei"): "prompt"}
    page = again(member, page, **twice)
    assert "Prompt: choose one of the columns" in page.content.decode()
    assert not LabelSet.objects.exists()


def test_bad_rows_are_listed_and_skipped_only_if_asked(member: Client, team: Team) -> None:
    page = send(member, team, lines([*PAIRS, PAIRS[0] | {"label": "<i>best</i>"}]))
    assert page.context["preview"].bad == 1
    assert "labels.jsonl, line 25" in page.content.decode()
    assert "&lt;i&gt;best" in page.content.decode()
    refused = again(member, page)
    assert "Correct these rows in the file, or skip them." in refused.content.decode()
    assert not LabelSet.objects.exists()
    again(member, page, skip_bad="on")
    assert LabelSet.objects.get().items.count() == 12


def test_rows_with_a_blank_text_are_counted(member: Client, team: Team) -> None:
    page = send(member, team, lines([*PAIRS, PAIRS[0] | {"response_2": " "}]))
    assert "1 row with a blank text left out" in " ".join(page.content.decode().split())


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("labels.pdf", b"%PDF", "Choose a file that ends in .csv"),
        ("labels.csv", b"\x00\x01\x02\x03" * 99, "labels.csv"),
        ("labels.csv", "prompt,response\nWhy?,\u00fcber\n".encode("latin-1"), "UTF-8"),
        ("labels.csv", b"", "The file is empty."),
        ("labels.csv", b"a" * (AT_MOST_BYTES + 1), "the limit is"),
        ("labels.csv", b"prompt,prompt\nx,y\n", "prompt"),
        ("labels.parquet", b"PAR1" + b"x" * 99, "Parquet"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_sentence(
    member: Client, team: Team, name: str, data: bytes, sentence: str
) -> None:
    page = send(member, team, data, name)
    assert page.status_code == 200
    assert sentence in page.content.decode()
    assert "/tmp" not in page.content.decode()


def test_a_file_has_a_limited_number_of_rows(member: Client, team: Team) -> None:
    page = send(member, team, lines(PAIRS[:1] * (AT_MOST_ROWS + 1)))
    assert "labels.jsonl has more than 10,000 rows" in page.content.decode()
    assert page.context["preview"].file is None
    again(member, page)
    assert not LabelSet.objects.exists()


def test_a_previewed_file_is_only_for_the_same_person_and_team(
    member: Client, team: Team, rivals: Team
) -> None:
    key = send(member, team, lines(PAIRS)).context["form"].initial["kept"]
    for client, place in (
        (join(team, Role.MEMBER, "max"), team),
        (join(rivals, Role.MEMBER, "rita"), rivals),
    ):
        page = client.post(
            reverse("new_labels", args=[place.slug]), {"kept": key, "do": "save", "name": "mine"}
        )
        assert "no longer stored" in page.content.decode()
    assert not LabelSet.objects.exists()
