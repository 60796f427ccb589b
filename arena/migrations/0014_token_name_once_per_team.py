from collections import defaultdict
from django.db import migrations, models


LONGEST_NAME = 100


def tell_apart(apps, schema_editor):
    """Of live tokens with one name the first keeps it; the others get a number behind it."""
    ApiToken = apps.get_model("arena", "ApiToken")
    taken = defaultdict(set)
    again = []
    for token in ApiToken.objects.filter(revoked_at=None).order_by("pk").only("team_id", "name"):
        if token.name in taken[token.team_id]:
            again.append(token)
        taken[token.team_id].add(token.name)
    for token in again:
        token.name = _free_name(token.name, taken[token.team_id])
        taken[token.team_id].add(token.name)
        token.save(update_fields=["name"])


def _free_name(name, taken):
    number = 2
    while (free := name[: LONGEST_NAME - len(f" {number}")] + f" {number}") in taken:
        number += 1
    return free


class Migration(migrations.Migration):
    dependencies = [
        ("arena", "0013_keys_without_leases"),
    ]

    operations = [
        migrations.RunPython(tell_apart, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="apitoken",
            constraint=models.UniqueConstraint(
                condition=models.Q(("revoked_at__isnull", True)),
                fields=("team", "name"),
                name="token_name_once_per_team",
            ),
        ),
    ]
