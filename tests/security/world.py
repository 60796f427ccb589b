"""A team's arena with something at each of its addresses, and every kind of caller."""

from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from arena.actors import CLI, Actor
from arena.models import (
    ApiToken,
    Arena,
    Candidate,
    LiveConversation,
    Membership,
    ModelEndpoint,
    Role,
    Run,
    Team,
    Webhook,
)
from arena.services import comparisons, live
from arena.services.checks import add_check
from arena.services.invitations import create_invitation
from arena.services.raters import rater_of_name
from arena.services.tokens import create_token
from judges.models import Experiment, Judgement, LabelSet, RubricTrial, RunJudge
from judges.services.label_files import LabelFile, LabelledItem
from judges.services.labels import add_labels
from judges.services.registry import register_judge, spec_named
from ranking.models import Audience
from ranking.services import exports
from tests.factories import make_arena, make_candidate, make_empty_team, make_person
from tests.judges.helpers import order, work_off, write_version
from tests.ranking.helpers import fill, publish

PEOPLE = ("nobody", "stranger", "viewer", "member", "owner", "operator")
TOKENS = {
    "reads": ["read"],
    "submits": ["submit"],
    "judges": ["judge"],
    "all": ["read", "submit", "judge"],
    "another": ["read", "submit", "judge"],
}
CALLERS = (*PEOPLE, *TOKENS)
OUTSIDE = ("nobody", "stranger", "another")
GUESTS = ("guest", "guest's token")
SECRET_NAME = "secret-recipe"


@dataclass
class World:
    """An arena of the team; `at` maps each word of an address to its object."""

    team: Team
    arena: Arena
    at: dict[str, Any]
    callers: dict[str, Client] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)


def make_world(visibility: str = "public") -> World:
    """Votes on a board, runs of judges and of answers, pairs that wait, and a team's own things."""
    team = make_empty_team(slug="the-team", name="The team")
    blind = {"open_answers": False, "visibility": visibility}
    arena = make_arena(2, 2, slug="the-arena", team=team, **blind)
    fill(arena, rounds=1)
    snapshot = publish(arena)
    run = work_off(order(arena, "scripted", per_pair=1))
    candidate = arena.candidates.order_by("pk")[0]
    answers = Run.objects.create(
        arena=arena, kind=Run.Kind.ANSWERS, candidate=candidate, team=team, state="done"
    )
    named = rater_of_name(arena=arena, name="anna", now=timezone.now())
    prompt = arena.prompts.order_by("pk")[0]
    world = World(team, arena, {})
    world.at = {
        "a": arena.slug,
        "arenas": arena.slug,
        "teams": team.slug,
        "candidates": candidate.pk,
        "badge": candidate.pk,
        "language": "fr",
        "prompts": prompt.pk,
        "prompts external_id": prompt.external_id,
        "checks": add_check(arena=arena, by=CLI, kind="contains", expected="Hush").pk,
        "comparisons": arena.votes.order_by("pk")[0].comparison.key,
        "vote": issued(arena, make_person()),
        "rounds": 1,
        "api comparisons": issued(arena, named),
        "exports": "battles.parquet",
        "judge-exports": "judgements.jsonl",
        "prompt-exports": "promptfoo-tests.jsonl",
        "boards": snapshot.board_id,
        "snapshots": snapshot.pk,
        "runs": run.pk,
        "cancel_order votes": Run.objects.create(kind="person", arena=arena, state="done").pk,
        "trial_run runs": trial().pk,
        "trial_verdict runs": trial().pk,
        "mark_trial runs": trial().pk,
        "judge-runs": run.pk,
        "verdicts": Judgement.objects.filter(run=run)[0].pk,
        "rubrics": trial_of_rubric(arena).version.rubric.slug,
        "versions": 1,
        "trials": RubricTrial.objects.get().pk,
        "labels": LabelSet.objects.get().pk,
        "disagreements": arena.slug,
        "judges": RunJudge.objects.get(run=run).epoch.judge_id,
        "answers": answers.pk,
        "answer-runs": answers.pk,
        "live": question_in(arena).key,
        "models": ModelEndpoint.objects.create(
            name="house", provider="openai", base_url="http://127.0.0.1:9/v1"
        ).name,
        "experiments": experiment_in(arena).arena.slug,
        "drafts": Experiment.objects.get().drafts[0].pk,
        "address": "nobodys-key",
        "invited": "nobodys-key",
        "webhooks": Webhook.objects.create(
            team=team, url="https://hooks.example.org/", salt="s" * 32
        ).pk,
    }
    draft = draft_of_experiment(arena)
    world.at |= {"experiments": draft.arena.slug, "drafts": draft.pk}
    world.callers = everybody(world)
    owner = team.memberships.filter(role=Role.OWNER)[0].user
    invitation, secret = create_invitation(
        team=team, role="member", note="", by=Actor(user=owner), now=timezone.now()
    )
    world.at |= {"invitations": invitation.pk, "invitations secret": secret}
    export_votes(world)
    world.at["members"] = team.memberships.get(role=Role.VIEWER).pk
    world.at["tokens"] = ApiToken.objects.filter(team=team)[0].pk
    return world


def trial() -> Run:
    """A run on labelled items, outside arenas, without verdicts yet."""
    run = Run.objects.create(kind=Run.Kind.JUDGE)
    epoch = register_judge(spec=spec_named("scripted:scripted-2"))
    RunJudge.objects.create(run=run, epoch=epoch)
    return run


def draft_of_experiment(origin: Arena) -> Candidate:
    """The draft of an experiment that nobody has started, in an arena of its own."""
    arena = Arena.objects.create(
        slug="x-k3v9q2fd", name="Trial", team=origin.team, origin=origin, visibility="private"
    )
    copy = make_candidate(arena, "concise")
    draft = make_candidate(arena, "greeting", system_prompt="Hush: greet people.")
    Experiment.objects.create(
        arena=arena,
        baseline=origin.candidates.order_by("pk")[0],
        copy=copy,
        used_at=timezone.now(),
    )
    return draft


def trial_of_rubric(arena: Arena) -> RubricTrial:
    """A rubric of the arena's team, tried with a judge."""
    assert arena.team is not None
    version = write_version(arena.team)
    before = register_judge(spec=spec_named("scripted:scripted-2"))
    after = register_judge(spec=spec_named(f"scripted:scripted-2@{version.name}", by=CLI))
    item = LabelledItem("Question 0?", "Yes.", "No.", "", "", "", 0, labels={"ann": "left"})
    file = LabelFile(LabelSet.Kind.PAIRS, [item])
    labels_in = add_labels(file=file, name="Hush: labels", team=arena.team)
    return RubricTrial.objects.create(
        version=version, before=before.judge, after=after.judge, labels_in=labels_in, pairs=10
    )


def question_in(arena: Arena) -> LiveConversation:
    """A live question that nobody shares."""
    names = [{"name": f"scripted-{n}", "model": f"scripted-{n}"} for n in (1, 2)]
    live.set_up_live(
        arena=arena,
        by=CLI,
        now=timezone.now(),
        limit=10,
        voters=Arena.Voters.ANYONE,
        refused_words="",
        candidates=[Candidate(endpoint="scripted", **name) for name in names],
    )
    return live.ask(
        arena=Arena.objects.get(live_of=arena),
        rater=make_person(),
        question="Hush: what is asked live?",
        key=uuid4(),
        shared=False,
        now=timezone.now(),
        also=0,
    )


def experiment_in(origin: Arena) -> Experiment:
    """An experiment of the team with two drafts, which nobody has measured."""
    arena = make_arena(
        0, 2, slug="x-the-experiment", team=origin.team, origin=origin, visibility="private"
    )
    copy = make_candidate(arena, "in production")
    for name in ("first", "second"):
        make_candidate(arena, name)
    return Experiment.objects.create(
        arena=arena,
        baseline=origin.candidates.order_by("pk")[0],
        copy=copy,
        used_at=timezone.now(),
    )


def issued(arena: Arena, rater: Any) -> Any:
    """The key of a comparison that waits for `rater`."""
    found = comparisons.next_comparison(arena=arena, rater=rater, now=timezone.now())
    assert found is not None
    return found.key


def undisclosed(arena: Arena) -> Candidate:
    """A candidate of the arena's team that the public knows only by a number."""
    return make_candidate(
        arena,
        SECRET_NAME,
        team=arena.team,
        system_prompt="Hush: the recipe.",
        disclosed_at=None,
        private_until_votes=1000,
    )


def everybody(world: World) -> dict[str, Client]:
    """A browser for each person, signed in where they have an account, and a program per token."""
    make = get_user_model().objects.create_user
    people = {"stranger": make("stranger"), "operator": make("operator", is_staff=True)}
    for role in Role.values:
        people[role] = make(role)
        Membership.objects.create(team=world.team, user=people[role], role=role)
    another = make_empty_team(slug="another-team", name="Another team")
    clients = {"nobody": Client()}
    for name, person in people.items():
        clients[name] = Client()
        clients[name].force_login(person)
    for name, scopes in TOKENS.items():
        team = another if name == "another" else world.team
        by = Actor(user=people["owner"])
        _, secret = create_token(team=team, name=name, scopes=scopes, by=by)
        clients[name] = Client(headers={"Authorization": f"Bearer {secret}"})
        world.secrets[name] = secret
    return clients


def export_votes(world: World) -> None:
    """A change of the arena's settings ends its files."""
    asked = {"arena": world.arena, "name": "battles.csv", "audience": Audience.PUBLIC}
    world.at["files"] = exports.request(**asked).key


def welcome_guests(world: World) -> dict[str, dict[str, Any]]:
    """Open the arena to teams; one brings a candidate that is disclosed and one that is not.

    Returns what stands behind the words of each one's addresses; its run of answers is over.
    """
    world.arena.open_to_teams = True
    world.arena.save()
    guests = make_empty_team(slug="guests", name="Guests")
    person = get_user_model().objects.create_user("guest")
    Membership.objects.create(team=guests, user=person, role=Role.MEMBER)
    world.callers["guest"] = Client()
    world.callers["guest"].force_login(person)
    _, secret = create_token(team=guests, name="guest", scopes=TOKENS["all"], by=Actor(user=person))
    world.callers["guest's token"] = Client(headers={"Authorization": f"Bearer {secret}"})
    of_guests: dict[str, Any] = {"arena": world.arena, "team": guests}
    hidden: dict[str, Any] = {"disclosed_at": None, "private_until_votes": 1000}
    brought = {
        "disclosed": Candidate.objects.create(name="guest", **of_guests),
        "undisclosed": Candidate.objects.create(name="other", **of_guests, **hidden),
    }
    export_votes(world)
    return {kind: _at(world, candidate) for kind, candidate in brought.items()}


def _at(world: World, candidate: Candidate) -> dict[str, Any]:
    run = Run.objects.create(
        arena=world.arena,
        kind=Run.Kind.ANSWERS,
        candidate=candidate,
        team=candidate.team,
        state="done",
    )
    return world.at | {"candidates": candidate.pk, "answers": run.pk, "answer-runs": run.pk}
