"""The operators' first day: the steps to the first judge run, and to a site for others."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode, urlsplit

from django.db.models import Q, QuerySet
from django.urls import reverse

from arena.calls.models import Call, Capability
from arena.calls.money import dollars
from arena.calls.prices import known_models
from arena.endpoints import all_endpoints
from arena.models import Arena, Team
from arena.site import delivers_mail, site_url, team_budget
from arena.validation import join_names
from judges.services.runs import runs_of_judges
from ranking.health import BACKUP_LATE_AFTER, LOCAL, last_backup_at

SCRIPTED = "scripted"
SAMPLE = "sample"


@dataclass(frozen=True)
class SetupStep:
    """Something an operator does once: whether it is done, and where. `other` is another way."""

    title: str
    is_done: bool
    state: str
    link: str = ""
    action: str = ""
    other_link: str = ""
    other_action: str = ""


@dataclass(frozen=True)
class FirstDay:
    """The steps to the first judge run, and those before others are let in."""

    steps: list[SetupStep]
    later: list[SetupStep]

    @property
    def is_over(self) -> bool:
        return all(step.is_done for step in self.steps)

    @property
    def next_step(self) -> SetupStep | None:
        return next((step for step in self.steps if not step.is_done), None)


def first_day(now: datetime) -> FirstDay:
    return FirstDay(steps=_steps_to_first_run(), later=_steps_before_others_come(now))


def _steps_to_first_run() -> list[SetupStep]:
    real = [(where, model) for where, model in known_models() if where != SCRIPTED]
    servers = all_endpoints().keys() - {SCRIPTED}
    tested = Capability.objects.filter(endpoint__in=servers)
    works = tested.filter(Q(probed_at__isnull=False) | Q(tested_at__isnull=False, test_error=""))
    answered = Call.objects.filter(run__in=runs_of_judges(), state=Call.State.DONE)
    answered = answered.exclude(endpoint=SCRIPTED)
    models = reverse("operators_models")
    return [
        SetupStep(
            "Add a model",
            bool(real),
            join_names(f"{model} at {where}" for where, model in real)
            or ("No model has a price yet." if servers else "It answers prompts and judges."),
            models,
            "Add a model",
            _order_link(f"{SCRIPTED}:{SCRIPTED}-1", "scripted"),
            "Look around with a scripted stand-in",
        ),
        SetupStep(
            "Test it",
            works.exists(),
            "One question, and its answer." if not works.exists() else "It answers.",
            models,
            "Test it",
        ),
        SetupStep(
            "Start a judge run",
            answered.exists(),
            "It has judged."
            if answered.exists()
            else "The model compares the answers of an arena. You see the price first.",
            _order_link(":".join(_first_that_works(real, works)), "model") if real else "",
            "Get a quote",
        ),
    ]


def _first_that_works(
    models: list[tuple[str, str]], works: QuerySet[Capability]
) -> tuple[str, str]:
    tested = set(works.values_list("endpoint", "model"))
    return next((model for model in models if model in tested), models[0])


def _order_link(model: str, parameter: str) -> str:
    """Return the order page of the sample arena, or else of the first one, for this model."""
    arenas = Arena.objects.listed().order_by("pk")
    slugs = list(arenas.values_list("slug", flat=True))
    if not slugs:
        return ""
    slug = SAMPLE if SAMPLE in slugs else slugs[0]
    return f"{reverse('order_run', args=[slug])}?{urlencode({parameter: model})}"


def _steps_before_others_come(now: datetime) -> list[SetupStep]:
    address, here = urlsplit(site_url()), reverse("operators_settings")
    sends_mail = delivers_mail()
    without_budget = Team.objects.filter(budget=0).count()
    backup = last_backup_at()
    return [
        SetupStep(
            "Address of the site",
            address.hostname not in LOCAL,
            site_url(),
            here,
            "Set the address",
        ),
        SetupStep(
            "HTTPS",
            address.scheme == "https",
            "The site’s address begins with https."
            if address.scheme == "https"
            else "Docker Compose gets the certificate by itself: see “Operate Ringside” in the"
            " documents.",
        ),
        SetupStep(
            "Mail",
            sends_mail,
            "Mail is sent." if sends_mail else "Mail is printed in the server’s log.",
            f"{here}#mail",
            "Set a mail server",
        ),
        SetupStep(
            "Budget of new teams",
            team_budget() > 0,
            f"{dollars(team_budget())}; teams without one: {without_budget}.",
            f"{here}#budgets",
            "Set budgets",
        ),
        SetupStep(
            "Backup",
            bool(backup and now - backup <= BACKUP_LATE_AFTER),
            f"The last one is from {backup:%Y-%m-%d %H:%M}." if backup else "No backup yet.",
            f"{reverse('operators_health')}#backups",
            "Backups",
        ),
    ]
