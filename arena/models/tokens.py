"""API tokens of a team."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from arena.models.constraints import check, unique
from arena.models.teams import Team


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def live(self) -> "ApiTokenQuerySet":
        return self.filter(revoked_at=None)


class ApiToken(models.Model):
    """A secret that lets a program act for a team. Only its digest and prefix are stored.

    `scopes` are some of read, submit and judge.
    """

    team = models.ForeignKey(Team, models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    can_read = models.BooleanField(default=True)
    can_submit = models.BooleanField(default=False)
    can_judge = models.BooleanField(default=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        verbose_name = "API token"
        constraints = [
            check(
                "token_may_do_something", Q(can_read=True) | Q(can_submit=True) | Q(can_judge=True)
            ),
            unique("token_name_once_per_team", "team", "name", where=Q(revoked_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}...)"

    @property
    def scopes(self) -> list[str]:
        allowed = {"read": self.can_read, "submit": self.can_submit, "judge": self.can_judge}
        return [scope for scope, may in allowed.items() if may]
