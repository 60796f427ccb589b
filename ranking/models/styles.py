"""How answers are written."""

from django.db import models

from arena.models import Response


class ResponseStyle(models.Model):
    """How an answer is written. Counted once, since the text of an answer does not change."""

    response = models.OneToOneField(Response, models.CASCADE, related_name="style")
    words = models.PositiveIntegerField()
    headings = models.PositiveIntegerField()
    list_items = models.PositiveIntegerField()
    bold = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.words} words"
