"""Teams and their members."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse

from arena.models.constraints import check, unique


class Team(models.Model):
    """People who own arenas and candidates together.

    `budget` is what the operator lets the team spend on models, in nano-dollars: the caps of its
    unfinished runs plus the cost of its finished runs never exceed it. `name_key` is the same for
    all names that read alike; null if another team already had such a name when this check was
    introduced.
    """

    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=120)
    name_key = models.CharField(max_length=64, null=True, editable=False)
    budget = models.PositiveBigIntegerField(default=0, help_text="Nano-dollars (10^-9 USD).")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [unique("team_name_once", "name_key")]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("team", args=[self.slug])


class Role(models.TextChoices):
    """A person's role in a team. Each role can do everything that the roles below it can."""

    OWNER = "owner", "Owner"
    MEMBER = "member", "Member"
    VIEWER = "viewer", "Viewer"


ROLES = [role.value for role in Role]


class Membership(models.Model):
    team = models.ForeignKey(Team, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="team_memberships"
    )
    role = models.CharField(max_length=10, choices=Role)
    notices_by_email = models.BooleanField(default=True)
    joined_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            unique("membership_once_per_team", "team", "user"),
            check("membership_role_known", Q(role__in=ROLES)),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}: {self.role}"
