"""Labels of teams: who knows of them, what is stored once, and what is deleted."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI, Actor
from arena.models import AuditEntry, Role, Team
from arena.services.teams import delete_team
from judges.forms import TrialForm
from judges.models import LabelSet, RubricTrial
from judges.permissions import listed_judges, listed_label_sets
from judges.services.examples import examples_from
from judges.services.label_files import LabelFile, LabelledItem
from judges.services.labels import LabelSetError, add_labels, remove_labels, upload_labels
from judges.services.registry import JudgeError
from judges.services.trials import plan_trial, start_trial
from tests.factories import make_empty_team
from tests.judges.fake_server import FakeServer
from tests.judges.helpers import epoch_of, join, make_member, stricter_files, write_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def rivals() -> Team:
    return make_empty_team(slug="rivals", name="Rivals")


def file_of(*prompts: str) -> LabelFile:
    items = [LabelledItem(p, "Yes.", "No.", "", "", "", 0, labels={"ann": "left"}) for p in prompts]
    return LabelFile(LabelSet.Kind.PAIRS, items)


def stored(team: Team, *prompts: str, name: str = "mine") -> LabelSet:
    return upload_labels(team=team, name=name, file=file_of(*(prompts or ("Why?",))), by=CLI)


def test_another_teams_upload_says_nothing_of_the_first(team: Team, rivals: Team) -> None:
    first = stored(team)
    second = stored(rivals)
    third = add_labels(file=file_of("Why?"), name="mine")
    assert len({first.pk, second.pk, third.pk}) == 3
    assert {row.name for row in LabelSet.objects.all()} == {"mine"}
    assert add_labels(file=file_of("Why?"), name="again") == third


def test_a_team_has_the_same_labels_once(team: Team) -> None:
    stored(team)
    with pytest.raises(LabelSetError, match="already has these labels, as mine"):
        stored(team, name="other")
    with pytest.raises(LabelSetError, match="already has labels called mine"):
        stored(team, "How?")
    with pytest.raises(LabelSetError, match="The name"):
        stored(team, "How?", name="\u200b")
    assert LabelSet.objects.count() == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"digest": "other", "name": "mine"},
        {"name": "other", "digest": "same"},
        {"name": "other", "digest": "other", "from_team": False},
        {"name": "other", "digest": "other", "from_arena": True},
    ],
)
def test_the_database_refuses_wrong_sets(team: Team, changed: dict[str, Any]) -> None:
    kind = {"kind": "pairs", "team": team, "from_team": True}
    LabelSet.objects.create(name="mine", digest="same", **kind)
    with pytest.raises(IntegrityError), transaction.atomic():
        LabelSet.objects.create(**(kind | changed))


@pytest.mark.parametrize("changed", [{"digest": "other"}, {"name": "other"}])
def test_the_database_refuses_the_same_of_no_team_twice(changed: dict[str, str]) -> None:
    same = {"name": "mine", "digest": "same", "kind": "pairs"}
    LabelSet.objects.create(**same)
    with pytest.raises(IntegrityError), transaction.atomic():
        LabelSet.objects.create(**(same | changed))


def tried(team: Team, labels: LabelSet) -> RubricTrial:
    write_version(team)
    version = write_version(team, after=1, texts=stricter_files())
    plan = plan_trial(version=version, judge=epoch_of().judge, source=labels, pairs=50)
    return start_trial(plan=plan, team=team, cap=None, by=CLI, now=timezone.now())


def many() -> list[str]:
    return [f"Question {number}?" for number in range(8)]


def test_only_the_team_and_operators_know_of_its_labels(
    local: FakeServer, team: Team, rivals: Team
) -> None:
    labels = stored(team, *many(), name="Hush")
    trial = tried(team, labels)
    rival, viewer = join(rivals, Role.OWNER, "rita"), join(team, Role.VIEWER, "vera")
    insider, outsider = (Actor(user=make_member(t)) for t in (team, rivals))
    assert list(listed_label_sets(insider)) == list(listed_label_sets(CLI)) == [labels]
    assert not listed_label_sets(outsider)
    assert not listed_label_sets(Actor())
    assert trial.after in listed_judges(insider)
    assert trial.after not in listed_judges(outsider)
    for name, *rest in (("team_labels",), ("new_labels",), ("rubric_trial", trial.pk)):
        assert rival.get(reverse(name, args=[team.slug, *rest])).status_code == 404
    # A team's own address does not lead to another's labels.
    assert rival.get(reverse("rubric_trial", args=[rivals.slug, trial.pk])).status_code == 404
    address = reverse("delete_labels", args=[rivals.slug, labels.pk])
    assert rival.post(address).status_code == 404
    assert "Hush" in viewer.get(reverse("team_labels", args=[team.slug])).content.decode()
    for path in ("/judges/", f"/judges/{trial.before_id}/", f"/judges/{trial.after_id}/"):
        assert "Hush" not in rival.get(path).content.decode()


def test_a_trial_offers_the_teams_labels_and_the_sites(team: Team, rivals: Team) -> None:
    own, other = stored(team), stored(rivals, name="theirs")
    of_site = add_labels(file=file_of("Where?"), name="of the site")
    of_both = Actor(user=make_member(team))
    rivals.memberships.create(user=of_both.user, role=Role.MEMBER)
    for actor in (of_both, CLI):
        offered = TrialForm(team=team, actor=actor).label_sets.values()
        assert set(offered) == {own, of_site}
        assert other not in offered


def test_examples_come_from_no_teams_labels(team: Team) -> None:
    stored(team, *many(), name="Hush")
    with pytest.raises(JudgeError, match="Known: none"):
        examples_from(name="Hush", rubric="pairwise", n=2, seed=0)


def test_an_owner_deletes_labels_on_which_nothing_depends(local: FakeServer, team: Team) -> None:
    owner = join(team, Role.OWNER, "olga")
    unused, used = stored(team), stored(team, *many(), name="used")
    tried(team, used)
    page = owner.get(reverse("team_labels", args=[team.slug])).content.decode()
    for labels in (unused, used):
        address = reverse("delete_labels", args=[team.slug, labels.pk])
        assert (address in page) == (labels == unused)
        owner.post(address)
    assert list(LabelSet.objects.all()) == [used]
    with pytest.raises(LabelSetError, match="verdicts depend"):
        remove_labels(label_set=used, by=CLI)
    entry = AuditEntry.objects.get(team=team, action="deleted labels")
    assert (entry.subject, entry.user.username) == ("mine", "olga")


def test_a_deleted_team_leaves_only_labels_that_judges_were_asked_about(
    local: FakeServer, team: Team, rivals: Team
) -> None:
    stored(team)
    used = stored(team, *many(), name="used")
    tried(team, used)
    twin = stored(rivals, *many(), name="used")
    tried(rivals, twin)
    for deleted in (team, rivals):
        delete_team(team=Team.objects.get(pk=deleted.pk), by=CLI)
    assert set(LabelSet.objects.values_list("pk", "team", "from_team")) == {
        (used.pk, None, True),
        (twin.pk, None, True),
    }
    assert not listed_label_sets(Actor())
    assert listed_label_sets(CLI).count() == 2
