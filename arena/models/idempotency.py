"""Requests that may be sent twice and are carried out once."""

from django.db import models
from django.db.models.functions import Now


class IdempotentRequest(models.Model):
    """A POST with an Idempotency-Key, and the answer that every repetition of it gets.

    `owner` is who asks (`token:5`, `user:7`), `fingerprint` two digests: of method, path
    and body, and of what whoever asked might do then. `status` is null while the first request is
    at work, which nobody else ever sees: the row is committed together with its answer.
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
            models.UniqueConstraint(fields=["owner", "key"], name="idempotency_key_once_per_owner"),
        ]
        indexes = [models.Index(fields=["created_at"], name="idempotent_request_by_age")]

    def __str__(self) -> str:
        return f"{self.owner} {self.key}"
