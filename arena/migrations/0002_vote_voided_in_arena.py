"""An index for the sweep of the boards, which asks every two seconds what was voided lately."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("arena", "0001_initial")]

    operations = [
        migrations.AddIndex(
            model_name="vote",
            index=models.Index(
                fields=["arena", "voided_at"],
                condition=models.Q(voided_at__isnull=False),
                name="vote_voided_in_arena",
            ),
        ),
    ]
