"""Stored pages, as they are served."""

from django.db import models
from django.db.models import Count, F, Max, Q, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from arena.models import Arena
from arena.models.constraints import unique


class BoardPageQuerySet(models.QuerySet["BoardPage"]):
    def fresh(self, slug: str, key: str) -> "BoardPageQuerySet":
        """The stored page of a public or unlisted arena, unless the arena has changed since."""
        private = Q(arena__visibility=Arena.Visibility.PRIVATE)
        return self._current().filter(~private, arena__slug=slug, key=key)

    def fresh_of_board(self, board: int, key: str) -> "BoardPageQuerySet":
        """The stored page of the public arena that a board belongs to.

        A board's id can be guessed, so it must not lead to a page of an unlisted arena.
        """
        public = Q(arena__visibility=Arena.Visibility.PUBLIC)
        return self._current().filter(public, arena__boards=board, key=key)

    def of_arena(self, arena: Arena, key: str) -> "BoardPageQuerySet":
        """The stored page of any arena; the caller has checked access to the arena."""
        return self._current().filter(arena=arena, key=key)

    def _current(self) -> "BoardPageQuerySet":
        return self.filter(epoch=F("arena__refresh__page_epoch"))


class BoardPage(models.Model):
    """A page of a board as it is served: gzip bytes and their ETag.

    It is served only while its epoch is the arena's. Publishing advances the epoch, so a page with
    older numbers is never served, even if it is stored late.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="board_pages")
    key = models.CharField(max_length=200)
    epoch = models.PositiveIntegerField()
    etag = models.CharField(max_length=70)
    body = models.BinaryField()

    objects = BoardPageQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("board_page_once", "arena", "key"),
        ]

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.key}"


class HomePageQuerySet(models.QuerySet["HomePage"]):
    def state(self) -> dict[str, int]:
        """What changes whenever an arena, or a page of one, does."""
        newest = Arena.objects.aggregate(
            n_arenas=Count("pk"),
            newest=Coalesce(Max("pk"), 0),
            epochs=Coalesce(Sum("refresh__page_epoch"), 0),
        )
        return {name: int(value) for name, value in newest.items()}

    def fresh(self, language: str) -> "HomePageQuerySet":
        """The stored page in a language, unless an arena has changed since."""
        arenas = Arena.objects.order_by().values(all=Value(1))
        return self.filter(
            language=language,
            n_arenas=Subquery(arenas.annotate(n=Count("pk")).values("n")),
            newest=Subquery(arenas.annotate(n=Max("pk")).values("n")),
            epochs=Subquery(arenas.annotate(n=Coalesce(Sum("refresh__page_epoch"), 0)).values("n")),
        )


class HomePage(models.Model):
    """The home page for people who are not signed in, one row per language: gzip bytes and their
    ETag.

    It is served only while the arenas are in the state that was read before it was made.
    """

    language = models.CharField(max_length=10, primary_key=True)
    n_arenas = models.PositiveIntegerField()
    newest = models.BigIntegerField()
    epochs = models.BigIntegerField()
    etag = models.CharField(max_length=70)
    body = models.BinaryField()

    objects = HomePageQuerySet.as_manager()

    def __str__(self) -> str:
        return f"home page of {self.n_arenas} arenas ({self.language})"
