"""A team with rows of every kind, for tests of its audit log."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI, Actor
from arena.models import (
    ApiToken,
    Arena,
    Candidate,
    Invitation,
    Membership,
    Prompt,
    Role,
    Run,
    Team,
    Vote,
    Webhook,
)
from arena.services import invitations, runs, tokens, webhooks
from arena.services.runs import order_run
from judges.models import Experiment, LabelSet, RubricVersion
from judges.services import experiments
from judges.services.label_files import LabelFile, LabelledItem
from judges.services.labels import upload_labels
from judges.services.orders import prepare_order
from judges.services.planning import OrderOptions
from judges.services.registry import spec_named
from tests.arena.generation import order as order_answers
from tests.factories import make_arena, make_empty_team, make_variant, make_vote
from tests.judges.helpers import write_version

NOW = timezone.now()
HOOK = "https://hooks.example.org/"


@dataclass
class Stage:
    """A team with an arena, its owner, and an operator who looks in."""

    team: Team
    owner: User
    operator: User
    arena: Arena
    now: datetime = NOW

    @property
    def by(self) -> Actor:
        return Actor(user=self.owner)

    @property
    def candidate(self) -> Candidate:
        """The team's own, which has answered every prompt."""
        return self.arena.candidates.order_by("pk")[0]

    def variant(self, **fields: Any) -> Candidate:
        """A candidate that is not in use yet."""
        made_of = {"endpoint": "scripted", "model": "scripted-1"} | fields
        return make_variant(team=self.team, arena=self.arena, **made_of)

    def membership(self) -> Membership:
        """The owner's."""
        return Membership.objects.get(team=self.team, user=self.owner)

    def join(self, role: str = Role.MEMBER) -> Membership:
        return Membership.objects.create(
            team=self.team, user=User.objects.create_user("mary"), role=role
        )

    def invite(self) -> Invitation:
        return invitations.create_invitation(
            team=self.team, role=Role.MEMBER, note="", by=self.by, now=self.now
        )[0]

    def token(self) -> ApiToken:
        return tokens.create_token(team=self.team, name="CI", scopes=["read"], by=self.by)[0]

    def webhook(self) -> Webhook:
        return webhooks.add_webhook(team=self.team, url=HOOK, by=self.by)

    def vote(self, **fields: Any) -> Vote:
        left, right = self.arena.candidates.order_by("pk")
        return make_vote(self.arena, left, right, "left", **fields)

    def answers(self) -> Run:
        return order_answers(self.variant(), by=self.by)

    def judgements(self) -> Run:
        wanted = OrderOptions(1, "all")
        order = prepare_order(arena=self.arena, specs=[spec_named("scripted")], options=wanted)
        return order_run(order=order, cap=None, by=self.by, now=self.now)

    def rubric(self) -> RubricVersion:
        return write_version(self.team, by=self.by)

    def labels(self) -> LabelSet:
        item = LabelledItem("Why?", "So.", "No.", "", "", "", 0, labels={"": "left"})
        file = LabelFile(LabelSet.Kind.PAIRS, [item])
        return upload_labels(team=self.team, name="ours", file=file, by=self.by)

    def experiment(self) -> Experiment:
        """One draft, on five prompts."""
        Prompt.objects.bulk_create(
            Prompt(arena=self.arena, external_id=f"new-{n}", text=f"New question {n}?")
            for n in range(3)
        )
        draft = {"name": "draft", "endpoint": "scripted", "model": "scripted-1"}
        return experiments.create_experiment(
            origin=self.arena, baseline=self.candidate, by=self.by, now=self.now, drafts=[draft]
        )

    def started(self, experiment: Experiment) -> Experiment:
        plan = experiments.MeasurementPlan(["scripted:scripted-1@pairwise"], own_family=True)
        return experiments.start_experiment(
            experiment=experiment, plan=plan, by=self.by, now=self.now
        )

    def draft(self) -> Candidate:
        return Experiment.objects.get().drafts.get()

    def paused(self, run: Run) -> Run:
        runs.pause(run=run, by=CLI)
        run.refresh_from_db()
        return run

    def choose(self, model: str, action: str, row: Any) -> None:
        """Have the operator run an action on a row in the admin."""
        client = Client()
        client.force_login(self.operator)
        sent = {"action": action, "_selected_action": [row.pk]}
        answer = client.post(reverse(f"admin:arena_{model}_changelist"), sent)
        assert answer.status_code == 302, answer.content.decode()


def set_stage() -> Stage:
    """An arena with two candidates and two prompts, all answered."""
    team = make_empty_team(slug="acme", name="Acme", budget=10**12)
    owner = User.objects.create_user("ann")
    Membership.objects.create(team=team, user=owner, role=Role.OWNER)
    return Stage(team, owner, User.objects.create_superuser("boss"), make_arena(2, 2, team=team))
