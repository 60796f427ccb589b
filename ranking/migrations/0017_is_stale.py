from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("ranking", "0016_help_texts")]

    operations = [migrations.RenameField("arenarefresh", "look_again", "is_stale")]
