"""Epochs name the version of the prompts that their judge was asked with."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("judges", "0025_experiments")]

    operations = [
        migrations.AddField(
            "epoch",
            "prompt_version",
            models.PositiveSmallIntegerField(
                db_default=1,
                help_text="The version of the prompts, and of how they show prompts and answers.",
            ),
        ),
    ]
