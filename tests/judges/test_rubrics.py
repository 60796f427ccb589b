"""Rubrics of teams: written in versions, used by judges, exported and imported."""

import io
import zipfile

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from arena.actors import ANONYMOUS, CLI, Actor
from arena.models import AuditEntry, Team
from arena.services.teams import delete_team
from judges.core.rubric import RubricError, read_files, rubric_of, rubric_slugs
from judges.models import Judge, RubricVersion, TeamRubric
from judges.services.registry import JudgeError, register_judge, spec_named, spec_of
from judges.services.rubrics import (
    RubricRefusedError,
    StaleRubricError,
    as_zip,
    differences,
    read_zip,
    remove_rubric,
    rubric_named,
)
from tests.factories import make_empty_team, make_member, make_team
from tests.judges.helpers import rubric_files, stricter_files, write_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> Team:
    return make_team(name="Acme")


@pytest.mark.parametrize("slug", rubric_slugs())
def test_a_template_is_the_same_rubric_as_its_folder(team: Team, slug: str) -> None:
    version = write_version(team, texts=rubric_files(slug))
    folder = rubric_of(slug, read_files(slug))
    assert version.digest == folder.digest
    mine = rubric_named("acme/support", Actor(user=team.memberships.get().user))
    assert (mine.slug, mine.system, mine.note) == ("acme/support.1", folder.system, folder.note)


def test_each_version_is_another_judge_and_each_judge_keeps_its_version(team: Team) -> None:
    write_version(team)
    first = register_judge(spec=spec_named("scripted@acme/support", by=CLI)).judge
    write_version(team, after=1, texts=stricter_files(), reason="It was lenient.")
    second = register_judge(spec=spec_named("scripted@acme/support", by=CLI)).judge
    assert first.name == "scripted:scripted-1@acme/support.1"
    assert second.name == "scripted:scripted-1@acme/support.2"
    assert (first.rubric_version.number, second.rubric_version.number) == (1, 2)
    assert spec_of(first).digest == first.digest
    assert "Be strict." not in spec_of(first).rubric.system
    assert "Be strict." in spec_of(second).rubric.system
    for judge in (first, second):
        assert register_judge(spec=spec_named(judge.name, by=CLI)).judge == judge


def test_another_team_finds_neither_the_rubric_nor_its_judges(team: Team) -> None:
    write_version(team)
    judge = register_judge(spec=spec_named("scripted@acme/support", by=CLI)).judge
    other = Actor(user=make_member(make_empty_team()).user)
    for by in (other, ANONYMOUS):
        for name in ("scripted@acme/support", judge.name):
            with pytest.raises(JudgeError, match="There is no rubric called 'acme/support"):
                spec_named(name, by=by)
    viewer = Actor(user=make_member(team, "viewer").user)
    assert spec_named(judge.name, by=viewer).digest == judge.digest


def test_two_teams_with_the_same_files_have_two_judges(team: Team) -> None:
    other = make_team(name="Other")
    for each in (team, other):
        write_version(each)
    digests = {spec_named(f"scripted@{t.slug}/support", by=CLI).digest for t in (team, other)}
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"user.md": "{prompt}"}, "the placeholder {answer_a} is missing"),
        ({"system.md": "no"}, "{nonce} is missing|how_to_reply"),
        ({"rubric.toml": "title = "}, "rubric.toml is not TOML"),
        ({"rubric.toml": f"title = {'[' * 5000}"}, "lists too deep|not TOML"),
        ({"rubric.toml": f"title = {'9' * 5000}"}, "number that is too long"),
        ({"note.md": "{prompt} {nonce}"}, "does not say note = true"),
        ({"user.md": "\0"}, "user.md contains a NUL byte"),
        ({"user.md": "x" * 20_001}, "the limit is 20,000"),
        ({"user.md": "\n" * 1001}, "user.md has 1,001 lines; the limit is 1,000"),
    ],
)
def test_a_wrong_rubric_is_refused_where_it_is_written(
    team: Team, changed: dict[str, str], sentence: str
) -> None:
    with pytest.raises(RubricRefusedError, match=sentence):
        write_version(team, texts=rubric_files() | changed)
    assert not TeamRubric.objects.exists()
    assert not AuditEntry.objects.filter(action="wrote a rubric").exists()


@pytest.mark.parametrize(
    "parameters",
    [
        "max_tokens = 1.5",
        "max_tokens = 0",
        "max_tokens = 10000000000",
        "temperature = nan",
        "temperature = inf",
        f"top_p = 1{'0' * 400}",
        "seed = 0.5",
    ],
)
def test_parameters_that_no_server_takes_are_refused(team: Team, parameters: str) -> None:
    texts = rubric_files()
    toml = texts["rubric.toml"].partition("[parameters]")[0] + f"[parameters]\n{parameters}\n"
    with pytest.raises(RubricRefusedError, match="the parameter"):
        write_version(team, texts=texts | {"rubric.toml": toml})


@pytest.mark.parametrize(
    "scale", ["low = 0\nhigh = 1e308\nstep = 1e-300", f"low = 0\nhigh = 1{'0' * 400}\nstep = 0.5"]
)
def test_a_scale_of_huge_numbers_is_refused(team: Team, scale: str) -> None:
    texts = rubric_files("score-1-4")
    toml = f'title = "T"\nprotocol = "direct"\ncriteria = "C"\n[scale]\n{scale}\n'
    with pytest.raises(RubricRefusedError, match=r"too large|do not divide"):
        write_version(team, texts=texts | {"rubric.toml": toml})


@pytest.mark.parametrize("slug", ["new", "tie", "Upper", "a/b", "", "-a", "a" * 41, "a.1"])
def test_an_address_is_a_plain_word_that_nothing_else_has(team: Team, slug: str) -> None:
    with pytest.raises(RubricRefusedError) as refused:
        write_version(team, slug)
    assert refused.value.field == "slug"


def test_saving_twice_writes_one_version(team: Team) -> None:
    assert write_version(team) == write_version(team)
    assert write_version(team, after=1, texts=stricter_files()) == write_version(
        team, after=1, texts=stricter_files()
    )
    assert RubricVersion.objects.count() == 2
    with pytest.raises(RubricRefusedError, match="Version 1 has the same files"):
        write_version(team, after=2)


def test_nobody_overwrites_a_version_that_they_have_not_seen(team: Team) -> None:
    write_version(team)
    write_version(team, after=1, texts=stricter_files())
    with pytest.raises(StaleRubricError, match="Version 2 was written while") as stale:
        write_version(team, after=1, texts=stricter_files("Be kind."))
    write_version(team, after=stale.value.newest, texts=stricter_files("Be kind."))
    with pytest.raises(RubricRefusedError, match="already has a rubric called support"):
        write_version(team, texts=stricter_files("Be new."))


def test_what_must_never_be_is_a_constraint(team: Team) -> None:
    version = write_version(team)
    facts = {"rubric": version.rubric, "toml": "a", "system": "b", "user": "c"}
    wrong = [
        lambda: TeamRubric.objects.create(team=team, slug="support"),
        lambda: TeamRubric.objects.create(team=team, slug="tie"),
        lambda: RubricVersion.objects.create(number=1, digest="other", **facts),
        lambda: RubricVersion.objects.create(number=2, digest=version.digest, **facts),
        lambda: RubricVersion.objects.create(number=0, digest="other", **facts),
        lambda: Judge.objects.create(
            name="j", protocol="pairwise", digest="d", rubric="plain", rubric_version=version
        ),
    ]
    for write_it in wrong:
        with pytest.raises(IntegrityError), transaction.atomic():
            write_it()
    version.user = "other"
    with pytest.raises(ValueError, match="immutable"):
        version.save()


def test_a_version_that_was_tampered_with_is_another_rubric(team: Team) -> None:
    version = write_version(team)
    judge = register_judge(spec=spec_named("scripted@acme/support", by=CLI)).judge
    RubricVersion.objects.filter(pk=version.pk).update(user=f"{version.user} Prefer A.")
    judge = Judge.objects.get(pk=judge.pk)
    assert spec_of(judge).digest != judge.digest


def test_only_a_rubric_that_no_judge_uses_is_deleted(team: Team) -> None:
    used, unused = write_version(team), write_version(team, "other")
    register_judge(spec=spec_named("scripted@acme/support", by=CLI))
    remove_rubric(rubric=unused.rubric, by=CLI)
    with pytest.raises(RubricRefusedError, match="1 judge used this rubric"):
        remove_rubric(rubric=used.rubric, by=CLI)
    assert list(RubricVersion.objects.all()) == [used]


def test_a_judge_outlives_the_team_that_wrote_its_rubric(team: Team) -> None:
    write_version(team)
    write_version(team, "unused")
    judge = register_judge(spec=spec_named("scripted@acme/support", by=CLI)).judge
    delete_team(team=team, by=CLI)
    assert [rubric.slug for rubric in TeamRubric.objects.all()] == ["support"]
    judge = Judge.objects.get(pk=judge.pk)
    assert spec_of(judge).digest == judge.digest
    assert spec_named(judge.name, by=CLI).digest == judge.digest
    with pytest.raises(JudgeError, match="no rubric called"):
        spec_named(judge.name, by=ANONYMOUS)


def test_the_difference_of_two_versions_names_the_files_and_lines(team: Team) -> None:
    before, now = write_version(team), write_version(team, after=1, texts=stricter_files())
    (changed,) = differences(before, now)
    assert changed.file == "system.md"
    assert ("+", "Be strict.") in changed.lines
    assert not [kind for kind, _ in changed.lines if kind == "-"]


@pytest.mark.parametrize("slug", ["pairwise", "pairwise-note"])
def test_an_exported_rubric_is_imported_as_the_same_files(team: Team, slug: str) -> None:
    version = write_version(team, texts=rubric_files(slug))
    folder, texts = read_zip(as_zip(version))
    assert (folder, texts) == ("support", rubric_files(slug))
    assert as_zip(version) == as_zip(version)
    assert write_version(make_team(name="Other"), texts=texts).digest == version.digest


def zipped(**entries: bytes | str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 nothing",
        zipped(),
        zipped(**{"a/rubric.toml": "x", "b/system.md": "y"}),
        zipped(**{"a/../../etc/user.md": "x"}),
        zipped(**{"a/evil.py": "x"}),
        zipped(**{"user.md": b"\xff\xfe"}),
        zipped(**{"user.md": "y", "rubric.toml": "t"})[:-30],
    ],
)
def test_what_is_no_rubric_is_not_imported(content: bytes) -> None:
    with pytest.raises(RubricRefusedError):
        read_zip(content)


def test_a_zip_bomb_is_not_unpacked(team: Team) -> None:
    _, texts = read_zip(zipped(**{"user.md": "x" * 50_000_000}))
    assert len(texts["user.md"]) < 100_000
    with pytest.raises(RubricRefusedError, match="the limit is 20,000"):
        write_version(team, texts=rubric_files() | texts)


def test_no_rubric_stops_a_command(team: Team) -> None:
    """Not even one that an earlier release accepted and this one refuses."""
    version = write_version(team)
    RubricVersion.objects.filter(pk=version.pk).update(user="nothing")
    with pytest.raises(RubricError, match=r"acme/support\.1: .*is missing"):
        rubric_named("acme/support", CLI)
    call_command("check")
