"""A judge's sets of drift checks have the name that the pages use; their tables keep theirs."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("judges", "0006_decisions_numbered")]

    operations = [
        migrations.RenameModel("Canary", "DriftCheckSet"),
        migrations.AlterModelTable("DriftCheckSet", "judges_canary"),
        migrations.RenameModel("CanaryCheck", "DriftCheck"),
        migrations.AlterModelTable("DriftCheck", "judges_canarycheck"),
    ]
