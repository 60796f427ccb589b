"""Claims that were decided, and stay so."""

from django.db import models
from django.db.models import F, Q

from arena.models import Candidate
from arena.models.constraints import check, unique
from ranking.models.boards import Board


class KeptClaim(models.Model):
    """What was first decided about two named candidates by a board's votes.

    `claim` is about `second`, compared with `first`. It holds as long as the votes up to
    `last_vote` that it was made from, of which `votes` is a digest, all count.
    """

    board = models.ForeignKey(Board, models.CASCADE, related_name="kept_claims")
    first = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    second = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    claim = models.JSONField()
    last_vote = models.BigIntegerField()
    votes = models.CharField(max_length=64)
    decided_at = models.DateTimeField()

    class Meta:
        constraints = [
            unique("kept_claim_once_per_pair", "board", "first", "second"),
            check("kept_claim_of_two_in_order", Q(first__lt=F("second"))),
        ]

    def __str__(self) -> str:
        return f"{self.second_id} against {self.first_id} on board {self.board_id}"
