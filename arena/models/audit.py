"""The audit log of a team."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from arena.models.constraints import index
from arena.models.teams import Team
from arena.models.tokens import ApiToken


class AuditEntry(models.Model):
    """Who did what for a team, and when. Append-only; names outlive their accounts."""

    team = models.ForeignKey(Team, models.CASCADE, related_name="audit_entries")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    token = models.ForeignKey(ApiToken, models.SET_NULL, null=True, blank=True, related_name="+")
    by = models.CharField(max_length=200, help_text="Their name at the time.")
    action = models.CharField(max_length=60, help_text="As in 'registered a candidate'.")
    subject = models.CharField(max_length=300, blank=True)
    details = models.JSONField(default=dict, blank=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "audit entries"
        indexes = [index("audit_newest_of_team", "team", "-id")]

    def __str__(self) -> str:
        return f"{self.by} {self.action}: {self.subject}"
