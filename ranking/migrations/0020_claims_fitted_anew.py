from django.db import migrations


def mark_stale(apps, schema_editor):
    """Fewer leaders: none below a candidate that has only won against the ranked ones."""
    apps.get_model("ranking", "ArenaRefresh").objects.update(is_stale=True)


class Migration(migrations.Migration):
    dependencies = [("ranking", "0019_leaderboards_fitted_again")]

    operations = [migrations.RunPython(mark_stale, migrations.RunPython.noop)]
