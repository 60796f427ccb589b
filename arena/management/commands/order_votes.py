"""`manage.py order_votes SLUG --per-pair N [--rater USER]`: request human votes for every pair."""

from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.actors import CLI
from arena.management.terminal import find_arena, find_candidate
from arena.models import Rater
from arena.services.orders import order_people_run
from arena.services.raters import rater_of_person


class Command(BaseCommand):
    help = "Request N human votes for every pair of candidates. A worker opens and closes the run."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the arena's slug")
        parser.add_argument("--per-pair", type=int, required=True, help="votes for each pair")
        parser.add_argument(
            "--rater",
            action="append",
            default=[],
            metavar="USER",
            help="ask only this person; with several, each of them votes on every pair",
        )
        parser.add_argument(
            "--candidate",
            action="append",
            default=[],
            metavar="CANDIDATE",
            help="ask only about pairs of these: a name (of the newest version) or an id",
        )
        parser.add_argument(
            "--hide-names",
            action="store_true",
            help="hide the candidates' names from these raters until all of them have voted",
        )
        parser.add_argument(
            "--repeats",
            type=int,
            default=0,
            help="the number of pairs to ask each rater about twice; requires --hide-names",
        )

    def handle(self, *args: Any, slug: str, per_pair: int, **options: Any) -> None:
        arena = find_arena(slug)
        try:
            run = order_people_run(
                arena=arena,
                per_pair=per_pair,
                by=CLI,
                raters=[_rater_named(name) for name in options["rater"]],
                candidates={
                    find_candidate(arena, name_or_id).pk for name_or_id in options["candidate"]
                },
                hides_names=options["hide_names"],
                repeats=options["repeats"],
            )
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        self.stdout.write(
            f"Run {run.pk}: {run.votes_wanted} votes requested. Raters at /a/{slug}/vote/ get these"
            " pairs first; the page shows the progress."
        )


def _rater_named(name: str) -> Rater:
    user = get_user_model().objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"There is no user {name!r}.")
    return rater_of_person(user_id=user.pk)
