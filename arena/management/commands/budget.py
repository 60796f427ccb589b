"""`manage.py budget TEAM [DOLLARS]`: show or set what a team may spend on models."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.actors import CLI
from arena.calls.money import dollars, doubt_in_words
from arena.models import Team
from arena.services.budgets import committed_by, set_budget, uncertain_of
from arena.validation import dollars_argument


class Command(BaseCommand):
    help = "Set the total that a team may spend on models; without an amount, show it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("team", help="the team's slug, as in /teams/SLUG/")
        parser.add_argument(
            "dollars",
            nargs="?",
            type=dollars_argument,
            help="for example 25 or 12.50; 0 stops new runs",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        team = Team.objects.filter(slug=options["team"]).first()
        if team is None:
            raise CommandError(f"There is no team {options['team']}.")
        if options["dollars"] is not None:
            budget = options["dollars"]
            team = set_budget(team=team, budget=budget, by=CLI)
        uncertain = uncertain_of(team)
        spent = dollars(committed_by(team) - uncertain)
        self.stdout.write(
            f"{team} may spend {dollars(team.budget)}; {spent} of it is spent or reserved"
            f"{doubt_in_words(uncertain)}."
        )
