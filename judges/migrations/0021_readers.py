"""Epochs name the reader of their replies; judges that exist know fewer schemas."""

from django.db import migrations, models
from django.db.models import OuterRef, Subquery


def fill_digests(apps, schema_editor):
    judge, epoch = apps.get_model("judges", "Judge"), apps.get_model("judges", "Epoch")
    digests = judge.objects.filter(pk=OuterRef("judge")).values("digest")[:1]
    epoch.objects.update(digest=Subquery(digests))


class Migration(migrations.Migration):
    dependencies = [("judges", "0020_decisions_by_claims")]

    operations = [
        migrations.AddField(
            "judge",
            "schema",
            models.BooleanField(
                db_default=False,
                default=True,
                help_text="Every reply is held to a JSON schema, where the server can.",
            ),
        ),
        migrations.AddField(
            "epoch",
            "digest",
            models.CharField(
                blank=True,
                db_default="",
                help_text="The judge's digest in this epoch.",
                max_length=64,
            ),
        ),
        migrations.AddField(
            "epoch",
            "reader",
            models.CharField(
                blank=True,
                db_default="",
                help_text="The digest of what read its replies; empty before readers had one.",
                max_length=64,
            ),
        ),
        migrations.RunPython(fill_digests, migrations.RunPython.noop),
    ]
