"""What ranking does when the arena announces something, or when a page's facts change."""

from collections.abc import Collection
from typing import Any

from django.apps import AppConfig
from django.db import connection
from django.db.models.signals import post_delete, post_migrate, post_save
from django.dispatch import receiver

from arena.models import Arena, Candidate, Team
from arena.signals import answers_changed, arena_created, votes_changed
from ranking import doorbell
from ranking.models import Board, BoardPage
from ranking.services import boards


@receiver(votes_changed)
def ring_for_votes(arena_id: int, reason: str = "vote", **_: Any) -> None:
    """A cast vote has a new id, which the sweep finds by itself: its request writes nothing here.
    Reveals, voids and trust change what older rows count for, so that another look is noted."""
    if reason != "vote":
        boards.look_again(arena_id=arena_id)
    doorbell.ring(arena_id)


@receiver(arena_created)
def open_first_board(arena_id: int, **_: Any) -> None:
    boards.open_arena(arena_id=arena_id)
    doorbell.ring(arena_id)


@receiver(answers_changed)
def drop_pages_of_answers(arena_id: int, **_: Any) -> None:
    """What answers cost and how long they take stands on the boards; no score changes with it."""
    boards.drop_pages(arena_id=arena_id)


@receiver(post_save, sender=Arena)
def drop_pages_of_arena(instance: Arena, created: bool, **_: Any) -> None:
    if not created:
        boards.drop_pages(arena_id=instance.pk)


@receiver(post_save, sender=Team)
def drop_pages_of_team(
    instance: Team, created: bool, update_fields: Collection[str] | None = None, **_: Any
) -> None:
    """A team's name stands on the boards of all arenas that it has entered."""
    if created or (update_fields is not None and "name" not in update_fields):
        return
    entered = Arena.objects.filter(candidates__team=instance).distinct()
    for arena_id in entered.values_list("pk", flat=True):
        boards.drop_pages(arena_id=arena_id)


@receiver([post_save, post_delete], sender=Candidate)
def drop_pages_of_candidate(instance: Candidate, **_: Any) -> None:
    boards.drop_pages(arena_id=instance.arena_id, look_again=True)


@receiver([post_save, post_delete], sender=Board)
def drop_pages_of_board(instance: Board, **_: Any) -> None:
    """Its settings were edited, or it is gone: the numbers that are shown are not its own."""
    boards.drop_pages(arena_id=instance.arena_id, look_again=True)


@receiver(post_migrate)
def drop_pages_of_an_older_release(sender: AppConfig, **_: Any) -> None:
    """Every start of a new release migrates; what the old one's templates made goes with it."""
    if (
        sender.name == "ranking"
        and BoardPage._meta.db_table in connection.introspection.table_names()
    ):
        boards.drop_all_pages()
