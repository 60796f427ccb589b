from unicodedata import normalize
from django.db import migrations, models
import hashlib


JOINERS = ("\u200c", "\u200d")


def key_names(apps, schema_editor):
    """Of teams whose names read alike the first has the key; the others keep their names."""
    Team = apps.get_model("arena", "Team")
    taken = set()
    for team in Team.objects.order_by("pk").only("name"):
        key = _key_of(team.name)
        if key not in taken:
            taken.add(key)
            Team.objects.filter(pk=team.pk).update(name_key=key)


def _key_of(name):
    bare = "".join(letter for letter in name if letter not in JOINERS)
    alike = normalize("NFKC", normalize("NFKC", bare).casefold())
    return hashlib.sha256(alike.encode("utf-8", "surrogatepass")).hexdigest()


class Migration(migrations.Migration):
    dependencies = [
        ("arena", "0014_token_name_once_per_team"),
    ]

    operations = [
        migrations.AddField(
            model_name="team",
            name="name_key",
            field=models.CharField(editable=False, max_length=64, null=True),
        ),
        migrations.RunPython(key_names, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="team",
            constraint=models.UniqueConstraint(fields=("name_key",), name="team_name_once"),
        ),
    ]
