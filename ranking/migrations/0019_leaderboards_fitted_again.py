from django.db import migrations


def mark_stale(apps, schema_editor):
    """Some leaders are none: an archived candidate, or one that others cannot be compared with."""
    apps.get_model("ranking", "ArenaRefresh").objects.update(is_stale=True)


class Migration(migrations.Migration):
    dependencies = [("ranking", "0018_leaderboards_fitted_anew")]

    operations = [migrations.RunPython(mark_stale, migrations.RunPython.noop)]
