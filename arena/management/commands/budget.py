"""`manage.py budget TEAM DOLLARS`: how much a team may spend on models."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.access import COMMAND
from arena.calls.money import dollars
from arena.management.amounts import amount_in_nano
from arena.models import Team
from arena.services.budgets import committed_by
from arena.services.teams import set_budget


class Command(BaseCommand):
    help = "Let a team spend so many dollars on models, all told; without an amount, say how much."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("team", help="As its address names it: /teams/TEAM/.")
        parser.add_argument("dollars", nargs="?", help="As in 25 or 12.50; 0 stops new runs.")

    def handle(self, *args: Any, **options: Any) -> None:
        team = Team.objects.filter(slug=options["team"]).first()
        if team is None:
            raise CommandError(f"There is no team {options['team']}.")
        if options["dollars"] is not None:
            budget = amount_in_nano(options["dollars"], "The budget")
            team = set_budget(team=team, budget=budget, by=COMMAND)
        spent = dollars(committed_by(team))
        self.stdout.write(f"{team} may spend {dollars(team.budget)}; {spent} of it is taken.")
