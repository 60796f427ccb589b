"""Attack a copy of an arena's human votes in memory: what it would cost, and how much is held."""

from argparse import ArgumentParser
from typing import Any

import numpy as np
from django.core.management.base import BaseCommand, CommandError

from arena.management.terminal import find_arena
from arena.models import Candidate
from arena.validation import percent
from ranking.services.anomalies import read
from ranking.stats.anomalies import Cast, find, held_raters
from ranking.stats.robustness import ATTACKS, fewest_votes, rank_of, with_attack

SIZES = (50, 100, 200, 500, 1000, 2000, 5000)


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("arena", help="the arena's address")
        parser.add_argument("--target", help="the candidate to raise; by default the last one")
        parser.add_argument("--seed", type=int, default=0)

    def handle(self, *args: Any, **options: Any) -> None:
        arena = find_arena(options["arena"], hidden_too=True)
        examined = read(arena)
        # An attacker does not have to outweigh votes that do not count.
        cast = examined.cast.where(examined.is_counted).with_others(examined.in_files)
        names = Candidate.objects.in_bulk(examined.candidates.tolist())
        labels = [str(names[pk]) for pk in examined.candidates.tolist()]
        if len(labels) < 2:
            raise CommandError("No human votes compare two candidates here yet.")
        target = self._target(labels, options["target"], cast)
        self.stdout.write(
            f"{len(cast.rater):,} votes by {len(np.unique(cast.rater)):,} raters; the target is"
            f" {labels[target]}. Nothing is written."
        )
        rng = np.random.default_rng(options["seed"])
        for attack in ATTACKS:
            self._attack(attack, cast, target, len(labels), rng)
        self._robustness(cast, labels)

    def _target(self, labels: list[str], name: str | None, cast: Cast) -> int:
        if name is None:
            ranks = [rank_of(number, cast, len(labels)) for number in range(len(labels))]
            return int(np.argmax(ranks))
        if name not in labels:
            raise CommandError(f"There is no candidate {name!r}.")
        return labels.index(name)

    def _attack(
        self, attack: str, cast: Cast, target: int, n_candidates: int, rng: np.random.Generator
    ) -> None:
        """Print the smallest attack that makes the target number one, and how much of it is
        held."""
        for n_votes in SIZES:
            attacked = with_attack(attack, cast, target, n_candidates, n_votes, rng)
            if rank_of(target, attacked, n_candidates) == 1:
                break
        else:
            self.stdout.write(f"{attack}: {n_votes:,} votes are not enough to make it number one.")
            return
        held = held_raters(find(attacked, n_candidates))
        is_rigged = attacked.rater >= cast.n_raters
        is_held = np.isin(attacked.rater, list(held))
        n_honest = sum(rater < cast.n_raters for rater in held)
        rank = rank_of(target, attacked.where(~is_held), n_candidates)
        n_raters = attacked.n_raters - cast.n_raters
        self.stdout.write(
            f"{attack}: {n_votes:,} votes by {n_raters:,} raters make it number one. "
            f"{percent(is_held[is_rigged].mean())} of them are held, and so are those of "
            f"{n_honest:,} honest raters; it then has rank {rank}."
        )

    def _robustness(self, cast: Cast, labels: list[str]) -> None:
        ranks = [rank_of(number, cast, len(labels)) for number in range(len(labels))]
        first, second = int(np.argmin(ranks)), ranks.index(2) if 2 in ranks else None
        if second is None:
            self.stdout.write("Two candidates share first place, so one vote decides.")
            return
        for change in ("dropping", "adding", "flipping"):
            n = fewest_votes(change, cast, first, second, len(labels))
            number = f"{n:,} vote{'' if n == 1 else 's'}" if n else "no number of votes"
            self.stdout.write(
                f"By {change}, {number} between {labels[first]} and {labels[second]} would put"
                f" {labels[second]} first."
            )
