"""Requests with an Idempotency-Key."""

from django.db import models
from django.db.models.functions import Now

from arena.models.constraints import index, unique


class IdempotentRequest(models.Model):
    """A POST with an Idempotency-Key, and the reply that every repetition gets.

    `owner` is the caller (`token:5`, `user:7`); `fingerprint` holds two digests: of method, path
    and body, and of the caller's rights at the time. `status` is null only inside the transaction
    of the first request: the row is committed together with its reply.
    """

    owner = models.CharField(max_length=40)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    body = models.BinaryField(default=bytes)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            unique("idempotency_key_once_per_owner", "owner", "key"),
        ]
        indexes = [index("idempotent_request_by_age", "created_at")]

    def __str__(self) -> str:
        return f"{self.owner} {self.key}"
