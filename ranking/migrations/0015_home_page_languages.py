"""The home page is stored once for each language. What was stored before is made anew."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ranking", "0014_verified_people")]

    operations = [
        migrations.DeleteModel("HomePage"),
        migrations.CreateModel(
            name="HomePage",
            fields=[
                (
                    "language",
                    models.CharField(max_length=10, primary_key=True, serialize=False),
                ),
                ("n_arenas", models.PositiveIntegerField()),
                ("newest", models.BigIntegerField()),
                ("epochs", models.BigIntegerField()),
                ("etag", models.CharField(max_length=70)),
                ("body", models.BinaryField()),
            ],
        ),
    ]
