from django.db import migrations


class Migration(migrations.Migration):
    """The model moves to `arena` (0043_backups), which keeps its table."""

    dependencies = [("ranking", "0024_votes_are_read")]

    operations = [
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel("Backup")]),
    ]
