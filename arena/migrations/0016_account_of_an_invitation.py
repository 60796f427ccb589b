from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("arena", "0015_team_name_once"),
    ]

    operations = [
        migrations.AddField(
            model_name="invitation",
            name="made_account",
            field=models.ForeignKey(
                blank=True,
                help_text="Who signed up by the link, where that takes one.",
                null=True,
                on_delete=models.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
