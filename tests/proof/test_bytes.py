"""The API's description, every form's HTML and every export's header, byte for byte as written in
`expected/`. What a failing test found is in the file that it names."""

import csv
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django import forms
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from arena.actors import CLI, Actor
from arena.forms import arenas, candidates, prompts
from arena.forms import base as runs
from arena.forms import teams as of_teams
from arena.models import Arena, Candidate, Prompt, Rater, Response, Role
from arena.services.exports import export_arena
from judges import exports as judgements
from judges import forms as judging
from ranking import exports
from ranking.api.votes import BattleForm
from ranking.models import Raters
from tests.factories import NOW, make_candidate, make_empty_team, make_member, make_user, make_votes

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
EXPECTED = Path(__file__).parent / "expected"


@pytest.fixture
def compare(tmp_path: Path) -> Callable[[str, str], None]:
    def compare(name: str, text: str) -> None:
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert text == (EXPECTED / name).read_text(encoding="utf-8"), tmp_path / name

    return compare


@pytest.fixture
def arena() -> Arena:
    """An arena with one of everything in it, in which all fields are filled in."""
    # Ids of its own, whatever tests ran before: they are in the forms' choices.
    team = make_empty_team(pk=900_001, slug="search", name="Search")
    make_member(team, Role.OWNER, make_user("ada", pk=900_002))
    arena = Arena.objects.create(slug="proof", name="Proof", team=team, open_answers=True)
    config: dict[str, Any] = {
        "endpoint": "scripted",
        "model": "scripted-1",
        "variant": "short",
        "system_prompt": "Be brief.",
        "user_template": "{{ prompt }}",
        "parameters": {"temperature": 0, "stop": ["END"]},
        "notes": "A note.",
        "organisation": "Example Labs",
        "licence": "MIT",
        "link": "https://example.org/",
    }
    one = make_candidate(arena, "one", pk=900_003, **config)
    two = make_candidate(arena, "two", pk=900_004, **config)
    prompt = Prompt.objects.create(
        arena=arena,
        external_id="p1",
        category="maths",
        text="1 + 1?",
        reference="2",
        rubric="Right?",
        variables={"customer": "Ada"},
    )
    for candidate in (one, two):
        Response.objects.create(
            candidate=candidate,
            prompt=prompt,
            text=f"{candidate.name}!",
            tokens_in=1,
            tokens_out=2,
            seconds=0.5,
            cost=10,
        )
    rater = Rater.objects.create(kind=Rater.Kind.PERSON)
    make_votes(
        arena, [(one, two, "left", prompt)], rater, seconds=3, channel="browser", cast_at=NOW
    )
    return arena


def all_forms(arena: Arena) -> dict[str, Callable[..., forms.BaseForm]]:
    team, now = arena.team, NOW
    assert team is not None

    def version(*data: Any) -> forms.BaseForm:
        return candidates.VersionForm(*data, arena=arena, now=now)

    return {
        "archive": arenas.ArchiveForm,
        "arena": arenas.ArenaForm,
        "vote order": lambda *data: arenas.VoteOrderForm(*data, team=team),
        "version": version,
        "candidate": lambda *data: candidates.CandidateForm(
            *data, arena=arena, now=now, teams=[None, team]
        ),
        "candidate of one team": lambda *data: candidates.CandidateForm(
            *data, arena=arena, now=now, teams=[team]
        ),
        "upload": prompts.UploadForm,
        "add prompts": prompts.AddPromptsForm,
        "upload answers": prompts.UploadAnswersForm,
        "prompt": prompts.PromptForm,
        "filter": lambda *data: prompts.FilterForm(*data, arena=arena),
        "import": prompts.ImportForm,
        "cap": runs.CapForm,
        "steer": runs.SteerForm,
        "team": of_teams.TeamForm,
        "role": of_teams.RoleForm,
        "invitation": of_teams.InvitationForm,
        "token": of_teams.TokenForm,
        "webhook": of_teams.WebhookForm,
        "budget": of_teams.TeamBudgetForm,
        "criteria": judging.CriteriaForm,
        "order": lambda *data: judging.OrderForm(*data, arena=arena, actor=Actor()),
        "honeypot": lambda *data: judging.HoneypotForm(*data, actor=CLI),
        "baseline": judging.BaselineForm,
        "battle": BattleForm,
    }


def test_every_form_is_in_the_list(arena: Arena) -> None:
    """Forms of accounts follow django-allauth's, and the admin's are Django's."""

    def below(form: type[Any]) -> set[type[Any]]:
        return {form, *(inner for one in form.__subclasses__() for inner in below(one))}

    own = {
        form
        for form in below(forms.BaseForm)
        if form.__module__.split(".")[0] in ("arena", "ranking", "judges")
        and form.__module__ not in ("arena.forms.accounts", "arena.admin")
        and form is not runs.RowForm
    }

    assert own == {type(make()) for make in all_forms(arena).values()}


def test_forms(arena: Arena, compare: Callable[[str, str], None]) -> None:
    html = []
    candidate = Candidate.objects.order_by("pk")[0]
    for name, make in all_forms(arena).items():
        html += [f"== {name}", make().as_p(), f"== {name}, sent empty", make({}).as_p()]
    html += [
        "== version of a candidate",
        candidates.VersionForm(instance=candidate, arena=arena, now=NOW).as_p(),
        "== settings of an arena",
        arenas.ArenaForm(instance=arena).as_p(),
        "== a prompt",
        prompts.PromptForm(instance=Prompt.objects.get()).as_p(),
    ]

    compare("forms.html", "\n".join(html))


def test_the_description_of_the_api(compare: Callable[[str, str], None]) -> None:
    out = io.StringIO()
    call_command("spectacular", stdout=out)

    compare("openapi.yaml", out.getvalue())


def first_keys(lines: bytes) -> list[str]:
    return list(json.loads(lines.splitlines()[0]))


def test_headers_of_exports(
    arena: Arena, tmp_path: Path, compare: Callable[[str, str], None]
) -> None:
    heads: dict[str, Any] = {}
    for name, export in {**exports.EXPORTS, **judgements.EXPORTS}.items():
        heads[name] = dict(export.columns)
        if "csv" in export.formats:
            text = b"".join(exports.write_file(export, "csv", arena, CLI)).decode()
            heads[f"{name}.csv"] = next(csv.reader(io.StringIO(text)))
    export_arena(arena=arena, target=tmp_path / "arena.zip")
    with zipfile.ZipFile(tmp_path / "arena.zip") as archive:
        for name in archive.namelist():
            content = archive.read(name)
            one_line = name.endswith(".jsonl")
            heads[name] = first_keys(content) if one_line else list(json.loads(content))
    call_command("refresh_boards")
    results = Client().get(reverse("board_csv", args=[arena.slug])).content.decode()
    heads["results.csv"] = next(csv.reader(io.StringIO(results)))
    board = Client().get(reverse("board_json", args=[arena.slug])).json()
    for name, value in board.items():
        inner = value[0] if isinstance(value, list) and value else value
        heads[f"results.json {name}"] = list(inner) if isinstance(inner, dict) else None
    heads["raters"] = list(Raters.values)

    compare("exports.json", json.dumps(heads, indent=1) + "\n")
