from django.db import migrations, models


class Migration(migrations.Migration):
    """The model comes from `ranking`; its table stays as it is."""

    dependencies = [
        ("arena", "0042_field_labels"),
        ("ranking", "0025_backups_in_arena"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="Backup",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("made_at", models.DateTimeField()),
                        ("size", models.PositiveBigIntegerField(help_text="Bytes of the file.")),
                        ("is_encrypted", models.BooleanField()),
                    ],
                    options={"db_table": "ranking_backup"},
                ),
            ],
        ),
    ]
